"""The verb `longreach compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .app import AsJson, app, emit, listed, say


@app.command()
def compare(
    runs: Annotated[
        Path, typer.Argument(help="A folder that `longreach run`, `measure` or `needles` wrote.")
    ],
    others: Annotated[
        Path | None,
        typer.Argument(help="Another: each scheme, task and seed is compared with its like."),
    ] = None,
    schemes: Annotated[
        str | None,
        typer.Option(help="a,b: in one folder, the first against the second; in two, only these."),
    ] = None,
    repair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="In one folder, twice: the first against the second (none: unrepaired); in two, "
            "what both wear. As the report names it, or by its name alone.",
        ),
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
    worn = repair or []
    if others is not None and len(worn) <= 1:
        found = comparing.folders(
            runs,
            others,
            schemes=named,
            repair=worn[0] if worn else None,
            task=task,
            metric=metric,
        )
    elif others is None and len(worn) == 2:
        found = comparing.repairs_in(runs, *worn, schemes=named, task=task, metric=metric)
    elif others is None and not worn and named is not None and len(named) == 2:
        found = comparing.schemes_in(runs, *named, task=task, metric=metric)
    else:
        raise InputError(
            "compare takes two runs folders, or one and two schemes in it: --schemes a,b; or two "
            "repairs in it: --repair none --repair yarn; with two folders, one --repair at most"
        )
    if plot is not None:
        shown.draw(found, plot)
    if as_json:
        emit({"comparisons": [each.as_json() for each in found]})
        return
    print(shown.text(found))
    if plot is not None:
        say(f"plot: {plot}")
