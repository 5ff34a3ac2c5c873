"""The explorer's pages without a browser: what is drawn, said and refused."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from math import cos, exp, pi

import numpy as np
import pytest

from longreach.errors import InputError
from longreach.explorer import positions, view
from longreach.explorer.positions import BASES, FREE, HEAD_DIMS, HEADS, LENGTHS, Setting
from longreach.repairs import REPAIRS

GRID = [
    Setting(),
    Setting(head_dim=HEAD_DIMS[0], base=BASES[0], trained_length=LENGTHS[0], heads=HEADS[0]),
    Setting(head_dim=HEAD_DIMS[-1], base=BASES[-1], target_length=LENGTHS[-1], heads=HEADS[-1]),
    Setting(trained_length=LENGTHS[-1], target_length=LENGTHS[0], repairs=FREE),
    Setting(trained_length=LENGTHS[0], target_length=LENGTHS[-1], repairs=FREE),
    Setting(repairs=()),
]


def rows(spec):
    """All data of a chart, whatever the name that it goes by."""
    return [row for data in spec["datasets"].values() for row in data]


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_every_view_says_what_is_seen_and_is_json_without_nan(setting):
    found = positions.views(setting)
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.title
        assert one.seen
        assert one.words
        json.dumps(one.spec, allow_nan=False)
    assert "<script" not in view.page(found)


def test_the_wavelengths_drawn_are_those_of_rope_and_the_unseen_are_marked():
    spec = positions.wavelengths(Setting(head_dim=64, base=1e4, trained_length=2048)).spec
    drawn = {row["pair"]: row for row in rows(spec) if "turns" in row}
    assert len(drawn) == 32
    for pair, row in drawn.items():
        assert row["wavelength"] == pytest.approx(2 * pi * 10_000 ** (pair / 32))
    slow = [row for row in drawn.values() if row["kind"].startswith("never")]
    assert sorted(row["pair"] for row in slow) == list(range(21, 32))


def test_every_repair_that_needs_no_option_is_drawn_and_the_others_are_named():
    made = positions.speeds(Setting(repairs=FREE))
    assert {row["repair"] for row in rows(made.spec)} == set(FREE)
    for name in REPAIRS:
        assert name in (made.seen if name in FREE else made.reading)


def test_the_alignment_drawn_is_the_mean_of_cosines():
    spec = positions.alignment(Setting(head_dim=16, repairs=())).spec
    drawn = [row for row in rows(spec) if row.get("curve") == "plain RoPE"]
    assert len(drawn) > 100
    for row in drawn[::20]:
        expected = sum(cos(row["distance"] * 10_000 ** (-i / 8)) for i in range(8)) / 8
        assert row["value"] == pytest.approx(expected, abs=1e-5)


def test_the_trap_is_called_noise_with_its_standard_error():
    made = positions.trap(Setting(head_dim=64))
    error = (2 * 32 * 1000) ** -0.5
    assert f"{error:.4f}" in made.seen
    values = np.array([row["value"] for row in rows(made.spec) if "value" in row])
    inside = int((np.abs(values) <= 2 * error).sum())
    assert made.seen.startswith(f"{inside} of {len(values)} points")
    assert inside > 0.8 * len(values)


def test_alibi_takes_its_ten_nats_where_the_slope_says():
    made = positions.alibi(Setting(heads=8, trained_length=2048))
    assert "at 20 tokens, the flattest at 2,560" in made.seen
    assert "7 of 8 within the trained length" in made.seen
    steepest = [r for r in rows(made.spec) if r.get("curve") == "slope 0.5"]
    assert exp(steepest[1]["value"]) == pytest.approx(exp(-0.5 * steepest[1]["distance"]))


@pytest.mark.parametrize(
    ("trained", "said"),
    [(16, "buckets 16 to 31"), (113, "bucket 31:"), (114, "Every bucket is trained")],
)
def test_t5s_untrained_buckets_are_those_whose_first_distance_training_lacks(trained, said):
    assert said in positions.t5(Setting(trained_length=trained)).seen


def test_a_clock_shows_the_arc_that_was_met_and_the_hand_at_the_target():
    class Drawn(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags = []

        def handle_starttag(self, tag, attributes):
            self.tags.append((tag, dict(attributes)))

    parser = Drawn()
    parser.feed(positions.clock(3, turns=0.25, asked=0.75, unseen=True, wavelength=100.0))
    arc = next(found for tag, found in parser.tags if tag == "path")
    assert arc["d"] == "M50.00 12.00 A38 38 0 0 1 88.00 50.00"  # From the top to three o'clock.
    hand = next(found for tag, found in parser.tags if tag == "line")
    assert (hand["x2"], hand["y2"], hand["class"]) == ("20.00", "50.00", "lr-hand lr-unseen")


def test_values_are_escaped_in_markup():
    nasty = "<img src=x onerror=alert(1)>\"'"
    made = view.View(
        name="a", title=nasty, seen=nasty, reading=nasty, spec={"title": nasty, "height": 10}
    )
    written = view.page([made]) + view.table([nasty], [[nasty]], nasty) + view.paragraph(nasty)
    assert "<img" not in written
    assert "onerror=alert(1)&gt;&quot;" in written


@pytest.mark.parametrize(
    "wrong",
    [
        {"head_dim": 7},
        {"base": 1.0},
        {"trained_length": 0},
        {"target_length": 0},
        {"repairs": ("yarm",)},
        {"heads": 0},
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(InputError):
        Setting(**wrong)
