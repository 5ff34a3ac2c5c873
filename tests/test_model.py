"""The decoder: attention, blocks and whole models against textbook forms; cache and spectrum."""

from __future__ import annotations

from math import cos, erf, sin, sqrt

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longreach.errors import InputError
from longreach.model.attention import Attention, Places
from longreach.model.cache import Cache
from longreach.model.decoder import Block, Decoder, DecoderShape
from longreach.model.rows import Packed
from longreach.schemes import SCHEMES
from longreach.schemes.base import Scheme, Shape
from longreach.spectrum import Spectrum

WIDTH, HEADS, HEAD_DIM, TIME = 24, 3, 8, 10
SLOPES = [0.0625, 0.00390625, 0.25]
"""Published ALiBi slopes for three heads."""


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


def decoder(name: str, *, norm: str = "pre", layers: int = 2, trained: int = 16) -> Decoder:
    torch.manual_seed(0)
    shape = DecoderShape(
        vocabulary=13, width=WIDTH, heads=HEADS, layers=layers, feed_forward=40, norm=norm
    )
    model = Decoder(shape, SCHEMES[name], trained).eval()
    with torch.no_grad():
        for block in model.blocks:
            block.attention.project.weight *= 3  # Sharper attention: a wrong logit then shows.
            for layer in (block.attention_norm, block.feed_forward_norm):
                layer.weight.add_(0.3 * torch.randn(WIDTH))
                layer.bias.add_(0.3 * torch.randn(WIDTH))
    return model


def some_tokens(batch: int = 2, time: int = TIME):
    return torch.randint(0, 13, (batch, time), generator=torch.Generator().manual_seed(1))


def same(found, expected, tolerance: float = 1e-5):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


def places_of(name: str, positions) -> Places:
    shape = Shape(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, trained_length=16)
    return Places.of(SCHEMES[name](shape), positions, positions)


# The textbook: one head, one query at a time, float64, nothing from the package but its weights


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / sqrt(2)))


def turned(vector, position, base=10_000.0):
    """Each pair of neighbours times a 2 x 2 rotation matrix."""
    pairs = []
    for i in range(HEAD_DIM // 2):
        angle = position / base ** (2 * i / HEAD_DIM)
        rotation = torch.tensor(
            [[cos(angle), -sin(angle)], [sin(angle), cos(angle)]], dtype=torch.float64
        )
        pairs.append(rotation @ vector[2 * i : 2 * i + 2])
    return torch.cat(pairs)


def attend(x, weights, name, positions):
    """x: [time, width] of one sequence."""
    queries, keys, values = (x @ part.T for part in weights["project.weight"].chunk(3))
    rows = []
    for i in range(len(x)):
        heads = []
        for h in range(HEADS):
            place = slice(h * HEAD_DIM, (h + 1) * HEAD_DIM)
            logits = []
            for j in range(i + 1):
                q, k = queries[i, place], keys[j, place]
                if name == "rope":
                    q, k = turned(q, positions[i]), turned(k, positions[j])
                logit = (q * k).sum() / sqrt(HEAD_DIM)
                if name == "alibi":
                    logit = logit - SLOPES[h] * (positions[i] - positions[j])
                logits.append(logit)
            logits = torch.stack(logits)
            shares = (logits - logits.max()).exp()
            shares = shares / shares.sum()
            heads.append(shares @ values[: i + 1, place])
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ weights["out.weight"].T


def part(weights, prefix):
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }


def textbook_block(x, w, norm, name, positions):
    def feed_forward(x):
        inner = gelu(x @ w["feed_forward.0.weight"].T + w["feed_forward.0.bias"])
        return inner @ w["feed_forward.2.weight"].T + w["feed_forward.2.bias"]

    def first(x):
        return layer_norm(x, w["attention_norm.weight"], w["attention_norm.bias"])

    def second(x):
        return layer_norm(x, w["feed_forward_norm.weight"], w["feed_forward_norm.bias"])

    attention = part(w, "attention.")
    if norm == "pre":
        x = x + attend(first(x), attention, name, positions)
        return x + feed_forward(second(x))
    x = first(x + attend(x, attention, name, positions))
    return second(x + feed_forward(x))


def textbook(weights, tokens, norm, name, positions):
    x = weights["tokens.weight"][tokens]
    if name == "sinusoidal":
        rows = [
            [
                (sin if i % 2 == 0 else cos)(position / 10_000.0 ** ((i - i % 2) / WIDTH))
                for i in range(WIDTH)
            ]
            for position in positions
        ]
        x = x + torch.tensor(rows, dtype=torch.float64)
    for number in range(2):
        block = part(weights, f"blocks.{number}.")
        x = torch.stack([textbook_block(row, block, norm, name, positions) for row in x])
    if norm == "pre":
        x = layer_norm(x, weights["norm.weight"], weights["norm.bias"])
    return x @ weights["head.weight"].T


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", ["nope", "rope", "alibi", "sinusoidal"])
def test_a_whole_decoder_and_its_gradients_are_those_of_a_textbook(name, norm):
    model, tokens = decoder(name, norm=norm), some_tokens(time=6)
    positions = [0, 1, 2, 5, 6, 11]
    weights = {
        label: value.detach().double().requires_grad_() for label, value in model.named_parameters()
    }
    expected = textbook(weights, tokens, norm, name, positions)
    found = model(tokens, torch.tensor(positions))
    same(found, expected, 1e-4)
    pull = torch.randn(expected.shape, dtype=torch.float64)
    expected.backward(pull)
    found.backward(pull.float())
    for label, value in model.named_parameters():
        same(value.grad, weights[label].grad, 1e-4)


def test_gelu_of_the_textbook_is_the_integral_of_the_normal_curve():
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    expected = [v * 0.5 * (1 + erf(v / sqrt(2))) for v in x.tolist()]
    same(gelu(x), torch.tensor(expected, dtype=torch.float64), 1e-12)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_puts_its_norms_where_it_says(norm):
    """Three lines each, from Vaswani et al. 2017 (post) and GPT-2 (pre)."""
    block = decoder("rope", norm=norm).blocks[0]
    places = places_of("rope", torch.arange(TIME))
    x = torch.randn(2, TIME, WIDTH)
    found = block(x, places, last=None, cache=None)
    attention, feed_forward = block.attention, block.feed_forward
    one, two = block.attention_norm, block.feed_forward_norm
    if norm == "pre":
        middle = x + attention(one(x), places)
        expected = middle + feed_forward(two(middle))
    else:
        middle = one(x + attention(x, places))
        expected = two(middle + feed_forward(middle))
    same(found, expected)
    for last in (1, 4):
        same(block(x, places, last=last, cache=None), expected[:, -last:])
    assert isinstance(block, Block)


# Attention


@pytest.mark.parametrize("heads", [1, 3, 6])
def test_attention_is_pytorchs_multi_head_attention(heads):
    ours = Attention(WIDTH, heads)
    theirs = nn.MultiheadAttention(WIDTH, heads, bias=False, batch_first=True)
    theirs.load_state_dict(
        {"in_proj_weight": ours.project.weight, "out_proj.weight": ours.out.weight}
    )
    x = torch.randn(2, TIME, WIDTH)
    future = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=future, need_weights=False)
    same(ours(x, places_of("nope", torch.arange(TIME))), expected)


@pytest.mark.parametrize("name", SCHEMES)
def test_attention_is_an_explicit_softmax_over_what_the_hooks_return(name):
    """In float64, for every listed scheme: scale, then bias, then mask, then softmax."""
    attention, places = Attention(WIDTH, HEADS), places_of(name, torch.arange(TIME))
    with torch.no_grad():
        attention.project.weight *= 3
    x, scheme = torch.randn(2, TIME, WIDTH), places.scheme
    q, k, v = (
        (x @ part.T).view(2, TIME, HEADS, HEAD_DIM).transpose(1, 2)
        for part in attention.project.weight.chunk(3)
    )
    q, k = scheme.rotate(q, places.positions), scheme.rotate(k, places.positions)
    logits = torch.einsum("bhid,bhjd->bhij", q.double(), k.double()) / sqrt(HEAD_DIM)
    bias = scheme.bias(places.positions, places.positions)
    if bias is not None:
        logits = logits + bias.double()
    for i in range(TIME):
        logits[:, :, i, i + 1 :] = -torch.inf
    shares = logits.exp() / logits.exp().sum(-1, keepdim=True)
    seen = torch.einsum("bhij,bhjd->bihd", shares, v.double()).flatten(-2)
    expected = seen @ attention.out.weight.double().T
    same(attention(x, places), expected)
    for last in (1, 2, 7):
        same(attention(x, places, last=last), expected[:, -last:])


@pytest.mark.parametrize("name", ["nope", "alibi", "t5_bias"])
@pytest.mark.parametrize(("known", "queries"), [(1, 1), (5, 1), (5, 2), (5, 4), (5, 5)])
def test_the_mask_hides_exactly_the_tokens_still_to_come(name, known, queries):
    places = places_of(name, torch.arange(known))
    mask, causal = places.mask(queries, torch.float32)
    q, k = torch.zeros(1, HEADS, queries, 2), torch.zeros(1, HEADS, known, 2)
    v = torch.eye(known).expand(1, HEADS, known, known)
    shares = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)[0]
    for row in range(queries):
        end = known - queries + row + 1
        assert (shares[:, row, :end] > 0).all()
        assert (shares[:, row, end:] == 0).all()
        if name == "nope":
            same(shares[:, row, :end], torch.full((HEADS, end), 1 / end))


@pytest.mark.parametrize("name", ["nope", "rope", "alibi"])
def test_order_in_the_sequence_decides_what_is_seen_not_the_value_of_positions(name):
    """Positions that fall: the last token still sees all the others, the first none."""
    model, tokens = decoder(name), some_tokens()
    falling = torch.arange(TIME).flip(0) + 5
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 13
    before, after = model(tokens, falling), model(changed, falling)
    assert torch.equal(before[:, :-1], after[:, :-1])
    changed = tokens.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 13
    assert ((model(changed, falling) - before).abs().amax((0, 2)) > 1e-6).all()


# The decoder's surface


def test_logits_are_float32_and_without_gradients():
    model, tokens = decoder("rope"), some_tokens()
    found = model.bfloat16().logits(tokens, last=3)
    assert (found.shape, found.dtype, found.requires_grad) == ((2, 3, 13), torch.float32, False)
    same(found, model(tokens, last=3).float())


def test_a_width_that_heads_do_not_divide_is_refused_with_both_numbers():
    shape = DecoderShape(vocabulary=5, width=10, heads=4, layers=1, feed_forward=8)
    with pytest.raises(InputError, match="width 10 is not a multiple of heads 4"):
        Decoder(shape, SCHEMES["nope"], 8)


@pytest.mark.parametrize(("prompt", "count"), [(0, 1), (3, 0), (3, -1)])
def test_nothing_to_read_or_to_write_is_refused(prompt, count):
    with pytest.raises(InputError, match="at least one token, and count >= 1"):
        decoder("nope").generate(some_tokens(time=prompt), count)


def test_the_head_is_not_tied_to_the_embeddings():
    model = decoder("nope")
    assert model.head.weight.data_ptr() != model.tokens.weight.data_ptr()
    assert not torch.equal(model.head.weight, model.tokens.weight)


# The cache


@pytest.mark.parametrize("name", SCHEMES)
@torch.inference_mode()
def test_more_than_the_cache_holds_is_refused_and_leaves_it_as_it_was(name):
    model, tokens = decoder(name), some_tokens(time=5)
    cache = Cache(2, 4)
    model(tokens[:, :3], cache=cache)
    with pytest.raises(InputError, match="the cache holds 4 tokens; 5 were asked for"):
        model(tokens[:, 3:], cache=cache)
    assert len(cache) == 3
    same(model(tokens[:, 3:4], cache=cache), model(tokens[:, :4])[:, 3:])


@torch.inference_mode()
def test_a_position_refused_by_the_scheme_leaves_the_cache_as_it_was():
    model, tokens = decoder("learned", trained=4), some_tokens(time=6)
    cache = Cache(2, 6)
    model(tokens[:, :3], cache=cache)
    with pytest.raises(InputError, match="rows 0 to 3; asked for 3 to 4"):
        model(tokens[:, 3:5], cache=cache)
    same(model(tokens[:, 3:4], cache=cache), model(tokens[:, :4])[:, 3:])


@torch.inference_mode()
def test_storage_is_allocated_once_and_old_keys_stay_put():
    model, tokens = decoder("rope"), some_tokens()
    cache = Cache(2, TIME)
    model(tokens[:, :4], cache=cache)
    layer = cache.layers[0]
    kept, seen, old = layer._keys, layer._seen, layer._seen[:, :, :4].clone()
    model(tokens[:, 4:], cache=cache)
    assert layer._keys is kept
    assert layer._seen is seen
    assert torch.equal(layer._seen[:, :, :4], old)
    assert [each.length for each in cache.layers] == [TIME, TIME]


# Another spectrum

SLOWER = Spectrum(np.array([0.5, 0.05, 0.004, 0.0001]), amplitude=1.2)


def test_the_spectrum_worn_is_the_one_that_turns():
    model, tokens = decoder("rope"), some_tokens()
    plain = model.logits(tokens)
    own = model.spectrum
    assert own is not None
    with model.using(SLOWER):
        assert model.spectrum is SLOWER
        changed = model.logits(tokens)
    assert (changed - plain).abs().max() > 1e-2
    assert model.spectrum is own
    assert torch.equal(model.logits(tokens), plain)


@pytest.mark.parametrize("sizes", [[4, 1, 3, 2], [3, 3, 3, 1], [1, 1, 1, 7]])
@torch.inference_mode()
def test_keys_in_the_cache_are_turned_anew_when_the_spectrum_changes_and_back(sizes):
    # One layer: what a second one caches was computed from what the first saw under the old
    # spectrum, and no turning undoes that.
    model, tokens = decoder("rope", layers=1), some_tokens()
    one, two, three, four = tokens.split(sizes, dim=1)
    ends = np.cumsum(sizes)
    cache = Cache(1, TIME)
    plain = model(tokens)
    model(one, cache=cache)
    with model.using(SLOWER):
        other = model(tokens)
        assert (other - plain).abs().max() > 1e-2
        same(model(two, cache=cache), other[:, ends[0] : ends[1]])
        same(model(three, cache=cache), other[:, ends[1] : ends[2]])
    same(model(four, cache=cache), plain[:, ends[2] :])


@torch.inference_mode()
def test_in_every_layer_old_and_new_keys_are_turned_by_the_spectrum_in_use():
    model, tokens = decoder("rope"), some_tokens()
    cache = Cache(2, TIME)
    model(tokens[:, :6], cache=cache)
    with model.using(SLOWER):
        model(tokens[:, 6:8], cache=cache)
        for layer in cache.layers:
            unturned = layer._keys[:, :, :8].transpose(0, 2).flatten(1, 2).numpy()
            pairs = unturned[..., 0::2] + 1j * unturned[..., 1::2]
            angles = np.arange(8)[:, None, None] * SLOWER.inverse_frequencies
            expected = pairs * SLOWER.amplitude * np.exp(1j * angles)
            keys = layer._seen.chunk(2, dim=1)[0]
            found = keys[:, :, :8].transpose(0, 2).flatten(1, 2).numpy()
            np.testing.assert_allclose(found[..., 0::2], expected.real, atol=1e-5)
            np.testing.assert_allclose(found[..., 1::2], expected.imag, atol=1e-5)


@torch.inference_mode()
def test_a_cache_read_wholly_under_another_spectrum_is_right_in_every_layer():
    model, tokens = decoder("rope"), some_tokens()
    cache = Cache(2, TIME)
    with model.using(SLOWER):
        found = torch.cat([model(piece, cache=cache) for piece in tokens.split(3, dim=1)], dim=1)
        same(found, model(tokens))


def test_another_spectrum_comes_off_when_something_fails_under_it():
    model, tokens = decoder("rope"), some_tokens()
    plain, own = model.logits(tokens), model.spectrum
    with pytest.raises(ZeroDivisionError), model.using(SLOWER):
        raise ZeroDivisionError
    assert model.spectrum is own
    assert torch.equal(model.logits(tokens), plain)


def test_spectra_nest_and_come_off_in_order():
    model = decoder("rope")
    own, inner = model.spectrum, Spectrum.rope(HEAD_DIM, 5e5)
    with model.using(SLOWER):
        with model.using(inner):
            assert model.spectrum is inner
        assert model.spectrum is SLOWER
    assert model.spectrum is own


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_that_does_not_rotate_has_no_spectrum_to_change(name):
    model, heads = decoder(name), torch.randn(1, HEADS, TIME, HEAD_DIM)
    if torch.equal(model.scheme.rotate(heads, torch.arange(TIME)), heads):
        assert model.spectrum is None
        with pytest.raises(InputError, match="does not rotate"), model.using(SLOWER):
            pass
    else:
        assert isinstance(model.spectrum, Spectrum)


@pytest.mark.parametrize("head_dim", [2, 6, 16])
def test_a_spectrum_for_another_head_size_is_refused_with_both_numbers(head_dim):
    """A single pair would otherwise be spread over all of them in silence."""
    model = decoder("rope")
    own = model.spectrum
    with (
        pytest.raises(InputError, match=f"has {head_dim // 2} pairs; .* this model has 4"),
        model.using(Spectrum.rope(head_dim)),
    ):
        pass
    assert model.spectrum is own


# Rows of unequal length


def unequal(count: int = 12, longest: int = 7):
    """Sequences [.., x, separator, y ..] of which the y are scored, filled up behind."""
    drawn = torch.Generator().manual_seed(3)
    n = torch.randint(1, longest + 1, (count, 1), generator=drawn)
    tokens = torch.randint(0, 13, (count, 2 * longest + 2), generator=drawn)
    column = torch.arange(tokens.shape[1])
    return tokens, (column > n) & (column <= 2 * n + 1)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", SCHEMES)
def test_packed_rows_have_the_loss_and_gradients_of_padded_ones(name, norm):
    """Oracle: every place computed, logits picked by mask, cross-entropy over the scored ones."""
    tokens, scored = unequal()
    model = decoder(name, norm=norm, layers=3)
    rows = Packed.of(tokens, scored)
    loss = F.cross_entropy(model.packed(rows), rows.targets)
    loss.backward()
    packed = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    wanted = tokens[:, 1:].masked_fill(~scored[:, 1:], -100)
    expected = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), wanted.flatten())
    expected.backward()
    same(loss, expected)
    assert len(rows.targets) == int(scored.sum())
    for name, p in model.named_parameters():
        same(packed[name], p.grad)


def test_a_scheme_that_knows_rotate_alone_turns_packed_and_padded_rows_alike():
    class Shifted(SCHEMES["rope"]):
        """Turns further along; has no rotation of its own."""

        rotation = Scheme.rotation

        def rotate(self, x, positions):
            return SCHEMES["rope"].rotation(self, 3 * positions)(x)

    tokens, scored = unequal()
    model, rows = decoder("rope"), Packed.of(tokens, scored)
    plain = F.cross_entropy(model.packed(rows), rows.targets)
    model.scheme = Shifted(model.scheme.shape)
    found = F.cross_entropy(model.packed(rows), rows.targets)
    assert abs(found - plain) > 1e-3
    same(found, F.cross_entropy(model(tokens[:, :-1])[scored[:, 1:]], tokens[scored]))


def test_packed_rows_leave_out_what_follows_the_last_scored_token():
    tokens, scored = unequal()
    rows = Packed.of(tokens, scored)
    column = torch.arange(tokens.shape[1])
    lengths = [int(column[row].max()) for row in scored]
    assert len(rows.tokens) == sum(lengths)
    assert rows.time == max(lengths)
    changed = torch.where(column > torch.tensor(lengths)[:, None], 12, tokens)
    model = decoder("rope")
    same(model.packed(Packed.of(changed, scored)), model.packed(rows), tolerance=0)


def test_packed_rows_past_a_table_are_refused():
    tokens, scored = unequal(longest=12)
    with pytest.raises(InputError, match="position"):
        decoder("learned").packed(Packed.of(tokens, scored))
