"""Polynomial: its value at a point, modulo 10."""

from __future__ import annotations

from functools import cache
from itertools import product

import torch

from .base import Batch
from .frame import EOS, FIRST, Framed, framed, words

LARGEST_COEFFICIENT, LARGEST_DEGREE, LARGEST_POINT = 3, 3, 2

NUMBERS = [str(number) for number in range(-LARGEST_COEFFICIENT, 10)]
ZERO = FIRST + LARGEST_COEFFICIENT
POWER = FIRST + len(NUMBERS)
X, EQUALS, IN, PLUS = range(POWER + LARGEST_DEGREE + 1, POWER + LARGEST_DEGREE + 5)


class Polynomial(Framed):
    """Evaluate a polynomial at a point, modulo 10. Length counts its terms.

    `x = v in c1 x^d1 + .. + cn x^dn <sep> value`: 3 n + 7 tokens. The point is drawn uniformly from
    -2 to 2, and for each term the coefficient from -3 to 3 and the degree from 0 to 3; degrees may
    repeat. 0^0 is 1, and the value of a negative number modulo 10 is not negative.

    >>> task = Polynomial()
    >>> batch = task.sample(2, 1, torch.Generator().manual_seed(2))
    >>> task.render(batch.tokens[0])
    '<bos> x = 1 in 0 x^0 + 1 x^2 <sep> 1 <eos>'
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "terms"
    end = EOS

    def __init__(self) -> None:
        powers = [f"x^{degree}" for degree in range(LARGEST_DEGREE + 1)]
        self.words = words(*NUMBERS, *powers, "x", "=", "in", "+")
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)

        def draw(low: int, high: int, columns: int) -> torch.Tensor:
            return torch.randint(low, high + 1, (count, columns), generator=generator)

        point = draw(-LARGEST_POINT, LARGEST_POINT, 1)
        coefficients = draw(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT, length)
        degrees = draw(0, LARGEST_DEGREE, length)
        value = (coefficients * point**degrees).sum(1, keepdim=True) % 10
        start = torch.tensor([X, EQUALS, ZERO, IN]).repeat(count, 1)
        start[:, 2:3] += point
        plus = torch.full_like(degrees, PLUS)
        terms = torch.stack([ZERO + coefficients, POWER + degrees, plus], dim=2)
        return framed(torch.cat([start, terms.flatten(1)[:, :-1]], dim=1), ZERO + value)

    def parts(self, length: int) -> tuple[int, int]:
        """The point and the terms; the value."""
        return (3 * length + 3, 1)

    def ceiling(self, length: int) -> float:
        """1: point and terms determine the value."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the values there can be: all ten digits, but for n = 1 not 5."""
        return 1 / len(values(min(length, 10)))


@cache
def values(terms: int) -> frozenset[int]:
    """What polynomials of so many terms can come to modulo 10.

    >>> sorted(values(1)), len(values(2))
    ([0, 1, 2, 3, 4, 6, 7, 8, 9], 10)
    """
    found: set[int] = set()
    for point in range(-LARGEST_POINT, LARGEST_POINT + 1):
        coefficients = range(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT + 1)
        degrees = range(LARGEST_DEGREE + 1)
        term = {c * point**d % 10 for c, d in product(coefficients, degrees)}
        sums = {0}
        for _ in range(terms):
            sums = {(a + b) % 10 for a, b in product(sums, term)}
        found |= sums
    return frozenset(found)
