"""What tests share: a home of their own, and a study that takes seconds."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# A busy machine is no failure; and what passes in CI passes there again.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

TINY = """
name = "tiny"
question = "Does it run?"
schemes = ["alibi", "learned"]
tasks = ["recall"]
seeds = [0, 1]
trained_length = 8
evaluation_lengths = [8, 12]

[model]
width = 16
heads = 2
layers = 2
feed_forward = 32

[training]
steps = 40
batch = 8
learning_rate = 1e-2
warmup = 4
schedule = "cosine"
clip = 1.0

[evaluation]
sequences = 40
last_tokens = 4
documents = 12
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepared corpora go here and nowhere else."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LONGREACH_HOME", str(home))
    return home


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The path of a study file of four runs."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


@pytest.fixture
def prose(tmp_path: Path) -> Path:
    """A folder of twenty small documents."""
    folder = tmp_path / "prose"
    folder.mkdir()
    for number in range(20):
        words = " ".join(f"word{(number * 7 + k * k) % 31}" for k in range(120))
        (folder / f"{number:02}.txt").write_text(f"Document {number}. {words}\n", encoding="utf-8")
    return folder


def heeds_ctrl_c() -> None:
    """To be called in a new process, before its program: it is to end at SIGINT.

    A shell has what it runs in the background ignore that signal, and tests that are run so would
    hand it down.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
