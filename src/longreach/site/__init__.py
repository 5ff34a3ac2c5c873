"""The static site: the gallery without a server, as a folder for any host. See `longreach site`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def build(folder: Path, runs: Sequence[Path] = (), *, say: object = None) -> Path:
    """Writes the site into a folder, whole or not at all, and returns its first page.

    runs: runs folders; those under results/ unless given. The folder is made, or was made by this;
    any other is refused and left alone. say: called with a line for each part that is done.

    Raises InputError for a folder that is something else, or runs that cannot be read.
    """
    # Imported here so that `import longreach.site` costs nothing.
    from .assemble import build as made

    return made(folder, runs, say=say if callable(say) else lambda _: None)
