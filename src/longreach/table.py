"""Table: names to things, imported when asked for, so that listing names costs nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from .errors import InputError

T_co = TypeVar("T_co", covariant=True)


def nearest(given: str, known: Iterable[str]) -> str:
    """Half a sentence that names the nearest known word, or all of them.

    >>> nearest("alibii", ["alibi", "rope"])
    "did you mean 'alibi'?"
    >>> nearest("xyz", ["alibi", "rope"])
    'known: alibi, rope'
    """
    known = list(known)
    close = difflib.get_close_matches(given, known, n=1)
    return f"did you mean '{close[0]}'?" if close else "known: " + ", ".join(known)


class Table(Mapping[str, T_co]):
    """A dict literal of name -> "module:attribute", whose values are imported on first use.

    The names are data, so `longreach list` needs no torch; what is looked up is the object itself.
    An unknown name raises InputError and names the nearest right one.
    """

    def __init__(self, noun: str, package: str, entries: Mapping[str, str]) -> None:
        self.noun = noun
        self._package = package
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> T_co:
        if name not in self._entries:
            raise InputError(f"unknown {self.noun} '{name}'; {nearest(name, self)}")
        module, attribute = self._entries[name].split(":")
        found: Any = getattr(import_module(module, self._package), attribute)
        return found  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
