"""Evaluation lengths: which a table shows, where an axis has ticks, how they are said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

MOST = 9
"""With more lengths than this, a table shows some of them."""
MOST_TICKS = 8


def dense(lengths: Sequence[int]) -> bool:
    """Whether there are many lengths, close together throughout: an axis of theirs is linear.

    >>> dense(range(1, 49)), dense([32, 64, 128, 256, 512])
    (True, False)
    """
    if len(lengths) <= MOST:
        return False
    nearest = min(b - a for a, b in pairwise(lengths))
    return lengths[-1] - lengths[0] <= 2 * nearest * (len(lengths) - 1)


def chosen(lengths: Sequence[int], trained_length: int, most: int = MOST) -> list[int]:
    """Few of many lengths: the trained one, then at growing distances past it, and the longest.

    Distances double, or grow faster where that would be too many: what happens past the trained
    length happens soon past it. The shortest is kept too.

    >>> chosen(range(1, 49), 16)
    [1, 16, 17, 18, 20, 24, 32, 48]
    >>> chosen(range(1, 49), 16, most=6)
    [1, 16, 17, 20, 32, 48]
    >>> chosen([32, 64, 128], 64)
    [32, 64, 128]
    """
    if len(lengths) <= most:
        return list(lengths)
    found: set[int] = set()
    for growth in range(2, lengths[-1] + 2):
        found = {lengths[0], trained_length, lengths[-1]} & set(lengths)
        distance = 1
        while trained_length + distance < lengths[-1]:
            wanted = trained_length + distance
            found.add(min((n for n in lengths if n >= wanted), default=lengths[-1]))
            distance *= growth
        if len(found) <= most:
            break
    return sorted(found)


def ticks(lengths: Sequence[int], trained_length: int) -> list[int]:
    """Of a linear axis: multiples of the trained length, or of a half or a quarter of it.

    >>> ticks(range(1, 49), 16)
    [8, 16, 24, 32, 40, 48]
    """
    step = trained_length
    while lengths[-1] // step > MOST_TICKS:
        step *= 2
    while step % 2 == 0 and lengths[-1] // (step // 2) <= MOST_TICKS:
        step //= 2
    return [n for n in range(step, lengths[-1] + 1, step) if n >= lengths[0]]


def spoken(lengths: Iterable[int]) -> str:
    """Lengths as one says them, runs of four and more by their ends.

    >>> spoken([1, 2, 3, 4, 6, 8, 9, 16])
    '1 to 4, 6, 8, 9, 16'
    """
    runs: list[list[int]] = []
    for length in lengths:
        if runs and length == runs[-1][-1] + 1:
            runs[-1].append(length)
        else:
            runs.append([length])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) >= 4 else ", ".join(map(str, run)) for run in runs
    )
