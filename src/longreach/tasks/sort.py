"""Sort: write numbers in order."""

from __future__ import annotations

from math import comb
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Int
from torch import Tensor

from .base import Batch
from .frame import DIGITS, EOS, FIRST, PAD, Framed, at_least, closed_up, framed, one_of, words

Form = Literal["single", "multi_digit"]
COMMA = FIRST + 10
LEAST, END = 10, 10_000
"""Numbers of several digits are from LEAST to END - 1, as in the authors' program."""


class Sort(Framed):
    """Write numbers in ascending order, then stop. Length counts the numbers, which may repeat.

    form: `single`, a token for each number: 2 n + 3 tokens.
        `multi_digit`, numbers from 10 to 9999, a token for each digit and a comma between numbers:
        at most 10 n + 1 tokens.
    symbols: how many different numbers the single form has, from 0 on.

    >>> task = Sort()
    >>> batch = task.sample(4, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> 44 39 33 10 <sep> 10 33 39 44 <eos>'
    >>> task = Sort(form="multi_digit")
    >>> batch = task.sample(3, 1, torch.Generator().manual_seed(4))
    >>> task.render(batch.tokens[0])
    '<bos> 9 0 5 0 , 1 7 1 4 , 7 3 3 1 <sep> 1 7 1 4 , 7 3 3 1 , 9 0 5 0 <eos>'
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "numbers"
    end = EOS

    def __init__(self, *, form: Form = "single", symbols: Annotated[int, Ge(2)] = 50) -> None:
        one_of("sort", "form", form, Form)
        at_least("sort", "symbols", symbols, 2)
        self.form = form
        self.symbols = symbols
        own = [*DIGITS, ","] if form == "multi_digit" else [str(i) for i in range(symbols)]
        self.words = words(*own)
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences padded to the longest of them."""
        self.fits(length)
        if self.form == "single":
            numbers = torch.randint(0, self.symbols, (count, length), generator=generator)
            return framed(FIRST + numbers, FIRST + numbers.sort(1).values)
        numbers = torch.randint(LEAST, END, (count, length), generator=generator)
        return closed_up(framed(spelt(numbers), spelt(numbers.sort(1).values)))

    def parts(self, length: int) -> tuple[int, int]:
        """All numbers with four digits and a comma between two, or one token each; twice."""
        tokens = length if self.form == "single" else 5 * length - 1
        return tokens, tokens

    def ceiling(self, length: int) -> float:
        """1: the numbers determine their order."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the ascending lists of n numbers."""
        different = self.symbols if self.form == "single" else END - LEAST
        return 1 / comb(different + length - 1, length)


def spelt(numbers: Int[Tensor, "count n"]) -> Int[Tensor, "count columns"]:
    """Numbers by their digits, a comma between two, with PAD for digits they lack."""
    places = torch.tensor([1000, 100, 10, 1])
    digits = FIRST + numbers[..., None] // places % 10
    digits = torch.where(numbers[..., None] < places, PAD, digits)
    commas = torch.full_like(numbers, COMMA)[..., None]
    return torch.cat([digits, commas], dim=2).flatten(1)[:, :-1]
