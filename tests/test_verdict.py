"""The verdict: chosen by the rule that is told, from rows; and what is said of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from longreach.measure.measured import wilson
from longreach.pretrained.verdict import cheapest, judge, needles_of, pooled
from longreach.pretrained.wear import BY_LENGTH
from longreach.repairs import Repair
from longreach.results import Row

YARN, LINEAR = Repair("yarn"), Repair("linear")
TRAINED, TARGET = 64, 128


def row(metric, length, repair, first=1, last=None) -> Row:
    return Row(
        training="d",
        scheme="rope",
        task="text",
        seed=0,
        repair=repair,
        trained_length=TRAINED,
        evaluation_length=length,
        metric=metric,
        first_position=first,
        last_position=last or length,
        value=0.0,
        low=None,
        high=None,
        count=4,
    )


def results(values: dict) -> SimpleNamespace:
    """Two texts with two documents each. values: (metric, length, repair) -> four numbers."""
    runs = []
    for part in (slice(0, 2), slice(2, 4)):
        rows = [row(*key) for key in values]
        # A row about a range of positions must not be taken for one about the whole length.
        rows.insert(0, row("loss", TRAINED, None, last=7))
        items = {
            each.item_key: np.array(values[each.metric, each.evaluation_length, each.repair][part])
            for each in rows[1:]
        }
        items[rows[0].item_key] = np.array([99.0, 99.0])
        runs.append(SimpleNamespace(rows=rows, items=items))
    plan = {"study": {"trained_length": TRAINED}}
    return SimpleNamespace(runs=runs, plan=plan, rows=[r for run in runs for r in run.rows])


def losses(**excess) -> SimpleNamespace:
    """By repair: the loss over the control at the target, and what it adds on short text."""
    base = np.array([2.0, 3.0, 2.5, 2.2])
    values = {}
    for name, (over, cost) in excess.items():
        label = None if name == "none" else name
        values["loss", TRAINED, label] = (base + cost).tolist()
        values["excess", TARGET, label] = [over - 0.01, over + 0.01, over, over]
    return results(values)


def verdict(needles=None, **excess):
    everyone = [None if name == "none" else Repair(name) for name in excess]
    return judge(losses(**excess), needles, everyone, TARGET)


def test_numbers_are_paired_by_document_over_all_texts():
    found = losses(none=(0.4, 0.0), yarn=(0.02, 0.1))
    mean, low, high = pooled(found, "loss", TRAINED, "yarn", over_plain=True)
    assert (mean, low, high) == pytest.approx((0.1, 0.1, 0.1))
    values = np.array([0.01, 0.03, 0.02, 0.02])
    assert pooled(found, "excess", TARGET, "yarn")[0] == pytest.approx(0.02)
    wanted = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert pooled(found, "excess", TARGET, "yarn")[1:] == pytest.approx(wanted)


def test_what_reaches_as_it_is_needs_no_repair():
    found = verdict(none=(0.03, 0.0), yarn=(0.0, 0.01))
    assert found.outcome == "no repair needed"
    assert found.chosen.repair is None


def test_of_those_that_hold_the_one_that_costs_least_is_chosen():
    found = verdict(none=(0.5, 0.0), linear=(0.04, 0.7), yarn=(0.02, 0.02), dynamic=(0.06, 0.0))
    assert found.outcome == "repaired"
    assert found.chosen.repair == YARN  # dynamic costs less and does not hold.
    assert [trial.holds for trial in found.trials] == [False, True, True, False]


def test_costs_that_are_equal_go_to_what_more_engines_take():
    found = verdict(none=(0.5, 0.0), ntk=(0.0, 0.01), yarn=(0.0, 0.014))
    assert found.chosen.repair == YARN
    found = verdict(none=(0.5, 0.0), ntk=(0.0, 0.01), yarn=(0.0, 0.016))
    assert found.chosen.repair == Repair("ntk")


@pytest.mark.parametrize("changing", sorted(set(BY_LENGTH) - {"longrope"}))  # That needs its lists.
def test_a_spectrum_that_changes_with_the_length_is_chosen_where_no_other_holds(changing):
    """A cache that grows would hold keys turned by several."""
    other = {changing: (0.0, 0.0)}
    assert verdict(none=(0.5, 0.0), **other, yarn=(0.0, 0.02)).chosen.repair == YARN
    assert verdict(none=(0.5, 0.0), **other, yarn=(0.3, 0.02)).chosen.repair == Repair(changing)


def test_where_nothing_holds_it_is_told():
    found = verdict(none=(0.5, 0.0), yarn=(0.3, 0.0), linear=(0.2, 0.5))
    assert found.outcome == "not repaired"
    assert found.chosen is None
    assert cheapest([]) is None


def needles(found: dict) -> SimpleNamespace:
    """By (length, repair): how many of four were found."""
    rows, items = [], {}
    for (length, repair), right in found.items():
        rows.append(row("choice", length, repair))
        items[rows[-1].item_key] = np.array([1] * right + [0] * (4 - right), dtype=np.uint8)
        # The rows of a depth, and of greedy text, do not count here.
        for other in (
            row("choice", length, repair, first=9, last=9),
            row("exact_match", length, repair),
        ):
            rows.append(other)
            items[other.item_key] = np.zeros(4, dtype=np.uint8)
    return SimpleNamespace(runs=[SimpleNamespace(rows=rows, items=items)])


def test_needles_hold_if_they_may_be_as_many_as_at_the_trained_length():
    found = needles(
        {(TRAINED, None): 3, (TARGET, None): 0, (TARGET, "yarn"): 2, (TARGET, "linear"): 0}
    )
    shares, hold = needles_of(found, "yarn", TRAINED, TARGET)
    assert shares == {"text": (0.5, *wilson(2, 4))}
    assert hold is True
    all_found = {(TRAINED, None): 4, (TARGET, "yarn"): 3, (TARGET, "linear"): 1}
    # 3 of 4 may be as many as 4 of 4 though neither interval reaches past the other's share.
    assert wilson(3, 4)[1] < 1
    assert needles_of(needles(all_found), "yarn", TRAINED, TARGET)[1] is True
    assert needles_of(needles(all_found), "linear", TRAINED, TARGET)[1] is False
    assert needles_of(found, "linear", TRAINED, TARGET)[1] is False
    assert needles_of(found, "ntk", TRAINED, TARGET) == ({}, None)


def test_needles_decide_where_the_loss_does_not():
    excess = dict(none=(0.5, 0.0), linear=(0.0, 0.0), yarn=(0.0, 0.1))
    assert verdict(**excess).chosen.repair == LINEAR
    lost = {(TRAINED, None): 4, (TARGET, None): 0, (TARGET, "linear"): 0}
    found = verdict(needles(lost), **excess)
    assert found.outcome == "not repaired"  # No needle was looked for under yarn.
    found = verdict(needles({**lost, (TARGET, "yarn"): 4}), **excess)
    assert found.chosen.repair == YARN
    assert found.trials[1].needles_hold is False
