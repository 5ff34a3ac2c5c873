"""Running studies: resumed after any kill to the same rows, nothing lost or overwritten."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from math import pi, sin
from pathlib import Path

import pytest
import torch

from longreach.cell import Cell, fulfil
from longreach.errors import InputError, RunError
from longreach.held_out import HeldOut, fingerprints
from longreach.results import Results
from longreach.run import run, trainings
from longreach.study import Study
from longreach.train import Progress, build_task, rate, train

from .conftest import TINY


class Quiet:
    """A display that counts."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.steps = 0

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        self.started = (runs, finished, steps)

    def advance(self, steps: int) -> None:
        self.steps += steps

    def finish(self, label: str) -> None:
        self.finished.append(label)


def go(study: Study, out: Path, **options) -> tuple[Results, Quiet]:
    shown = options.pop("display", None) or Quiet()
    options = {"workers": 1, "say": lambda line: None, **options}
    results = run(study, out, display=shown, command="test", **options)
    return results, shown


def content(out: Path) -> dict[str, str]:
    """Rows and weights of every run, by digest."""
    return {
        path.parent.name: path.read_text()
        + (path.parent / "weights.safetensors").read_bytes().hex()
        for path in sorted(out.glob("*/rows.jsonl"))
    }


def first_cell(study: Study, out: Path) -> Cell:
    """The study's first training, to be made in `out`."""
    training, _ = trainings(study, print)[0]
    return Cell(
        training=training,
        lengths=study.evaluation_lengths,
        evaluation=study.evaluation,
        out=out,
        command="test",
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny study, run without interruption, in two processes."""
    out = tmp_path_factory.mktemp("whole") / "runs"
    go(Study.parse(TINY, "tiny"), out, workers=2)
    return out


def test_every_cell_leaves_a_whole_folder(whole):
    results = Results.read(whole)
    assert len(results.runs) == 4
    assert results.missing == results.strangers == ()
    for run_ in results.runs:
        names = {path.name for path in run_.folder.iterdir()}
        assert names == {
            "training.json", "evaluation.json", "rows.jsonl",
            "items.safetensors", "weights.safetensors", "log.jsonl",
        }  # fmt: skip
        assert run_.log[-1]["step"] == 40
    assert list((whole / ".work").iterdir()) == []
    assert {row.status for row in results.rows if row.scheme == "learned"} == {
        "measured",
        "past_limit",
    }


def test_run_again_there_is_nothing_to_do(whole):
    before = content(whole)
    _, shown = go(Study.parse(TINY, "tiny"), whole)
    assert shown.started == (4, 4, 0)
    assert content(whole) == before


def test_the_same_study_in_one_process_gives_the_same_rows_and_weights(whole, tmp_path):
    go(Study.parse(TINY, "tiny"), tmp_path / "again")
    assert content(tmp_path / "again") == content(whole)


def test_cut_into_slices_for_cores_that_do_not_divide_the_cells_the_rows_are_the_same(
    whole, tmp_path
):
    _, shown = go(Study.parse(TINY, "tiny"), tmp_path / "sliced", workers=3)
    assert content(tmp_path / "sliced") == content(whole)
    assert len(shown.finished) == 4
    assert shown.steps == 4 * 40
    assert list((tmp_path / "sliced" / ".work").iterdir()) == []


def test_a_slice_ends_with_a_checkpoint_and_the_next_goes_on_from_it(whole, tmp_path):
    cell = first_cell(Study.parse(TINY, "tiny"), tmp_path)
    steps = []
    assert not fulfil(cell, lambda step, loss: steps.append(step), until=15)
    assert not cell.trained
    assert not fulfil(cell, lambda step, loss: steps.append(step), until=16)
    assert fulfil(cell, lambda step, loss: steps.append(step))
    assert steps == list(range(1, 41))
    assert content(tmp_path)[cell.training.digest] == content(whole)[cell.training.digest]


def slowly(home: Path) -> str:
    """A program that runs a study, with a checkpoint at every step, slowly enough to be hit."""
    return (
        "import time, torch\n"
        "torch.set_num_threads(1)\n"
        "from longreach import train\n"
        "train.CHECKPOINT_SECONDS = 0.0\n"
        "note = train.note\n"
        "train.note = lambda *given: (time.sleep(0.05), note(*given))\n"
        "from longreach.cell import Cell, fulfil\n"
        "from longreach.run import trainings\n"
        "from longreach.study import Study\n"
        "import sys, pathlib\n"
        "study, out = Study.load(sys.argv[1]), pathlib.Path(sys.argv[2])\n"
        "out.mkdir(exist_ok=True)\n"
        "for training, _ in trainings(study, print):\n"
        "    cell = Cell(training=training, lengths=study.evaluation_lengths,\n"
        "                evaluation=study.evaluation, out=out, command='test')\n"
        "    fulfil(cell, lambda step, loss: None)\n"
    )


def test_killed_in_a_training_it_resumes_from_its_checkpoint_to_the_same_bits(
    whole, tiny, tmp_path, own_home
):
    out = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-c", slowly(own_home), str(tiny), str(out)], start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not list(out.glob(".work/*/checkpoint.safetensors")):
        assert time.monotonic() < deadline, "no checkpoint came"
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert list(out.glob(".work/*/checkpoint.safetensors"))
    results, _ = go(Study.parse(TINY, "tiny"), out)
    assert len(results.runs) == 4
    assert content(out) == content(whole)


def test_kill_9_of_the_whole_group_and_the_same_command_again(whole, tiny, tmp_path, own_home):
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "longreach", "run", str(tiny), "--out", str(out), "--json"]
    for seconds in (2.0, 4.0):
        process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["rows"] == len(Results.read(whole).rows)
    assert Path(told["report"]).is_file()
    assert content(out) == content(whole)


def test_a_checkpoint_damaged_from_outside_costs_time_and_nothing_else(whole, tmp_path):
    cell = first_cell(Study.parse(TINY, "tiny"), tmp_path)
    cell.work.mkdir(parents=True)
    (cell.work / "checkpoint.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      half")
    fulfil(cell, lambda step, loss: None)
    made = content(tmp_path)
    assert made[cell.training.digest] == content(whole)[cell.training.digest]


def test_other_evaluation_lengths_need_no_training_and_keep_the_old_rows(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    before = content(out)
    longer = Study.parse(TINY.replace("[8, 12]", "[8, 10, 16]"), "tiny")
    results, shown = go(longer, out)
    assert shown.started == (4, 0, 0)
    assert {row.evaluation_length for row in results.rows} == {8, 10, 16}
    assert content(out) == before
    back, _ = go(Study.parse(TINY, "tiny"), out)
    assert sorted(map(repr, back.rows)) == sorted(map(repr, Results.read(whole).rows))


def test_another_recipe_is_another_training_and_overwrites_none(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    before = content(out)
    results, _ = go(Study.parse(TINY, "tiny").limited(5), out)
    assert len(results.strangers) == 4
    assert len(results.runs) == 4
    assert before.items() <= content(out).items()


def test_narrowed_by_scheme_and_seed_it_runs_those_alone(tmp_path):
    results, shown = go(
        Study.parse(TINY, "tiny").limited(5), tmp_path / "runs", schemes=["alibi"], seeds=[1]
    )
    assert shown.finished == ["alibi on recall, seed 1"]
    assert len(results.missing) == 3
    assert shown.steps == 5


@pytest.mark.parametrize(
    ("narrowing", "message"),
    [({"schemes": ["alibbi"]}, "did you mean 'alibi'"), ({"seeds": [7]}, "no seed 7")],
)
def test_narrowed_to_what_is_not_there_it_says_so(tmp_path, narrowing, message):
    with pytest.raises(InputError, match=message):
        go(Study.parse(TINY, "tiny"), tmp_path / "runs", **narrowing)


def test_a_second_run_in_the_same_folder_is_turned_away(tmp_path):
    from filelock import FileLock

    out = tmp_path / "runs"
    out.mkdir()
    with FileLock(out / ".lock"), pytest.raises(InputError, match="another longreach run"):
        go(Study.parse(TINY, "tiny"), out)


def test_a_folder_of_another_study_is_left_alone(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    other = Study.parse(TINY.replace('"tiny"', '"other"'), "other")
    with pytest.raises(InputError, match="holds the study 'tiny', not 'other'"):
        go(other, out)
    assert content(out) == content(whole)


def test_a_loss_that_is_no_number_fails_that_run_and_finishes_the_others(tmp_path):
    text = TINY.replace("learning_rate = 1e-2", "learning_rate = 1e30").replace("clip = 1.0", "")
    with pytest.raises(RunError, match=r"loss is nan.*lower training.learning_rate"):
        go(Study.parse(text, "tiny"), tmp_path / "runs", schemes=["alibi"])
    assert not list(tmp_path.glob("runs/*/rows.jsonl"))


def test_a_full_disk_is_said_and_leaves_no_half_made_run(tmp_path, monkeypatch):
    from longreach import cell as cell_module

    cell = first_cell(Study.parse(TINY, "tiny").limited(3), tmp_path / "runs")
    written = cell_module.files.write

    def full(path: Path, data: str | bytes) -> None:
        if path.name == "training.json":
            raise OSError(28, "No space left on device", str(path))
        written(path, data)

    monkeypatch.setattr(cell_module.files, "write", full)
    with pytest.raises(OSError, match="No space"):
        fulfil(cell, lambda step, loss: None)
    assert not cell.folder.exists()
    monkeypatch.undo()
    fulfil(cell, lambda step, loss: None)
    assert cell.trained


def test_schemes_under_one_seed_see_the_same_batches_and_start_from_the_same_weights():
    from longreach.train import build_model, build_task, generator_for

    alibi, learned = (t for t, _ in trainings(Study.parse(TINY, "tiny"), print)[:2])
    assert (alibi.scheme.name, learned.scheme.name) == ("alibi", "learned")
    ours, theirs = (build_model(t, build_task(t)).state_dict() for t in (alibi, learned))
    for name in ours.keys() & theirs.keys():
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=0)
    assert len(theirs) == len(ours) + 1
    a, b = (generator_for("train", t.task.label, t.seed).initial_seed() for t in (alibi, learned))
    assert a == b


def test_the_learning_rate_warms_up_and_then_follows_half_a_cosine():
    recipe = Study.parse(TINY, "tiny").training
    rates = [rate(recipe, step) for step in range(40)]
    assert rates[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert rates[4] == pytest.approx(0.01)
    assert rates[22] == pytest.approx(0.005)
    assert rates[39] == pytest.approx(0.01 * sin(pi / 72) ** 2)
    assert all(before >= after for before, after in pairwise(rates[4:]))


def test_training_sequences_that_are_also_evaluated_are_counted():
    training, task = trainings(Study.parse(TINY, "tiny").limited(3), print)[0]
    seen = []
    sample = task.sample
    task.sample = lambda *given: seen.append(sample(*given)) or seen[-1]  # type: ignore[method-assign]
    held = torch.randint(0, 24, (10, 9), generator=torch.Generator().manual_seed(0))
    length = training.trained_length
    _, progress = train(training, task, held_out=HeldOut({length: held}))
    assert (progress.overlap, progress.seen) == (0, [])
    # Three that training meets, one of them twice; and one that is asked for at another length.
    held = torch.cat([held, seen[1].tokens[:3], seen[1].tokens[:1]])
    asked = HeldOut({length - 1: seen[2].tokens[:1], length: held})
    _, progress = train(training, build_task(training), held_out=asked)
    assert progress.overlap == 3
    assert asked.seen(progress.seen) == {length - 1: 1.0, length: 4 / 14}
    assert len(set(fingerprints(torch.cat([batch.tokens for batch in seen])).tolist())) == 24
    assert isinstance(progress, Progress)


def test_text_runs_keep_their_tokenizer_and_measure_the_same_documents(prose, tmp_path):
    text = TINY.replace(
        'tasks = ["recall"]',
        f'tasks = [{{ name = "text", corpus = "text:{prose}", vocabulary = 300 }}]',
    )
    results, _ = go(Study.parse(text, "tiny").limited(4), tmp_path / "runs", seeds=[0])
    assert len(results.runs) == 2
    for run_ in results.runs:
        assert (run_.folder / "tokenizer.json").is_file()
        assert run_.training["training"]["data"] is not None
    counts = {row.count for row in results.rows if row.status == "measured"}
    assert len(counts) == 1
    metrics = {row.metric for row in results.rows}
    assert metrics == {"loss", "bits_per_byte", "loss_by_position", "last_loss"}
    keys = [set(run_.items) for run_ in results.runs]
    assert keys[1] < keys[0]  # learned positions have no items past their table
