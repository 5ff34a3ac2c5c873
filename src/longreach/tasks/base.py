"""Task and Batch: what every task states about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
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


class Task(ABC):
    """A source of sequences with known answers.

    Options are keyword arguments of the constructor. What "length" counts is the task's to say.
    """

    metric: ClassVar[Metric]
    """`exact_match`: fraction of sequences with all scored tokens right. `loss`: nats per token."""

    vocabulary: int
    """Token ids are below this."""

    @property
    def data(self) -> str | None:
        """Digest of data from outside that the task draws on, if there are any."""
        return None

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
