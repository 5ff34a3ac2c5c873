"""Needles: something is told within a long text and asked for at its end; kinds and their trials.

Asked in words that a base model completes, and scored without any model that speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..repairs import Repair
from .answers import CHOICES, WORDS, Answer, Pool
from .base import LanguageModel
from .haystack import Haystacks, hide
from .passes import key_of, worn_key


@dataclass(frozen=True)
class Template:
    """How a needle is told and asked for.

    lead: comes right before the answer, where it is told and, in the same words, where it is asked
    for. after: ends the statement. question: a line before the lead, or nothing. {key} stands for
    the key, in lead and question.
    """

    lead: str
    after: str = "."
    question: str = ""

    def statement(self, answer: str, key: str = "") -> str:
        """What is hidden.

        >>> NEEDLES["passkey"].templates[0].statement("tiger")
        'The pass key is tiger. Remember it.'
        """
        return f"{self.lead.format(key=key)} {answer}{self.after}"

    def prompt(self, key: str = "") -> str:
        """What stands at the end of the text; the answer, behind a space, is to follow.

        >>> NEEDLES["key_value"].templates[1].prompt("lemon")
        'Entry lemon:'
        """
        lead = self.lead.format(key=key)
        return f"{self.question.format(key=key)}\n{lead}" if self.question else lead


@dataclass(frozen=True)
class Kind:
    """One kind of needle.

    about: what is asked of the model, as the end of a sentence. told: statements within the text,
    told apart by their keys, or if `each_its_own`, by their wordings. source: of the kind.
    """

    about: str
    told: int
    source: str
    templates: tuple[Template, ...]
    each_its_own: bool = False


PASSKEYS = (
    Template("The pass key is", ". Remember it.", "What is the pass key?"),
    Template("The secret word of this text is", ".", "Which word was secret?"),
    Template("Whoever wants to open the vault has to say", ".", "How is the vault opened?"),
    Template("Note to myself: the magic word is", ", do not forget it."),
)

NEEDLES: Mapping[str, Kind] = {
    "passkey": Kind(
        about="one word is told somewhere in the text and asked for at the end",
        told=1,
        source="Mohtashami and Jaggi 2023, arXiv:2305.16300",
        templates=PASSKEYS,
    ),
    "key_value": Kind(
        about=f"{CHOICES} keys with a value each are told all over the text, and the values of "
        "some are asked for at the end, one at a time",
        told=CHOICES,
        source="Liu et al. 2023, arXiv:2307.03172",
        templates=(
            Template("The value of {key} is", ".", "What is the value of {key}?"),
            Template("Entry {key}:", ""),
            Template("The box with the label {key} holds", ".", "What does the box {key} hold?"),
            Template("Replace {key} by", ";", "By what is {key} to be replaced?"),
        ),
    ),
    "facts": Kind(
        about=f"{CHOICES} words are told all over the text, each in a wording of its own, and some "
        "are asked for at the end, one at a time",
        told=CHOICES,
        source="after the multi-query needles of Hsieh et al. 2024, arXiv:2404.06654",
        templates=(
            *PASSKEYS,
            Template("The name of the lost ship was", ".", "What was the lost ship called?"),
            Template("Asked for his name, the spy answered", ".", "What did the spy answer?"),
            Template("Above the old gate somebody had carved", ".", "What stood above the gate?"),
            Template("My grandmother always called her cat", ".", "What was the cat called?"),
            Template("In the end the prize was given to team", ".", "Who was given the prize?"),
            Template("To start the engine one has to type", ".", "What starts the engine?"),
        ),
        each_its_own=True,
    ),
}
"""Kinds by name. Told in their sources with one wording each, and here with several; keys and
values are words here, and were random identifiers there."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One needle in its text.

    tokens: the prompt. place: how many of them stand before the needle.
    document: that the text is of. statement: the needle.
    """

    tokens: Int[Tensor, " length"]
    answer: Answer
    place: int
    document: str
    statement: str


@dataclass(frozen=True, eq=False)
class Prompt:
    """One text with needles in it, and a question for each of them.

    trials: their prompts are alike but for the question. The longest of them has the evaluation
    length, and the others as much less as their questions are shorter. shared: tokens before it.
    """

    trials: tuple[Trial, ...]
    shared: int

    @property
    def tokens(self) -> Int[Tensor, " shared"]:
        """The text, without a question."""
        return self.trials[0].tokens[: self.shared]


def together(kind: str, depths: Sequence[float]) -> list[tuple[float, ...]]:
    """Depths whose needles are in one text: as many as the kind tells of.

    >>> together("passkey", (0.1, 0.9)), together("facts", (0.1, 0.9))
    ([(0.1,), (0.9,)], [(0.1, 0.9)])
    """
    most = NEEDLES[kind].told
    return [tuple(depths[first : first + most]) for first in range(0, len(depths), most)]


def prompt(
    kind: str, hays: Haystacks, pool: Pool, length: int, depths: Sequence[float], number: int
) -> Prompt:
    """That of a kind, length, depths and number: the same for every repair.

    depths: one needle at each, which is asked for; as many as the kind tells at most.

    Template, stretch of text, words and the depths of the statements that are not asked for are
    drawn with these as the seed; the document follows from length and number. No word of an
    answer, of another answer that it is compared with, or of a key is in the text around.

    Raises InputError if no document is long enough, the needles do not fit into the length, or the
    text leaves too few words.
    """
    about = NEEDLES[kind]
    seed = [round(1e6 * depth) for depth in depths]
    random = np.random.default_rng([crc32(kind.encode()), length, *seed, number])
    template = about.templates[random.integers(len(about.templates))]
    wordings = [template] * about.told
    if about.each_its_own:
        wordings = [about.templates[place] for place in random.permutation(about.told)]
    hay = hays.nth(length, number)
    end = int(random.choice(hay.ends(length)))
    around = hays.model.decode(hay.tokens[end - length : end]).lower()
    answers = pool.draw(random, around)
    keyed = about.told > 1 and not about.each_its_own
    keys = keys_for(random, around, answers) if keyed else [""] * about.told
    places = [*depths, *random.random(about.told - len(depths)).tolist()]
    told = [
        (place, wording.statement(answer.text, key))
        for place, answer, key, wording in zip(places, answers, keys, wordings, strict=False)
    ]
    questions = [wordings[which].prompt(keys[which]) for which in range(len(depths))]
    hidden = hide(hays.model, hay, end, length, told, questions)
    made = []
    for which, ending in enumerate(hidden.endings):
        tokens, place = torch.tensor([*hidden.tokens, *ending]), hidden.places[which]
        made.append(Trial(tokens, answers[which], place, hay.name, told[which][1]))
    return Prompt(tuple(made), len(hidden.tokens))


def keys_for(random: np.random.Generator, around: str, answers: list[Answer]) -> list[str]:
    """As many words that are neither around nor an answer. Raises InputError if there are not."""
    taken = {answer.text for answer in answers}
    free = [word for word in WORDS if word not in around and word not in taken]
    if len(free) < len(answers):
        raise InputError(
            f"a stretch of this text holds all but {len(free)} of the words that keys are made of; "
            "give shorter --lengths, or other text"
        )
    return [free[place] for place in random.permutation(len(free))[: len(answers)]]


@dataclass(frozen=True, eq=False)
class Answering:
    """One prompt under one repair: every question and its answer are read behind the same text.

    A Reading, for the Ledger. Kept are logits at each token of an answer, under the true tokens
    before it: of the true token, the highest of all other tokens, and those of the other answers'
    tokens at this place (-inf where all answers have the same).
    """

    prompt: Prompt
    repair: Repair | None
    target_length: int

    @property
    def read(self) -> int:
        """Tokens that the model reads: the text, and every question with its answer."""
        rest = (self.ending(trial) for trial in self.prompt.trials)
        return self.prompt.shared + sum(map(len, rest))

    def ending(self, trial: Trial) -> Int[Tensor, " some"]:
        """A question, and its answer but the last token."""
        answer = torch.tensor(trial.answer.tokens[:-1], dtype=torch.long)
        return torch.cat([trial.tokens[self.prompt.shared :], answer])

    @property
    def shape(self) -> tuple[int, ...]:
        """Questions, by tokens of the answer, by logits kept of each."""
        answers = [trial.answer for trial in self.prompt.trials]
        most = max(len(there) for answer in answers for there in answer.others)
        return len(answers), len(answers[0].tokens), 2 + most

    def key(self, model: LanguageModel) -> str:
        """Names the file that keeps the logits."""
        asked = [
            (self.ending(trial).tolist(), trial.answer.tokens, trial.answer.others)
            for trial in self.prompt.trials
        ]
        worn = worn_key(self.repair, self.target_length)
        return key_of(f"needles {model.digest} {asked} {worn}", self.prompt.tokens)

    def make(self, model: LanguageModel) -> Float[Tensor, "questions answer kept"]:
        """The logits."""
        endings = [self.ending(trial) for trial in self.prompt.trials]
        found = model.continued(self.prompt.tokens, endings, self.shape[1])
        kept = torch.full(self.shape, -torch.inf)
        for each, trial, logits in zip(kept, self.prompt.trials, found, strict=True):
            self.keep(each, trial.answer, logits.cpu())
        return kept

    @staticmethod
    def keep(
        kept: Float[Tensor, "answer kept"],
        answer: Answer,
        logits: Float[Tensor, "answer vocabulary"],
    ) -> None:
        """Fills in what is kept of one answer."""
        truth = torch.tensor(answer.tokens)
        kept[:, 0] = logits.gather(1, truth[:, None])[:, 0]
        kept[:, 1] = logits.scatter(1, truth[:, None], -torch.inf).max(1).values
        for place, others in enumerate(answer.others):
            kept[place, 2 : 2 + len(others)] = logits[place, list(others)]


METRICS = ("exact_match", "choice")
"""What `judge` says of a trial, in this order."""


def judge(kept: NDArray[np.float32]) -> Bool[NDArray[np.bool_], " metrics"]:
    """Whether a trial is right, by its kept logits: `exact_match`, and `choice`.

    `exact_match`: every token of the answer has the highest logit of all, under the true tokens
    before it. That is greedy decoding (see `measure.exact_match.judge`): it would write the answer.

    `choice`: every token of the answer has a higher logit than those that other answers have in its
    place. For words, one token each, this is choosing the answer of the highest probability among
    all CHOICES; chance is 1 / CHOICES. For numbers it is decoding greedily where only digits are
    allowed; chance is 1/10 for each digit.

    A tie is wrong in both, and so is what is no number.
    """
    true, best, others = kept[:, 0], kept[:, 1], kept[:, 2:]
    return np.array([bool((true > best).all()), bool((true[:, None] > others).all())])
