"""Writes docs/schemes.md, docs/repairs.md and their figures from docstrings and the functions.

Run from the repository's root: python docs/generate.py
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import torch

from longreach import REPAIRS, SCHEMES, Extension, Repair, Spectrum
from longreach.repairs import Effect, effect, option_names
from longreach.report.charts import rounded
from longreach.report.figures import fewer_digits
from longreach.report.theme import looks
from longreach.schemes.base import Shape
from longreach.schemes.t5_bias import bucket
from longreach.show import chart, plot
from longreach.show.spectrum import Sheet
from longreach.spectrum import decay

sys.path.insert(0, str(Path(__file__).parent))  # docs/ is no package.
from formula import formulas, without_formula

DOCS = Path(__file__).parent
FIGURES = DOCS / "figures"
HEAD_DIM, BASE, TRAINED, TARGET = 64, 10_000.0, 2048, 8192
HEADS = 8
SHOWN = (0, 10, 20, 31)
"""The pairs whose speed an example prints."""
EXAMPLES = {
    "base": "base:base=500000",
    "longrope": f"longrope:long_factor={[1] * 20 + [2] * 2 + [4] * 10}".replace(" ", ""),
}
"""Repairs that need options, as the page applies them. A search finds better lists."""

SCHEMES_HEAD = f"""\
# Position schemes

*Made from the docstrings by `docs/generate.py`. The figures are drawn by the functions that the
models run.*

A scheme tells attention where tokens are, through three hooks: it adds to the embeddings, turns
queries and keys, or adds to the logits. These are in the table `SCHEMES`;
[adding one](extend-scheme.md) is a file and a line. How far each reaches is
[measured](results.md), not promised.

In the formulas p is the position of a token (of the query, where there are two) and j that of the
key, i a pair of dimensions, d the dimensions of a head. Figures are for {HEADS} heads of
{HEAD_DIM} dimensions.
"""

REPAIRS_HEAD = f"""\
# Repairs

*Made from the docstrings by `docs/generate.py`. The figures are drawn by the functions themselves,
and a test runs every formula beside its function.*

A repair changes how fast the pairs of a trained RoPE model turn, so that it reaches further. Each
is a pure function of a spectrum and an extension. What it costs and wins on a model of yours can
be [measured](measuring.md); how each engine is told is what
[`longreach prescribe`](clinic.md) says.

In the formulas, of pair i of n: &theta; its speed in training (radians per token), r how often it
turned in training, *kept* the share of its speed that the repair leaves it. T is the trained
length, L the target, and s the factor, L / T unless another is given; *left* is how far a pair is
left alone, from 0 to 1, and *clip* holds a number between two others. *Amplitude* multiplies cos
and sin, so logits by its square.

The figures and examples are of {HEAD_DIM} dimensions ({HEAD_DIM // 2} pairs), base {BASE:,.0f},
trained at {TRAINED:,} tokens and asked for {TARGET:,}. A hollow mark is a pair that still passes
the largest angle that it met in training.

![Speed that four repairs leave each pair](figures/repair-all.svg)
"""


# Words


def prose(docstring: str | None, options: Iterable[str]) -> str:
    """A docstring as Markdown: options as a list, papers as links; times and powers stay signs."""
    known = set(options)
    lines: list[str] = []
    for line in without_formula(docstring).splitlines():
        # "a, b: what they are", and a second one in the same line.
        parts = re.split(r"(?<=\.) (?=[a-z_]+: )", line) if is_option(line, known) else [line]
        for part in parts:
            if is_option(part, known):
                names, _, rest = part.partition(": ")
                names = ", ".join(f"`{name}`" for name in names.split(", "))
                lines.append(f"- {names}: {rest}")
            elif part.startswith("    "):
                lines.append(f"  {part.strip()}")
            else:
                lines.append(part)
    text = re.sub(r"(?<= )\*+(?= )", lambda sign: sign[0].replace("*", r"\*"), "\n".join(lines))
    return re.sub(r"arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def is_option(line: str, known: set[str]) -> bool:
    """Whether a line of a docstring tells what options are."""
    names, colon, _ = line.partition(": ")
    return bool(colon) and set(names.split(", ")) <= known


def formula_block(docstring: str | None) -> str:
    """The formula as a block that the site typesets, and that reads as it is elsewhere."""
    when, lines = formulas(docstring)
    intro = f"The formula{when}:\n\n" if when else ""
    return f"{intro}```formula\n" + "\n".join(lines) + "\n```"


def defaults(called: Callable[..., Any]) -> str:
    """What options are unless given, as a paragraph; nothing where the text has to say it."""
    options = [
        each
        for each in inspect.signature(called).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    ]
    needed = [f"`{each.name}`" for each in options if each.default is each.empty]
    given = [
        f"`{each.name}` is {json.dumps(each.default)}"
        for each in options
        if each.default is not each.empty and each.default is not None
    ]
    said = [f"Must be given: {', '.join(needed)}."] if needed else []
    said += [f"Unless given: {', '.join(given)}."] if given else []
    return " ".join(said) + "\n\n" if said else ""


# Pages


def example(name: str) -> Repair:
    """The repair as the page applies it."""
    return Repair.parse(EXAMPLES.get(name, name))


def repairs_page() -> str:
    """docs/repairs.md."""
    parts = [REPAIRS_HEAD]
    for name, repair in REPAIRS.items():
        parts += [
            f"## {name}\n",
            prose(repair.__doc__, option_names(name)) + "\n",
            formula_block(repair.__doc__) + "\n",
            defaults(repair)
            + f"![Speed that {name} leaves each pair](figures/repair-{name}.svg)\n",
            repair_example(name),
        ]
    return "\n".join(parts)


def repair_example(name: str) -> str:
    """A block that applies the repair, and what it prints."""
    plain, reach = Spectrum.rope(HEAD_DIM, BASE), Extension(TRAINED, TARGET)
    made = example(name).apply(plain, reach)
    shown = made.speed_kept[list(SHOWN)].round(4)
    return f"""\
```python
from longreach import Extension, Repair, Spectrum

repair = Repair.parse("{EXAMPLES.get(name, name)}")
made = repair.apply(Spectrum.rope({HEAD_DIM}), Extension({TRAINED}, {TARGET}))
print(made.speed_kept[{list(SHOWN)}].round(4))
#> {shown}
print(f"{{made.amplitude:.4f}}, {{made.unseen(Extension({TRAINED}, {TARGET})).sum()}} pairs unseen")
#> {made.amplitude:.4f}, {made.unseen(reach).sum()} pairs unseen
```
"""


def schemes_page() -> str:
    """docs/schemes.md."""
    parts = [SCHEMES_HEAD]
    drawn = scheme_figures()
    for name in SCHEMES:
        scheme = SCHEMES[name]
        options = [
            each.name
            for each in inspect.signature(scheme).parameters.values()
            if each.kind is each.KEYWORD_ONLY
        ]
        made = scheme(shape())
        limit = made.limit
        parts += [
            f"## {name}\n",
            prose(scheme.__doc__, options) + "\n",
            formula_block(scheme.__doc__) + "\n",
            defaults(scheme)
            + "Positions that it can represent: "
            + ("any." if limit is None else f"as many as it was trained with ({limit:,} here).")
            + (" Serves an encoder too." if scheme.bidirectional else "")
            + "\n",
        ]
        if name in drawn:
            parts.append(f"![{drawn[name][1]}](figures/scheme-{name}.svg)\n")
    return "\n".join(parts)


def shape() -> Shape:
    """What the figures' schemes serve."""
    return Shape(width=HEADS * HEAD_DIM, heads=HEADS, head_dim=HEAD_DIM, trained_length=TRAINED)


# Figures


def repair_figures() -> dict[str, tuple[dict[str, Any], str]]:
    """By name: a Vega-Lite spec and what it shows in words."""
    plain, reach = Spectrum.rope(HEAD_DIM, BASE), Extension(TRAINED, TARGET)
    found = {}
    chosen = {"all": ["linear", "ntk", "yarn", "llama3"], **{name: [name] for name in REPAIRS}}
    for label, names in chosen.items():
        effects = [effect_of(name) for name in names]
        sheet = Sheet(plain, BASE, TRAINED, reach, effects)
        found[label] = (chart.speeds(sheet) | small(), chart.description(sheet))
    return found


def effect_of(name: str) -> Effect:
    """What a repair does at the page's lengths."""
    return effect(example(name), Spectrum.rope(HEAD_DIM, BASE), Extension(TRAINED, TARGET))


def scheme_figures() -> dict[str, tuple[dict[str, Any], str]]:
    """By scheme: a Vega-Lite spec and what it shows, for those with something to draw untrained."""
    distances = torch.arange(0, 257)
    alibi = SCHEMES["alibi"](shape()).bias(distances[-1:], distances.flip(0))
    assert alibi is not None
    zeros = torch.zeros(1, 129, HEADS * HEAD_DIM)
    rows = SCHEMES["sinusoidal"](shape()).embed(zeros, torch.arange(129))[0]
    far = np.unique(np.geomspace(1, TARGET, 240).round())
    aligned = decay(Spectrum.rope(HEAD_DIM, BASE), far)
    return {
        "sinusoidal": lines(
            {f"dimension {each}": rows[:, each].tolist() for each in (0, 60, 120, 180)},
            list(range(129)),
            "position (tokens)",
            "added to the embedding",
            "What sinusoidal positions add to four dimensions, by position",
        ),
        "rope": lines(
            {"alignment": aligned.tolist()},
            far.tolist(),
            "distance (tokens)",
            "alignment of a vector with itself",
            "How well a vector stays aligned with itself when RoPE turns it: it falls, and swings",
            log=True,
        ),
        "alibi": lines(
            {f"head {head + 1}": alibi[head, 0].tolist() for head in range(HEADS)},
            distances.tolist(),
            "distance (tokens)",
            "added to the logit (nats)",
            "What ALiBi adds to the logit in each head, by distance",
        ),
        "t5_bias": lines(
            {"bucket": bucket(distances).tolist()},
            distances.tolist(),
            "distance (tokens)",
            "bucket",
            "The bucket of each distance: one each at first, then ever wider, the last without end",
        ),
    }


def lines(
    curves: dict[str, list[float]],
    places: list[float],
    x: str,
    y: str,
    description: str,
    *,
    log: bool = False,
) -> tuple[dict[str, Any], str]:
    """A line for each curve."""
    names = list(curves)
    _, dashes = looks(len(names))
    points = [
        {"x": place, "y": rounded(value), "curve": name}
        for name, values in curves.items()
        for place, value in zip(places, values, strict=True)
    ]
    legend = alt.Legend(orient="bottom", title=None, columns=4) if len(names) > 1 else None
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(nice=False)
    ticks = chart.ticks(min(places), max(places)) if log else alt.Undefined
    drawn = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", scale=scale, axis=alt.Axis(title=x, values=ticks, format="d")),
            y=alt.Y("y:Q", axis=alt.Axis(title=y, tickCount=5)),
            color=alt.Color("curve:N", scale=alt.Scale(domain=names), legend=legend),
            strokeDash=alt.StrokeDash(
                "curve:N", scale=alt.Scale(domain=names, range=dashes), legend=legend
            ),
        )
    )
    return chart.finished(drawn) | small(), description


def small() -> dict[str, Any]:
    """How large a figure of these pages is, in pixels."""
    return {"width": 560, "height": 200, "padding": 8}


def stamp(spec: dict[str, Any]) -> str:
    """Says what a drawing was made from: pixels depend on the fonts of a machine, this does not."""
    text = json.dumps(told(spec), sort_keys=True)
    return f"<!-- spec {hashlib.sha256(text.encode()).hexdigest()[:16]} -->"


def told(value: Any) -> Any:
    """The spec with numbers to six digits: the last bits of a sine differ between machines."""
    if isinstance(value, dict):
        # Altair names data by a digest of all their digits.
        return {
            "data" if key.startswith("data-") else key: told(each)
            for key, each in value.items()
            if key != "name"
        }
    if isinstance(value, list):
        return [told(each) for each in value]
    return rounded(value)


def figures() -> dict[Path, tuple[dict[str, Any], str]]:
    """Every figure: where it lies, its spec, and what it shows."""
    found = {FIGURES / f"repair-{name}.svg": made for name, made in repair_figures().items()}
    found |= {FIGURES / f"scheme-{name}.svg": made for name, made in scheme_figures().items()}
    return found


def pages() -> dict[Path, str]:
    """Every page, as it should be."""
    return {DOCS / "schemes.md": schemes_page(), DOCS / "repairs.md": repairs_page()}


def main() -> None:
    """Writes them."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    for path, (spec, description) in figures().items():
        svg = fewer_digits(plot.drawn(spec, path.stem, description))
        path.write_text(f"{svg}{stamp(spec)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
