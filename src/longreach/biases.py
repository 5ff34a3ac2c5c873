"""ALiBi's slopes and T5's buckets as numbers. No torch: schemes and the clinic share them."""

from __future__ import annotations

from math import ceil, log, log2

from .errors import InputError
from .spectrum import ROUNDING, brief, whole

STEEPEST = 100
"""The largest bias_max: its smallest slope, 2 ** -100, is of no use, and far from underflow."""


def alibi_slopes(heads: int) -> list[float]:
    """One slope per head, in nats per token.

    Press et al. 2022, arXiv:2108.12409. Where the head count is not a power of two, slopes follow
    the authors' code (`fairseq/models/transformer.py`), not the paper's formula.

    >>> alibi_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> alibi_slopes(3)  # two for two heads, then every other one of those for four
    [0.0625, 0.00390625, 0.25]
    """
    full = 2 ** int(log2(whole("heads", heads, most=65_536)))
    geometric = [2.0 ** (-8 * (i + 1) / full) for i in range(full)]
    if full == heads:
        return geometric
    return geometric + alibi_slopes(2 * full)[0::2][: heads - full]


def mpt_slopes(heads: int, bias_max: float = 8) -> list[float]:
    """MPT's slopes, one per head: 2 ** -bias_max is the smallest, and `alibi_bias_max` in configs.

    For a head count that is not a power of two, those of the next power of two: every second from
    the second on, then every second from the first on. With bias_max 8 they are `alibi_slopes`.

    >>> mpt_slopes(2)
    [0.0625, 0.00390625]
    """
    if not 0 < bias_max <= STEEPEST:
        raise InputError(f"bias_max must be above 0 and at most {STEEPEST}, got {brief(bias_max)}")
    full = 2 ** ceil(log2(whole("heads", heads, most=65_536)))
    geometric = [2.0 ** (-bias_max * (i + 1) / full) for i in range(full)]
    if full == heads:
        return geometric
    return (geometric[1::2] + geometric[0::2])[:heads]


def t5_bucket_starts(buckets: int = 32, max_distance: int = 128) -> list[int]:
    """The first distance of each bucket of T5's causal bias, in tokens.

    The first half holds one distance each, the rest grow geometrically, and the last takes all
    beyond. Raffel et al. 2020, arXiv:1910.10683. (A bidirectional layer gives half the buckets to
    each direction: ask with half of them.)

    Raises InputError for fewer than two buckets, or a max_distance not above half the buckets.

    >>> t5_bucket_starts()[14:20], t5_bucket_starts()[-1]
    ([14, 15, 16, 19, 21, 24], 113)
    """
    exact = whole("buckets", buckets, least=2, most=65_536) // 2
    if whole("max_distance", max_distance) <= exact:
        raise InputError(
            f"max_distance must be above half the buckets, {exact}, got {max_distance}"
        )
    growing = buckets - exact

    def bucket(distance: int) -> int:
        grown = log(distance / exact) / log(max_distance / exact) * growing
        return exact + int(grown + ROUNDING)  # A logarithm may fall just short of a whole number.

    starts = list(range(exact + 1))
    for number in range(exact + 1, buckets):
        start = int(exact * (max_distance / exact) ** ((number - exact) / growing)) - 1
        while bucket(max(start, exact)) < number:
            start += 1
        starts.append(max(start, exact))
    return starts[:buckets]
