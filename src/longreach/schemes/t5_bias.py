"""T5's relative bias: a learned number per head and bucket of distances."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import torch
from annotated_types import Ge
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..biases import t5_bucket_starts
from .base import Scheme, Shape


class T5Bias(Scheme):
    """Adds a learned bias per head and bucket of the distance to each logit.

    Raffel et al. 2020, arXiv:1910.10683; the causal form. One table serves all layers, as in T5. T5
    itself leaves out the division of logits by sqrt(head_dim); here they are divided, as for every
    other scheme, so that schemes differ in position alone.

    The first half of the buckets holds one distance each, the rest grow geometrically up to
    max_distance, and the last takes all beyond. **Trained at fewer than about max_distance tokens,
    the upper buckets are never trained**: that, not the idea, is then what fails.

    In an encoder, as in T5, half the buckets are for keys before their query and half for those
    after it.

    Formula, for a distance D past the first half of the buckets, which is `exact`:
        bucket = exact + floor(ln(D / exact) / ln(max_distance / exact) * (buckets - exact))

    buckets: how many. max_distance: tokens at which the last bucket begins, nearly.
    """

    bidirectional = True

    def __init__(
        self,
        shape: Shape,
        *,
        buckets: Annotated[int, Ge(2)] = 32,
        max_distance: Annotated[int, Ge(2)] = 128,
    ) -> None:
        super().__init__(shape)
        self.each_side = buckets if shape.causal else buckets // 2
        t5_bucket_starts(self.each_side, max_distance)  # Raises where there are none.
        self.max_distance = max_distance
        self.table = nn.Embedding(buckets, shape.heads)
        nn.init.normal_(self.table.weight, std=shape.width**-0.5)

    def bias(
        self, queries: Int[Tensor, " query"], keys: Int[Tensor, " key"]
    ) -> Float[Tensor, "heads query key"]:
        """Looks each distance up.

        In a decoder, keys after their query (masked anyway) count as distance 0.
        """
        distance = queries[:, None] - keys[None, :]
        if self.shape.causal:
            rows = bucket(distance.clamp(min=0), self.each_side, self.max_distance)
        else:
            after = (distance < 0) * self.each_side
            rows = bucket(distance.abs(), self.each_side, self.max_distance) + after
        return self.table.weight.float()[rows].permute(2, 0, 1)


def bucket(
    distance: Int[Tensor, "*any"], buckets: int = 32, max_distance: int = 128
) -> Int[Tensor, "*any"]:
    """The bucket of each distance >= 0.

    >>> bucket(torch.tensor([0, 15, 16, 18, 19, 112, 113, 9_999])).tolist()
    [0, 15, 16, 16, 17, 30, 31, 31]
    """
    starts = torch.tensor(_starts(buckets, max_distance), device=distance.device)
    return torch.bucketize(distance, starts, right=True) - 1


@lru_cache(maxsize=64)
def _starts(buckets: int, max_distance: int) -> tuple[int, ...]:
    """Remembered: on a short sequence, finding them would take longer than looking them up."""
    return tuple(t5_bucket_starts(buckets, max_distance))
