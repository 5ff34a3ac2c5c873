"""MQAR: multi-query associative recall."""

from __future__ import annotations

from math import perm
from typing import Annotated

import torch
from annotated_types import Ge
from jaxtyping import Int
from torch import Tensor

from ..errors import InputError
from .base import Batch
from .frame import (
    BOS,
    EOS,
    FIRST,
    PAD,
    SEP,
    Framed,
    at_least,
    closed_up,
    first_held,
    shuffled,
    words,
)

FILLERS = 16
"""Different filler tokens, if there is filler."""


class Mqar(Framed):
    """Read key-value pairs, then give the value of each key as it is asked. Length counts pairs.

    `k1 v1 .. kn vn <sep> q1 a1 .. qn an <eos>`: 4 n + filler + 3 tokens. Every key is asked once,
    in random order. Only the answers are scored: the keys asked cannot be foretold.

    keys: how many different keys, and as many values; no sequence has more pairs. Keys do not
        repeat within a sequence, nor do values.
    filler: tokens strewn at random among the queries. They are none of the keys, which filler in
        the original may be, so that some of its queries have no answer.

    >>> task = Mqar(filler=2)
    >>> batch = task.sample(2, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0]), task.render(batch.tokens[batch.scored])
    ('<bos> k58 v10 k47 v29 <sep> k58 v10 f9 k47 v29 f15 <eos>', 'v10 v29')
    """

    metric = "exact_match"
    source = "Arora et al. 2023, arXiv:2312.04927"
    counts = "pairs"

    def __init__(
        self, *, keys: Annotated[int, Ge(2)] = 64, filler: Annotated[int, Ge(0)] = 0
    ) -> None:
        at_least("mqar", "keys", keys, 2)
        at_least("mqar", "filler", filler, 0)
        self.keys = keys
        self.filler = filler
        own = [f"{kind}{i}" for kind in "kv" for i in range(keys)]
        fillers = [f"f{i}" for i in range(FILLERS)] if filler else []
        self.words = words(*own, *fillers)
        self.vocabulary = len(self.words)

    def fits(self, length: int) -> None:
        """Raises InputError if there are no pairs, or more than keys."""
        super().fits(length)
        if length > self.keys:
            raise InputError(
                f"mqar has {self.keys} keys, so at most as many pairs, got length {length}; "
                f"set keys to at least {length}"
            )

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)
        keys = FIRST + shuffled(count, self.keys, generator)[:, :length]
        values = FIRST + self.keys + shuffled(count, self.keys, generator)[:, :length]
        pairs = torch.stack([keys, values], dim=2)
        asked = shuffled(count, length, generator)
        queries = pairs.gather(1, asked[..., None].expand_as(pairs))
        answers = torch.tensor([False, True]).expand(count, length, 2)
        if self.filler:
            start = FIRST + 2 * self.keys
            shape = (count, self.filler, 1)
            strewn = torch.randint(start, start + FILLERS, shape, generator=generator)
            strewn = torch.cat([strewn, torch.full_like(strewn, PAD)], dim=2)
            order = shuffled(count, length + self.filler, generator)[..., None].expand(-1, -1, 2)
            queries = torch.cat([queries, strewn], dim=1).gather(1, order)
            answers = torch.cat([answers, torch.zeros_like(strewn).bool()], dim=1).gather(1, order)
        edges = [torch.full((count, 1), edge) for edge in (BOS, SEP, EOS)]
        tokens = [edges[0], pairs.flatten(1), edges[1], queries.flatten(1), edges[2]]
        unscored = torch.zeros(count, 2 * length + 2, dtype=torch.bool)
        scored = [unscored, answers.flatten(1), unscored[:, :1]]
        return closed_up(Batch(torch.cat(tokens, dim=1), torch.cat(scored, dim=1)))

    def sources(self, batch: Batch) -> Int[Tensor, "batch time"]:
        """Each value stands once before it is asked for."""
        return first_held(batch)

    def parts(self, length: int) -> tuple[int, int]:
        """The pairs; the pairs in another order, and filler."""
        return (2 * length, 2 * length + self.filler)

    def ceiling(self, length: int) -> float:
        """1: each key stands once among the pairs."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the lists of n different values."""
        self.fits(length)
        return 1 / perm(self.keys, length)
