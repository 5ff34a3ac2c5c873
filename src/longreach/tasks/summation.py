"""Summation: the last digit of a sum of digits."""

from __future__ import annotations

import torch

from .base import Batch
from .frame import DIGITS, EOS, FIRST, Framed, framed, words

PLUS = FIRST + 10


class Summation(Framed):
    """Add digits from 1 to 9 modulo 10. Length counts the digits.

    `d1 + .. + dn <sep> sum`: 2 n + 3 tokens. Every answer from 0 to 9 occurs, but for n = 1, which
    has no 0.

    >>> task = Summation()
    >>> batch = task.sample(4, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> 9 + 1 + 3 + 7 <sep> 0 <eos>'
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "digits"
    end = EOS

    def __init__(self) -> None:
        self.words = words(*DIGITS, "+")
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)
        digits = torch.randint(1, 10, (count, length), generator=generator)
        prompt = torch.full((count, 2 * length - 1), PLUS)
        prompt[:, ::2] = FIRST + digits
        return framed(prompt, FIRST + digits.sum(1, keepdim=True) % 10)

    def parts(self, length: int) -> tuple[int, int]:
        """Digits with a plus between two; a digit."""
        return (2 * length - 1, 1)

    def ceiling(self, length: int) -> float:
        """1: the digits determine their sum."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the ten digits; among nine for n = 1."""
        return 1 / 10 if length > 1 else 1 / 9
