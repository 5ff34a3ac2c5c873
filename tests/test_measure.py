"""Measurements: exact match is greedy decoding, losses are those of separate passes, intervals."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings, strategies as st
from scipy import stats

from longreach.measure import exact_match, text_loss
from longreach.measure.measured import Measured, mean_interval, wilson
from longreach.measure.text_loss import position_ranges, token_losses
from longreach.model.cache import Cache
from longreach.model.decoder import Decoder, DecoderShape
from longreach.schemes import SCHEMES
from longreach.tasks.base import Batch
from longreach.tasks.recall import Recall
from longreach.tasks.text import Windows
from longreach.train import batch_loss

VOCABULARY = 7
BYTES = torch.tensor([0, 1, 1, 2, 3, 5, 1])
LENGTHS = [3, 4, 8, 16, 21]
TRAINED, LAST = 8, 3
LAW = pytest.mark.parametrize("name", SCHEMES)


def decoder(name: str, trained: int = TRAINED, seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    shape = DecoderShape(vocabulary=VOCABULARY, width=12, heads=3, layers=2, feed_forward=16)
    model = Decoder(shape, SCHEMES[name], trained, **({"base": 50.0} if name == "rope" else {}))
    with torch.no_grad():
        for block in model.blocks:
            block.attention.project.weight *= 3
    return model.eval()


def measured(trained: int = TRAINED) -> Measured:
    about = {"training": "0123456789abcdef", "scheme": "s", "task": "t", "seed": 0}
    return Measured({**about, "repair": None, "trained_length": trained})


def random_tokens(batch: int, time: int, seed: int = 0):
    return torch.randint(
        0, VOCABULARY, (batch, time), generator=torch.Generator().manual_seed(seed)
    )


# Exact match


def echo(count: int, seed: int, gaps: bool = False) -> Batch:
    """Three symbols, a separator, and the three again: three tokens are scored, or two of them."""
    generator = torch.Generator().manual_seed(seed)
    symbols = torch.randint(2, 5, (count, 3), generator=generator)
    tokens = torch.cat([symbols, torch.ones(count, 1, dtype=torch.long), symbols], dim=1)
    scored = torch.zeros_like(tokens, dtype=torch.bool)
    scored[:, 4:] = True
    if gaps:
        scored[:, 5] = False
    return Batch(tokens, scored)


def written_greedily(model: Decoder, batch: Batch, *, cached: bool) -> list[bool]:
    """Row by row: read up to the first scored token, then write, and compare."""
    found = []
    for row in batch.tokens:
        written = model.generate(row[None, :4], 3, cached=cached)[0]
        found.append(written.tolist() == row[4:].tolist())
    return found


@pytest.fixture(scope="module")
def half_trained() -> Decoder:
    """Stopped where it writes some rows right and some wrong."""
    model = decoder("alibi")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(60):
        loss = batch_loss(model, echo(32, seed=step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("cached", [True, False])
def test_exact_match_is_what_greedy_decoding_writes_row_by_row(half_trained, cached):
    batch = echo(60, seed=1000)
    right = exact_match.right(half_trained, batch).tolist()
    assert 5 < sum(right) < 55
    assert right == written_greedily(half_trained, batch, cached=cached)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**31), name=st.sampled_from(list(SCHEMES)))
def test_exact_match_is_greedy_decoding_for_random_models_too(seed, name):
    model, batch = decoder(name, seed=seed), echo(12, seed)
    # So that some rows are right: what the model itself would write.
    batch.tokens[:6, 4:] = model.generate(batch.tokens[:6, :4], 3)
    right = exact_match.right(model, batch).tolist()
    assert right[:6] == [True] * 6
    for cached in (True, False):
        assert right == written_greedily(model, batch, cached=cached)


def test_tokens_that_are_not_scored_may_be_wrong(half_trained):
    strict, lenient = echo(60, 1000), echo(60, 1000, gaps=True)
    with torch.no_grad():
        guessed = half_trained(strict.tokens[:, :-1]).argmax(-1)
    hits = (guessed == strict.tokens[:, 1:])[:, 3:]
    assert exact_match.right(half_trained, strict).tolist() == hits.all(1).tolist()
    assert exact_match.right(half_trained, lenient).tolist() == (hits[:, 0] & hits[:, 2]).tolist()
    assert (hits[:, 0] & hits[:, 2] & ~hits[:, 1]).any()


def test_exact_match_rows_say_what_was_counted(half_trained, monkeypatch):
    monkeypatch.setattr(exact_match, "CHUNK", 7)
    out, batch = measured(), echo(60, 1000)
    exact_match.measure(half_trained, Recall(), [6], [batch], out)
    (row,) = out.rows
    written = written_greedily(half_trained, batch, cached=True)
    assert (row.metric, row.status, row.count) == ("exact_match", "measured", 60)
    assert (row.evaluation_length, row.first_position, row.last_position) == (6, 4, 6)
    assert row.value == pytest.approx(sum(written) / 60, rel=1e-12)
    assert (row.low, row.high) == wilson(sum(written), 60)
    assert out.items[row.item_key].tolist() == [float(right) for right in written]
    assert out.items[row.item_key].dtype == np.uint8


@LAW
def test_exact_match_is_past_the_limit_only_where_a_scheme_has_one(name):
    model, task, out = decoder(name), Recall(symbols=5), measured()
    lengths = [4, TRAINED, TRAINED + 1, 4 * TRAINED]
    samples = [task.sample(n, 5, torch.Generator().manual_seed(n)) for n in lengths]
    exact_match.measure(model, task, lengths, samples, out)
    assert [row.evaluation_length for row in out.rows] == lengths
    for row in out.rows:
        past = model.limit is not None and row.evaluation_length > model.limit
        assert row.status == ("past_limit" if past else "measured")
        assert (row.value is None, row.low is None, row.count) == (past, past, 0 if past else 5)
        assert (row.item_key in out.items) != past
        assert (row.first_position, row.last_position) == (row.evaluation_length,) * 2


# Loss on text


def explicit_losses(model: Decoder, windows):
    """-log p of each token but the first, one forward pass per prefix, in float64."""
    losses = []
    for end in range(1, windows.shape[1]):
        with torch.no_grad():
            odds = model(windows[:, :end])[:, -1].double().exp().numpy()
        chosen = odds[np.arange(len(windows)), windows[:, end]]
        losses.append(-np.log(chosen / odds.sum(1)))
    return np.stack(losses, axis=1)


def text_rows(
    model: Decoder, tokens, lengths=LENGTHS, trained: int = TRAINED, owners=None
) -> Measured:
    """The rows of windows that each stand for a document of their own, unless owners are given."""
    out = measured(trained)
    owners = torch.arange(len(tokens)) if owners is None else owners
    text_loss.measure(model, Windows(tokens, owners), lengths, LAST, BYTES, out)
    return out


def test_several_windows_of_a_document_count_as_one_value_their_mean():
    model, tokens = decoder("alibi"), random_tokens(5, LENGTHS[-1] + 1)
    single = text_rows(model, tokens)
    grouped = text_rows(model, tokens, owners=torch.tensor([0, 0, 1, 2, 2]))
    for row, other in zip(single.rows, grouped.rows, strict=True):
        a, b, c, d, e = single.items[row.item_key].astype(np.float64)
        assert (row.count, other.count) == (5, 3)
        if row.metric != "bits_per_byte":
            expected = [(a + b) / 2, c, (d + e) / 2]
            np.testing.assert_allclose(grouped.items[other.item_key], expected, rtol=1e-6)
            assert other.value == pytest.approx(np.mean(expected), rel=1e-6)


def by(out: Measured, metric: str):
    return [row for row in out.rows if row.metric == metric]


@LAW
@pytest.mark.parametrize("last", [None, 1, 4, 11])
def test_token_losses_are_those_of_one_pass_per_token(name, last, monkeypatch):
    model, windows = decoder(name, trained=11), random_tokens(5, 12)
    expected = explicit_losses(model, windows)[:, -(last or 11) :]
    for chunk in (4096, 23, 1):  # all windows at once, two at a time, one at a time
        monkeypatch.setattr(text_loss, "CHUNK_TOKENS", chunk)
        found = token_losses(model, windows, last)
        assert found.shape == (5, last or 11)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["rope", "nope", "sinusoidal", "t5_bias", "alibi"])
def test_the_loss_at_each_length_is_that_of_a_separate_pass(name):
    model, windows = decoder(name), random_tokens(6, LENGTHS[-1] + 1)
    out = text_rows(model, windows)
    rows = by(out, "loss")
    assert [row.evaluation_length for row in rows] == LENGTHS
    for row in rows:
        length = row.evaluation_length
        with torch.no_grad():
            logits = model(windows[:, :length])
        targets = windows[:, 1 : length + 1]
        expected = [
            float(F.cross_entropy(logit, target))
            for logit, target in zip(logits, targets, strict=True)
        ]
        np.testing.assert_allclose(out.items[row.item_key], expected, rtol=1e-5)
        assert row.value == pytest.approx(np.mean(expected), rel=1e-5)
        assert (row.first_position, row.last_position, row.count) == (1, length, 6)
        assert (row.low, row.high) == pytest.approx(t_interval(expected), rel=1e-4)


@LAW
def test_the_last_loss_follows_the_same_tokens_as_their_context_grows(name):
    model, windows = decoder(name, trained=21), random_tokens(3, LENGTHS[-1] + 1)
    out = text_rows(model, windows, trained=21)
    rows = by(out, "last_loss")
    assert [row.evaluation_length for row in rows] == LENGTHS
    for row in rows:
        length = row.evaluation_length
        expected = explicit_losses(model, windows[:, -length - 1 :])[:, -LAST:].mean(1)
        np.testing.assert_allclose(out.items[row.item_key], expected, rtol=1e-5)
        assert row.value == pytest.approx(np.mean(expected), rel=1e-5)
        assert (row.first_position, row.last_position) == (length - LAST + 1, length)
    assert rows[-1].value != pytest.approx(rows[0].value, rel=1e-3)


@LAW
@pytest.mark.parametrize("trained", [5, 8, 21])
def test_loss_by_position_covers_all_positions_once_and_averages_back(name, trained):
    model, windows = decoder(name, trained=21), random_tokens(4, LENGTHS[-1] + 1)
    out = text_rows(model, windows, trained=trained)
    rows = by(out, "loss_by_position")
    covered = [n for row in rows for n in range(row.first_position, row.last_position + 1)]
    assert covered == list(range(1, LENGTHS[-1] + 1))
    assert trained in {row.last_position for row in rows}
    every = explicit_losses(model, windows)
    for row in rows:
        expected = every[:, row.first_position - 1 : row.last_position].mean(1)
        np.testing.assert_allclose(out.items[row.item_key], expected, rtol=1e-5)
        assert row.evaluation_length == LENGTHS[-1]
    weighted = sum((row.last_position - row.first_position + 1) * row.value for row in rows)
    assert weighted / LENGTHS[-1] == pytest.approx(by(out, "loss")[-1].value, rel=1e-9)


def test_bits_per_byte_are_all_bits_over_all_bytes():
    model, windows = decoder("rope"), random_tokens(6, LENGTHS[-1] + 1)
    out = text_rows(model, windows)
    every = explicit_losses(model, windows)
    for row, loss in zip(by(out, "bits_per_byte"), by(out, "loss"), strict=True):
        length = row.evaluation_length
        assert length == loss.evaluation_length
        bits = [sum(nats[:length]) / log(2) for nats in every]
        sizes = [sum(BYTES.tolist()[t] for t in window[1 : length + 1]) for window in windows]
        assert row.value == pytest.approx(sum(bits) / sum(sizes), rel=1e-5)
        np.testing.assert_allclose(
            out.items[row.item_key], np.array(bits) / np.array(sizes), rtol=1e-5
        )
        assert row.low / row.value == pytest.approx(loss.low / loss.value, rel=1e-9)
        assert row.high / row.value == pytest.approx(loss.high / loss.value, rel=1e-9)


@LAW
def test_losses_are_past_the_limit_only_where_a_scheme_has_one(name):
    model, windows = decoder(name), random_tokens(4, LENGTHS[-1] + 1)
    out = text_rows(model, windows)
    assert model.limit in (None, TRAINED)
    for row in out.rows:
        reached = row.last_position
        past = model.limit is not None and reached > model.limit
        assert row.status == ("past_limit" if past else "measured"), row
        assert (row.value is None) == past
        assert (row.item_key in out.items) != past
    for metric in ("loss", "bits_per_byte", "last_loss"):
        assert [row.evaluation_length for row in by(out, metric)] == LENGTHS
    assert len({row.item_key for row in out.rows}) == len(out.rows)


def test_up_to_its_limit_a_scheme_is_measured_as_if_it_had_none():
    """The learned table ends at 8; the same rows come from a window that ends there."""
    model, windows = decoder("learned"), random_tokens(4, LENGTHS[-1] + 1)
    out = text_rows(model, windows)
    every = explicit_losses(model, windows[:, : TRAINED + 1])
    for row in by(out, "loss")[:3]:
        assert row.value == pytest.approx(every[:, : row.evaluation_length].mean(), rel=1e-5)
    for row in by(out, "loss_by_position"):
        if row.last_position <= TRAINED:
            expected = every[:, row.first_position - 1 : row.last_position].mean()
            assert row.value == pytest.approx(expected, rel=1e-5)


def test_reading_a_window_with_a_cache_gives_the_same_losses():
    model, windows = decoder("rope"), random_tokens(3, 17)
    cache = Cache(2, 16)
    with torch.inference_mode():
        pieces = [model(piece, cache=cache) for piece in windows[:, :-1].split(5, dim=1)]
    losses = F.cross_entropy(
        torch.cat(pieces, dim=1).transpose(1, 2), windows[:, 1:], reduction="none"
    )
    torch.testing.assert_close(token_losses(model, windows), losses, rtol=1e-5, atol=1e-5)


# Ranges of positions


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
@example((1, 1))
@example((512, 64))
@example((2, 1))
def test_ranges_partition_all_positions_and_break_at_the_trained_length(sizes):
    longest, trained = sizes
    ranges = position_ranges(longest, trained)
    assert [n for first, end in ranges for n in range(first, end + 1)] == list(
        range(1, longest + 1)
    )
    assert trained in {end for _, end in ranges}
    for first, end in ranges:
        assert first <= end
        # A quarter of an octave at most, but for what rounding to whole positions adds.
        assert end + 1 <= 2**0.25 * first + 2


def test_the_ranges_of_the_built_in_lengths_are_these():
    assert position_ranges(64, 24)[-9:] == [
        *[(17, 19), (20, 22), (23, 24), (25, 26), (27, 32)],
        *[(33, 38), (39, 45), (46, 53), (54, 64)],
    ]


# Intervals


def t_interval(values) -> tuple[float, float]:
    """Student's: the tabled 97.5 % point times the error of the mean."""
    point = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262}[len(values) - 1]
    mean = sum(values) / len(values)
    error = sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    return mean - point * error, mean + point * error


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@example((0, 1))
@example((512, 512))
@example((51, 512))
def test_the_interval_of_a_fraction_is_wilsons(counts):
    """Written out, from Wilson 1927: the fractions p for which |found - p| <= z error of p."""
    right, n = counts
    z, p = 1.959963984540054, right / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = wilson(right, n)
    assert low == pytest.approx(centre - half, abs=1e-9)
    assert high == pytest.approx(centre + half, abs=1e-9)
    assert 0 <= low <= p <= high <= 1


def test_wilsons_interval_solves_its_equation():
    for bound in wilson(7, 30):
        assert abs(7 / 30 - bound) == pytest.approx(
            stats.norm.ppf(0.975) * sqrt(bound * (1 - bound) / 30), rel=1e-9
        )


@pytest.mark.parametrize("count", [3, 4, 5, 6, 10])
def test_the_interval_of_a_mean_is_students(count):
    values = np.random.default_rng(count).normal(3, 2, count).astype(np.float32)
    assert mean_interval(values) == pytest.approx(t_interval(values.tolist()), abs=2e-3)


def test_the_interval_of_one_value_is_that_value():
    assert mean_interval(np.array([2.5], dtype=np.float32)) == (2.5, 2.5)


def test_a_row_holds_the_mean_of_its_values_and_what_was_measured():
    out, values = measured(), np.array([1.0, 2.0, 4.5])
    out.add("loss", 16, (3, 16), values)
    (row,) = out.rows
    assert row.value == pytest.approx(2.5, rel=1e-12)
    assert (row.low, row.high) == pytest.approx(t_interval([1.0, 2.0, 4.5]), abs=5e-3)
    assert (row.training, row.trained_length, row.count) == ("0123456789abcdef", TRAINED, 3)
    assert row.item_key == "loss@16:3-16"
    assert out.items["loss@16:3-16"].tolist() == [1.0, 2.0, 4.5]
    assert out.items["loss@16:3-16"].dtype == np.float32


def test_right_or_wrong_is_kept_in_a_byte():
    out, values = measured(), np.array([True, False, True, True])
    out.add("exact_match", 16, (3, 16), values)
    assert out.rows[0].value == 0.75
    assert out.items["exact_match@16:3-16"].tolist() == [1, 0, 1, 1]
    assert out.items["exact_match@16:3-16"].dtype == np.uint8


class Scripted:
    """A model that says what it was told to, whatever it reads; logits one-hot."""

    limit = None

    def __init__(self, said):
        self.said = torch.tensor(said)

    def holds(self, tokens):
        return True

    def logits(self, tokens, *, last=None):
        return torch.nn.functional.one_hot(self.said[:, -last:], 9).float()


def test_how_an_answer_fails_is_told_by_its_first_mistake():
    """END is 3. Rows: right; wrong symbol; END early; no END; wrong, and END early after that."""
    truth = torch.tensor([[1, 4, 5, 2, 4, 5, 3]] * 5)
    scored = torch.arange(7).expand(5, 7) >= 4
    said = [[4, 5, 3], [4, 6, 3], [4, 3, 3], [4, 5, 7], [6, 3, 7]]
    found = exact_match.judge(Scripted(said), Batch(truth, scored), end=3)
    assert {metric: values.tolist() for metric, values in found.items()} == {
        "exact_match": [True, False, False, False, False],
        "exact_match_without_end": [True, False, False, True, False],
        "end_too_early": [False, False, True, False, False],
        "end_too_late": [False, False, False, True, False],
        "token_accuracy": pytest.approx([1, 2 / 3, 2 / 3, 2 / 3, 0]),
    }


def test_a_task_without_an_end_token_has_exact_match_alone():
    truth = torch.tensor([[4, 5, 4, 5]])
    found = exact_match.judge(
        Scripted([[5]]), Batch(truth, torch.tensor([[False, False, False, True]])), None
    )
    assert list(found) == ["exact_match"]
