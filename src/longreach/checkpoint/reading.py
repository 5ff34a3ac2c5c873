"""Reading values out of a config of unknown quality: mistakes are noted, none is fatal here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ..spectrum import LONGEST, brief
from .layout import Problem


@dataclass
class Notes:
    """The problems found so far; each code and message once."""

    found: list[Problem] = field(default_factory=list)

    def add(self, code: str, message: str, consequence: str) -> None:
        """Notes a problem, unless it is noted already."""
        problem = Problem(code, message, consequence)
        if problem not in self.found:
            self.found.append(problem)


@dataclass(frozen=True)
class Found:
    """A whole number, and the key it was found under."""

    value: int
    key: str


def whole(
    config: Mapping[str, Any],
    keys: Iterable[str],
    notes: Notes,
    *,
    least: int = 1,
    most: int = LONGEST,
) -> Found | None:
    """The first key that holds a whole number in range; others are noted and passed over."""
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, float) and value.is_integer() and least <= value <= most:
            notes.add(
                "float_for_integer",
                f"{key} is {brief(value)}, a float",
                f"read here as {int(value)}; transformers 5 refuses a float where a whole number "
                "belongs",
            )
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            notes.add(
                "wrong_type",
                f"{key} is {brief(value)}",
                f"a whole number from {least} to {most:,} belongs there; the key is passed over",
            )
            continue
        return Found(value, key)
    return None


def real(
    config: Mapping[str, Any], keys: Iterable[str], notes: Notes, *, above: float = 0.0
) -> tuple[float, str] | None:
    """The first of the keys that holds a finite number above a bound; others are noted."""
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        number = as_float(value)
        if number is None or number <= above:
            notes.add(
                "wrong_type",
                f"{key} is {brief(value)}",
                f"a finite number above {above:g} belongs there; the key is passed over",
            )
            continue
        return number, key
    return None


def as_float(value: object) -> float | None:
    """The value as a finite float, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def mapping(config: Mapping[str, Any], key: str, notes: Notes) -> Mapping[str, Any] | None:
    """What stands under the key if it is an object; None if nothing or something else does."""
    value = config.get(key)
    if value is None or isinstance(value, Mapping):
        return value
    notes.add(
        "wrong_type", f"{key} is {brief(value)}", "an object belongs there; it is passed over"
    )
    return None
