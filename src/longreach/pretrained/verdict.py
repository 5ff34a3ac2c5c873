"""From measured rows to a verdict: which repair to deploy, by a rule that is told, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..measure.measured import mean_interval, newcombe, wilson
from ..repairs import Repair
from ..report.summarise import REACH_NATS
from ..results import Items, Results, Row
from .wear import BY_LENGTH

Outcome = Literal["no repair needed", "repaired", "not repaired", "cannot be repaired"]

SAME_COST = 0.005
"""Nats per token: costs nearer than this are one, and the repair that is simpler to deploy wins."""

EASE = ("yarn", "linear", "ntk", "llama3", "longrope", "base", "ntk_by_parts")
"""Repairs from the one that most engines take on."""

RULE = (
    f"A repair holds where the last tokens lose at most {REACH_NATS} nats over the control at "
    "every length measured past the trained one, and where needles are found at the target as "
    "often as the model as it is finds them at its trained length (the 95% interval of the "
    "difference reaches 0). Of those that hold, the one that costs least on short text is chosen: "
    "the mean loss over the trained length, against the model as it is. Costs within "
    f"{SAME_COST} nats count as equal, and then the repair that more engines take goes first. "
    f"A repair whose spectrum changes with the length ({', '.join(BY_LENGTH)}) is chosen only "
    "where no other holds: what is measured is a text read at once, and one that grows while it is "
    "written keeps keys in its cache that were turned by an earlier spectrum."
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one repair came to, over all texts.

    repair: None for the model as it is. past: by length past the trained one, the loss over the
    control, with its interval, in nats per token. cost: what it adds to the mean loss over the
    trained length, with its interval. needles: of each kind, the share found at the target, with
    its interval. needles_asked: whether they count; needles_hold: None if none were looked for
    under this repair.
    """

    repair: Repair | None
    past: Mapping[int, tuple[float, float, float]]
    cost: tuple[float, float, float]
    needles: Mapping[str, tuple[float, float, float]]
    needles_asked: bool
    needles_hold: bool | None

    @property
    def name(self) -> str:
        """As it was asked for."""
        return "none" if self.repair is None else str(self.repair)

    @property
    def changes(self) -> bool:
        """Whether its spectrum depends on the length that is being read."""
        return self.repair is not None and self.repair.name in BY_LENGTH

    @property
    def loss_holds(self) -> bool:
        """Whether the loss stays with the control's at every length."""
        return all(mean <= REACH_NATS for mean, _, _ in self.past.values())

    @property
    def holds(self) -> bool:
        """Whether loss and needles hold; what was not looked for is not proven."""
        return self.loss_holds and (not self.needles_asked or self.needles_hold is True)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "repair": self.name,
            "excess": {str(n): list(found) for n, found in self.past.items()},
            "short_text_cost": list(self.cost),
            "needles": {kind: list(found) for kind, found in self.needles.items()},
            "loss_holds": self.loss_holds,
            "needles_hold": self.needles_hold,
            "holds": self.holds,
        }


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What to do.

    outcome: in words. chosen: the trial that won; the model as it is where no repair is needed,
    None where nothing holds. trials: all, the model as it is first. at_trained: of each kind of
    needle, the share that the model as it is finds at its trained length, with its interval.
    """

    trained_length: int
    target_length: int
    outcome: Outcome
    chosen: Trial | None
    trials: tuple[Trial, ...]
    at_trained: Mapping[str, tuple[float, float, float]]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "needles_at_trained_length": {
                kind: list(found) for kind, found in self.at_trained.items()
            },
            "trained_length": self.trained_length,
            "target_length": self.target_length,
            "outcome": self.outcome,
            "chosen": None if self.chosen is None else self.chosen.name,
            "rule": RULE,
            "trials": [trial.as_json() for trial in self.trials],
        }


def judge(
    losses: Results, needles: Results | None, repairs: Sequence[Repair | None], target: int
) -> Verdict:
    """The verdict on repairs that were measured.

    losses: as `longreach measure` leaves them. needles: as `longreach needles` does, if asked for;
        a repair for which none were looked for is judged by its loss alone.
    """
    trials = tuple(trial_of(losses, needles, repair, target) for repair in repairs)
    trained = int(losses.plan["study"]["trained_length"])
    plain = next(trial for trial in trials if trial.repair is None)
    outcome: Outcome = "no repair needed"
    chosen: Trial | None = plain
    if not plain.holds:
        chosen = cheapest([each for each in trials if each.repair is not None and each.holds])
        outcome = "not repaired" if chosen is None else "repaired"
    return Verdict(
        trained_length=trained,
        target_length=target,
        outcome=outcome,
        chosen=chosen,
        trials=trials,
        at_trained={} if needles is None else needles_of(needles, None, trained, trained)[0],
    )


def cheapest(holding: Sequence[Trial]) -> Trial | None:
    """Of the trials that hold, the one that costs least; of equal ones the easiest to deploy.

    One whose spectrum changes with the length comes after all others.
    """
    if not holding:
        return None
    fixed = [trial for trial in holding if not trial.changes] or holding
    least = min(trial.cost[0] for trial in fixed)
    equal = [trial for trial in fixed if trial.cost[0] <= least + SAME_COST]

    def order(trial: Trial) -> tuple[int, float]:
        name = trial.repair.name if trial.repair is not None else ""
        return (EASE.index(name) if name in EASE else len(EASE), trial.cost[0])

    return min(equal, key=order)


def trial_of(losses: Results, needles: Results | None, repair: Repair | None, target: int) -> Trial:
    """What one repair came to."""
    label = None if repair is None else str(repair)
    trained = int(losses.plan["study"]["trained_length"])
    past = {
        length: pooled(losses, "excess", length, label)
        for length in sorted({row.evaluation_length for row in losses.rows})
        if length > trained
    }
    found: dict[str, tuple[float, float, float]] = {}
    hold: bool | None = None
    if needles is not None:
        found, hold = needles_of(needles, label, trained, target)
    return Trial(
        repair=repair,
        past=past,
        cost=pooled(losses, "loss", trained, label, over_plain=True),
        needles=found,
        needles_asked=needles is not None,
        needles_hold=hold,
    )


def pooled(
    results: Results, metric: str, length: int, repair: str | None, *, over_plain: bool = False
) -> tuple[float, float, float]:
    """Mean over all documents of all texts, with its 95 % t interval.

    over_plain: less what the model as it is comes to, document by document.
    """
    parts = []
    for run in results.runs:
        items = run.items
        row = only(run.rows, metric, length, repair)
        values = items[row.item_key].astype(np.float64)
        if over_plain:
            values = values - items[only(run.rows, metric, length, None).item_key]
        parts.append(values)
    whole = np.concatenate(parts)
    low, high = mean_interval(whole)
    return float(whole.mean()), low, high


def only(rows: Iterable[Row], metric: str, length: int, repair: str | None) -> Row:
    """The one row of a metric that is about all of a length."""
    fitting = [
        row
        for row in rows
        if row.metric == metric and row.evaluation_length == length and row.repair == repair
    ]
    return next(row for row in fitting if row.last_position == length)


def needles_of(
    needles: Results, repair: str | None, trained: int, target: int
) -> tuple[dict[str, tuple[float, float, float]], bool | None]:
    """By kind, the share of needles found at the target; and whether that is as at trained length.

    None where none were looked for under this repair.
    """
    found: dict[str, tuple[float, float, float]] = {}
    holds = True
    for run in needles.runs:
        here = share(run.rows, run.items, target, repair)
        start = share(run.rows, run.items, trained, None)
        if here is None or start is None:
            continue
        kind = run.rows[0].task.partition(" ")[0]
        found[kind] = (here[0] / here[1], *wilson(*here))
        holds = holds and newcombe(here, start)[1] >= 0
    return found, holds if found else None


def share(
    rows: Iterable[Row], items: Mapping[str, Items], length: int, repair: str | None
) -> tuple[int, int] | None:
    """Needles found by choice, and looked for, at a length over all depths; None if none were."""
    right, count = 0, 0
    for row in rows:
        whole = row.first_position == 1 and row.last_position == length
        if (row.metric, row.evaluation_length, row.repair) == ("choice", length, repair) and whole:
            values = items[row.item_key]
            right, count = right + int(values.sum()), count + len(values)
    return (right, count) if count else None
