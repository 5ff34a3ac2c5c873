"""ALiBi: attention logits fall linearly with distance, each head with its own slope."""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..biases import alibi_slopes
from .base import Scheme


class Alibi(Scheme):
    """Takes slope * distance off each logit; the slope differs by head.

    Press et al. 2022, arXiv:2108.12409. Where the head count is not a power of two, slopes follow
    the authors' code (`fairseq/models/transformer.py`), not the paper's formula. In an encoder,
    distance is the same to both sides, so a text and its mirror image are told apart by what
    stands at their ends alone.

    Formula, for head h of 1, 2, ... where their count is a power of two:
        slope = 2 ** (-8 * h / heads)
        bias = -slope * (p - j)
    """

    bidirectional = True

    def bias(
        self, queries: Int[Tensor, " query"], keys: Int[Tensor, " key"]
    ) -> Float[Tensor, "heads query key"]:
        """-slope * (query - key), in nats, float32 whatever the dtype of the module."""
        distance = (queries[:, None] - keys[None, :]).float()
        if not self.shape.causal:
            distance = distance.abs()
        return _falling(self.shape.heads).to(distance.device) * distance


@lru_cache(maxsize=64)
def _falling(heads: int) -> Float[Tensor, "heads 1 1"]:
    """Remembered, and never changed: for one token, making it would take longer than its use."""
    return -torch.tensor(alibi_slopes(heads))[:, None, None]
