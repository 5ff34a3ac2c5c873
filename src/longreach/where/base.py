"""The contract of a place where cells are fulfilled."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..cell import Cell

ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
    "MALLOC_TOP_PAD_": "67108864",
}
"""For glibc in a worker: keep memory that a step frees for the next step.

Unasked, it gives large blocks back to the system and takes them again, page by page: some 300 page
faults in a step of a small model, an eighth of its time. Other C libraries do not look at these.
"""


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: its run folder is whole, or an error says why not."""

    cell: Cell
    error: BaseException | None = None


class Where(Protocol):
    """Fulfils cells, one thread each; their run folders are whole when their outcomes come."""

    def outcomes(
        self, cells: Sequence[Cell], advance: Callable[[int], None]
    ) -> Generator[Outcome, None, None]:
        """The outcomes of all cells as they come.

        advance: is told of training steps. Raises RunError if no more outcomes can come. Closed
        before its end, whatever still runs is stopped; what was finished stays.
        """


def end_with_parent() -> None:
    """In a child process: ends it at once when its parent is gone, even by kill -9.

    Nobody would wait for its work, and it must not write beside the next run of the same study.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
