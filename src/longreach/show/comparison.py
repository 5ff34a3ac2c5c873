"""Comparisons for people: sentences, tables, and the plot of the difference at each length."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from ..report.charts import chart
from ..report.compare import Comparison
from ..report.figures import labelled
from ..report.lengths import chosen, ticks
from ..report.picture import Picture
from ..report.tables import Entry, Table, plain
from ..report.theme import THEMES
from . import plot
from .plot import check as check

WRAP = 88
FEW = 2
"""So many comparisons are shown length by length; more, by one line each."""
METHOD = (
    "First minus second, paired by seed and by sequence or document. Intervals are as wide as a "
    "bootstrap over seeds and sequences and as Student's t over seeds say, whichever is wider."
)


def text(comparisons: Sequence[Comparison]) -> str:
    """Sentences first, then a table for each, then how the intervals came about."""
    parts = ["\n".join(wrapped(said) for each in comparisons for said in each.sentences)]
    tables = [*map(table, comparisons)] if len(comparisons) <= FEW else [overview(comparisons)]
    for shown in tables:
        parts.append(f"{wrapped(shown.title)}\n{plain(shown)}")
    notes = dict.fromkeys(note for each in comparisons for note in each.notes)
    return "\n\n".join([*parts, *map(wrapped, notes), wrapped(METHOD)])


def wrapped(line: str) -> str:
    """A sentence in lines that a terminal need not break."""
    return textwrap.fill(line, WRAP, break_long_words=False, break_on_hyphens=False)


def title(each: Comparison) -> str:
    """What is compared."""
    scheme = "" if each.scheme is None else f"{each.scheme}, "
    return f"{scheme}{each.task}: {each.first} minus {each.second}"


def table(each: Comparison) -> Table:
    """A row for each length, or for some of many; reach below."""
    metric = each.told
    lengths = [at.evaluation_length for at in each.lengths]
    some = chosen(lengths, each.trained_length)
    shown = metric.signed if metric.paired else metric.cell
    rows: list[tuple[str, ...]] = []
    for at in each.lengths:
        if at.evaluation_length in some:
            trained = " (trained)" if at.evaluation_length == each.trained_length else ""
            numbers = (shown(at.first), shown(at.second), interval(metric.signed, at.difference))
            rows.append((f"{at.evaluation_length}{trained}", *numbers))
    if each.reach is not None:
        rows.append((f"reach ({each.unit})", *reach_numbers(each)))
    count = "" if len(some) == len(lengths) else f"; {len(some)} of {len(lengths)} lengths"
    return Table(
        title=f"{title(each)}: {metric.title.lower()} ({metric.unit}){count}",
        columns=(each.unit, each.first, each.second, "difference [95 % interval]"),
        rows=tuple(tuple(map(Entry, row)) for row in rows),
    )


def overview(comparisons: Sequence[Comparison]) -> Table:
    """A line for each: its reach, or the mean past the trained length where there is none."""
    rows = []
    for each in comparisons:
        numbers: tuple[str, ...] = ("", "", "")
        if each.reach is not None:
            numbers = reach_numbers(each)
        elif each.beyond is not None:
            numbers = ("", "", interval(each.told.signed, each.beyond))
        rows.append((each.task, each.scheme or "", str(len(each.seeds)), *numbers))
    one = comparisons[0]
    asked = f"reach ({one.unit})" if one.reach else f"{one.told.title.lower()} ({one.told.unit})"
    return Table(
        title=f"{one.first} minus {one.second}: {asked}; length by length with --task and "
        "--schemes, or --json",
        columns=("task", "scheme", "seeds", one.first, one.second, "difference [95 % interval]"),
        rows=tuple(tuple(map(Entry, row)) for row in rows),
        words=2,
    )


def reach_numbers(each: Comparison) -> tuple[str, ...]:
    """The mean reach of both, and the difference with its interval."""
    if each.reach is None:
        return ()
    digits = int(each.dense)
    means = (sum(side) / len(side) for side in (each.reach.first, each.reach.second))
    difference = interval(lambda value: f"{value:+.{digits}f}", each.reach.difference)
    return (*(f"{mean:.{digits}f}" for mean in means), difference)


def interval(signed: Any, found: Any) -> str:
    """A difference and its interval, all with their signs."""
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]"


def draw(comparisons: Sequence[Comparison], path: Path) -> None:
    """Writes the plot in the form that the suffix names; raises InputError as `check` does."""
    plot.write(path, lambda: svg(comparisons), lambda: page(comparisons))


def panels(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """One panel per task where folders are compared, with a line per scheme; else one for all."""
    found: dict[str, list[Comparison]] = {}
    for each in comparisons:
        head = f"{each.first} minus {each.second}"
        found.setdefault(head if each.scheme is None else f"{each.task}: {head}", []).append(each)
    return found


def spec(head: str, lines: Sequence[Comparison]) -> dict[str, Any]:
    """The Vega-Lite spec of one panel."""
    each = lines[0]
    lengths = sorted({at.evaluation_length for line in lines for at in line.lengths})
    unit = "fraction" if each.told.percent else each.told.unit
    picture = Picture(
        curves=[curve(line) for line in lines],
        lines=[
            {
                "curve": curve(line),
                "x": at.evaluation_length,
                "at": str(at.evaluation_length),
                "mean": at.difference.mean,
                "sd": None,
                "low": at.difference.low,
                "high": at.difference.high,
                "seeds": len(line.seeds),
            }
            for line in lines
            for at in line.lengths
        ],
        x=f"evaluation length ({each.unit})",
        y=f"difference of {each.told.title.lower()}\n({unit})",
        rules={"no difference": 0.0},
        ticks=ticks(lengths, each.trained_length) if each.dense else lengths,
        linear=each.dense,
        trained_length=each.trained_length,
    )
    return chart(picture) | {"description": description(head, lines)}


def curve(each: Comparison) -> str:
    """The name of a line."""
    return each.scheme or each.task


def caption(lines: Sequence[Comparison]) -> str:
    """What was found, and how to read the panel."""
    said = " ".join(sentence for line in lines for sentence in line.sentences)
    first, second = lines[0].first, lines[0].second
    return (
        f"{said} Above the solid line {first} is higher, below it {second}. Lines: means over "
        "seeds; bands: 95 % intervals; where a band meets the line the data do not tell them apart."
    )


def description(head: str, lines: Sequence[Comparison]) -> str:
    """The panel in words, for who cannot see it."""
    said = []
    for line in lines:
        some = chosen([at.evaluation_length for at in line.lengths], line.trained_length, most=5)
        told = (
            f"{line.told.signed(at.difference.mean)} at {at.evaluation_length}"
            for at in line.lengths
            if at.evaluation_length in some
        )
        said.append(f"{curve(line)}: {', '.join(told)}")
    return f"Line chart of the difference, {head}. {'; '.join(said)}"


def svg(comparisons: Sequence[Comparison]) -> str:
    """All panels, one above the other."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    drawn, top, widest = [], 0.0, 0.0
    for number, (head, lines) in enumerate(panels(comparisons).items()):
        panel = spec(head, lines) | {"title": {"text": head, "anchor": "start", "offset": 22}}
        text = vl_convert.vegalite_to_svg(panel, vl_version=version, config=THEMES["light"])
        text = labelled(text, f"compare-{number}", description(head, lines))
        width, height = (pixels(text, name) for name in ("width", "height"))
        drawn.append(text.replace("<svg ", f'<svg y="{top:g}" ', 1))
        top, widest = top + height, max(widest, width)
    if len(drawn) == 1:
        return drawn[0].replace('<svg y="0" ', "<svg ", 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest:g}" height="{top:g}" '
        f'viewBox="0 0 {widest:g} {top:g}">{"".join(drawn)}</svg>'
    )


def pixels(drawing: str, name: str) -> float:
    """The width or the height of a drawing.

    >>> pixels('<svg class="x" width="720" height="80.5"><g height="3"/></svg>', "height")
    80.5
    """
    found = re.search(rf'<svg [^>]*?\b{name}="([0-9.]+)"', drawing)
    if found is None:
        raise ValueError(f"the drawing has no {name}")
    return float(found[1])


def page(comparisons: Sequence[Comparison]) -> str:
    """One HTML file that holds all it shows, and asks nothing of any network."""
    found = panels(comparisons)
    title = " and ".join(found) if len(found) < 2 else title_of_all(comparisons)
    return plot.page(
        title=title,
        description=title,
        captions=[f"{head}. {caption(lines)}" for head, lines in found.items()],
        specs=[spec(head, lines) | {"width": "container"} for head, lines in found.items()],
        svg=svg(comparisons),
    )


def title_of_all(comparisons: Sequence[Comparison]) -> str:
    """Of a page with several panels."""
    return f"{comparisons[0].first} minus {comparisons[0].second}"
