"""Times variants in turn within one process and prints each as a ratio to the first."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping

from longreach.where.base import ALLOCATOR


def allocate_as_workers() -> None:
    """Starts the program anew with the settings of malloc that `longreach run` gives its workers.

    They are read when a process starts. All variants have them then, the straightforward ones too.
    """
    missing = {name: value for name, value in ALLOCATOR.items() if name not in os.environ}
    if missing:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})


def ratios(
    variants: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 7,
    repeats: int = 10,
) -> dict[str, float]:
    """Median time of each variant, rounds interleaved (A B C, A B C, ...); prints a table.

    Interleaving makes a machine that slows down slow all variants alike. Returns first / variant:
    how many times faster than the first one each is.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run()
    for _ in range(rounds):
        for name, run in variants.items():
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            seconds[name].append((time.perf_counter() - start) / repeats)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    first = next(iter(medians.values()))
    width = max(map(len, medians))
    for name, median in medians.items():
        low, high = min(seconds[name]) * 1e3, max(seconds[name]) * 1e3
        print(
            f"  {name:<{width}}  {median * 1e3:9.3f} ms  [{low:.3f} .. {high:.3f}]  "
            f"{first / median:6.2f}x"
        )
    return {name: first / median for name, median in medians.items()}
