"""Runs a study: every scheme x task x seed in parallel processes, resumed where it was left."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from filelock import FileLock, Timeout

from . import files
from .cell import Cell, fulfil, provenance
from .errors import InputError, RunError
from .evaluate import settings
from .results import FORMAT, PLAN, Results, read_json
from .study import Study, Training, resolve
from .table import nearest
from .tasks import TASKS
from .tasks.base import Task
from .tasks.text import Text
from .train import build_model, check_frame

ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
    "MALLOC_TOP_PAD_": "67108864",
}
"""For glibc in a worker: keep memory that a step frees for the next step.

Unasked, it gives large blocks back to the system and takes them again, page by page: some 300 page
faults in a step of a small model, an eighth of its time. Other C libraries do not look at these.
"""

SLICES = 8
"""Parts that a training is cut into where that keeps all cores busy to the end."""

TELL_SECONDS = 0.2
"""A worker says how far it is at most so often."""


class Display(Protocol):
    """Shows how a study advances. `steps` are of all trainings together."""

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        """Once, before anything runs."""

    def advance(self, steps: int) -> None:
        """So many training steps more are done."""

    def finish(self, label: str) -> None:
        """One more run is in its folder."""


def trainings(study: Study, say: Callable[[str], None]) -> list[tuple[Training, Task]]:
    """Every training of a study with its task, in order: tasks, then seeds, then schemes.

    Corpora are prepared here, once, and every choice is built once, so that a mistake in a study
    shows before anything is trained. Raises InputError for it.
    """
    found: list[tuple[Training, Task]] = []
    for choice in study.tasks:
        kind: Any = TASKS[choice.name]
        check_frame(study.model, choice, kind)
        options = resolve("task", kind, choice)
        task: Task = kind(**options, say=say) if "corpus" in options else kind(**options)
        settings(task, study.evaluation_lengths, study.evaluation)
        task.sample(study.trained_length, 1, torch.Generator())
        if isinstance(task, Text):
            task.windows(study.evaluation_lengths[-1] + 1, 1)
        for seed in study.seeds:
            for scheme in study.schemes:
                training = Training(
                    scheme=scheme,
                    task=choice,
                    data=task.data,
                    seed=seed,
                    trained_length=study.trained_length,
                    model=study.model,
                    training=study.training,
                )
                if seed == study.seeds[0]:
                    build_model(training, task)
                found.append((training, task))
    return found


def narrow(
    cells: Sequence[Cell], *, schemes: Sequence[str] | None, seeds: Sequence[int] | None
) -> list[Cell]:
    """The cells of some schemes (by name or label) and seeds; InputError for one not there."""
    by_scheme = {name for c in cells for name in (c.training.scheme.name, c.training.scheme.label)}
    for name in schemes or ():
        if name not in by_scheme:
            raise InputError(f"--schemes: the study has no '{name}'; {nearest(name, by_scheme)}")
    by_seed = {c.training.seed for c in cells}
    for seed in seeds or ():
        if seed not in by_seed:
            raise InputError(f"--seeds: the study has no seed {seed}; it has {sorted(by_seed)}")
    return [
        cell
        for cell in cells
        if (schemes is None or {cell.training.scheme.name, cell.training.scheme.label} & {*schemes})
        and (seeds is None or cell.training.seed in seeds)
    ]


def run(
    study: Study,
    out: Path,
    *,
    display: Display,
    say: Callable[[str], None],
    command: str,
    workers: int | None = None,
    schemes: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> Results:
    """Trains and measures what is missing in `out`, and reads all of it.

    Raises InputError for a mistake in the study or a folder that is not its own, RunError if a run
    failed (the others are finished first).
    """
    with locked(out):
        check_folder(out, study)
        planned = trainings(study, say)
        cells = [
            Cell(
                training=training,
                lengths=study.evaluation_lengths,
                evaluation=study.evaluation,
                out=out.absolute(),
                command=command,
            )
            for training, _ in planned
        ]
        tasks = {training.digest: task for training, task in planned}
        chosen = narrow(cells, schemes=schemes, seeds=seeds)
        missing = [cell for cell in chosen if cell.wants(tasks[cell.training.digest])]
        write_plan(out, study, cells, command)
        display.start(
            runs=len(chosen),
            finished=len(chosen) - len(missing),
            steps=sum(cell.training.training.steps for cell in missing if not cell.trained),
        )
        if missing:
            execute(missing, workers or os.cpu_count() or 1, display)
        return Results.read(out)


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Makes the folder, and keeps a second run out of it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / ".lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"another longreach run is working in {out}; wait for it, or use --out"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; use another --out") from None
    try:
        yield
    finally:
        lock.release()


def check_folder(out: Path, study: Study) -> None:
    """Raises InputError if the folder holds another study's runs."""
    if not (out / PLAN).exists():
        return
    held = read_json(out / PLAN)["study"]["name"]
    if held != study.name:
        raise InputError(
            f"{out} holds the study '{held}', not '{study.name}'; use another --out folder"
        )


def write_plan(out: Path, study: Study, cells: Sequence[Cell], command: str) -> None:
    """Writes plan.json: the study as it was resolved, and the trainings it consists of."""
    plan = {
        "format": FORMAT,
        "study": study.model_dump(mode="json"),
        "trainings": [
            {
                "digest": cell.training.digest,
                "scheme": cell.training.scheme.label,
                "task": cell.training.task.label,
                "seed": cell.training.seed,
            }
            for cell in cells
        ],
        "provenance": provenance(command),
    }
    files.write(out / PLAN, json.dumps(plan, indent=1) + "\n")


@dataclass
class Worker:
    """State of a worker process, set once when it starts."""

    told: Any = None
    parent: int = 0


_worker = Worker()


def _begin(told: Any, parent: int) -> None:
    """In a new worker: one thread, deaf to Ctrl-C (the parent decides), a line to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _worker.told, _worker.parent = told, parent


def _work(cell: Cell, told: int, until: int | None) -> str | None:
    """In a worker: one cell or a slice of it, telling the parent of its steps.

    told: steps that the parent knows of. Returns the cell's label if all of it is done.
    """
    spoke = time.monotonic()

    def tell(step: int, loss: float) -> None:
        nonlocal spoke, told
        now = time.monotonic()
        if now - spoke > TELL_SECONDS or step in (until, cell.training.training.steps):
            if os.getppid() != _worker.parent:
                os._exit(1)  # The parent was killed: nobody waits for this any more.
            _worker.told.put(step - told)
            spoke, told = now, step

    return cell.label if fulfil(cell, tell, until) else None


def execute(cells: Sequence[Cell], workers: int, display: Display) -> None:
    """Fulfils cells, one thread each: here if one at a time, else in so many processes.

    Raises RunError that names every run that failed; a full disk or a lost worker stops the rest.
    """
    if min(workers, len(cells)) == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            _collect((_here(cell, display) for cell in cells), display)
        finally:
            torch.set_num_threads(threads)
        return
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    pool = ProcessPoolExecutor(
        min(workers, len(cells)),
        mp_context=context,
        initializer=_begin,
        initargs=(told, os.getpid()),
    )
    asked = {name: os.environ.get(name) for name in ALLOCATOR}
    os.environ.update({name: value for name, value in ALLOCATOR.items() if asked[name] is None})
    stop = threading.Event()
    listener = threading.Thread(target=_listen, args=(told, display, stop), daemon=True)
    listener.start()
    try:
        _collect(_finished(pool, cells, workers), display)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        for name in (name for name, value in asked.items() if value is None):
            os.environ.pop(name, None)
        stop.set()
        listener.join()
        told.close()
    pool.shutdown()


def _finished(
    pool: ProcessPoolExecutor, cells: Sequence[Cell], workers: int
) -> Iterator[Future[str | None]]:
    """The futures of cells that are done, or have failed, as they come.

    Where cells do not divide evenly among workers, the last ones are trained in slices, in turn, so
    that no core is idle at the end: five cells on two cores take two and a half cells' time, not
    three. A slice ends with a checkpoint, from which the next goes on to the same weights.
    """
    odd = len(cells) % workers
    whole = len(cells) - (workers + odd if odd and len(cells) > workers else 0)

    def submit(cell: Cell, part: int) -> Future[str | None]:
        steps = cell.training.training.steps
        ends = [None if n == SLICES else steps * n // SLICES for n in (part - 1, part)]
        return pool.submit(_work, cell, ends[0] or 0, ends[1])

    waiting = {}
    for number, cell in enumerate(cells):
        if number < whole:
            waiting[pool.submit(_work, cell, 0, None)] = (cell, SLICES)
        else:
            waiting[submit(cell, 1)] = (cell, 1)
    while waiting:
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            cell, part = waiting.pop(future)
            if future.exception() is None and future.result() is None:
                waiting[submit(cell, part + 1)] = (cell, part + 1)
            else:
                yield future


def _here(cell: Cell, display: Display) -> Future[str | None]:
    """One cell in this process, as a future that is done."""
    done: Future[str | None] = Future()
    told = 0

    def tell(step: int, loss: float) -> None:
        nonlocal told
        display.advance(step - told)
        told = step

    try:
        fulfil(cell, tell)
        done.set_result(cell.label)
    except (RunError, OSError) as error:
        done.set_exception(error)
    return done


def _collect(futures: Iterable[Future[str | None]], display: Display) -> None:
    failures = []
    for future in futures:
        try:
            display.finish(future.result() or "")
        except RunError as error:
            failures.append(str(error))
        except BrokenProcessPool:
            raise RunError(
                "a worker process died (killed, or out of memory). What was finished is kept; "
                "the same command continues, perhaps with fewer --workers"
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise RunError(
                f"the disk is full ({error.filename}). What was finished is kept; "
                "free some space, and the same command continues"
            ) from None
    if failures:
        raise RunError("; ".join(failures))


def _listen(told: Any, display: Display, stop: threading.Event) -> None:
    """Passes the workers' steps on to the display."""
    while not stop.is_set():
        with contextlib.suppress(queue.Empty):
            display.advance(told.get(timeout=TELL_SECONDS))
