"""Gemma 3 (text): layers that see all, and layers with a window, each with a base of its own."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from .base import Adapter, Rotary


class Gemma3(Adapter):
    """One module that makes cos and sin by layer type."""

    @property
    def rotaries(self) -> tuple[Rotary, ...]:
        """One for each layer type."""
        types = list(self.model.config.layer_types)
        return tuple(
            Rotary(
                self.model.base_model.rotary_emb,
                kind,
                tuple(number for number, each in enumerate(types) if each == kind),
            )
            for kind in sorted(set(types))
        )

    def after_head(
        self, logits: Float[Tensor, "*any vocabulary"]
    ) -> Float[Tensor, "*any vocabulary"]:
        """Squeezed softly between two bounds, where the config names one."""
        cap = self.model.config.final_logit_softcapping
        return logits if cap is None else (logits / cap).tanh() * cap
