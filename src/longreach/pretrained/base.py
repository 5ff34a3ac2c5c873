"""LanguageModel: what every measurement of a trained model needs, whoever trained it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

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
