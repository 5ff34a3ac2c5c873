"""MPT: ALiBi, added to the logits of every pair of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import Adapter


class Mpt(Adapter):
    """Nothing turns, and nothing ends, but the config's number of tokens has to be raised."""

    materialised = True
    projections = ("Wqkv", "out_proj")

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """They have another name here."""
        found: Sequence[nn.Module] = self.model.base_model.blocks
        return found

    def hidden(
        self, tokens: Int[Tensor, "batch time"], positions: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """What the head reads."""
        with self.room(tokens.shape[1]):
            return super().hidden(tokens, positions)

    def read(
        self, tokens: Int[Tensor, "batch time"], cache: Any
    ) -> Float[Tensor, "batch time width"]:
        """The same of tokens that stand behind those in a cache."""
        with self.room(int(cache.get_seq_length()) + tokens.shape[1]):
            return super().read(tokens, cache)

    @contextmanager
    def room(self, length: int) -> Iterator[None]:
        """ALiBi is made for `max_seq_len` tokens, which a text may pass."""
        config = self.model.config
        stated, config.max_seq_len = config.max_seq_len, max(config.max_seq_len, length)
        try:
            yield
        finally:
            config.max_seq_len = stated
