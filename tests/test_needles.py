"""Needles: prompts are as long as asked, needles where asked, and scores those of other oracles."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch

from longreach import cli, report
from longreach.corpora import Document
from longreach.errors import InputError
from longreach.measure.measured import wilson
from longreach.pretrained import LanguageModel
from longreach.pretrained.answers import CHOICES, DIGITS, ENDS, LEAST_WORDS, WORDS, pool_of
from longreach.pretrained.base import one_by_one
from longreach.pretrained.haystack import NEAR, Haystacks, haystacks, hide
from longreach.pretrained.hunt import Hunt, NeedleRequest, nominal
from longreach.pretrained.needles import NEEDLES, Answering, Trial, judge, prompt
from longreach.pretrained.passes import Ledger
from longreach.pretrained.seek import seek
from longreach.repairs import Repair
from longreach.report.depths import percent
from longreach.report.summarise import summarise
from longreach.report.tables import depth_table, score_table
from longreach.results import Results

from . import tiny_models

TRAINED = 300
KINDS = pytest.mark.parametrize("kind", NEEDLES)
ASKS = [(kind, template) for kind, about in NEEDLES.items() for template in about.templates]
WRITES = {
    "words": r" ?[A-Za-z]+| ?[^\sA-Za-z]|\s",
    "indented words": r"\n[ \n]*(?= )|\n+| ?[A-Za-z]+| ?[^\sA-Za-z]|\s",
    "characters": r"[\s\S]",
}
"""Tokenizers, as patterns of tokens. The second writes a line break together with the indent that
follows, as those of GPT-2's kind do; the last has no words, so that numbers are hidden."""
TOKENIZERS = pytest.mark.parametrize("writes", WRITES)


class Toy:
    """A LanguageModel without weights, which knows nothing: each token has a logit of its own."""

    limit: int | None = None
    by_length = False
    trained_length = TRAINED
    vocabulary = 2048

    def __init__(self, writes: str = "words") -> None:
        self.name = self.digest = f"{type(self).__name__} {writes}"
        self.pattern, self.known = re.compile(WRITES[writes]), dict(vocabulary(writes))
        self.listed: list[str] = []
        self.worn: tuple[str, int] | None = None
        self.passes: list[tuple[tuple[int, ...], tuple[str, int] | None]] = []
        self.favours = torch.rand(self.vocabulary, generator=torch.Generator().manual_seed(1))

    def encode(self, text: str) -> list[int]:
        return [self.known.setdefault(each, len(self.known)) for each in self.pattern.findall(text)]

    def decode(self, tokens: list[int]) -> str:
        texts = self.texts()
        return "".join(texts[token] for token in tokens)

    def texts(self) -> list[str]:
        """Of every token; kept, as each token is asked for alone."""
        if len(self.listed) < len(self.known):
            self.listed = list(self.known)
        return self.listed

    def holds(self, tokens) -> bool:
        return True

    def logits(self, tokens, *, last=None):
        self.passes.append((tuple(tokens[0].tolist()), self.worn))
        read = tokens[0].tolist()
        ends = range(len(read) - (last or len(read)) + 1, len(read) + 1)
        return torch.stack([self.after(read[:end]) for end in ends])[None]

    def continued(self, tokens, endings, last):
        return one_by_one(self, tokens, endings, last)

    def after(self, read: list[int]) -> torch.Tensor:
        """The logits behind so many tokens."""
        return self.favours.clone()

    def losses(self, tokens, *, last=None):
        raise NotImplementedError("needles are judged by logits")

    @contextmanager
    def wearing(self, repair: Repair | None, target_length: int) -> Iterator[object]:
        before, self.worn = self.worn, repair and (repair.name, target_length)
        yield None if repair is None else Told(repair, target_length)
        self.worn = before


def trial(kind, hays: Haystacks, pool, length: int, depth: float, number: int) -> Trial:
    """The needle at one depth, asked for alone."""
    return prompt(kind, hays, pool, length, (depth,), number).trials[0]


class Told:
    """Stands for a Proof."""

    def __init__(self, repair: Repair, target_length: int) -> None:
        self.told = {"repair": str(repair), "target_length": target_length, "worn": []}

    def as_json(self) -> dict[str, object]:
        return self.told | {"layers_touched": 0, "layers_untouched": 0}


@lru_cache
def vocabulary(writes: str) -> dict[str, int]:
    """The tokens of all that is read here, so that none is numbered by what came before it."""
    leads = [part for _, t in ASKS for part in (t.lead, t.question, f"a{t.after}\n")]
    words = [" ".join(WORDS), "\n".join(WORDS), " 0 1 2 3 4 5 6 7 8 9", "a. b? c, d; e:"]
    text = "\n".join([*(document.text for document in toy_documents()), *leads, *words])
    found = dict.fromkeys(re.findall(WRITES[writes], text))
    return {token: number for number, token in enumerate(found)}


class Finder(Toy):
    """Knows: it writes what came after the longest earlier text that is like the text so far.

    It does so for what it read `reach` tokens ago or later.
    """

    reach = 10**6

    def after(self, read: list[int]) -> torch.Tensor:
        found = super().after(read)
        best, told = 0, None
        for end in range(max(1, len(read) - self.reach), len(read)):
            alike = 0
            while alike < end and read[end - 1 - alike] == read[-1 - alike]:
                alike += 1
            if alike >= max(best, 1):
                best, told = alike, read[end]
        if told is not None:
            found[told] = 2.0
        return found


class Doubter(Finder):
    """Knows, but is unsure behind some texts; how many, `doubts` says."""

    doubts = 1.0

    def after(self, read: list[int]) -> torch.Tensor:
        seed = hash(tuple(read)) % 2**31
        noise = torch.rand(self.vocabulary, generator=torch.Generator().manual_seed(seed))
        return super().after(read) + 2.2 * noise * (noise > 0.5) * (noise[0] < self.doubts)


def toy_documents(count: int = 3, lines: int = 150) -> list[Document]:
    """Text in indented lines of a few words, none of them in WORDS."""
    random = np.random.default_rng(0)
    syllables = ["ka", "lo", "mi", "ren", "tus", "vek", "zor", "pli"]
    found = []
    for number in range(count):
        rows = [
            " " * random.integers(0, 5) + " ".join(random.choice(syllables, random.integers(2, 9)))
            for _ in range(lines)
        ]
        found.append(Document(f"toy{number}", ".\n".join(rows) + ".\n"))
    return found


def toy_hays(model: Toy, documents: list[Document] | None = None) -> Haystacks:
    found = sorted(documents or toy_documents(), key=lambda document: document.fingerprint)
    return Haystacks(model, "toy", found)


def toy_folder(folder: Path) -> str:
    folder.mkdir()
    for document in toy_documents():
        (folder / f"{document.name}.txt").write_text(document.text, encoding="utf-8")
    return f"text:{folder}"


class Quiet:
    """A Display that counts what it is told."""

    def __init__(self) -> None:
        self.steps = self.advanced = self.rounds = 0

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        self.steps = steps

    def advance(self, steps: int) -> None:
        self.advanced += steps

    def finish(self, label: str) -> None:
        self.rounds += 1


def sought(model: Toy, out: Path, text: str, **asked):
    limits = {"max_seconds": asked.pop("max_seconds", None), "display": Quiet()}
    asked = {"lengths": (150, 600), "depths": (0.0, 0.5, 1.0), "trials": 2} | asked
    return seek(model, NeedleRequest(texts=(text,), **asked), out, command="test", **limits)


def shape_of(kind: str, writes: str) -> int:
    """A length into which a needle fits, with text around it."""
    return {"words": 400, "indented words": 400, "characters": 1600}[writes]


# Wordings


def test_every_kind_has_several_wordings_and_a_source():
    for about in NEEDLES.values():
        assert len({*about.templates}) == len(about.templates) >= 3
        assert re.search(r"arXiv:\d{4}\.\d{5}", about.source)


@pytest.mark.parametrize(("kind", "template"), ASKS)
def test_a_needle_is_asked_for_in_the_words_that_it_is_told_in(kind, template):
    key = "lemon" if "{key}" in template.lead else ""
    assert bool(key) == (NEEDLES[kind].told > 1 and not NEEDLES[kind].each_its_own)
    statement, prompt = template.statement("tiger", key), template.prompt(key)
    last = prompt.rpartition("\n")[2]
    assert statement.startswith(f"{last} tiger")
    assert f"{statement}\n".removeprefix(f"{last} tiger").startswith(ENDS)
    assert "tiger" not in prompt
    assert key in last
    assert "{" not in statement + prompt
    # Or a choice could hit upon words of the question.
    assert not {*re.findall(r"\w+", statement + prompt)} & ({*WORDS} - {"tiger", key})


def test_words_are_plain_and_each_there_once():
    assert len({*WORDS}) == len(WORDS) > 10 * CHOICES
    assert all(re.fullmatch("[a-z]{3,}", word) for word in WORDS)


# Prompts


@KINDS
@TOKENIZERS
@pytest.mark.parametrize("depth", [0.0, 0.3, 0.77, 1.0])
def test_a_prompt_is_as_long_as_asked_and_holds_the_needle_once_at_its_depth(kind, writes, depth):
    model = Toy(writes)
    assert isinstance(model, LanguageModel)
    hays, pool, length = toy_hays(model), pool_of(model), shape_of(kind, writes)
    assert bool(pool.words) == (writes != "characters")
    for number in range(5):
        made = trial(kind, hays, pool, length, depth, number)
        tokens = made.tokens.tolist()
        text = model.decode(tokens)
        assert len(tokens) == length
        assert text.count(made.statement) == 1
        assert len(re.findall(rf"\b{made.answer.text}\b", text)) == 1
        # On a line of its own, from the token on that is named.
        assert re.search(rf"(^|\n){re.escape(made.statement)}\n", text)
        before, told = model.decode(tokens[: made.place]), model.decode(tokens[made.place :])
        assert told.removeprefix("\n").startswith(made.statement)
        assert model.decode(list(made.answer.tokens)) == f" {made.answer.text}"
        # The question comes last, and with the answer behind it, it is what was told.
        lead = made.statement.partition(f" {made.answer.text}")[0]
        assert text.endswith(f"\n{lead}")
        (template,) = (each for each in NEEDLES[kind].templates if same_form(each.lead, lead))
        wordings = NEEDLES[kind].templates if NEEDLES[kind].each_its_own else (template,)
        told_before, told_in_all = (
            [line for line in part.split("\n") if any(same_form(w.lead, line) for w in wordings)]
            for part in (before, text.removesuffix(lead))
        )
        assert len(told_in_all) == NEEDLES[kind].told
        # Its depth is a share of the text that is neither needle nor question.
        hay_before = made.place - size(model, told_before)
        hay = length - size(model, told_in_all) - len(model.encode(template.prompt("key")))
        slack = 2 * len(told_in_all) + 8  # line breaks, and a key of another size
        assert abs(hay_before - depth * hay) <= NEAR + slack
        if depth in (0, 1):
            assert abs(hay_before - depth * hay) <= slack


@TOKENIZERS
@pytest.mark.parametrize("count", [1, 3, CHOICES])
@pytest.mark.parametrize("kind", [name for name, about in NEEDLES.items() if about.told > 1])
def test_of_one_text_every_needle_is_asked_for_and_nothing_else_differs(kind, writes, count):
    model = Toy(writes)
    hays, pool, length = toy_hays(model), pool_of(model), shape_of(kind, writes)
    depths = tuple((number + 0.5) / count for number in range(count))
    for number in range(5):
        told = prompt(kind, hays, pool, length, depths, number)
        assert len(told.trials) == count
        assert max(len(made.tokens) for made in told.trials) == length
        answers = [made.answer for made in told.trials]
        assert len({answer.text for answer in answers}) == count
        statements = [made.statement for made in told.trials]
        assert len({*statements}) == count
        assert sorted(made.place for made in told.trials) == [made.place for made in told.trials]
        for made in told.trials:
            assert torch.equal(made.tokens[: told.shared], told.tokens)
            text = model.decode(told.tokens.tolist())
            assert all(text.count(statement) == 1 for statement in statements)
            question = model.decode(made.tokens[told.shared :].tolist())
            lead = made.statement.partition(f" {made.answer.text}")[0]
            assert question.endswith(f"\n{lead}") or question == lead
            assert made.answer.text not in question
        one = trial(kind, hays, pool, length, depths[0], number)
        if count == 1:
            assert one.tokens.tolist() == told.trials[0].tokens.tolist()


def size(model: Toy, lines: list[str]) -> int:
    """Tokens of some lines."""
    return sum(len(model.encode(f"{line}\n")) for line in lines)


def same_form(lead: str, text: str) -> bool:
    """Whether a text begins as a lead does, whatever its key."""
    return re.match(re.escape(lead).replace(r"\{key\}", r"\w+"), text) is not None


@KINDS
def test_every_wording_and_several_documents_are_drawn(kind):
    model = Toy()
    hays, pool = toy_hays(model), pool_of(model)
    made = [trial(kind, hays, pool, 400, 0.5, number) for number in range(40)]
    drawn = {
        template
        for template in NEEDLES[kind].templates
        if any(same_form(template.lead, each.statement) for each in made)
    }
    assert drawn == {*NEEDLES[kind].templates}
    assert {each.document for each in made} == {"toy0", "toy1", "toy2"}
    assert len({each.answer.text for each in made}) > 20


@KINDS
def test_a_trial_depends_on_its_kind_length_depth_and_number_alone(kind):
    def made(order):
        model = Toy()
        hays, pool = toy_hays(model), pool_of(model)
        return {cell: trial(kind, hays, pool, *cell) for cell in order}

    cells = [(n, depth, number) for n in (300, 400) for depth in (0, 1) for number in (0, 1)]
    one, other = made(cells), made([*cells[::-2], (700, 0.5, 9)])
    for cell in cells[::-2]:
        assert one[cell].tokens.tolist() == other[cell].tokens.tolist()
        assert one[cell].answer == other[cell].answer
    assert len({tuple(each.tokens.tolist()) for each in one.values()}) == len(cells)


@TOKENIZERS
def test_statements_may_stand_anywhere_also_together_and_the_length_still_holds(writes):
    """Every place of a stretch, so that all joints with line breaks are met."""
    model = Toy(writes)
    hay = toy_hays(model).nth(300, 0)
    for end in (int(hay.lines[-1]), 307, 311):
        for depth in np.linspace(0, 1, 41):
            told = [(depth, "One is here."), (depth, "Two is here."), (0.5, "Three is here.")]
            hidden = hide(model, hay, end, 290, told, ["What?"])
            whole = [*hidden.tokens, *hidden.endings[0]]
            assert len(whole) == 290
            text = model.decode(whole)
            for place, (_, statement) in zip(hidden.places, told, strict=True):
                assert re.search(rf"(^|\n){statement}\n", text)
                rest = model.decode(whole[place:])
                assert rest.removeprefix("\n").startswith(statement)
            assert text.endswith("\nWhat?")
            left = text
            for _, statement in told:
                left = left.replace(statement, "")
            hay_left = re.sub(r"\s", "", left.removesuffix("What?"))
            assert hay_left in re.sub(r"\s", "", model.decode(hay.tokens))


def test_needles_stand_between_lines_or_else_sentences_or_else_where_they_should():
    model = Toy()
    line = "ka lo mi ren. tus vek zor pli " * 60
    for text, before in ((line, ". "), (line.replace(".", ""), "")):
        hay = toy_hays(model, [Document("flat", text)]).nth(200, 0)
        hidden = hide(model, hay, 220, 200, [(0.5, "Here it is.")], ["What?"])
        told = model.decode(hidden.tokens).partition("\nHere it is.\n")
        assert told[1]
        if before:
            assert told[0].endswith("ren.")
            assert told[2].startswith(" tus")
    assert abs(hidden.places[0] - 0.5 * (200 - 8)) <= 1


def test_text_that_holds_the_words_leaves_too_few_to_hide():
    documents = [Document("full", " ".join(WORDS[: 1 - CHOICES]) + "\n" + "ka lo\n" * 200)]
    model = Toy()
    hays, pool = toy_hays(model, documents), pool_of(model)
    with pytest.raises(InputError, match=f"all but {CHOICES - 1} occur"):
        trial("passkey", hays, pool, len(hays.haystack(0).tokens), 0.5, 0)


def test_a_text_that_is_too_short_and_a_length_that_holds_no_needle_are_refused():
    model = Toy()
    hays, pool = toy_hays(model), pool_of(model)
    with pytest.raises(InputError, match="no document of toy has 90,000 tokens"):
        hays.nth(90_000, 0)
    with pytest.raises(InputError, match=r"leaves nothing of 20 for text"):
        trial("passkey", hays, pool, 20, 0.5, 0)


# Answers


def test_words_are_hidden_where_there_are_enough_and_numbers_elsewhere():
    words, digits = pool_of(Toy("words")), pool_of(Toy("characters"))
    assert len(words.words) == len(WORDS) >= LEAST_WORDS
    assert (words.width, words.chance) == (1, 1 / CHOICES)
    assert not digits.words
    assert digits.width == 2 * DIGITS  # a space and a digit
    assert digits.chance == pytest.approx(10.0**-DIGITS)
    for pool in (words, digits):
        drawn = pool.draw(np.random.default_rng(0), "")
        assert len({answer.text for answer in drawn}) == CHOICES
        for answer in drawn:
            assert answer.chance == pytest.approx(pool.chance)
            assert len(answer.tokens) == len(answer.others) == pool.width
            for token, others in zip(answer.tokens, answer.others, strict=True):
                assert len({*others}) == len(others) in (0, CHOICES - 1)
                assert token not in others


def test_a_tokenizer_without_words_or_digits_of_their_own_is_refused():
    class Muddled(Toy):
        def encode(self, text: str) -> list[int]:
            return super().encode(text)[: len(text) // 2]

    with pytest.raises(InputError, match="neither words nor digits"):
        pool_of(Muddled("characters"))


@pytest.mark.parametrize(
    ("kept", "right"),
    [
        ([[2, 1, 0, 1]], (True, True)),
        ([[1, 2, 0, 0]], (False, True)),  # would rather write something else
        ([[1, 2, 0, 2]], (False, False)),
        ([[1, 1, 0, 0]], (False, True)),  # ties are wrong
        ([[1, 2, 0, 1]], (False, False)),
        ([[2, 1, 0, 1], [0, 1, -9, -9]], (False, True)),
        ([[2, 1, 0, 1], [2, 1, -np.inf, -np.inf]], (True, True)),
        ([[np.nan, 1, 0, 0]], (False, False)),
        ([[2, np.nan, 0, np.nan]], (False, False)),
    ],
)
def test_what_is_right(kept, right):
    assert tuple(judge(np.array(kept, dtype=np.float32))) == right


@pytest.mark.parametrize(
    ("kind", "writes", "depths"),
    [
        ("passkey", "words", (0.5,)),
        ("passkey", "characters", (0.5,)),
        ("key_value", "words", (0.2, 0.8)),
    ],
)
def test_scores_are_those_of_writing_greedily_and_of_reading_every_answer(kind, writes, depths):
    """Oracles: tokens written one by one, each pass anew; and for words, all ten answers read."""
    model = Doubter(writes)
    length = 200 if kind == "passkey" else 400
    model.doubts = 1.0 if writes == "words" else 0.1
    hays, pool = toy_hays(model), pool_of(model)
    digits = [model.encode(str(digit))[0] for digit in range(10)]
    found = []
    for number in range(14):
        told = prompt(kind, hays, pool, length, depths, number)
        answering = Answering(told, None, 0)
        every = answering.make(model).numpy()
        assert every.shape == answering.shape
        for made, kept in zip(told.trials, every, strict=True):
            read, answer = made.tokens.tolist(), made.answer
            exact, choice = judge(kept)
            written = list(read)
            for _ in answer.tokens:
                written.append(int(model.after(written).argmax()))
            assert exact == (written[len(read) :] == list(answer.tokens))
            if writes == "words":
                odds = model.after(read).log_softmax(0)
                likeliest = max((*answer.tokens, *answer.others[0]), key=lambda token: odds[token])
                assert choice == (likeliest == answer.tokens[0])
            else:
                written = list(read)
                for others in answer.others:
                    logits = model.after(written)
                    allowed = digits if others else [model.encode(" ")[0]]
                    written.append(max(allowed, key=lambda token: float(logits[token])))
                assert choice == (written[len(read) :] == list(answer.tokens))
            found.append((bool(exact), bool(choice)))
    assert {(True, True), (False, False)} <= {*found}
    assert all(choice for exact, choice in found if exact)


# Searches


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    return toy_folder(tmp_path_factory.mktemp("needles") / "toy")


def values(results: Results, metric: str, **fields) -> list[float]:
    return [
        row.value
        for row in results.rows
        if row.metric == metric and all(getattr(row, key) == x for key, x in fields.items())
    ]


@KINDS
@pytest.mark.parametrize("writes", ["words", "characters"])
def test_who_knows_the_answer_finds_every_needle(kind, writes, text, tmp_path):
    length = shape_of(kind, writes) // 2 * (1 + (kind == "key_value"))
    asked = {"lengths": (length,), "depths": (0.0, 1.0), "trials": 2, "kinds": (kind,)}
    found = sought(Finder(writes), tmp_path / "out", text, **asked)
    assert {*values(found.results, "exact_match"), *values(found.results, "choice")} == {1.0}
    assert len(found.results.rows) == 2 * (1 + 2)


@KINDS
def test_who_does_not_look_scores_chance(kind, text, tmp_path):
    asked = {"lengths": (250,), "trials": 60, "kinds": (kind,)}
    found = sought(Toy(), tmp_path / "out", text, **asked)
    assert values(found.results, "exact_match") == [0.0]
    (chosen,) = values(found.results, "choice")
    error = (1 / CHOICES * (1 - 1 / CHOICES) / 180) ** 0.5
    assert abs(chosen - 1 / CHOICES) < 3 * error


def test_a_search_past_reach_shows_where_needles_are_lost(text, tmp_path):
    """One that remembers 250 tokens finds needles in their last part alone; all numbers agree."""
    model = Finder()
    model.reach = 250
    asked = {"repairs": (Repair.parse("yarn"),), "kinds": ("passkey",)}
    found = sought(model, tmp_path / "out", text, **asked)
    (run,) = found.results.runs
    lengths, depths = (150, 600), (0.0, 0.5, 1.0)
    items = run.items
    for row in run.rows:
        assert row.task == f"passkey ({text})"
        assert (row.trained_length, row.seed, row.status) == (TRAINED, 0, "measured")
        right = items[row.item_key]
        assert row.count == len(right) == (2 if row.metric.endswith("_by_depth") else 6)
        assert row.value == right.mean()
        assert (row.low, row.high) == wilson(int(right.sum()), len(right))
    cells = [row for row in run.rows if row.metric == "exact_match_by_depth"]
    assert {(row.evaluation_length, row.first_position) for row in cells} == {
        (length, nominal(depth, length)) for length in lengths for depth in depths
    }
    for row in cells:
        near = row.evaluation_length - row.last_position < 250
        assert row.first_position == row.last_position
        assert row.value == float(near)
    for length in lengths:
        for repair in (None, "yarn"):
            here = [r for r in run.rows if (r.evaluation_length, r.repair) == (length, repair)]
            (whole,) = (row for row in here if row.metric == "choice")
            assert (whole.first_position, whole.last_position) == (1, length)
            parts = [row for row in here if row.metric == "choice_by_depth"]
            assert whole.value == pytest.approx(np.mean([row.value for row in parts]))
            # Trial by trial, the depths in order.
            columns = np.stack([items[row.item_key] for row in parts], axis=1)
            assert items[whole.item_key].tolist() == columns.reshape(-1).tolist()


def test_every_repair_meets_the_same_prompts_set_for_what_it_should_be(text, tmp_path):
    model = Toy()
    repairs = (Repair.parse("dynamic"), Repair.parse("yarn"), None)
    sought(model, tmp_path / "out", text, repairs=repairs, target_length=900)
    by_worn: dict[object, set[tuple[int, ...]]] = {}
    for tokens, worn in model.passes:
        by_worn.setdefault(worn and worn[0], set()).add(tokens)
        if worn:
            # Of one text, shorter questions make shorter prompts.
            assert worn[1] == 900 if worn[0] == "yarn" else worn[1] - len(tokens) in range(13)
    assert by_worn.keys() == {None, "yarn", "dynamic"}
    assert by_worn[None] == by_worn["yarn"] == by_worn["dynamic"]
    assert len(by_worn[None]) == len(NEEDLES) * 2 * 3 * 2  # lengths, depths, trials
    assert len(model.passes) == 3 * len(by_worn[None])


class Killed(Finder):
    """Is interrupted after a while."""

    def __init__(self, passes: int) -> None:
        super().__init__()
        self.name = self.digest = "Finder words"
        self.allowed = passes

    def logits(self, tokens, *, last=None):
        if len(self.passes) == self.allowed:
            raise KeyboardInterrupt
        return super().logits(tokens, last=last)


def test_a_killed_search_goes_on_where_it_was_and_comes_to_the_same(text, tmp_path):
    asked = {"kinds": ("passkey",), "trials": 4}
    whole = sought(Finder(), tmp_path / "whole", text, **asked)
    killed, out = Killed(17), tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        sought(killed, out, text, **asked)
    assert not (out / "plan.json").exists()
    damaged = sorted(out.glob(".work/**/*.npy"))[3]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = Finder()
    found = sought(again, out, text, **asked)
    assert found.results.rows == whole.results.rows
    assert len(again.passes) == 24 - 17 + 1
    for one, other in zip(found.results.runs, whole.results.runs, strict=True):
        assert all((one.items[key] == value).all() for key, value in other.items.items())
    third = Finder()
    assert sought(third, out, text, **asked).results.rows == whole.results.rows
    assert third.passes == []


def test_more_trials_lengths_and_repairs_read_only_what_is_new(text, tmp_path):
    out = tmp_path / "out"
    first, then = Finder(), Finder()
    before = sought(first, out, text, kinds=("passkey",)).results.rows
    after = sought(then, out, text, kinds=("passkey",), trials=3, lengths=(150, 300, 600))
    assert len(first.passes) == 2 * 3 * 2
    assert len(then.passes) == 3 * 3 * 3 - len(first.passes)
    assert before != after.results.rows
    assert [row.count for row in after.results.rows if row.metric == "choice"] == [9, 9, 9]


def test_time_that_does_not_allow_more_leaves_whole_trials(text, tmp_path):
    out = tmp_path / "out"
    found = sought(Finder(), out, text, trials=4, max_seconds=1e-9)
    assert found.left_out == (
        "1 of 4 trials at each length and depth were done: the time did not allow more. The same "
        "command continues",
    )
    assert {row.count for row in found.results.rows} == {1, 3}
    assert "1 trial at each length and depth" in found.results.runs[0].evaluation["task"]["note"]
    assert sought(Finder(), out, text, trials=4).left_out == ()


def test_a_folder_of_another_model_or_study_is_left_alone(text, tmp_path):
    out = tmp_path / "out"
    sought(Finder(), out, text, trials=1, kinds=("passkey",))
    with pytest.raises(InputError, match="holds another model"):
        sought(Toy(), out, text, trials=1)
    plan = json.loads((out / "plan.json").read_text())
    plan["study"]["name"] = "measure"
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="holds the study 'measure'"):
        sought(Finder(), out, text, trials=1)


def test_a_table_of_positions_that_ends_is_not_run_past(text, tmp_path):
    model = Toy("characters")
    model.limit = 600
    with pytest.raises(InputError, match=r"600 tokens with an answer take 609; .* up to 591"):
        sought(model, tmp_path / "out", text)
    assert model.passes == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"lengths": ()}, "--lengths must be"),
        ({"depths": (0.5, 1.01)}, "--depths must be numbers from 0 to 1"),
        ({"depths": (float("nan"),)}, "--depths must be numbers from 0 to 1"),
        ({"depths": ()}, "--depths must be numbers from 0 to 1"),
        ({"depths": (0.5, 0.501)}, "same place in 150 tokens"),
        ({"kinds": ("pin",)}, "no --kind 'pin'; there are passkey, key_value"),
        ({"kinds": ()}, "at least one --kind"),
        ({"trials": 0}, "--trials must be at least 1"),
        ({"repairs": (Repair.parse("yarn"),), "target_length": 200}, "--target-length is 200"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        NeedleRequest(**({"lengths": (150, 600)} | asked)).checked()


def test_a_search_is_put_in_order():
    yarn = Repair.parse("yarn")
    asked = NeedleRequest(
        lengths=(600, 150, 600), depths=(1.0, 0.0, 1.0), repairs=(yarn, yarn)
    ).checked()
    assert (asked.lengths, asked.depths) == ((150, 600), (0.0, 1.0))
    assert (asked.repairs, asked.target_length) == ((None, yarn), 600)


def test_a_repair_that_depends_on_length_does_so_for_a_single_length_too():
    model = Toy()
    asked = NeedleRequest(lengths=(600,), target_length=900).checked()
    hunt = Hunt(asked, model, "passkey", toy_hays(model), pool_of(model), Ledger(Path(), model))
    targets = {
        name: hunt.answering(600, (0.5,), 0, Repair.parse(name)).target_length
        for name in ("dynamic", "yarn", "linear")
    }
    assert targets == {"dynamic": 600, "yarn": 900, "linear": 900}


# The report


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory) -> Path:
    """A folder with a model that remembers 250 tokens, and a report."""
    out = tmp_path_factory.mktemp("needles") / "out"
    model = Finder()
    model.reach = 250
    asked = {"repairs": (Repair.parse("yarn"),), "kinds": ("passkey",)}
    sought(model, out, text, lengths=(150, 300, 600), **asked)
    report.write(out)
    return out


def test_a_report_shows_scores_by_length_with_chance_and_by_depth(folder):
    summary = summarise(Results.read(folder))
    (passkey,) = summary.tasks
    assert passkey.metrics == [
        *("exact_match", "exact_match_by_depth", "choice", "choice_by_depth"),
    ]
    rows = {
        row[0].text: [cell.text for cell in row[2:]] for row in score_table(passkey, "choice").rows
    }
    assert rows["ceiling"] == ["100.0"] * 3
    assert rows["chance"] == [f"{100 / CHOICES:.1f}"] * 3
    table = depth_table(passkey, "exact_match_by_depth")
    assert table.columns == ("scheme", "depth", "150", "300 (trained)", "600")
    assert [row[1].text for row in table.rows] == [*map(percent, (0, 0.5, 1))] * 2
    low, high = (100 * bound for bound in wilson(2, 2))
    assert table.rows[0][2].text == f"100.0 [{low:.1f}, {high:.1f}]"
    assert table.rows[0][4].text.startswith("0.0 [")
    written = (folder / "summary.md").read_text(encoding="utf-8")
    assert "paired by seed and by trial" in written
    assert "arXiv:2305.16300" in written
    assert "Guessing scores 10%" in written
    assert "{" not in written


def test_the_heatmap_holds_every_cell_with_its_number(folder):
    from longreach.report.figures import figures

    summary = summarise(Results.read(folder))
    drawn = {figure.metric: figure for figure in figures(summary)}
    figure = drawn["exact_match_by_depth"]
    (cells,) = (
        rows for rows in figure.spec["datasets"].values() if any("share" in row for row in rows)
    )
    found = {(row["curve"], row["depth"], row["length"]): row["share"] for row in cells}
    shares = {"0%": (100, 0, 0), "50%": (100, 100, 0), "100%": (100, 100, 100)}
    assert found == {
        (curve, depth, str(length)): share
        for curve in ("model", "model + yarn")
        for depth, row in shares.items()
        for length, share in zip((150, 300, 600), row, strict=True)
    }
    assert figure.data.count("\n") == 1 + len(found)
    assert "model at 600: 0% at 0%, 0% at 50%, 100% at 100%" in figure.description
    assert (folder / "figures" / f"{figure.name}.png").stat().st_size > 1000
    lines = drawn["choice"].spec
    assert {0.1} == {
        row["value"]
        for rows in lines["datasets"].values()
        for row in rows
        if row.get("value") not in (None, 1.0)
    }


def test_a_long_name_ends_within_the_heatmap(folder):
    from longreach.report.figures import figures, svg_of

    drawn = {figure.metric: figure for figure in figures(summarise(Results.read(folder)))}
    figure, long = drawn["exact_match_by_depth"], "model + " + "32 factors, " * 20
    figure = replace(figure, spec=json.loads(json.dumps(figure.spec).replace("model + yarn", long)))
    shown = [text for text in re.findall(r">([^<]*)</text>", svg_of(figure)) if "32" in text]
    (name,) = shown
    assert long.startswith(name.removesuffix("…"))
    assert name.endswith("…")


def test_a_rule_that_the_axis_does_not_reach_is_not_drawn(text, tmp_path):
    from longreach.report.figures import figures

    out = tmp_path / "out"
    found = sought(Toy(), out, text, lengths=(400, 600), kinds=("passkey",), trials=1)
    (figure,) = (f for f in figures(summarise(found.results)) if f.metric == "choice")
    assert "trained length" not in figure.caption
    assert "trained length" not in json.dumps(figure.spec)
    (run,) = found.results.runs
    assert f"No length within the {TRAINED} tokens" in run.evaluation["task"]["note"]


# The command line


def longreach(capfd, monkeypatch, *arguments: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["longreach", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capfd.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return tiny_models.write(tmp_path_factory.mktemp("llama"), tiny_models.configs()["llama"])


def test_a_real_model_is_searched_from_the_command_line(tiny, text, capfd, monkeypatch, tmp_path):
    command = ["needles", tiny, "--lengths", "700,1k", "--depths", "0,1", "--trials", "1"]
    command += ["--repair", "dynamic", "--text", text, "--out", tmp_path / "out"]
    code, out, err = longreach(capfd, monkeypatch, *command)
    assert code == 0
    assert "passkey (" in out
    assert "key_value (" in out
    assert "applied dynamic for 1,024 tokens: 4 layers" in out
    assert "1 rounds, 0 of them there already" in err
    page = tmp_path / "out" / "report.html"
    assert f"report: {page}" in out
    assert page.is_file()
    monkeypatch.setattr(report, "write", lambda folder: report.Written(page, ""))
    code, out, err = longreach(capfd, monkeypatch, *command, "--json")
    assert code == 0
    assert "1 rounds, 1 of them there already" in err
    found = json.loads(out)
    # Kinds, repairs, lengths; metrics, each over all depths and at two.
    assert len(found["rows"]) == len(NEEDLES) * 2 * 2 * 2 * (1 + 2)
    assert {row["evaluation_length"] for row in found["rows"]} == {700, 1024}
    assert {row["trained_length"] for row in found["rows"]} == {tiny_models.TRAINED}
    assert (found["report"], found["left_out"]) == (str(page), [])
    assert [proof["target_length"] for proof in found["proofs"]] == [1024]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--lengths", "none"], "--lengths takes numbers of tokens"),
        (["--lengths", "60"], "leaves nothing of 60 for text"),
        (["--lengths", "900k"], "no document of"),
        (["--depths", "0,deep"], "--depths takes numbers from 0 to 1 between commas, got '0,deep'"),
        (["--depths", "1.5"], "--depths takes numbers from 0 to 1"),
        (["--kind", "pin"], "there is no --kind 'pin'"),
        (["--trials", "0"], "--trials must be at least 1"),
        (["--max-minutes", "0"], "--max-minutes must be above 0"),
        (["--repair", "yarm"], "yarm"),
        (["--text", "text:/nowhere"], "/nowhere"),
        (["--repair", "yarn", "--target-length", "100"], "--target-length is 100"),
    ],
)
def test_bad_input_ends_with_2_and_says_why(
    change, message, tiny, text, capfd, monkeypatch, tmp_path
):
    command = ["needles", tiny, "--lengths", "800", "--text", text, "--out", tmp_path / "out"]
    code, out, err = longreach(capfd, monkeypatch, *command, *change)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("error:") == 1


def test_the_standard_library_is_text_enough():
    model = Toy("indented words")
    hays, pool = haystacks(model, "stdlib"), pool_of(model)
    for kind in NEEDLES:
        assert len(trial(kind, hays, pool, 2048, 0.5, 1).tokens) == 2048
