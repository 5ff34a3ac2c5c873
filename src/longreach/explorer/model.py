"""The reader's own model: what is pasted or named, as a diagnosis and a block to paste back."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..checkpoint import Checkpoint, read, read_text
from ..checkpoint.sources import HUB_ID
from ..diagnose import Diagnosis, diagnose
from ..engines import ENGINES, Prescription, prescribe
from ..errors import InputError
from ..repairs import Effect
from ..show import chart
from ..show.diagnosis import COLUMNS, cells, describe
from ..show.prescription import extension_of, ways
from ..show.spectrum import Sheet
from ..spectrum import Extension
from .view import View, page, paragraph, table

LARGEST = 1_000_000
"""Characters of a config that is pasted."""

DEEPEST = 40
"""Objects and lists within one another; few configs have four."""

PASTED = "the config"
"""What a pasted one is called."""

EXAMPLE = """{
  "model_type": "llama",
  "hidden_size": 4096,
  "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "max_position_embeddings": 8192,
  "rope_theta": 500000.0,
  "rope_scaling": {"type": "yarn", "factor": "4"}
}"""
"""To begin with: a config with mistakes in it."""

WAYS = "Nothing is prescribed yet: "


def named(text: str, *, allow_hub: bool) -> Checkpoint:
    """The checkpoint of what stands in the form: a config's JSON, or where allowed a hub id.

    No path is ever opened. Raises InputError for anything else.
    """
    if len(text) > LARGEST:
        raise InputError(
            f"what was given has {len(text):,} characters, and no config has more than {LARGEST:,}"
        )
    text = text.strip()
    if not text:
        raise InputError("paste the text of a model's config.json, or drop the file here")
    if text.startswith("{"):
        return read_text(text, PASTED, deepest=DEEPEST)
    one_line = "\n" not in text and len(text) <= 200
    if one_line and allow_hub and HUB_ID.fullmatch(text) and not is_path(text):
        return read(text)
    if one_line:
        raise InputError(
            "this is no config: paste the text of config.json itself, which begins with '{'. "
            + (
                "A model's name is of the form organisation/name."
                if allow_hub
                else "Names of models are looked up only where the explorer was started with "
                "--allow-hub, and paths are never opened."
            )
        )
    return read_text(text, PASTED, deepest=DEEPEST)


def is_path(text: str) -> bool:
    """Whether `read` could take the text for something on this machine, which is not asked for."""
    from pathlib import Path

    return text.startswith((".", "/", "~")) or Path(text).exists()


def examined(text: str, target_length: int | None, *, allow_hub: bool) -> Diagnosis:
    """What the form says, diagnosed. Raises InputError as `named` and `diagnose` do."""
    return diagnose(named(text, allow_hub=allow_hub), target_length)


def diagnosis_html(found: Diagnosis) -> str:
    """The diagnosis for a page: layers, problems, what a target takes, candidates, charts."""
    return f'<div class="lr-model">{"".join(parts(found))}</div>'


def parts(found: Diagnosis) -> Iterator[str]:
    """Its parts, one after the other; every value is escaped."""
    checkpoint = found.checkpoint
    stated = (
        f", states {checkpoint.stated_length:,} tokens ({checkpoint.stated_key})"
        if checkpoint.stated_length is not None
        else ""
    )
    yield f"<h2>{escape(f'{checkpoint.source}: {checkpoint.model_type}{stated}')}</h2>"
    for group in checkpoint.groups:
        lines = describe(group, checkpoint, found.target_length)
        yield "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
    count = len(checkpoint.problems)
    yield f"<h2>Problems in the config: {count or 'none found'}</h2>"
    if count:
        yield '<dl class="lr-problems">'
        for problem in checkpoint.problems:
            yield f"<dt><b>{escape(problem.code)}</b> {escape(problem.message)}</dt>"
            yield f"<dd>{escape(problem.consequence)}</dd>"
        yield "</dl>"
    if found.target_length is None:
        yield paragraph("Give a target length to see what reaching it takes.", "lr-seen")
        return
    yield from advice(found)


def advice(found: Diagnosis) -> Iterator[str]:
    """What the target length takes."""
    told = found.advice
    yield f"<h2>To reach {found.target_length:,} tokens</h2>"
    yield paragraph(told.reason[:1].upper() + told.reason[1:] + ".", "lr-seen")
    if told.candidates:
        yield table(
            COLUMNS,
            map(cells, told.candidates),
            "Repairs that reach it, each at its smallest sufficient factor",
        )
        yield "<ul>"
        for each in told.candidates:
            yield (f"<li><b>{escape(each.effect.repair.name)}</b>: {escape(each.short_text)}</li>")
        yield "</ul>"
    yield page(charts(found))
    yield "<h3>Not known without measuring</h3><ul>"
    yield "".join(f"<li>{escape(unknown)}</li>" for unknown in told.unknown)
    yield "</ul>"


def charts(found: Diagnosis) -> list[View]:
    """The model's pairs, and what the candidates leave of their speed."""
    effects: list[Effect] = [each.effect for each in found.advice.candidates]
    groups = found.checkpoint.unbounded or found.checkpoint.groups
    group = groups[0] if groups else None
    if group is None or group.spectrum is None or group.trained_length is None:
        return []
    target = found.target_length
    assert target is not None  # as the caller sees to
    extension = Extension(group.trained_length, target)
    sheet = Sheet(group.spectrum, group.base or 0.0, group.trained_length, extension, effects)
    words = chart.captions(sheet)
    views = [
        View(
            name="model-wavelengths",
            title="How long each pair of this model takes for a turn",
            seen=f"{len(sheet.slow)} of {group.spectrum.pairs} pairs never complete a turn in "
            f"{group.trained_length:,} tokens.",
            reading=words[0],
            spec=chart.wavelengths(sheet),
        )
    ]
    if effects:
        said = [
            f"{each.repair.name} leaves the fastest pair {each.spectrum.speed_kept[0]:.1%} and the "
            f"slowest {each.spectrum.speed_kept[-1]:.1%} of its speed."
            for each in effects
        ]
        views.append(
            View(
                name="model-speeds",
                title="Candidates side by side: the speed that each leaves each pair",
                seen=" ".join(said),
                reading=words[1],
                spec=chart.speeds(sheet),
            )
        )
    return views


def repairs_of(found: Diagnosis) -> list[str]:
    """The candidates' names, to choose one from."""
    return [each.effect.repair.name for each in found.advice.candidates]


def prescribed(found: Diagnosis, repair: str, engine: str) -> Prescription:
    """How an engine is told to apply a candidate.

    Raises InputError for a name that is no candidate's, an engine that is none, or no target.
    """
    if engine.partition("==")[0].strip().lower() not in ENGINES:
        raise InputError(f"there is no engine {engine[:40]!r}; known: {', '.join(ENGINES)}")
    for each in found.advice.candidates:
        if each.effect.repair.name == repair:
            assert found.target_length is not None  # else there are no candidates
            extension = extension_of(found.checkpoint, found.target_length)
            return prescribe(found.checkpoint, each.effect.repair, extension, engine)
    known = repairs_of(found)
    raise InputError(
        f"{repair[:40]!r} is no candidate here; "
        + (
            f"there are {', '.join(known)}"
            if known
            else "nothing needs a repair, or no target length is given"
        )
    )


def prescription_html(found: Prescription) -> str:
    """Each way to tell the engine in a box of its own with a button that copies it; then notes."""
    head = escape(f"{found.engine} {found.version}")
    said = [f"<h2>{head}</h2>"]
    if found.refused is not None:
        said.append(paragraph(f"{found.engine} cannot: {found.refused}", "lr-seen"))
    for title, pasted in ways(found) if found.refused is None else ():
        said.append(
            f'<div class="lr-paste"><div class="lr-bar"><span>{escape(title)}</span>'
            '<button type="button" class="lr-copy">Copy</button></div>'
            f'<pre tabindex="0"><code>{escape(pasted)}</code></pre></div>'
        )
    if found.notes:
        said.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in found.notes) + "</ul>")
    return f'<div class="lr-model">{"".join(said)}</div>'
