"""Llama and those built like it: one rotary module, and layers that may not turn (SmolLM3)."""

from __future__ import annotations

from .base import Adapter, Rotary


class Llama(Adapter):
    """Llama, Mistral, Qwen 2 and 3, SmolLM 2 and 3: one spectrum for all layers that turn.

    Layers with a sliding window are turned by it too; SmolLM3's NoPE layers are not, and say so in
    `use_rope`.
    """

    @property
    def rotaries(self) -> tuple[Rotary, ...]:
        """One."""
        turned = tuple(
            number
            for number, attention in enumerate(self.attentions)
            if getattr(attention, "use_rope", True)
        )
        return (Rotary(self.model.base_model.rotary_emb, None, turned),)
