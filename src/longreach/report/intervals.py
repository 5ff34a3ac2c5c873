"""95% intervals: a bootstrap over seeds and sequences at once, and Wilson's for fractions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

LEVEL = 0.95
RESAMPLES = 2000
RNG_SEED = 20_240_229  # any fixed number: a report made twice must be the same


class Resamples:
    """How often each seed and each sequence is drawn, in each of many resamples.

    Seeds and sequences are drawn independently of each other (the pigeonhole bootstrap; Owen 2007,
    arXiv:0712.1111): every seed was measured on the same sequences, so neither is nested in the
    other.
    Drawn once per shape and used for every cell of a table, so that cells can be compared in pairs.
    """

    def __init__(self, seeds: int, items: int, resamples: int = RESAMPLES) -> None:
        rng = np.random.default_rng([RNG_SEED, seeds, items])
        self.seed_counts = rng.multinomial(seeds, np.ones(seeds) / seeds, resamples)
        self.item_counts = rng.multinomial(items, np.ones(items) / items, resamples).astype(float)

    def means(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The mean of each resample. values: seeds by items."""
        per_seed = values.astype(np.float64) @ self.item_counts.T
        # Divided once and last, so that a mean of ones is one and not a little more.
        means: NDArray[np.float64] = (self.seed_counts.T * per_seed).sum(axis=0) / values.size
        return means


@lru_cache(maxsize=4)
def resamples(seeds: int, items: int) -> Resamples:
    """The draws for tables of this shape; the few shapes in use are kept."""
    return Resamples(seeds, items)


def bootstrap(values: NDArray[Any]) -> tuple[float, float]:
    """Percentile interval of the mean of seeds by items.

    With few seeds it is too narrow in what it says about other seeds, as every percentile bootstrap
    is: with three, a 95% interval covers the mean of all seeds about three times in four where the
    seeds differ by much more than chance. The report says so.
    """
    if np.ptp(values) == 0:  # all right or all wrong, as most are far past the trained length
        return float(values.flat[0]), float(values.flat[0])
    means = resamples(*values.shape).means(values)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def wilson(fraction: float, count: int) -> tuple[float, float]:
    """Wilson's interval of a fraction of `count` sequences; wide even at 0 and 1.

    >>> low, high = wilson(1.0, 100)
    >>> round(low, 3), high
    (0.963, 1.0)
    """
    found = binomtest(round(fraction * count), count).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def fraction_interval(values: NDArray[Any], distinct: int | None = None) -> tuple[float, float]:
    """For fractions: as wide as the bootstrap and Wilson's interval together.

    A bootstrap of sequences that are all right has no width, as if nothing could go wrong. Wilson's
    count is that of distinct sequences: a sequence seen by every seed is still one sequence.
    """
    low, high = bootstrap(values)
    wilson_low, wilson_high = wilson(float(values.mean()), distinct or values.shape[1])
    return min(low, wilson_low), max(high, wilson_high)
