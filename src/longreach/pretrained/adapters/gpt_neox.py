"""GPT-NeoX and Pythia: part of each head is turned."""

from __future__ import annotations

from torch import nn

from .base import Adapter, Rotary


class GPTNeoX(Adapter):
    """One rotary module for all layers, for the first dimensions of each head."""

    projections = ("query_key_value", "dense")

    @property
    def attentions(self) -> list[nn.Module]:
        """They have another name here."""
        return [block.get_submodule("attention") for block in self.blocks]

    @property
    def rotaries(self) -> tuple[Rotary, ...]:
        """One."""
        layers = tuple(range(len(self.blocks)))
        return (Rotary(self.model.base_model.rotary_emb, None, layers),)
