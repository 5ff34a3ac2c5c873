"""The command line: what each verb prints, and that bad input ends with 2 and one clear message."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longreach import cli, report
from longreach.results import Results

from .conftest import TINY, heeds_ctrl_c


def longreach(capfd, monkeypatch, *arguments: object) -> tuple[int, str, str]:
    """Runs the command line in this process: exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["longreach", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capfd.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture
def call(capfd, monkeypatch):
    return lambda *arguments: longreach(capfd, monkeypatch, *arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder of four short runs, made by the real command."""
    home = tmp_path_factory.mktemp("cli")
    study = home / "tiny.toml"
    study.write_text(TINY, encoding="utf-8")
    command = [sys.executable, "-m", "longreach", "run", study, "--out", home / "runs"]
    subprocess.run([*command, "--limit-steps", "4", "--workers", "1"], check=True)
    return home / "runs"


def test_list_names_everything_there_is(call):
    code, out, _ = call("list", "--json")
    assert code == 0
    found = json.loads(out)
    assert set(found) == {"schemes", "tasks", "studies", "corpora"}
    assert {"nope", "learned", "sinusoidal", "rope", "alibi", "t5_bias"} <= {*found["schemes"]}
    assert {"quick", "recall", "length-curve"} <= {*found["studies"]}
    code, out, _ = call("list")
    for names in found.values():
        for name in names:
            assert name in out


@pytest.mark.parametrize("verb", ["list", "report"])
def test_verbs_that_need_no_model_do_not_import_torch(verb, finished):
    arguments = ["list"] if verb == "list" else ["report", str(finished)]
    program = (
        "import sys, longreach.cli as cli\n"
        f"sys.argv = ['longreach', *{arguments!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit as e:\n    assert not e.code, e.code\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'transformers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_run_prints_one_json_object_and_logs_elsewhere(call, tiny, tmp_path):
    out = tmp_path / "runs"
    code, said, err = call(
        "run",
        tiny,
        "--out",
        out,
        "--limit_steps",
        2,
        "--schemes",
        "alibi",
        "--workers",
        1,
        "--json",
    )
    assert code == 0, err
    told = json.loads(said)
    assert Path(told["report"]) == out / "report.html"
    assert Path(told["report"]).is_file()
    assert told["rows"] == len(Results.read(out).rows) == 4
    assert told["missing"] == 2
    assert "finished 2 of 2" in err
    plan = json.loads((out / "plan.json").read_text())
    assert plan["provenance"]["command"].startswith("longreach run ")
    assert plan["study"]["training"]["steps"] == 2


def test_report_writes_everything_again_from_rows_alone(call, finished, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(finished, runs)
    for weights in runs.glob("*/weights.safetensors"):
        weights.unlink()
    for made in ("report.html", "summary.md", "study.json"):
        (runs / made).unlink()
    shutil.rmtree(runs / "figures")
    code, out, err = call("report", runs)
    assert code == 0, err
    assert "report.html" in out
    assert {path.suffix for path in (runs / "figures").iterdir()} == {".svg", ".png"}
    assert (runs / "study.json").is_file()
    assert (runs / "summary.md").is_file()
    assert report.write(runs).brief in out


def edited(old: str, new: str) -> str:
    assert old in TINY
    return TINY.replace(old, new)


BAD_STUDIES = {
    "unknown scheme": (edited('"alibi"', '"alibbi"'), "did you mean 'alibi'?"),
    "unknown task": (edited('"recall"', '"recal"'), "did you mean 'recall'?"),
    "unknown key": (edited("steps = 40", "stepz = 40"), "did you mean 'steps'?"),
    "unknown key at the top": ("trained_lenght = 3\n" + TINY, "did you mean 'trained_length'?"),
    "unknown option": (edited('"alibi"', '{ name = "rope", bas = 1 }'), "did you mean 'base'?"),
    "option out of range": (edited('"alibi"', '{ name = "rope", base = 0.5 }'), "greater than 1"),
    "wrong type": (edited("steps = 40", 'steps = "40"'), "valid integer, got '40'"),
    "boolean for a number": (edited("steps = 40", "steps = true"), "valid integer, got True"),
    "negative length": (edited("trained_length = 8", "trained_length = -8"), "got -8"),
    "zero length": (edited("[8, 12]", "[0, 8]"), "got 0"),
    "no lengths": (edited("[8, 12]", "[]"), "evaluation_lengths"),
    "unsorted lengths": (edited("[8, 12]", "[12, 8]"), "must grow"),
    "a length twice": (edited("[8, 12]", "[8, 8]"), "must grow"),
    "without the trained length": (edited("[8, 12]", "[12]"), "must contain trained_length 8"),
    "too short for its task": (
        edited("trained_length = 8", "trained_length = 2").replace("[8, 12]", "[2, 12]"),
        "at least 4 tokens, got length 2",
    ),
    "heads that do not divide": (edited("heads = 2", "heads = 3"), "not a multiple of heads 3"),
    "odd head_dim for rope": (
        edited("width = 16", "width = 6").replace('"alibi"', '"rope"'),
        "head_dim must be even",
    ),
    "a scheme twice": (edited('"learned"', '"alibi"'), "schemes names the same one twice"),
    "no seeds": (edited("[0, 1]", "[]"), "seeds"),
    "not a number": (edited("learning_rate = 1e-2", "learning_rate = nan"), "learning_rate"),
    "not TOML": ("name = ", "is no TOML"),
    "a key missing": (edited("steps = 40\n", ""), "'training.steps' is missing"),
    "a name with a slash": (edited('"tiny"', '"../tiny"'), "name"),
    "no corpus there": (
        edited('"recall"', '{ name = "text", corpus = "text:/no/such" }'),
        "/no/such",
    ),
    "unknown corpus": (
        edited('"recall"', '{ name = "text", corpus = "stdlibb" }'),
        "did you mean 'stdlib'?",
    ),
}


@pytest.mark.parametrize("case", BAD_STUDIES)
def test_a_bad_study_ends_with_2_and_one_message(call, tmp_path, case):
    text, message = BAD_STUDIES[case]
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    code, out, err = call("run", path, "--out", tmp_path / "runs", "--workers", 1)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert err.count("error: ") == 1
    assert not list(tmp_path.glob("runs/*/*"))


def test_documents_shorter_than_the_longest_length_are_said_before_training(call, prose, tmp_path):
    text = edited('"recall"', f'{{ name = "text", corpus = "text:{prose}", vocabulary = 300 }}')
    path = tmp_path / "long.toml"
    path.write_text(text.replace("[8, 12]", "[8, 9000]"), encoding="utf-8")
    code, _, err = call("run", path, "--out", tmp_path / "runs", "--workers", 1)
    assert code == 2
    assert "no held-out document has 9001 tokens" in err


def test_last_tokens_must_fit_the_shortest_length(call, prose, tmp_path):
    text = edited('"recall"', f'{{ name = "text", corpus = "text:{prose}", vocabulary = 300 }}')
    path = tmp_path / "last.toml"
    path.write_text(text.replace("last_tokens = 4", "last_tokens = 9"), encoding="utf-8")
    code, _, err = call("run", path, "--out", tmp_path / "runs", "--workers", 1)
    assert code == 2
    assert "last_tokens is 9" in err


def test_text_that_is_not_utf_8_is_named_with_the_byte(call, prose, tmp_path):
    (prose / "03.txt").write_bytes(b"caf\xe9 au lait")
    path = tmp_path / "latin.toml"
    path.write_text(
        edited('"recall"', f'{{ name = "text", corpus = "text:{prose}", vocabulary = 300 }}'),
        encoding="utf-8",
    )
    code, _, err = call("run", path, "--out", tmp_path / "runs", "--workers", 1)
    assert code == 2
    assert "03.txt" in err
    assert "3" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "quik"], "did you mean 'quick'?"),
        (["run", "no/such.toml"], "cannot read the study no/such.toml"),
        (["run", "recall", "--seeds", "one"], "whole numbers"),
        (["run", "recall", "--seeds", ","], "--seeds is empty"),
        (["run", "recall", "--limit-steps", "0"], "at least 1, got 0"),
        (["run", "recall", "--workers", "0"], "at least 1, got 0"),
        (["run", "recall", "--workers", "two"], "Invalid value for '--workers'"),
        (["run", "recall", "--steps", "5"], "--steps"),
        (["report", "no/such"], "no folder no/such"),
        (["reprot"], "reprot"),
    ],
)
def test_a_bad_argument_ends_with_2_and_one_message(
    call, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*arguments)
    assert code == 2
    assert message in err.replace("\n", " ")
    assert "Traceback" not in err + out


def test_a_study_file_that_is_not_utf_8_is_said(call, tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes(TINY.replace("Does it run?", "ça?").encode("latin-1"))
    code, _, err = call("run", path)
    assert code == 2
    assert "is not UTF-8" in err


def damage_rows(runs: Path) -> Path:
    path = next(runs.glob("*/rows.jsonl"))
    path.write_text(path.read_text()[:-25])
    return path


def damage_json(runs: Path) -> Path:
    path = next(runs.glob("*/training.json"))
    path.write_text(path.read_text()[:50])
    return path


def damage_version(runs: Path) -> Path:
    path = next(runs.glob("*/training.json"))
    path.write_text(path.read_text().replace('"format": 1', '"format": 999'))
    return path


def damage_items(runs: Path) -> Path:
    path = next(runs.glob("*/items.safetensors"))
    path.unlink()
    return path


def damage_plan(runs: Path) -> Path:
    (runs / "plan.json").write_text("{}")
    return runs / "plan.json"


@pytest.mark.parametrize("verb", ["report", "run"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_rows, "is damaged"),
        (damage_json, "is damaged"),
        (damage_version, "another version: format 999, expected 1"),
        (damage_items, "is damaged"),
        (damage_plan, "another version"),
    ],
)
def test_a_damaged_runs_folder_is_reported_and_left_as_it_is(
    call, finished, tmp_path, verb, damage, message
):
    runs = tmp_path / "runs"
    shutil.copytree(finished, runs)
    path = damage(runs)
    before = {p: p.read_bytes() for p in runs.rglob("*") if p.is_file() and p.name != ".lock"}
    study = tmp_path / "tiny.toml"
    study.write_text(TINY, encoding="utf-8")
    run = ["run", study, "--out", runs, "--limit-steps", 4, "--workers", 1]
    code, out, err = call(*(["report", runs] if verb == "report" else run))
    assert code == 2
    assert out == ""
    assert message in err
    assert path.name in err
    assert "Traceback" not in err
    after = {p: p.read_bytes() for p in runs.rglob("*") if p.is_file() and p.name != ".lock"}
    assert after == before


def test_moved_away_a_damaged_run_alone_is_made_anew(call, finished, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(finished, runs)
    rows = damage_rows(runs)
    original = finished / rows.relative_to(runs)
    rows.parent.rename(tmp_path / "aside")
    study = tmp_path / "tiny.toml"
    study.write_text(TINY, encoding="utf-8")
    code, _, err = call("run", study, "--out", runs, "--limit-steps", 4, "--workers", 1)
    assert code == 0, err
    assert rows.read_text() == original.read_text()
    assert "4 runs, 3 of them there already" in err


def test_a_run_that_fails_ends_with_1_and_reports_the_others(call, tmp_path):
    text = edited("learning_rate = 1e-2", "learning_rate = 1e30").replace("clip = 1.0", "")
    path = tmp_path / "hot.toml"
    path.write_text(text, encoding="utf-8")
    code, out, err = call("run", path, "--out", tmp_path / "runs", "--workers", 1, "--json")
    assert code == 1
    assert out == ""
    assert "failed: alibi on recall, seed 0: the loss is nan at step" in err
    assert "lower training.learning_rate" in err


def test_a_report_that_cannot_be_written_ends_with_1_and_a_message(call, finished, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(finished, runs)
    shutil.rmtree(runs / "figures")
    (runs / "figures").write_text("a file where a folder must go", encoding="utf-8")
    code, out, err = call("report", runs)
    assert code == 1
    assert out == ""
    assert "failed: " in err
    assert "figures" in err
    assert "Traceback" not in err


def test_interrupted_it_ends_with_130_says_so_and_leaves_no_process(tiny, tmp_path):
    text = tiny.read_text().replace("steps = 40", "steps = 400000")
    tiny.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "longreach", "run", tiny, "--out", tmp_path / "runs"]
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeds_ctrl_c,
    )
    try:
        lines = iter(process.stderr.readline, "")
        assert any("of them there already" in line for line in lines)
        time.sleep(3)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "interrupted; what was finished is kept" in err
        deadline = time.monotonic() + 10
        while alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not alive(process.pid)
    finally:  # Or it would train for hours beside the tests that follow.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def alive(group: int) -> bool:
    """Whether any process of the group is."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_help_and_version_need_nothing(call):
    code, out, _ = call("--version")
    assert (code, out.strip()) == (0, "0.1.0")
    code, out, _ = call("run", "--help")
    assert code == 0
    assert "--limit-steps" in out
