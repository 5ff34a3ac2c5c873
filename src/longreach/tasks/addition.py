"""Addition: the sum of two numbers, digit by digit."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from .base import Batch
from .frame import DIGITS, EOS, FIRST, PAD, Framed, closed_up, framed, words

PLUS = FIRST + 10


class Addition(Framed):
    """Write the sum of two numbers, digit by digit. Length counts the longer one's digits.

    At length n the pair of digit counts is drawn uniformly from the 2 n - 1 whose larger one is n,
    then each number uniformly from those of so many digits: no leading zero, but 0 has one digit.
    The tokens vary; there are at most 3 n + 5.

    reversed: if true, the answer is written from its last digit, the order in which carries come
        (Lee et al. 2023, arXiv:2307.03381); the numbers to be added stay as they are.

    The sums are all whole numbers from 10**(n - 1) (from 0 for n = 1) to 2 (10**n - 1).

    >>> task = Addition()
    >>> batch = task.sample(3, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> 8 3 0 + 3 <sep> 8 3 3 <eos>'
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "digits"
    end = EOS

    def __init__(self, *, reversed: bool = False) -> None:
        self.reversed = reversed
        self.words = words(*DIGITS, "+")
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences padded to the longest of them."""
        self.fits(length)
        drawn = torch.randint(1, 2 * length, (count, 1), generator=generator)
        sizes = [drawn.clamp(max=length), (2 * length - drawn).clamp(max=length)]
        numbers = [number(size, length, generator) for size in sizes]
        # Column 0 is for the carry out of the first digits.
        written = torch.zeros(count, length + 1, dtype=torch.long)
        for column in range(length, 0, -1):
            written[:, column] += sum(each[:, column - 1].clamp(min=0) for each in numbers)
            written[:, column - 1] = written[:, column] // 10
        written %= 10
        first, second = (torch.where(each < 0, PAD, FIRST + each) for each in numbers)
        answer = FIRST + written
        answer[:, 0] = torch.where(written[:, 0] == 0, PAD, answer[:, 0])
        if self.reversed:
            answer = answer.flip(1)
        plus = torch.full((count, 1), PLUS)
        return closed_up(framed(torch.cat([first, plus, second], dim=1), answer))

    def parts(self, length: int) -> tuple[int, int]:
        """Two numbers of n digits and a plus; a sum of n + 1 digits."""
        return (2 * length + 1, length + 1)

    def ceiling(self, length: int) -> float:
        """1: the numbers determine their sum."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the sums there can be."""
        least: int = 10 ** (length - 1) if length > 1 else 0
        sums: int = 2 * (10**length - 1) - least + 1
        return 1 / sums


def number(
    size: Int[Tensor, "count 1"], columns: int, generator: torch.Generator
) -> Int[Tensor, "count columns"]:
    """A number of `size` digits in each row, flush right, -1 where it has no digit."""
    digits = torch.randint(0, 10, (len(size), columns), generator=generator)
    leading = torch.randint(1, 10, (len(size), 1), generator=generator)
    start = columns - size
    column = torch.arange(columns)
    digits = torch.where((column == start) & (size > 1), leading, digits)
    return torch.where(column < start, -1, digits)
