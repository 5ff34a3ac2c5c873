"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Writes a file aside, forces it to disk, and puts it in place of what was there.

    Whatever fails on the way (a full disk, say) leaves the old file as it was, and nothing else.
    Raises OSError that names the file.
    """
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        # A write that fails does not say of which file.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):  # A folder gone read-only says so above.
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
