"""ALiBi's and MPT's slopes, T5's buckets: published numbers, laws, parity, what is refused.

tests/test_schemes.py asks the same of the schemes that use them.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch

from longreach.biases import alibi_slopes, mpt_slopes, t5_bucket_starts
from longreach.errors import InputError
from longreach.schemes.t5_bias import bucket

# Slopes


@pytest.mark.parametrize("heads", [*range(1, 41), 63, 64, 65, 112, 128])
def test_alibi_slopes_are_the_authors(heads):
    """Their recursion unrolled: after a power of two, odd multiples of half the step."""
    whole = 1 << (heads.bit_length() - 1)
    exponents = [Fraction(8 * (h + 1), whole) for h in range(whole)]
    exponents += [Fraction(4 * (2 * h + 1), whole) for h in range(heads - whole)]
    expected = [2.0 ** -float(e) for e in exponents]
    np.testing.assert_allclose(alibi_slopes(heads), expected, rtol=1e-13)
    assert len(set(alibi_slopes(heads))) == heads
    assert all(isinstance(slope, float) and 0 < slope < 1 for slope in alibi_slopes(heads))


def test_alibi_slopes_of_6_heads_are_not_the_papers_formula():
    assert alibi_slopes(6) == [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    naive = [0.39685, 0.15749, 0.0625, 0.024803, 0.009843, 0.003906]
    assert np.abs(np.sort(alibi_slopes(6)) - np.sort(naive)).max() > 0.1


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32, 64])
def test_a_power_of_two_gives_one_geometric_row_down_to_two_to_the_minus_eight(heads):
    found = alibi_slopes(heads)
    assert found[-1] == 2**-8
    assert found == mpt_slopes(heads)
    ratios = [b / a for a, b in pairwise(found)]
    np.testing.assert_allclose(ratios, 2 ** (-8 / heads), rtol=1e-13)


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 24, 25, 40, 112])
def test_mpt_has_alibis_slopes_in_another_order_of_heads(heads):
    np.testing.assert_allclose(sorted(mpt_slopes(heads)), sorted(alibi_slopes(heads)), rtol=1e-13)


def test_mpt_slopes_of_6_heads_by_hand():
    """Of eight, 1/2 to 1/256: every second from the second on, then from the first on."""
    assert mpt_slopes(6) == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]


@pytest.mark.parametrize(
    ("bias_max", "first", "last", "distance"),
    [(8, 0.840896415, 0.00390625, 2560), (16, 0.707106781, 1.52587890625e-05, 655_360)],
)
def test_mpt_7b_has_its_published_ends(bias_max, first, last, distance):
    found = mpt_slopes(32, bias_max)
    assert found[0] == pytest.approx(first, rel=1e-9)
    assert found[-1] == last
    assert found[-1] * distance == 10


@pytest.mark.parametrize("bias_max", [4, 8, 16])
@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 12, 16, 25, 32, 40])
def test_mpt_slopes_are_those_of_transformers(heads, bias_max):
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    theirs = build_mpt_alibi_tensor(heads, 9, alibi_bias_max=bias_max)[:, 0]
    np.testing.assert_allclose(-theirs[:, -2], mpt_slopes(heads, bias_max), rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 12, 16, 25, 32, 40])
def test_alibi_slopes_are_those_of_bloom(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 9), heads, torch.float32)[:, 0]
    np.testing.assert_allclose(theirs[:, 1], alibi_slopes(heads), rtol=1e-6)


@pytest.mark.parametrize("slopes", [alibi_slopes, mpt_slopes])
@pytest.mark.parametrize("heads", [0, -1, 2.0, True, "8", None, 10**9], ids=repr)
def test_head_counts_that_are_none_are_refused(slopes, heads):
    with pytest.raises(InputError, match="heads must be a whole number from 1 to 65,536, got"):
        slopes(heads)


# Buckets

SETTINGS = [
    (32, 128), (32, 256), (32, 2000), (32, 17), (32, 64), (64, 128), (128, 1000), (16, 128),
    (16, 64), (16, 100), (8, 64), (8, 20), (8, 5), (7, 50), (6, 24), (6, 4), (5, 3), (4, 16),
    (9, 128), (9, 4096), (19, 16), (17, 27), (48, 81),
    (4, 3), (3, 2), (3, 100), (2, 2), (2, 9), (2, 10**6),
]  # fmt: skip
"""Buckets and max_distance; among them exact powers, where a logarithm falls on a whole number."""


FALLS_SHORT = {(9, 128), (9, 4096), (19, 16)}
"""Where a float64 logarithm falls just short of a whole number; transformers' float32 does not."""


def start_in_integers(number: int, buckets: int, most: int) -> int:
    """The least n in a bucket: n ** growing * exact ** k >= most ** k * exact ** growing."""
    exact = buckets // 2
    growing, k = buckets - exact, number - exact
    if k <= 0:
        return number
    n = exact
    while n**growing * exact**k < most**k * exact**growing:
        n += 1
    return n


@pytest.mark.parametrize(("buckets", "most"), SETTINGS[:-1])
def test_buckets_start_where_integer_arithmetic_says(buckets, most):
    expected = [start_in_integers(number, buckets, most) for number in range(buckets)]
    assert t5_bucket_starts(buckets, most) == expected


def test_buckets_start_where_they_are_published_to():
    assert t5_bucket_starts() == [
        *range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113,
    ]  # fmt: skip
    # An encoder gives half its 32 buckets to each direction.
    assert t5_bucket_starts(16, 128)[-1] == 91


@pytest.mark.parametrize(("buckets", "most"), SETTINGS)
def test_starts_are_one_per_bucket_and_never_fall(buckets, most):
    found = t5_bucket_starts(buckets, most)
    assert len(found) == buckets
    assert found[: buckets // 2] == list(range(buckets // 2))
    assert all(a <= b for a, b in pairwise(found))
    assert found[-1] <= most
    assert all(isinstance(start, int) for start in found)


@pytest.mark.parametrize(("buckets", "most"), SETTINGS)
def test_bucket_is_the_logarithm_it_was_before(buckets, most):
    """The old form, in float64: T5's formula itself, which rounds at exact powers."""
    distance = torch.arange(3000)
    exact = buckets // 2
    grown = (distance.clamp(min=1).double() / exact).log() / math.log(most / exact)
    large = exact + (grown * (buckets - exact)).long()
    expected = torch.where(distance < exact, distance, large.clamp(max=buckets - 1))
    found = bucket(distance, buckets, most)
    for each in (found != expected).nonzero().flatten().tolist():
        assert (buckets, most) in FALLS_SHORT
        assert start_in_integers(int(found[each]), buckets, most) == each
        assert int(expected[each]) == int(found[each]) - 1


@pytest.mark.parametrize(("buckets", "most"), SETTINGS)
def test_buckets_are_those_of_transformers(buckets, most):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(3000)
    theirs = T5Attention._relative_position_bucket(
        -distance, bidirectional=False, num_buckets=buckets, max_distance=most
    )
    found = bucket(distance, buckets, most)
    differ = (found != theirs).nonzero().flatten().tolist()
    # The exception: their float32 logarithm falls short of a whole number at an exact power.
    assert differ == {(17, 27): [18], (48, 81): [54]}.get((buckets, most), [])
    for each in differ:
        assert start_in_integers(int(found[each]), buckets, most) == each
        assert int(theirs[each]) == int(found[each]) - 1


def test_an_encoders_buckets_are_those_of_transformers():
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(1, 1000)
    ours = bucket(distance, 16, 128)
    past = T5Attention._relative_position_bucket(-distance, num_buckets=32, max_distance=128)
    ahead = T5Attention._relative_position_bucket(distance, num_buckets=32, max_distance=128)
    assert torch.equal(ours, past)
    assert torch.equal(ours + 16, ahead)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)])
def test_bucket_keeps_the_shape_and_the_device(shape):
    distance = torch.full(shape, 40)
    found = bucket(distance)
    assert (found.shape, found.dtype, found.device) == (
        distance.shape,
        torch.int64,
        distance.device,
    )
    assert (found == 23).all()


@pytest.mark.parametrize("size", [24, 512])
def test_bucket_is_no_slower_than_the_logarithm_was(size):
    """Measured at half the time; the margin is for a busy machine."""
    distance = torch.randint(0, 4096, (size, size))

    def before() -> torch.Tensor:
        grown = (distance.clamp(min=1).double() / 16).log() / math.log(8)
        large = 16 + (grown * 16).long()
        return torch.where(distance < 16, distance, large.clamp(max=31))

    def seconds(run) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    pairs = [(seconds(before), seconds(lambda: bucket(distance))) for _ in range(15)]
    old, new = (min(times) for times in zip(*pairs, strict=True))
    assert new < 1.5 * old


@pytest.mark.parametrize(
    ("buckets", "most", "message"),
    [
        (32, 16, "max_distance must be above half the buckets, 16, got 16"),
        (32, 8, "max_distance must be above half the buckets, 16, got 8"),
        (2, 1, "max_distance must be above half the buckets, 1, got 1"),
        (1, 128, "buckets must be a whole number from 2 to 65,536, got 1"),
        (0, 128, "buckets must be a whole number from 2"),
        (32.0, 128, "buckets must be a whole number from 2"),
        (32, 128.0, "max_distance must be a whole number from 1"),
        (32, 10**13, "max_distance must be a whole number from 1"),
    ],
)
def test_buckets_that_could_not_grow_are_refused(buckets, most, message):
    with pytest.raises(InputError, match=message):
        t5_bucket_starts(buckets, most)
