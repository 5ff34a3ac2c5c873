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
    the authors' code (`fairseq/models/transformer.py`), not the paper's formula.
    """

    def bias(
        self, queries: Int[Tensor, " query"], keys: Int[Tensor, " key"]
    ) -> Float[Tensor, "heads query key"]:
        """-slope * (query - key), in nats, float32 whatever the dtype of the module."""
        distance = (queries[:, None] - keys[None, :]).float()
        by_head = torch.tensor(alibi_slopes(self.shape.heads), device=distance.device)
        return -by_head[:, None, None] * distance
