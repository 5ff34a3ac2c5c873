"""Copy: write a string again."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from jaxtyping import Int
from torch import Tensor

from .base import NOWHERE, Batch
from .frame import EOS, FIRST, Framed, at_least, framed, letters, one_of, past_separator, words

Form = Literal["plain", "repeated", "replace", "doubled"]


class Copy(Framed):
    """Write a string of symbols again, then stop. Length counts its symbols.

    symbols: how many different ones; drawn uniformly and independently.
    form: `plain`, `x1..xn <sep> x1..xn`: 2 n + 3 tokens.
        `repeated`, the same with one symbol n times.
        `replace`, `a -> b : a..a <sep> b..b`: 2 n + 7 tokens.
        `doubled`, `x1..xn <sep> x1..xn <next> x1..xn`: 3 n + 4 tokens.

    There are symbols**n answers, but for `repeated` and `replace`, which have as many as symbols.

    >>> task = Copy()
    >>> batch = task.sample(3, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> e t n <sep> e t n <eos>'
    >>> task.vocabulary, task.total(3), task.chance(3) == 20**-3
    (24, 9, True)
    """

    metric = "exact_match"
    source = "Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "symbols"
    end = EOS

    def __init__(self, *, form: Form = "plain", symbols: Annotated[int, Ge(2)] = 20) -> None:
        one_of("copy", "form", form, Form)
        at_least("copy", "symbols", symbols, 2)
        self.form = form
        self.symbols = symbols
        extra = {"replace": ["->", ":"], "doubled": ["<next>"]}.get(form, [])
        self.words = words(*letters(symbols), *extra)
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)
        end = FIRST + self.symbols
        if self.form == "replace":
            old = torch.randint(FIRST, end, (count, 1), generator=generator)
            new = torch.randint(FIRST, end - 1, (count, 1), generator=generator)
            new += new >= old
            arrow, colon = (torch.full((count, 1), word) for word in (end, end + 1))
            prompt = torch.cat([old, arrow, new, colon, old.expand(count, length)], dim=1)
            return framed(prompt, new.expand(count, length))
        if self.form == "repeated":
            symbol = torch.randint(FIRST, end, (count, 1), generator=generator)
            string = symbol.expand(count, length)
        else:
            string = torch.randint(FIRST, end, (count, length), generator=generator)
        if self.form == "doubled":
            between = torch.full((count, 1), end)
            return framed(string, torch.cat([string, between, string], dim=1))
        return framed(string, string)

    def sources(self, batch: Batch) -> Int[Tensor, "batch time"] | None:
        """Of the first copy. A second may be taken from either string, one symbol from anywhere."""
        if self.form in ("repeated", "replace"):
            return None
        separator, past = past_separator(batch)
        return torch.where((past > 0) & (past < separator), past, NOWHERE)

    def parts(self, length: int) -> tuple[int, int]:
        """The string, or the rule and the string; the string, or both with a mark between."""
        if self.form == "replace":
            return length + 4, length
        return length, 2 * length + 1 if self.form == "doubled" else length

    def ceiling(self, length: int) -> float:
        """1: the string is there to be read."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the strings of n symbols, or of n times one symbol."""
        free = 1 if self.form in ("repeated", "replace") else length
        return float(self.symbols) ** -free
