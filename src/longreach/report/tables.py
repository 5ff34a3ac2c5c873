"""Tables of a report: one structure, told in Markdown and by the page in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .aggregate import AFTER_TRAINING, Aggregate, curve_of
from .depths import SUFFIX, percent
from .lengths import MOST, chosen
from .metrics import Metric, metric_of
from .ranking import past_trained, ranking
from .summarise import Finished, Summary, Task

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


def score_table(task: Task, name: str, *, short: bool = False) -> Table:
    """Scheme by evaluation length, with reach if this is the main metric.

    Of many lengths it shows some (see `columns`). short: means alone and no words in cells, so that
    it fits a terminal.
    """
    metric = metric_of(name)
    rows = task.of(name)
    over = [row for row in task.over_trained if row.metric == name]
    lengths, title = columns(task, name, short=short)
    if name.startswith("change"):  # it is 0 there, and nothing else
        lengths.remove(task.trained_length)
    heads = [f"{n} (trained)" if n == task.trained_length else str(n) for n in lengths]
    if over:  # all that was trained at stands in one column, so no other need say it
        heads = [f"mean {task.trained_at}", *map(str, lengths)]
    body = []
    for curve in task.curves:
        mine = {row.evaluation_length: row for row in rows if row.curve == curve}
        if not mine:
            continue
        entries = [Entry(curve), Entry(seeds_text(task, list(mine.values())))]
        if over:
            within = next((row for row in over if row.curve == curve), None)
            # A curve that has no mean over the whole range is past its limit within it.
            spread = Entry(PAST_LIMIT if not short else NOTHING)
            entries.append(value_entry(within, best_text(over), short=short) if within else spread)
        for length in lengths:
            best = best_text([row for row in rows if row.evaluation_length == length])
            entries.append(value_entry(mine.get(length), best, short=short))
        body.append((*entries, Entry(reach_text(task, curve))))
    if metric.percent:
        ranges = [trained_range(task)] if over else []
        ranges += [[length] for length in lengths]
        for label, values in task.bounds(name).items():
            body.append(reference_row(label, values, metric, ranges))
    # Reach stands where it is first asked for.
    end = None if name.removesuffix(AFTER_TRAINING) == task.main_metric else -1
    told = "mean over seeds" if short else "mean ± sample sd over seeds"
    if metric.paired and not short:
        told = f"with {paired_by(task)}"
    return Table(
        title=f"{metric.title} ({metric.unit}), {told}{title}",
        columns=("scheme", "seeds", *heads, "reach")[:end],
        rows=tuple(row[:end] for row in body),
    )


def depth_table(task: Task, name: str) -> Table:
    """Scheme and depth by evaluation length, each fraction with its interval."""
    metric = metric_of(name)
    lengths = task.lengths(name)
    found = {(row.curve, task.depth(row), row.evaluation_length): row for row in task.of(name)}
    body = []
    for curve in task.curves:
        for depth in task.depths:
            rows = [found.get((curve, depth, length)) for length in lengths]
            if any(rows):
                body.append((Entry(curve), Entry(percent(depth)), *map(interval_entry, rows)))
    trained = task.trained_length
    return Table(
        title=f"{metric.title} ({metric.unit}), with 95% intervals",
        columns=(
            "scheme",
            "depth",
            *(f"{n} (trained)" if n == trained else str(n) for n in lengths),
        ),
        rows=tuple(body),
    )


def interval_entry(row: Aggregate | None) -> Entry:
    """A mean and its interval."""
    if row is None:
        return Entry(NOTHING)
    if row.mean is None or row.low is None or row.high is None:
        return Entry(PAST_LIMIT)
    metric = metric_of(row.metric)
    return Entry(f"{metric.cell(row.mean)} [{metric.cell(row.low)}, {metric.cell(row.high)}]")


def table_of(task: Task, name: str) -> Table | None:
    """That of one metric in a report, if it has one."""
    if not metric_of(name).table:
        return None
    return depth_table(task, name) if name.endswith(SUFFIX) else score_table(task, name)


def columns(task: Task, name: str, *, short: bool = False) -> tuple[list[int], str]:
    """The lengths that a table shows, and the end of its title if it does not show all.

    With a column for the mean over the lengths trained at, those before the trained length go.
    """
    lengths = task.lengths(name)
    some = chosen(lengths, task.trained_length, most=5 if short else MOST)
    if len(some) == len(lengths):
        return lengths, ""
    if task.over_trained:
        some = [length for length in some if length >= task.trained_length]
    where = "the numbers of the figure" if metric_of(name).figure else "study.json"
    return some, "" if short else f"; {len(some)} of {len(lengths)} lengths, all are in {where}"


def trained_range(task: Task) -> list[int]:
    """The lengths measured within the range trained at."""
    first = task.shortest or task.trained_length
    return [n for n in task.lengths(task.metric) if first <= n <= task.trained_length]


def paired_by(task: Task) -> str:
    """How an interval of differences came about."""
    return f"95% intervals, paired by seed and by {task.item}"


def seeds_text(task: Task, rows: list[Aggregate]) -> str:
    """How many seeds, and how many of them missed the in-distribution bar."""
    seeds = max((row.seeds for row in rows), default=0)
    schemes = {row.scheme for row in rows}
    flagged = sum(done.flagged and done.scheme in schemes for done in task.finished)
    return f"{seeds} ({flagged} flagged)" if flagged else str(seeds)


def value_entry(row: Aggregate | None, best: str | None, *, short: bool) -> Entry:
    """A mean and its spread; "past limit" where the scheme has no such position."""
    if row is None:
        return Entry(NOTHING)
    if row.mean is None or row.low is None or row.high is None:
        return Entry(NOTHING if short else PAST_LIMIT)
    metric = metric_of(row.metric)
    if metric.paired:
        interval = metric.with_interval(row.mean, row.low, row.high)
        return Entry(metric.signed(row.mean) if short else interval)
    mean = metric.cell(row.mean)
    sd = None if short else row.sd
    return Entry(mean if sd is None else f"{mean} ± {metric.cell(sd)}", mean == best)


def best_text(rows: Iterable[Aggregate]) -> str | None:
    """The best mean of a column as it is printed, so that what looks equal is treated alike."""
    found = [row for row in rows if row.mean is not None]
    if len(found) < 2:
        return None
    metric = metric_of(found[0].metric)
    shown = {metric.cell(row.mean) for row in found if row.mean is not None}
    if len(shown) == 1:  # none is better than another
        return None
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
    mean = sum(reaches) / len(reaches)
    return f"{at_least}{mean:.{int(task.dense)}f} [{min(reaches)}..{max(reaches)}]"


def reference_row(
    label: str, values: Mapping[int, float], metric: Metric, ranges: Iterable[list[int]]
) -> tuple[Entry, ...]:
    """What the best model and what guessing would score, as means over lengths."""
    shown = []
    for lengths in ranges:
        found = [values[length] for length in lengths if length in values]
        shown.append(Entry(metric.cell(sum(found) / len(found)) if found else NOTHING))
    return (Entry(label), Entry(""), *shown, Entry(""))


def difference_table(task: Task) -> Table | None:
    """Every scheme minus the reference, on the metric of reach; None if there is but one."""
    name = task.reach_metric
    metric = metric_of(name)
    rows = [row for row in task.differences if row.metric == name]
    if not rows:
        return None
    lengths, some = columns(task, name)
    body = []
    for curve in dict.fromkeys(row.curve for row in rows):
        found = {row.evaluation_length: row for row in rows if row.curve == curve}
        cells = [
            metric.with_interval(row.mean, row.low, row.high)
            if (row := found.get(length))
            else NOTHING
            for length in lengths
        ]
        body.append((Entry(curve), *map(Entry, cells)))
    reference = rows[0].reference
    everywhere = all(row.mean is not None for row in task.of(name) if row.curve == reference)
    return Table(
        title=f"{metric.title} minus that of {reference} "
        f"({'percentage points' if metric.percent else metric.unit}), with {paired_by(task)}; "
        f"{reference} is the first scheme{' measured at every length' if everywhere else ''}"
        + some.replace("the numbers of the figure", "study.json"),
        columns=("scheme", *map(str, lengths)),
        rows=tuple(body),
    )


def ranking_table(tasks: list[Task], curves: list[str]) -> Table | None:
    """The schemes by mean reciprocal rank; None if no task has them all."""
    found = ranking(tasks, curves)
    if not found:
        return None
    return Table(
        title=f"Mean reciprocal rank past the trained length, over {len(tasks)} tasks and "
        f"{found[0].queries} pairs of task and seed, with a 95% interval over tasks",
        columns=("scheme", "mean", "interval", "every tie lost", "every tie won"),
        rows=tuple(
            (
                Entry(each.curve),
                Entry(f"{each.mean:.3f}"),
                Entry(f"[{each.low:.3f}, {each.high:.3f}]"),
                Entry(f"{each.slighted:.3f}"),
                Entry(f"{each.favoured:.3f}"),
            )
            for each in found
        ),
    )


def past_trained_table(tasks: list[Task], curves: list[str]) -> Table:
    """Exact match past the trained length: tasks down, schemes and chance across."""
    metric = metric_of("exact_match")
    found = {(each.task, each.curve): each for each in past_trained(tasks)}
    body = []
    for task in tasks:
        mine = [found.get((task.label, curve)) for curve in curves]
        shown = {metric.cell(each.mean) for each in mine if each}
        best = max(shown, key=float) if len(shown) > 1 else None
        entries = [
            Entry(text := metric.cell(each.mean), text == best) if each else Entry(NOTHING)
            for each in mine
        ]
        chance = next((each.chance for each in mine if each), 0.0)
        body.append((Entry(task.label), *entries, Entry(metric.cell(chance))))
    return Table(
        title="Exact match past the trained length (%), mean over lengths and seeds",
        columns=("task", *curves, "chance"),
        rows=tuple(body),
    )


def run_table(summary: Summary) -> Table:
    """Every finished run."""
    body = []
    for done in summary.finished:
        about, spent = done.run.training["summary"], done.run.training["provenance"]["seconds"]
        share, reach, overlap = done.in_distribution, done.reach.get(None), about["overlap"]
        body.append(
            (
                done.run.digest[:12],
                done.task,
                made_as(done),
                str(done.seed),
                f"{about['parameters']:,}",
                NOTHING if about["final_loss"] is None else f"{about['final_loss']:.3f}",
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
            "share of ceiling at "
            + (f"{ranged[0].trained_at}" if (ranged := ranges_of(summary)) else "trained length"),
            "reach",
            "evaluated also in training",
            "seconds",
        ),
        rows=tuple(tuple(map(Entry, row)) for row in body),
        words=3,
    )


def made_as(done: Finished) -> str:
    """The scheme of a run, and what was done for which length if it is not as its study's are."""
    aim = done.run.aim
    if aim is None:
        return done.scheme
    return f"{curve_of(done.scheme, aim['done'])} at {aim['length']}"


def ranges_of(summary: Summary) -> list[Task]:
    """The tasks that were trained at a range of lengths."""
    return [task for task in summary.tasks if task.shortest is not None]


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


def plain(table: Table) -> str:
    """The table for a terminal: columns aligned, numbers to the right."""
    lines = [list(table.columns), *([entry.text for entry in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if index < table.words else text.rjust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def escape(text: str) -> str:
    r"""Text that Markdown would not take for markup.

    >>> print(escape("a|b <i> x*y"))
    a\|b &lt;i> x\*y
    """
    text = re.sub(r"([\\`*|]|(?<=\])\()", r"\\\1", text)
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())
