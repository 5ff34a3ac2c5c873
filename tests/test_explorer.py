"""The explorer's pages without a browser: what is drawn, said and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from math import cos, exp, pi
from pathlib import Path

import numpy as np
import pytest

from longreach.errors import InputError
from longreach.explorer import attention, maps, positions, studies, trial, view
from longreach.explorer.address import Asked, marker
from longreach.explorer.positions import BASES, FREE, HEAD_DIMS, HEADS, LENGTHS, Setting
from longreach.repairs import REPAIRS
from longreach.results import Results

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


RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize("path", sorted(studies.SHIPPED.glob("*.gz")), ids=lambda path: path.name)
def test_a_shipped_study_is_the_one_that_is_recorded(path):
    """Made anew with `python -m longreach.explorer.studies` after results/ has changed."""
    made = studies.Recorded.load(path)
    folder = RESULTS / made.name
    assert made.origin == studies.origin(folder)
    assert made.question == Results.read(folder).plan["study"]["question"]
    assert [name for name, _ in made.verdicts]
    for figure in made.figures:
        assert figure["spec"]["datasets"]


def test_every_recorded_study_ships_and_they_are_small():
    recorded = {path.parent.name for path in RESULTS.glob("*/plan.json")}
    shipped = list(studies.SHIPPED.glob(f"*{studies.ENDING}"))
    assert {path.name.removesuffix(studies.ENDING) for path in shipped} == recorded
    everything = (*shipped, *trial.MODELS.rglob("*"))
    assert sum(path.stat().st_size for path in everything if path.is_file()) < 5_000_000
    for path in trial.MODELS.glob("*/weights.safetensors"):
        assert path.stat().st_size < 1_000_000


def test_a_runs_folder_is_shown_as_its_report_tells_it(tmp_path):
    from .report_fixture import write_runs

    folder = write_runs(tmp_path / "mine")
    library = studies.Library([folder])
    name = library.names[0]
    assert name.endswith("(mine)")
    made = library.get(name)
    made.save(tmp_path / "a.json.gz")
    made.save(tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    loaded = studies.Recorded.load(tmp_path / "a.json.gz")
    for task in studies.choices(loaded):
        assert 'class="lr-chart"' in studies.figures_html(loaded, task)
        assert f"<b>{task}.</b>" in studies.words_html(loaded, task) or task == studies.EVERY
    assert library.weights(name) is None


def test_a_studys_words_are_escaped():
    nasty = "<img src=x onerror=alert(1)>"
    made = studies.Recorded(
        name=nasty,
        question=nasty,
        across=nasty,
        verdicts=[(nasty, [nasty])],
        progress=[nasty],
        methods=[nasty],
        provenance=[(nasty, nasty)],
        figures=[
            {key: nasty for key in ("name", "task", "metric", "title", "caption", "description")}
            | {"spec": {"title": nasty}}
        ],
        origin="",
    )
    for task in (nasty, studies.EVERY):
        assert "<img" not in studies.words_html(made, task) + studies.figures_html(made, task)


def test_a_folder_that_is_no_runs_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no runs folder"):
        studies.Library([tmp_path])


# Models to try


def test_every_shipped_model_copies_what_it_was_trained_for_and_fails_in_the_end():
    for name in trial.schemes():
        one = trial.model(name)
        assert one.scores[one.trained_length].value > 0.95
        assert one.scores[trial.LONGEST].value < 0.05
        assert one.reach >= one.trained_length


def test_what_a_model_writes_agrees_with_what_was_measured():
    """Some strings of a length, generated token by token, against the recorded share."""
    for name in trial.schemes():
        for length in (8, 24):
            whole = [
                trial.answers(trial.prompt(number, length), [name])[0].whole for number in range(4)
            ]
            recorded = trial.model(name).scores[length].value
            assert np.mean(whole) == pytest.approx(recorded, abs=0.3)


def test_a_longer_prompt_goes_on_with_the_shorter():
    short, long = trial.prompt(7, 5), trial.prompt(7, 20)
    assert long.startswith(short)
    assert len(long.split()) == 20
    assert trial.prompt(8, 20) != long


def test_right_and_wrong_are_told_by_more_than_colour():
    made = trial.Answer("rope", ("a", "b", "<eos>"), ("a", "c"))
    assert (made.right, made.whole) == (1, False)
    written = trial.answers_html("a b", [made])
    assert written.count("✓") == 1
    assert written.count("✗") == 2
    assert "c: wrong, b is due" in written
    assert "nothing: wrong, &lt;eos&gt; is due" in written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1 to 30"),
        ("a " * 31, "1 to 30"),
        ("a z9", "no word of this task"),
        ("a <sep> b", "frames a sequence"),
        ("a" * 500, "more than 400"),
        ("<img>", "no word of this task"),
    ],
)
def test_a_prompt_that_is_none_is_told(text, said):
    with pytest.raises(InputError, match=said):
        trial.answers(text, ["rope"])


# Addresses


def test_an_address_gives_what_is_sensible_and_nothing_else():
    asked = Asked({"a": "3", "b": "NaN", "c": "1e999", "d": "x,rope,<b>", "e": "y" * 501})
    assert asked.whole("a", 1, 5) == 3
    assert asked.whole("a", 4, 5) is None
    assert asked.number("b", -9e99, 9e99) is None
    assert asked.number("c", -9e99, 9e99) is None
    assert asked.texts("d", ["alibi", "rope"]) == ["rope"]
    assert asked.texts("z", ["rope"]) is None
    assert asked.raw("e") is None
    assert Asked({"tab": "trial", "a": "3"}, "studies").whole("a", 1, 5) is None


OPENED = """
import gradio
from longreach.explorer import app, studies
from longreach.explorer.address import Asked

asked = {"study": "copy-reverse", "task": "reverse", "length": "12", "schemes": "rope"}
with gradio.Blocks():
    for name in ("studies", "trial"):
        part = app.MADE[name](gradio.Tab(name), studies.Library([]), False)
        found = part.addressed(Asked(asked))
        assert len(found) == len(part.outputs)
        print(name, *found[:3])
"""


def test_what_an_address_names_does_not_wait_for_the_browser_to_open_the_tab():
    """Seen once in twenty visits on a busy machine: the tab was selected, and nobody was told."""
    pytest.importorskip("gradio_client")
    command = [sys.executable, "-W", "ignore", "-c", OPENED]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown, tried = said.split("trial ")
    assert shown.startswith("studies copy-reverse")
    assert "At 18 symbols" in shown  # Of reverse.
    assert tried.startswith("12 0 ['rope']")


def test_a_marker_is_escaped_and_reads_back():
    from html import unescape
    from urllib.parse import parse_qs

    nasty = '"><img src=x>&a=b'
    made = marker("trial", text=nasty)
    assert "<img" not in made
    query = unescape(made.split('data-query="')[1].split('"')[0])
    assert parse_qs(query) == {"tab": ["trial"], "text": [nasty]}


def test_a_studys_models_are_looked_into_where_their_weights_are():
    library = studies.Library([trial.MODELS])
    name = library.names[0]
    about = attention.choices(library, name)
    assert list(about.schemes) == trial.schemes()
    made = attention.view(library, name, "copy", "alibi", 12)
    assert "alibi at 12" in made.title
    assert "width" not in made.page_spec  # It has one of its own.
    for wrong in (("learned", 12), ("alibi", 0), ("alibi", 65)):
        with pytest.raises(InputError):
            attention.view(library, name, "copy", *wrong)
    shipped = attention.choices(library, "recall")
    assert list(shipped.schemes) == []


def test_maps_of_the_recorded_models_ship_and_are_small():
    (path,) = maps.MAPS.glob("*")
    assert path.stat().st_size < 200_000
    found = maps.Recorded.load(path)
    assert (found.name, found.tasks) == ("copy-reverse", ["copy", "reverse"])
    assert found.schemes == ["nope", "sinusoidal", "rope", "alibi", "t5_bias", "learned"]
    assert found.lengths == [8, 16, 32]
    assert len(found.maps) == 6 * 2 * 3
    assert "/" not in found.origin
    recorded = {path.name for path in (RESULTS / found.name).iterdir()}
    for one in found.maps:
        assert one.run in recorded  # The training that was recorded, by its digest.
        if (one.scheme, one.length) == ("learned", 32):
            assert one.panel.weights is None
            assert "past the limit" in one.panel.note
            continue
        queries, keys = one.panel.weights.shape
        assert (queries, keys) == (one.length + 1, 2 * one.length + 2)
        np.testing.assert_allclose(one.panel.weights.sum(1), 1, atol=5e-4 * keys)
        assert one.length > 16 or one.score > 0.25  # Within the trained length heads do point.
