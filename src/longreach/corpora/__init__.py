"""Corpora: text for language-model tasks. One file per source; CORPORA lists them.

To add one: write a file with a function that is a `Loader`, and add a line here. `prepare.py` makes
tokens of any of them.
"""

from __future__ import annotations

from ..table import Table
from .base import Document, Loader

__all__ = ["CORPORA", "Document", "documents"]

CORPORA: Table[Loader] = Table(
    "corpus",
    __name__,
    {
        "stdlib": ".stdlib:load",
        "text": ".folder:load",
        "hf": ".huggingface:load",
    },
)


def documents(spec: str) -> list[Document]:
    """The documents of `stdlib`, `text:FOLDER` or `hf:NAME[:config][@revision]`, in a fixed order.

    Raises InputError for an unknown source, a wrong argument, or text that cannot be read.
    """
    kind, _, argument = spec.partition(":")
    return CORPORA[kind](argument)
