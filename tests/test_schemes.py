"""Position schemes: laws for every listed one, oracles in another form, parity with others' code.

A scheme that is added to SCHEMES comes under the laws by being listed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from longreach.biases import alibi_slopes
from longreach.errors import InputError
from longreach.model.cache import Cache
from longreach.model.decoder import Decoder, DecoderShape
from longreach.schemes import SCHEMES
from longreach.schemes.alibi import Alibi
from longreach.schemes.base import Scheme, Shape
from longreach.schemes.rope import Rope
from longreach.schemes.sinusoidal import Sinusoidal
from longreach.schemes.t5_bias import T5Bias, bucket
from longreach.spectrum import Spectrum

TRAINED = 16
HEAD_DIM = 8
VOCABULARY = 11


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


ABSOLUTE = {"learned", "sinusoidal"}
"""Schemes that change with where a text starts; all others must not."""

LAW = pytest.mark.parametrize("name", SCHEMES)
HEADS = pytest.mark.parametrize("heads", [3, 6, 12])


def decoder(name: str, heads: int = 3, *, trained: int = TRAINED, layers: int = 2, seed: int = 0):
    torch.manual_seed(seed)
    shape = DecoderShape(
        vocabulary=VOCABULARY,
        width=HEAD_DIM * heads,
        heads=heads,
        layers=layers,
        feed_forward=16,
    )
    model = Decoder(shape, SCHEMES[name], trained).eval()
    with torch.no_grad():
        for block in model.blocks:
            block.attention.project.weight *= 3  # Sharper attention: a wrong logit then shows.
    return model


def scheme_of(name: str, heads: int = 3, trained: int = TRAINED, **options) -> Scheme:
    torch.manual_seed(0)
    shape = Shape(width=heads * HEAD_DIM, heads=heads, head_dim=HEAD_DIM, trained_length=trained)
    return SCHEMES[name](shape, **options)


def some_tokens(batch: int = 2, time: int = 12, seed: int = 0):
    return torch.randint(
        0, VOCABULARY, (batch, time), generator=torch.Generator().manual_seed(seed)
    )


@torch.inference_mode()
def read(model: Decoder, tokens, positions=None, **keywords):
    return model(tokens, None if positions is None else torch.as_tensor(positions), **keywords)


def in_pieces(model: Decoder, tokens, sizes, positions=None, room: int = 0):
    """Logits of all tokens, read piece by piece with a cache."""
    cache = Cache(model.shape.layers, tokens.shape[1] + room)
    where = [None] * len(sizes) if positions is None else torch.as_tensor(positions).split(sizes)
    pieces = zip(tokens.split(sizes, dim=1), where, strict=True)
    return torch.cat([read(model, piece, at, cache=cache) for piece, at in pieces], dim=1)


def same(found, expected, tolerance: float = 1e-5):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def differ(found, expected, by: float = 1e-2):
    assert (found - expected).abs().max() > by


# Laws over every listed scheme


@LAW
@HEADS
def test_reading_in_pieces_with_a_cache_gives_the_logits_of_reading_at_once(name, heads):
    model, tokens = decoder(name, heads), some_tokens()
    for sizes in ([1] * 12, [5, 1, 1, 5], [3, 4, 5], [11, 1], [12]):
        same(in_pieces(model, tokens, sizes), read(model, tokens))
    same(in_pieces(model, tokens, [5, 1, 1, 5], room=7), read(model, tokens))


@LAW
@HEADS
def test_generation_with_and_without_a_cache_writes_the_same_tokens(name, heads):
    model, prompt = decoder(name, heads), some_tokens(batch=5, time=6)
    written = model.generate(prompt, TRAINED - 6)
    assert written.shape == (5, TRAINED - 6)
    assert torch.equal(written, model.generate(prompt, TRAINED - 6, cached=False))


@LAW
def test_the_rotation_of_a_pass_turns_as_rotate_does(name):
    """At any positions, in any order, in any dtype."""
    scheme, positions = scheme_of(name), torch.tensor([7, 0, 1_000, 3])
    x = torch.randn(2, 3, 4, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    expected = scheme.rotate(x, positions)
    rotation = scheme.rotation(positions)
    assert torch.equal(rotation(x), expected)
    assert torch.equal(rotation(x.bfloat16()), scheme.rotate(x.bfloat16(), positions))


@LAW
def test_generation_appends_the_likeliest_token_each_time(name):
    model, text = decoder(name), some_tokens(batch=1, time=4)
    written = model.generate(text, 5)
    for token in written[0]:
        assert int(read(model, text)[0, -1].argmax()) == int(token)
        text = torch.cat([text, token.reshape(1, 1)], dim=1)


@LAW
@HEADS
def test_logits_of_a_prefix_do_not_depend_on_what_follows(name, heads):
    model, tokens = decoder(name, heads), some_tokens()
    whole = read(model, tokens)
    for length in (1, 2, 7, 11):
        same(read(model, tokens[:, :length]), whole[:, :length])


@LAW
@HEADS
def test_changing_a_token_changes_nothing_earlier_and_everything_later(name, heads):
    model, tokens = decoder(name, heads), some_tokens()
    for changed in (0, 1, 6, 11):
        other = tokens.clone()
        other[:, changed] = (other[:, changed] + 1) % VOCABULARY
        before, after = read(model, tokens), read(model, other)
        assert torch.equal(before[:, :changed], after[:, :changed])
        moved = (before - after).abs().amax((0, 2))[changed:]
        assert (moved > 1e-6).all()


@LAW
@HEADS
def test_logits_of_the_last_few_are_those_of_the_full_pass(name, heads):
    model, tokens = decoder(name, heads), some_tokens()
    for last in (1, 2, 5, 11, 12):
        found = read(model, tokens, last=last)
        assert found.shape == (2, last, VOCABULARY)
        same(found, read(model, tokens)[:, -last:])


@LAW
@pytest.mark.parametrize("last", [1, 2, 3])
def test_logits_of_the_last_few_are_right_after_a_cached_prefix(name, last):
    model, tokens = decoder(name), some_tokens()
    cache = Cache(model.shape.layers, 12)
    read(model, tokens[:, :7], cache=cache, last=1)
    found = read(model, tokens[:, 7:10], cache=cache, last=last)
    same(found, read(model, tokens)[:, 10 - last : 10])
    same(read(model, tokens[:, 10:], cache=cache), read(model, tokens)[:, 10:])


@LAW
@HEADS
def test_only_absolute_schemes_see_where_a_text_starts(name, heads):
    tokens = some_tokens()
    if name in ABSOLUTE:
        model = decoder(name, heads, trained=64)
        differ(read(model, tokens, range(3, 15)), read(model, tokens))
    else:
        model = decoder(name, heads)
        for start in (1, 1000, 90_000):
            same(read(model, tokens, range(start, start + 12)), read(model, tokens), 1e-4)


@LAW
def test_positions_need_not_be_consecutive(name):
    model, tokens = decoder(name), some_tokens(time=8)
    gaps = torch.tensor([0, 1, 4, 5, 9, 12, 13, 15])
    found = read(model, tokens, gaps)
    same(in_pieces(model, tokens, [3, 1, 4], gaps), found)
    same(read(model, tokens, gaps, last=3), found[:, -3:])
    if name == "nope":
        same(found, read(model, tokens))
    else:
        differ(found, read(model, tokens))


@LAW
def test_reading_on_from_a_cache_continues_after_its_last_position(name):
    model, tokens = decoder(name), some_tokens(time=5)
    cache = Cache(model.shape.layers, 5)
    read(model, tokens[:, :3], [2, 4, 7], cache=cache)
    same(
        read(model, tokens[:, 3:], cache=cache),
        read(model, tokens, [2, 4, 7, 8, 9])[:, 3:],
    )


@LAW
def test_one_layer_is_blind_to_the_order_of_earlier_tokens_only_under_nope(name):
    model, tokens = decoder(name, layers=1), some_tokens(batch=1)
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], dim=1)
    found, expected = read(model, turned, last=1), read(model, tokens, last=1)
    if name == "nope":
        same(found, expected)
    else:
        differ(found, expected)


@LAW
def test_bfloat16_activations_do_not_blur_positions_near_1000(name):
    scheme, positions = scheme_of(name, trained=1024), torch.arange(1000, 1016)
    heads = torch.randn(1, 3, 16, HEAD_DIM).bfloat16()
    tokens = torch.randn(1, 16, 3 * HEAD_DIM).bfloat16()
    for hook, x in ((scheme.rotate, heads), (scheme.embed, tokens)):
        found, wide = hook(x, positions), hook(x.float(), positions)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.float(), wide, rtol=1e-2, atol=1e-2)
    wide = scheme.bias(positions, positions)
    narrow = scheme.bfloat16().bias(positions, positions)
    if wide is not None:
        assert wide.dtype == narrow.dtype == torch.float32
        torch.testing.assert_close(narrow, wide, rtol=1e-2, atol=1e-3)


@LAW
def test_a_bfloat16_model_agrees_with_float32_at_positions_near_1000(name):
    model, tokens = decoder(name, trained=1024).bfloat16(), some_tokens(time=16)
    positions = range(1000, 1016)
    narrow = read(model, tokens, positions)
    assert narrow.dtype == torch.bfloat16
    wide = read(model.float(), tokens, positions)
    torch.testing.assert_close(narrow.float(), wide, rtol=0.05, atol=0.1)


@LAW
def test_the_limit_is_honest(name):
    model = decoder(name)
    assert model.limit == scheme_of(name).limit
    reach = 4 * TRAINED if model.limit is None else model.limit
    found = read(model, some_tokens(time=reach))
    assert found.isfinite().all()
    if model.limit is None:
        return
    for positions in ([reach], [0, reach, 1], [-1], [2, 10**6]):
        with pytest.raises(InputError, match=f"0 to {reach - 1}; asked for"):
            read(model, some_tokens(time=len(positions)), positions)
    with pytest.raises(InputError):
        read(model, some_tokens(time=reach + 1), last=1)
    with pytest.raises(InputError):
        model.generate(some_tokens(time=reach - 1), 3)
    assert model.generate(some_tokens(time=reach - 1), 2).shape == (2, 2)


@LAW
@HEADS
def test_gradients_reach_every_parameter_of_the_scheme(name, heads):
    model, tokens = decoder(name, heads), some_tokens(time=TRAINED)
    logits = model(tokens)
    torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    ).backward()
    for label, parameter in model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all(), label
        assert parameter.grad.count_nonzero() > 0, label


@LAW
@HEADS
def test_weights_written_and_read_back_give_the_same_logits(name, heads, tmp_path):
    model, tokens = decoder(name, heads), some_tokens()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = decoder(name, heads, seed=1)
    differ(read(other, tokens), read(model, tokens))
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"), strict=True)
    assert torch.equal(read(other, tokens), read(model, tokens))


@LAW
def test_under_one_seed_all_schemes_start_from_the_same_other_weights(name):
    plain = decoder("nope").state_dict()
    found = decoder(name).state_dict()
    assert {label for label in found if not label.startswith("scheme.")} == set(plain)
    for label, value in plain.items():
        assert torch.equal(found[label], value), label


@LAW
def test_hooks_keep_shape_and_dtype_and_leave_their_input_alone(name):
    scheme, positions = scheme_of(name), torch.tensor([3, 5, 9])
    heads, tokens = torch.randn(2, 7, 3, HEAD_DIM), torch.randn(2, 3, 3 * HEAD_DIM)
    for hook, x in ((scheme.rotate, heads), (scheme.embed, tokens)):
        before = x.clone()
        found = hook(x, positions)
        assert (found.shape, found.dtype) == (x.shape, x.dtype)
        assert torch.equal(x, before)
    bias = scheme.bias(positions[1:], positions)
    assert bias is None or bias.shape == (3, 2, 3)


def test_a_misspelt_scheme_is_refused_with_the_right_name():
    with pytest.raises(InputError, match="unknown scheme 'alibii'; did you mean 'alibi'"):
        SCHEMES["alibii"]


# RoPE: oracles


FAR = [(0, 0), (5, 3), (3, 5), (300, 257), (90_123, 89_001), (1_000_000, 12)]


def rope(head_dim: int, base: float = 10_000.0) -> Rope:
    return Rope(Shape(width=head_dim, heads=1, head_dim=head_dim, trained_length=64), base=base)


def vectors(count: int, head_dim: int, seed: int = 0):
    """Float32 values, so that oracle and code see the same numbers."""
    return np.random.default_rng(seed).standard_normal((count, head_dim)).astype(np.float32)


def rotated(scheme: Rope, x, positions):
    found = scheme.rotate(torch.from_numpy(x)[None, None], torch.as_tensor(positions))
    return found[0, 0].numpy().astype(np.float64)


def theta_of(head_dim: int, base: float):
    return np.exp(-np.log(base) * np.arange(head_dim // 2) / (head_dim // 2))


@pytest.mark.parametrize("base", [100.0, 10_000.0, 500_000.0])
@pytest.mark.parametrize("head_dim", [2, 6, 16, 64, 128])
def test_rope_logits_depend_on_the_distance_as_the_paper_says(head_dim, base):
    """Oracle: Re[q k* exp(i (m - n) theta)], in complex128, never forming a rotation."""
    scheme, (q, k) = rope(head_dim, base), vectors(2, head_dim)
    pairs = (q[0::2] + 1j * q[1::2]) * (k[0::2] - 1j * k[1::2]).astype(np.complex128)
    for query, key in FAR:
        expected = (pairs * np.exp(1j * (query - key) * theta_of(head_dim, base))).real.sum()
        found = rotated(scheme, q[None], [query])[0] @ rotated(scheme, k[None], [key])[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5 * head_dim**0.5)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_only_the_relative_angle_counts_for_thousands_of_random_pairs(base):
    count, head_dim = 4000, 32
    m, n = np.random.default_rng(1).integers(0, 100_000, (2, count))
    q, k = vectors(count, head_dim, seed=2), vectors(count, head_dim, seed=3)
    scheme = rope(head_dim, base)
    both = (rotated(scheme, q, m) * rotated(scheme, k, n)).sum(1)
    first = (rotated(scheme, q, m - n) * k).sum(1)
    second = (q * rotated(scheme, k, n - m)).sum(1)
    np.testing.assert_allclose(both, first, atol=2e-4)
    np.testing.assert_allclose(both, second, atol=2e-4)
    lengths = np.linalg.norm(rotated(scheme, q, m), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(q, axis=1), rtol=1e-5)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rope_turns_anticlockwise_each_pair_of_neighbouring_dimensions(base):
    head_dim, positions = 10, np.array([0, 1, 2, 77, 4097, 99_999])
    x = vectors(len(positions), head_dim)
    found = rotated(rope(head_dim, base), x, positions)
    for row, position in enumerate(positions):
        for pair, theta in enumerate(theta_of(head_dim, base)):
            c, s = np.cos(position * theta), np.sin(position * theta)
            expected = np.array([[c, -s], [s, c]]) @ x[row, 2 * pair : 2 * pair + 2]
            np.testing.assert_allclose(found[row, 2 * pair : 2 * pair + 2], expected, atol=3e-6)


def test_amplitude_multiplies_logits_by_its_square():
    scheme, (q, k) = rope(16), vectors(2, 16)
    plain = rotated(scheme, q[None], [9])[0] @ rotated(scheme, k[None], [4])[0]
    scheme.spectrum = Spectrum(theta_of(16, 10_000.0), amplitude=1.5)
    louder = rotated(scheme, q[None], [9])[0] @ rotated(scheme, k[None], [4])[0]
    assert louder == pytest.approx(2.25 * plain, rel=1e-5)


@pytest.mark.parametrize(
    ("position", "in_bfloat16"),
    [(256, 256), (257, 256), (4097, 4096), (15_962, 15_936), (15_968, 16_000), (32_769, 32_768)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_positions_that_bfloat16_would_round_keep_their_own_angle(position, in_bfloat16, dtype):
    """The trap of huggingface/transformers issues 25681 and 29285; the fastest pair turns 1 rad."""
    assert torch.tensor(position).bfloat16().long() == in_bfloat16
    x = torch.tensor([1.0, 0.0]).to(dtype).expand(1, 1, 1, 2)
    found = rope(2).rotate(x, torch.tensor([position])).float().flatten().numpy()
    tolerance = 1e-6 if dtype == torch.float32 else 4e-3
    np.testing.assert_allclose(found, [np.cos(position), np.sin(position)], atol=tolerance)
    if position == 15_962:
        assert found[0] == pytest.approx(-0.908015901, abs=tolerance)
        assert abs(found[0] - -0.267950071) > 0.6


@pytest.mark.parametrize("name", ["rope", "sinusoidal"])
def test_the_base_of_one_does_not_leak_into_the_next(name):
    """Seen elsewhere: a cache of angles that forgot to look at the base."""
    x = torch.randn(1, 3, 5, HEAD_DIM) if name == "rope" else torch.randn(1, 5, 3 * HEAD_DIM)
    found = []
    for base in (1e4, 5e5, 1e4):
        scheme = scheme_of(name, base=base)
        found.append((scheme.rotate if name == "rope" else scheme.embed)(x, torch.arange(5)))
    assert torch.equal(found[0], found[2])
    differ(found[0], found[1])


# Sinusoidal: oracle


@pytest.mark.parametrize("base", [500.0, 10_000.0])
@pytest.mark.parametrize("width", [2, 6, 64])
def test_sinusoidal_rows_are_points_on_turning_circles(width, base):
    """Oracle: exp(i p theta); sines (imaginary) at even places, cosines (real) at odd ones."""
    positions = np.array([0, 1, 2, 7, 100, 513, 90_000])
    scheme = Sinusoidal(Shape(width=width, heads=1, head_dim=width, trained_length=8), base=base)
    found = scheme.embed(torch.zeros(1, len(positions), width), torch.from_numpy(positions))[0]
    circle = np.exp(1j * positions[:, None] * theta_of(width, base))
    np.testing.assert_allclose(found[:, 0::2], circle.imag, atol=1e-6)
    np.testing.assert_allclose(found[:, 1::2], circle.real, atol=1e-6)


def test_the_first_sinusoidal_row_is_zeros_and_ones_and_is_added():
    scheme, x = scheme_of("sinusoidal"), torch.randn(2, 1, 3 * HEAD_DIM)
    added = scheme.embed(x, torch.tensor([0])) - x
    expected = torch.tensor([0.0, 1.0]).repeat(12).expand(2, 1, -1)
    torch.testing.assert_close(added, expected, rtol=0, atol=1e-6)


# Learned


def test_learned_adds_the_row_of_each_position():
    scheme, x = scheme_of("learned"), torch.randn(2, 4, 3 * HEAD_DIM)
    rows = scheme.state_dict()["table.weight"]
    assert rows.shape == (TRAINED, 3 * HEAD_DIM)
    found = scheme.embed(x, torch.tensor([15, 0, 3, 3]))
    assert torch.equal(found, x + torch.stack([rows[15], rows[0], rows[3], rows[3]]))


# ALiBi: oracles

PUBLISHED_SLOPES = {
    3: [0.0625, 0.00390625, 0.25],
    4: [0.25, 0.0625, 0.015625, 0.00390625],
    6: [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125],
    8: [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625],
    12: [
        *[0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625],
        *[0.707107, 0.353553, 0.176777, 0.088388],
    ],
}


def alibi(heads: int) -> Alibi:
    return Alibi(Shape(width=2 * heads, heads=heads, head_dim=2, trained_length=8))


@pytest.mark.parametrize("heads", PUBLISHED_SLOPES)
def test_slopes_are_the_published_ones(heads):
    np.testing.assert_allclose(alibi_slopes(heads), PUBLISHED_SLOPES[heads], atol=5e-7)


@pytest.mark.parametrize("heads", range(1, 41))
def test_slopes_follow_the_authors_code_for_every_head_count(heads):
    """The authors' recursion, unrolled: after a power of two, odd multiples of half the step."""
    whole = 1 << (heads.bit_length() - 1)
    exponents = [
        Fraction(8 * (h + 1), whole)
        if h < whole
        else Fraction(8 * (2 * (h - whole) + 1), 2 * whole)
        for h in range(heads)
    ]
    np.testing.assert_allclose(
        -np.log2(alibi_slopes(heads)), [float(e) for e in exponents], rtol=1e-12
    )
    step = alibi(heads).bfloat16().bias(torch.tensor([1]), torch.tensor([0]))[:, 0, 0]
    assert step.dtype == torch.float32
    np.testing.assert_allclose(-step, alibi_slopes(heads), rtol=1e-7)


def test_slopes_of_mpt_7b_are_its_published_ends():
    """32 heads and alibi_bias_max 8, as in MPT-7B's configuration."""
    assert alibi_slopes(32)[0] == pytest.approx(0.840896415, rel=1e-9)
    assert alibi_slopes(32)[-1] == 0.00390625
    last = alibi(32).bias(torch.tensor([2560]), torch.tensor([0]))[-1]
    assert last.tolist() == [[-10.0]]


@pytest.mark.parametrize("heads", [3, 4, 12])
def test_alibi_takes_slope_times_distance_off(heads):
    queries, keys = [5, 90_007], [0, 4, 5, 90_000]
    bias = alibi(heads).bias(torch.tensor(queries), torch.tensor(keys))
    assert (bias.shape, bias.dtype) == ((heads, 2, 4), torch.float32)
    expected = [
        [[slope * (key - query) for key in keys] for query in queries]
        for slope in PUBLISHED_SLOPES[heads]
    ]
    np.testing.assert_allclose(bias, expected, rtol=1e-5)


# T5 buckets: oracles

STARTS = {
    **{16: 16, 17: 19, 18: 21, 19: 24, 20: 27, 21: 31, 22: 35, 23: 40, 24: 46, 25: 52},
    **{26: 59, 27: 67, 28: 77, 29: 87, 30: 99, 31: 113},
}
"""By bucket: the least distance in it, at 32 buckets and max_distance 128."""


def bucket_in_integers(distance: int, buckets: int, most: int) -> int:
    """The most k with (distance / exact) ** grown >= (most / exact) ** k, without a logarithm."""
    exact = buckets // 2
    grown = buckets - exact
    if distance < exact:
        return distance
    k = 0
    while k < grown - 1 and (distance**grown) * exact ** (k + 1) >= most ** (k + 1) * exact**grown:
        k += 1
    return exact + k


def test_buckets_start_where_they_are_published_to():
    found = bucket(torch.arange(20_000))
    assert found[:16].tolist() == list(range(16))
    for number, start in STARTS.items():
        assert int((found == number).nonzero()[0]) == start
    assert found[[15, 16, 127, 128, 19_999]].tolist() == [15, 16, 31, 31, 31]
    assert (found.diff() >= 0).all()
    assert (found[113:] == 31).all()


@pytest.mark.parametrize(
    ("buckets", "most"),
    [
        (32, 128),
        (32, 64),
        (32, 2000),
        (16, 128),
        (8, 64),
        (8, 20),
        (6, 24),
        (7, 50),
        (2, 9),
        (3, 2),
    ],
)
def test_buckets_agree_with_integer_arithmetic(buckets, most):
    expected = [bucket_in_integers(distance, buckets, most) for distance in range(2001)]
    assert bucket(torch.arange(2001), buckets, most).tolist() == expected


@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (8, 20)])
def test_t5_bias_looks_up_the_row_of_each_distance_for_each_head(buckets, most):
    scheme = scheme_of("t5_bias", buckets=buckets, max_distance=most)
    rows = scheme.state_dict()["table.weight"]
    assert rows.shape == (buckets, 3)
    queries, keys = [9, 500], [0, 3, 9, 480]
    bias = scheme.bias(torch.tensor(queries), torch.tensor(keys))
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            number = bucket_in_integers(max(query - key, 0), buckets, most)
            assert torch.equal(bias[:, i, j], rows[number])


@pytest.mark.parametrize(("buckets", "most"), [(32, 16), (32, 8), (8, 4)])
def test_buckets_that_could_not_grow_are_refused(buckets, most):
    """Their logarithm would be zero or negative, and the bucket anything."""
    shape = Shape(width=8, heads=1, head_dim=8, trained_length=8)
    with pytest.raises(InputError, match=f"above half the buckets, {buckets // 2}, got {most}"):
        T5Bias(shape, buckets=buckets, max_distance=most)


# Parity with transformers


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 12, 16, 25, 32, 40])
def test_alibi_slopes_are_those_of_bloom_and_mpt(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    ours = alibi(heads).bias(torch.arange(9), torch.arange(9))
    bloom = build_alibi_tensor(torch.ones(1, 9), heads, torch.float32)
    # Theirs counts from the first key or the last; the softmax cannot tell.
    torch.testing.assert_close(ours[:, 8:] - ours[:, 8:, :1], bloom, rtol=1e-5, atol=1e-6)
    mpt = build_mpt_alibi_tensor(heads, 9)
    torch.testing.assert_close(ours[:, 8:], mpt, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (32, 256), (16, 100), (8, 20)])
def test_buckets_are_those_of_transformers(buckets, most):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(3000)
    theirs = T5Attention._relative_position_bucket(
        -distance, bidirectional=False, num_buckets=buckets, max_distance=most
    )
    assert torch.equal(bucket(distance, buckets, most), theirs)


@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.parametrize("head_dim", [4, 64, 128])
def test_rope_is_that_of_llama_up_to_the_order_of_dimensions(head_dim, base):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    theirs = LlamaRotaryEmbedding(
        LlamaConfig(
            hidden_size=head_dim,
            num_attention_heads=1,
            head_dim=head_dim,
            rope_parameters={"rope_type": "default", "rope_theta": base},
        )
    )
    ours = rope(head_dim, base)
    inverse_frequencies = torch.from_numpy(ours.spectrum.inverse_frequencies).float()
    torch.testing.assert_close(inverse_frequencies, theirs.inv_freq, rtol=1e-6, atol=0)
    positions = torch.tensor([0, 1, 5, 130, 1023])
    q, k = torch.randn(2, 1, 2, 5, head_dim).unbind()
    turned = apply_rotary_pos_emb(q, k, *theirs(q, positions[None]))
    # Their dimensions i and i + head_dim / 2 are our 2i and 2i + 1.
    order = torch.arange(head_dim).view(2, -1).T.flatten()
    for x, expected in zip((q, k), turned, strict=True):
        found = ours.rotate(x[..., order], positions)
        torch.testing.assert_close(found, expected[..., order], rtol=1e-4, atol=2e-4)


def test_rope_is_that_of_gpt_j():
    from transformers.models.gptj.modeling_gptj import (
        apply_rotary_pos_emb,
        create_sinusoidal_positions,
    )

    x = torch.randn(1, 2, 200, 16)
    sin, cos = create_sinusoidal_positions(200, 16).chunk(2, dim=-1)
    theirs = apply_rotary_pos_emb(x.transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    ours = rope(16).rotate(x, torch.arange(200))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_sinusoidal_is_that_of_gpt_j_up_to_the_order_of_dimensions():
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions

    scheme, positions = scheme_of("sinusoidal"), torch.arange(300)
    rows = scheme.embed(torch.zeros(1, 300, 3 * HEAD_DIM), positions)[0]
    sines, cosines = create_sinusoidal_positions(300, 3 * HEAD_DIM).chunk(2, dim=-1)
    torch.testing.assert_close(rows[:, 0::2], sines, rtol=0, atol=5e-5)
    torch.testing.assert_close(rows[:, 1::2], cosines, rtol=0, atol=5e-5)
