"""Scored: a model whose output is its loss, made a few hundred logits at a time in both passes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .adapters import Adapter
from .loading import CHUNK


class Scored(nn.Module):
    """Mean loss over all tokens but the first of each sequence, in nats.

    A module, since what spreads training over devices wraps a module's forward.
    """

    def __init__(self, adapter: Adapter) -> None:
        super().__init__()
        self.adapter = adapter
        self.model: nn.Module = adapter.model

    def forward(
        self, tokens: Int[Tensor, "batch time"], positions: Int[Tensor, "batch read"] | None
    ) -> Float[Tensor, ""]:
        """positions: of the tokens that are read, all but the last; None for 0, 1, 2, ..."""
        hidden = self.adapter.hidden(tokens[:, :-1], positions)
        return chunked_loss(self.adapter.logits, hidden.flatten(0, 1), tokens[:, 1:].flatten())


def chunked_loss(
    logits: Callable[[Tensor], Tensor],
    hidden: Float[Tensor, "tokens width"],
    targets: Int[Tensor, " tokens"],
    chunk: int = CHUNK,
) -> Float[Tensor, ""]:
    """Mean cross-entropy, with the logits of `chunk` tokens at most in memory.

    Each chunk's logits are made again in the backward pass: at 12,288 tokens and a vocabulary of
    49,152, those of all and their gradients would take 4.8 GB, and here 0.2 GB.
    """

    def part(states: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(logits(states), wanted, reduction="sum")

    total = torch.zeros((), device=hidden.device)
    for states, wanted in zip(torch.split(hidden, chunk), torch.split(targets, chunk), strict=True):
        # Nothing random is in a head, so there is no state of a generator to keep for it.
        total = total + checkpoint(
            part, states, wanted, use_reentrant=False, preserve_rng_state=False
        )
    return total / len(targets)
