"""The verb `longreach attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .app import AsJson, app, emit, say


@app.command()
def attention(
    run: Annotated[
        Path, typer.Argument(help="A run folder (RUNS/DIGEST), or a runs folder of several.")
    ],
    length: Annotated[
        list[int] | None,
        typer.Option(help="Look at sequences of it; may be given several times. The trained "
                     "length and twice as much unless given."),
    ] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(help="Of a runs folder: this scheme alone. May be given several times."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Of a runs folder: this task.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of a runs folder: this seed; the lowest unless given.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw every head of one run: a file ending in .svg, .png or .html."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw each scheme's head that looks most at the token to come next."),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show how far every head looks back, and how much at the token to come next."""
    from ..show import attention as shown

    if plot is not None or figure is not None:
        from ..show import heatmaps
        from ..show.plot import check

        for file in (plot, figure):
            if file is not None:
                check(file)  # Before the work, not after it.
    folders = shown.chosen(run, scheme or (), task, seed)
    if plot is not None and len(folders) > 1:
        raise InputError(f"--plot draws one run, and {run} has {len(folders)}; give --scheme")
    gazes = shown.gather(folders, length or ())
    if plot is not None:
        heatmaps.draw_heads(gazes[0], plot)
    if figure is not None:
        heatmaps.draw_pointers(gazes, figure)
    if as_json:
        emit(shown.as_json(gazes))
        return
    shown.show(gazes)
    for file in (plot, figure):
        if file is not None:
            say(f"plot: {file}")
