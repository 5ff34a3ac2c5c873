"""The verb `longreach spectrum`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import AsJson, app, emit, say


@app.command()
def spectrum(
    head_dim: Annotated[int, typer.Option(help="Dimensions per head that are turned.")],
    trained_length: Annotated[int, typer.Option(help="Tokens per training sequence.")],
    base: Annotated[float, typer.Option(help="RoPE's base (rope_theta).")] = 10_000.0,
    target_length: Annotated[int | None, typer.Option(help="Tokens to reach.")] = None,
    repair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:OPTION=VALUE,...]",
            help="Show what a repair changes: linear, ntk, dynamic, ntk_by_parts, yarn, "
            "dynamic_yarn, llama3, longrope or base. May be given several times; NAME:@FILE reads "
            "options from a JSON file.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: a file ending in .svg, .png or .html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which pairs of a RoPE a longer context drives past training, and what repairs change."""
    from ..show.spectrum import Sheet

    sheet = Sheet.of(head_dim, base, trained_length, target_length, repair or [])
    if plot is not None:
        from ..show.chart import draw

        draw(sheet, plot)
    if as_json:
        emit(sheet.as_json())
        return
    from ..show.spectrum import show

    show(sheet)
    if plot is not None:
        say(f"plot: {plot}")
