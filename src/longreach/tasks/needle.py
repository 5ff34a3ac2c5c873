"""Needle: find a value in filler."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge, Le
from jaxtyping import Int
from torch import Tensor

from ..errors import InputError
from .base import Batch
from .frame import EOS, FIRST, Framed, at_least, first_held, framed, words


class Needle(Framed):
    """Find the value of a key that stands somewhere in filler. Length counts filler tokens.

    `f .. f k v f .. f k <sep> v`: n + 7 tokens. Filler, key and value are drawn uniformly from
    alphabets of their own, so no filler looks like the needle.

    symbols: how many different fillers, keys and values, each.
    depth: the share of the filler that stands before the needle, from 0 to 1, rounded to the
        nearest token; if not given, drawn uniformly from all places.

    >>> task = Needle(depth=0.5)
    >>> batch = task.sample(4, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> f4 f19 k3 v19 f13 f0 k3 <sep> v19 <eos>'
    """

    metric = "exact_match"
    source = (
        "passkey (Mohtashami & Jaggi 2023, arXiv:2305.16300), RULER (Hsieh 2024, arXiv:2404.06654)"
    )
    counts = "filler tokens"
    end = EOS

    def __init__(
        self,
        *,
        symbols: Annotated[int, Ge(2)] = 20,
        depth: Annotated[float, Ge(0), Le(1)] | None = None,
    ) -> None:
        at_least("needle", "symbols", symbols, 2)
        if depth is not None and not 0 <= depth <= 1:
            raise InputError(f"needle: depth must be from 0 to 1, got {depth}")
        self.symbols = symbols
        self.depth = depth
        self.words = words(*(f"{kind}{i}" for kind in "fkv" for i in range(symbols)))
        self.vocabulary = len(self.words)

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)

        def draw(alphabet: int, columns: int) -> torch.Tensor:
            start = FIRST + alphabet * self.symbols
            return torch.randint(start, start + self.symbols, (count, columns), generator=generator)

        filler, key, value = draw(0, length), draw(1, 1), draw(2, 1)
        if self.depth is None:
            before = torch.randint(0, length + 1, (count, 1), generator=generator)
        else:
            # Half up: Python's own rounding goes to the even neighbour.
            before = torch.full((count, 1), int(self.depth * length + 0.5))
        column = torch.arange(length + 2)
        # The filler with two columns of room at the needle.
        hay = filler.gather(1, (column - 2 * (column > before)).clamp(0, length - 1))
        hay = torch.where(column == before, key, torch.where(column == before + 1, value, hay))
        return framed(torch.cat([hay, key], dim=1), value)

    def sources(self, batch: Batch) -> Int[Tensor, "batch time"]:
        """Each value stands once before it is asked for."""
        return first_held(batch)

    def parts(self, length: int) -> tuple[int, int]:
        """Filler, the needle and its key; the value."""
        return (length + 3, 1)

    def ceiling(self, length: int) -> float:
        """1: the key stands once in the filler, before its value."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the values."""
        return 1 / self.symbols
