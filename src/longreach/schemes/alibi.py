"""ALiBi: attention logits fall linearly with distance, each head with its own slope."""

from __future__ import annotations

from math import log2

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
        by_head = torch.tensor(slopes(self.shape.heads), device=distance.device)
        return -by_head[:, None, None] * distance


def slopes(heads: int) -> list[float]:
    """One slope per head, in nats per token.

    >>> slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    >>> slopes(3)  # two for two heads, then every other one of those for four
    [0.0625, 0.00390625, 0.25]
    """
    whole = 2 ** int(log2(heads))
    geometric = [2.0 ** (-8 * (i + 1) / whole) for i in range(whole)]
    if whole == heads:
        return geometric
    return geometric + slopes(2 * whole)[0::2][: heads - whole]
