"""Sinusoidal absolute positions, added to the embeddings."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Gt
from jaxtyping import Float, Int
from torch import Tensor

from ..spectrum import Spectrum
from .base import Scheme, Shape, angles


class Sinusoidal(Scheme):
    """Adds sin and cos of position * base ** (-2i / width) to dimensions 2i and 2i + 1.

    Vaswani et al. 2017, arXiv:1706.03762. Sines and cosines are interleaved as in the paper;
    several codebases lay all sines first, which is a permutation of dimensions.

    Formula:
        row[2 * i] = sin(p * base ** (-2 * i / width))
        row[2 * i + 1] = cos(p * base ** (-2 * i / width))

    base: 10,000 in the paper.
    """

    bidirectional = True

    def __init__(self, shape: Shape, *, base: Annotated[float, Gt(1)] = 10_000.0) -> None:
        super().__init__(shape)
        self.spectrum = Spectrum.rope(shape.width, base)

    def embed(
        self, x: Float[Tensor, "batch time width"], positions: Int[Tensor, " time"]
    ) -> Float[Tensor, "batch time width"]:
        """Adds the same row to every sequence of the batch."""
        turned = angles(positions, torch.from_numpy(self.spectrum.inverse_frequencies))
        rows = torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)
        return x + rows.to(x.dtype)
