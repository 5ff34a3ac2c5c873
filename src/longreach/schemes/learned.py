"""Learned absolute positions: one trained row per position, and none beyond the table."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import InputError
from .base import Scheme, Shape


class Learned(Scheme):
    """Adds a trained row per position to the embeddings; the table has exactly trained_length rows.

    Vaswani et al. 2017, arXiv:1706.03762 (section 3.5); GPT-2. A position past the table raises
    InputError: a wrapped or clamped row would be a silent wrong answer.

    Formula:
        x[p] = token[p] + table[p]
    """

    bidirectional = True

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table = nn.Embedding(shape.trained_length, shape.width)

    @property
    def limit(self) -> int:
        """As many positions as the table has rows."""
        return self.table.num_embeddings

    def embed(
        self, x: Float[Tensor, "batch time width"], positions: Int[Tensor, " time"]
    ) -> Float[Tensor, "batch time width"]:
        """Adds the row of each position. Raises InputError past the last row."""
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < self.limit:
            raise InputError(
                f"learned positions have rows 0 to {self.limit - 1}; "
                f"asked for {int(positions.min())} to {int(positions.max())}"
            )
        rows: Tensor = self.table(positions)
        return x + rows.to(x.dtype)
