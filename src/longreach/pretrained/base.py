"""LanguageModel: what every measurement of a trained model needs, whoever trained it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..repairs import Repair
from .wear import Proof


@runtime_checkable
class LanguageModel(Protocol):
    """A trained model. Token losses are in nats."""

    @property
    def name(self) -> str:
        """As the user named it."""
        ...

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that cover its weights."""
        ...

    @property
    def trained_length(self) -> int:
        """Tokens of its training sequences, before any extension."""
        ...

    @property
    def limit(self) -> int | None:
        """Positions it can represent, or None if there is no end."""
        ...

    @property
    def by_length(self) -> bool:
        """Whether, as it is, it turns by what the length of the text says: a prefix is no guide."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with no others added."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens."""
        ...

    def holds(self, tokens: Int[Tensor, "batch time"]) -> bool:
        """Whether it can represent the positions of these sequences."""
        ...

    def logits(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """After every token or the `last` so many, in float32, without gradients."""
        ...

    def continued(
        self, tokens: Int[Tensor, " time"], endings: Sequence[Int[Tensor, " some"]], last: int
    ) -> list[Float[Tensor, "last vocabulary"]]:
        """Logits after the last so many tokens of each ending, each read behind the same tokens."""
        ...

    def losses(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch scored"]:
        """Of every token but the first, or of the `last` so many; logits are not held."""
        ...

    def wearing(
        self, repair: Repair | None, target_length: int
    ) -> AbstractContextManager[Proof | None]:
        """Repaired for a while, for the target length; None wears nothing."""
        ...


def one_by_one(
    model: LanguageModel,
    tokens: Int[Tensor, " time"],
    endings: Sequence[Int[Tensor, " some"]],
    last: int,
) -> list[Float[Tensor, "last vocabulary"]]:
    """What `continued` is to give, each ending in a pass of its own over everything."""
    return [model.logits(torch.cat([tokens, end])[None], last=last)[0] for end in endings]
