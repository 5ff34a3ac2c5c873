"""Planted faults: kills, full disks, folders that cannot be written, two at once, damage.

Nothing recorded is lost by any of them, and the final rows equal those of a run left in peace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longreach import cell as cell_module, files
from longreach.cell import Cell
from longreach.errors import InputError, RunError
from longreach.results import Results
from longreach.study import Study
from longreach.where.base import Outcome

from .conftest import TINY
from .test_run import Quiet, content, first_cell, go

LONGREACH = [sys.executable, "-m", "longreach"]

TARGET = """
import os, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from longreach import train
from longreach.run import run
from longreach.study import Study
from tests.test_run import Quiet

os.fsync = lambda handle: None  # A kill takes nothing from the system's buffers.
train.CHECKPOINT_SECONDS = 0.01  # So that kills fall on checkpoints being written, too.
study = Study.load(sys.argv[1])
given = dict(display=Quiet(), say=print, command="test", workers=1)
run(study, Path(sys.argv[2]), **given)  # What is imported late is there: a child begins at once.
for line in sys.stdin:
    out, seconds = line.split()
    pid = os.fork()
    if not pid:
        run(study, Path(out), **given)
        os._exit(0)
    end = time.monotonic() + float(seconds)
    while not (ended := os.waitpid(pid, os.WNOHANG)[0]) and time.monotonic() < end:
        time.sleep(0.001)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, 0)
        print("killed", flush=True)
    else:
        print("ended", flush=True)
"""
"""Runs the study in a child for each line (folder, seconds) and kills it after so long."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny study, left in peace."""
    out = tmp_path_factory.mktemp("whole") / "runs"
    go(Study.parse(TINY, "tiny"), out)
    return out


def test_kill_9_at_twenty_random_moments(tiny, tmp_path):
    """A study that gets done between kills is compared, and the next one begun."""
    text = TINY.replace("steps = 40", "steps = 15").replace("seeds = [0, 1]", "seeds = [0]")
    tiny.write_text(text, encoding="utf-8")
    whole = tmp_path / "whole"
    seed = random.randrange(1000)
    chance = random.Random(seed)
    process = subprocess.Popen(
        [sys.executable, "-c", TARGET, str(tiny), str(whole)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def attempt(out: Path, seconds: float) -> bool:
        process.stdin.write(f"{out} {seconds}\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        assert answer in ("killed", "ended"), f"seed {seed}: {answer}"
        return answer == "killed"

    try:
        assert not attempt(tmp_path / "first", 60)
        began = time.monotonic()
        assert not attempt(tmp_path / "timed", 60)
        usual = time.monotonic() - began
        kills = number = 0
        while kills < 20:
            out = tmp_path / f"killed-{number}"
            before = content(out)
            if attempt(out, chance.uniform(0, usual)):
                kills += 1
                assert before.items() <= content(out).items(), f"seed {seed}: lost something"
            else:
                number += 1
                assert content(out) == content(whole), f"seed {seed}: other rows"
        assert not attempt(out, 60)
        assert content(out) == content(whole), f"seed {seed}: other rows"
        assert Results.read(out).strangers == ()
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def test_a_killed_parent_leaves_no_worker_behind(tiny, tmp_path):
    """kill -9 of the parent alone: workers that went on would write beside the next run."""
    tiny.write_text(TINY.replace("steps = 40", "steps = 100_000"), encoding="utf-8")
    out = tmp_path / "runs"
    process = subprocess.Popen(
        [*LONGREACH, "run", str(tiny), "--out", str(out), "--workers", "2"], start_new_session=True
    )
    deadline = time.monotonic() + 180
    while len(workers := of_session(process.pid)) < 4:  # Itself, a tracker, two workers.
        assert time.monotonic() < deadline, f"no workers came: {workers}"
        time.sleep(0.05)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while of_session(process.pid):
        assert time.monotonic() < deadline, "workers go on without a parent"
        time.sleep(0.05)


def of_session(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def test_two_runs_at_once_one_is_refused_and_neither_harms_the_other(whole, tiny, tmp_path):
    out = tmp_path / "runs"
    command = [*LONGREACH, "run", str(tiny), "--out", str(out), "--workers", "1"]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=120)[1] for process in both]
    codes = [process.returncode for process in both]
    # Whoever comes when the other is done finds nothing to do.
    assert set(codes) <= {0, 2}, told
    assert 0 in codes, told
    for code, said in zip(codes, told, strict=True):
        assert code == 0 or "another longreach run is working in" in said
    assert content(out) == content(whole)


def full(path: Path, data: bytes | str) -> None:
    """A disk without room."""
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


@pytest.mark.parametrize(
    "name",
    [
        "weights.safetensors",
        "log.jsonl",
        "rows.jsonl",
        "items.safetensors",
        "evaluation.json",
        "training.json",
    ],
)
def test_the_disk_full_at_any_file_is_said_and_the_same_command_continues(
    whole, tmp_path, monkeypatch, name
):
    out = tmp_path / "runs"
    study = Study.parse(TINY, "tiny")
    go(study, out, schemes=["learned"], seeds=[0])
    kept = content(out)
    written = files.write
    monkeypatch.setattr(
        cell_module.files, "write", lambda p, d: (full if p.name == name else written)(p, d)
    )
    with pytest.raises(RunError, match=rf"disk is full \(.*{name}\). What was finished is kept"):
        go(study, out)
    monkeypatch.undo()
    assert content(out) == kept
    go(study, out)
    assert content(out) == content(whole)


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Inside, so much can be written to `folder`: a small tmpfs, or where root may not mount, a
    limit on the size of a file (which the system answers with another error, EFBIG)."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    if shutil.which("mount") and not subprocess.run(mount, capture_output=True).returncode:
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    asked = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, asked)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_small_disk_fills_up_and_then_has_room_again(whole, tmp_path, workers):
    study = Study.parse(TINY, "tiny")
    disk = tmp_path / "disk"
    with small_disk(disk, 120):
        out = disk / "runs"
        with pytest.raises(RunError, match=r"(disk is full|cannot write) .*What was finished"):
            go(study, out, workers=workers)
        kept = content(out)
        assert kept.items() <= content(whole).items()
        assert not list(out.glob("*/.*"))
        shutil.copytree(out, tmp_path / "roomy")
    results, shown = go(study, tmp_path / "roomy")
    assert shown.started[1] == len(kept)
    assert content(tmp_path / "roomy") == content(whole)
    assert results.strangers == ()


def test_an_outcome_that_cannot_be_written_stops_the_rest(tmp_path):
    """EIO, EROFS and the rest of their kind say the file and that the same command continues."""
    from longreach.run import collect

    cell = first_cell(Study.parse(TINY, "tiny"), tmp_path)
    error = OSError(errno.EROFS, "Read-only file system", "/runs/x")
    outcomes = iter([Outcome(cell, error), Outcome(cell)])
    shown = Quiet()
    with pytest.raises(RunError, match=r"cannot write /runs/x: Read-only file system\. What was"):
        collect(outcomes, shown)
    assert shown.finished == []


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Inside, nobody writes to `folder`: permission bits for users; root, whom they do not stop,
    mounts it read-only over itself, or marks it immutable."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        try:
            yield
        finally:
            folder.chmod(0o700)
        return

    def done(*command: str) -> bool:
        return not subprocess.run([*command, str(folder)], capture_output=True).returncode

    if done("mount", "--bind", str(folder)):
        try:
            assert done("mount", "-o", "remount,ro,bind")
            yield
        finally:
            assert done("umount", "-l")
    else:
        assert done("chattr", "+i"), "root can neither mount nor chattr here"
        try:
            yield
        finally:
            assert done("chattr", "-i")


def test_a_runs_folder_that_is_read_only_is_wrong_input(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    with read_only(out), pytest.raises(InputError, match=rf"cannot write to {out}: .*--out"):
        go(Study.parse(TINY, "tiny"), out)
    assert content(out) == content(whole)


def test_a_run_folder_that_is_read_only_keeps_its_rows(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    study = Study.parse(TINY, "tiny")
    longer = Study.parse(TINY.replace("[8, 12]", "[8, 10]"), "tiny")
    folder = Results.read(out).runs[0].folder
    with read_only(folder):
        _, shown = go(study, out)
        assert shown.started == (4, 4, 0)
        with pytest.raises(RunError, match=rf"cannot write {folder}/rows-.*What was finished"):
            go(longer, out)
    assert content(out) == content(whole)
    results, _ = go(longer, out)
    assert {row.evaluation_length for row in results.rows} == {8, 10}
    assert content(out) == content(whole)


@pytest.mark.parametrize("place", [".work", "digest"])
def test_a_file_where_a_folder_belongs_is_said(whole, tmp_path, place):
    out = tmp_path / "runs"
    cell: Cell = first_cell(Study.parse(TINY, "tiny"), out)
    out.mkdir()
    mine = out / (place if place == ".work" else cell.training.digest)
    mine.write_text("mine")
    with pytest.raises(RunError, match=rf"cannot write {mine}.*What was finished is kept"):
        go(Study.parse(TINY, "tiny"), out)
    assert mine.read_text() == "mine"
    mine.unlink()
    go(Study.parse(TINY, "tiny"), out)
    assert content(out) == content(whole)


def flip(path: Path) -> None:
    """One bit in the middle of a file is another: its size and header are as they were."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + len(data) // 4] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Its second half is gone."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [flip, cut])
def test_damaged_weights_are_reported_and_trained_again_only_when_asked(
    whole, tiny, tmp_path, harm
):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    study = Study.parse(TINY, "tiny")
    digest = Results.read(out).runs[1].digest
    harm(out / digest / "weights.safetensors")
    before = content(out)
    told = rf"{digest}/weights.safetensors is damaged: .*longreach run STUDY --again {digest}"
    with pytest.raises(InputError, match=told):
        go(study, out)
    assert content(out) == before
    said: list[str] = []
    results, shown = go(study, out, again=[digest[:6]], say=said.append)
    assert shown.started == (4, 3, 40)
    assert content(out).items() >= content(whole).items()
    (aside,) = out.glob(f"{digest}.damaged-*")
    assert said == [f"kept aside: {aside}"]
    assert (aside / "weights.safetensors").read_bytes().hex() in before[digest]
    assert results.strangers == (aside.name,)
    _, shown = go(study, out)
    assert shown.started == (4, 4, 0)


def test_every_damaged_run_is_named_at_once(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    first, second = (run.folder for run in Results.read(out).runs[:2])
    flip(first / "weights.safetensors")
    (second / "evaluation.json").unlink()
    with pytest.raises(InputError) as ended:
        go(Study.parse(TINY, "tiny"), out)
    assert f"--again {first.name}" in str(ended.value)
    assert f"{second / 'evaluation.json'} is damaged: no file" in str(ended.value)


def test_weights_without_a_recorded_sum_are_looked_at_and_may_be_absent(whole, tmp_path):
    """Runs of before the sum was recorded; and recorded results come without weights."""
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    study = Study.parse(TINY, "tiny")
    folder = Results.read(out).runs[0].folder
    about = (folder / "training.json").read_text()
    start = about.index(',\n "sha256"')
    (folder / "training.json").write_text(about[:start] + "\n}\n")
    _, shown = go(study, out)
    assert shown.started == (4, 4, 0)
    cut(folder / "weights.safetensors")
    with pytest.raises(InputError, match=r"weights\.safetensors is damaged"):
        go(study, out)
    (folder / "weights.safetensors").unlink()
    _, shown = go(study, out)
    assert shown.started == (4, 4, 0)
    with pytest.raises(InputError, match="no file, and other rows are asked for"):
        go(Study.parse(TINY.replace("[8, 12]", "[8, 10]"), "tiny"), out)


def test_a_whole_run_asked_for_again_is_kept_under_another_name(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    digest = Results.read(out).runs[0].digest
    go(Study.parse(TINY, "tiny"), out, again=[digest])
    assert len(list(out.glob(f"{digest}.before-*"))) == 1
    assert content(out).items() >= content(whole).items()


@pytest.mark.parametrize("begin", ["no-such", ""])
def test_again_names_exactly_one_run(whole, tmp_path, begin):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    with pytest.raises(InputError, match=r"--again: \d of the runs asked for"):
        go(Study.parse(TINY, "tiny"), out, again=[begin])
    assert content(out) == content(whole)


def test_the_command_line_ends_with_2_and_says_what_to_type(whole, tiny, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    digest = Results.read(out).runs[2].digest
    flip(out / digest / "weights.safetensors")
    command = [*LONGREACH, "run", str(tiny), "--out", str(out), "--workers", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"--again {digest}" in ended.stderr
    ended = subprocess.run(
        [*command, "--again", digest], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert content(out).items() >= content(whole).items()
