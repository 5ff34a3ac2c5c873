"""A folder that appears whole, or stays as it was, and never takes the place of somebody else's."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from longreach import files
from longreach.errors import InputError

MARKER = "longreach-site.json"
"""Lists what the site consists of: by it a folder is known as one of ours."""
FORMAT = 1


def check(folder: Path) -> None:
    """Raises InputError if the folder holds anything that was not made by `put`."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise InputError(f"{folder} is no folder; give one that is not there, or an earlier site")
    found = names_in(folder)
    if not found:
        return
    listed = made_before(folder)
    if listed is None:
        raise InputError(
            f"{folder} holds files and no {MARKER} of a site that `longreach site` made, so it is "
            "left alone; give a folder that is not there, an empty one, or an earlier site"
        )
    strangers = sorted(found - listed - {MARKER})
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise InputError(
            f"{folder} holds {strangers[0]}{more}, which `longreach site` did not put there; move "
            "it away, or give another folder"
        )


def names_in(folder: Path) -> set[str]:
    """All that is in a folder and is no folder itself, by its path within; empty folders too."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    }


def made_before(folder: Path) -> set[str] | None:
    """The files that the marker lists; None if there is no marker that can be read."""
    try:
        found = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return {str(name) for name in found["files"]} if found["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def put(folder: Path, content: Mapping[str, bytes]) -> None:
    """Writes the files aside, forces them to disk, and gives the whole its name.

    What was there before goes once the new is in place, and comes back if that fails. Raises
    InputError as `check` does, and OSError that names what could not be written.
    """
    check(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        aside.chmod(0o755)  # mkdtemp makes folders that only their owner can enter
        made = aside / "new"
        made.mkdir()
        marker = {"format": FORMAT, "made by": "longreach site", "files": sorted(content)}
        for name, data in {
            **content,
            MARKER: (json.dumps(marker, indent=1) + "\n").encode(),
        }.items():
            path = made / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, data)
        swap(made, folder, aside / "old")
        files.sync(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def swap(made: Path, folder: Path, old: Path) -> None:
    """Puts a folder in the place of another, which is kept as `old`; on failure, as it was."""
    there = folder.exists()
    if there:
        os.replace(folder, old)  # noqa: PTH105
    try:
        os.replace(made, folder)  # noqa: PTH105
    except OSError:
        if there:
            os.replace(old, folder)  # noqa: PTH105
        raise
