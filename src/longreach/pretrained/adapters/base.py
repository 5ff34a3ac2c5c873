"""Adapter, what is done with a model of any family; and Rotary, what turns some of its layers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

ROWS = 16_384
"""Of the output embeddings, held in float32 at a time."""


@dataclass(frozen=True, eq=False)
class Rotary:
    """A module whose forward makes the cos and sin that turn queries and keys.

    key: the layer type that it is asked for, where it serves several in different ways; else None.
    layers: the layers that turn by what it makes.
    """

    module: nn.Module
    key: str | None
    layers: tuple[int, ...]


class Adapter:
    """A model of `transformers`, reached into.

    A family overrides what differs: here, hidden states come from the model without its head, and
    logits from its output embeddings alone, and nothing is turned.
    """

    auto = "AutoModelForCausalLM"
    """The class of `transformers` that makes models of the family."""

    start: int | None = None
    """The token that a decoder begins every text with; None where that is a tokenizer's to say."""

    source: int | None = None
    """The token that an encoder reads, whatever the text is; None where there is no encoder."""

    materialised = False
    """Whether attention holds a number for every pair of tokens, whatever the implementation."""

    projections: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """The matrices of attention, by the ends of their modules' names: what LoRA is put beside."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The layers, in order."""
        found: Sequence[nn.Module] = self.model.base_model.layers
        return found

    @property
    def attentions(self) -> list[nn.Module]:
        """The attention module of every layer, which is given the cos and sin to turn by."""
        return [block.get_submodule("self_attn") for block in self.blocks]

    @property
    def rotaries(self) -> tuple[Rotary, ...]:
        """What turns its queries and keys; nothing where positions are told in another way."""
        return ()

    def hidden(
        self, tokens: Int[Tensor, "batch time"], positions: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """What the head reads, of every token.

        positions: where tokens stand, if not one after another from 0. A mask then goes with them,
            though nothing is masked: without one, `transformers` takes a skip between positions for
            the end of one text and the beginning of another, and lets neither see the other.
        """
        given: dict[str, Tensor] = {}
        if positions is not None:
            given = {"position_ids": positions, "attention_mask": torch.ones_like(tokens)}
        found: Tensor = self.model.base_model(
            input_ids=tokens, use_cache=False, return_dict=True, **given
        ).last_hidden_state
        return found

    def fresh(self) -> None:
        """Takes back what earlier texts left behind.

        The dynamic spectrum of `transformers` grows with the longest text so far, and stays so for
        every later one that is not shorter than the trained length.
        """
        for rotary in self.rotaries:
            device = next((b.device for b in rotary.module.buffers()), torch.device("cpu"))
            start = torch.zeros(1, 1, dtype=torch.long, device=device)
            given = () if rotary.key is None else (rotary.key,)
            rotary.module(torch.zeros(1, 1, 1, device=device), start, *given)

    def cache(self) -> Any:
        """An empty one for `read`."""
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)

    def read(
        self, tokens: Int[Tensor, "batch time"], cache: Any
    ) -> Float[Tensor, "batch time width"]:
        """The same of tokens that stand behind those in a cache, which takes them in."""
        found: Tensor = self.model.base_model(
            input_ids=tokens, use_cache=True, return_dict=True, **self.named(cache)
        ).last_hidden_state
        return found

    def named(self, cache: Any) -> dict[str, Any]:
        """A cache by the name that a model takes it under: another since transformers 5.24."""
        known = inspect.signature(self.model.base_model.forward).parameters
        return {"cache" if "cache" in known else "past_key_values": cache}

    def logits(self, hidden: Float[Tensor, "*any width"]) -> Float[Tensor, "*any vocabulary"]:
        """The logits of hidden states, in float32, as the model makes them: in its own dtype."""
        found: Tensor = self.model.get_output_embeddings()(hidden)
        return self.after_head(found.float())

    def after_head(
        self, logits: Float[Tensor, "*any vocabulary"]
    ) -> Float[Tensor, "*any vocabulary"]:
        """What the family does to logits after its head: nothing."""
        return logits

    def precise_logits(
        self, hidden: Float[Tensor, "*any width"]
    ) -> Float[Tensor, "*any vocabulary"]:
        """The same made in float32, for some tokens.

        Those that bfloat16 makes come in steps of 0.06 and more, so that likely tokens are often
        tied, and whichever comes first in the vocabulary would win.
        """
        head = self.model.get_output_embeddings()
        if head.weight.dtype == torch.float32 or head.weight.is_meta:
            return self.logits(hidden)
        rows = head.weight.split(ROWS)
        biases = [None] * len(rows) if head.bias is None else head.bias.float().split(ROWS)
        parts = [
            F.linear(hidden.float(), row.float(), bias)
            for row, bias in zip(rows, biases, strict=True)
        ]
        return self.after_head(torch.cat(parts, dim=-1))
