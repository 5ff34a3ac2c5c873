"""From a runs folder to what is reported of it: per task the aggregates, reach and flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from longreach.errors import InputError
from longreach.results import Results, Row, Run, grouped, reach

from .aggregate import (
    Aggregate,
    Difference,
    Stacks,
    aggregates,
    changes,
    curve_of,
    differences,
    limits_everywhere,
    over_range,
    stacked,
)
from .lengths import dense, ticks
from .metrics import METRICS

REACH_SHARE = 0.9
"""A scheme reaches a length if it scores at least this share of the ceiling there."""
REACH_NATS = 0.05
"""Or, where loss is measured, if the last tokens lose at most this over the trained length."""
BAR = 0.95
"""Share of the ceiling below which a run has not learned its task at the lengths trained at."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """One run, as the report lists it.

    at_trained_length: its score there as a share of the ceiling; None where no ceiling is known.
    in_distribution: the same, as the mean over all lengths that it was trained at.
    reach: by repair (None: unrepaired), in what lengths count; None where the rule has nothing to
    start from. Nothing for a run that serves one length.
    """

    run: Run
    scheme: str
    task: str
    seed: int
    at_trained_length: float | None
    in_distribution: float | None
    reach: Mapping[str | None, int | None]

    @property
    def flagged(self) -> bool:
        """Whether it missed the in-distribution bar."""
        return self.in_distribution is not None and self.in_distribution < BAR


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that a report says about one task; curves are in the plan's order.

    shortest: of the lengths trained at, where they were drawn from a range. over_trained: where
    they were, the mean over the lengths of that range.
    seen: the share of the evaluated sequences that training met, by length, where it was counted.
    changes: against the trained length, where loss is measured; as aggregates of the metrics
    "change" and "cost", and those after training for a length.
    reached: the reach of each seed, by curve.
    extensions: the runs that serve one length past the trained one; they are not in finished.
    others: by metric, ceiling and chance of those that are not the task's own. depths: where
    needles are hidden, if they are: 0 before all text, 1 right before the question.
    """

    label: str
    metric: str
    unit: str
    ceiling: Mapping[int, float]
    chance: Mapping[int, float]
    note: str
    seen: Mapping[int, float]
    shortest: int | None
    trained_length: int
    curves: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    over_trained: tuple[Aggregate, ...]
    changes: tuple[Aggregate, ...]
    differences: tuple[Difference, ...]
    finished: tuple[Finished, ...]
    extensions: tuple[Finished, ...]
    reached: Mapping[str, tuple[int, ...]]
    others: Mapping[str, Mapping[str, Mapping[int, float]]]
    depths: tuple[float, ...]

    @property
    def reach_metric(self) -> str:
        """The metric that reach is read from: never the mean loss, which falls by itself."""
        if self.metric != "loss":
            return self.metric
        return "excess" if any(row.metric == "excess" for row in self.aggregates) else "last_loss"

    @property
    def main_metric(self) -> str:
        """The metric that answers the question."""
        return "change" if self.changes else self.reach_metric

    @property
    def item(self) -> str:
        """What one value is of."""
        if self.depths:
            return "trial"
        return "document" if self.metric == "loss" else "sequence"

    @property
    def metrics(self) -> list[str]:
        """In the order of a report, those unknown to it last."""
        names = dict.fromkeys(found.metric for found in (*self.changes, *self.aggregates))
        if "end_too_late" in names:
            names["endings"] = None
        return [name for name in METRICS if name in names] + [n for n in names if n not in METRICS]

    @property
    def dense(self) -> bool:
        """Whether lengths are many and close together."""
        return dense(self.lengths(self.reach_metric))

    @property
    def ticks(self) -> list[int]:
        """Of an axis of lengths."""
        lengths = self.lengths(self.reach_metric)
        return ticks(lengths, self.trained_length) if self.dense else lengths

    @property
    def trained_at(self) -> str:
        """The lengths trained at, as one says them: "64", or "1 to 16"."""
        first = "" if self.shortest is None else f"{self.shortest} to "
        return f"{first}{self.trained_length}"

    def bounds(self, metric: str) -> Mapping[str, Mapping[int, float]]:
        """Ceiling and chance of a metric, by length; nothing where they are not known."""
        if metric == self.metric:
            return {"ceiling": self.ceiling, "chance": self.chance}
        return self.others.get(metric, {})

    def depth(self, row: Aggregate) -> float:
        """Of the needles behind a row: the nearest of the depths to the position that it names."""
        place = row.last_position / row.evaluation_length
        return min(self.depths, key=lambda depth: abs(depth - place))

    def of(self, metric: str) -> list[Aggregate]:
        """The aggregates of one metric."""
        return [found for found in (*self.changes, *self.aggregates) if found.metric == metric]

    def lengths(self, metric: str) -> list[int]:
        """The evaluation lengths of one metric, ascending."""
        return sorted({found.evaluation_length for found in self.of(metric)})

    def reaches(self, curve: str) -> list[int]:
        """The reach of each seed of a curve."""
        return list(self.reached.get(curve, ()))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All that a report says."""

    results: Results
    tasks: tuple[Task, ...]

    @property
    def curves(self) -> list[str]:
        """Those of all tasks, each once: a curve looks the same in every figure."""
        return list(dict.fromkeys(curve for task in self.tasks for curve in task.curves))

    @property
    def finished(self) -> list[Finished]:
        """Every run, task by task."""
        return [done for task in self.tasks for done in (*task.finished, *task.extensions)]

    @property
    def flagged(self) -> list[Finished]:
        """Runs below the in-distribution bar: listed and kept."""
        return [done for done in self.finished if done.flagged]


def summarise(results: Results) -> Summary:
    """Raises InputError if no run is finished, or runs of a task were not measured alike."""
    if not results.runs:
        raise InputError(
            f"no finished run in {results.folder} yet; run `longreach run` until one is done"
        )
    by_task: dict[str, list[Run]] = {}
    for run in results.runs:
        by_task.setdefault(str(run.evaluation["task"]["label"]), []).append(run)
    return Summary(
        results=results,
        tasks=tuple(
            summarise_task(label, runs, shortest_trained(results))
            for label, runs in by_task.items()
        ),
    )


def shortest_trained(results: Results) -> int | None:
    """The shortest length trained at, where lengths were drawn from a range."""
    study = results.plan["study"]
    found = study["training"].get("shortest")
    return None if found is None or found == study["trained_length"] else int(found)


def summarise_task(label: str, runs: list[Run], shortest: int | None = None) -> Task:
    """The runs of one task."""
    about: Mapping[str, Any] = runs[0].evaluation["task"]
    rows = [row for run in runs for row in run.rows]
    if not rows:
        raise InputError(f"the runs of {label} hold no rows; run the study again to measure them")
    trained_length = rows[0].trained_length
    ceiling = by_length(about["ceiling"])
    stacks = stacked(runs)
    metric = str(about["metric"])
    found = tuple(aggregates(rows, stacks))
    finished = [
        finish(run, metric=metric, ceiling=ceiling, shortest=shortest) for run in runs if run.rows
    ]
    if metric != "loss":
        found = tuple(limits_everywhere(found, metric))
    return Task(
        label=label,
        metric=metric,
        unit=str(about["length_unit"]),
        ceiling=ceiling,
        chance=by_length(about["chance"]),
        note=str(about["note"]),
        seen=seen_in_training(run for run in runs if run.aim is None),
        shortest=shortest,
        trained_length=trained_length,
        curves=tuple(dict.fromkeys(curve_of(row.scheme, row.repair) for row in rows)),
        aggregates=found,
        over_trained=tuple(over_trained(rows, stacks, shortest, trained_length)),
        changes=tuple(changes(found, stacks, trained_length)),
        differences=tuple(differences(label, stacks)),
        finished=tuple(done for done in finished if done.run.aim is None),
        extensions=tuple(done for done in finished if done.run.aim is not None),
        reached=reaches(rows, metric=metric, ceiling=ceiling),
        others={
            name: {which: by_length(values) for which, values in bounds.items()}
            for name, bounds in about.get("others", {}).items()
        },
        depths=tuple(about.get("depths", ())),
    )


def by_length(values: Mapping[str, Any]) -> dict[int, float]:
    """Numbers by length, as JSON keeps them."""
    return {int(length): float(value) for length, value in values.items()}


def seen_in_training(runs: Iterable[Run]) -> dict[int, float]:
    """Mean over runs of the share of evaluated sequences that training met, by length."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for length, share in (run.training["summary"].get("seen") or {}).items():
            found.setdefault(int(length), []).append(float(share))
    return {length: sum(shares) / len(shares) for length, shares in sorted(found.items())}


def over_trained(
    rows: Iterable[Row], stacks: Stacks, shortest: int | None, trained_length: int
) -> Iterable[Aggregate]:
    """Of each curve and metric, the mean over the range of lengths trained at, if there is one."""
    if shortest is None:
        return
    keys = ("task", "scheme", "repair", "metric")
    for values, group in grouped(rows, *keys):
        named = dict(zip(keys, values, strict=True))
        found = over_range(named, group, stacks, (shortest, trained_length))
        if found is not None:
            yield found


def finish(
    run: Run, *, metric: str, ceiling: Mapping[int, float], shortest: int | None = None
) -> Finished:
    """What one run reached, and whether it learned its task in the first place."""
    first = run.rows[0]
    shares = {
        row.evaluation_length: share
        for row in run.rows
        if row.metric == metric != "loss"
        and row.repair is None
        and (shortest or row.trained_length) <= row.evaluation_length <= row.trained_length
        and (share := as_share(row, ceiling).value) is not None
    }
    return Finished(
        run=run,
        scheme=first.scheme,
        task=first.task,
        seed=first.seed,
        at_trained_length=shares.get(first.trained_length),
        in_distribution=sum(shares.values()) / len(shares) if shares else None,
        reach={}
        if run.aim is not None
        else {
            repair: reach_of(rows, metric=metric, ceiling=ceiling)
            for (repair,), rows in grouped(completed(run.rows), "repair")
        },
    )


def reaches(
    rows: Iterable[Row], *, metric: str, ceiling: Mapping[int, float]
) -> dict[str, tuple[int, ...]]:
    """The reach of each curve and seed, whichever runs its rows come from."""
    found: dict[str, list[int]] = {}
    for (scheme, _), group in grouped(rows, "scheme", "seed"):
        for (repair,), mine in grouped(completed(group), "repair"):
            reached = reach_of(mine, metric=metric, ceiling=ceiling)
            if reached is not None:
                found.setdefault(curve_of(scheme, repair), []).append(reached)
    return {curve: tuple(lengths) for curve, lengths in found.items()}


def completed(rows: Iterable[Row]) -> list[Row]:
    """Rows of one scheme and seed, where a repair lacks lengths up to the trained one with them.

    There it serves no purpose, and a model that was extended is what it is without.
    """
    rows = list(rows)
    plain = [
        row for row in rows if row.repair is None and row.evaluation_length <= row.trained_length
    ]
    found = list(rows)
    for (repair,), mine in grouped(rows, "repair"):
        if all(row.evaluation_length > row.trained_length for row in mine):
            found += [replace(row, repair=repair) for row in plain]
    return found


def reach_of(rows: Iterable[Row], *, metric: str, ceiling: Mapping[int, float]) -> int | None:
    """The reach of one run and repair; None if, for a loss, the trained length was not measured."""
    if metric != "loss":
        scored = [as_share(row, ceiling) for row in rows if row.metric == metric]
        return reach(scored, at_least=REACH_SHARE)
    rows = list(rows)
    if over := [row for row in rows if row.metric == "excess" and not below_trained_length(row)]:
        return reach(over, at_most=REACH_NATS)
    last = [row for row in rows if row.metric == "last_loss"]
    start = next((row.value for row in last if at_trained_length(row)), None)
    if start is None:
        return None
    onward = [row for row in last if row.evaluation_length >= row.trained_length]
    return reach(onward, at_most=start + REACH_NATS)


def as_share(row: Row, ceiling: Mapping[int, float]) -> Row:
    """The row with its value as a share of the ceiling, which differs from length to length."""
    best = ceiling.get(row.evaluation_length, 1.0)
    return row if row.value is None or best <= 0 else replace(row, value=row.value / best)


def below_trained_length(row: Row) -> bool:
    """Whether the row was measured at a shorter length than that trained at."""
    return row.evaluation_length < row.trained_length


def at_trained_length(row: Row) -> bool:
    """Whether the row was measured at the length trained at."""
    return row.evaluation_length == row.trained_length
