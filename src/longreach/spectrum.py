"""RoPE as numbers: how fast each pair of dimensions turns. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

from .errors import InputError


@dataclass(frozen=True, eq=False)
class Spectrum:
    """How fast each pair of dimensions turns with position.

    inverse_frequencies: radians per token, one per pair, float64, fastest pair first.
    amplitude: multiplies cos and sin; attention logits by its square.

    Su et al. 2021, arXiv:2104.09864.
    """

    inverse_frequencies: NDArray[np.float64]
    amplitude: float = 1.0

    @classmethod
    def rope(cls, head_dim: int, base: float = 10_000.0) -> Spectrum:
        """The spectrum of plain RoPE: base ** (-2i / head_dim) for pair i.

        Raises InputError for an odd or non-positive head_dim, or a base that is not above 1.

        >>> round(float(Spectrum.rope(64).wavelengths[-1]), 4)
        47117.2428
        """
        if head_dim < 2 or head_dim % 2:
            raise InputError(f"head_dim must be even and at least 2 to form pairs, got {head_dim}")
        if not 1 < base < float("inf"):
            raise InputError(f"base must be a finite number above 1, got {base}")
        exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
        return cls(float(base) ** -exponents)

    @property
    def wavelengths(self) -> NDArray[np.float64]:
        """Tokens per full turn, one per pair."""
        return 2 * pi / self.inverse_frequencies

    def turns(self, length: int) -> NDArray[np.float64]:
        """Full turns over `length` tokens, one per pair."""
        return length / self.wavelengths
