"""The whole visit, from the command line to the page: what is measured, said, kept and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from longreach.checkpoint import from_config
from longreach.cli.app import app
from longreach.diagnose import diagnose
from longreach.engines import prescribe
from longreach.errors import InputError
from longreach.pretrained import letter, load
from longreach.pretrained.prove import Visit, prove, take
from longreach.pretrained.verdict import Trial, Verdict, judge
from longreach.pretrained.work import lengths_for
from longreach.repairs import Repair
from longreach.results import Results
from longreach.spectrum import Extension

from . import tiny_models
from .test_measuring import Silent

WORDS = "the quick brown fox jumps over the lazy dog and a small grey cat sleeps"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    draw = np.random.default_rng(0)
    for number in range(3):
        lines = [" ".join(draw.choice(WORDS.split(), 12)) + "." for _ in range(300)]
        (folder / f"{number}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_models.write(tmp_path_factory.mktemp("m") / "<b>model", tiny_models.longer())


class Showing(Silent):
    def __enter__(self):
        return self

    def __exit__(self, *given):
        pass


def visited(model, target, out, text, **more):
    asked = dict(
        engine="transformers",
        texts=(f"text:{text}",),
        repairs=(),
        windows=1,
        kinds=(),
        trials=1,
        display=Showing,
        command="longreach prove",
        say=lambda line: None,
        max_seconds=None,
    )
    return prove(model, target, out, **{**asked, **more})


def test_the_command_leaves_a_verdict_for_people_and_programs(folder, text, tmp_path):
    out = tmp_path / "visit"
    asked = ["prove", str(folder), "--target-length", "1536", "--text", f"text:{text}"]
    asked += ["--repair", "yarn", "--repair", "linear", "--windows", "1", "--trials", "1"]
    result = CliRunner().invoke(app, [*asked, "--engine", "vllm", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    kept = json.loads((out / "verdict.json").read_text())
    assert kept["verdict"] == found["verdict"]
    assert {"command", "torch", "date"} <= set(kept["provenance"])
    verdict = found["verdict"]
    assert (verdict["trained_length"], verdict["target_length"]) == (1024, 1536)
    assert [trial["repair"] for trial in verdict["trials"]] == ["none", "yarn", "linear"]
    assert list(verdict["trials"][0]["excess"]) == ["1280", "1536"]
    assert [proof["layers_touched"] for proof in found["proofs"]] == [2, 2]
    # The verdict is the rule's, on the rows that lie beside it.
    losses, needles = Results.read(out / "losses"), Results.read(out / "needles")
    again = judge(losses, needles, [None, Repair("yarn"), Repair("linear")], 1536)
    assert again.as_json() == verdict
    page = (out / "verdict.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;model" in page
    assert "<b>model" not in page
    assert page.count("<svg") >= 3  # Loss over the control, by position, needles by depth.
    assert 'href="losses/report.html"' in page
    words = " ".join((out / "verdict.md").read_text(encoding="utf-8").split())
    assert "1,536" in words
    assert "At its trained length, as it is, it finds" in words
    # The same command again reads nothing.
    stamps = {p: p.stat().st_mtime_ns for p in out.rglob("*.npy")}
    again = CliRunner().invoke(app, [*asked, "--engine", "vllm", "--out", str(out), "--json"])
    assert again.exit_code == 0
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*.npy")} == stamps


def test_candidates_are_those_of_the_diagnosis(folder, text, tmp_path):
    found = visited(load(str(folder)), 1536, tmp_path / "v", text)
    wanted = [each.effect.repair for each in found.diagnosis.advice.candidates]
    assert [trial.repair for trial in found.verdict.trials] == [None, *wanted]
    assert {"yarn", "ntk", "dynamic", "linear"} <= {repair.name for repair in wanted}
    assert found.needles is None
    assert all(not trial.needles_asked for trial in found.verdict.trials)


def test_a_table_of_positions_ends_the_visit_with_the_reason(tmp_path, text):
    model = load(str(tiny_models.write(tmp_path / "gpt2", tiny_models.configs()["gpt2"])))
    found = visited(model, 128, tmp_path / "v", text)
    assert found.verdict is None
    (said,) = letter.sentences(found)
    assert "cannot be run there: the table has 64 rows" in said
    assert "the table has 64 rows" in letter.page(found, tmp_path)
    assert letter.text(found)


@pytest.mark.parametrize("name", ["bloom", "t5"])
def test_what_has_nothing_to_repair_is_measured_as_it_is(tmp_path, text, name):
    model = load(str(tiny_models.write(tmp_path / name, tiny_models.configs()[name])))
    found = visited(model, 2 * model.trained_length, tmp_path / "v", text)
    assert [trial.repair for trial in found.verdict.trials] == [None]
    # Of repairs, of which there are none, nothing is said.
    assert "that were tried" not in " ".join(letter.sentences(found))
    verdict = replace(found.verdict, outcome="not repaired", chosen=None)
    lost = letter.sentences(replace(found, verdict=verdict))[0]
    assert "has no repair that could be worn" in lost


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--target-length", "1024"], "nothing to prove past its window"),
        (["--target-length", "1536", "--engine", "vlllm"], "unknown engine"),
        (["--target-length", "1536", "--needles", "pass"], "there is no --kind 'pass'"),
        (["--target-length", "1536", "--max-minutes", "0"], "--max-minutes must be above 0"),
        (["--target-length", "1536", "--repair", "yam"], "unknown repair 'yam'"),
    ],
)
def test_bad_input_is_told_before_anything_is_measured(folder, text, tmp_path, given, said):
    out = tmp_path / "v"
    asked = ["prove", str(folder), *given, "--text", f"text:{text}", "--out", str(out)]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)
    assert not list(out.rglob("*.npy"))


def test_lengths_are_short_text_the_trained_one_half_way_and_the_target():
    assert lengths_for(64, 65) == (16, 64, 65)


def trial(repair, over, cost, *, asked=False, hold=None, found=0.0) -> Trial:
    return Trial(
        repair=repair,
        past={8192: (over, over - 0.01, over + 0.01)},
        cost=(cost, cost - 0.001, cost + 0.001),
        needles={"passkey": (found, 0.1, 1.0)} if hold is not None else {},
        needles_asked=asked,
        needles_hold=hold,
    )


def visit(*trials: Trial, outcome, chosen) -> Visit:
    checkpoint = from_config(CONFIG, "model")
    prescription = None
    if chosen is not None and chosen.repair is not None:
        prescription = prescribe(checkpoint, chosen.repair, Extension(4096, 8192), "vllm")
    return Visit(
        model="model",
        diagnosis=diagnose(checkpoint, 8192),
        verdict=Verdict(
            trained_length=4096,
            target_length=8192,
            outcome=outcome,
            chosen=chosen,
            trials=trials,
            at_trained={},
        ),
        reason="",
        proofs=(),
        prescription=prescription,
        losses=None,
        needles=None,
        left_out=("1 of 4 windows were measured",),
    )


def test_a_repair_that_holds_is_prescribed(tmp_path):
    plain = trial(None, 0.5, 0.0)
    yarn = trial(Repair("yarn"), 0.02, 0.013, asked=True, hold=True, found=0.9)
    linear = trial(Repair("linear"), 0.03, 0.7, asked=True)
    found = visit(plain, linear, yarn, outcome="repaired", chosen=yarn)
    said = letter.sentences(found)
    assert said[0] == (
        "To run model at 8,192 tokens, 2 times its trained length of 4,096, repair it with yarn."
    )
    assert said[1].startswith("As it is, it loses more than 0.05 nats over the control (+0.500")
    assert "adds +0.0130 [+0.0120, +0.0140] on short text" in said[2]
    assert "finds 90% of passkey." in said[2]
    assert said[3].endswith("needles were not looked for.")
    words = letter.text(found)
    assert '"rope_type": "yarn"' in words
    assert "1 of 4 windows were measured" in words
    page = letter.page(found, tmp_path)
    assert "Deploy it with vllm" in page
    assert 'class="chosen"' in page


def test_a_model_that_wearing_cannot_repair_is_told_so():
    plain, yarn = trial(None, 0.5, 0.0), trial(Repair("yarn"), 0.3, 0.0)
    said = letter.sentences(visit(plain, yarn, outcome="not repaired", chosen=None))
    assert said[0].startswith("No repair that was tried takes model to 8,192 tokens by being worn")
    lost = trial(Repair("yarn"), 0.0, 0.0, asked=True, hold=False, found=0.2)
    said = letter.sentences(visit(plain, lost, outcome="not repaired", chosen=None))
    assert "fewer than the model as it is at its trained length" in said[2]


def test_a_cheaper_spectrum_that_changes_is_said_to_be_passed_over():
    plain, yarn = trial(None, 0.4, 0.0), trial(Repair("yarn"), 0.0, 0.02)
    others = [trial(Repair("dynamic"), over, 0.0) for over in (0.01, 0.2)]
    said = letter.sentences(visit(plain, yarn, others[0], outcome="repaired", chosen=yarn))
    assert said[-1].startswith("dynamic costs less on short text and is passed over")
    said = letter.sentences(visit(plain, yarn, others[1], outcome="repaired", chosen=yarn))
    assert not any("passed over" in line for line in said)


def test_needles_that_are_never_found_say_nothing():
    plain = trial(None, 0.0, 0.0, asked=True, hold=True)
    found = visit(plain, outcome="no repair needed", chosen=plain)
    verdict = replace(found.verdict, at_trained={"passkey": (0.0, 0.0, 0.5)})
    said = letter.sentences(replace(found, verdict=verdict))
    assert "needles say nothing about this model" in said[-1]


def test_what_needles_were_not_looked_for_under_is_not_proven():
    """A "no" there was read as a failure."""
    proven = trial(Repair("yarn"), 0.0, 0.0, asked=True, hold=True)
    lost = trial(Repair("linear"), 0.3, 0.0, asked=True)
    open_ = trial(Repair("ntk"), 0.0, 0.0, asked=True)
    assert [letter.held(each) for each in (proven, lost, open_)] == ["yes", "no", "not proven"]


def test_a_long_name_is_not_broken():
    plain = trial(None, 0.0, 0.0)
    name = "gguf:" + "folder/" * 20 + "model.gguf"
    found = replace(visit(plain, outcome="no repair needed", chosen=plain), model=name)
    assert name in letter.text(found)


def test_repairs_are_tried_from_the_cheapest_on():
    waiting = [
        trial(Repair("linear"), 0.0, 0.7),
        trial(Repair("yarn"), 0.0, 0.02),
        trial(Repair("ntk"), 0.0, 0.1),
    ]
    order = [take(waiting) for _ in range(4)]
    assert order == [[Repair("yarn")], [Repair("ntk")], [Repair("linear")], []]
