"""The plot of a Sheet: wavelengths and lengths, and the speed that repairs keep, pair by pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import floor, log10
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from ..report.theme import SHAPES, looks
from ..spectrum import Spectrum
from . import plot
from .spectrum import Sheet, numbered

WIDTH = 720  # pixels of the files; the page takes the width that there is
HEIGHT = 300
LONGEST_NAME = 34
"""Characters of a repair in the legend; options beyond are cut."""
MARKS = 64
"""Pairs with a mark each, at most; with more, marks would run into one another."""
NOTE = {"anchor": "start", "fontSize": 12, "fontWeight": "normal", "offset": 10}
FEW = 10
"""Pairs from which on not every one has its number at the axis."""
Rows = Sequence[Mapping[str, Any]]
"""Data of a chart."""
KINDS = ["completes a turn in training", "never completes a turn in training"]


def draw(sheet: Sheet, path: Path) -> None:
    """Writes the plot, whole or not at all, in the form that the suffix names.

    Raises InputError for a suffix other than .svg, .png, .html, or a folder that is not there.
    """
    plot.write(path, lambda: svg(sheet), lambda: page(sheet))


def svg(sheet: Sheet) -> str:
    """Both panels, one above the other."""
    found = [panel | {"width": WIDTH} for panel in panels(sheet)]
    if any(each.unseen for each in sheet.effects):
        found[-1]["title"] = NOTE | {"text": "hollow: still unseen at the target length"}
    apart = ("color", "shape")
    together = {
        # Altair names data, and names are looked up at the top alone.
        "datasets": {name: rows for panel in found for name, rows in panel.pop("datasets").items()},
        "vconcat": found,
        "resolve": {"scale": dict.fromkeys(apart, "independent")},
        "title": {"text": title(sheet), "anchor": "start", "fontWeight": "normal", "offset": 14},
        "spacing": 34,
        "padding": 12,
    }
    return plot.drawn(together, "spectrum", description(sheet))


def page(sheet: Sheet) -> str:
    """One HTML file that holds all it shows, and asks nothing of any network."""
    specs = [
        panel | {"width": "container", "description": description(sheet), "padding": 8}
        for panel in panels(sheet)
    ]
    return plot.page(
        title=title(sheet),
        description=description(sheet),
        captions=captions(sheet),
        specs=specs,
        svg=svg(sheet),
    )


def title(sheet: Sheet) -> str:
    """What is drawn."""
    target = f", asked for {sheet.extension.target_length:,}" if sheet.extension else ""
    return (
        f"RoPE of {sheet.spectrum.pairs} {'pair' if sheet.spectrum.pairs == 1 else 'pairs'}, "
        f"base {sheet.base:,.12g}, trained at {sheet.trained_length:,} tokens{target}"
    )


def captions(sheet: Sheet) -> list[str]:
    """How to read each panel."""
    above = (
        "Tokens that each pair takes for a full turn. A pair above the line of the trained length "
        "never completed one: at longer distances it meets angles that training never showed."
    )
    below = (
        "Speed that each repair leaves each pair, as a share of its speed in training. A hollow "
        "mark: at the target length the pair still passes the largest angle it met in training."
    )
    return [above, below] if sheet.effects else [above]


def description(sheet: Sheet) -> str:
    """The plot in words, for who cannot see it."""
    said = [
        f"{title(sheet)}. {len(sheet.slow)} of {sheet.spectrum.pairs} pairs never complete a turn "
        f"in training; the slowest takes {sheet.spectrum.wavelengths[-1]:,.0f} tokens."
    ]
    for name, each in zip(legend_names(sheet), sheet.effects, strict=True):
        kept = each.spectrum.speed_kept
        said.append(
            f"{name}: the fastest pair keeps {kept[0]:.1%} of its speed, the slowest "
            f"{kept[-1]:.1%}; {each.unseen} still unseen."
        )
    return " ".join(said)


def legend_names(sheet: Sheet) -> list[str]:
    """The repairs with their options, each name once."""
    names = [str(each.repair) for each in sheet.effects]
    return numbered(
        [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..." for name in names]
    )


def panels(sheet: Sheet) -> list[dict[str, Any]]:
    """The Vega-Lite specs, without width and config."""
    return [wavelengths(sheet), *([speeds(sheet)] if sheet.effects else [])]


def pair_axis(few: int, last: Any) -> alt.X:
    """Pairs by index. few: how many, where each has its number at the axis, or 0."""
    return alt.X(
        "pair:Q",
        scale=alt.Scale(domain=[0, last], nice=False, padding=10),
        axis=alt.Axis(
            title="pair (index; 0 turns fastest)",
            format="d",
            tickCount=8,
            values=list(range(few)) if few else alt.Undefined,
        ),
    )


def pairs_of(spectrum: Spectrum) -> tuple[int, int]:
    """As `pair_axis` wants them."""
    pairs = spectrum.pairs
    return pairs if pairs < FEW else 0, max(pairs - 1, 1)


def filled(layout: dict[str, Any], data: Mapping[str, Rows], **values: Any) -> dict[str, Any]:
    """A layout with its numbers: data by name, and each value where the layout names it.

    Altair checks all that it is given against a schema, which takes longer than the numbers do. So
    a layout is made once, with `alt.NamedData` for data and `alt.ExprRef` for values.

    >>> filled({"y": {"domain": [0, {"expr": "most"}]}}, {}, most=2)
    {'y': {'domain': [0, 2]}, 'datasets': {}}
    """

    def copied(node: Any) -> Any:
        if isinstance(node, list):
            return [copied(each) for each in node]
        if not isinstance(node, dict):
            return node
        if node.keys() == {"expr"} and node["expr"] in values:
            return values[node["expr"]]
        return {key: copied(each) for key, each in node.items()}

    made: dict[str, Any] = copied(layout)
    return made | {"datasets": dict(data)}


def thinned(sheet: Sheet) -> int:
    """Every how many pairs a mark is drawn."""
    return -(-sheet.spectrum.pairs // MARKS)


def wavelengths(sheet: Sheet) -> dict[str, Any]:
    """Wavelength against pair, with lines at the trained and the target length."""
    turns = sheet.spectrum.turns(sheet.trained_length)
    slow = set(sheet.slow)
    points: list[dict[str, Any]] = [
        {
            "pair": pair,
            "wavelength": float(wavelength),
            "turns": float(turns[pair]),
            "kind": KINDS[pair in slow],
        }
        for pair, wavelength in enumerate(sheet.spectrum.wavelengths)
        if pair % thinned(sheet) == 0 or pair in (min(slow, default=0), sheet.spectrum.pairs - 1)
    ]
    lengths = {"trained": sheet.trained_length}
    if sheet.extension:
        lengths["target"] = sheet.extension.target_length
    span = [*lengths.values(), *(point["wavelength"] for point in points)]
    low, high = min(span) / 1.25, max(span) * 1.25
    longer = max(reversed(lengths), key=lengths.__getitem__)
    few, last = pairs_of(sheet.spectrum)
    return filled(
        wavelengths_layout(tuple(lengths), longer, few),
        {"wavelengths": points}
        | {name: [{"wavelength": length}] for name, length in lengths.items()},
        low=low,
        high=high,
        ticks=ticks(low, high),
        last_pair=last,
        **{f"{name}_said": f"{name} {length:,}" for name, length in lengths.items()},
    )


@lru_cache(maxsize=16)
def wavelengths_layout(lengths: Sequence[str], longer: str, few: int) -> dict[str, Any]:
    """Without numbers. lengths: names of the lines, `longer` that of the upper one."""
    y = alt.Y(
        "wavelength:Q",
        scale=alt.Scale(type="log", domain=[alt.ExprRef("low"), alt.ExprRef("high")], nice=False),
        axis=alt.Axis(
            title="wavelength (tokens per turn)", values=alt.ExprRef("ticks"), format=",d"
        ),
    )
    legend = alt.Legend(orient="bottom", title=None, columns=1, symbolOpacity=1)
    scale = alt.Scale(domain=KINDS)
    marks = (
        alt.Chart(alt.NamedData(name="wavelengths"))
        .mark_point(filled=True, opacity=1, size=55)
        .encode(
            x=pair_axis(few, alt.ExprRef("last_pair")),
            y=y,
            color=alt.Color("kind:N", scale=scale, legend=legend),
            shape=alt.Shape(
                "kind:N", scale=alt.Scale(domain=KINDS, range=["circle", "triangle-up"])
            ),
            tooltip=[
                alt.Tooltip("pair:Q"),
                alt.Tooltip("wavelength:Q", format=",.2f", title="wavelength (tokens)"),
                alt.Tooltip("turns:Q", format=".4~g", title="turns in training"),
            ],
        )
    )
    layers: list[alt.Chart] = []
    texts: list[alt.Chart] = []
    for name in lengths:
        line = alt.Chart(alt.NamedData(name=name)).encode(y=y)
        dash = [5, 4] if name == "trained" else [1, 0]
        layers.append(line.mark_rule(style="reference", strokeDash=dash, strokeWidth=1.5))
        # Names above and below their lines keep apart, however near the two lengths are.
        above = name == longer
        for style in ("halo", "note"):
            texts.append(
                line.mark_text(
                    style=style,
                    text=alt.ExprRef(f"{name}_said"),
                    align="left",
                    baseline="bottom" if above else "top",
                    dx=8,
                    dy=-4 if above else 5,
                ).encode(x=alt.value(0))
            )
    return finished(alt.layer(*layers, *texts, marks))


def speeds(sheet: Sheet) -> dict[str, Any]:
    """Speed kept against pair, one line per repair."""
    names = legend_names(sheet)
    step = thinned(sheet)
    points: list[dict[str, Any]] = [
        {
            "pair": pair,
            "kept": float(kept),
            "repair": name,
            "line": number,
            "still": bool(still),
            "mark": pair % step == 0,
        }
        for number, (name, each) in enumerate(zip(names, sheet.effects, strict=True))
        for pair, (kept, still) in enumerate(
            zip(each.spectrum.speed_kept, unseen(sheet, each), strict=True)
        )
    ]
    few, last = pairs_of(sheet.spectrum)
    return filled(
        speeds_layout(tuple(names), few),
        {"speeds": points},
        most=1.04 * max(1.0, *(point["kept"] for point in points)),
        last_pair=last,
    )


@lru_cache(maxsize=128)
def speeds_layout(names: Sequence[str], few: int) -> dict[str, Any]:
    """Without numbers. names: of the lines."""
    _, dashes = looks(len(names))
    # Colours repeat after as many curves as shapes do: shifted, they do not repeat together.
    shapes = [SHAPES[(n + n // len(SHAPES)) % len(SHAPES)] for n in range(len(names))]
    widest = max(map(len, names))
    legend = alt.Legend(
        orient="bottom", title=None, symbolOpacity=1, columns=max(1, 330 // (7 * widest + 40))
    )
    colour = alt.Color("repair:N", scale=alt.Scale(domain=names), legend=legend)
    shape = alt.Shape("repair:N", scale=alt.Scale(domain=names, range=shapes), legend=legend)
    y = alt.Y(
        "kept:Q",
        scale=alt.Scale(domain=[0, alt.ExprRef("most")], nice=False),
        axis=alt.Axis(title="speed kept (% of that in training)", format=".0%", tickCount=5),
    )
    base = alt.Chart().encode(x=pair_axis(few, alt.ExprRef("last_pair")), y=y, color=colour)
    tooltip = [
        alt.Tooltip("repair:N"),
        alt.Tooltip("pair:Q"),
        alt.Tooltip("kept:Q", format=".2%", title="speed kept"),
        alt.Tooltip("still:N", title="unseen at the target"),
    ]
    layers = [
        # Dashes as an encoding would enter the legend and blur the outlines of its marks.
        *(
            base.transform_filter(f"datum.line == {number}").mark_line(
                strokeWidth=2, strokeDash=dash
            )
            for number, dash in enumerate(dashes)
        ),
        base.transform_filter("datum.mark && !datum.still")
        .mark_point(filled=True, opacity=1, size=50)
        .encode(shape=shape, tooltip=tooltip),
        base.transform_filter("datum.mark && datum.still")
        .mark_point(filled=False, opacity=1, size=50, strokeWidth=1.5)
        .encode(shape=shape, tooltip=tooltip),
    ]
    return finished(alt.layer(*layers, data=alt.NamedData(name="speeds")))


def unseen(sheet: Sheet, each: Any) -> Any:
    """Which pairs a repair leaves past what training met; an effect has a target length."""
    return each.spectrum.unseen(sheet.extension)


def ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range, with twos and fives where there are few.

    >>> ticks(5, 60_000)
    [10, 100, 1000, 10000]
    >>> ticks(5, 60)
    [5, 10, 20, 50]
    """
    powers = [10**power for power in range(floor(log10(low)), floor(log10(high)) + 1)]
    tens = [power for power in powers if power >= low]
    if len(tens) > 2:
        every = -(-len(tens) // 8)
        return tens[::every]
    return [each * power for power in powers for each in (1, 2, 5) if low <= each * power <= high]


def finished(layered: alt.Chart | alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """A panel as both the files and the page take it."""
    spec: dict[str, Any] = layered.properties(height=HEIGHT).to_dict()
    # vega-embed would take the address for something to check; both renderers know the language.
    del spec["$schema"], spec["config"]
    return spec


def waves(spectrum: Spectrum, description: str) -> str:
    """Tokens per turn of each pair; where the spectrum is a repair, in training too. SVG."""
    now = "as repaired" if spectrum.before is not None else "as trained"
    lines = {now: spectrum.wavelengths}
    if spectrum.before is not None:
        lines = {"in training": spectrum.original.wavelengths, **lines}
    points = [
        {"pair": pair, "wavelength": float(wavelength), "when": when}
        for when, wavelengths in lines.items()
        for pair, wavelength in enumerate(wavelengths)
    ]
    span = np.concatenate(list(lines.values()))
    low, high = float(span.min()) / 1.25, float(span.max()) * 1.25
    _, dashes = looks(len(lines))
    domain = alt.Scale(domain=list(lines))
    legend = alt.Legend(orient="bottom", title=None) if len(lines) > 1 else None
    drawn = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=2)
        .encode(
            x=pair_axis(*pairs_of(spectrum)),
            y=alt.Y(
                "wavelength:Q",
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(
                    title="wavelength (tokens per turn)", values=ticks(low, high), format=",d"
                ),
            ),
            color=alt.Color("when:N", scale=domain, legend=legend),
            strokeDash=alt.StrokeDash(
                "when:N", scale=alt.Scale(domain=list(lines), range=dashes), legend=legend
            ),
        )
    )
    spec = finished(drawn) | {"width": 560, "height": 220, "padding": 8}
    return plot.drawn(spec, "spectrum", description)
