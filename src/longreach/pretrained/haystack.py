"""Haystacks: stretches of real documents, and statements hidden in them at a depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from ..corpora import Document
from ..errors import InputError
from .answers import following
from .base import LanguageModel
from .windows import LEAST_BYTES, sources

NEAR = 64
"""Tokens that a statement is moved by at most, so that it stands between lines or sentences."""


@dataclass(frozen=True, eq=False)
class Haystack:
    """A document, and what its places are: before each token, and after the last.

    fresh: whether a token that ends a line stands before the place. broken: whether one that begins
    with a line break stands behind it (some tokenizers write it together with the next indent).
    between: whether one sentence ends before it, and a space comes behind.
    """

    name: str
    tokens: list[int]
    fresh: Bool[NDArray[np.bool_], " places"]
    broken: Bool[NDArray[np.bool_], " places"]
    between: Bool[NDArray[np.bool_], " places"]

    @cached_property
    def lines(self) -> Int[NDArray[np.int64], " some"]:
        """The places between lines, ascending."""
        return np.flatnonzero(self.fresh | self.broken)

    @cached_property
    def sentences(self) -> Int[NDArray[np.int64], " some"]:
        """The places between sentences, ascending."""
        return np.flatnonzero(self.between)

    def ends(self, length: int) -> NDArray[np.int64]:
        """Where a stretch of so many tokens may end: with a line, unless none is long enough."""
        found: NDArray[np.int64] = self.lines[self.lines >= length]
        return found if len(found) else np.arange(length, len(self.tokens) + 1)


@dataclass
class Haystacks:
    """The documents of a text, read with a model's tokenizer when they are asked for."""

    model: LanguageModel
    label: str
    documents: list[Document]
    read: dict[int, Haystack] = field(default_factory=dict)
    marks: dict[int, tuple[bool, ...]] = field(default_factory=dict)
    """By token, what `marks_of` says of it."""
    fitting: dict[int, tuple[list[int], int]] = field(default_factory=dict)
    """By length, the documents found that are long enough, and the one to look at next."""

    def nth(self, length: int, number: int) -> Haystack:
        """The document for the trial of this number: one that has so many tokens.

        Documents come in the order of their fingerprints, and over again when there are no more.
        Which it is depends on the length and the number alone.

        Raises InputError if no document is long enough.
        """
        found, coming = self.fitting.get(length, ([], 0))
        while len(found) <= number and coming < len(self.documents):
            size = len(self.documents[coming].text.encode())
            # Most are too short, which is seen without a tokenizer.
            if size >= LEAST_BYTES * length and len(self.haystack(coming).tokens) >= length:
                found.append(coming)
            coming += 1
        self.fitting[length] = found, coming
        if not found:
            longest = max((len(each.tokens) for each in self.read.values()), default=0)
            has = f" (the longest has {longest:,})" if longest else ""
            raise InputError(
                f"no document of {self.label} has {length:,} tokens{has}; give longer text, or "
                "shorter --lengths"
            )
        return self.haystack(found[number % len(found)])

    def haystack(self, number: int) -> Haystack:
        """One document, tokenized."""
        if number not in self.read:
            document = self.documents[number]
            tokens = self.model.encode(document.text)
            for token in {*tokens} - self.marks.keys():
                self.marks[token] = marks_of(piece(self.model, token))
            marks = np.array([self.marks[token] for token in tokens], dtype=bool).reshape(-1, 4)
            # Of the token before each place, and of the one behind it; at either end there is none.
            before, behind = np.pad(marks, ((1, 0), (0, 0))), np.pad(marks, ((0, 1), (0, 0)))
            self.read[number] = Haystack(
                document.name,
                tokens,
                fresh=before[:, 0],
                broken=behind[:, 1],
                between=before[:, 2] & behind[:, 3],
            )
        return self.read[number]


def piece(model: LanguageModel, token: int) -> str:
    """The text of one token within a text: alone, some would lose the space before them."""
    anchor = model.encode("a")
    return model.decode([*anchor, token])[len(model.decode(anchor)) :]


def marks_of(text: str) -> tuple[bool, bool, bool, bool]:
    r"""Whether it ends a line, begins with a line break, ends a sentence, begins with a space.

    >>> marks_of(".\n"), marks_of("\n    ")
    ((True, False, True, False), (False, True, False, True))
    """
    ends, begins = text.endswith("\n"), text.startswith(("\n", "\r"))
    return ends, begins, text.rstrip().endswith((".", "!", "?")), text[:1].isspace()


def haystacks(
    model: LanguageModel, text: str, say: Callable[[str], None] = lambda line: None
) -> Haystacks:
    """Those of a corpus (`stdlib`, `text:FOLDER`, `hf:NAME`), or of a file or folder."""
    label, found = sources(text)
    say(f"reading {label} with the tokenizer of {model.name}")
    return Haystacks(model, label, sorted(found, key=lambda document: document.fingerprint))


@dataclass(frozen=True)
class Hidden:
    """A text with statements in it, and what is to follow.

    places: how many tokens stand before each statement, in the order given. endings: the tokens of
    each question.
    """

    tokens: list[int]
    places: tuple[int, ...]
    endings: tuple[list[int], ...]


def hide(
    model: LanguageModel,
    hay: Haystack,
    end: int,
    length: int,
    statements: Sequence[tuple[float, str]],
    questions: Sequence[str],
) -> Hidden:
    """Hay up to `end` with statements in it, exactly `length` tokens with the longest question.

    statements: each with its depth: 0 before all hay, 1 behind it. They stand on lines of their
    own, between lines or sentences of the hay where there are some within NEAR tokens of the depth.
    end: the tokens of the document up to the question, at least `length`.

    Raises InputError if statements and question leave no room for hay.
    """
    told = [lines_of(model, text) for _, text in statements]
    asked = [lines_of(model, question) for question in questions]
    longest = max(len(line) for lines in asked for line in lines.values())
    taken = longest + sum(max(map(len, each.values())) for each in told)
    if taken >= length:
        raise InputError(
            f"needle and question alone take {taken:,} tokens of {model.name}, which leaves "
            f"nothing of {length:,} for text around them; give longer --lengths"
        )
    start = end - (length - taken)
    spots = [spot(hay, start, end, depth) for depth, _ in statements]
    order = sorted(range(len(spots)), key=lambda number: spots[number])
    pieces = {}
    for number, before, behind in zip(order, [None, *order], [*order[1:], None], strict=False):
        here = spots[number]
        another = (each is not None and spots[each] == here for each in (before, behind))
        after_another, before_another = another
        lead = not (here == start or after_another or hay.fresh[here])
        tail = here in (start, end) or before_another or not hay.broken[here]
        pieces[number] = told[number][lead, tail]
    lead = not (end in spots or hay.fresh[end])
    endings = tuple(lines[lead, False] for lines in asked)
    # Line breaks that were not needed give their place to hay, at its beginning.
    reached = end - (length - max(map(len, endings)) - sum(map(len, pieces.values())))
    tokens: list[int] = []
    places = [0] * len(spots)
    for number in order:
        if spots[number] != start:
            tokens += hay.tokens[reached : spots[number]]
            reached = spots[number]
        places[number] = len(tokens)
        tokens += pieces[number]
    return Hidden(tokens + hay.tokens[reached:end], tuple(places), endings)


def lines_of(model: LanguageModel, text: str) -> dict[tuple[bool, bool], list[int]]:
    """The tokens of a line, by whether a line break is put before it, and one behind it."""
    found = {}
    for tail in (False, True):
        whole = text + "\n" * tail
        found[False, tail] = following(model, "\n", whole)
        found[True, tail] = following(model, " a", f"\n{whole}")
    return found


def spot(hay: Haystack, start: int, end: int, depth: float) -> int:
    """The place in the document where a statement at this depth of a stretch is to stand."""
    wanted = start + round(depth * (end - start))
    if wanted in (start, end):
        return wanted
    for marks in (hay.lines, hay.sentences):
        inside = marks[(marks >= max(start, wanted - NEAR)) & (marks <= min(end, wanted + NEAR))]
        if len(inside):
            return int(inside[np.abs(inside - wanted).argmin()])
    return wanted
