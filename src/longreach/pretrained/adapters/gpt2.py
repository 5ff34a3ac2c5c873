"""GPT-2: a table of learned positions, and nothing that turns."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from .base import Adapter


class GPT2(Adapter):
    """It ends where its table does."""

    projections = ("attn.c_attn", "attn.c_proj")

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """They have another name here."""
        found: Sequence[nn.Module] = self.model.base_model.h
        return found
