"""What a needle hides: answers that a model's tokenizer writes alike, so one pass compares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ..errors import InputError
from .base import LanguageModel

CHOICES = 10
"""Answers that the true one is chosen from, itself included."""

DIGITS = 5
"""Of a number, where words will not do."""

LEAST_WORDS = 4 * CHOICES
"""With fewer words of one token each, numbers are hidden."""

NOUNS = """
actor airport album alley almond altar amber anchor angel ankle apple arrow artist atlas attic
autumn avocado bacon badge bakery balcony ballet balloon bamboo banana barley barn barrel basil
basket beach beacon beard beaver bench berry bicycle bishop blanket bottle branch bread breeze
brick bride bridge broom bronze bucket buffalo butter butterfly cabbage cabin cactus camel camera
canal candle candy cannon canoe canyon cargo carpet carriage carrot castle cathedral cattle cave
cedar chalk champion chapel cheese cherry chess chestnut chicken chimney chocolate church cinema
circus citizen cliff cloud clown coconut coffee comet compass copper coral cottage cotton couch
cousin cradle cricket crocodile crown crystal cucumber curtain cushion dairy dancer desert diamond
dinner doctor dolphin donkey dragon drawer drum duck eagle elbow elephant falcon farmer feather
ferry finger fireplace flag flour flower flute forest fountain fox frost fruit furnace galaxy
garage garden garlic giant ginger giraffe glacier glove goose gorilla granite grass guitar hammer
harbor harvest hawk helmet hockey honey horizon horse hospital hotel hunter iceberg island ivory
jacket jewel jungle kangaroo kettle kidney kitchen kitten knight ladder lagoon lamp lantern
laundry lawyer leather lemon leopard lettuce library lightning lily lion lizard lobster lotus
magnet mango marble market meadow medal meteor milk mirror monkey moon mosquito mountain mouse
museum mushroom mustard necklace nurse oasis ocean octopus olive onion opera orchard orchid oven
oxygen oyster painter palace panda parade parrot pasta peach peanut pearl pencil penguin pepper
piano pigeon pillow pilot pirate pizza planet plum poet pond pony potato prince pumpkin puppet
pyramid quilt rabbit rainbow ribbon rice river rocket rose saddle sailor salad salmon sandwich
scissors shark sheep shepherd shovel silk silver skeleton smoke snail snake soap soldier spider
spinach spoon squirrel stadium statue stomach storm strawberry sugar sunset surgeon sword tailor
teacher temple tennis thunder ticket tiger tomato tornado tower tractor trumpet turkey turtle
umbrella vanilla velvet village vinegar violin volcano wagon wallet walnut warrior waterfall whale
wheat whistle widow willow window winter wolf zebra
"""

WORDS = tuple(NOUNS.split())
"""Plain nouns that text seldom holds, most of them one token to most tokenizers."""

ENDS = (".", ",", ";", "\n")
"""What may stand right behind an answer, where it is told."""


@dataclass(frozen=True)
class Answer:
    """A right answer, and what is compared with it.

    text: as it is told, without the space before it. tokens: of the space and the text. others: at
    each token, the tokens of the other answers; none where all answers have the same token.
    """

    text: str
    tokens: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]

    @property
    def chance(self) -> float:
        """Of one who chooses blindly.

        >>> Answer("7 3", (2, 7, 2, 3), ((), (8, 9), (), (4, 5))).chance == 1 / 9
        True
        """
        return prod(1 / (1 + len(there)) for there in self.others)


@dataclass(frozen=True)
class Pool:
    """What answers are made of, for one tokenizer.

    words: those that are one token behind a space, and the token; none if they are too few. digits:
    the tokens of each behind a space, alike but for the last; needed only if there are no words.
    """

    words: Mapping[str, int]
    digits: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        """Tokens of every answer."""
        return 1 if self.words else DIGITS * len(self.digits[0])

    @property
    def chance(self) -> float:
        """Of one who chooses blindly."""
        return 1 / CHOICES if self.words else 0.1**DIGITS

    def draw(self, random: np.random.Generator, text: str) -> list[Answer]:
        """CHOICES different answers, none of which is in the text (in lower case).

        Words: each has all the others beside it, and choosing among them by the probability of the
        whole answer is comparing logits at that one token. Numbers: each has the nine other digits
        beside it at every place.

        Raises InputError if the text leaves too few words.
        """
        if not self.words:
            return [self.number(digits) for digits in numbers(random, text)]
        free = [word for word in self.words if word not in text]
        if len(free) < CHOICES:
            raise InputError(
                f"of the {len(self.words)} words that can be hidden, all but {len(free)} occur in "
                f"a stretch of this text; at least {CHOICES} must not. Give shorter --lengths, or "
                "other text"
            )
        drawn = [free[place] for place in random.permutation(len(free))[:CHOICES]]
        tokens = [self.words[word] for word in drawn]
        return [
            Answer(word, (mine,), (tuple(token for token in tokens if token != mine),))
            for word, mine in zip(drawn, tokens, strict=True)
        ]

    def number(self, digits: str) -> Answer:
        """That of some digits."""
        tokens: list[int] = []
        others: list[tuple[int, ...]] = []
        for digit in map(int, digits):
            mine = self.digits[digit]
            tokens += mine
            others += [()] * (len(mine) - 1)
            others.append(tuple(each[-1] for each in self.digits if each[-1] != mine[-1]))
        return Answer(" ".join(digits), tuple(tokens), tuple(others))


def numbers(random: np.random.Generator, text: str) -> list[str]:
    """CHOICES different numbers of DIGITS digits that are not in the text, spaced or not."""
    found: dict[str, None] = {}
    while len(found) < CHOICES:
        digits = "".join(map(str, random.integers(0, 10, DIGITS)))
        if digits not in text and " ".join(digits) not in text:
            found[digits] = None
    return list(found)


def pool_of(model: LanguageModel) -> Pool:
    """What can be hidden from a model: words if its tokenizer has them, else numbers.

    Raises InputError if neither is written in tokens that can be compared place by place.
    """
    words = {}
    for word in WORDS:
        alone = following(model, "is", f" {word}")
        told = (following(model, "is", f" {word}{end}") for end in ENDS)
        if len(alone) == 1 and all(tokens[:1] == alone for tokens in told):
            words[word] = alone[0]
    if len(words) >= LEAST_WORDS and len(set(words.values())) == len(words):
        return Pool(words, ())
    digits = tuple(tuple(following(model, "is", f" {digit}")) for digit in range(10))
    row = following(model, "is", "".join(f" {digit}" for digit in range(10)))
    alike = len({each[:-1] for each in digits}) == 1 and len({each[-1:] for each in digits}) == 10
    if row != [token for each in digits for token in each] or not alike:
        raise InputError(
            f"the tokenizer of {model.name} writes neither words nor digits in tokens of their "
            "own, so that no answer can be compared with others in one pass"
        )
    return Pool({}, digits)


def following(model: LanguageModel, before: str, text: str) -> list[int]:
    """The tokens of a text that stands behind another; on its own, if the two run together.

    A tokenizer may put a space before whatever it is given alone.
    """
    head, whole = model.encode(before), model.encode(before + text)
    return whole[len(head) :] if whole[: len(head)] == head else model.encode(text)
