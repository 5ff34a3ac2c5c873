"""Spectrum: published wavelengths and counts, what a longer context asks, decay, refusals."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest
import torch

from longreach.errors import InputError
from longreach.repairs import REPAIRS
from longreach.schemes.base import Shape
from longreach.schemes.rope import Rope
from longreach.spectrum import LONGEST, Extension, Spectrum, decay, independent

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


# What a longer context asks


@pytest.mark.parametrize("base", [1.5, 2.0, 1e4, 5e5, 1e7])
@pytest.mark.parametrize("head_dim", [4, 6, 64, 256])
def test_the_base_is_found_again(head_dim, base):
    assert Spectrum.rope(head_dim, base).base == pytest.approx(base, rel=1e-11)


def test_what_is_no_bases_rope_has_no_base():
    plain = Spectrum.rope(64)
    assert plain.base == 10_000.0
    assert plain.repaired(plain.inverse_frequencies / 4).base is None
    bent = plain.inverse_frequencies * np.linspace(1, 0.9, 32)
    assert plain.repaired(bent).base is None
    assert not plain.repaired(bent).geometric
    assert plain.repaired(plain.inverse_frequencies / 4).geometric
    assert Spectrum.rope(2).base is None  # One pair turns by a radian under any base.
    assert Spectrum(np.geomspace(1, 1e-320, 2)).base is None


@pytest.mark.parametrize("slower", [1.0, 1.5, 3.0, 4.0, 8.0])
def test_unseen_pairs_are_those_that_pass_what_they_met_before_a_full_turn(slower):
    """Oracle: a loop over pairs, each with its largest angle of training and of reading."""
    plain = Spectrum.rope(16, 100.0)
    used = plain.repaired(plain.inverse_frequencies / slower)
    found = used.unseen(Extension(40, 160))
    for pair, theta in enumerate(100.0 ** (-np.arange(8) / 8)):
        arc = 40 * theta
        expected = arc < 2 * pi and 160 * theta / slower > arc * (1 + 1e-9)
        assert bool(found[pair]) == expected
    assert int(found.sum()) == (4 if slower < 4 else 0)


@pytest.mark.parametrize("head_dim", LONGER_THAN)
def test_pairs_that_never_completed_a_turn_are_counted_of_the_original(head_dim):
    plain = Spectrum.rope(head_dim)
    slower = plain.repaired(plain.inverse_frequencies / 64)
    for spectrum in (plain, slower, slower.repaired(slower.inverse_frequencies * 8)):
        counts = [int(spectrum.never_completed(n).sum()) for n in LENGTHS]
        assert counts == LONGER_THAN[head_dim]
    slow = plain.never_completed(2048)
    assert (np.diff(slow.astype(int)) >= 0).all()  # The slow ones come last.


def test_plain_rope_reaches_as_far_as_it_was_trained_and_no_further():
    plain = Spectrum.rope(64)
    for trained in (1, 6, 7, 64, 2048, 40_000, 47_117):
        assert plain.effective_length(trained) == trained
        assert not plain.unseen(Extension(trained, trained)).any()
        assert plain.unseen(Extension(trained, trained + 1)).any()
    assert plain.effective_length(47_118) is None
    assert not plain.unseen(Extension(47_118, 10**9)).any()


def test_the_effective_length_of_an_unevenly_slowed_spectrum_is_that_of_its_least_slowed_pair():
    plain = Spectrum.rope(64)
    divisors = np.ones(32)
    divisors[21:] = np.linspace(3.0, 9.0, 11)
    used = plain.repaired(plain.inverse_frequencies / divisors)
    assert used.effective_length(2048) == 3 * 2048
    assert used.local_resolution == 1.0
    crawling = plain.repaired(plain.inverse_frequencies * 1e-300)
    assert crawling.effective_length(2048) == LONGEST


def test_speed_kept_is_measured_against_training_through_all_repairs():
    plain = Spectrum.rope(8)
    once = plain.repaired(plain.inverse_frequencies / 2, amplitude=1.5)
    twice = once.repaired(once.inverse_frequencies / 5)
    assert twice.original is once.original is plain.original is plain
    assert twice.before is once
    assert twice.amplitude == 1.5
    np.testing.assert_allclose(twice.speed_kept, 0.1, rtol=1e-15)
    assert plain.speed_kept.tolist() == [1.0] * 4
    assert "before" not in repr(twice)


@pytest.mark.parametrize(
    "found", [[], [1.0, 0.0], [1.0, -1.0], [float("nan")], [float("inf")], [[1.0]]]
)
def test_numbers_that_are_no_spectrum_are_refused(found):
    with pytest.raises(InputError, match="a list of finite numbers above 0"):
        Spectrum(np.array(found))


@pytest.mark.parametrize("amplitude", [0.0, -1.0, float("nan"), float("inf")])
def test_an_amplitude_that_is_none_is_refused(amplitude):
    with pytest.raises(InputError, match=f"amplitude must be .* got {amplitude}"):
        Spectrum(np.ones(2), amplitude)


@pytest.mark.parametrize("length", [0, -1, 2.5, True, "64", None, 10**13, 10**400], ids=repr)
@pytest.mark.parametrize("which", ["trained_length", "target_length"])
def test_lengths_that_are_none_are_refused_by_name(which, length):
    lengths = {"trained_length": 64, "target_length": 128, which: length}
    with pytest.raises(InputError, match=f"^{which} must be a whole number from 1 to 1,000,") as e:
        Extension(**lengths)
    assert len(str(e.value)) < 150


def test_widths_and_bases_beyond_use_are_refused():
    with pytest.raises(InputError, match="head_dim must be at most 65,536, got 65538"):
        Spectrum.rope(65_538)
    with pytest.raises(InputError, match=r"base must be at most 1e\+15, got 1e\+16"):
        Spectrum.rope(64, 1e16)
    assert Spectrum.rope(65_536).pairs == 32_768


# Decay, and what only looks like it


PUBLISHED_DECAY = {
    **{0: 1, 1: 0.9662, 2: 0.8845, 10: 0.6579, 50: 0.4898, 100: 0.5586, 500: 0.2006},
    **{1000: 0.2789, 2048: -0.0397, 8192: 0.0786},
}


def test_decay_has_the_published_values():
    found = decay(Spectrum.rope(64), list(PUBLISHED_DECAY))
    np.testing.assert_allclose(found, list(PUBLISHED_DECAY.values()), atol=5.1e-5)


@pytest.mark.parametrize("base", [100.0, 1e4, 5e5])
@pytest.mark.parametrize("head_dim", [16, 64, 128])
def test_decay_is_largest_at_no_distance_and_not_monotone(head_dim, base):
    found = decay(Spectrum.rope(head_dim, base), np.arange(5000))
    assert found[0] == pytest.approx(1, rel=1e-14)
    assert np.abs(found).max() <= 1 + 1e-12
    assert (np.abs(found[1:]) < 1).all()
    rises = np.diff(found) > 0
    assert 0.1 < rises.mean() < 0.9


def test_decay_is_a_vectors_alignment_with_itself_turned():
    """Oracle: Re <q, q turned> / |q|^2 of explicit rotation matrices; weights are |q_i|^2."""
    generator = np.random.default_rng(0)
    q = generator.standard_normal((8, 2))
    spectrum = Spectrum.rope(16, 500.0)
    for distance in (0, 1, 7, 300):
        total = 0.0
        for pair in range(8):
            angle = distance * 500.0 ** (-pair / 8)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            total += q[pair] @ turn @ q[pair]
        found = decay(spectrum, [distance], weights=(q**2).sum(1))
        assert found[0] == pytest.approx(total / (q**2).sum(), abs=1e-12)
    one = decay(spectrum, [3], weights=[0, 0, 5, 0, 0, 0, 0, 0])
    assert one[0] == pytest.approx(np.cos(3 * 500.0 ** (-2 / 8)), abs=1e-14)


def test_decay_takes_a_shape_of_distances():
    spectrum = Spectrum.rope(8)
    found = decay(spectrum, [[0, 1], [2, 3]])
    assert found.shape == (2, 2)
    assert found[1, 0] == pytest.approx(float(decay(spectrum, 2)))


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0] * 5, [0.0] * 4, [1, 1, 1, -1], [1, 1, 1, float("nan")], [[1.0] * 4]]
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(InputError, match="weights must be 4 numbers, none below 0, not all 0"):
        decay(Spectrum.rope(8), [1], weights=weights)


def test_independent_vectors_show_noise_around_zero_and_no_decay():
    spectrum, distances = Spectrum.rope(64), np.unique(np.geomspace(1, 8192, 60).astype(int))
    deviations = []
    for seed in range(12):
        mean, error = independent(spectrum, distances, samples=400, seed=seed)
        assert (np.abs(mean) < 4.5 * error).all()
        deviations.append(mean / error)
    spread = np.array(deviations)
    assert np.abs(spread.mean(0)).max() < 4 / 12**0.5
    assert 0.7 < spread.std() < 1.3  # The error is the size of the noise, not a bound of it.
    near, far = np.abs(spread[:, :20]).mean(), np.abs(spread[:, -20:]).mean()
    assert 0.6 < near / far < 1.7
    again, _ = independent(spectrum, distances, samples=400, seed=0)
    np.testing.assert_array_equal(again, independent(spectrum, distances, samples=400, seed=0)[0])


def test_independents_standard_error_is_that_of_explicit_draws():
    """Oracle: rotate k by matrices and take dot products, |q||k| in expectation being head_dim."""
    spectrum, generator = Spectrum.rope(8, 100.0), np.random.default_rng(5)
    q, k = generator.standard_normal((2, 20_000, 4, 2))
    angle = 9 * 100.0 ** (-np.arange(4) / 4)
    turned = np.stack(
        [
            k[..., 0] * np.cos(angle) - k[..., 1] * np.sin(angle),
            k[..., 0] * np.sin(angle) + k[..., 1] * np.cos(angle),
        ],
        axis=-1,
    )
    logits = (q * turned).sum((1, 2)) / 8
    _, error = independent(spectrum, [9], samples=20_000)
    assert logits.std() / 20_000**0.5 == pytest.approx(error, rel=0.03)


# The identity that all rests on


@pytest.mark.parametrize("repair", [None, "linear", "ntk", "yarn", "llama3"])
@pytest.mark.parametrize(("head_dim", "base"), [(32, 1e4), (64, 5e5)])
def test_logits_depend_on_the_distance_alone_for_thousands_of_random_pairs(head_dim, base, repair):
    """The torch scheme against complex numbers that are never turned singly, repaired or not."""
    plain = Spectrum.rope(head_dim, base)
    spectrum = plain if repair is None else REPAIRS[repair](plain, Extension(1024, 4096))
    count, generator = 5000, np.random.default_rng(7)
    m, n = generator.integers(0, 100_000, (2, count))
    q, k = generator.standard_normal((2, count, head_dim)).astype(np.float32)
    rope = Rope(Shape(width=head_dim, heads=1, head_dim=head_dim, trained_length=64))
    rope.spectrum = spectrum

    def turned(x, positions):
        found = rope.rotate(torch.from_numpy(x)[None, None], torch.from_numpy(positions))
        return found[0, 0].double().numpy()

    logits = (turned(q, m) * turned(k, n)).sum(1)
    shift = generator.integers(0, 100_000, count)
    shifted = (turned(q, m + shift) * turned(k, n + shift)).sum(1)
    pairs = (q[:, 0::2] + 1j * q[:, 1::2]) * (k[:, 0::2] - 1j * k[:, 1::2])
    angles = (m - n)[:, None] * spectrum.inverse_frequencies
    expected = (pairs * np.exp(1j * angles)).real.sum(1) * spectrum.amplitude**2
    np.testing.assert_allclose(logits, expected, atol=3e-4)
    np.testing.assert_allclose(shifted, logits, atol=3e-4)
    assert np.abs(logits - np.roll(expected, 1)).max() > 1
