"""Across tasks: how schemes rank past the trained length, and the scores behind the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from .aggregate import curve_of
from .intervals import bootstrap
from .summarise import Summary, Task

LEAST_TASKS = 3
"""With fewer, a mean of ranks says nothing that the tasks' own tables do not."""
METRIC = "exact_match"
RANKS, SCORES = "reciprocal_rank", "past_trained_length"
"""Names of the two figures."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One curve's mean reciprocal rank over tasks and seeds.

    mean: schemes that score alike share the mean of their ranks. low, high: its 95% interval, by a
    bootstrap over tasks. slighted, favoured: what it would be if every tie were decided against it,
    or for it. queries: pairs of task and seed that were ranked.
    """

    curve: str
    mean: float
    low: float
    high: float
    slighted: float
    favoured: float
    queries: int


@dataclass(frozen=True, kw_only=True)
class PastTrained:
    """Mean exact match of one curve over all evaluation lengths past the trained one.

    mean: over seeds; where a scheme has no positions it answers nothing, which counts as 0. least,
    most: the seeds' extremes. chance: what guessing would score over the same lengths.
    """

    task: str
    curve: str
    mean: float
    least: float
    most: float
    seeds: int
    chance: float


def ranked_tasks(summary: Summary) -> list[Task]:
    """The tasks that schemes can be ranked on: scored by exact match, past the trained length.

    None if they are too few, or if there is nothing to rank.
    """
    found = [task for task in summary.tasks if task.metric == METRIC and lengths_past(task)]
    curves = {curve for task in found for curve in task.curves}
    return found if len(found) >= LEAST_TASKS and len(curves) > 1 else []


def lengths_past(task: Task) -> list[int]:
    """The evaluation lengths past the trained one."""
    return [length for length in task.lengths(METRIC) if length > task.trained_length]


def scores(task: Task) -> dict[str, dict[int, float]]:
    """By curve and seed, the mean exact match over the lengths past the trained one."""
    found: dict[str, dict[int, list[float]]] = {}
    for done in task.finished:
        for row in done.run.rows:
            if row.metric == METRIC and row.evaluation_length > task.trained_length:
                curve = found.setdefault(curve_of(row.scheme, row.repair), {})
                curve.setdefault(done.seed, []).append(row.value or 0.0)
    return {
        curve: {seed: sum(values) / len(values) for seed, values in seeds.items()}
        for curve, seeds in found.items()
    }


def past_trained(tasks: Iterable[Task]) -> list[PastTrained]:
    """Of every task and curve, in their order."""
    found = []
    for task in tasks:
        by_curve = scores(task)
        chance = [task.chance.get(length, 0.0) for length in lengths_past(task)]
        for curve in task.curves:
            seeds = list(by_curve.get(curve, {}).values())
            if seeds:
                found.append(
                    PastTrained(
                        task=task.label,
                        curve=curve,
                        mean=sum(seeds) / len(seeds),
                        least=min(seeds),
                        most=max(seeds),
                        seeds=len(seeds),
                        chance=sum(chance) / len(chance),
                    )
                )
    return found


def ranking(tasks: Iterable[Task], curves: Sequence[str]) -> list[Ranked]:
    """The curves by mean reciprocal rank, the highest first; ties in the order given.

    A query is a task and a seed for which every curve is there. Its curves are ranked by their mean
    exact match past the trained length, and a curve's score is the mean of 1 / rank.

    Kazemnejad et al. 2023 (arXiv:2305.19466) rank in the same way, per task and seed, by exact
    match on test lengths. Their program gives tied schemes different ranks in the order in which
    they happen to stand; here they share the mean of these ranks, and `slighted` and `favoured` say
    how much the order could have done.
    """
    queries: dict[str, list[NDArray[np.float64]]] = {}
    for task in tasks:
        by_curve = scores(task)
        seeds = [set(by_curve.get(curve, ())) for curve in curves]
        for seed in sorted(set.intersection(*seeds)):
            values = [by_curve[curve][seed] for curve in curves]
            queries.setdefault(task.label, []).append(-np.array(values))
    if not queries:
        return []

    def reciprocal(values: NDArray[np.float64]) -> NDArray[np.float64]:
        # Ties: shared, then the worst and the best that their order could do.
        ways = [rankdata(values, method=how) for how in ("average", "max", "min")]
        found: NDArray[np.float64] = 1 / np.array(ways)
        return found

    # Tasks by ways by curves: a task is what is drawn, however many of its seeds are there.
    per_task = np.array(
        [np.mean([reciprocal(v) for v in found], axis=0) for found in queries.values()]
    )
    found = []
    for number, curve in enumerate(curves):
        mean, slighted, favoured = per_task[:, :, number].mean(axis=0).tolist()
        low, high = bootstrap(per_task[None, :, 0, number])
        found.append(
            Ranked(
                curve=curve,
                mean=mean,
                low=low,
                high=high,
                slighted=slighted,
                favoured=favoured,
                queries=sum(map(len, queries.values())),
            )
        )
    return sorted(found, key=lambda ranked: -ranked.mean)


def sentence(ranked: Sequence[Ranked], tasks: int) -> str:
    """Who ranks first, and whether the next can be told from it."""
    first, second, *_ = ranked
    said = (
        f"By mean reciprocal rank past the trained length, over {tasks} tasks: "
        + ", ".join(f"{each.curve} {each.mean:.2f}" for each in ranked)
        + "."
    )
    if first.low <= second.mean:
        return (
            f"{said} The interval of {first.curve}, {first.low:.2f} to {first.high:.2f} over "
            f"tasks, holds that of {second.curve}: which of them is first is not settled."
        )
    span = f"{first.low:.2f} to {first.high:.2f}"
    return f"{said} The interval of {first.curve} over tasks is {span}."


RANKS_READING = (
    "Mean reciprocal rank: for each task and seed, schemes are ranked by their mean exact match "
    "over all lengths past the trained one; the best scores 1, the second 1/2, and so on; schemes "
    "that score alike share the mean of their ranks. Thick lines: 95% intervals over tasks. Thin "
    "lines: what it would be with every tie decided against or for the scheme. Read with care: a "
    "rank says nothing of how far apart schemes are, nor whether any of them can do the task; the "
    "next figure does."
)
SCORES_READING = (
    "Exact match in percent, as the mean over all evaluation lengths past the trained one and over "
    "seeds; each task's own section has it length by length. The last column is what guessing "
    "scores."
)
