"""Recall: the last token repeats an earlier one; predict what followed it."""

from __future__ import annotations

from functools import cache
from math import comb

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import InputError
from .base import NOWHERE, Batch, Task
from .frame import letters

FIRST_SYMBOL = 2
"""Ids 0 and 1 are kept free, as in the program this task comes from."""


class Recall(Task):
    """The last token repeats one from the first half; predict what followed it there.

    `length` counts the tokens read; the answer comes after them. The repeated token stands at a
    position drawn uniformly from 1 to length // 2 - 1.

    symbols: how many different ones. ambiguous: if false, the repeated token occurs nowhere else,
        so a perfect model is always right. If true, all tokens are drawn alike and it may occur
        several times in the first half, with different successors: a perfect model then falls from
        0.81 at 24 tokens to 0.65 at 48 without any failure of its positions (see `ceiling`).

    >>> batch = Recall(symbols=6).sample(8, 1, torch.Generator().manual_seed(0))
    >>> batch.tokens.tolist(), batch.scored.tolist()[0][-2:]
    ([[7, 7, 5, 2, 6, 7, 4, 5, 2]], [False, True])
    >>> Recall(symbols=6).render(batch.tokens[0])
    'f f d a e f c d a'
    """

    metric = "exact_match"
    source = "induction heads: Olsson et al. 2022, arXiv:2209.11895"
    counts = "tokens"
    shortest = 4

    def __init__(self, *, symbols: int = 22, ambiguous: bool = False) -> None:
        if symbols < 2:
            raise InputError(f"recall needs at least 2 symbols, got {symbols}")
        self.symbols = symbols
        self.ambiguous = ambiguous
        self.vocabulary = FIRST_SYMBOL + symbols
        self.words = ("<0>", "<1>", *letters(symbols))

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences of length + 1 tokens, the last of them scored."""
        self.fits(length)
        rows = torch.arange(count)
        # One symbol fewer leaves a gap for the query, over which larger ids are moved below. The
        # draws of the ambiguous form are, in order, those of the program this task comes from.
        end = self.vocabulary if self.ambiguous else self.vocabulary - 1
        tokens = torch.randint(FIRST_SYMBOL, end, (count, length), generator=generator)
        source = torch.randint(1, length // 2, (count,), generator=generator)
        if self.ambiguous:
            query = tokens[rows, source]
        else:
            query = torch.randint(FIRST_SYMBOL, self.vocabulary, (count,), generator=generator)
            tokens += tokens >= query[:, None]
            tokens[rows, source] = query
        tokens[:, -1] = query
        answer = tokens[rows, source + 1]
        whole = torch.cat([tokens, answer[:, None]], dim=1)
        scored = torch.zeros_like(whole, dtype=torch.bool)
        scored[:, -1] = True
        return Batch(whole, scored)

    def sources(self, batch: Batch) -> Int[Tensor, "batch time"] | None:
        """The place after the query's first; in the ambiguous form it cannot be told."""
        if self.ambiguous:
            return None
        query = batch.tokens[:, -2:-1]
        found = torch.full_like(batch.tokens, NOWHERE)
        found[:, -1] = (batch.tokens == query).byte().argmax(1) + 1
        return found

    def total(self, length: int) -> int:
        """What is read, and the answer."""
        return length + 1

    def ceiling(self, length: int) -> float:
        """1, or for the ambiguous form the accuracy of predicting the most frequent successor."""
        return most_frequent_successor(length, self.symbols) if self.ambiguous else 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the symbols that can be the answer."""
        return 1 / self.symbols if self.ambiguous else 1 / (self.symbols - 1)


@cache
def most_frequent_successor(length: int, symbols: int) -> float:
    """Exact accuracy of the best guess in ambiguous recall.

    Of the m = length // 2 - 1 places that the query may come from, those that hold the query's
    token are equally likely to be its source, so the best answer is the most frequent successor
    among them. Averaged over sequences, its accuracy is symbols / m times the expected count of
    that successor, for one fixed token. A chain over the places counts how often the token follows
    itself (a) and how often another token follows it (b); those b successors are uniform over the
    other symbols.

    >>> [round(most_frequent_successor(n, 22), 4) for n in (24, 32, 48)]
    [0.8112, 0.7509, 0.6505]
    """
    places = length // 2 - 1
    hit = 1 / symbols
    # (is the place before the token?, a, b) -> probability, over places 1 .. m + 1
    chain = {(True, 0, 0): hit, (False, 0, 0): 1 - hit}
    for _ in range(places):
        step: dict[tuple[bool, int, int], float] = {}
        for (held, a, b), p in chain.items():
            for holds, q in ((True, hit), (False, 1 - hit)):
                state = (holds, a + (held and holds), b + (held and not holds))
                step[state] = step.get(state, 0.0) + p * q
        chain = step
    best = sum(p * expected_maximum(a, b, symbols - 1) for (_, a, b), p in chain.items())
    return symbols * best / places


@cache
def expected_maximum(floor: int, balls: int, boxes: int) -> float:
    """E[max(floor, fullest box)] when balls fall uniformly into boxes.

    >>> expected_maximum(0, 2, 2)  # both in one box (1/2): 2; apart: 1
    1.5
    """
    return float(sum(1 - none_above(level, balls, boxes) for level in range(floor, balls)) + floor)


@cache
def none_above(level: int, balls: int, boxes: int) -> float:
    """The probability that no box holds more than `level` balls."""
    if balls == 0:
        return 1.0
    # ways[n]: ordered placements of n balls into the boxes so far, none above the level
    ways = [1] + [0] * balls
    for _ in range(boxes):
        ways = [
            sum(comb(n, k) * ways[n - k] for k in range(min(level, n) + 1))
            for n in range(balls + 1)
        ]
    return float(ways[balls] / boxes**balls)
