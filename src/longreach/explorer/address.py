"""The address of a view: what stands behind the question mark, read with suspicion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TypeVar
from urllib.parse import urlencode

T = TypeVar("T", int, float)

LONGEST = 500
"""Characters of a value; longer ones are passed over."""


class Asked:
    """The query of an address. What is missing or no sensible value is as if it were not there.

    tab: the one that is asking; of an address that is about another there is nothing.
    """

    def __init__(self, query: Mapping[str, str], tab: str | None = None) -> None:
        self._query = {key: value for key, value in query.items() if len(value) <= LONGEST}
        if tab is not None and self._query.get("tab") != tab:
            self._query = {}

    def raw(self, key: str) -> str | None:
        """A value as it stands, for what checks it itself."""
        return self._query.get(key)

    def text(self, key: str, known: Iterable[str]) -> str | None:
        """A value that is one of those known."""
        value = self._query.get(key)
        return value if value in set(known) else None

    def texts(self, key: str, known: Iterable[str]) -> list[str] | None:
        """Values between commas, those that are known; None if the key is not there."""
        if key not in self._query:
            return None
        given = self._query[key].split(",")
        return [name for name in known if name in given]

    def number(self, key: str, least: float, most: float) -> float | None:
        """A number in a range."""
        try:
            value = float(self._query[key])
        except (KeyError, ValueError):
            return None
        return value if least <= value <= most else None  # NaN is in no range.

    def whole(self, key: str, least: int, most: int) -> int | None:
        """A whole number in a range."""
        value = self.number(key, least, most)
        return None if value is None else int(value)


def marker(tab: str, **values: object) -> str:
    """An element that tells page.js what the address is to be while the tab is open."""
    query = urlencode({"tab": tab} | {key: str(value) for key, value in values.items()}, safe=",")
    return f'<div class="lr-address" hidden data-query="{escape(query)}"></div>'
