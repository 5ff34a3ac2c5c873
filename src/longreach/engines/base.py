"""What an engine answers: a Prescription to deploy, or a Reading of what is deployed already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..checkpoint.layout import Checkpoint, Problem
from ..errors import InputError
from ..repairs import Repair
from ..spectrum import Extension
from ..views import Shown

Version = tuple[int, ...]

SNAPSHOT = re.compile(r"[0-9a-f]{7,40}|b\d+|v?\d+(\.\d+)*|master|main", re.IGNORECASE)
NUMBERED = re.compile(
    r"v?(\d+(?:\.\d+)*)(?:[.\-]?(?:a|b|rc|dev|post)\d*)?(?:\+\S+)?", re.IGNORECASE
)


@dataclass(frozen=True)
class Release:
    """A version of an engine.

    text: as it is shown. number: to compare by; (0,) for an engine that is known at one commit.
    notes: what there is to say of it, such as that it is newer than what is known.
    """

    text: str
    number: Version
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prescription(Shown):
    """What to write, type or run so that an engine applies a repair; or why that cannot be done.

    block: what to merge into the model's config, or the engine's own config file; where: which.
        flags: what to add to the command line, as typed in a shell. command: a whole command.
        At least one of the three, unless refused.
    spellings: the same for other versions that read other keys: version range -> block or flags.
    notes: what this version ignores, gets wrong, or needs besides; a sentence or two each.
    refused: why the engine cannot, and what it can do instead.
    """

    engine: str
    version: str
    block: Mapping[str, Any] | None = None
    where: str = ""
    flags: str | None = None
    command: str | None = None
    spellings: Mapping[str, Mapping[str, Any] | str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refused: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs. Of block, flags and command, those that there are."""
        ways = {"block": self.block, "flags": self.flags, "command": self.command}
        return {
            "engine": self.engine,
            "version": self.version,
            **{way: found for way, found in ways.items() if found is not None},
            **({"where": self.where} if self.where else {}),
            **({"spellings": dict(self.spellings)} if self.spellings else {}),
            "notes": list(self.notes),
            "refused": self.refused,
        }


@dataclass(frozen=True)
class Reading:
    """What an engine will make of a config as it stands.

    repair: the repair in effect, None for plain RoPE. base: the base in effect.
    inverse_frequencies, amplitude: in effect, of the first full-attention group; None if it fails.
    max_length: tokens the engine will accept. problems: keys it ignores, refuses or misreads.
    fails: the error that it stops with, if it does.
    """

    engine: str
    version: str
    repair: Repair | None = None
    base: float | None = None
    inverse_frequencies: tuple[float, ...] | None = None
    amplitude: float | None = None
    max_length: int | None = None
    problems: tuple[Problem, ...] = ()
    fails: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        repair = self.repair
        return {
            "engine": self.engine,
            "version": self.version,
            "repair": None if repair is None else {"name": repair.name, "options": repair.options},
            "base": self.base,
            "inverse_frequencies": self.inverse_frequencies,
            "amplitude": self.amplitude,
            "max_length": self.max_length,
            "problems": [
                {"code": one.code, "message": one.message, "consequence": one.consequence}
                for one in self.problems
            ],
            "fails": self.fails,
        }


class Engine(Protocol):
    """An engine is a module in this folder with these names; ENGINES lists it."""

    NAME: str
    VERSIONS: tuple[str, ...]
    """Versions at which its behaviour is known to change, oldest first, and the last one looked at,
    which is assumed unless one is given. A commit where it has no versions."""
    LENGTH: str
    """How it is told the longest context, with {length} for the tokens."""

    def express(
        self, checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
    ) -> Prescription:
        """How this engine is told to apply the repair to this model.

        The model has layers to scale and the repair applies to them: that is checked before.
        """

    def read(
        self,
        checkpoint: Checkpoint,
        release: Release,
        *,
        length: int | None = None,
        override: Mapping[str, Any] | None = None,
    ) -> Reading:
        """What this engine makes of the config as it stands.

        length: tokens that it is asked to accept. override: a block to be merged as the engine
        merges it, where it takes one on its command line; else it stands in for keys of the config.
        """


def release(name: str, versions: tuple[str, ...], asked: str | None) -> Release:
    """The version of an engine that is meant; the last known one unless asked for another.

    A major version alone, such as `5`, is the last known of that line.

    >>> release("vllm", ("0.11.0", "0.33.0"), "0.40").notes[0][:47]
    'vllm 0.40 is newer than what is known, 0.33.0: '
    """
    last = versions[-1]
    if "." not in last:
        return _snapshot(name, last, asked)
    if asked is None:
        return Release(last, numbers(last))
    match = NUMBERED.fullmatch(asked)
    if match is None:
        raise InputError(
            f"cannot read the version in '{name}=={asked}'; write numbers, such as {name}=={last}"
        )
    number = numbers(match[1])
    if len(number) == 1:
        line = [known for known in versions if numbers(known)[0] == number[0]]
        number = numbers(line[-1]) if line else number
    if number > numbers(last):
        note = f"{name} {asked} is newer than what is known, {last}: taken to behave like {last}."
    elif number < numbers(versions[0]):
        note = f"{name} {asked} is older than what is known: taken to behave like {versions[0]}."
    else:
        return Release(asked, number)
    return Release(asked, min(max(number, numbers(versions[0])), numbers(last)), (note,))


def numbers(text: str) -> Version:
    """A version's numbers.

    >>> numbers("4.57.6")
    (4, 57, 6)
    """
    return tuple(int(part) for part in text.split("."))


def _snapshot(name: str, known: str, asked: str | None) -> Release:
    if asked is None or asked.lower() == known.lower():
        return Release(known, (0,))
    if SNAPSHOT.fullmatch(asked) is None:
        raise InputError(
            f"cannot read the version in '{name}=={asked}'; write a number or a commit, such as "
            f"{name}=={known}"
        )
    note = f"{name} is known here at {known} only: {asked} is taken to behave like it."
    return Release(asked, (0,), (note,))
