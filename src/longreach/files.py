"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Writes a file aside, forces it to disk, and puts it in place of what was there."""
    data = content.encode() if isinstance(content, str) else content
    replace(path, lambda aside: aside.write_bytes(data))


def replace(path: Path, make: Callable[[Path], object]) -> None:
    """Lets `make` write a file aside, forces it to disk, and puts it in place.

    Whatever fails on the way (a full disk, say) leaves the old file as it was, and nothing else.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make(aside)
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Forces a folder's entries to disk, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
