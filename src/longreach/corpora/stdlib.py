"""`stdlib`: the source of the running Python's standard library, without its tests.

It is on every machine and needs no download, and in source code long context visibly helps. It is
under the licence of the Python Software Foundation, and differs by Python version.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from ..errors import InputError
from .base import Document

SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
"""Folders whose files are no source of the library, or not written to be read."""

GENERATED = ("_sysconfigdata", "config-")
"""Written when Python was built: they hold paths of that machine, and would make every build a
corpus of its own."""


def load(argument: str) -> list[Document]:
    """Every *.py file, by relative path. Raises InputError for an argument, or if none is there."""
    if argument:
        raise InputError(f"the corpus 'stdlib' takes no argument, got 'stdlib:{argument}'")
    return read(Path(sysconfig.get_path("stdlib")))


def read(root: Path) -> list[Document]:
    """The same for any folder of Python source."""
    names = {path.relative_to(root): path for path in root.rglob("*.py")}
    found = []
    for name in sorted(names, key=lambda name: name.as_posix()):
        if SKIPPED.intersection(name.parts) or name.parts[0].startswith(GENERATED):
            continue
        try:
            text = names[name].read_bytes().decode()
        except UnicodeDecodeError:
            # Python's own files, so no mistake of the user's: some are in another encoding on
            # purpose, to try the programs that read source.
            continue
        found.append(Document(name.as_posix(), text))
    if not found:
        raise InputError(
            f"no Python source in {root}, where this Python's standard library should be (is it "
            "zipped?); use another Python, or your own text with text:FOLDER"
        )
    return found
