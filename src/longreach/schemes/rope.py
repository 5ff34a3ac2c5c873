"""Rotary positions: queries and keys are turned, so that logits depend on distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import torch
from annotated_types import Gt
from jaxtyping import Float, Int
from torch import Tensor

from ..spectrum import Spectrum
from .base import Scheme, Shape, angles


class Rope(Scheme):
    """Turns each pair of dimensions by an angle proportional to the position.

    The logit of a query at m and a key at n then depends on m - n alone.
    Su et al. 2021, arXiv:2104.09864. A pair is two neighbouring dimensions, as in the paper;
    transformers pairs dimension i with i + head_dim / 2, which is the same up to a permutation.

    Formula:
        angle = p * base ** (-2 * i / d)

    base: a turn of the slowest pair takes a little under 2 * pi * base tokens.
    """

    bidirectional = True

    def __init__(self, shape: Shape, *, base: Annotated[float, Gt(1)] = 10_000.0) -> None:
        super().__init__(shape)
        self.spectrum = Spectrum.rope(shape.head_dim, base)

    @property
    def stamp(self) -> object:
        """The spectrum in use; it may be exchanged for a repaired one."""
        return self.spectrum

    def rotate(
        self, x: Float[Tensor, "batch heads time head_dim"], positions: Int[Tensor, " time"]
    ) -> Float[Tensor, "batch heads time head_dim"]:
        """Turns by complex multiplication, one pass over memory."""
        return self.rotation(positions)(x)

    def rotation(self, positions: Int[Tensor, " time"]) -> Callable[[Tensor], Tensor]:
        """Angles take longer than turning by them, where few tokens are read: made once a pass."""
        turned = angles(positions, torch.from_numpy(self.spectrum.inverse_frequencies))
        turn = torch.polar(torch.full_like(turned, self.spectrum.amplitude), turned)

        def rotate(x: Tensor) -> Tensor:
            pairs = torch.view_as_complex(torch.unflatten(x.float(), -1, (-1, 2)))
            return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)

        return rotate
