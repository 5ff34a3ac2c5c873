"""Task and Batch: what every task states about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

Metric = Literal["exact_match", "loss"]


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

    vocabulary: int
    """Token ids are below this."""

    end: ClassVar[int | None] = None
    """The token that ends an answer, where it has one."""

    @property
    def data(self) -> str | None:
        """Digest of data from outside that the task draws on, if there are any."""
        return None

    def total(self, length: int) -> int:
        """Tokens of the longest sequence of that length, the answer included."""
        return length + 1

    @property
    def note(self) -> str:
        """One sentence for the reader of a report: what is asked, and what length counts."""
        return (type(self).__doc__ or "").split("\n\n")[0]

    @abstractmethod
    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Draws `count` training sequences of one length; InputError for one too short."""

    @abstractmethod
    def ceiling(self, length: int) -> float:
        """The best score any model can reach, in the task's metric."""

    @abstractmethod
    def chance(self, length: int) -> float:
        """What guessing without looking scores, in the task's metric."""
