"""Searching factors: from YaRN on, never falling, the same again, and never on what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from longreach.cli.app import app
from longreach.errors import InputError
from longreach.pretrained import load
from longreach.pretrained.search import Climb, climbs, factors_of, search
from longreach.pretrained.windows import passages
from longreach.repairs import Repair
from longreach.spectrum import Extension, Spectrum

from . import tiny_models
from .test_measuring import Silent

TARGET = 160
WORDS = "the quick brown fox jumps over the lazy dog"


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    draw = np.random.default_rng(0)
    for number in range(5):
        words = draw.choice(
            ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"], 250
        )
        (folder / f"{number}.txt").write_text(" ".join(words))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_models.write(tmp_path_factory.mktemp("m") / "llama", tiny_models.configs()["llama"])


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder))


def searched(model, out, text, **more):
    asked = dict(text=f"text:{text}", windows=2, kept=2, evaluations=6, seed=0, command="")
    return search(model, TARGET, out, display=Silent(), say=lambda line: None, **{**asked, **more})


def test_both_climbs_start_from_yarn_as_it_stands():
    plain, extension = Spectrum.rope(32), Extension(64, TARGET)
    wanted = Repair("yarn").apply(plain, extension)
    for climb in climbs(plain, extension):
        used = climb.make(climb.ask(np.random.default_rng(0))).apply(plain, extension)
        np.testing.assert_allclose(used.inverse_frequencies, wanted.inverse_frequencies, rtol=1e-5)
        assert used.amplitude == pytest.approx(wanted.amplitude, rel=1e-5)


def test_factors_never_fall_and_never_speed_a_pair_up():
    draw = np.random.default_rng(0)
    start = np.linspace(1, 2.5, 16)
    for _ in range(200):
        found = factors_of(start, draw.normal(0, 2, 6), 10.0)
        assert len(found) == 16
        assert min(found) >= 1
        assert max(found) <= 10
        assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(factors_of(start, np.zeros(6), 10.0), start, rtol=1e-5)


def test_a_climb_finds_the_bottom_of_a_bowl_and_remembers_the_best():
    climb = Climb("bowl", lambda point: Repair("yarn"), 3)
    goal, draw = np.array([0.5, -0.3, 0.2]), np.random.default_rng(0)
    for _ in range(300):
        point = climb.ask(draw)
        climb.tell(point, float(((point - goal) ** 2).sum()))
    assert climb.best[1] < 1e-3
    assert climb.best[1] == min(value for _, value in climb.history)
    assert len(climb.history) == 300


def test_a_search_gains_on_what_it_is_searched_on_and_keeps_off_what_is_measured(
    model, text, tmp_path
):
    found = searched(model, tmp_path / "s", text, evaluations=8)
    for climb in (found.longrope, found.yarn):
        assert len(climb.history) == 8
        assert climb.best[1] <= climb.history[0][1]
        options = json.loads((tmp_path / "s" / f"{climb.name}.json").read_text())
        assert Repair(climb.name, options) == climb.repair()
    assert found.longrope.history[0][1] == pytest.approx(found.yarn.history[0][1], abs=1e-4)
    measured = passages(model, f"text:{text}", TARGET, 2).names
    assert len(found.documents) == 2
    assert not {*found.documents} & {*measured}


def test_stopped_and_begun_again_it_goes_the_same_way(model, text, tmp_path):
    whole = searched(model, tmp_path / "whole", text)
    searched(model, tmp_path / "parts", text, evaluations=3)
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "parts" / ".work").rglob("*.npy")}
    again = searched(model, tmp_path / "parts", text)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    for one, other in ((whole.longrope, again.longrope), (whole.yarn, again.yarn)):
        assert [value for _, value in one.history] == [value for _, value in other.history]
    assert (
        searched(model, tmp_path / "other", text, seed=1).yarn.history[1][1]
        != (whole.yarn.history[1][1])
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kept": 5}, "none is left"),
        ({"evaluations": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_searched_is_refused(model, text, tmp_path, given, said):
    with pytest.raises(InputError, match=said):
        searched(model, tmp_path / "s", text, **given)


def test_a_model_that_turns_nothing_has_nothing_to_search_for(tmp_path, text):
    model = load(str(tiny_models.write(tmp_path / "bloom", tiny_models.configs()["bloom"])))
    with pytest.raises(InputError, match="turns nothing"):
        searched(model, tmp_path / "s", text)


def test_the_command_measures_what_it_found_on_other_documents(folder, text, tmp_path):
    out = tmp_path / "s"
    asked = ["search", str(folder), "--target-length", "160", "--evaluations", "2", "--text"]
    asked += [f"text:{text}", "--windows", "1", "--measured", "2", "--out", str(out)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "On other documents" in result.stdout
    assert (out / "losses" / "report.html").is_file()
    used = ["measure", str(folder), "--lengths", "160", "--text", f"text:{text}", "--windows", "1"]
    used += ["--last-tokens", "16", "--repair", f"longrope:@{out / 'longrope.json'}"]
    result = CliRunner().invoke(app, [*used, "--out", str(tmp_path / "m")])
    assert result.exit_code == 0, result.output
