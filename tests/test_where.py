"""Places where cells are fulfilled: what they take, and what a node checks before it works.

With a real cluster they meet in test_ray.py.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from longreach.cell import fulfil
from longreach.errors import InputError, RunError
from longreach.run import cells_of, trainings
from longreach.study import Study
from longreach.where import cluster
from longreach.where.told import Told

from .conftest import TINY
from .test_run import content, first_cell, go


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("rai", "takes local, ray or ray:ADDRESS, got 'rai'"),
        ("local:2", "takes local, ray or ray:ADDRESS"),
        ("ray:local", "expected ray:HOST:PORT"),
        ("ray:ray://127.0.0.1:10001", "expected ray:HOST:PORT"),
        ("ray:127.0.0.1:head", "expected ray:HOST:PORT"),
    ],
)
def test_a_place_that_is_none_is_said_before_anything_is_made(tmp_path, where, message):
    with pytest.raises(InputError, match=message):
        go(Study.parse(TINY, "tiny"), tmp_path / "runs", where=where)
    assert not (tmp_path / "runs").exists()


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'longreach\[ray\]'"):
        go(Study.parse(TINY, "tiny"), tmp_path / "runs", where="ray")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("x"), r"found no Ray cluster to join \(auto\).*`ray start --head`"),
        (RuntimeError("Version mismatch: Ray 2.9\nand more"), r"cannot join .*: Version mismatch"),
        (ValueError(), "cannot join .*: ValueError"),
    ],
)
def test_a_cluster_that_cannot_be_joined_is_wrong_input(error, message):
    def init(**options: object) -> None:
        raise error

    with pytest.raises(InputError, match=message):
        cluster._join(SimpleNamespace(init=init), "auto")


def test_an_address_where_nobody_listens_is_said_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"no Ray cluster answers at {address} \(Conn"):
            cluster._join(None, address)


class Deaf:
    """An actor's handle that nobody reads from."""

    tell = SimpleNamespace(remote=lambda digest, step: None)


def test_a_cell_comes_back_as_files_and_lands_whole(tmp_path):
    study = Study.parse(TINY, "tiny")
    far, near, here = (first_cell(study, tmp_path / name) for name in ("far", "near", "here"))
    made = cluster._fulfil(far, {}, None, Deaf(), cluster._libraries())
    assert not (tmp_path / "far").exists()
    near.out.mkdir()
    assert cluster._land(near, made) is None
    fulfil(here, lambda step, loss: None)
    assert content(near.out) == content(here.out)
    assert not near.work.exists()


def test_a_cell_that_begins_from_another_takes_its_weights_along(tmp_path):
    text = TINY + '[extension]\nschemes = ["alibi"]\nrepairs = ["none"]\n[extension.training]\n'
    study = Study.parse(f"{text}steps = 3\nbatch = 8\nlearning_rate = 1e-2\n", "tiny").limited(5)
    out = tmp_path / "runs"
    (base, _), (cell, _), *_ = cells_of(study, trainings(study, print), out, "test")
    out.mkdir()
    fulfil(base, lambda step, loss: None)
    asked = ({}, None, Deaf(), cluster._libraries())
    with pytest.raises(InputError, match="is not there"):
        cluster._fulfil(cell, *asked)
    made = cluster._fulfil(cell, *asked, cluster._files(base.folder))
    assert cluster._land(cell, made) is None
    rows = (cell.folder / "rows.jsonl").read_text()
    cell.folder.rename(tmp_path / "there")
    fulfil(cell, lambda step, loss: None)
    assert (cell.folder / "rows.jsonl").read_text() == rows


def test_files_that_arrive_damaged_or_in_part_make_no_run(tmp_path):
    cell = first_cell(Study.parse(TINY, "tiny").limited(3), tmp_path / "runs")
    made = cluster._fulfil(cell, {}, None, Deaf(), cluster._libraries())
    cell.out.mkdir()
    for name in ("rows.jsonl", "weights.safetensors"):
        harmed = {**made, name: made[name][:-9] + b"x" + made[name][-8:]}
        assert "is damaged: sha256" in str(cluster._land(cell, harmed))
        assert not cell.folder.exists()
    missing = {name: data for name, data in made.items() if name != "evaluation.json"}
    assert "no file" in str(cluster._land(cell, missing))
    assert not cell.folder.exists()
    assert cluster._land(cell, {**made, "../../stray": b"x"}) is None
    assert not (tmp_path / "stray").exists()
    assert (cell.folder / "stray").exists()


def test_measured_again_only_new_files_travel_back(tmp_path):
    study = Study.parse(TINY, "tiny").limited(3)
    cell = first_cell(study, tmp_path / "runs")
    fulfil(cell, lambda step, loss: None)
    before = content(cell.out)
    longer = first_cell(study.model_copy(update={"evaluation_lengths": (8, 10)}), cell.out)
    held = cluster._files(longer.folder)
    made = cluster._fulfil(longer, held, None, Deaf(), cluster._libraries())
    assert sorted(name.partition("-")[0] for name in made) == ["evaluation.json", "items", "rows"]
    assert cluster._land(longer, made) is None
    assert content(cell.out) == before
    about = json.loads((cell.folder / "evaluation.json").read_text())
    assert about["evaluation"]["lengths"] == [8, 10]


def test_a_node_with_another_torch_is_named(tmp_path):
    cell = first_cell(Study.parse(TINY, "tiny"), tmp_path)
    expected = {**cluster._libraries(), "torch": "2.6.0"}
    with pytest.raises(InputError, match=rf"node {socket.gethostname()} has torch .*torch 2\.6\.0"):
        cluster._fulfil(cell, {}, None, Deaf(), expected)


def test_a_node_without_room_fails_that_cell_alone(tmp_path, monkeypatch):
    cell = first_cell(Study.parse(TINY, "tiny"), tmp_path)

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr(cluster, "fulfil", full)
    with pytest.raises(RunError, match=r"seed 0: node .*: No space left on device \(/tmp/x\)"):
        cluster._fulfil(cell, {}, None, Deaf(), cluster._libraries())


def test_a_corpus_is_shipped_to_a_node_that_has_none_and_another_is_refused(
    prose, tmp_path, monkeypatch
):
    from longreach.corpora.prepare import prepare

    corpus = prepare(f"text:{prose}", vocabulary=300)
    held: list[dict[str, bytes]] = []
    fake = SimpleNamespace(put=lambda value: held.append(value), get=lambda ref: held[0])
    travels = cluster._Corpus.of(fake, corpus.digest)
    assert cluster._Corpus.of(fake, None) is None
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setenv("LONGREACH_HOME", str(tmp_path / "node"))
    travels.install()
    placed = tmp_path / "node" / "corpora" / corpus.digest
    assert cluster._files(placed) == cluster._files(corpus.folder)
    travels.install()
    (placed / "manifest.json").write_text("{}")  # Says where it was made, which may differ.
    travels.install()
    tokens = bytearray((placed / "train.npy").read_bytes())
    tokens[-1] ^= 1
    (placed / "train.npy").write_bytes(tokens)
    with pytest.raises(InputError, match="is not the one that this study was planned with"):
        travels.install()


def test_a_driver_gone_in_the_middle_of_a_word_is_lost():
    ours, theirs = multiprocessing.Pipe()
    os.write(theirs.fileno(), b"\0\0\1\0half")
    theirs.close()
    assert cluster._heard(ours) == cluster._heard(ours) == ("lost",)
    ours.close()


def test_progress_is_the_last_that_was_told():
    told = Told()
    told.tell("a", 3)
    told.tell("b", 1)
    told.tell("a", 5)
    assert told.read() == {"a": 5, "b": 1}


def test_what_is_shipped_is_the_package_itself():
    assert Path(cluster.__file__).resolve() == cluster.PACKAGE / "where" / "cluster.py"
