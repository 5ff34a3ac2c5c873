"""PCFG SET: apply nested string edits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from string import ascii_uppercase
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from numpy.typing import NDArray

from ..errors import InputError
from .base import Batch
from .frame import EOS, FIRST, Framed, at_least, from_rows, words

String = list[int]

UNARY: dict[str, Callable[[String], String]] = {
    "copy": lambda x: x,
    "reverse": lambda x: x[::-1],
    "shift": lambda x: x[1:] + x[:1],
    "echo": lambda x: x + x[-1:],
    "swap_first_last": lambda x: x[-1:] + x[1:-1] + x[:1],
    "repeat": lambda x: x + x,
}
BINARY: dict[str, Callable[[String, String], String]] = {
    "append": lambda x, y: x + y,
    "prepend": lambda x, y: y + x,
    "remove_first": lambda x, y: y,
    "remove_second": lambda x, y: x,
}
FUNCTIONS = (*UNARY, *BINARY)
COMMA = FIRST + len(FUNCTIONS)
SYMBOL = COMMA + 1

SHORTEST, LONGEST = 2, 5
"""Symbols of a string that is written out."""

UNARY_SHARE, NESTED = 0.75, 0.25
"""Probabilities that a function takes one argument, and that an argument is a function."""

MOST = 200
"""Functions in a sequence: more recursion than this is no use, and Python has its own limit."""


LEAST_KEPT = 0.05
"""Share of the sequences drawn that are not drawn again: less would take too long."""


class Pcfg(Framed):
    """Apply nested string edits, as in PCFG SET, then stop. Length counts the functions.

    `append swap_first_last F1 G1 H1 , repeat I1 J1 <sep> H1 G1 F1 I1 J1 I1 J1`: functions are
    prefix, and a comma stands between two arguments. Strings have 2 to 5 symbols. Trees are drawn
    as the authors' generator draws them before it is fitted to English (a function has one argument
    with probability 3/4, an argument is a function with probability 1/4, functions, string lengths
    and symbols are uniform), given that there are n functions. The number of functions is what the
    published productivity split is by: up to 8 for training, more for the test.

    symbols: how many different ones: A1 to Z1, then A2 and so on.
    longest: symbols of the longest string allowed as argument or answer; a sequence with a longer
        one is drawn again. (The authors limit the prompt instead, which lets `repeat` run wild.)

    >>> task = Pcfg()
    >>> batch = task.sample(3, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> remove_first repeat swap_first_last A8 Q12 , B10 N4 C8 <sep> B10 N4 C8 <eos>'
    """

    metric = "exact_match"
    source = "Hupkes et al. 2020, arXiv:1908.08351"
    counts = "functions"
    end = EOS

    def __init__(
        self, *, symbols: Annotated[int, Ge(2)] = 520, longest: Annotated[int, Ge(5)] = 64
    ) -> None:
        at_least("pcfg", "symbols", symbols, 2)
        at_least("pcfg", "longest", longest, LONGEST)
        self.symbols = symbols
        self.longest = longest
        names = (f"{ascii_uppercase[i % 26]}{i // 26 + 1}" for i in range(symbols))
        self.words = words(*FUNCTIONS, ",", *names)
        self.vocabulary = len(self.words)

    def fits(self, length: int) -> None:
        """Raises InputError for no function, or so many that nearly all strings are too long."""
        super().fits(length)
        if length > MOST:
            raise InputError(f"pcfg has at most {MOST} functions, got length {length}")
        share = float(_kept(length, self.longest).sum()) / weight(length)
        if share < LEAST_KEPT:
            raise InputError(
                f"only {share:.2%} of pcfg's sequences keep to strings of {self.longest} symbols, "
                f"got length {length}; set longest to more than {self.longest}"
            )

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences padded to the longest of them."""
        self.fits(length)
        draw = uniform(generator).__next__
        rows: list[tuple[String, String]] = []
        while len(rows) < count:
            prompt: String = []
            value = self._draw(length, draw, prompt)
            if value is not None:
                rows.append((prompt, value))
        return from_rows(rows)

    def _draw(self, functions: int, draw: Callable[[], float], prompt: String) -> String | None:
        """Writes an expression with so many functions to the prompt; its value.

        None, and the prompt of no use, if a string is too long.
        """
        if not functions:
            size = SHORTEST + int(draw() * (LONGEST - SHORTEST + 1))
            string = [SYMBOL + int(draw() * self.symbols) for _ in range(size)]
            prompt += string
            return string
        shape = bisect_right(cuts(functions), draw() * weight(functions), hi=functions)
        if shape == 0:
            number = int(draw() * len(UNARY))
            prompt.append(FIRST + number)
            inner = self._draw(functions - 1, draw, prompt)
            if inner is None:
                return None
            value = UNARY[FUNCTIONS[number]](inner)
        else:
            number = len(UNARY) + int(draw() * len(BINARY))
            prompt.append(FIRST + number)
            first = self._draw(shape - 1, draw, prompt)
            if first is None:
                return None
            prompt.append(COMMA)
            second = self._draw(functions - shape, draw, prompt)
            if second is None:
                return None
            value = BINARY[FUNCTIONS[number]](first, second)
        return None if len(value) > self.longest else value

    def parts(self, length: int) -> tuple[int, int]:
        """The longest prompt, whatever its answer; the longest answer, whatever its prompt."""
        self.fits(length)
        prompts = longest_prompts(length, self.longest)
        return int(prompts.max()), int(np.isfinite(prompts).nonzero()[0].max())

    def total(self, length: int) -> int:
        """Tokens of the longest prompt and answer that can stand together."""
        self.fits(length)
        both = longest_prompts(length, self.longest) + np.arange(self.longest + 1)
        return 3 + int(both.max())

    def ceiling(self, length: int) -> float:
        """1: an expression has one value."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the strings as long as the answer, whose length is told."""
        self.fits(length)
        shares = answer_lengths(length, self.longest)
        return float((shares * float(self.symbols) ** -np.arange(len(shares))).sum())


def uniform(generator: torch.Generator) -> Iterator[float]:
    """Numbers from 0 to below 1."""
    while True:
        yield from torch.rand(1024, generator=generator, dtype=torch.float64).tolist()


@cache
def weight(functions: int) -> float:
    """The relative probability that the generator makes a tree of so many functions.

    Each argument is a string (3/4) or a function (1/4). A tree of n functions has n - 1 of them as
    arguments, whatever its shape, so those factors are left out; its strings count 3/4 each.

    >>> weight(1) == 3 / 4 + 1 / 4 * 3 / 4  # one argument, or two: but for a common factor 3/4
    True
    """
    return cuts(functions)[-1] if functions else 1.0


@cache
def cuts(functions: int) -> list[float]:
    """Running sums of the weights of a tree's shapes at its root.

    First that of one argument, then those of two with 0, 1, .. functions in the first.
    """
    # A tree with one more function of two arguments has one string more.
    two = (1 - UNARY_SHARE) * (1 - NESTED)
    splits = [weight(left) * weight(functions - 1 - left) for left in range(functions)]
    return [*accumulate([UNARY_SHARE * weight(functions - 1), *(two * each for each in splits)])]


@cache
def answer_lengths(functions: int, longest: int) -> NDArray[np.float64]:
    """The probability of every answer length from 0 on, among sequences that are kept."""
    kept = _kept(functions, longest)
    shares: NDArray[np.float64] = kept / kept.sum()
    return shares


@cache
def _kept(functions: int, longest: int) -> NDArray[np.float64]:
    """Weight of the trees of so many functions without too long a string, by answer length."""
    found = np.zeros(longest + 1)
    if functions == 0:
        found[SHORTEST : LONGEST + 1] = 1 / (LONGEST - SHORTEST + 1)
        return found
    inner = _kept(functions - 1, longest)
    each = UNARY_SHARE / len(UNARY)
    found += 4 * each * inner  # copy, reverse, shift, swap_first_last
    found[1:] += each * inner[:-1]  # echo
    half = inner[: longest // 2 + 1]
    found[: 2 * len(half) : 2] += each * half  # repeat
    each = (1 - UNARY_SHARE) * (1 - NESTED) / len(BINARY)
    for left in range(functions):
        first, second = _kept(left, longest), _kept(functions - 1 - left, longest)
        found += 2 * each * np.convolve(first, second)[: longest + 1]  # append, prepend
        found += each * (first.sum() * second + second.sum() * first)  # remove_first, _second
    return found


@cache
def longest_prompts(functions: int, longest: int) -> NDArray[np.float64]:
    """Tokens of the longest prompt for every answer length from 0 on; -inf if there is none."""
    found = np.full(longest + 1, -np.inf)
    if functions == 0:
        found[SHORTEST : LONGEST + 1] = np.arange(SHORTEST, LONGEST + 1)
        return found
    inner = 1 + longest_prompts(functions - 1, longest)
    found[:] = inner
    found[1:] = np.maximum(found[1:], inner[:-1])
    half = inner[: longest // 2 + 1]
    found[: 2 * len(half) : 2] = np.maximum(found[: 2 * len(half) : 2], half)
    for left in range((functions + 1) // 2):
        first = 2 + longest_prompts(left, longest)
        second = longest_prompts(functions - 1 - left, longest)
        np.maximum(found, first.max() + second, out=found)
        np.maximum(found, second.max() + first, out=found)
        for size in range(SHORTEST, longest + 1):
            rest = second[: longest + 1 - size]
            found[size:] = np.maximum(found[size:], first[size] + rest)
    return found
