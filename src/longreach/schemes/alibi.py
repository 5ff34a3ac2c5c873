"""ALiBi: attention logits fall linearly with distance, each head with its own slope."""

from __future__ import annotations

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
    """

    bidirectional = True

    def bias(
        self, queries: Int[Tensor, " query"], keys: Int[Tensor, " key"]
    ) -> Float[Tensor, "heads query key"]:
        """-slope * (query - key), in nats, float32 whatever the dtype of the module."""
        distance = (queries[:, None] - keys[None, :]).float()
        if not self.shape.causal:
            distance = distance.abs()
        by_head = torch.tensor(alibi_slopes(self.shape.heads), device=distance.device)
        return -by_head[:, None, None] * distance
