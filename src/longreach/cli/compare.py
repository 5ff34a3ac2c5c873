"""The verb `longreach compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .app import AsJson, app, emit, listed, say


@app.command()
def compare(
    runs: Annotated[Path, typer.Argument(help="A folder that `longreach run` wrote.")],
    others: Annotated[
        Path | None,
        typer.Argument(help="Another: each scheme, task and seed is compared with its like."),
    ] = None,
    schemes: Annotated[
        str | None,
        typer.Option(help="a,b: in one folder, the first against the second; in two, only these."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="By another metric than the one that answers the study.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: a file ending in .svg, .png or .html.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how much further one reaches than the other, seed by seed, with an interval."""
    from ..report import compare as comparing
    from ..show import comparison as shown

    named = listed(schemes, "--schemes")
    if plot is not None:
        shown.check(plot)
    if others is not None:
        found = comparing.folders(runs, others, schemes=named, task=task, metric=metric)
    else:
        if named is None or len(named) != 2:
            raise InputError(
                "compare takes two runs folders, or one and two schemes in it: --schemes a,b"
            )
        found = comparing.schemes_in(runs, *named, task=task, metric=metric)
    if plot is not None:
        shown.draw(found, plot)
    if as_json:
        emit({"comparisons": [each.as_json() for each in found]})
        return
    print(shown.text(found))
    if plot is not None:
        say(f"plot: {plot}")
