"""LEGO: follow a chain of assignments."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge

from ..errors import InputError
from .base import Batch
from .frame import EOS, FIRST, Framed, at_least, framed, letters, shuffled, words


class Lego(Framed):
    """Say whether a variable at the end of a chain of signs is +1 or -1. Length counts statements.

    `a = - 1 , b = + a , .. ? v <sep> +1` (or `-1`): 5 n + 5 tokens. Variables and signs are drawn
    uniformly, no variable twice; the question is about one of the second half of the chain.

    shuffled: if true, the statements stand in random order; if false, in the chain's.
    variables: how many different ones; no sequence has more statements.

    >>> task = Lego()
    >>> batch = task.sample(3, 1, torch.Generator().manual_seed(1))
    >>> task.render(batch.tokens[0])
    '<bos> a = + 1 , o = + a , f = - o ? f <sep> -1 <eos>'
    """

    metric = "exact_match"
    source = "Zhang et al. 2022, arXiv:2206.04301, as in Kazemnejad et al. 2023, arXiv:2305.19466"
    counts = "statements"
    end = EOS
    shortest = 2

    def __init__(self, *, shuffled: bool = False, variables: Annotated[int, Ge(2)] = 26) -> None:
        at_least("lego", "variables", variables, 2)
        self.shuffled = shuffled
        self.variables = variables
        self.words = words(*letters(variables), "=", "+", "-", "1", ",", "?", "+1", "-1")
        self.vocabulary = len(self.words)

    def fits(self, length: int) -> None:
        """Raises InputError if there are too few statements, or more than variables."""
        super().fits(length)
        if length > self.variables:
            raise InputError(
                f"lego has {self.variables} variables, so at most as many statements, "
                f"got length {length}; set variables to at least {length}"
            )

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences that all have `total(length)` tokens."""
        self.fits(length)
        equals, plus, minus, one, comma, question, right, wrong = range(
            FIRST + self.variables, self.vocabulary
        )
        names = FIRST + shuffled(count, self.variables, generator)[:, :length]
        minuses = torch.randint(0, 2, (count, length), generator=generator)
        asked = torch.randint((length + 1) // 2, length, (count, 1), generator=generator)
        negative = minuses.cumsum(1).gather(1, asked) % 2
        sources = torch.cat([torch.full((count, 1), one), names[:, :-1]], dim=1)
        signs = torch.where(minuses == 1, minus, plus)
        fixed = [torch.full_like(names, token) for token in (equals, comma)]
        statements = torch.stack([names, fixed[0], signs, sources, fixed[1]], dim=2)
        if self.shuffled:
            order = shuffled(count, length, generator)
            statements = statements.gather(1, order[..., None].expand_as(statements))
        chain = statements.flatten(1)[:, :-1]
        mark = torch.full((count, 1), question)
        prompt = torch.cat([chain, mark, names.gather(1, asked)], dim=1)
        return framed(prompt, torch.where(negative == 1, wrong, right))

    def parts(self, length: int) -> tuple[int, int]:
        """The chain and the question; a sign."""
        return (5 * length + 1, 1)

    def ceiling(self, length: int) -> float:
        """1: every variable's chain is there to be followed."""
        return 1.0

    def chance(self, length: int) -> float:
        """+1 or -1."""
        return 1 / 2
