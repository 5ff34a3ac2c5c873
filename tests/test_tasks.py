"""Tasks: laws for every listed one, answers by solvers of their own, counts by writing all down.

A task that is added to TASKS comes under the laws by being listed (and needs a line in OPTIONS if
it cannot be built without any). One with a frame also needs a solver, which reads the printed form.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import comb, log

import numpy as np
import pytest
import torch
from scipy import stats

from longreach.errors import InputError
from longreach.measure.exact_match import right
from longreach.study import Choice, resolve
from longreach.tasks import TASKS
from longreach.tasks.addition import Addition
from longreach.tasks.base import Batch
from longreach.tasks.copy import Copy
from longreach.tasks.frame import BOS, EOS, PAD, SEP, Framed, letters
from longreach.tasks.lego import Lego
from longreach.tasks.mqar import Mqar
from longreach.tasks.needle import Needle
from longreach.tasks.parity import Parity
from longreach.tasks.pcfg import Pcfg, answer_lengths, longest_prompts
from longreach.tasks.recall import Recall, expected_maximum, most_frequent_successor, none_above
from longreach.tasks.reverse import Reverse
from longreach.tasks.scan import Scan, by_length
from longreach.tasks.show import describe, example, options_from
from longreach.tasks.text import Text

CORPUS = "text:corpus"

OPTIONS = {
    "copy": [{}, {"form": "repeated"}, {"form": "replace", "symbols": 5}, {"form": "doubled"}],
    "reverse": [{}, {"form": "doubled"}, {"form": "then_forward", "symbols": 30}],
    "addition": [{}, {"reversed": True}],
    "parity": [{}, {"ones": "uniform"}],
    "sort": [{}, {"form": "multi_digit"}, {"symbols": 3}],
    "lego": [{}, {"shuffled": True, "variables": 30}],
    "pcfg": [{}, {"symbols": 30, "longest": 20}],
    "mqar": [{}, {"filler": 5, "keys": 30}],
    "needle": [{}, {"depth": 0.25, "symbols": 3}],
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
FRAMED = pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, options)
        for name in TASKS
        if name not in ("recall", "text")
        for options in OPTIONS.get(name, [{}])
    ],
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
    assert batch.tokens.shape == batch.scored.shape
    assert len(batch.tokens) == 7
    assert batch.tokens.shape[1] <= task.total(length)
    assert name not in ("recall", "text") or batch.tokens.shape[1] == task.total(length)
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
        assert name == "recall" or task.chance(length) < task.ceiling(length)
    else:
        assert task.chance(length) > task.ceiling(length) >= 0


@LAW
def test_a_length_that_is_too_short_is_refused_by_number(name, options):
    for length in (0, -3):
        with pytest.raises(InputError, match=f"at least .* got length {length}$"):
            TASKS[name](**options).sample(length, 2, generator())


@LAW
@pytest.mark.parametrize("length", LENGTHS)
def test_what_is_printed_is_read_back(name, options, length):
    task = TASKS[name](**options)
    assert len(task.words) == len(set(task.words)) == task.vocabulary
    assert not any(re.search(r"\s", word) or not word for word in task.words)
    for row in task.sample(length, 5, generator()).tokens:
        assert task.parse(task.render(row)) == row.tolist()
        assert task.render(row.tolist()) == task.render(row)
    with pytest.raises(InputError, match="'no-such-word' is no word of this task"):
        task.parse("no-such-word")


@LAW
def test_a_task_says_what_its_length_counts_and_where_it_is_from(name, options):
    task = TASKS[name](**options)
    assert re.fullmatch(r"[a-z ]+s", task.counts)
    assert task.source
    assert name == "text" or re.search(r"arXiv:\d{4}\.\d{5}", task.source)


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


# Laws over every task with a frame


def lines(task, batch: Batch) -> list[tuple[str, str]]:
    """Prompt and answer of every sequence, as printed."""
    # Not by `render`, which is checked above, and thousands of times would be slow.
    printed = [" ".join(task.words[token] for token in row) for row in batch.tokens.tolist()]
    frame = re.compile(r"<bos> (.+) <sep> (.+) <eos>(?: <pad>)*")
    return [frame.fullmatch(line).groups() for line in printed]


@FRAMED
@pytest.mark.parametrize("length", LENGTHS)
def test_answer_and_eos_are_scored_and_nothing_else(name, options, length):
    task = TASKS[name](**options)
    batch = task.sample(length, 40, generator())
    assert task.words[:4] == ("<pad>", "<bos>", "<sep>", "<eos>")
    assert (PAD, BOS, SEP, EOS) == (0, 1, 2, 3)
    assert (batch.tokens[:, -1] != PAD).any(), "wider than its longest sequence"
    for row, scored in zip(batch.tokens.tolist(), batch.scored.tolist(), strict=True):
        separator, end = row.index(SEP), row.index(EOS)
        assert row[0] == BOS
        assert (row.count(BOS), row.count(SEP), row.count(EOS)) == (1, 1, 1)
        assert set(row[end + 1 :]) <= {PAD}
        assert PAD not in row[:end]
        places = [place for place, counts in enumerate(scored) if counts]
        if name == "mqar":
            words = task.render(row).split()
            assert places == [i for i in range(separator, end) if words[i][0] == "v"]
        else:
            assert places == list(range(separator + 1, end + 1))


@FRAMED
@pytest.mark.parametrize("length", [1, 2, 9, 24])
def test_the_answer_is_that_of_a_solver_who_reads_the_printed_form(name, options, length):
    task = TASKS[name](**options)
    if length < task.shortest:
        pytest.skip("no such length")
    for prompt, answer in lines(task, task.sample(length, 40, generator(length))):
        assert SOLVERS[name](prompt, answer, options) == answer
        assert counted(name, prompt, answer, options) == length
    assert task.ceiling(length) == 1


@FRAMED
def test_no_sequence_is_longer_than_the_total_and_one_is_as_long(name, options):
    task = TASKS[name](**options)
    for length in (1, 2) if name == "pcfg" else (2, 3):
        # Enough for what is rare: all numbers long and a carry, strings of five at every leaf.
        widths = (task.sample(length, 4000, generator(length)).tokens != PAD).sum(1)
        assert int(widths.max()) == task.total(length)
        varies = name in ("addition", "scan", "pcfg") or options.get("form") == "multi_digit"
        assert (int(widths.min()) < task.total(length)) == varies


@FRAMED
def test_prompt_and_answer_are_as_long_as_their_parts_say_and_no_longer(name, options):
    task = TASKS[name](**options)
    for length in (1, 2) if name == "pcfg" else (2, 3):
        tokens = task.sample(length, 4000, generator(length)).tokens
        prompts = (tokens == SEP).int().argmax(1) - 1
        answers = (tokens != PAD).sum(1) - prompts - 3
        assert (int(prompts.max()), int(answers.max())) == task.parts(length)
        assert task.total(length) <= sum(task.parts(length)) + 3


def test_all_tasks_but_recall_and_text_say_that_they_are_framed():
    framed = {name for name, kind in TASKS.items() if issubclass(kind, Framed)}
    assert set(TASKS) - framed == {"recall", "text"}


@FRAMED
def test_there_are_no_more_answers_than_chance_says(name, options):
    task = TASKS[name](**options)
    if name == "pcfg":
        pytest.skip("its chance depends on the answer's length")
    for length in (2, 4):
        seen = {answer for _, answer in lines(task, task.sample(length, 500, generator()))}
        seen = (
            {" ".join(re.findall(r"v\d+", answer)) for answer in seen} if name == "mqar" else seen
        )
        assert len(seen) <= round(1 / task.chance(length))


class Memory:
    """Predicts the next token by heart, but for some prefixes, where it is wrong."""

    limit = None

    def __init__(self, batch: Batch, vocabulary: int, seed: int) -> None:
        self.vocabulary = vocabulary
        source = random.Random(seed)
        self.known = {}
        for row in batch.tokens.tolist():
            for end in range(1, len(row)):
                slip = source.random() < 0.04
                self.known.setdefault(tuple(row[:end]), (row[end] + slip) % vocabulary)

    def holds(self, tokens):
        return True

    def logits(self, tokens, *, last=None):
        time = tokens.shape[1]
        last = last or time
        found = torch.zeros(len(tokens), last, self.vocabulary)
        for number, row in enumerate(tokens.tolist()):
            for column, end in enumerate(range(time - last + 1, time + 1)):
                # A prefix never met: anything, but always the same.
                found[number, column, self.known.get(tuple(row[:end]), 0)] = 1
        return found


@FRAMED
def test_a_row_is_right_exactly_when_greedy_decoding_writes_it(name, options):
    task = TASKS[name](**options)
    batch = task.sample(4, 60, generator())
    model = Memory(batch, task.vocabulary, seed=0)
    judged = right(model, batch).tolist()
    written = []
    for row, scored in zip(batch.tokens.tolist(), batch.scored.tolist(), strict=True):
        so_far = row[: scored.index(True)]
        for place in range(len(so_far), len(row)):
            guess = int(model.logits(torch.tensor([so_far]), last=1).argmax())
            so_far.append(guess if scored[place] else row[place])
        written.append(so_far == row)
    assert judged == written
    assert len(set(judged)) == 2


@FRAMED
def test_training_and_evaluation_share_little_where_there_are_many_sequences(name, options):
    task = TASKS[name](**options)
    few = name == "scan" or options.get("form") in ("repeated", "replace") or "ones" in options
    drawn = [{*lines(task, task.sample(24, 200, generator(seed)))} for seed in (0, 1)]
    assert bool(drawn[0] & drawn[1]) == few


# Solvers: from the prompt as printed to the answer as printed, in another form than the task's


def solve_copy(prompt, answer, options):
    form = options.get("form", "plain")
    if form == "replace":
        rule, string = prompt.split(" : ")
        old, new = rule.split(" -> ")
        assert old != new
        assert set(string.split()) == {old}
        return re.sub(rf"\b{old}\b", new, string)
    if form == "repeated":
        assert len(set(prompt.split())) == 1
    return prompt + (f" <next> {prompt}" if form == "doubled" else "")


def solve_reverse(prompt, answer, options):
    backwards = " ".join(prompt.split()[::-1])
    second = {"doubled": backwards, "then_forward": prompt}.get(options.get("form", ""))
    return f"{backwards} <next> {second}" if second else backwards


def solve_addition(prompt, answer, options):
    total = str(sum(int(digits.replace(" ", "")) for digits in prompt.split("+")))
    return " ".join(total[::-1] if options.get("reversed") else total)


def solve_summation(prompt, answer, options):
    return str(eval(prompt))[-1]


def solve_polynomial(prompt, answer, options):
    point, terms = re.fullmatch(r"x = (-?\d) in (.*)", prompt).groups()
    value = 0
    for coefficient, degree in re.findall(r"(-?\d) x\^(\d)", terms):
        for _ in range(int(degree)):
            coefficient = int(coefficient) * int(point)
        value += int(coefficient)
    # Not by %, whose sign is the language's choice: the digit that is a multiple of 10 away.
    return next(str(digit) for digit in range(10) if f"{value - digit}"[-1] == "0")


def solve_parity(prompt, answer, options):
    return "no" if prompt.count("1") & 1 else "yes"


def solve_sort(prompt, answer, options):
    if options.get("form") == "multi_digit":
        numbers = [number.replace(" ", "") for number in prompt.split(" , ")]
        return " , ".join(" ".join(number) for number in sorted(numbers, key=int))
    return " ".join(sorted(prompt.split(), key=int))


def solve_lego(prompt, answer, options):
    chain, asked = prompt.split(" ? ")
    meaning = dict(statement.split(" = ") for statement in chain.split(" , "))
    assert len(meaning) == chain.count("=")
    while not meaning[asked].endswith("1"):
        sign, source = meaning[asked].rsplit(" ", 1)
        meaning[asked] = f"{sign} {meaning[source]}"
    return "-1" if meaning[asked].count("-") % 2 else "+1"


def solve_scan(prompt, answer, options):
    for link, order in ((" and ", (0, 1)), (" after ", (1, 0))):
        if link in prompt:
            parts = prompt.split(link)
            return " ".join(solve_scan(parts[part], answer, options) for part in order)
    for word, times in (("twice", 2), ("thrice", 3)):
        if prompt.endswith(f" {word}"):
            return " ".join([solve_scan(prompt.removesuffix(f" {word}"), answer, options)] * times)
    verb, *rest = prompt.split()
    act = [] if verb == "turn" else [f"I_{verb.upper()}"]
    turn = [f"I_TURN_{side.upper()}" for side in rest[-1:]]
    repeats = {"opposite": turn * 2 + act, "around": (turn + act) * 4}
    return " ".join(repeats.get(rest[0], turn + act) if rest else act)


PCFG_BINARY = {"append", "prepend", "remove_first", "remove_second"}
PCFG_UNARY = {"copy", "reverse", "shift", "echo", "swap_first_last", "repeat"}


def solve_pcfg(prompt, answer, options):
    words = prompt.split()

    def read() -> str:
        """Takes one argument off the front; its value."""
        word = words.pop(0)
        if word in PCFG_BINARY:
            first = read()
            assert words.pop(0) == ","
            second = read()
            return {
                "append": f"{first} {second}",
                "prepend": f"{second} {first}",
                "remove_first": second,
                "remove_second": first,
            }[word]
        if word in PCFG_UNARY:
            value = read()
            if word == "repeat":
                return f"{value} {value}"
            head, middle, tail = re.fullmatch(r"(\S+)( .*)? (\S+)", value).groups("")
            return {
                "copy": value,
                "reverse": " ".join(reversed(value.split())),
                "shift": f"{middle} {tail} {head}".strip(),
                "echo": f"{value} {tail}",
                "swap_first_last": f"{tail}{middle} {head}",
            }[word]
        string = [word]
        while words and words[0] != ",":
            string.append(words.pop(0))
        assert 2 <= len(string) <= 5
        return " ".join(string)

    value = read()
    assert not words
    return value


def solve_mqar(prompt, answer, options):
    words = prompt.split()
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    assert len(pairs) == len(words) // 2
    queries = re.findall(r"k\d+", answer)
    assert sorted(queries) == sorted(pairs)
    assert all(word[0] in "kvf" for word in answer.split())
    assert answer.count("f") == options.get("filler", 0)
    return re.sub(r"(k\d+) \S+", lambda found: f"{found[1]} {pairs[found[1]]}", answer)


def solve_needle(prompt, answer, options):
    hay, asked = prompt.rsplit(" ", 1)
    assert hay.count(asked) == 1
    return re.search(rf"\b{asked} (v\d+)\b", hay)[1]


SOLVERS = {name.removeprefix("solve_"): f for name, f in globals().items() if "solve_" in name}


def counted(name, prompt, answer, options) -> int:
    """What length counts, read off the printed form."""
    if name == "sort" and options.get("form") == "multi_digit":
        return prompt.count(",") + 1
    signs = {"summation": "+", "polynomial": "^", "lego": "=", "mqar": "k", "needle": "f"}
    if name in signs:
        return prompt.count(signs[name]) + (name == "summation")
    if name == "copy":
        return len(prompt.split(" : ")[-1].split())
    if name == "addition":
        return max(len(number.split()) for number in prompt.split("+"))
    if name == "pcfg":
        return sum(word in PCFG_BINARY | PCFG_UNARY for word in prompt.split())
    return len((answer if name == "scan" else prompt).split())


# Chance: one over the number of answers, all written down


def written_sums(digits: int) -> int:
    numbers = range(10**digits)
    long = [n for n in numbers if len(str(n)) == digits]
    return len({a + b for a, b in product(long, numbers)})


@pytest.mark.parametrize(
    ("name", "options", "length", "answers"),
    [
        ("copy", {"symbols": 3}, 4, len([*product(range(3), repeat=4)])),
        ("copy", {"symbols": 3, "form": "doubled"}, 4, 81),
        ("copy", {"symbols": 3, "form": "repeated"}, 4, 3),
        ("copy", {"symbols": 3, "form": "replace"}, 4, 3),
        ("reverse", {"symbols": 2}, 5, 32),
        ("reverse", {"symbols": 2, "form": "then_forward"}, 5, 32),
        ("addition", {}, 1, written_sums(1)),
        ("addition", {}, 2, written_sums(2)),
        ("addition", {"reversed": True}, 3, written_sums(3)),
        ("summation", {}, 1, 9),
        ("summation", {}, 2, len({sum(d) % 10 for d in product(range(1, 10), repeat=2)})),
        ("polynomial", {}, 1, 9),
        ("polynomial", {}, 2, 10),
        ("polynomial", {}, 16, 10),
        ("parity", {}, 1, 2),
        ("sort", {"symbols": 4}, 3, len([*combinations_with_replacement(range(4), 3)])),
        ("sort", {"form": "multi_digit"}, 1, len(range(10, 10_000))),
        ("sort", {"form": "multi_digit"}, 2, 9990 * 9991 // 2),
        ("lego", {}, 2, 2),
        ("scan", {}, 1, 6),
        ("mqar", {"keys": 5}, 3, len([*permutations(range(5), 3)])),
        ("needle", {"symbols": 7}, 9, 7),
    ],
)
def test_chance_is_one_of_all_answers_written_down(name, options, length, answers):
    assert TASKS[name](**options).chance(length) == pytest.approx(1 / answers, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "length"),
    [
        ("copy", {"symbols": 2}, 3),
        ("copy", {"symbols": 5, "form": "replace"}, 9),
        ("addition", {}, 1),
        ("summation", {}, 5),
        ("polynomial", {}, 1),
        ("parity", {"ones": "uniform"}, 8),
        ("sort", {"symbols": 3}, 2),
        ("lego", {"shuffled": True}, 6),
        ("scan", {}, 3),
        ("mqar", {"keys": 3}, 2),
        ("needle", {"symbols": 4}, 5),
    ],
)
def test_a_guesser_who_knows_the_answers_there_are_scores_chance(name, options, length):
    """Whatever the distribution of right answers: the guess is uniform."""
    task = TASKS[name](**options)
    count = 6000

    def answers(seed):
        batch = task.sample(length, count, generator(seed))
        return [tuple(row[mask].tolist()) for row, mask in zip(*vars(batch).values(), strict=True)]

    known = sorted(set(answers(0)))
    source = random.Random(0)
    hits = sum(answer == source.choice(known) for answer in answers(1))
    chance = task.chance(length)
    assert abs(hits / count - chance) < 4 * (chance * (1 - chance) / count) ** 0.5


# Copy and reverse


@pytest.mark.parametrize("kind", [Copy, Reverse])
def test_the_plain_forms_are_those_of_the_small_replications(kind):
    """[BOS, x1..xn, SEP, y1..yn, EOS], loss on y and EOS, 20 symbols and PAD, BOS, SEP, EOS."""
    task = kind()
    assert task.vocabulary == 24
    for length in (1, 16, 48):
        batch = task.sample(length, 256, generator(length))
        assert batch.tokens.shape == (256, 2 * length + 3)
        assert task.total(length) == 2 * length + 3
        x, y = batch.tokens[:, 1 : length + 1], batch.tokens[:, length + 2 : -1]
        turned = x.numpy()[:, ::-1] if kind is Reverse else x.numpy()
        np.testing.assert_array_equal(y.numpy(), turned)
        assert batch.scored.sum(1).tolist() == [length + 1] * 256
        assert batch.last == length + 1


def test_symbols_are_uniform_at_every_place_and_independent_of_their_neighbours():
    tokens = Copy(symbols=5).sample(6, 20_000, generator()).tokens[:, 1:7].numpy() - 4
    for place in range(6):
        assert stats.chisquare(np.bincount(tokens[:, place], minlength=5)).pvalue > 0.001
    pairs = tokens[:, 0] * 5 + tokens[:, 1]
    assert stats.chisquare(np.bincount(pairs, minlength=25)).pvalue > 0.001


def test_replaced_and_replacing_symbols_are_uniform_over_all_pairs():
    task = Copy(form="replace", symbols=4)
    pairs = Counter(
        tuple(p.split()[:3:2]) for p, _ in lines(task, task.sample(2, 6000, generator()))
    )
    assert len(pairs) == 12
    assert stats.chisquare([*pairs.values()]).pvalue > 0.001


def test_names_never_run_out_and_never_repeat():
    names = letters(26 + 26 * 26 + 1)
    assert len(set(names)) == len(names)
    assert names[25:27] + names[-2:] == ["z", "aa", "zz", "aaa"]


# Addition, summation, polynomial, parity, sort


def test_pairs_of_digit_counts_are_uniform_over_those_whose_larger_is_the_length():
    task = Addition()
    pairs = Counter(
        tuple(len(number.split()) for number in prompt.split("+"))
        for prompt, _ in lines(task, task.sample(4, 7000, generator()))
    )
    assert set(pairs) == {(a, b) for a, b in product(range(1, 5), repeat=2) if max(a, b) == 4}
    assert stats.chisquare([*pairs.values()]).pvalue > 0.001


@pytest.mark.parametrize("size", [1, 2])
def test_numbers_to_be_added_are_uniform_over_those_of_their_size(size):
    task = Addition()
    numbers = [
        int(digits.replace(" ", ""))
        for prompt, _ in lines(task, task.sample(size, 10_000, generator()))
        for digits in prompt.split("+")
        if len(digits.split()) == size
    ]
    expected = range(10) if size == 1 else range(10, 100)
    counted = Counter(numbers)
    assert set(counted) == set(expected)
    assert stats.chisquare([counted[n] for n in expected]).pvalue > 0.001


def test_parity_is_balanced_and_its_number_of_ones_is_as_asked():
    bits = Parity().sample(8, 8000, generator()).tokens[:, 1:9] - 4
    binomial = np.bincount(bits.sum(1), minlength=9)
    assert stats.chisquare(binomial, [8000 * comb(8, k) / 256 for k in range(9)]).pvalue > 0.001
    bits = Parity(ones="uniform").sample(8, 9000, generator()).tokens[:, 1:9] - 4
    assert stats.chisquare(np.bincount(bits.sum(1), minlength=9)).pvalue > 0.001
    assert stats.chisquare(bits.sum(0).numpy()).pvalue > 0.001


@pytest.mark.parametrize(
    ("name", "options", "pattern", "expected"),
    [
        ("summation", {}, r"\d", map(str, range(1, 10))),
        ("polynomial", {}, r"-?\d(?= x)", map(str, range(-3, 4))),
        ("polynomial", {}, r"x\^\d", (f"x^{degree}" for degree in range(4))),
        ("polynomial", {}, r"(?<== )-?\d", map(str, range(-2, 3))),
        ("sort", {}, r"\d+", map(str, range(50))),
        ("lego", {"variables": 7}, r"[a-g](?= =)", "abcdefg"),
        ("lego", {}, r"[-+](?= [a-z1])", "+-"),
        ("needle", {"symbols": 4}, r"f\d", ["f0", "f1", "f2", "f3"]),
        ("needle", {"symbols": 4}, r"v\d", ["v0", "v1", "v2", "v3"]),
        ("mqar", {"keys": 6}, r"k\d", [f"k{i}" for i in range(6)]),
        ("pcfg", {"symbols": 4}, r"[A-D]1", ["A1", "B1", "C1", "D1"]),
    ],
)
def test_what_is_drawn_is_uniform(name, options, pattern, expected):
    """One find per sequence, so that the finds are independent."""
    task = TASKS[name](**options)
    batch = task.sample(4, 3000, generator(3))
    found = Counter(re.search(pattern, prompt)[0] for prompt, _ in lines(task, batch))
    expected = list(expected)
    assert set(found) == set(expected)
    assert stats.chisquare([found[word] for word in expected]).pvalue > 0.001


def test_numbers_of_several_digits_are_uniform_from_10_to_9999():
    task = TASKS["sort"](form="multi_digit")
    batch = task.sample(1, 10_000, generator())
    numbers = [int(prompt.replace(" ", "")) for prompt, _ in lines(task, batch)]
    assert 10 <= min(numbers) < 20
    assert 9980 < max(numbers) <= 9999
    assert stats.kstest(numbers, stats.randint(10, 10_000).cdf).pvalue > 0.001


# LEGO


@pytest.mark.parametrize(("length", "places"), [(2, {1}), (5, {3, 4}), (8, {4, 5, 6, 7})])
@pytest.mark.parametrize("shuffled", [False, True])
def test_questions_are_about_the_second_half_of_the_chain(length, places, shuffled):
    task = Lego(shuffled=shuffled)
    depths = Counter()
    in_order = 0
    batch = task.sample(length, 3000, generator())
    for prompt, _ in lines(task, batch):
        chain, asked = prompt.split(" ? ")
        source = {s.split()[0]: s.split()[-1] for s in chain.split(" , ")}
        in_order += all(
            b.split()[-1] == a.split()[0]
            for a, b in zip(chain.split(" , "), chain.split(" , ")[1:], strict=False)
        )
        depth = 0
        while source[asked] != "1":
            asked, depth = source[asked], depth + 1
        depths[depth] += 1
    assert set(depths) == places
    assert len(places) == 1 or stats.chisquare([*depths.values()]).pvalue > 0.001
    assert (in_order == 3000) == (not shuffled)
    answers = Counter(answer for _, answer in lines(task, batch))
    assert stats.chisquare([*answers.values()]).pvalue > 0.001


@pytest.mark.parametrize(
    ("name", "options", "length", "message"),
    [
        ("lego", {}, 27, "26 variables.* got length 27; set variables to at least 27"),
        ("lego", {}, 1, "at least 2 statements, got length 1"),
        ("mqar", {"keys": 4}, 5, "4 keys.* got length 5; set keys to at least 5"),
        ("scan", {}, 23, "no SCAN command has 23 actions; the nearest that has: 22 and 24"),
        ("scan", {}, 49, "no SCAN command has 49 actions; the nearest that has: 48"),
        ("scan", {}, 37, "36 and 40"),
        ("pcfg", {}, 201, "at most 200 functions, got length 201"),
        (
            "pcfg",
            {"longest": 5},
            24,
            r"only \d+\.\d+% .* got length 24; set longest to more than 5",
        ),
    ],
)
def test_a_length_that_no_sequence_has_is_refused(name, options, length, message):
    task = TASKS[name](**options)
    for ask in (lambda: task.sample(length, 1, generator()), lambda: task.fits(length)):
        with pytest.raises(InputError, match=message):
            ask()


# SCAN


def test_scan_has_the_published_commands():
    """Lake & Baroni: 20,910, of 1 to 48 actions; the length split trains on 16,990 up to 22."""
    turned = r"(?:walk|look|run|jump|turn)(?: opposite| around)? (?:left|right)"
    simple = rf"(?:{turned}|walk|look|run|jump)(?: twice| thrice)?"
    every = [" ".join(c.words) for commands in by_length().values() for c in commands]
    assert len(every) == len(set(every)) == 20_910
    assert all(re.fullmatch(rf"{simple}(?: (?:and|after) {simple})?", text) for text in every)
    assert (min(by_length()), max(by_length())) == (1, 48)
    sizes = {length: len(commands) for length, commands in by_length().items()}
    assert sum(size for length, size in sizes.items() if length <= 22) == 16_990
    assert {n for n in sizes if n > 22} == {24, 25, 26, 27, 28, 30, 32, 33, 36, 40, 48}
    for length, commands in by_length().items():
        for command in commands:
            assert " ".join(command.actions) == solve_scan(" ".join(command.words), "", {})
            assert len(command.actions) == length


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ("jump", "JUMP"),
        ("jump left", "LTURN JUMP"),
        ("jump around right", "RTURN JUMP RTURN JUMP RTURN JUMP RTURN JUMP"),
        ("turn left twice", "LTURN LTURN"),
        ("jump thrice", "JUMP JUMP JUMP"),
        ("jump opposite left and walk thrice", "LTURN LTURN JUMP WALK WALK WALK"),
        (
            "jump opposite left after walk around left",
            "LTURN WALK LTURN WALK LTURN WALK LTURN WALK LTURN LTURN JUMP",
        ),
    ],
)
def test_scan_acts_as_in_the_published_table(command, actions):
    spelt = actions.replace("LTURN", "TURN_LEFT").replace("RTURN", "TURN_RIGHT")
    expected = tuple(f"I_{action}" for action in spelt.split())
    (found,) = [c for c in by_length()[len(expected)] if c.words == tuple(command.split())]
    assert found.actions == expected


def test_scan_draws_every_command_of_a_length_alike():
    task = Scan()
    drawn = Counter(prompt for prompt, _ in lines(task, task.sample(2, 8800, generator())))
    assert set(drawn) == {" ".join(c.words) for c in by_length()[2]}
    assert stats.chisquare([*drawn.values()]).pvalue > 0.001


# PCFG SET


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        # The paper's
        ("repeat A1 B1 C1", "A1 B1 C1 A1 B1 C1"),
        ("echo remove_first D1 K1 , E1 F1", "E1 F1 F1"),
        ("append swap_first_last F1 G1 H1 , repeat I1 J1", "H1 G1 F1 I1 J1 I1 J1"),
        # From the published test set
        (
            "reverse shift append V12 P3 R9 J8 , repeat K19 C16 P13",
            "V12 P13 C16 K19 P13 C16 K19 J8 R9 P3",
        ),
        ("shift echo shift swap_first_last M14 F6 T15 B7 U8", "T15 B7 M14 U8 U8 F6"),
        ("echo shift remove_second K15 K16 T9 , F16 A13 A2 Y6", "K16 T9 K15 K15"),
        (
            "copy reverse repeat swap_first_last D13 N5 K13 J14 G16",
            "D13 J14 K13 N5 G16 D13 J14 K13 N5 G16",
        ),
        ("prepend swap_first_last copy O7 A2 B18 N13 , X10 Z14 W12", "X10 Z14 W12 N13 A2 B18 O7"),
        ("reverse shift swap_first_last reverse Q1 D7", "Q1 D7"),
    ],
)
def test_published_expressions_have_their_published_values(prompt, answer):
    task = Pcfg()
    assert solve_pcfg(prompt, answer, {}) == answer
    ids = task.parse(prompt)
    assert task.render(value_of(ids)[0]) == answer


def value_of(ids):
    """Value of the expression at the front, by the task's own functions; and what is left."""
    from longreach.tasks.pcfg import BINARY, COMMA, FUNCTIONS, SYMBOL, UNARY

    head, rest = ids[0], ids[1:]
    if head >= SYMBOL:
        end = next((i for i, token in enumerate(ids) if token < SYMBOL), len(ids))
        return ids[:end], ids[end:]
    name = FUNCTIONS[head - 4]
    first, rest = value_of(rest)
    if name in UNARY:
        return UNARY[name](first), rest
    assert rest[0] == COMMA
    second, rest = value_of(rest[1:])
    return BINARY[name](first, second), rest


def grown(source: random.Random, most: int):
    """A tree of the authors' generator: (functions, prompt tokens, answer tokens)."""
    if source.random() < 0.75:
        name = source.choice(sorted(PCFG_UNARY))
        functions, prompt, answer = argument(source, most - 1)
        longer = {"echo": answer + 1, "repeat": 2 * answer}
        return functions + 1, prompt + 1, longer.get(name, answer)
    name = source.choice(sorted(PCFG_BINARY))
    first, second = argument(source, most - 1), argument(source, most - 1)
    answers = {"remove_first": second[2], "remove_second": first[2]}
    answer = answers.get(name, first[2] + second[2])
    return first[0] + second[0] + 1, first[1] + second[1] + 2, answer


def argument(source: random.Random, most: int):
    if most > 0 and source.random() < 0.25:
        return grown(source, most)
    size = source.choice([2, 3, 4, 5])
    return 0, size, size


def test_pcfg_draws_what_the_published_generator_makes_with_so_many_functions():
    source = random.Random(0)
    trees = [tree for tree in (grown(source, 9) for _ in range(100_000)) if tree[0] == 3]
    task = Pcfg()
    drawn = [
        (3, len(prompt.split()), len(answer.split()))
        for prompt, answer in lines(task, task.sample(3, len(trees), generator()))
    ]
    for part in (1, 2):
        theirs = np.bincount([tree[part] for tree in trees], minlength=64)[:64]
        ours = np.bincount([tree[part] for tree in drawn], minlength=64)[:64]
        common = (theirs + ours) > 20
        assert stats.chi2_contingency([theirs[common], ours[common]]).pvalue > 0.001
    shares = answer_lengths(3, 64)
    assert shares.sum() == pytest.approx(1)
    counted = np.bincount([tree[2] for tree in drawn], minlength=65)
    common = shares * len(drawn) > 10
    expected = shares[common] * counted[common].sum() / shares[common].sum()
    assert stats.chisquare(counted[common], expected).pvalue > 0.001


@pytest.mark.parametrize("longest", [5, 10, 64])
def test_pcfg_answer_lengths_are_those_of_the_sequences_that_are_kept(longest):
    shares = answer_lengths(4, longest)
    assert len(shares) == longest + 1
    assert shares.sum() == pytest.approx(1, rel=1e-12)
    assert (shares[:2] == 0).all()
    task = Pcfg(longest=longest)
    drawn = [len(answer.split()) for _, answer in lines(task, task.sample(4, 3000, generator()))]
    counted = np.bincount(drawn, minlength=longest + 1)
    common = shares * 3000 > 8
    # What is rare makes one bin, with a little added on both sides in case there is nothing rare.
    found = [*counted[common], 3000 - counted[common].sum() + 8]
    expected = [*(3000 * shares[common]), 3000 * (1 - shares[common].sum()) + 8]
    assert stats.chisquare(found, expected).pvalue > 0.001


def test_pcfg_chance_is_that_of_a_guesser_who_knows_how_long_the_answer_is():
    task = Pcfg(symbols=2, longest=10)
    found = lines(task, task.sample(3, 5000, generator()))
    assert max(len(answer.split()) for _, answer in found) == 10
    source = random.Random(0)
    hits = sum(
        all(symbol == source.choice(["A1", "B1"]) for symbol in answer.split())
        for _, answer in found
    )
    chance = task.chance(3)
    assert abs(hits / len(found) - chance) < 4 * (chance / len(found)) ** 0.5


def sizes_of(functions: int, longest: int) -> set[tuple[int, int]]:
    """All pairs of prompt and answer tokens that so many functions can have."""
    if functions == 0:
        return {(size, size) for size in (2, 3, 4, 5)}
    found = set()
    for prompt, answer in sizes_of(functions - 1, longest):
        found |= {(prompt + 1, n) for n in (answer, answer + 1, 2 * answer)}
    for left in range(functions):
        both = product(sizes_of(left, longest), sizes_of(functions - 1 - left, longest))
        for (p, a), (q, b) in both:
            found |= {(p + q + 2, n) for n in (a, b, a + b)}
    return {(prompt, answer) for prompt, answer in found if answer <= longest}


@pytest.mark.parametrize("longest", [5, 12, 64])
@pytest.mark.parametrize("functions", [1, 2, 3])
def test_pcfg_totals_are_those_of_all_sizes_written_down(functions, longest):
    sizes = sizes_of(functions, longest)
    assert Pcfg(longest=longest).total(functions) == max(p + a for p, a in sizes) + 3
    longest_of_each = tuple(max(part) for part in zip(*sizes, strict=True))
    assert Pcfg(longest=longest).parts(functions) == longest_of_each
    prompts = longest_prompts(functions, longest)
    for answer in range(longest + 1):
        assert prompts[answer] == max((p for p, a in sizes if a == answer), default=-np.inf)


# Multi-query recall and needle


def test_queries_and_filler_come_in_random_order():
    task = Mqar(keys=3, filler=2)
    orders = Counter(
        re.sub(r"k\d+ v\d+", "q", re.sub(r"f\d+", "f", answer))
        for _, answer in lines(task, task.sample(3, 5000, generator()))
    )
    assert len(orders) == comb(5, 2)
    assert stats.chisquare([*orders.values()]).pvalue > 0.001
    task = Mqar(keys=3)
    firsts = Counter(
        prompt.split().index(answer.split()[0])
        for prompt, answer in lines(task, task.sample(3, 3000, generator()))
    )
    assert set(firsts) == {0, 2, 4}
    assert stats.chisquare([*firsts.values()]).pvalue > 0.001


def test_the_needle_is_anywhere_or_where_it_was_asked_for():
    def places(task, length):
        return Counter(
            prompt.split("k")[0].count("f")
            for prompt, _ in lines(task, task.sample(length, 1100, generator()))
        )

    anywhere = places(Needle(), 10)
    assert set(anywhere) == set(range(11))
    assert stats.chisquare([*anywhere.values()]).pvalue > 0.001
    for depth, length, place in [(0.0, 10, 0), (0.5, 10, 5), (0.5, 5, 3), (1.0, 10, 10)]:
        assert set(places(Needle(depth=depth), length)) == {place}


# Options


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("copy", {"symbols": 1}, "symbols"),
        ("copy", {"form": "plan"}, "form"),
        ("copy", {"symbol": 3}, "did you mean 'symbols'"),
        ("reverse", {"form": "replace"}, "form"),
        ("reverse", {"symbols": 0}, "symbols"),
        ("addition", {"reversed": "yes"}, "reversed"),
        ("parity", {"ones": "many"}, "ones"),
        ("sort", {"form": "single_digit"}, "form"),
        ("sort", {"symbols": 1}, "symbols"),
        ("lego", {"variables": 1}, "variables"),
        ("pcfg", {"symbols": 1}, "symbols"),
        ("pcfg", {"longest": 4}, "longest"),
        ("mqar", {"keys": 1}, "keys"),
        ("mqar", {"filler": -1}, "filler"),
        ("needle", {"symbols": 1}, "symbols"),
        ("needle", {"depth": 1.5}, "depth"),
        ("needle", {"depth": -0.1}, "depth"),
    ],
)
def test_bad_options_are_refused_by_name(name, options, message):
    with pytest.raises(InputError, match=f"task '{name}': .*{message}"):
        resolve("task", TASKS[name], Choice(name=name, options=options))
    (value,) = options.values()
    if not isinstance(value, str) and "did" not in message:
        with pytest.raises(InputError, match=f"{name}: {message} must be"):
            TASKS[name](**options)


@FRAMED
def test_options_as_a_study_gives_them_build_the_same_task(name, options):
    resolved = resolve("task", TASKS[name], Choice(name=name, options=options))
    one, two = TASKS[name](**options), TASKS[name](**resolved)
    assert torch.equal(one.sample(9, 4, generator()).tokens, two.sample(9, 4, generator()).tokens)


# What `longreach tasks show` prints


@LAW
def test_an_example_is_the_first_sequence_of_its_seed_and_says_what_the_task_states(name, options):
    found = example(name, 4, 3, options)
    task = TASKS[name](**options)
    batch = task.sample(4, 1, generator(3))
    assert found["tokens"] == batch.tokens[0].tolist() == task.parse(found["text"])
    assert found["scored_text"] == task.render(batch.tokens[batch.scored])
    said = "\n".join(describe(found))
    for part in (found["text"], task.source, f"length 4 ({task.counts})", "ceiling", "chance"):
        assert part in said
    assert (found["ceiling"], found["chance"]) == (task.ceiling(4), task.chance(4))
    assert found["total"] == task.total(4)
    assert ("at most" in said) == (len(found["tokens"]) < found["total"])


def test_options_on_the_command_line_are_values_as_in_a_study_file():
    given = ["depth=0.5", "form=doubled", 'corpus="text:x"', "n=3", "yes=true", "empty="]
    assert options_from(given) == {
        "depth": 0.5,
        "form": "doubled",
        "corpus": "text:x",
        "n": 3,
        "yes": True,
        "empty": "",
    }
    for wrong in ("symbols", "=3", ""):
        with pytest.raises(InputError, match=f"key=value, got '{wrong}'"):
            options_from([wrong])
    with pytest.raises(InputError, match="seed must be at least 0, got -1"):
        example("copy", 4, -1)
    with pytest.raises(InputError, match="did you mean 'addition'"):
        example("adition", 4, 0)


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


@pytest.mark.parametrize("name", [name for name in TASKS if name not in ("text", "recall")])
def test_a_task_says_honestly_whether_its_answers_end_with_a_token(name):
    task = TASKS[name]()
    batch = task.sample(max(task.shortest, 4), 16, torch.Generator().manual_seed(0))
    for tokens, scored in zip(batch.tokens, batch.scored, strict=True):
        answer = tokens[scored].tolist()
        if task.end is None:
            assert answer[-1] != EOS
        else:
            assert answer[-1] == task.end
            assert answer.count(task.end) == 1
