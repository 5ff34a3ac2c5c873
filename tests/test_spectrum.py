"""Spectrum: published wavelengths, counts of slow pairs, and what is refused."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest

from longreach.errors import InputError
from longreach.spectrum import Spectrum

LENGTHS = [16, 24, 64, 128, 256, 512, 1024, 2048, 4096, 8192]

LONGER_THAN = {
    16: [7, 6, 5, 5, 4, 4, 3, 2, 2, 1],
    32: [14, 13, 11, 10, 9, 8, 7, 5, 4, 3],
    64: [28, 27, 23, 21, 19, 16, 14, 11, 9, 7],
    128: [57, 54, 47, 43, 38, 33, 28, 23, 18, 14],
}
"""By head_dim: how many pairs of base 10,000 do not finish one turn in each of LENGTHS."""


@pytest.mark.parametrize(
    ("head_dim", "base", "slowest"),
    [(64, 1e4, 47117.2428), (128, 1e4, 54410.1431), (128, 5e5, 2559195.517)],
)
def test_the_slowest_pair_has_the_known_wavelength(head_dim, base, slowest):
    wavelengths = Spectrum.rope(head_dim, base).wavelengths
    assert wavelengths[0] == pytest.approx(2 * pi, rel=1e-12)
    assert wavelengths[-1] == pytest.approx(slowest, rel=1e-9)


@pytest.mark.parametrize("head_dim", LONGER_THAN)
def test_as_many_pairs_as_known_do_not_finish_a_turn(head_dim):
    spectrum = Spectrum.rope(head_dim)
    assert [int((spectrum.wavelengths > n).sum()) for n in LENGTHS] == LONGER_THAN[head_dim]
    assert [int((spectrum.turns(n) < 1).sum()) for n in LENGTHS] == LONGER_THAN[head_dim]


@pytest.mark.parametrize("base", [2.0, 1e4, 5e5])
@pytest.mark.parametrize("head_dim", [2, 4, 6, 48, 128])
def test_neighbouring_pairs_differ_by_one_constant_ratio(head_dim, base):
    """Another form: start at 1 radian, and divide by base ** (2 / head_dim) each time."""
    expected = [1.0]
    while len(expected) < head_dim // 2:
        expected.append(expected[-1] / base ** (2 / head_dim))
    found = Spectrum.rope(head_dim, base)
    np.testing.assert_allclose(found.inverse_frequencies, expected, rtol=1e-12)
    assert found.inverse_frequencies.dtype == np.float64
    assert found.amplitude == 1.0


def test_turns_are_radians_over_a_full_circle():
    spectrum = Spectrum(np.array([2 * pi, pi, 0.001]))
    np.testing.assert_allclose(spectrum.turns(10), [10, 5, 0.01 / (2 * pi)], rtol=1e-12)


@pytest.mark.parametrize("head_dim", [-2, 0, 1, 3, 65])
def test_dimensions_that_form_no_pairs_are_refused_by_number(head_dim):
    with pytest.raises(InputError, match=f"even and at least 2 .* got {head_dim}$"):
        Spectrum.rope(head_dim)


@pytest.mark.parametrize("base", [-1e4, 0.0, 0.5, 1.0, float("inf"), float("nan")])
def test_a_base_that_gives_no_spectrum_is_refused_by_number(base):
    with pytest.raises(InputError, match=f"base must be a finite number above 1, got {base}$"):
        Spectrum.rope(64, base)
