"""`text:FOLDER`: the text files of a local folder, each one document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from .base import Document

SUFFIXES = (".txt", ".md", ".rst", ".py", ".jsonl")


def load(argument: str) -> list[Document]:
    """The documents of a folder and its subfolders, or of one file, by relative path.

    Read are *.txt, *.md, *.rst and *.py, each one document, and *.jsonl, where each line is an
    object whose `text` is one document. Parquet is not read: `hf:FOLDER` does that. Hidden files
    and folders are passed over. Everything must be UTF-8, and line ends stay as they are.

    Raises InputError if nothing is there, or a file cannot be read.
    """
    if not argument:
        raise InputError("the corpus 'text' needs a folder: write text:FOLDER")
    root = Path(argument).expanduser()
    if root.is_file():
        return list(read(root, root.name))
    if not root.is_dir():
        raise InputError(f"no folder or file '{argument}'; write text:FOLDER with one that exists")
    names = {path.relative_to(root): path for path in root.rglob("*") if path.is_file()}
    found = [
        document
        for name in sorted(names, key=lambda name: name.as_posix())
        if name.suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in name.parts)
        for document in read(names[name], name.as_posix())
    ]
    if not found:
        raise InputError(
            f"no text in the folder '{argument}'; expected files that end in {', '.join(SUFFIXES)}"
        )
    return found


def read(path: Path, name: str) -> Iterator[Document]:
    """The documents of one file."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}; "
            "convert it (iconv -t UTF-8), or move it out of the folder"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if path.suffix.lower() != ".jsonl":
        yield Document(name, text)
        return
    # Not splitlines(): it also cuts at U+2028 and others that may stand in a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield Document(f"{name}:{number}", parse(line, f"{path}, line {number}"))


def parse(line: str, where: str) -> str:
    """The `text` of one line of a .jsonl file."""
    try:
        text = json.loads(line)["text"]
        text.encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        # ValueError includes half of a surrogate pair, which JSON can hold and UTF-8 cannot.
        raise InputError(
            f"{where} is no document; expected an object with a string 'text', got {line[:60]!r}"
        ) from None
    return str(text)
