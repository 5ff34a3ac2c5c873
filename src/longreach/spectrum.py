"""RoPE as numbers: how fast each pair turns, and what a longer context asks of it. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, isfinite, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError
from .views import Shown

LONGEST = 10**12
"""Tokens. No context is near; it keeps a typing error from becoming an infinite angle."""

WIDEST = 65_536
"""Dimensions per head, at most."""

LARGEST = 1e15
"""Of a base, a factor or any other option; far beyond use, and far from overflow."""

ROUNDING = 1e-9
"""A relative difference that is arithmetic's, not the spectrum's."""


def whole(name: str, value: object, *, least: int = 1, most: int = LONGEST) -> int:
    """The value, which must be a whole number in a range. Raises InputError, naming what it is."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(
            f"{name} must be a whole number from {least} to {most:,}, got {brief(value)}"
        )
    return value


def brief(value: object) -> str:
    """A value as an error quotes it: short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return f"a number of {int(value.bit_length() * 0.30103) + 1} digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Extension:
    """How far a model was trained and how far it is to reach, both in tokens.

    Raises InputError for a length that is not a positive whole number.

    >>> Extension(trained_length=2048, target_length=8192).factor
    4.0
    """

    trained_length: int
    target_length: int

    def __post_init__(self) -> None:
        whole("trained_length", self.trained_length)
        whole("target_length", self.target_length)

    @property
    def factor(self) -> float:
        """Target over trained length."""
        return self.target_length / self.trained_length


@dataclass(frozen=True, eq=False)
class Spectrum(Shown):
    """How fast each pair of dimensions turns with position.

    inverse_frequencies: radians per token, one per pair, float64, fastest pair first.
    amplitude: multiplies cos and sin; attention logits by its square.
    before: the spectrum that this one is a repair of. Whether an angle was ever met in training is
        always asked of the first in this line, so that a repaired spectrum cannot be compared with
        itself, which would make every repair look safe.

    Su et al. 2021, arXiv:2104.09864. Raises InputError for numbers that are no spectrum.
    """

    inverse_frequencies: NDArray[np.float64]
    amplitude: float = 1.0
    before: Spectrum | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        found = np.asarray(self.inverse_frequencies, dtype=np.float64)
        if found.ndim != 1 or not len(found) or not (np.isfinite(found) & (found > 0)).all():
            raise InputError("inverse frequencies must be a list of finite numbers above 0")
        if not (isfinite(self.amplitude) and self.amplitude > 0):
            raise InputError(f"amplitude must be a finite number above 0, got {self.amplitude}")
        object.__setattr__(self, "inverse_frequencies", found)

    @classmethod
    def rope(cls, head_dim: int, base: float = 10_000.0) -> Spectrum:
        """The spectrum of plain RoPE: base ** (-2i / head_dim) for pair i.

        head_dim: dimensions that are turned; with partial rotary fewer than the head has.

        Raises InputError for an odd or non-positive head_dim, or a base that is not above 1.

        >>> round(float(Spectrum.rope(64).wavelengths[-1]), 4)
        47117.2428
        """
        if head_dim < 2 or head_dim % 2:
            raise InputError(f"head_dim must be even and at least 2 to form pairs, got {head_dim}")
        if head_dim > WIDEST:
            raise InputError(f"head_dim must be at most {WIDEST:,}, got {brief(head_dim)}")
        if not 1 < base < float("inf"):
            raise InputError(f"base must be a finite number above 1, got {base}")
        if base > LARGEST:
            raise InputError(f"base must be at most {LARGEST:g}, got {base}")
        exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
        return cls(float(base) ** -exponents)

    def repaired(
        self, inverse_frequencies: NDArray[np.float64], amplitude: float | None = None
    ) -> Spectrum:
        """Another spectrum for the same weights, which remembers this one."""
        kept = self.amplitude if amplitude is None else amplitude
        return Spectrum(inverse_frequencies, kept, before=self)

    @property
    def original(self) -> Spectrum:
        """The spectrum of training: the first in the line of repairs."""
        return self if self.before is None else self.before.original

    @property
    def pairs(self) -> int:
        """How many pairs are turned."""
        return len(self.inverse_frequencies)

    @property
    def base(self) -> float | None:
        """The base whose plain RoPE this is, or None if it is no base's.

        >>> Spectrum.rope(64, 5e5).base
        500000.0
        """
        logs = np.log(self.inverse_frequencies)
        if self.pairs == 1 or abs(logs[0]) > ROUNDING or not self.geometric:
            return None
        exponent = -logs[-1] * self.pairs / (self.pairs - 1)
        return float(f"{exp(exponent):.12g}") if exponent < 700 else None  # Past any float.

    @property
    def geometric(self) -> bool:
        """Whether neighbouring pairs differ by one constant ratio, as in plain RoPE."""
        logs = np.log(self.inverse_frequencies)
        even = np.linspace(logs[0], logs[-1], self.pairs)
        return bool(np.abs(logs - even).max() <= ROUNDING * (1 + abs(logs[-1])))

    @property
    def wavelengths(self) -> NDArray[np.float64]:
        """Tokens per full turn, one per pair."""
        return 2 * pi / self.inverse_frequencies

    @property
    def speed_kept(self) -> NDArray[np.float64]:
        """Each pair's speed over what it was in training; 1 where nothing changed."""
        return self.inverse_frequencies / self.original.inverse_frequencies

    @property
    def local_resolution(self) -> float:
        """What is left of the angle between neighbouring tokens, in the fastest pair."""
        return float(self.speed_kept[0])

    def turns(self, length: int) -> NDArray[np.float64]:
        """Full turns over `length` tokens, one per pair."""
        return length / self.wavelengths

    def never_completed(self, trained_length: int) -> NDArray[np.bool_]:
        """Pairs that did not finish one turn in training: they met only a part of their angles.

        >>> int(Spectrum.rope(64).never_completed(2048).sum())
        11
        """
        return self.original.turns(trained_length) < 1

    def unseen(self, extension: Extension) -> NDArray[np.bool_]:
        """Pairs that the target length drives past the largest angle they met in training.

        A pair that finished a turn in training has met every angle. Angles are compared with those
        of the *original* spectrum over the trained length.

        >>> plain, reach = Spectrum.rope(64), Extension(trained_length=2048, target_length=8192)
        >>> int(plain.unseen(reach).sum())
        11
        >>> int(plain.repaired(plain.inverse_frequencies / 4).unseen(reach).sum())
        0
        """
        largest_met = self.original.inverse_frequencies * extension.trained_length
        largest_asked = self.inverse_frequencies * extension.target_length
        past = largest_asked > largest_met * (1 + ROUNDING)
        return self.never_completed(extension.trained_length) & past

    def effective_length(self, trained_length: int) -> int | None:
        """Tokens until the first pair that never completed a turn passes its largest trained angle.

        None if every pair has completed one: no angle is then new at any length. At most LONGEST.

        >>> Spectrum.rope(64).effective_length(2048)
        2048
        """
        slow = self.never_completed(trained_length)
        if not slow.any():
            return None
        reach = trained_length / float(self.speed_kept[slow].max()) * (1 + ROUNDING)
        return int(min(reach, LONGEST))


def decay(
    spectrum: Spectrum, distances: ArrayLike, weights: ArrayLike | None = None
) -> NDArray[np.float64]:
    """How well a vector stays aligned with itself when turned by a distance: 1 at distance 0.

    The sum over pairs of |q_i|^2 cos(distance * inverse_frequency_i), over the sum of |q_i|^2.
    It is at most 1 in size, but **not** monotone: it falls, and swings.

    distances: tokens. weights: |q_i|^2, one per pair; all alike unless given.

    Raises InputError if weights are not one non-negative number per pair, with one above 0.

    >>> decay(Spectrum.rope(64), [0, 1, 50, 100]).round(4).tolist()
    [1.0, 0.9662, 0.4898, 0.5586]
    """
    share = np.ones(spectrum.pairs) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (spectrum.pairs,) or not (share >= 0).all() or not 0 < share.sum() < np.inf:
        raise InputError(f"weights must be {spectrum.pairs} numbers, none below 0, not all 0")
    angles = np.multiply.outer(
        np.asarray(distances, dtype=np.float64), spectrum.inverse_frequencies
    )
    return np.asarray(np.cos(angles) @ (share / share.sum()))


def independent(
    spectrum: Spectrum, distances: ArrayLike, *, samples: int = 1000, seed: int = 0
) -> tuple[NDArray[np.float64], float]:
    """The same for *independent* random q and k: a trap, which shows noise and looks like decay.

    The expectation of their turned product is exactly 0 at every distance, so a curve of averages
    is noise of the standard error that is returned beside it. What decays is `decay`: a vector's
    alignment with itself.

    distances: tokens. Returns mean logits (in units of |q||k|) and their standard error.
    """
    draw = np.random.default_rng(seed).standard_normal((2, samples, spectrum.pairs, 2))
    q, k = draw[..., 0] + 1j * draw[..., 1]
    product = (q * k.conj()).mean(axis=0)
    angles = np.multiply.outer(
        np.asarray(distances, dtype=np.float64), spectrum.inverse_frequencies
    )
    mean = (np.exp(1j * angles) @ product).real / (2 * spectrum.pairs)
    return mean, (2 * spectrum.pairs * samples) ** -0.5
