"""Cells as tasks of a Ray cluster that is there already.

Whoever drives a cluster lives with it: Ray ends a driver's whole process when it loses the cluster
for a minute. So the driver is a process of its own, and what it tells travels through a pipe whose
end is an ordinary event. This process alone writes to the runs folder.

A node needs PyTorch and the other libraries, in the versions that are here; longreach itself is
shipped, and so are prepared corpora.
"""

from __future__ import annotations

import hashlib
import importlib.util
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from .. import files
from ..cell import WORK, Cell, checked, fulfil
from ..corpora.prepare import MANIFEST, store
from ..errors import InputError, RunError
from ..home import home
from ..results import EVALUATION
from .base import ALLOCATOR, Outcome, end_with_parent
from .told import Told

RETRIES = 5
"""How often Ray begins a cell again whose worker or node was lost."""

TELL_SECONDS = 1.0
"""A task says how far it is at most so often."""

ASK_SECONDS = 0.2
"""The driver looks around so often."""

REACH_SECONDS = 5.0
"""How long an address is given to answer."""

STOP_SECONDS = 15.0
"""How long the driver is given to cancel its tasks and leave."""

LIBRARIES = ("torch", "numpy", "safetensors")
"""What rows and weights depend on, bit for bit, and must be the same everywhere."""

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster. address: HOST:PORT of its head; "" for the one that Ray itself finds.

    Raises InputError if Ray is not installed, or for an address of a kind that does not work.
    """

    address: str
    workers: int | None
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise InputError("--where ray needs Ray: pip install 'longreach[ray]'")
        if self.address in ("", "auto"):
            return
        host, _, port = self.address.rpartition(":")
        if "://" in self.address or not host or not port.isdecimal():
            raise InputError(
                f"--where ray:{self.address}: expected ray:HOST:PORT, the address that "
                "`ray start --head` prints; run longreach on a machine of that cluster"
            )

    def outcomes(
        self, cells: Sequence[Cell], advance: Callable[[int], None]
    ) -> Generator[Outcome, None, None]:
        """The outcomes of all cells as they come. Raises RunError if the cluster is lost."""
        waiting = {cell.training.digest: cell for cell in cells}
        known = dict.fromkeys(waiting, 0)
        log = cells[0].out / WORK / "ray.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        driver = context.Process(
            target=_drive, args=(theirs, self.address or "auto", self.workers, list(cells), log)
        )
        driver.start()
        theirs.close()
        lost = False
        try:
            while waiting:
                kind, *told = _heard(ours)
                if kind == "lost":
                    lost = True
                    raise RunError(
                        "the Ray cluster was lost. What was finished is kept; the same command "
                        "continues when the cluster is back, and so does --where local. "
                        f"{log} says what Ray said"
                    )
                if kind == "ends":
                    raise told[0]
                if kind == "says":
                    self.say(told[0])
                elif kind == "steps":
                    for digest, step in told[0].items():
                        # A cell that was begun again is behind what is known of it for a while.
                        advance(max(0, step - known[digest]))
                        known[digest] = max(step, known[digest])
                else:
                    digest, found = told
                    cell = waiting.pop(digest)
                    if isinstance(found, Exception):
                        yield Outcome(cell, found)
                        continue
                    if not cell.trained:
                        advance(cell.training.recipe.steps - known[digest])
                        known[digest] = cell.training.recipe.steps
                    yield Outcome(cell, _land(cell, found))
        finally:
            # The driver takes the end of the pipe for the word to stop.
            ours.close()
            driver.join(STOP_SECONDS)
            driver.kill()
            driver.join()
            if not lost:
                log.unlink(missing_ok=True)


def _heard(line: Connection) -> tuple[Any, ...]:
    """The next word of the driver; "lost" if it is gone, perhaps in the middle of one."""
    try:
        word: tuple[Any, ...] = line.recv()
        return word
    except (EOFError, OSError):
        return ("lost",)


def _land(cell: Cell, found: Mapping[str, bytes]) -> OSError | InputError | None:
    """Puts the files of a run in their place: a new folder whole or not at all."""
    try:
        if cell.trained:
            # evaluation.json is what makes the other files count.
            for name in sorted(found, key=lambda name: name == EVALUATION):
                files.write(cell.folder / Path(name).name, found[name])
            return None
        whole = cell.work / "run"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        for name, data in found.items():
            files.write(whole / Path(name).name, data)
        checked(whole)
        whole.rename(cell.folder)
        files.sync(cell.out)
        shutil.rmtree(cell.work, ignore_errors=True)
    except (OSError, InputError) as error:
        return error
    return None


def _drive(
    line: Connection, address: str, workers: int | None, cells: Sequence[Cell], log: Path
) -> None:
    """In a process of its own: joins the cluster, has cells fulfilled, tells of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    with log.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    import ray

    try:
        _join(ray, address)
        _conduct(ray, line, workers, cells)
    except (BrokenPipeError, ConnectionResetError):
        pass  # Nobody listens any more.
    except InputError as error:
        line.send(("ends", error))
    finally:
        line.close()  # First: of a cluster that is lost, Ray may take its leave slowly.
        # Ends what this driver has begun on the cluster, and nothing else there.
        ray.shutdown()


def _join(ray: Any, address: str) -> None:
    """Makes this process a driver of the cluster. Raises InputError if there is none."""
    start = "`ray start --head` starts one on this machine"
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
        except OSError as error:
            raise InputError(
                f"no Ray cluster answers at {address} ({error.strerror or error}); {start}"
            ) from None
    shipped = {
        "py_modules": [str(PACKAGE)],
        "excludes": ["__pycache__"],
        "env_vars": {name: os.environ.get(name, value) for name, value in ALLOCATOR.items()},
    }
    try:
        ray.init(address=address, runtime_env=shipped, log_to_driver=False, logging_level="ERROR")
    except ConnectionError:
        raise InputError(
            f"found no Ray cluster to join ({address}); {start}, "
            "--where ray:HOST:PORT names another's head"
        ) from None
    except Exception as error:  # Of many kinds: another version of Ray or Python, a token.
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"cannot join the Ray cluster at {address}: {told[0]}") from None


def _conduct(ray: Any, line: Connection, workers: int | None, cells: Sequence[Cell]) -> None:
    """Has cells fulfilled by tasks; stops them when the other end of the line is closed."""
    nodes = sum(node["Alive"] for node in ray.nodes())
    cores = int(ray.cluster_resources().get("CPU", 0))
    line.send(("says", f"Ray cluster: {nodes} nodes, {cores} CPUs"))
    told = _beside(ray, Told)
    corpora = {cell.training.data: _Corpus.of(ray, cell.training.data) for cell in cells}
    begun_from = {cell.base for cell in cells if cell.base and not cell.trained}
    bases = {folder: ray.put(_files(folder)) for folder in begun_from}
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_fulfil)
    libraries = _libraries()
    left = list(reversed(cells))
    pending: dict[Any, Cell] = {}
    asked = told.read.remote()
    while left or pending:
        while left and len(pending) < (workers or len(cells)):
            cell = left.pop()
            held = _files(cell.folder) if cell.trained else {}
            base = bases.get(cell.base) if cell.base else None
            begun = task.remote(cell, held, corpora[cell.training.data], told, libraries, base)
            pending[begun] = cell
        done, _ = ray.wait(list(pending), timeout=ASK_SECONDS)
        if ray.wait([asked], timeout=0)[0]:
            with suppress(ray.exceptions.RayError):  # Progress is worth no failure.
                line.send(("steps", ray.get(asked)))
            asked = told.read.remote()
        for ref in done:
            cell = pending.pop(ref)
            line.send(("done", cell.training.digest, _result(ray, ref, cell)))
        if line.poll():  # Nothing is ever sent here, so this is the end of it.
            for ref in pending:
                ray.cancel(ref, force=True)
            return


def _beside(ray: Any, kind: type) -> Any:
    """An actor on this node: it is lost with the driver, not with another node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, max_restarts=-1)(kind).options(scheduling_strategy=here).remote()


def _result(ray: Any, ref: Any, cell: Cell) -> dict[str, bytes] | Exception:
    """The files that a task has made, or what became of it instead."""
    try:
        found: dict[str, bytes] = ray.get(ref)
        return found
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError | RunError):
            return error.cause
        return RunError(f"{cell.label}: {error}")
    except ray.exceptions.RayError as error:
        said = str(error).strip().splitlines() or [""]
        return RunError(
            f"{cell.label}: Ray gave it up after {RETRIES} retries "
            f"({type(error).__name__}: {said[0]})"
        )


def _files(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _libraries() -> dict[str, str]:
    """The versions that rows depend on."""
    return {name: version(name) for name in LIBRARIES}


@dataclass(frozen=True)
class _Corpus:
    """A prepared corpus as it travels: fetched by a node that does not have it.

    sums: sha256 of the files that tokens come from. files: a reference to all of them.
    """

    digest: str
    sums: Mapping[str, str]
    files: Any

    @classmethod
    def of(cls, ray: Any, digest: str | None) -> _Corpus | None:
        """The one that is prepared here; None for a task without."""
        if digest is None:
            return None
        held = _files(home() / "corpora" / digest)
        return cls(digest, _sums(held), ray.put(held))

    def install(self) -> None:
        """On a node: puts it where tasks look. Raises InputError if another is there."""
        folder = home() / "corpora" / self.digest
        if not folder.is_dir():
            import ray

            store(folder, ray.get(self.files))
        if _sums(_files(folder)) != self.sums:
            raise InputError(
                f"node {socket.gethostname()}: the prepared corpus in {folder} is not the one that "
                "this study was planned with; delete that folder there, and it is shipped anew"
            )


def _sums(held: Mapping[str, bytes]) -> dict[str, str]:
    """sha256 of each file but the manifest, which also says where and when a corpus was made."""
    return {
        name: hashlib.sha256(data).hexdigest() for name, data in held.items() if name != MANIFEST
    }


def _fulfil(
    cell: Cell,
    held: dict[str, bytes],
    corpus: _Corpus | None,
    told: Any,
    expected: dict[str, str],
    base: dict[str, bytes] | None = None,
) -> dict[str, bytes]:
    """On a node: one cell in a folder of its own; the files that were not `held` before.

    base: the files of the run that it begins from, if it does.
    """
    node = socket.gethostname()
    if (found := _libraries()) != expected:
        raise InputError(
            f"node {node} has {_spelt(found)}; here it is {_spelt(expected)}. Rows would depend on "
            "where they were made: install the same versions"
        )
    torch.set_num_threads(1)
    spoke = time.monotonic()

    def tell(step: int, loss: float) -> None:
        nonlocal spoke
        now = time.monotonic()
        if now - spoke > TELL_SECONDS:
            told.tell.remote(cell.training.digest, step)
            spoke = now

    try:
        if corpus is not None:
            corpus.install()
        with TemporaryDirectory(prefix="longreach-") as folder:
            here = replace(cell, out=Path(folder))
            for place, there in ((here.folder, held), (here.base, base)):
                if place is not None and there:
                    place.mkdir()
                    for name, data in there.items():
                        (place / name).write_bytes(data)
            fulfil(here, tell)
            return {n: data for n, data in _files(here.folder).items() if held.get(n) != data}
    except OSError as error:
        # Of this node alone: others go on.
        raise RunError(f"{cell.label}: node {node}: {error.strerror} ({error.filename})") from None


def _spelt(versions: Mapping[str, str]) -> str:
    """For people.

    >>> _spelt({"torch": "2.13.0", "numpy": "2.4.6"})
    'torch 2.13.0, numpy 2.4.6'
    """
    return ", ".join(f"{name} {number}" for name, number in versions.items())
