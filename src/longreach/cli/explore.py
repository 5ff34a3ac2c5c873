"""The verb `longreach explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import app, say


@app.command()
def explore(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUNS]...",
            help="Folders that `longreach run` wrote, to show beside the studies that ship.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen. Anything but loopback is open to others.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65_535)] = 7860,
    allow_hub: Annotated[
        bool,
        typer.Option("--allow-hub", help="Let the page fetch configs from the Hugging Face hub."),
    ] = False,
) -> None:
    """Open the explorer: positions, your model's config, recorded studies, and models to try."""
    from ..explorer.server import serve

    serve(runs or [], host=host, port=port, allow_hub=allow_hub, say=say)
