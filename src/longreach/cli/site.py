"""The verb `longreach site`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import AsJson, app, emit, say


@app.command()
def site(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the site goes: a new folder, or a site.")
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNDIR]...", help="Runs folders; results/* unless given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the gallery as a folder for any static host: studies, questions, positions."""
    from ..site import build

    page = build(folder, runs or (), say=say)
    if as_json:
        emit({"site": str(page)})
        return
    print(f"site: {page}")
