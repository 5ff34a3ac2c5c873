"""Task and Batch: what every task states about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from ..errors import InputError
from ..table import nearest

Metric = Literal["exact_match", "loss"]

NOWHERE = -1
"""Instead of a place: no earlier token is the source of this one."""


@dataclass(frozen=True)
class Batch:
    """Sequences, and which of their tokens the model is to predict from those before them."""

    tokens: Int[Tensor, "batch time"]
    scored: Bool[Tensor, "batch time"]

    @property
    def last(self) -> int:
        """How many of the last tokens hold all the scored ones: logits are needed for no others."""
        columns = self.scored.any(0)
        return int(len(columns) - int(columns.nonzero()[0]))

    @property
    def alike(self) -> bool:
        """Whether every row is scored from some place on to its end, the same for all."""
        return bool(self.scored[:, -self.last :].all())

    @classmethod
    def join(cls, parts: Sequence[Batch]) -> Batch:
        """One batch of all rows, those that are shorter filled up with tokens that do not count."""
        longest = max(part.tokens.shape[1] for part in parts)

        def widened(x: Tensor) -> Tensor:
            return F.pad(x, (0, longest - x.shape[1]))

        return cls(
            torch.cat([widened(part.tokens) for part in parts]),
            torch.cat([widened(part.scored) for part in parts]),
        )


class Task(ABC):
    """A source of sequences with known answers.

    Options are keyword arguments of the constructor. What "length" counts is the task's to say.
    """

    metric: ClassVar[Metric]
    """`exact_match`: fraction of sequences with all scored tokens right. `loss`: nats per token."""

    source: ClassVar[str]
    """Where the task is from: authors, year and arXiv number."""

    counts: ClassVar[str]
    """What a length counts, in the plural: "digits"."""

    shortest: ClassVar[int] = 1
    """The smallest length there is."""

    vocabulary: int
    """Token ids are below this."""

    end: ClassVar[int | None] = None
    """The token that ends an answer, where it has one."""

    @property
    def data(self) -> str | None:
        """Digest of data from outside that the task draws on, if there are any."""
        return None

    @property
    def note(self) -> str:
        """One sentence for the reader of a report: what is asked, and what length counts."""
        return (type(self).__doc__ or "").split("\n\n")[0]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The printed form of every token, by id: no two alike, none with white space."""
        return tuple(str(token) for token in range(self.vocabulary))

    def fits(self, length: int) -> None:
        """Raises InputError if there is no sequence of this length."""
        if length < self.shortest:
            noun = self.counts.removesuffix("s") if self.shortest == 1 else self.counts
            raise InputError(
                f"{type(self).__name__.lower()} needs at least {self.shortest} {noun}, "
                f"got length {length}"
            )

    @abstractmethod
    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Draws `count` training sequences of one length; InputError for one that does not fit.

        Draws come from `generator` alone, so that a seed means the same sequences on any machine.
        """

    @abstractmethod
    def total(self, length: int) -> int:
        """Tokens of the longest sequence of that length, answer and frame included."""

    @abstractmethod
    def ceiling(self, length: int) -> float:
        """The best score any model can reach, in the task's metric."""

    @abstractmethod
    def chance(self, length: int) -> float:
        """What guessing without looking scores, in the task's metric.

        For exact match: the probability that a guess is wholly right that is drawn uniformly from
        the answers of sequences of that length. Rounds to 0 where it is below 1e-323.
        """

    def sources(self, batch: Batch) -> Int[Tensor, "batch time"] | None:
        """For every token the place in its row that the answer's rule takes it from, or NOWHERE.

        Only scored tokens have one, and only where the rule leaves no choice. None for tasks whose
        answers are not taken from places at all, or whose places cannot be told from the batch.
        """
        return None

    def render(self, tokens: Iterable[int] | Int[Tensor, " time"]) -> str:
        """The printed form of a sequence: its words, a space between two."""
        return " ".join(self.words[int(token)] for token in tokens)

    def parse(self, text: str) -> list[int]:
        """The sequence that prints as `text`. Raises InputError for a word the task has not."""
        found = []
        for word in text.split():
            if word not in self._ids:
                raise InputError(f"'{word}' is no word of this task; {nearest(word, self.words)}")
            found.append(self._ids[word])
        return found

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: token for token, word in enumerate(self.words)}
