"""`hf:NAME[:config][@revision]`: the train split of a dataset of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import InputError
from .base import Document

LIMIT_BYTES = 20_000_000
"""Reading stops at the row that reaches this many bytes of text: datasets can be far larger than
small models can use, and are streamed, never downloaded whole."""


def load(argument: str) -> list[Document]:
    """The first rows of a dataset, each one document.

    HF_HOME, HF_HUB_OFFLINE and the rest are honoured by `datasets` itself. Name a revision (a
    commit) to get the same text next year.

    Raises InputError if `datasets` is not installed or the dataset cannot be had.
    """
    place, _, revision = argument.partition("@")
    name, _, config = place.partition(":")
    if not name:
        raise InputError("the corpus 'hf' needs a dataset: write hf:NAME[:config][@revision]")
    try:
        from datasets import load_dataset
    except ImportError:
        raise InputError(
            f"hf:{argument} needs the package `datasets`: pip install 'longreach[huggingface]'"
        ) from None
    try:
        rows = load_dataset(
            name, config or None, revision=revision or None, split="train", streaming=True
        )
        return read(rows, argument)
    except InputError:
        raise
    except Exception as error:
        # What is raised for a wrong name, no network or no permission comes from four libraries
        # that share no base class; for the user it is one case.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"cannot read the dataset hf:{argument} ({reason}). Check its name, config and "
            "revision, and the network (HF_HUB_OFFLINE allows only what is already here); log in "
            "with `hf auth login` if it is private or gated; or use a local folder with text:FOLDER"
        ) from error


def read(rows: Iterable[Mapping[str, object]], argument: str) -> list[Document]:
    """Rows to documents, up to LIMIT_BYTES; rows without text are passed over."""
    found: list[Document] = []
    column, size = "", 0
    for number, row in enumerate(rows):
        column = column or text_column(row, argument)
        text = row[column]
        if not isinstance(text, str):
            continue
        found.append(Document(f"row {number}", text))
        size += len(text.encode())
        if size >= LIMIT_BYTES:
            break
    return found


def text_column(row: Mapping[str, object], argument: str) -> str:
    """`text`, or else the one column that holds a string."""
    if "text" in row:
        return "text"
    strings = [name for name, value in row.items() if isinstance(value, str)]
    if len(strings) != 1:
        raise InputError(
            f"the dataset hf:{argument} has no column 'text' and not exactly one of strings; its "
            f"columns: {', '.join(row)}. Write the one to use to a .jsonl file, and give text:FILE"
        )
    return strings[0]
