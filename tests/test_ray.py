"""Studies on a Ray cluster: the rows of a local run, whatever is lost on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longreach.errors import RunError
from longreach.study import Study

from .conftest import TINY, heeds_ctrl_c
from .test_run import Quiet, content, go
from .two_nodes import LOOPBACK

ROOT = Path(__file__).parents[1]


class TwoNodes:
    """The cluster of two_nodes.py, and what can be done to it."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.two_nodes"],
            cwd=ROOT,
            env={**os.environ, "LONGREACH_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.address = self.read()
        except BaseException:
            self.end()
            raise

    def read(self) -> str:
        """A line of its answer."""
        line = self.process.stdout.readline().strip()
        assert line, "the cluster did not start, or died"
        return line

    def ask(self, word: str) -> str:
        """Does something to it."""
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.read()

    def end(self) -> None:
        """Ends it."""
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    """Two nodes that share no prepared corpora with the driver."""
    nodes = TwoNodes(tmp_path_factory.mktemp("node"))
    yield nodes
    nodes.end()


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver listens too."""
    for name, value in LOOPBACK.items():
        monkeypatch.setenv(name, value)


@pytest.mark.cluster
def test_with_shipped_text_the_rows_and_weights_are_those_of_a_local_run(cluster, prose, tmp_path):
    text = TINY.replace(
        'tasks = ["recall"]',
        f'tasks = ["recall", {{ name = "text", corpus = "text:{prose}", vocabulary = 300 }}]',
    ).replace("seeds = [0, 1]", "seeds = [0]")
    # One model of each task begins from another's weights, which travel to its node.
    text += """
[extension]
schemes = ["alibi"]
repairs = ["none"]

[extension.training]
steps = 10
batch = 8
learning_rate = 1e-2
"""
    study = Study.parse(text, "tiny").limited(10)
    go(study, tmp_path / "local")
    out = tmp_path / "ray"
    results, shown = go(study, out, where=f"ray:{cluster.address}", workers=None)
    assert content(out) == content(tmp_path / "local")
    assert results.missing == ()
    assert shown.steps == 60
    assert list((out / ".work").iterdir()) == []
    names = {path.name for path in (tmp_path / "local").glob("*/*")}
    assert {path.name for path in out.glob("*/*")} == names


@pytest.mark.cluster
@pytest.mark.slow
def test_other_lengths_are_measured_there_with_the_weights_from_here(cluster, tmp_path):
    study = Study.parse(TINY, "tiny").limited(10)
    out = tmp_path / "ray"
    go(study, out)
    shutil.copytree(out, tmp_path / "local")
    before = content(out)
    longer = study.model_copy(update={"evaluation_lengths": (8, 16)})
    on_ray, shown = go(longer, out, where=f"ray:{cluster.address}", workers=2)
    here, _ = go(longer, tmp_path / "local")
    assert shown.started == (4, 0, 0)
    assert on_ray.rows == here.rows
    assert content(out) == before


@pytest.mark.cluster
@pytest.mark.slow
def test_interrupted_it_keeps_what_was_finished_and_stops_its_tasks(cluster, tiny, tmp_path):
    out = tmp_path / "ray"
    tiny.write_text(TINY.replace("steps = 40", "steps = 100_000"), encoding="utf-8")
    where = ["--where", f"ray:{cluster.address}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "longreach", "run", str(tiny), "--out", str(out), *where],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heeds_ctrl_c,
    )
    deadline = time.monotonic() + 180
    while cluster.ask("busy") == "0":
        assert time.monotonic() < deadline, "no task began"
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # As a terminal does, to everything in the foreground.
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "what was finished is kept" in told
    assert "Traceback" not in told
    while cluster.ask("busy") != "0":
        assert time.monotonic() < deadline + 30, "its tasks go on"
        time.sleep(0.2)
    assert [path.name for path in out.iterdir() if path.is_dir()] == [".work"]


@pytest.mark.cluster
@pytest.mark.slow
def test_a_mistake_on_a_node_is_said_as_it_would_be_here(cluster, tmp_path):
    text = TINY.replace("learning_rate = 1e-2", "learning_rate = 1e30").replace("clip = 1.0", "")
    where = f"ray:{cluster.address}"
    with pytest.raises(RunError, match=r"alibi on recall, seed 1: the loss is nan at step"):
        go(Study.parse(text, "tiny"), tmp_path / "ray", where=where, workers=None)
    assert not list(tmp_path.glob("ray/*/rows.jsonl"))


@pytest.mark.cluster
def test_one_node_killed_in_the_middle_all_rows_arrive_and_equal_a_local_run(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setenv(
        "RAY_ADDRESS", cluster.address
    )  # `ray` alone is the cluster Ray itself finds.
    study = Study.parse(TINY.replace("steps = 40", "steps = 300"), "tiny")

    class Killing(Quiet):
        busy = 0

        def finish(self, label: str) -> None:
            super().finish(label)
            if len(self.finished) == 1:
                deadline = time.monotonic() + 60
                while not self.busy and time.monotonic() < deadline:
                    self.busy = int(cluster.ask("busy"))
                assert cluster.ask("kill") == "killed"

    shown = Killing()
    out = tmp_path / "ray"
    results, _ = go(study, out, where="ray", workers=None, display=shown)
    assert shown.busy > 0, "the node had nothing to lose"
    assert len(results.runs) == len(shown.finished) == 4
    assert shown.steps == 4 * 300
    go(study, tmp_path / "local")
    assert content(out) == content(tmp_path / "local")


@pytest.mark.cluster
@pytest.mark.slow
def test_the_cluster_lost_it_says_what_is_kept_and_goes_on_elsewhere(cluster, tmp_path):
    study = Study.parse(TINY.replace("steps = 40", "steps = 300"), "tiny")

    class Losing(Quiet):
        def finish(self, label: str) -> None:
            super().finish(label)
            if len(self.finished) == 1:
                assert cluster.ask("lose") == "lost"

    shown = Losing()
    out = tmp_path / "runs"
    with pytest.raises(RunError, match=r"cluster was lost\. What was finished is kept"):
        go(study, out, where=f"ray:{cluster.address}", workers=1, display=shown)
    assert (out / ".work" / "ray.log").is_file()
    kept = content(out)
    assert len(kept) == 1
    results, again = go(study, out, workers=2)
    assert again.started == (4, 1, 3 * 300)
    assert results.missing == ()
    assert kept.items() <= content(out).items()
