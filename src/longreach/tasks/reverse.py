"""Reverse: write a string from its end."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Int
from torch import Tensor

from .base import NOWHERE, Batch
from .frame import EOS, FIRST, Framed, at_least, framed, letters, one_of, past_separator, words

Form = Literal["plain", "doubled", "then_forward"]


class Reverse(Framed):
    """Write a string of symbols from its end to its start, then stop. Length counts its symbols.

    symbols: how many different ones; drawn uniformly and independently.
    form: `plain`, `x1..xn <sep> xn..x1`: 2 n + 3 tokens.
        `doubled`, `x1..xn <sep> xn..x1 <next> xn..x1`: 3 n + 4 tokens.
        `then_forward`, `x1..xn <sep> xn..x1 <next> x1..xn`: 3 n + 4 tokens.

    There are symbols**n answers.

    >>> task = Reverse(form="then_forward")
    >>> batch = task.sample(3, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> e t n <sep> n t e <next> e t n <eos>'
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "symbols"
    end = EOS

    def __init__(self, *, form: Form = "plain", symbols: Annotated[int, Ge(2)] = 20) -> None:
        one_of("reverse", "form", form, Form)
        at_least("reverse", "symbols", symbols, 2)
        self.form = form
        self.symbols = symbols
        extra = [] if form == "plain" else ["<next>"]
        self.words = words(*letters(symbols), *extra)
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)
        end = FIRST + self.symbols
        string = torch.randint(FIRST, end, (count, length), generator=generator)
        answer = string.flip(1)
        if self.form != "plain":
            between = torch.full((count, 1), end)
            second = answer if self.form == "doubled" else string
            answer = torch.cat([answer, between, second], dim=1)
        return framed(string, answer)

    def sources(self, batch: Batch) -> Int[Tensor, "batch time"]:
        """Of the first string written. A second may be taken from either of those before it."""
        separator, past = past_separator(batch)
        return torch.where((past > 0) & (past < separator), separator - past, NOWHERE)

    def parts(self, length: int) -> tuple[int, int]:
        """The string; the string, or two with a mark between."""
        return length, length if self.form == "plain" else 2 * length + 1

    def ceiling(self, length: int) -> float:
        """1: the string is there to be read."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the strings of n symbols."""
        return float(self.symbols) ** -length
