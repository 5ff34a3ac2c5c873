"""Cells in processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

import torch

from ..cell import Cell, fulfil
from ..errors import RunError
from .base import ALLOCATOR, Outcome, end_with_parent

SLICES = 8
"""Parts that a training is cut into where that keeps all cores busy to the end."""

TELL_SECONDS = 0.2
"""A worker says how far it is at most so often."""


@dataclass(frozen=True)
class Local:
    """Here if one cell at a time, else in so many processes; as many as cores if None."""

    workers: int | None = None

    def outcomes(
        self, cells: Sequence[Cell], advance: Callable[[int], None]
    ) -> Generator[Outcome, None, None]:
        """The outcomes of all cells as they come. Raises RunError if a worker is lost."""
        workers = self.workers or os.cpu_count() or 1
        if min(workers, len(cells)) == 1:
            return _here(cells, advance)
        return _pooled(cells, workers, advance)


@dataclass
class Worker:
    """State of a worker process, set once when it starts."""

    told: Any = None


_worker = Worker()


def _begin(told: Any) -> None:
    """In a new worker: one thread, deaf to Ctrl-C (the parent decides), a line to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    torch.set_num_threads(1)
    _worker.told = told


def _work(cell: Cell, told: int, until: int | None) -> bool:
    """In a worker: one cell or a slice of it, telling the parent of its steps.

    told: steps that the parent knows of. Returns whether all of the cell is done.
    """
    spoke = time.monotonic()

    def tell(step: int, loss: float) -> None:
        nonlocal spoke, told
        now = time.monotonic()
        if now - spoke > TELL_SECONDS or step in (until, cell.training.recipe.steps):
            _worker.told.put(step - told)
            spoke, told = now, step

    return fulfil(cell, tell, until)


def _pooled(
    cells: Sequence[Cell], workers: int, advance: Callable[[int], None]
) -> Generator[Outcome, None, None]:
    """The outcomes of cells in several processes."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    pool = ProcessPoolExecutor(
        min(workers, len(cells)), mp_context=context, initializer=_begin, initargs=(told,)
    )
    asked = {name: os.environ.get(name) for name in ALLOCATOR}
    os.environ.update({name: value for name, value in ALLOCATOR.items() if asked[name] is None})
    stop = threading.Event()
    listener = threading.Thread(target=_listen, args=(told, advance, stop), daemon=True)
    listener.start()
    try:
        for cell, future in _finished(pool, cells, workers):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                raise RunError(
                    "a worker process died (killed, or out of memory). What was finished is kept; "
                    "the same command continues, perhaps with fewer --workers"
                )
            yield Outcome(cell, error)
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
) -> Iterator[tuple[Cell, Future[bool]]]:
    """Cells that are done or have failed, as they come, with their futures.

    Where cells do not divide evenly among workers, the last ones are trained in slices, in turn, so
    that no core is idle at the end: five cells on two cores take two and a half cells' time, not
    three. A slice ends with a checkpoint, from which the next goes on to the same weights.
    """
    odd = len(cells) % workers
    whole = len(cells) - (workers + odd if odd and len(cells) > workers else 0)

    def submit(cell: Cell, part: int) -> Future[bool]:
        steps = cell.training.recipe.steps
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
            if future.exception() is None and not future.result():
                waiting[submit(cell, part + 1)] = (cell, part + 1)
            else:
                yield cell, future


def _here(cells: Sequence[Cell], advance: Callable[[int], None]) -> Generator[Outcome, None, None]:
    """The outcomes of cells in this process, one after the other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for cell in cells:
            yield _alone(cell, advance)
    finally:
        torch.set_num_threads(threads)


def _alone(cell: Cell, advance: Callable[[int], None]) -> Outcome:
    """One cell in this process."""
    told = 0

    def tell(step: int, loss: float) -> None:
        nonlocal told
        advance(step - told)
        told = step

    try:
        fulfil(cell, tell)
    except (RunError, OSError) as error:
        return Outcome(cell, error)
    return Outcome(cell)


def _listen(told: Any, advance: Callable[[int], None], stop: threading.Event) -> None:
    """Passes the workers' steps on."""
    while not stop.is_set():
        with contextlib.suppress(queue.Empty):
            advance(told.get(timeout=TELL_SECONDS))
