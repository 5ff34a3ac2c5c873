"""SCAN: turn a command into the actions it asks for."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import torch

from ..errors import InputError
from .base import Batch
from .frame import EOS, FIRST, PAD, Framed, from_rows, words

VERBS = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
TURNS = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}
TIMES = {"twice": 2, "thrice": 3}
WORDS = (*VERBS, "turn", *TURNS, "opposite", "around", *TIMES, "and", "after")
ACTIONS = (*VERBS.values(), *TURNS.values())
IDS = {word: FIRST + number for number, word in enumerate((*WORDS, *ACTIONS))}


class Command(NamedTuple):
    """Words, and the actions that they ask for."""

    words: tuple[str, ...]
    actions: tuple[str, ...]


class Scan(Framed):
    """Write the actions that a command asks for, then stop. Length counts the actions.

    Commands are those of the published grammar,

        C -> S and S | S after S | S        V -> D opposite T | D around T | D T | U
        S -> V twice | V thrice | V         D -> U | turn        T -> left | right
        U -> walk | look | run | jump       (`turn` never stands alone)

    drawn uniformly from those with n actions. Nothing is downloaded: all 20,910 are written down
    when the first is asked for. Lengths reach 48, with gaps. There are few commands of a length
    (6 to 1,696), so training and evaluation share many: this task asks for longer ones.

    >>> task = Scan()
    >>> batch = task.sample(4, 1, torch.Generator().manual_seed(0))
    >>> task.render(batch.tokens[0])
    '<bos> turn opposite right and walk twice <sep> I_TURN_RIGHT I_TURN_RIGHT I_WALK I_WALK <eos>'
    """

    metric = "exact_match"
    source = "Lake & Baroni 2018, arXiv:1711.00350"
    counts = "actions"
    end = EOS

    def __init__(self) -> None:
        self.words = words(*WORDS, *ACTIONS)
        self.vocabulary = len(self.words)

    def fits(self, length: int) -> None:
        """Raises InputError if no command has so many actions, and names the nearest that do."""
        super().fits(length)
        if length not in by_length():
            known = sorted(by_length())
            below = [n for n in known if n < length][-1:]
            above = [n for n in known if n > length][:1]
            near = " and ".join(str(n) for n in below + above)
            raise InputError(f"no SCAN command has {length} actions; the nearest that has: {near}")

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Sequences padded to the longest of them."""
        self.fits(length)
        every = framed_commands(length)
        rows = torch.randint(0, len(every.tokens), (count,), generator=generator)
        tokens = every.tokens[rows]
        width = int((tokens != PAD).sum(1).max())
        return Batch(tokens[:, :width], every.scored[rows, :width])

    def parts(self, length: int) -> tuple[int, int]:
        """The wordiest command with so many actions; the actions."""
        self.fits(length)
        return max(len(command.words) for command in by_length()[length]), length

    def ceiling(self, length: int) -> float:
        """1: a command has one meaning."""
        return 1.0

    def chance(self, length: int) -> float:
        """A uniform guess among the action sequences that commands of that length ask for."""
        self.fits(length)
        return 1 / len({command.actions for command in by_length()[length]})


def simple_commands() -> list[Command]:
    """The commands without `and` or `after`.

    >>> len(simple_commands())
    102
    """
    found = []
    for verb in (*VERBS, "turn"):
        action = (VERBS[verb],) if verb in VERBS else ()
        once = [Command((verb,), action)] if action else []
        for side, turn in TURNS.items():
            once += [
                Command((verb, side), (turn, *action)),
                Command((verb, "opposite", side), (turn, turn, *action)),
                Command((verb, "around", side), (turn, *action) * 4),
            ]
        found += once
        for word, times in TIMES.items():
            found += [Command((*c.words, word), c.actions * times) for c in once]
    return found


@cache
def by_length() -> dict[int, list[Command]]:
    """All commands by their number of actions.

    >>> sum(len(commands) for commands in by_length().values()), max(by_length())
    (20910, 48)
    """
    simple = simple_commands()
    found = [*simple]
    for first, second in product(simple, repeat=2):
        found += [
            Command((*first.words, "and", *second.words), first.actions + second.actions),
            Command((*first.words, "after", *second.words), second.actions + first.actions),
        ]
    groups: dict[int, list[Command]] = {}
    for command in found:
        groups.setdefault(len(command.actions), []).append(command)
    return groups


@cache
def framed_commands(length: int) -> Batch:
    """Every command with so many actions, a row each."""
    return from_rows(
        [
            ([IDS[word] for word in command.words], [IDS[action] for action in command.actions])
            for command in by_length()[length]
        ]
    )
