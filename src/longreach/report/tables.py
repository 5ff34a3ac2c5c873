"""Tables of a report: one structure, told in Markdown and by the page in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .aggregate import Aggregate, Cell
from .metrics import Metric, metric_of
from .summarise import Summary, Task

NOTHING = "–"  # noqa: RUF001 - a dash is what it is
PAST_LIMIT = "past limit"


@dataclass(frozen=True)
class Entry:
    """One cell of a table; the best of its column is set in bold."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A title that says what the cells are, column heads, and rows whose first cell names them.

    words: so many columns at the left hold words; numbers go to the right of their column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    words: int = 1


def score_table(task: Task, name: str) -> Table:
    """Scheme by evaluation length or range of positions, with reach where it is read from this."""
    metric = metric_of(name)
    rows = task.of(name)
    cells: list[Cell] = sorted({row.cell for row in rows}, key=lambda cell: cell[1:])
    with_reach = name == task.reach_metric
    columns = ["scheme", "seeds", *(head(cell, task) for cell in cells)]
    body = [curve_row(task, curve, rows, cells, with_reach=with_reach) for curve in task.curves]
    if metric.percent:
        for label, values in (("ceiling", task.ceiling), ("chance", task.chance)):
            body.append(reference_row(label, values, metric, cells, with_reach=with_reach))
    return Table(
        title=f"{metric.title} ({metric.unit}), mean ± sample sd over seeds",
        columns=(*columns, *(["reach"] if with_reach else [])),
        rows=tuple(body),
    )


def head(cell: Cell, task: Task) -> str:
    """The head of a column: its length, or its range of positions."""
    metric, length, first, last = cell
    if metric == "loss_by_position":
        return f"{first}–{last}"  # noqa: RUF001
    return f"{length} (trained)" if length == task.trained_length else str(length)


def curve_row(
    task: Task, curve: str, rows: list[Aggregate], cells: list[Cell], *, with_reach: bool
) -> tuple[Entry, ...]:
    """A scheme, with or without a repair."""
    mine = {row.cell: row for row in rows if row.curve == curve}
    entries = [Entry(curve), Entry(seeds_text(task, list(mine.values())))]
    for cell in cells:
        best = best_text([row for row in rows if row.cell == cell])
        entries.append(value_entry(mine.get(cell), best))
    if with_reach:
        entries.append(Entry(reach_text(task, curve)))
    return tuple(entries)


def seeds_text(task: Task, rows: list[Aggregate]) -> str:
    """How many seeds, and how many of them missed the in-distribution bar."""
    seeds = max((row.seeds for row in rows), default=0)
    schemes = {row.scheme for row in rows}
    flagged = sum(done.flagged and done.scheme in schemes for done in task.finished)
    return f"{seeds} ({flagged} flagged)" if flagged else str(seeds)


def value_entry(row: Aggregate | None, best: str | None) -> Entry:
    """Mean and sd; "past limit" where the scheme has no such position."""
    if row is None:
        return Entry(NOTHING)
    if row.mean is None:
        return Entry(PAST_LIMIT)
    metric = metric_of(row.metric)
    mean = metric.cell(row.mean)
    return Entry(mean if row.sd is None else f"{mean} ± {metric.cell(row.sd)}", mean == best)


def best_text(rows: Iterable[Aggregate]) -> str | None:
    """The best mean of a column as it is printed, so that what looks equal is treated alike."""
    found = [row for row in rows if row.mean is not None]
    if len(found) < 2:
        return None
    metric = metric_of(found[0].metric)
    best = min if metric.lower_is_better else max
    return metric.cell(best(row.mean for row in found if row.mean is not None))


def reach_text(task: Task, curve: str) -> str:
    """Mean over seeds [least..most]; with ≥ where a seed still held at the longest length."""
    reaches = task.reaches(curve)
    if not reaches:
        return NOTHING
    at_least = "≥ " if max(reaches) == max(task.lengths(task.reach_metric)) else ""
    if min(reaches) == max(reaches):
        return f"{at_least}{reaches[0]}"
    return f"{at_least}{sum(reaches) / len(reaches):.0f} [{min(reaches)}..{max(reaches)}]"


def reference_row(
    label: str,
    values: Mapping[int, float],
    metric: Metric,
    cells: Iterable[Cell],
    *,
    with_reach: bool,
) -> tuple[Entry, ...]:
    """What the best model and what guessing would score."""
    found = [values.get(length) for _, length, _, _ in cells]
    shown = [Entry(NOTHING if value is None else metric.cell(value)) for value in found]
    return (Entry(label), Entry(""), *shown, *([Entry("")] if with_reach else []))


def difference_table(task: Task) -> Table | None:
    """Every scheme minus the reference, on the metric of reach; None if there is but one."""
    name = task.reach_metric
    metric = metric_of(name)
    rows = [row for row in task.differences if row.metric == name]
    if not rows:
        return None
    lengths = task.lengths(name)
    body = []
    for curve in dict.fromkeys(row.curve for row in rows):
        found = {row.evaluation_length: row for row in rows if row.curve == curve}
        body.append(
            (
                Entry(curve),
                *(
                    Entry(
                        f"{metric.signed(row.mean)} [{metric.signed(row.low)}, "
                        f"{metric.signed(row.high)}]"
                        if (row := found.get(length))
                        else NOTHING
                    )
                    for length in lengths
                ),
            )
        )
    return Table(
        title=f"{metric.title} minus that of {rows[0].reference} "
        f"({'percentage points' if metric.percent else metric.unit}), with 95% intervals, "
        "paired by seed and by sequence",
        columns=("scheme", *map(str, lengths)),
        rows=tuple(body),
    )


def run_table(summary: Summary) -> Table:
    """Every finished run."""
    body = []
    for done in summary.finished:
        about, spent = done.run.training["summary"], done.run.training["provenance"]["seconds"]
        share, reach, overlap = done.at_trained_length, done.reach.get(None), about["overlap"]
        body.append(
            (
                done.run.digest[:12],
                done.task,
                done.scheme,
                str(done.seed),
                f"{about['parameters']:,}",
                f"{about['final_loss']:.3f}",
                NOTHING if share is None else f"{share:.1%}{' flagged' if done.flagged else ''}",
                NOTHING if reach is None else str(reach),
                NOTHING if overlap is None else str(overlap),
                f"{spent:.0f}",
            )
        )
    return Table(
        title="Finished runs",
        columns=(
            "digest",
            "task",
            "scheme",
            "seed",
            "parameters",
            "final training loss",
            "share of ceiling at trained length",
            "reach",
            "evaluated also in training",
            "seconds",
        ),
        rows=tuple(tuple(map(Entry, row)) for row in body),
        words=3,
    )


def markdown(table: Table) -> str:
    """The table in Markdown; numbers to the right."""
    lines = [
        "| " + " | ".join(map(escape, table.columns)) + " |",
        "|" + ":---|" * table.words + "---:|" * (len(table.columns) - table.words),
    ]
    for row in table.rows:
        cells = (f"**{escape(e.text)}**" if e.best else escape(e.text) for e in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    r"""Text that Markdown would not take for markup.

    >>> print(escape("a|b <i> x*y"))
    a\|b &lt;i> x\*y
    """
    text = re.sub(r"([\\`*|]|(?<=\])\()", r"\\\1", text)
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())
