"""Two models of a kind, seed by seed and sequence by sequence: how much further one reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from longreach.errors import InputError
from longreach.results import Items, Results, Row, Run
from longreach.table import nearest

from .aggregate import curve_of
from .intervals import LEVEL, bootstrap, resamples, wilson
from .lengths import dense
from .metrics import Metric, metric_of
from .summarise import (
    REACH_NATS,
    REACH_SHARE,
    Finished,
    finish,
    shortest_trained,
)
from .verdict import listed

Floats = NDArray[np.float64]
MEASURES = ("trained_length", "evaluation_lengths", "evaluation")
"""Keys of a study that must agree, or other sequences or other lengths were measured."""
NONE = "none"
"""How people name no repair."""
NOT_SETTINGS = (*MEASURES, "question", "schemes", "tasks", "seeds")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A difference, first minus second, and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high

    def as_json(self) -> dict[str, float]:
        """For programs."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class At:
    """One evaluation length: the means of both, and their difference."""

    evaluation_length: int
    first: float
    second: float
    difference: Interval


@dataclass(frozen=True, kw_only=True)
class Reaches:
    """The reach of each seed of both, and their difference. at_end: one held to the last length."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    difference: Interval
    at_end: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two schemes on one task, or one scheme on one task in two folders.

    scheme: that of both, where folders are compared. first, second: what is compared, as people
    name it. beyond: the mean difference over all lengths past the trained one that both were
    measured at. reach: None where the metric has none. notes: what a reader must know besides.
    """

    task: str
    scheme: str | None
    first: str
    second: str
    metric: str
    unit: str
    trained_length: int
    seeds: tuple[int, ...]
    lengths: tuple[At, ...]
    beyond: Interval | None
    reach: Reaches | None
    notes: tuple[str, ...]

    @property
    def dense(self) -> bool:
        """Whether lengths are many and close together."""
        return dense([at.evaluation_length for at in self.lengths])

    @property
    def told(self) -> Metric:
        """How the metric is told."""
        return metric_of(self.metric)

    @property
    def sentences(self) -> list[str]:
        """What was found: of reach, and of the value past the trained length if that is asked."""
        return [*reach_sentence(self), *beyond_sentence(self)]

    def as_json(self) -> dict[str, Any]:
        """For programs; null where there is nothing of the kind."""
        reach = None
        if self.reach:
            reach = {
                "first": list(self.reach.first),
                "second": list(self.reach.second),
                "difference": self.reach.difference.as_json(),
                "told_apart": self.reach.difference.told_apart,
            }
        return {
            "task": self.task,
            "scheme": self.scheme,
            "first": self.first,
            "second": self.second,
            "metric": self.metric,
            "unit": self.unit,
            "trained_length": self.trained_length,
            "seeds": list(self.seeds),
            "reach": reach,
            "beyond": self.beyond.as_json() if self.beyond else None,
            "lengths": [
                {
                    "evaluation_length": at.evaluation_length,
                    "first": at.first,
                    "second": at.second,
                    "difference": at.difference.as_json(),
                }
                for at in self.lengths
            ],
            "sentences": self.sentences,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two: its name, its runs by seed, and what they wear."""

    name: str
    runs: Mapping[int, Run]
    repair: str | None = None

    def of(self, scheme: str | None) -> str:
        """The name in a sentence: the scheme, and the folder where folders are compared."""
        return self.name if scheme is None else f"{scheme} in {self.name}"

    def unrepaired(self, scheme: str | None) -> str:
        """The name of what was trained, whatever it wears."""
        trained = next(iter(self.runs.values())).rows[0].scheme
        return trained if scheme is None else f"{trained} in {self.name}"


def schemes_in(
    folder: Path, first: str, second: str, *, task: str | None = None, metric: str | None = None
) -> list[Comparison]:
    """One scheme against another, on each task of a runs folder that has both.

    Raises InputError for names that no finished run has, and names the nearest.
    """
    if first == second:
        raise InputError(f"--schemes names '{first}' twice; give two schemes")
    results = Results.read(folder)
    cells = cells_of(results)
    for name in (first, second):
        known("scheme", name, (scheme for scheme, _ in cells), folder)
    tasks = [t for t in tasks_of(cells, task, folder) if {(first, t), (second, t)} <= set(cells)]
    if not tasks:
        raise InputError(f"no task in {folder} has finished runs of both {first} and {second}")
    return [
        compared(
            Side(name=first, runs=cells[first, name]),
            Side(name=second, runs=cells[second, name]),
            task=name,
            scheme=None,
            metric=metric,
            shortest=(shortest_trained(results), shortest_trained(results)),
        )
        for name in tasks
    ]


def repairs_in(
    folder: Path,
    first: str,
    second: str,
    *,
    schemes: Sequence[str] | None = None,
    task: str | None = None,
    metric: str | None = None,
) -> list[Comparison]:
    """One repair against another (`none`: unrepaired), on each scheme and task of a runs folder.

    Raises InputError for names that no finished run has, and names the nearest.
    """
    results = Results.read(folder)
    cells = cells_of(results)
    for name in schemes or ():
        known("scheme", name, (scheme for scheme, _ in cells), folder)
    tasks = tasks_of(cells, task, folder)
    chosen = {
        cell: runs
        for cell, runs in cells.items()
        if cell[1] in tasks and (schemes is None or cell[0] in schemes)
    }
    worn = [worn_by(chosen.values(), name, folder) for name in (first, second)]
    if worn[0] == worn[1]:
        raise InputError(f"--repair names '{first}' twice; give two repairs")
    found = []
    for (scheme, name), runs in chosen.items():
        if not set(worn) <= {row.repair for row in rows_of(runs)}:
            continue
        found.append(
            compared(
                *(Side(name=curve_of(scheme, repair), runs=runs, repair=repair) for repair in worn),
                task=name,
                scheme=None,
                metric=metric,
                shortest=(shortest_trained(results), shortest_trained(results)),
            )
        )
    if not found:
        raise InputError(f"no scheme in {folder} was measured under both {first} and {second}")
    return found


def rows_of(runs: Mapping[int, Run]) -> Iterable[Row]:
    """Of all seeds."""
    return (row for run in runs.values() for row in run.rows)


def worn_by(cells: Iterable[Mapping[int, Run]], name: str, folder: Path) -> str | None:
    """The repair that is called so: as it is recorded, or by its name alone if one alone has it."""
    labels = dict.fromkeys(row.repair or NONE for runs in cells for row in rows_of(runs))
    like = [label for label in labels if name in (label, label.partition(":")[0])]
    exact = [label for label in like if label == name]
    if len(like) > 1 and not exact:
        raise InputError(f"'{name}' is several repairs in {folder}: {said(like)}")
    (label,) = exact or like or (name,)
    known("repair", label, labels, folder)
    return None if label == NONE else label


def folders(
    first: Path,
    second: Path,
    *,
    schemes: Sequence[str] | None = None,
    repair: str | None = None,
    task: str | None = None,
    metric: str | None = None,
) -> list[Comparison]:
    """The same scheme, task and seed in one runs folder and in another.

    repair: what both wear; None as they are.
    Raises InputError if they were not measured alike, and says in what they differ.
    """
    one, other = Results.read(first), Results.read(second)
    cells, others = cells_of(one), cells_of(other)
    for name in schemes or ():
        known("scheme", name, (s for found in (cells, others) for s, _ in found), first)
    tasks = tasks_of(cells, task, first)
    theirs = tasks_of(others, task, second)
    alike(one, other, tasks, theirs)
    both = [
        (scheme, name)
        for scheme, name in cells
        if (scheme, name) in others and (schemes is None or scheme in schemes) and name in tasks
    ]
    if not both:
        raise InputError(f"{first} and {second} have no finished run of the same scheme and task")
    names = (first.name, second.name) if first.name != second.name else (str(first), str(second))
    notes = setting_notes(one, other, names)
    alone = sorted({s for s, _ in cells} ^ {s for s, _ in others})
    if alone and schemes is None:
        notes.append(f"Left out, as one folder alone has them: {listed(alone)}.")
    worn = None
    if repair is not None:
        worn = worn_by((found[cell] for cell in both for found in (cells, others)), repair, first)
    return [
        compared(
            Side(name=names[0], runs=cells[cell], repair=worn),
            Side(name=names[1], runs=others[cell], repair=worn),
            task=cell[1],
            scheme=curve_of(cell[0], worn),
            metric=metric,
            shortest=(shortest_trained(one), shortest_trained(other)),
            notes=notes,
        )
        for cell in both
    ]


def cells_of(results: Results) -> dict[tuple[str, str], dict[int, Run]]:
    """The finished runs by scheme and task, and then by seed."""
    found: dict[tuple[str, str], dict[int, Run]] = {}
    for run in results.runs:
        if run.rows and run.aim is None:
            row = run.rows[0]
            found.setdefault((row.scheme, row.task), {})[row.seed] = run
    if not found:
        raise InputError(f"no finished run in {results.folder} yet; run `longreach run` first")
    return found


def known(noun: str, name: str, names: Iterable[str], folder: Path) -> None:
    """Raises InputError for a name that no finished run has, and names the nearest."""
    there = list(dict.fromkeys(names))
    if name not in there:
        raise InputError(f"no finished run of {noun} '{name}' in {folder}; {nearest(name, there)}")


def tasks_of(cells: Iterable[tuple[str, str]], task: str | None, folder: Path) -> list[str]:
    """All tasks, or the one that was asked for."""
    tasks = list(dict.fromkeys(name for _, name in cells))
    if task is None:
        return tasks
    known("task", task, tasks, folder)
    return [task]


def alike(one: Results, other: Results, tasks: list[str], theirs: list[str]) -> None:
    """Raises InputError, naming what differs, unless the same was measured in both folders."""
    mine, yours = one.plan["study"], other.plan["study"]
    differ = [
        f"{key} ({said(mine[key])} and {said(yours[key])})"
        for key in MEASURES
        if without_repairs(mine[key]) != without_repairs(yours[key])
    ]
    if set(tasks) != set(theirs):
        differ.append(f"tasks ({said(tasks)} and {said(theirs)}; --task compares on one)")
    if differ:
        raise InputError(
            f"{one.folder} (study {mine['name']}) and {other.folder} (study {yours['name']}) "
            f"cannot be compared: they differ in {'; '.join(differ)}"
        )


def without_repairs(settings: Any) -> Any:
    """What was measured, whatever was worn: each comparison is of one repair."""
    if not isinstance(settings, Mapping):
        return settings
    return {key: value for key, value in settings.items() if key != "repairs"}


def setting_notes(one: Results, other: Results, names: tuple[str, str]) -> list[str]:
    """In what else the two studies differ: that may be why their models do."""
    mine, yours = (flat(results.plan["study"]) for results in (one, other))
    differ = [
        f"{key} {said(mine.get(key))} in {names[0]}, {said(yours.get(key))} in {names[1]}"
        for key in dict.fromkeys((*mine, *yours))
        if mine.get(key) != yours.get(key) and key.split(".")[0] not in NOT_SETTINGS
    ]
    return [f"The studies differ in {'; '.join(differ)}."] if differ else []


def flat(study: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with dots: `training.steps`."""
    found: dict[str, Any] = {}
    for key, value in study.items():
        inner = value if isinstance(value, Mapping) else None
        found |= {key: value} if inner is None else {f"{key}.{k}": v for k, v in inner.items()}
    return found


def said(value: Any) -> str:
    """A setting, briefly."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {said(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        text = ", ".join(map(str, value))
        return text if len(text) < 50 else f"{len(value)} from {value[0]} to {value[-1]}"
    return "none" if value is None else str(value)


def compared(
    first: Side,
    second: Side,
    *,
    task: str,
    scheme: str | None,
    metric: str | None,
    shortest: tuple[int | None, int | None] = (None, None),
    notes: Iterable[str] = (),
) -> Comparison:
    """The comparison over the seeds that both have."""
    seeds = tuple(sorted(set(first.runs) & set(second.runs)))
    if not seeds:
        raise InputError(
            f"{first.name} and {second.name} have no seed in common on {task}: "
            f"{said(sorted(first.runs))} and {said(sorted(second.runs))}"
        )
    about = first.runs[seeds[0]].evaluation["task"]
    name = metric or answering(first.runs[seeds[0]])
    sides = [[side.runs[seed] for seed in seeds] for side in (first, second)]
    rows = [
        [measured(run, name, side.repair) for run in runs]
        for side, runs in zip((first, second), sides, strict=True)
    ]
    lengths = shared_lengths(rows, name)
    ceiling = {int(length): float(value) for length, value in about["ceiling"].items()}
    items = [
        {length: stack(side, found, length, name) for length in lengths}
        for side, found in zip(sides, rows, strict=True)
    ]
    percent = metric_of(name).percent
    trained = rows[0][0][0].trained_length
    at = [
        At(
            evaluation_length=length,
            first=means[0],
            second=means[1],
            difference=difference(
                items[0][length] - items[1][length], means[0] - means[1], fraction=percent
            ),
        )
        for length in lengths
        for means in [[mean_of(found, length, name) for found in rows]]
    ]
    past = [length for length in lengths if length > trained]
    beyond = None
    if past:
        each = np.mean([items[0][n] - items[1][n] for n in past], axis=0)
        mean = float(np.mean([a.difference.mean for a in at if a.evaluation_length > trained]))
        beyond = difference(each, mean, fraction=percent and len(past) == 1)
    finished = [
        [finish(run, metric=str(about["metric"]), ceiling=ceiling, shortest=low) for run in side]
        for side, low in zip(sides, shortest, strict=True)
    ]
    return Comparison(
        task=task,
        scheme=scheme,
        first=first.name,
        second=second.name,
        metric=name,
        unit=str(about["length_unit"]),
        trained_length=trained,
        seeds=seeds,
        lengths=tuple(at),
        beyond=beyond,
        reach=reaches((first, second), rows, finished, name, ceiling),
        notes=tuple(
            dict.fromkeys(
                (
                    *notes,
                    *seed_notes(first, second, seeds, task),
                    *(
                        note
                        for side, mine, done in zip((first, second), rows, finished, strict=True)
                        for note in caveats(side, scheme, mine[0], done, task)
                    ),
                )
            )
        ),
    )


def answering(run: Run) -> str:
    """The metric that answers the study.

    Of losses, how far they stand over the control if there is one, else over the trained length.
    """
    named = str(run.evaluation["task"]["metric"])
    if named != "loss":
        return named
    return "excess" if any(row.metric == "excess" for row in run.rows) else "change"


def measured(run: Run, metric: str, repair: str | None) -> list[Row]:
    """The rows of a metric under one repair, by length; `change` is told by those of last_loss.

    A repair that was worn past the trained length alone is up to it the model as it is.
    Raises InputError for a metric that is not there, or that has no one value per length.
    """
    name = "last_loss" if metric == "change" else metric
    rows = [row for row in run.rows if row.repair == repair]
    if not rows:
        raise InputError(f"{run.folder} was not measured under {repair or NONE}")
    if all(row.evaluation_length > row.trained_length for row in rows):
        plain = (row for row in run.rows if row.repair is None)
        rows += [row for row in plain if row.evaluation_length <= row.trained_length]
    there = dict.fromkeys(row.metric for row in rows)
    if name not in there:
        choices = [*there, *(["change"] if "last_loss" in there else [])]
        raise InputError(f"no metric '{metric}' in {run.folder}; {nearest(metric, choices)}")
    found = sorted((r for r in rows if r.metric == name), key=lambda row: row.evaluation_length)
    if len({row.evaluation_length for row in found}) < len(found):
        raise InputError(f"'{metric}' has several values per length; compare by another metric")
    return found


def shared_lengths(rows: Sequence[Sequence[Sequence[Row]]], metric: str) -> list[int]:
    """The lengths at which every run has a number."""
    measured = [
        {row.evaluation_length for row in found if row.value is not None}
        for side in rows
        for found in side
    ]
    lengths = sorted(set.intersection(*measured))
    trained = rows[0][0][0].trained_length
    if not lengths or (metric == "change" and trained not in lengths):
        raise InputError(
            f"'{metric}' was not measured {'' if lengths else 'at any common length'}"
            f"{f'at the trained length, {trained}' if lengths else ''} by every run"
        )
    return lengths


def values(run: Run, rows: Iterable[Row], length: int) -> Items:
    """Of each sequence or document, at one length."""
    row = next(row for row in rows if row.evaluation_length == length)
    return run.items[row.item_key]


def stack(runs: Sequence[Run], rows: Sequence[Sequence[Row]], length: int, metric: str) -> Floats:
    """Seeds by sequences."""
    found = [values(run, mine, length) for run, mine in zip(runs, rows, strict=True)]
    if len({len(each) for each in found}) > 1:
        raise InputError(
            f"the runs were measured on {said(sorted({len(each) for each in found}))} sequences "
            f"at {length}, expected the same"
        )
    stacked = np.stack(found).astype(np.float64)
    if metric == "change":
        start = [
            values(run, mine, mine[0].trained_length) for run, mine in zip(runs, rows, strict=True)
        ]
        stacked -= np.stack(start)
    return stacked


def mean_of(rows: Sequence[Sequence[Row]], length: int, metric: str) -> float:
    """Over seeds, of the rows' values."""
    found = []
    for mine in rows:
        by_length = {row.evaluation_length: row.value or 0.0 for row in mine}
        start = by_length[mine[0].trained_length] if metric == "change" else 0.0
        found.append(by_length[length] - start)
    return float(np.mean(found))


def difference(items: Floats, mean: float, *, fraction: bool) -> Interval:
    """A mean of paired differences (seeds by sequences) and its 95 % interval.

    As wide as each of these says: a bootstrap that draws seeds and sequences; Student's t over the
    seeds' means, for a bootstrap of few seeds is too narrow; and for fractions Wilson's interval of
    how many sequences tell the two apart, for a bootstrap of pairs that are all alike has no width.
    """
    # As in the report: a ratio of sums is not the mean of its documents, but spreads as they do.
    shift = mean - float(items.mean())
    bounds = [bootstrap(items)]
    if fraction and np.isin(items, (-1, 0, 1)).all():
        bounds.append(discordant(items))
    bounds = [(low + shift, high + shift) for low, high in bounds]
    bounds += student(items.mean(axis=1), mean)
    if fraction:  # no two fractions differ by more than 1
        bounds = [(max(low, -1.0), min(high, 1.0)) for low, high in bounds]
    return widest(mean, bounds)


def student(per_seed: NDArray[Any], mean: float) -> list[tuple[float, float]]:
    """Student's t interval over seeds; none for a single seed."""
    if len(per_seed) < 2:
        return []
    error = float(np.std(per_seed, ddof=1)) / len(per_seed) ** 0.5
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(per_seed) - 1)) * error
    return [(mean - half, mean + half)]


def discordant(items: Floats) -> tuple[float, float]:
    """Of right minus wrong: from the intervals of the fractions in which either alone is right.

    Newcombe 1998 (doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I) joins the
    intervals of two fractions so. A sequence seen by every seed is still one sequence.
    """
    count = items.shape[1]
    first, second = float(np.maximum(items, 0).mean()), float(np.maximum(-items, 0).mean())
    (low_1, high_1), (low_2, high_2) = wilson(first, count), wilson(second, count)
    mean = first - second
    return (
        mean - float(np.hypot(first - low_1, high_2 - second)),
        mean + float(np.hypot(high_1 - first, second - low_2)),
    )


def widest(mean: float, bounds: Iterable[tuple[float, float]]) -> Interval:
    """From the lowest bound to the highest, the mean itself included."""
    lows, highs = zip(*bounds, strict=True)
    return Interval(mean=mean, low=min(mean, *lows), high=max(mean, *highs))


def reaches(
    both: Sequence[Side],
    rows: Sequence[Sequence[Sequence[Row]]],
    finished: Sequence[Sequence[Finished]],
    metric: str,
    ceiling: Mapping[int, float],
) -> Reaches | None:
    """The reach of both and their difference; None if the metric has none, or nothing to start."""
    answer = answering(finished[0][0].run)
    if metric not in (answer, "last_loss" if answer == "change" else answer):
        return None
    found = [
        [done.reach.get(side.repair) for done in each]
        for side, each in zip(both, finished, strict=True)
    ]
    if any(length is None for side in found for length in side):
        return None
    first, second = (np.array([length or 0 for length in side]) for side in found)
    drawn = [
        drawn_reaches([done.run for done in each], mine, ceiling)
        for each, mine in zip(finished, rows, strict=True)
    ]
    seeds, count = len(first), drawn[0][1]
    weights = resamples(seeds, count).seed_counts
    means = (weights * (drawn[0][0] - drawn[1][0])).sum(axis=1) / seeds
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    mean = float((first - second).mean())
    longest = max(row.evaluation_length for row in rows[0][0])
    return Reaches(
        first=tuple(first.tolist()),
        second=tuple(second.tolist()),
        difference=widest(mean, [(float(low), float(high)), *student(first - second, mean)]),
        at_end=bool(longest in first or longest in second),
    )


def drawn_reaches(
    runs: Sequence[Run], rows: Sequence[Sequence[Row]], ceiling: Mapping[int, float]
) -> tuple[NDArray[np.int64], int]:
    """The reach of each seed in each resample of sequences (resamples by seeds), and how many.

    The same draws for either side, so that sequences stay paired. One draw serves all lengths:
    sequences of different lengths have nothing to do with each other, documents are the same.
    """
    columns = []
    count = 0
    for run, mine in zip(runs, rows, strict=True):
        items = run.items
        count = len(next(items[row.item_key] for row in mine if row.value is not None))
        draws = resamples(len(runs), count).item_counts
        columns.append(reach_by_draw(mine, items, draws, ceiling))
    return np.stack(columns, axis=1), count


def reach_by_draw(
    rows: Sequence[Row], items: Mapping[str, Items], draws: Floats, ceiling: Mapping[int, float]
) -> NDArray[np.int64]:
    """One run's reach in each resample of its sequences."""
    losses = rows[0].metric in ("last_loss", "excess")
    trained = rows[0].trained_length
    found = np.zeros(len(draws), dtype=np.int64)
    alive = np.ones(len(draws), dtype=bool)
    start: Floats | float | None = 0.0 if rows[0].metric == "excess" else None
    for row in rows:
        if losses and row.evaluation_length < trained:
            continue
        if row.value is None:
            break
        means = draws @ items[row.item_key].astype(np.float64) / row.count
        if losses:
            start = means if start is None else start
            alive &= means <= start + REACH_NATS
        else:
            alive &= means >= REACH_SHARE * (ceiling.get(row.evaluation_length) or 1.0)
        found[alive] = row.evaluation_length
    return found


def seed_notes(first: Side, second: Side, seeds: Sequence[int], task: str) -> Iterable[str]:
    """Seeds left out, or one seed alone."""
    left = sorted(set(first.runs) ^ set(second.runs))
    if left:
        yield (
            f"On {task}, over the seeds that both have, {said(list(seeds))}; without "
            f"seed{'s' if len(left) > 1 else ''} {said(left)}, which one of them lacks."
        )
    if len(seeds) == 1:
        yield (
            "One seed: the intervals are over its sequences alone and say nothing about other "
            "seeds."
        )


def caveats(
    side: Side, scheme: str | None, rows: Sequence[Row], done: Sequence[Finished], task: str
) -> Iterable[str]:
    """Where a side has no positions, and under which seeds it did not learn its task."""
    past = [row.evaluation_length for row in rows if row.value is None]
    if past:
        yield f"{side.of(scheme)} has no positions for lengths from {min(past)} on."
    flagged = [each.seed for each in done if each.flagged]
    if flagged:
        yield (
            f"Under seed{'s' if len(flagged) > 1 else ''} {said(flagged)}, "
            f"{side.unrepaired(scheme)} has not learned {task} where it was trained, so what it "
            "does past that says little."
        )


def over(comparison: Comparison) -> str:
    """How many seeds."""
    count = len(comparison.seeds)
    return f"{count} seed{'s' if count > 1 else ', over its sequences alone'}"


def names(comparison: Comparison) -> tuple[str, str, str]:
    """The subject, what it is compared with, and on what."""
    if comparison.scheme is None:
        return comparison.first, comparison.second, f"on {comparison.task}"
    return (
        f"{comparison.scheme} in {comparison.first}",
        f"in {comparison.second}",
        f"on {comparison.task}",
    )


def reach_sentence(comparison: Comparison) -> Iterable[str]:
    """How much further the first reaches, or that the data do not tell."""
    if comparison.reach is None:
        return
    found, unit = comparison.reach.difference, comparison.unit
    subject, other, where = names(comparison)
    digits = int(comparison.dense)  # lengths far apart tell no tenths
    if found.told_apart:
        size = sorted((abs(found.low), abs(found.high)))
        side = "further" if found.mean > 0 else "less far"
        sentence = (
            f"{subject} reaches {abs(found.mean):.{digits}f} {unit} {side} than {other} {where}, "
            f"95 % interval {size[0]:.{digits}f} to {size[1]:.{digits}f}, {over(comparison)}"
        )
    else:
        sentence = (
            f"The data do not tell {subject} and {other} apart in how far they reach {where}: "
            f"difference {found.mean:+.{digits}f} {unit}, 95 % interval "
            f"{found.low:+.{digits}f} to {found.high:+.{digits}f}, {over(comparison)}"
        )
    if comparison.reach.at_end:
        sentence += "; runs that still hold at the longest length measured are counted as that"
    yield f"{sentence}."


def beyond_sentence(comparison: Comparison) -> Iterable[str]:
    """How the metric itself differs past the trained length; of exact match, reach says it."""
    found, metric = comparison.beyond, comparison.told
    if found is None or (comparison.reach is not None and metric.percent):
        return
    unit = "percentage points" if metric.percent else metric.unit
    subject, other, where = names(comparison)
    past = [n.evaluation_length for n in comparison.lengths]
    past = [length for length in past if length > comparison.trained_length]
    lengths = f"{past[0]} to {past[-1]}" if len(past) > 1 else f"{past[0]}"
    name = metric.title[0].lower() + metric.title[1:]
    of = "that of " if comparison.scheme is None else ""  # "than in that folder"
    opening = f"Over the lengths past the trained one, {lengths} {comparison.unit},"
    if found.told_apart:
        size = sorted((abs(found.low), abs(found.high)))
        side = "higher" if found.mean > 0 else "lower"
        yield (
            f"{opening} the {name} of {subject} is {metric.cell(abs(found.mean))} {unit} {side} "
            f"than {of}{other} {where}, 95 % interval {metric.cell(size[0])} to "
            f"{metric.cell(size[1])}, {over(comparison)}."
        )
    else:
        yield (
            f"{opening} the data do not tell {subject} and {other} apart in {name} {where}: "
            f"difference {metric.signed(found.mean)} {unit}, 95 % interval "
            f"{metric.signed(found.low)} to {metric.signed(found.high)}, {over(comparison)}."
        )
