"""Document, the unit that a corpus is read, split and measured by; and Loader, what reads one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Document:
    """One text.

    name: tells it from the others of its corpus; never depends on where the corpus lies.
    """

    name: str
    text: str

    @property
    def fingerprint(self) -> bytes:
        """sha256 of the text alone."""
        return hashlib.sha256(self.text.encode()).digest()


Loader: TypeAlias = Callable[[str], list[Document]]
"""Takes what stands behind the colon of a spec ("" if nothing does); the same documents in the same
order every time. Raises InputError where that is not possible."""
