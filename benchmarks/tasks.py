"""Milliseconds to draw a training batch of 64 sequences, by task and length.

Run: python benchmarks/tasks.py

The median of so many draws; the first few, in which tables are built, are left out. For scale: a
training step of the small models takes some 10 ms.
"""

from __future__ import annotations

import time
from statistics import median

import torch

from longreach.tasks import TASKS

LENGTHS = (8, 16, 24)
OPTIONS: dict[str, list[dict[str, object]]] = {
    "copy": [{}, {"form": "doubled"}],
    "parity": [{}, {"ones": "uniform"}],
    "sort": [{}, {"form": "multi_digit"}],
    "lego": [{}, {"shuffled": True}],
    "mqar": [{}, {"filler": 8}],
}
DRAWS, LEFT_OUT = 100, 5


def milliseconds(name: str, options: dict[str, object], length: int) -> float:
    """For one batch."""
    task = TASKS[name](**options)
    generator = torch.Generator().manual_seed(0)
    taken = []
    for _ in range(LEFT_OUT + DRAWS):
        start = time.perf_counter()
        task.sample(length, 64, generator)
        taken.append(time.perf_counter() - start)
    return 1000 * median(taken[LEFT_OUT:])


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'task':<34}" + "".join(f"{f'n={length}':>8}" for length in LENGTHS))
    for name in TASKS:
        if name == "text":
            continue
        for options in OPTIONS.get(name, [{}]):
            label = f"{name} {options or ''}"
            figures = [milliseconds(name, options, length) for length in LENGTHS]
            print(f"{label:<34}" + "".join(f"{figure:8.2f}" for figure in figures))


if __name__ == "__main__":
    main()
