"""Over seeds: means, intervals, and differences paired by seed and by sequence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longreach.errors import InputError
from longreach.results import Items, Row, Run, Status, grouped, trained_for

from .intervals import bootstrap, fraction_interval
from .metrics import metric_of

CELL = ("metric", "evaluation_length", "first_position", "last_position")
Cell = tuple[str, int, int, int]
"""A metric, an evaluation length, and the first and last position."""
AFTER_TRAINING = "_after_training"
"""Ends the name of a metric of curves that were trained for each length."""
Stacks = dict[tuple[str, Cell], dict[int, Items]]
"""Per curve and cell: per seed, the value of each sequence or document."""


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One metric of one scheme at one length, over seeds.

    mean, low, high: of the seeds' values, and its 95% interval. sd: sample standard deviation over
    seeds (ddof 1), None for one seed. least, most: the seeds' extremes. count: distinct sequences
    or documents. All None, and status "past_limit", where the scheme has no such position.
    """

    task: str
    scheme: str
    repair: str | None
    metric: str
    evaluation_length: int
    first_position: int
    last_position: int
    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    least: float | None
    most: float | None
    seeds: int
    count: int
    status: Status

    @property
    def curve(self) -> str:
        """Names the line in a figure: the scheme and the repair it wears."""
        return curve_of(self.scheme, self.repair)

    @property
    def cell(self) -> Cell:
        """The column of a table that it belongs to."""
        return (self.metric, self.evaluation_length, self.first_position, self.last_position)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A curve minus the reference in one cell, paired by seed and by sequence or document."""

    task: str
    curve: str
    reference: str
    metric: str
    evaluation_length: int
    first_position: int
    last_position: int
    mean: float
    low: float
    high: float
    seeds: int


def curve_of(scheme: str, repair: str | None) -> str:
    """The name of a line: `rope`, or `rope + yarn`."""
    return scheme if repair is None else f"{scheme} + {repair}"


def stacked(runs: Iterable[Run]) -> Stacks:
    """The items of every measured row, by curve, cell and seed."""
    stacks: Stacks = {}
    counts: dict[Cell, tuple[int, str]] = {}
    for run in runs:
        items = run.items
        for row in run.rows:
            if row.value is None:
                continue
            values = items[row.item_key]
            cell = cell_of(row)
            count, first = counts.setdefault(cell, (len(values), run.digest))
            if len(values) != count:
                raise InputError(
                    f"{run.folder} and {first} were measured on {len(values)} and {count} "
                    f"sequences ({row.item_key}), expected the same; run the study again"
                )
            stacks.setdefault((curve_of(row.scheme, row.repair), cell), {})[row.seed] = values
    return stacks


def cell_of(row: Row) -> Cell:
    """The column of a table that a row belongs to."""
    return (row.metric, row.evaluation_length, row.first_position, row.last_position)


def aggregates(rows: Iterable[Row], stacks: Stacks) -> Iterable[Aggregate]:
    """One per curve and cell, in the order of the rows."""
    keys = ("task", "scheme", "repair", *CELL)
    for values, group in grouped(rows, *keys):
        named = dict(zip(keys, values, strict=True))
        scores = np.array([row.value for row in group if row.value is not None])
        if len(scores):
            stack = stacks[curve_of(named["scheme"], named["repair"]), values[3:]]
            yield over_seeds(named, scores, np.stack(list(stack.values())))
        else:
            blank: dict[str, Any] = dict.fromkeys(("mean", "sd", "low", "high", "least", "most"))
            yield Aggregate(**named, **blank, seeds=len(group), count=0, status="past_limit")


def limits_everywhere(found: Iterable[Aggregate], metric: str) -> Iterable[Aggregate]:
    """The same, where a length is past a curve's limit for each metric of that length.

    Past the limit, rows carry the task's own metric alone; tables and figures of the others are to
    say so too.
    """
    found = list(found)
    others = [name for name in dict.fromkeys(row.metric for row in found) if name != metric]
    known = {(row.curve, row.metric, row.evaluation_length) for row in found}
    for row in found:
        yield row
        if row.metric == metric and row.status == "past_limit":
            for name in others:
                if (row.curve, name, row.evaluation_length) not in known:
                    yield replace(row, metric=name)


def over_range(
    named: Mapping[str, Any], rows: Iterable[Row], stacks: Stacks, lengths: tuple[int, int]
) -> Aggregate | None:
    """The mean over all lengths measured from the first to the second; None if one is past a limit.

    Sequences of different lengths were drawn independently, so the mean over lengths of what has
    the same place among the sequences of each is a value to draw again.
    """
    first, last = lengths
    inside = [row for row in rows if first <= row.evaluation_length <= last]
    if not inside or any(row.value is None for row in inside):
        return None
    curve = curve_of(named["scheme"], named["repair"])
    cells = dict.fromkeys(map(cell_of, inside))
    stack = [np.stack([*stacks[curve, cell].values()]).astype(np.float64) for cell in cells]
    items = np.mean(stack, axis=0)
    cell = dict(zip(CELL, next(reversed(cells)), strict=True))
    count = items.shape[1] * len(cells)
    found = over_seeds(dict(named) | cell, items.mean(axis=1), items, count)
    return replace(found, count=count)


def over_seeds(
    named: dict[str, Any],
    scores: NDArray[np.floating],
    items: NDArray[Any],
    distinct: int | None = None,
) -> Aggregate:
    """The aggregate of one value per seed, and of the items behind them (seeds by items).

    distinct: sequences behind the items, if not one each.
    """
    low, high = interval(named["metric"], float(scores.mean()), items, distinct)
    return Aggregate(
        **named,
        mean=float(scores.mean()),
        sd=float(scores.std(ddof=1)) if len(scores) > 1 else None,
        low=low,
        high=high,
        least=float(scores.min()),
        most=float(scores.max()),
        seeds=len(scores),
        count=items.shape[1],
        status="measured",
    )


def changes(
    aggregates: Iterable[Aggregate], stacks: Stacks, trained_length: int
) -> Iterable[Aggregate]:
    """The loss of the same last tokens minus what it is at the trained length.

    Of a curve that was not measured at the trained length, minus that of its scheme as it is. By
    the same measure `cost` is what `short_loss` is more. Curves that were trained for each length
    go under names of their own, with those that are as they were trained beside them.

    Paired by seed and by document: what documents differ by cancels, so that the interval is that
    of the change alone. Nothing for a curve with no start.
    """
    told = {"last_loss": "change", "short_loss": "cost"}
    found = [row for row in aggregates if row.metric in told]
    starts = {
        row.curve: stacks[row.curve, row.cell]
        for row in found
        if row.metric == "last_loss"
        and row.evaluation_length == trained_length
        and row.status == "measured"
    }
    extended = any(trained_for(row.repair) for row in found)
    for row in found:
        start = starts.get(row.curve, starts.get(curve_of(row.scheme, None)))
        if start is None:
            continue
        name = told[row.metric]
        names = [f"{name}{AFTER_TRAINING}" if trained_for(row.repair) else name]
        if extended and row.repair is None:
            names.append(f"{name}{AFTER_TRAINING}")
        named = {key: getattr(row, key) for key in ("task", "scheme", "repair", *CELL)}
        for metric in names:
            if row.status == "past_limit":
                yield replace(row, metric=metric)
            else:
                items = paired(stacks[row.curve, row.cell], start)
                yield over_seeds(named | {"metric": metric}, items.mean(axis=1), items)


def paired(mine: Mapping[int, Items], theirs: Mapping[int, Items]) -> NDArray[np.float64]:
    """The differences of the items (seeds by items), over the seeds that both have."""
    return np.array(
        [mine[seed].astype(np.float64) - theirs[seed] for seed in mine if seed in theirs]
    )


def interval(
    metric: str, mean: float, items: NDArray[Any], distinct: int | None = None
) -> tuple[float, float]:
    """The 95% interval about a mean, from its items (seeds by sequences)."""
    if metric_of(metric).percent:
        return fraction_interval(items, distinct)
    # A value such as bits per byte is a ratio of sums, not the mean of its documents' values; their
    # spread is carried over to it. Elsewhere the shift is nothing but rounding.
    shift = mean - float(items.astype(np.float64).mean())
    low, high = bootstrap(items)
    return low + shift, high + shift


def differences(label: str, stacks: Stacks) -> Iterable[Difference]:
    """Every curve minus the reference: the first that is measured everywhere, else the first."""
    curves = dict.fromkeys(curve for curve, _ in stacks)
    cells = {cell for _, cell in stacks}
    everywhere = (curve for curve in curves if all((curve, cell) in stacks for cell in cells))
    reference = next(everywhere, next(iter(curves), ""))
    for (curve, cell), mine in stacks.items():
        items = paired(mine, stacks.get((reference, cell), {}))
        if curve == reference or not len(items):
            continue
        low, high = bootstrap(items)
        yield Difference(
            task=label,
            curve=curve,
            reference=reference,
            **dict(zip(CELL, cell, strict=True)),  # type: ignore[arg-type]
            mean=float(items.mean()),
            low=low,
            high=high,
            seeds=len(items),
        )
