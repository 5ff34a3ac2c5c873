"""Parity: is the number of ones even?"""

from __future__ import annotations

from typing import Literal

import torch

from .base import Batch
from .frame import EOS, FIRST, Framed, framed, one_of, shuffled, words

Ones = Literal["binomial", "uniform"]
YES, NO = FIRST + 2, FIRST + 3


class Parity(Framed):
    """Say whether the number of ones among bits is even. Length counts the bits.

    `b1 .. bn <sep> yes` (or `no`): n + 4 tokens.

    ones: how their number is drawn. `binomial`: each bit is one with probability 1/2, so that
        long sequences nearly all have n/2 ones. `uniform`: from 0 to n, so that few and many are
        as frequent.

    >>> task = Parity()
    >>> batch = task.sample(5, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> 0 1 1 0 1 <sep> no <eos>'
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "bits"
    end = EOS

    def __init__(self, *, ones: Ones = "binomial") -> None:
        one_of("parity", "ones", ones, Ones)
        self.ones = ones
        self.words = words("0", "1", "yes", "no")
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)
        if self.ones == "binomial":
            bits = torch.randint(0, 2, (count, length), generator=generator)
        else:
            number = torch.randint(0, length + 1, (count, 1), generator=generator)
            bits = (shuffled(count, length, generator) < number).long()
        odd = bits.sum(1, keepdim=True) % 2
        return framed(FIRST + bits, torch.where(odd == 1, NO, YES))

    def parts(self, length: int) -> tuple[int, int]:
        """The bits; yes or no."""
        return (length, 1)

    def ceiling(self, length: int) -> float:
        """1: the bits determine their parity."""
        return 1.0

    def chance(self, length: int) -> float:
        """Yes or no."""
        return 1 / 2
