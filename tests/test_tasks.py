"""Tasks: laws for every listed one; recall's answers, ceiling and ancestry; text's windows.

A task that is added to TASKS comes under the laws by being listed (and needs a line in OPTIONS if
it cannot be built without any).
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest
import torch
from scipy import stats

from longreach.errors import InputError
from longreach.tasks import TASKS
from longreach.tasks.base import Batch
from longreach.tasks.recall import Recall, expected_maximum, most_frequent_successor, none_above
from longreach.tasks.text import Text

CORPUS = "text:corpus"

OPTIONS = {
    "recall": [{}, {"symbols": 2}, {"ambiguous": True}, {"symbols": 3, "ambiguous": True}],
    "text": [
        {"corpus": CORPUS, "vocabulary": "bytes"},
        {"corpus": CORPUS, "vocabulary": 300},
    ],
}
"""What each task is built with for the laws."""

LAW = pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name in TASKS for options in OPTIONS.get(name, [{}])]
)
LENGTHS = [4, 5, 9, 24]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty documents of different lengths, no two alike."""
    root = tmp_path_factory.mktemp("tasks")
    (root / "corpus").mkdir()
    for i in range(40):
        body = f"{i} plus {i * i} is {i + i * i}; " * (1 + i % 7)
        (root / "corpus" / f"{i:02}.txt").write_text(f"document {i}: {body}", encoding="utf-8")
    return root


@pytest.fixture(autouse=True)
def _corpora_of_this_file_are_prepared_once(folder, own_home, monkeypatch):
    monkeypatch.setenv("LONGREACH_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Laws over every listed task


@LAW
def test_the_same_seed_draws_the_same_batch_and_another_another(name, options):
    one, two = TASKS[name](**options), TASKS[name](**options)
    first, second = one.sample(24, 8, generator()), two.sample(24, 8, generator())
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(first.scored, second.scored)
    assert not torch.equal(first.tokens, one.sample(24, 8, generator(1)).tokens)


@LAW
def test_drawing_twice_goes_on_and_does_not_repeat(name, options):
    task, source = TASKS[name](**options), generator()
    assert not torch.equal(task.sample(24, 8, source).tokens, task.sample(24, 8, source).tokens)


@LAW
@pytest.mark.parametrize("length", LENGTHS)
def test_batches_have_the_length_asked_for_and_score_no_first_token(name, options, length):
    task = TASKS[name](**options)
    batch = task.sample(length, 7, generator())
    assert batch.tokens.shape == batch.scored.shape == (7, length + 1)
    assert (batch.tokens.dtype, batch.scored.dtype) == (torch.long, torch.bool)
    assert int(batch.tokens.min()) >= 0
    assert int(batch.tokens.max()) < task.vocabulary
    assert batch.scored.any(1).all()
    assert not batch.scored[:, 0].any()
    assert batch.scored[:, -batch.last :].sum() == batch.scored.sum()
    assert batch.scored[:, -batch.last].any()


@LAW
@pytest.mark.parametrize("length", LENGTHS)
def test_guessing_is_worse_than_the_ceiling(name, options, length):
    task = TASKS[name](**options)
    assert task.metric in ("exact_match", "loss")
    if task.metric == "exact_match":
        assert 0 < task.chance(length) <= task.ceiling(length) <= 1
        assert task.symbols == 2 or task.chance(length) < task.ceiling(length)
    else:
        assert task.chance(length) > task.ceiling(length) >= 0


@LAW
def test_a_length_that_is_too_short_is_refused_by_number(name, options):
    for length in (0, -3):
        with pytest.raises(InputError, match=f"at least .* got length {length}$"):
            TASKS[name](**options).sample(length, 2, generator())


@LAW
def test_a_task_says_what_it_asks_in_a_sentence(name, options):
    note = TASKS[name](**options).note
    assert note.endswith(".")
    assert "\n\n" not in note


def test_a_misspelt_task_is_refused_with_the_right_name():
    with pytest.raises(InputError, match="unknown task 'recal'; did you mean 'recall'"):
        TASKS["recal"]


def test_last_counts_from_the_first_scored_column_of_any_row():
    scored = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 1, 0, 0]]).bool()
    assert Batch(torch.zeros(2, 5, dtype=torch.long), scored).last == 3


# Recall with one answer


@pytest.mark.parametrize("symbols", [2, 3, 22])
@pytest.mark.parametrize("length", [4, 5, 8, 24, 33])
def test_the_query_stands_once_in_the_first_half_and_is_answered_by_its_successor(symbols, length):
    task = Recall(symbols=symbols)
    batch = task.sample(length, 200, generator(length))
    assert batch.scored.nonzero().tolist() == [[row, length] for row in range(200)]
    for row in batch.tokens.tolist():
        read, answer = row[:-1], row[-1]
        assert read[:-1].count(read[-1]) == 1
        place = read.index(read[-1])
        assert 1 <= place <= length // 2 - 1
        assert answer == read[place + 1]
        assert all(2 <= token < 2 + symbols for token in row)
    assert task.ceiling(length) == 1
    assert task.chance(length) == 1 / (symbols - 1)


def test_recalled_places_queries_and_fillers_are_uniform():
    count, length, symbols = 6600, 24, 5
    tokens = Recall(symbols=symbols).sample(length, count, generator()).tokens[:, :-1].numpy()
    queries = tokens[:, -1]
    places = (tokens[:, :-1] == queries[:, None]).argmax(1)
    assert Counter(places.tolist()).keys() == set(range(1, 12))
    assert stats.chisquare(np.bincount(places)[1:]).pvalue > 0.001
    assert stats.chisquare(np.bincount(queries)[2:]).pvalue > 0.001
    for query in range(2, 7):
        first = np.bincount(tokens[queries == query, 0], minlength=7)
        assert first[query] == 0
        assert stats.chisquare(np.delete(first, [0, 1, query])).pvalue > 0.001


def test_the_answer_is_uniform_over_the_other_symbols():
    tokens = Recall(symbols=6).sample(12, 6000, generator()).tokens.numpy()
    offset = (tokens[:, -1] - tokens[:, -2]) % 6
    assert set(offset) == {1, 2, 3, 4, 5}
    assert stats.chisquare(np.bincount(offset)[1:]).pvalue > 0.001


# Recall with several answers


def ancestor(count: int, length: int, source: torch.Generator):
    """The program that ambiguous recall comes from, draw by draw."""
    x = torch.randint(2, 24, (count, length), generator=source)
    idx = torch.randint(1, length // 2, (count,), generator=source)
    x[:, -1] = x[torch.arange(count), idx]
    return x, x[torch.arange(count), idx + 1]


@pytest.mark.parametrize(("length", "seed"), [(24, 99), (32, 99), (48, 99), (4, 0), (7, 1)])
def test_the_ambiguous_form_draws_the_very_sequences_of_its_ancestor(length, seed):
    ours, theirs = generator(seed), generator(seed)
    for _ in range(2):
        batch = Recall(ambiguous=True).sample(length, 64, ours)
        x, y = ancestor(64, length, theirs)
        assert torch.equal(batch.tokens[:, :-1], x)
        assert torch.equal(batch.tokens[:, -1], y)


@pytest.mark.parametrize(("length", "expected"), [(24, 0.8112), (32, 0.7509), (48, 0.6505)])
def test_the_ambiguous_ceiling_is_the_known_one(length, expected):
    assert Recall(ambiguous=True).ceiling(length) == pytest.approx(expected, abs=5e-5)


def best_by_enumeration(length: int, symbols: int) -> Fraction:
    """Write down every sequence and source; per sequence seen, bet on the likeliest answer."""
    answers: dict[tuple[int, ...], Counter[int]] = {}
    sources = range(1, length // 2)
    for drawn in product(range(symbols), repeat=length):
        for source in sources:
            seen = (*drawn[:-1], drawn[source])
            answers.setdefault(seen, Counter())[seen[source + 1]] += 1
    right = sum(max(votes.values()) for votes in answers.values())
    return Fraction(right, symbols**length * len(sources))


@pytest.mark.parametrize(
    ("length", "symbols"), [(4, 2), (5, 3), (6, 2), (6, 4), (7, 3), (8, 3), (10, 2)]
)
def test_the_ambiguous_ceiling_is_that_of_all_sequences_written_down(length, symbols):
    expected = best_by_enumeration(length, symbols)
    assert most_frequent_successor(length, symbols) == pytest.approx(float(expected), rel=1e-12)
    assert Recall(symbols=symbols, ambiguous=True).ceiling(length) == pytest.approx(
        float(expected), rel=1e-12
    )


@pytest.mark.parametrize("length", [24, 33])
def test_betting_on_the_most_frequent_successor_reaches_the_ceiling(length):
    count = 6000
    batch = Recall(ambiguous=True).sample(length, count, generator(length))
    right = 0
    for row in batch.tokens.tolist():
        votes = Counter(row[i + 1] for i in range(1, length // 2) if row[i] == row[length - 1])
        right += votes.most_common(1)[0][0] == row[-1]
    ceiling = Recall(ambiguous=True).ceiling(length)
    error = (ceiling * (1 - ceiling) / count) ** 0.5
    assert abs(right / count - ceiling) < 3 * error


def test_chance_in_the_ambiguous_form_is_one_of_all_symbols():
    assert Recall(ambiguous=True).chance(24) == 1 / 22
    assert Recall(symbols=7, ambiguous=True).chance(48) == 1 / 7


@pytest.mark.parametrize(("balls", "boxes"), [(0, 3), (1, 1), (1, 4), (3, 2), (4, 3), (5, 3)])
def test_the_fullest_box_is_that_of_all_placements_written_down(balls, boxes):
    placements = [
        [placed.count(box) for box in range(boxes)]
        for placed in product(range(boxes), repeat=balls)
    ]
    for floor in range(balls + 2):
        expected = Fraction(sum(max([floor, *boxes_]) for boxes_ in placements), len(placements))
        assert expected_maximum(floor, balls, boxes) == pytest.approx(float(expected), rel=1e-12)
        below = Fraction(sum(max(boxes_) <= floor for boxes_ in placements), len(placements))
        assert none_above(floor, balls, boxes) == pytest.approx(float(below), rel=1e-12)


@pytest.mark.parametrize("length", [0, 1, 3])
def test_recall_needs_room_for_a_place_and_its_successor(length):
    for ambiguous in (False, True):
        with pytest.raises(InputError, match=f"at least 4 tokens, got length {length}$"):
            Recall(ambiguous=ambiguous).sample(length, 1, generator())


@pytest.mark.parametrize("symbols", [1, 0, -5])
def test_recall_needs_two_symbols(symbols):
    with pytest.raises(InputError, match=f"at least 2 symbols, got {symbols}$"):
        Recall(symbols=symbols)


# Text


@pytest.fixture
def text() -> Text:
    return Text(corpus=CORPUS, vocabulary="bytes")


def decoded(text: Text, tokens) -> str:
    return text.corpus.tokenizer.decode([int(token) for token in tokens])


def test_training_windows_are_consecutive_training_tokens(text):
    train = np.asarray(text.corpus.train).tolist()
    batch = text.sample(20, 50, generator())
    assert batch.last == 20
    starts = set()
    for row, scored in zip(batch.tokens.tolist(), batch.scored.tolist(), strict=True):
        places = [i for i in range(len(train) - 20) if train[i : i + 21] == row]
        assert places
        starts.add(places[0])
        assert scored == [False] + [True] * 20
    assert len(starts) > 25


def test_training_windows_reach_the_last_token_and_no_further(text):
    tokens = len(text.corpus.train)
    whole = text.sample(tokens - 1, 3, generator()).tokens
    assert whole.tolist() == [np.asarray(text.corpus.train).tolist()] * 3
    with pytest.raises(InputError, match=f"has {tokens:,} training tokens: .* of {tokens + 1};"):
        text.sample(tokens, 1, generator())


def test_windows_are_one_per_held_out_document_and_always_the_same(text):
    length = 30
    windows = text.windows(length, 100).tokens
    held_out = [decoded(text, document) for document in text.corpus.held_out]
    long_enough = [document for document in held_out if len(document) >= length]
    assert windows.shape == (len(long_enough), length)
    assert windows.dtype == torch.long
    for window, document in zip(windows, long_enough, strict=True):
        assert decoded(text, window) in document
    again = Text(corpus=CORPUS, vocabulary="bytes").windows(length, 100).tokens
    assert torch.equal(windows, again)


def test_fewer_windows_are_the_first_of_more(text):
    assert torch.equal(text.windows(30, 2).tokens, text.windows(30, 100).tokens[:2])


def test_windows_of_one_document_do_not_overlap_and_know_their_document(text):
    length, each = 30, 3
    found = text.windows(length, 100, each)
    fitting = [np.asarray(d) for d in text.corpus.held_out if len(d) >= length]
    assert found.owners.tolist() == [
        number
        for number, document in enumerate(fitting)
        for _ in range(min(each, len(document) // length))
    ]
    assert (np.bincount(found.owners) > 1).any()
    for number, document in enumerate(fitting):
        end = 0
        for window in found.tokens[found.owners == number].numpy():
            starts = [
                start
                for start in range(end, len(document) - length + 1)
                if (document[start : start + length] == window).all()
            ]
            assert starts, "not in what is left of its document"
            end = starts[0] + length
    values = np.arange(len(found.owners), dtype=float)
    means = [values[found.owners.numpy() == n].mean() for n in range(len(fitting))]
    np.testing.assert_allclose(found.per_document(values), means)


def test_where_a_window_starts_does_not_depend_on_other_documents(text):
    fewer = Text(corpus=CORPUS, vocabulary="bytes")
    held_out = text.corpus.held_out
    vars(fewer)["corpus"] = type("Part", (), {"held_out": held_out[1:]})()
    assert torch.equal(fewer.windows(30, 100).tokens, text.windows(30, 100).tokens[1:])


def test_a_window_may_be_the_whole_document(text):
    longest = max(len(document) for document in text.corpus.held_out)
    windows = text.windows(longest, 100).tokens
    assert len(windows) >= 1
    whole = [np.asarray(d).tolist() for d in text.corpus.held_out if len(d) == longest]
    assert windows.tolist() == whole
    with pytest.raises(InputError, match=f"has {longest + 1} tokens .* longest has {longest}"):
        text.windows(longest + 1, 100)


def test_token_bytes_count_the_bytes_of_the_text():
    text = Text(corpus=CORPUS, vocabulary=300)
    for document in text.corpus.held_out:
        tokens = torch.from_numpy(np.asarray(document).astype(np.int64))
        assert int(text.token_bytes[tokens].sum()) == len(decoded(text, tokens).encode())


def test_guessing_text_costs_the_logarithm_of_the_vocabulary(text):
    assert text.vocabulary == 257
    assert text.chance(64) == pytest.approx(log(257), rel=1e-12)
    assert text.ceiling(64) == 0


def test_text_is_known_by_the_digest_of_its_corpus(text):
    assert text.data == text.corpus.digest
    opened = Text(corpus="text:nowhere", digest=text.data)
    assert torch.equal(opened.windows(30, 9).tokens, text.windows(30, 9).tokens)
    assert Recall().data is None
