"""The verdict: what a study found, in plain sentences made from its rows."""

from __future__ import annotations

from collections.abc import Iterable

from .aggregate import AFTER_TRAINING, Aggregate, Difference
from .metrics import metric_of
from .ranking import ranked_tasks, ranking, sentence
from .summarise import REACH_NATS, REACH_SHARE, Summary, Task

HALF = 0.5
"""Share of the ceiling that a scheme must score where schemes are compared."""
MOST_LEADERS = 3
"""More that reached alike are counted, not named."""


def overall(summary: Summary) -> str:
    """How schemes rank across tasks; nothing if tasks are too few to say."""
    tasks = ranked_tasks(summary)
    found = ranking(tasks, summary.curves) if tasks else []
    return sentence(found, len(tasks)) if found else ""


def headlines(summary: Summary) -> list[str]:
    """The verdict in a sentence: across tasks if they can be ranked, else one for each task."""
    if said := overall(summary):
        return [said]
    found = [(task.label, headline(task)) for task in summary.tasks]
    if len(found) == 1:
        return [said for _, said in found if said]
    return [f"{label}: {said}" for label, said in found if said]


def headline(task: Task) -> str:
    """Who reached furthest, and a number with its interval for what that is worth."""
    means = {
        curve: sum(reached) / len(reached)
        for curve in task.curves
        if (reached := task.reaches(curve))
    }
    if not means:
        return ""
    furthest = max(means.values())
    leaders = [curve for curve in means if means[curve] == furthest]
    of = f" of {len(means)}" if len(means) > 1 else ""
    if furthest <= task.trained_length:
        opening = f"None{of} reached past" if of else f"{leaders[0]} did not reach past"
        said = f"{opening} the {task.trained_length} {task.unit} trained at"
        return f"{said}{worth(task, list(means))}."
    listed_leaders = listed(leaders) if len(leaders) <= MOST_LEADERS else f"{len(leaders)} schemes"
    opening = f"{listed_leaders} reached furthest{of}: " if of else f"{leaders[0]} reached "
    return f"{opening}{reach_told(task, leaders)}{worth(task, leaders)}."


def reach_told(task: Task, leaders: list[str]) -> str:
    """How far the leaders reached, over their seeds."""
    reached = [length for curve in leaders for length in task.reaches(curve)]
    least, most, mean = min(reached), max(reached), sum(reached) / len(reached)
    times = f", {mean / task.trained_length:.2g} times the {task.trained_length} trained at"
    longest = ", the longest length measured" if most == task.lengths(task.reach_metric)[-1] else ""
    if least == most:
        return f"{most} {task.unit}{times}{longest}"
    return f"{mean:.{int(task.dense)}f} {task.unit} on average ({least} to {most} by seed){times}"


def worth(task: Task, curves: list[str]) -> str:
    """A clause: what the best of some curves scores at the telling length, with its interval."""
    names = {"excess": ["excess"], "last_loss": ["change", f"change{AFTER_TRAINING}"]}
    length = telling_length(task)
    rows = {
        row.curve: row
        for name in names.get(task.reach_metric, [task.reach_metric])
        for row in task.of(name)
        if row.curve in curves and row.evaluation_length == length and row.mean is not None
    }
    if not rows:
        return ""
    metric = metric_of(next(iter(rows.values())).metric)
    sign = 1 if metric.lower_is_better else -1
    best = min(rows.values(), key=lambda row: sign * (row.mean or 0.0))
    if best.mean is None or best.low is None or best.high is None:
        return ""
    span = f"(95% interval {metric.cell(best.low)} to {metric.cell(best.high)})"
    whose = "its" if len(curves) == 1 else f"{best.curve}'s"
    if metric.paired:
        against = "the control" if best.metric == "excess" else f"that at {task.trained_length}"
        return (
            f"; at {length}, {whose} loss of the last {width(best)} tokens against {against} is "
            f"{metric.signed(best.mean)} nats {span}"
        )
    percent = "%" if metric.percent else ""
    score = f"{metric.cell(best.mean)}{percent} {span}"
    return f"; at {length}, {whose} {metric.title.lower()} is {score}"


def verdict(task: Task) -> list[str]:
    """How far each scheme reaches, and what that is worth at the longest length: sentences."""
    said = (reach_sentence(task), change_sentence(task), difference_sentence(task))
    return [sentence for sentence in said if sentence]


def reach_sentence(task: Task) -> str:
    """The schemes by reach, furthest first; those that do alike share a clause."""
    clauses: dict[str, list[str]] = {}
    order = sorted(task.curves, key=lambda curve: -sum(task.reaches(curve)))
    for curve in order:
        clauses.setdefault(clause(task, curve), []).append(curve)
    said = "; ".join(f"{listed(curves)} {text}" for text, curves in clauses.items())
    return f"{rule(task)}, {said}." if said else ""


def rule(task: Task) -> str:
    """The bar, as an opening of a sentence."""
    if task.metric != "loss":
        name = metric_of(task.metric).title.lower()
        return f"Scoring at least {REACH_SHARE:.0%} of the ceiling in {name} at every length"
    over = task.of("excess")
    if over:
        return (
            f"Keeping the loss of the last {width(over[0])} tokens within {REACH_NATS} nats of "
            f"what the model as it is makes of them with no more than {task.trained_length:,} "
            "tokens before them"
        )
    last = task.of("last_loss")
    tokens = (
        f"last {last[0].last_position - last[0].first_position + 1} tokens" if last else "tokens"
    )
    return (
        f"Keeping the loss of the same {tokens} within {REACH_NATS} nats of what it is at the "
        f"trained length of {task.trained_length}"
    )


def width(row: Aggregate) -> int:
    """How many tokens a row scores."""
    return row.last_position - row.first_position + 1


def clause(task: Task, curve: str) -> str:
    """What one scheme did; in the past tense, which fits one scheme and several."""
    measured = longest_measured(task, curve)
    if not measured:
        return "had no positions at any of these lengths"
    reaches = task.reaches(curve)
    if not reaches:
        return "could not be judged, as the trained length was not measured"
    lengths = task.lengths(task.reach_metric)
    least, most = min(reaches), max(reaches)
    if most == 0:
        return f"did not reach even {lengths[0]}"
    if least == most == measured < lengths[-1]:
        return f"reached {most} and had no positions further on"
    times = f" ({most / task.trained_length:.2g}x)" if most > task.trained_length else ""
    longest = ", the longest length measured" if most == lengths[-1] else ""
    if least < most:
        return f"reached between {least} and {most}{times}{longest}, depending on the seed"
    if longest:
        return f"reached {most}{times}{longest}"
    following = next(length for length in lengths if length > most)
    return f"reached {most}{times} and failed by {following}"


def longest_measured(task: Task, curve: str) -> int:
    """The longest length at which the scheme has a number."""
    rows = [row for row in task.of(task.reach_metric) if row.curve == curve]
    return max((row.evaluation_length for row in rows if row.mean is not None), default=0)


def change_sentence(task: Task) -> str:
    """By how much each scheme's loss changes up to the longest length it was measured at."""
    over = task.reach_metric == "excess"
    metric = metric_of("excess" if over else "change")
    names = ["excess"] if over else ["change", f"change{AFTER_TRAINING}"]
    rows = [row for name in names for row in task.of(name)]
    beyond = [row for row in rows if row.evaluation_length > task.trained_length]
    last = {row.curve: row for row in beyond if row.mean is not None}  # lengths ascend
    said = [
        f"{row.curve} {metric.with_interval(row.mean, row.low, row.high)} at "
        f"{row.evaluation_length}"
        for row in sorted(last.values(), key=lambda row: (-row.evaluation_length, row.mean))
        if row.low is not None and row.high is not None and row.mean is not None
    ]
    opening = "Loss over the control" if over else "Change from the trained length"
    opening += ", in nats per token with 95% intervals"
    return f"{opening}: {'; '.join(said)}." if said else ""


def difference_sentence(task: Task) -> str:
    """The best scheme against the reference at the longest length, or the reference's next best."""
    metric = metric_of(task.reach_metric)
    length = telling_length(task)
    found = [
        row
        for row in task.differences
        if row.metric == task.reach_metric and row.evaluation_length == length
    ]
    if not found:
        return ""
    sign = 1 if metric.lower_is_better else -1
    best: Difference = min(found, key=lambda row: sign * row.mean)
    unit = "percentage points" if metric.percent else "nats"
    low, high = sorted((abs(best.low), abs(best.high)))
    opening = f"At {length} {task.unit}{why_there(task, length)}, {best.curve}"
    span = f"95% interval {metric.cell(low)} to {metric.cell(high)}, paired by seed and {task.item}"
    if best.low <= 0 <= best.high:
        return (
            f"{opening} cannot be told from {best.reference}: the difference is "
            f"{metric.signed(best.mean)} {unit} (95% interval {metric.signed(best.low)} to "
            f"{metric.signed(best.high)}, paired by seed and {task.item})."
        )
    side = "below" if best.mean < 0 else "above"
    return f"{opening} is {metric.cell(abs(best.mean))} {unit} {side} {best.reference} ({span})."


def telling_length(task: Task) -> int:
    """The longest length; of fractions, the longest at which some scheme still scores half.

    Where all fail, that they do alike says nothing about which fails first.
    """
    lengths = task.lengths(task.reach_metric) or [0]
    if task.metric == "loss":
        return lengths[-1]
    told = [
        row.evaluation_length
        for row in task.of(task.reach_metric)
        if row.mean is not None
        and row.evaluation_length >= task.trained_length
        and row.mean >= HALF * task.ceiling.get(row.evaluation_length, 1.0)
    ]
    return max(told, default=lengths[-1])


def why_there(task: Task, length: int) -> str:
    """Why a length is looked at that is not the longest."""
    if length == task.lengths(task.reach_metric)[-1]:
        return ""
    return ", the longest length at which a scheme still scores half of the ceiling"


def listed(names: Iterable[str]) -> str:
    """Names as one says them.

    >>> listed(["rope", "nope", "alibi"])
    'rope, nope and alibi'
    """
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
