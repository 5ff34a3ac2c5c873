"""What a notebook shows of a Spectrum, a Diagnosis, a Prescription and Results. See `views`."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnose import Diagnosis
from ..engines import Prescription
from ..errors import InputError
from ..results import Results
from ..spectrum import ROUNDING, Extension, Spectrum
from . import diagnosis as told, prescription as prescribed
from .spectrum import Sheet, lay, lean_table, percent

if TYPE_CHECKING:
    from rich.console import Console

    from ..report.tables import Table  # Imports the chart library, which text does without.

TEMPLATE = Path(__file__).with_name("notebook.html")
WIDTH = 100
"""Columns of text."""
MOST_ROWS = 16
"""Pairs in the text of a spectrum; with more, some are shown."""


def page(**values: Any) -> str:
    """A view from its parts, each of which may be left out. All but the drawings is escaped."""
    from jinja2 import Environment

    # What a view has no part of is undefined, and undefined is left out: hence no StrictUndefined.
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(values).strip()


def fluid(svg: str) -> str:
    """A drawing that narrows with its cell."""
    from ..report.figures import fewer_digits

    return fewer_digits(svg).replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    """Plain cells as a table of the report."""
    from ..report.tables import Entry, Table

    return Table("", columns, tuple(tuple(map(Entry, row)) for row in rows))


# A spectrum


def spectrum_lead(spectrum: Spectrum) -> list[str]:
    """What it is, and what was done to it."""
    waves = spectrum.wavelengths
    base = "" if spectrum.base is None else f", base {spectrum.base:,.10g}"
    pairs = "1 pair" if spectrum.pairs == 1 else f"{spectrum.pairs} pairs"
    said = [
        f"Spectrum of {pairs}{base}: a turn takes from {waves[0]:,.2f} tokens "
        f"(pair 0) to {waves[-1]:,.0f} (pair {spectrum.pairs - 1})."
    ]
    if spectrum.before is not None:
        kept = spectrum.speed_kept
        changed = int((np.abs(kept - 1) > ROUNDING).sum())
        said.append(
            f"Repaired: {changed} of {pairs} turn otherwise than in training; the first keeps "
            f"{percent(kept[0])} of its speed, the last {percent(kept[-1])}."
        )
    if spectrum.amplitude != 1:
        said.append(
            f"Amplitude {spectrum.amplitude:.6g}: attention logits are multiplied by "
            f"{spectrum.amplitude**2:.6g}."
        )
    return said


def spectrum_rows(spectrum: Spectrum, most: int | None = None) -> list[tuple[str, ...]]:
    """Heads, then pair by pair; `most` pairs, evenly chosen, unless all are wanted."""
    pairs = np.arange(spectrum.pairs)
    if most is not None and spectrum.pairs > most:
        pairs = np.unique(np.linspace(0, spectrum.pairs - 1, most).round().astype(int))
    rows: list[tuple[str, ...]] = [("pair", "tokens per turn", "radians per token", "speed kept")]
    rows += [
        (
            str(i),
            f"{spectrum.wavelengths[i]:,.2f}",
            f"{spectrum.inverse_frequencies[i]:.6g}",
            percent(spectrum.speed_kept[i]),
        )
        for i in pairs.tolist()
    ]
    return rows if spectrum.before is not None else [row[:-1] for row in rows]


def spectrum_html(spectrum: Spectrum) -> str:
    """Words, wavelengths as a figure, and every pair in a table that opens."""
    from . import chart

    lead = spectrum_lead(spectrum)
    heads, *rows = spectrum_rows(spectrum)
    return page(
        lead=lead,
        figures=[fluid(chart.waves(spectrum, " ".join(lead)))],
        folded=[("Every pair", table(heads, rows))],
    )


def spectrum_text(spectrum: Spectrum) -> str:
    """Words and a short table."""
    heads, *rows = spectrum_rows(spectrum, MOST_ROWS)
    lean = lean_table()
    for head in heads:
        lean.add_column(head, justify="right")
    for row in rows:
        lean.add_row(*row)
    return "\n".join([*spectrum_lead(spectrum), "", printed(lambda console: lay(console, lean))])


def printed(put: Callable[[Console], None]) -> str:
    """What is printed on a console, as text."""
    from rich.console import Console

    file = io.StringIO()
    # In a notebook, rich would otherwise show it there and then, whatever file it is given.
    put(Console(file=file, width=WIDTH, highlight=False, force_jupyter=False))
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines())


# A diagnosis


def sheet_of(diagnosis: Diagnosis) -> Sheet | None:
    """What the figure of a diagnosis shows; None where nothing is turned."""
    unbounded = [*diagnosis.checkpoint.unbounded, *diagnosis.checkpoint.rope]
    group = next(iter(unbounded), None)
    if group is None or group.spectrum is None or group.trained_length is None:
        return None
    effects = [each.effect for each in diagnosis.advice.candidates]
    target = diagnosis.target_length
    extension = None if target is None else Extension(group.trained_length, target)
    return Sheet(group.spectrum, group.base or 0.0, group.trained_length, extension, effects)


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """What the model is, what is wrong in its config, and what a target length takes."""
    from . import chart

    checkpoint, advice, target = diagnosis.checkpoint, diagnosis.advice, diagnosis.target_length
    states = checkpoint.stated_length
    sheet = sheet_of(diagnosis)
    return page(
        heading=checkpoint.source,
        lead=[
            checkpoint.model_type
            + ("" if states is None else f", states {states:,} tokens ({checkpoint.stated_key})")
        ],
        groups=[list(told.describe(group, checkpoint, target)) for group in checkpoint.groups],
        problems=checkpoint.problems,
        advice=None if target is None else (f"To reach {target:,} tokens", advice.reason + "."),
        table=table(told.COLUMNS, [told.cells(each) for each in advice.candidates])
        if advice.candidates
        else None,
        figures=[] if sheet is None else [fluid(chart.svg(sheet))],
        costs=[(each.effect.repair.name, each.short_text) for each in advice.candidates],
        unknown=advice.unknown,
    )


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """As `longreach diagnose` prints it."""
    return printed(lambda console: told.show(diagnosis, console))


# A prescription


def prescription_html(prescription: Prescription) -> str:
    """What to paste or type, then what to know."""
    given: list[tuple[str, str]] = []
    if prescription.block is not None:
        block = prescribed.block_text(prescription.block, prescription.where)
        given.append((prescription.where, block))
    for title, way in (("flags", prescription.flags), ("command", prescription.command)):
        if way is not None:
            given.append((title, way))
    others = [
        (
            versions,
            spelling
            if isinstance(spelling, str)
            else prescribed.block_text(spelling, prescription.where),
        )
        for versions, spelling in prescription.spellings.items()
    ]
    return page(
        heading=f"{prescription.engine} {prescription.version}",
        refused=prescription.refused,
        given=given,
        notes=prescription.notes,
        others=others,
    )


# Results


def results_html(results: Results) -> str:
    """The question, the verdict in sentences, and the main figure and table of each task."""
    from ..report.figures import draw, figure_of
    from ..report.summarise import summarise
    from ..report.tables import table_of
    from ..report.verdict import overall, verdict
    from ..report.wording import progress

    study = results.plan["study"]
    try:
        summary = summarise(results)
    except InputError as error:  # No run is finished yet: that is shown, not raised.
        return page(heading=study["name"], lead=[study["question"], str(error)])
    tasks = []
    for task in summary.tasks:
        drawn = draw(figure_of(summary, task, task.main_metric))
        tasks.append(
            {
                "label": task.label,
                "verdict": verdict(task),
                "svg": fluid(drawn.svg),
                "caption": drawn.caption,
                "table": table_of(task, task.main_metric),
            }
        )
    said = overall(summary)
    return page(
        heading=study["name"],
        lead=[study["question"], *([said] if said else []), *progress(summary)],
        tasks=tasks,
    )


def results_text(results: Results) -> str:
    """As `longreach report` prints it."""
    from ..report.brief import text
    from ..report.summarise import summarise

    study = results.plan["study"]
    try:
        return text(summarise(results)).rstrip()
    except InputError as error:
        return f"{study['name']}: {study['question']}\n\n{error}"


HTML: Mapping[str, Callable[[Any], str]] = {
    "Spectrum": spectrum_html,
    "Diagnosis": diagnosis_html,
    "Prescription": prescription_html,
    "Results": results_html,
}

TEXT: Mapping[str, Callable[[Any], str]] = {
    "Spectrum": spectrum_text,
    "Diagnosis": diagnosis_text,
    "Prescription": prescribed.text,
    "Results": results_text,
}
