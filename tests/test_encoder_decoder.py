"""The encoder-decoder against PyTorch's own; padding, cache, frames; and as a study's model."""

from __future__ import annotations

from math import cos, sin

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from longreach import train as train_module
from longreach.cell import fulfil
from longreach.errors import InputError
from longreach.measure import exact_match
from longreach.measure.measured import Measurable, Measured
from longreach.model.attention import Attention, Places
from longreach.model.cache import Cache
from longreach.model.decoder import DecoderShape
from longreach.model.encoder_decoder import EncoderDecoder, Frame, Halves, padding
from longreach.report import markdown
from longreach.report.summarise import summarise
from longreach.results import Results
from longreach.run import trainings
from longreach.schemes import SCHEMES
from longreach.schemes.base import Scheme, Shape
from longreach.study import Study, built_in_studies
from longreach.tasks import TASKS
from longreach.tasks.base import Batch
from longreach.tasks.frame import EOS, PAD, SEP, Framed
from longreach.train import batch_loss, build_model, train

from .test_run import content, first_cell, go

WIDTH, HEADS, HEAD_DIM, LAYERS, VOCABULARY = 24, 3, 8, 2, 13
SOURCE, TARGET = 7, 6
FRAME = Frame(separator=SEP, end=EOS, padding=PAD)
LAW = pytest.mark.parametrize("name", SCHEMES)
NORMS = pytest.mark.parametrize("norm", ["pre", "post"])

STUDY = """
name = "pair"
question = "Does it run?"
schemes = ["sinusoidal", "learned"]
tasks = ["copy"]
seeds = [0]
trained_length = 5
evaluation_lengths = [2, 5, 6]

[model]
architecture = "encoder-decoder"
width = 16
heads = 2
layers = 1
feed_forward = 32

[training]
steps = 6
batch = 8
shortest = 1
learning_rate = 1e-2

[evaluation]
sequences = 20
"""


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


def pair(name: str, *, norm: str = "post", trained=(16, 16)) -> EncoderDecoder:
    torch.manual_seed(0)
    shape = DecoderShape(
        vocabulary=VOCABULARY, width=WIDTH, heads=HEADS, layers=LAYERS, feed_forward=40, norm=norm
    )
    model = EncoderDecoder(shape, SCHEMES[name], trained, FRAME).eval()
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, Attention):
                part.project.weight *= 3  # Sharper attention: a wrong logit then shows.
            if isinstance(part, nn.LayerNorm):
                part.weight.add_(0.3 * torch.randn(WIDTH))
                part.bias.add_(0.3 * torch.randn(WIDTH))
    return model


def drawn(*shape: int, seed: int = 1):
    """Tokens of a task's own: none of the frame's."""
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def same(found, expected, tolerance: float = 1e-5):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def hidden(lengths, width: int):
    return torch.arange(width) >= torch.as_tensor(lengths)[:, None]


def around(name: str, time: int, padded=None) -> Places:
    shape = Shape(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, trained_length=16, causal=False)
    return Places.around(SCHEMES[name](shape), torch.arange(time), padded)


# Against PyTorch


@pytest.mark.parametrize("padded", [None, [3, 7, 1]])
@pytest.mark.parametrize("across", [False, True])
def test_attention_is_pytorchs_with_padding_and_across_values_and_gradients(across, padded):
    ours = Attention(WIDTH, HEADS).double()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True).double()
    theirs.load_state_dict(
        {"in_proj_weight": ours.project.weight, "out_proj.weight": ours.out.weight}
    )
    other = torch.randn(3, SOURCE, WIDTH, dtype=torch.float64)
    x = torch.randn(3, TARGET, WIDTH, dtype=torch.float64) if across else other
    mask = None if padded is None else hidden(padded, SOURCE)
    expected, _ = theirs(x, other, other, key_padding_mask=mask, need_weights=False)
    if across:
        found = ours.across(x, ours.remember(other, mask))
    else:
        found = ours(x, around("nope", SOURCE, mask))
    same(found, expected, 1e-10)
    pull = torch.randn_like(expected)
    found.backward(pull)
    expected.backward(pull)
    same(ours.project.weight.grad, theirs.in_proj_weight.grad, 1e-10)
    same(ours.out.weight.grad, theirs.out_proj.weight.grad, 1e-10)


def pytorchs(model: EncoderDecoder, norm: str) -> tuple[nn.Transformer, list]:
    """nn.Transformer with our weights, and pairs of one of our parameters and theirs."""
    options = dict(
        d_model=WIDTH,
        nhead=HEADS,
        dim_feedforward=40,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=norm == "pre",
    )

    def last():
        # Theirs always ends in a norm, which the paper's (post) does not have.
        return nn.LayerNorm(WIDTH) if norm == "pre" else None

    theirs = nn.Transformer(
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**options), LAYERS, last(), enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), LAYERS, last()),
        d_model=WIDTH,
        nhead=HEADS,
        batch_first=True,
    )
    pairs = []

    def match(our, their):
        for one, other in zip(our.parameters(), their.parameters(), strict=True):
            pairs.append((one, other))

    def match_attention(our, their):
        pairs.append((our.project.weight, their.in_proj_weight))
        pairs.append((our.out.weight, their.out_proj.weight))
        for bias in (their.in_proj_bias, their.out_proj.bias):
            nn.init.zeros_(bias)

    for our, their in zip(model.encoder, theirs.encoder.layers, strict=True):
        match_attention(our.attention, their.self_attn)
        match(our.attention_norm, their.norm1)
        match(our.feed_forward, nn.ModuleList([their.linear1, their.linear2]))
        match(our.feed_forward_norm, their.norm2)
    for our, their in zip(model.decoder, theirs.decoder.layers, strict=True):
        match_attention(our.attention, their.self_attn)
        match(our.attention_norm, their.norm1)
        match_attention(our.cross, their.multihead_attn)
        match(our.cross_norm, their.norm2)
        match(our.feed_forward, nn.ModuleList([their.linear1, their.linear2]))
        match(our.feed_forward_norm, their.norm3)
    if norm == "pre":
        match(model.encoder_norm, theirs.encoder.norm)
        match(model.norm, theirs.decoder.norm)
    with torch.no_grad():
        for one, other in pairs:
            other.copy_(one)
    return theirs, pairs


def rows(name: str, scheme: Scheme, time: int):
    """What a scheme adds to embeddings, in another form."""
    if name == "learned":
        return scheme.table.weight[:time]
    if name != "sinusoidal":
        return torch.zeros(time, WIDTH)
    found = [
        [(cos if i % 2 else sin)(place / 10_000 ** ((i - i % 2) / WIDTH)) for i in range(WIDTH)]
        for place in range(time)
    ]
    return torch.tensor(found)


def added(scheme: Scheme, time: int, *, causal: bool):
    """What is added to logits in self-attention, for each row and head as PyTorch wants it."""
    places = torch.arange(time)
    bias = scheme.bias(places, places)
    bias = torch.zeros(HEADS, time, time) if bias is None else bias
    if causal:
        bias = bias.masked_fill(torch.ones(time, time, dtype=torch.bool).triu(1), -torch.inf)
    return bias.repeat(3, 1, 1)


@NORMS
@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "rope"])
def test_the_whole_model_is_pytorchs_transformer_values_and_gradients(name, norm):
    """With padding on both sides. Position schemes enter by embeddings and masks alone."""
    model = pair(name, norm=norm)
    theirs, pairs = pytorchs(model, norm)
    source, target = drawn(3, SOURCE), drawn(3, TARGET, seed=2)
    lengths, written = torch.tensor([3, 7, 1]), torch.tensor([6, 2, 4])
    absent = hidden(lengths, SOURCE)

    def minus(mask):
        return torch.zeros(mask.shape).masked_fill(mask, -torch.inf)

    embedded = [
        model.tokens.weight[tokens] + rows(name, scheme, tokens.shape[1])
        for tokens, scheme in (
            (source, model.source_scheme),
            (target, model.target_scheme),
        )
    ]
    seen = theirs(
        *embedded,
        src_mask=added(model.source_scheme, SOURCE, causal=False),
        tgt_mask=added(model.target_scheme, TARGET, causal=True),
        src_key_padding_mask=minus(absent),
        tgt_key_padding_mask=minus(hidden(written, TARGET)),
        memory_key_padding_mask=minus(absent),
    )
    expected = seen @ model.head.weight.T
    there = ~hidden(written, TARGET)
    found = model(source, target, lengths)
    same(found[there], expected[there])
    pull = torch.randn(int(there.sum()), VOCABULARY) / 10
    expected[there].backward(pull)
    of_theirs = {id(one): other.grad for one, other in pairs}
    own = {label: p.grad for label, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    found = model(source, target, lengths)
    found[there].backward(pull)
    for label, value in model.named_parameters():
        same(value.grad, of_theirs.get(id(value), own.get(label)))


@LAW
def test_an_encoders_attention_is_an_explicit_softmax_over_what_the_hooks_return(name):
    attention, lengths = Attention(WIDTH, HEADS), [4, SOURCE]
    places = around(name, SOURCE, hidden(lengths, SOURCE))
    x, scheme = torch.randn(2, SOURCE, WIDTH), places.scheme
    q, k, v = (
        (x @ part.T).view(2, SOURCE, HEADS, HEAD_DIM).transpose(1, 2)
        for part in attention.project.weight.chunk(3)
    )
    q, k = scheme.rotate(q, places.positions), scheme.rotate(k, places.positions)
    bias = scheme.bias(places.positions, places.positions)
    for row, length in enumerate(lengths):
        logits = q[row] @ k[row, :, :length].mT / HEAD_DIM**0.5
        if bias is not None:
            logits = logits + bias[..., :length]
        seen = (logits.exp() / logits.exp().sum(-1, keepdim=True)) @ v[row, :, :length]
        expected = seen.transpose(0, 1).flatten(-2) @ attention.out.weight.T
        same(attention(x, places)[row], expected)


# Schemes in an encoder


def test_alibi_in_an_encoder_takes_the_same_off_to_both_sides():
    bias = around("alibi", 5).bias
    decoders = SCHEMES["alibi"](Shape(width=24, heads=3, head_dim=8, trained_length=5)).bias(
        torch.arange(5), torch.arange(5)
    )
    assert torch.equal(bias, bias.mT)
    assert torch.equal(bias.tril(), decoders.tril())


@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (16, 100), (8, 20)])
def test_t5_in_an_encoder_has_the_buckets_of_transformers(buckets, most):
    from transformers.models.t5.modeling_t5 import T5Attention

    shape = Shape(width=24, heads=3, head_dim=8, trained_length=5, causal=False)
    scheme = SCHEMES["t5_bias"](shape, buckets=buckets, max_distance=most)
    places = torch.arange(300)
    theirs = T5Attention._relative_position_bucket(
        places[None] - places[:, None], num_buckets=buckets, max_distance=most
    )
    same(scheme.bias(places, places), scheme.table.weight[theirs].permute(2, 0, 1), 0)


def test_t5_with_too_few_buckets_for_two_sides_is_refused():
    shape = Shape(width=24, heads=3, head_dim=8, trained_length=5, causal=False)
    with pytest.raises(InputError, match="buckets must be a whole number from 2"):
        SCHEMES["t5_bias"](shape, buckets=3)


@torch.inference_mode()
def test_without_positions_an_encoder_sees_a_bag_and_with_symmetric_ones_a_mirror():
    """What docstrings warn of. RoPE, as a contrast, tells both orders apart."""
    source, order = drawn(1, SOURCE), torch.tensor([3, 0, 6, 1, 5, 2, 4])
    nope, alibi, rope = pair("nope"), pair("alibi"), pair("rope")
    same(nope.encode(source[:, order]), nope.encode(source)[:, order])
    same(alibi.encode(source.flip(1)), alibi.encode(source).flip(1))
    for model, changed in ((alibi, order), (rope, order), (rope, torch.arange(SOURCE).flip(0))):
        apart = model.encode(source[:, changed]) - model.encode(source)[:, changed]
        assert apart.abs().max() > 1e-2


def test_a_scheme_made_for_decoders_alone_is_refused():
    class Steep(Scheme):
        def bias(self, queries, keys):
            return (keys - queries[:, None])[None].float()

    shape = DecoderShape(vocabulary=5, width=8, heads=2, layers=1, feed_forward=8)
    with pytest.raises(InputError, match=r"Steep does not say .* bidirectional = True"):
        EncoderDecoder(shape, Steep, (4, 4), FRAME)


# Padding, causality, cache


@NORMS
@LAW
@torch.inference_mode()
def test_more_padding_changes_nothing_whatever_it_is_made_of(name, norm):
    model, lengths = pair(name, norm=norm), torch.tensor([3, 7, 1])
    source, target = drawn(3, SOURCE), drawn(3, TARGET, seed=2)
    found = model(source, target, lengths)
    wider = torch.cat([source.where(~hidden(lengths, SOURCE), 12), drawn(3, 4, seed=5)], dim=1)
    same(model(wider, F.pad(target, (0, 3)), lengths)[:, :TARGET], found)
    for row, length in enumerate(lengths.tolist()):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        same(alone[0], found[row])


@NORMS
@LAW
@torch.inference_mode()
def test_a_target_sees_all_of_its_source_and_nothing_of_what_is_to_come(name, norm):
    model, source, target = pair(name, norm=norm), drawn(2, SOURCE), drawn(2, TARGET, seed=2)
    before = model(source, target)
    for place in range(TARGET):
        changed = target.clone()
        changed[:, place] = 4 + (target[:, place] - 3) % (VOCABULARY - 4)
        moved = (model(source, changed) - before).abs().amax((0, 2)) > 1e-6
        assert moved.tolist() == [after >= place for after in range(TARGET)]
    for place in range(SOURCE):
        changed = source.clone()
        changed[:, place] = 4 + (source[:, place] - 3) % (VOCABULARY - 4)
        assert ((model(changed, target) - before).abs().amax(2) > 1e-6).all()


@NORMS
@LAW
@torch.inference_mode()
def test_with_a_cache_the_logits_and_the_tokens_are_the_same(name, norm):
    model, lengths = pair(name, norm=norm), torch.tensor([3, 7, 1, 5, 2])
    source = drawn(5, SOURCE)
    written = model.generate(source, 12, VOCABULARY, lengths=lengths)  # No such token: no end.
    assert written.shape == (5, 12)
    plain = model.generate(source, 12, VOCABULARY, lengths=lengths, cached=False)
    assert torch.equal(written, plain)
    text = F.pad(written, (1, 0), value=SEP)
    expected = model(source, text, lengths)
    memories, cache = model.remember(source, lengths), Cache(LAYERS, 13)
    sizes = [1, 1, 4, 7]
    for piece, wanted in zip(text.split(sizes, 1), expected.split(sizes, 1), strict=True):
        same(model.head(model.decode(piece, memories, cache)), wanted)
    assert torch.equal(expected[:, :-1].argmax(-1), written)


@torch.inference_mode()
def test_a_row_ends_at_its_end_token_and_the_writing_with_the_last_row():
    model, source = pair("sinusoidal", norm="pre"), drawn(40, SOURCE)
    endless = model.generate(source, 12, VOCABULARY)

    def places(token: int) -> set[int]:
        return {row.index(token) for row in endless.tolist() if token in row}

    end = max(range(VOCABULARY), key=lambda token: len(places(token)))
    found = model.generate(source, 12, end)
    ends = []
    for row, whole in zip(found.tolist(), endless.tolist(), strict=True):
        place = whole.index(end) if end in whole else 12
        assert row[:place] == whole[:place]
        assert set(row[place:]) <= {end}
        ends.append(place)
    assert found.shape[1] == min(max(ends) + 1, 12)
    assert len(set(ends)) > 2, "they all end alike"
    soon = source[torch.tensor(ends) < 4]
    assert model.generate(soon, 12, end).shape[1] < 5


@torch.inference_mode()
def test_a_second_source_is_not_answered_with_the_first():
    model = pair("rope")
    one, two = drawn(1, SOURCE), drawn(1, SOURCE, seed=9)
    first, second = model.generate(one, 8, 99), model.generate(two, 8, 99)
    assert not torch.equal(first, second)
    assert torch.equal(model.generate(torch.cat([one, two]), 8, 99), torch.cat([first, second]))


# Whole sequences


WHOLE = torch.tensor(
    [
        [1, 7, 8, 9, 2, 7, 8, 9, 3],
        [1, 5, 2, 5, 6, 3, 0, 0, 0],
        [1, 4, 4, 4, 4, 2, 4, 3, 0],
    ]
)


def test_whole_sequences_are_cut_at_the_separator_which_ends_one_half_and_begins_the_other():
    halves = Halves.of(WHOLE, FRAME)
    assert [
        row[:length].tolist()
        for row, length in zip(halves.source, halves.source_lengths, strict=True)
    ] == [[7, 8, 9, 2], [5, 2], [4, 4, 4, 4, 2]]
    assert [
        row[:length].tolist()
        for row, length in zip(halves.target, halves.target_lengths, strict=True)
    ] == [[2, 7, 8, 9], [2, 5, 6], [2, 4]]
    assert (halves.source.shape, halves.target.shape) == ((3, 5), (3, 4))


@LAW
def test_logits_of_whole_sequences_are_those_of_their_halves_and_nan_in_a_prompt(name):
    model = pair(name)
    found = model.logits(WHOLE[:, :-1])
    assert isinstance(model, Measurable)
    assert (found.shape, found.dtype, found.requires_grad) == (
        (3, 8, VOCABULARY),
        torch.float32,
        False,
    )
    for row, (start, stop) in enumerate([(4, 8), (2, 5), (5, 7)]):
        source, target = WHOLE[row : row + 1, 1 : start + 1], WHOLE[row : row + 1, start:stop]
        same(found[row, start:stop], model(source, target)[0].detach())
        assert found[row, :start].isnan().all()
        assert found[row, stop:].isnan().all()
    for last in (1, 4, 8):
        torch.testing.assert_close(
            model.logits(WHOLE[:, :-1], last=last), found[:, -last:], equal_nan=True
        )


@LAW
def test_the_loss_is_that_of_the_scored_tokens_after_their_true_prefixes(name):
    model = pair(name, trained=(16, 16))
    scored = (WHOLE != PAD) & ((WHOLE == SEP).cumsum(1) > 0) & (WHOLE != SEP)
    assert int(scored.sum()) == 4 + 3 + 2
    losses = []
    for row, of_row in zip(WHOLE, scored, strict=True):
        start = int((row == SEP).nonzero())
        for place in of_row.nonzero().flatten().tolist():
            logits = model(row[None, 1 : start + 1], row[None, start:place])[0, -1]
            losses.append(F.cross_entropy(logits, row[place]))
    same(batch_loss(model, Batch(WHOLE, scored)), torch.stack(losses).mean())


def test_what_cannot_be_read_is_refused():
    model = pair("learned", trained=(4, 3))
    with pytest.raises(InputError, match="reads whole prompts, and a sequence has no separator"):
        model.logits(WHOLE[:, :4])
    with pytest.raises(InputError, match="predicts no token of a prompt"):
        model.asked(WHOLE[:1], torch.arange(9)[None] == 3)
    for lengths in ([0, 1], [1, 8]):
        with pytest.raises(InputError, match="from 1 to its 7 tokens"):
            model.encode(drawn(2, SOURCE), torch.tensor(lengths))
    with pytest.raises(InputError, match="rows 0 to 3; asked for 0 to 6"):
        model.encode(drawn(2, SOURCE))
    with pytest.raises(InputError, match="rows 0 to 2; asked for 3 to 3"):
        model.generate(drawn(2, 4), 4, 99)
    with pytest.raises(InputError, match="count >= 1"):
        model.generate(drawn(2, 4), 0)
    shape = DecoderShape(vocabulary=5, width=10, heads=4, layers=1, feed_forward=8)
    with pytest.raises(InputError, match="width 10 is not a multiple of heads 4"):
        EncoderDecoder(shape, SCHEMES["nope"], (4, 4), FRAME)
    assert padding(drawn(2, 3), torch.tensor([3, 3])) is None


def test_each_half_has_its_own_limit():
    model = pair("learned", trained=(4, 3))
    assert (model.limit, pair("rope").limit) == (7, None)
    fits = torch.tensor([[1, 7, 8, 9, 2, 7, 8, 3]])
    assert model.holds(fits)
    model.logits(fits)
    for half in ([[1, 7, 8, 9, 9, 2, 7, 3]], [[1, 7, 8, 2, 7, 8, 9, 3]]):
        assert not model.holds(torch.tensor(half))
        with pytest.raises(InputError, match="learned positions"):
            model.logits(torch.tensor(half))
        assert pair("rope").holds(torch.tensor(half))


# As a study's model


def study(**changes: str) -> Study:
    text = STUDY
    for before, after in changes.values():
        assert before in text
        text = text.replace(before, after)
    return Study.parse(text, "pair")


@pytest.mark.parametrize(
    ("name", "scheme", "digest"),
    [("copy-reverse", "nope", "918b498529173a60"), ("recall", "rope", "eeb3db28607c044d")],
)
def test_a_decoders_digest_is_what_it_was_before_there_was_a_choice(name, scheme, digest):
    planned = [t for t, _ in trainings(Study.load(name), print) if t.scheme.name == scheme]
    assert planned[0].model.architecture == "decoder"
    assert planned[0].digest == digest
    said = planned[0].model.model_copy(update={"architecture": "encoder-decoder"})
    assert planned[0].model_copy(update={"model": said}).digest != digest


@pytest.mark.parametrize("name", [name for name, kind in TASKS.items() if issubclass(kind, Framed)])
@pytest.mark.parametrize("scheme", ["learned", "rope"])
def test_every_framed_task_can_be_trained_on_and_measured(name, scheme):
    """In tables as long as its longest prompt and answer, no row of a batch is too long."""
    asked = study(
        task=('"copy"', f'"{name}"'),
        scheme=('["sinusoidal", "learned"]', f'["{scheme}"]'),
        shortest=("shortest = 1\n", ""),
    )
    (training, task), *_ = trainings(asked, print)
    model, progress = train(
        training.model_copy(update={"training": asked.limited(2).training}), task
    )
    assert progress.step == 2
    batch = task.sample(5, 30, torch.Generator().manual_seed(0))
    assert model.holds(batch.tokens[:, :-1])
    found = model.logits(batch.tokens[:, :-1], last=batch.last)
    assert not found[batch.scored[:, -batch.last :]].isnan().any()


def test_a_length_that_one_half_cannot_hold_is_a_row_that_says_so():
    asked = study(task=('"copy"', '"needle"'), scheme=('["sinusoidal", "learned"]', '["learned"]'))
    ((training, task),) = trainings(asked, print)
    out = Measured(
        {
            "training": training.digest,
            "scheme": "learned",
            "task": "needle",
            "seed": 0,
            "repair": None,
            "trained_length": 5,
        }
    )
    samples = [task.sample(n, 20, torch.Generator().manual_seed(n)) for n in (2, 5, 6)]
    exact_match.measure(build_model(training, task).eval(), task, (2, 5, 6), samples, out)
    found = {row.evaluation_length: row.status for row in out.rows if row.metric == "exact_match"}
    assert found == {2: "measured", 5: "measured", 6: "past_limit"}


@pytest.mark.parametrize("task", ["copy", "addition"])
def test_exact_match_from_one_pass_is_that_of_greedy_decoding(task):
    asked = study(
        task=('"copy"', f'"{task}"'),
        steps=("steps = 6", "steps = 100"),
        length=("trained_length = 5", "trained_length = 2"),
        rate=("1e-2", "3e-3"),
        width=("width = 16", "width = 32"),
    )
    training, owner = trainings(asked, print)[0]
    model, _ = train(training, owner)
    parts = [owner.sample(n, 40, torch.Generator().manual_seed(n)) for n in (1, 2, 3)]
    batch = Batch.join(parts)
    judged = exact_match.judge(model, batch, EOS)
    halves = Halves.of(batch.tokens, FRAME)
    written = model.generate(halves.source, 6, lengths=halves.source_lengths)
    right = []
    for row, found in zip(batch.tokens.tolist(), written.tolist(), strict=True):
        truth = row[row.index(SEP) + 1 : row.index(EOS)]
        answer = found[: found.index(EOS)] if EOS in found else None
        right.append(answer == truth)
    assert judged["exact_match"].tolist() == right
    assert 1 < sum(right) < 119


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ('"recall"', "the task 'recall' has no frame"),
        ('{ name = "text", corpus = "text:nowhere" }', "the task 'text' has no frame"),
    ],
)
def test_a_task_without_a_frame_is_refused_before_anything_is_made(task, why, tmp_path):
    with pytest.raises(InputError, match=why):
        go(study(task=('"copy"', task)), tmp_path / "runs")
    assert [path.name for path in tmp_path.glob("runs/*")] == [".lock"]


def test_a_misspelt_architecture_is_refused_with_those_there_are():
    with pytest.raises(InputError, match="architecture: input should be 'decoder' or 'encoder-dec"):
        study(kind=('"encoder-decoder"', '"encoder"'))


def test_schemes_under_one_seed_start_from_the_same_weights():
    ours, theirs = (build_model(*each).state_dict() for each in trainings(study(), print))
    for name in ours.keys() & theirs.keys():
        same(ours[name], theirs[name], 0)
    assert theirs.keys() - ours.keys() == {
        "source_scheme.table.weight",
        "target_scheme.table.weight",
    }
    assert theirs["source_scheme.table.weight"].shape[0] == 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("pair") / "runs"
    go(study(), out)
    return out


def test_a_study_runs_to_its_report_which_names_the_architecture(whole):
    results = Results.read(whole)
    assert len(results.runs) == 2
    status = {(r.scheme, r.evaluation_length): r.status for r in results.rows}
    assert status["sinusoidal", 6] == status["learned", 5] == "measured"
    assert status["learned", 6] == "past_limit"
    told = markdown.text(summarise(results), [], "figures")
    assert "Every model is an encoder-decoder: one half (layers 1) reads the prompt" in told
    assert "architecture encoder-decoder, width 16" in told


def test_stopped_after_two_steps_it_goes_on_to_the_same_bits(whole, tmp_path):
    cell = first_cell(study(), tmp_path)
    assert not fulfil(cell, lambda step, loss: None, until=2)
    assert fulfil(cell, lambda step, loss: None)
    assert content(tmp_path)[cell.training.digest] == content(whole)[cell.training.digest]


def test_broken_off_in_a_training_it_resumes_to_the_same_bits(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)
    cell = first_cell(study(), tmp_path)

    def pull_the_plug(step: int, loss: float) -> None:
        if step == 4:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fulfil(cell, pull_the_plug)
    steps: list[int] = []
    assert fulfil(cell, lambda step, loss: steps.append(step))
    assert steps == [5, 6]
    assert content(tmp_path)[cell.training.digest] == content(whole)[cell.training.digest]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_it_learns_to_write_six_symbols(task):
    """In 500 steps."""
    asked = study(
        task=('"copy"', f'"{task}"'),
        length=("trained_length = 5", "trained_length = 6"),
        width=("width = 16", "width = 64"),
        heads=("heads = 2", "heads = 4"),
        layers=("layers = 1", "layers = 2"),
        steps=("steps = 6\nbatch = 8", 'steps = 500\nbatch = 64\nwarmup = 50\nschedule = "cosine"'),
        inner=("feed_forward = 32", 'feed_forward = 128\nnorm = "post"'),
        rate=("learning_rate = 1e-2", "learning_rate = 1e-3\nclip = 1.0"),
    )
    training, owner = trainings(asked, print)[0]
    model, _ = train(training, owner)
    batch = owner.sample(6, 500, torch.Generator().manual_seed(1))
    assert exact_match.right(model, batch).float().mean() > 0.95


def test_it_is_among_the_built_in_studies():
    kinds = {name: Study.load(name).model.architecture for name in built_in_studies()}
    assert kinds.pop("copy-reverse-encoder-decoder") == "encoder-decoder"
    assert set(kinds.values()) == {"decoder"}
