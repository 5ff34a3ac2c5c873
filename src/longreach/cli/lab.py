"""The lab's verbs: list, run, report."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, RunError
from .app import AsJson, app, emit, listed, numbers, say

if TYPE_CHECKING:
    from ..report import Written


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the studies, schemes, tasks and corpora there are."""
    from rich.console import Console
    from rich.table import Table

    from ..corpora import CORPORA
    from ..schemes import SCHEMES
    from ..study import Study, built_in_studies
    from ..tasks import TASKS

    studies = list(built_in_studies())
    if as_json:
        emit(
            {
                "schemes": list(SCHEMES),
                "tasks": list(TASKS),
                "studies": studies,
                "corpora": list(CORPORA),
            }
        )
        return
    console = Console()
    table = Table("study", "asks", "runs", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in studies:
        study = Study.load(name)
        table.add_row(name, study.question, str(study.runs))
    console.print(table)
    for noun, names in (("schemes", SCHEMES), ("tasks", TASKS), ("corpora", CORPORA)):
        console.print(f"\n[bold]{noun}[/bold]  {'  '.join(names)}", highlight=False)


@app.command()
def run(
    study: Annotated[
        str, typer.Argument(help="A built-in study's name, or the path of a TOML file.")
    ],
    out: Annotated[Path | None, typer.Option(help="Runs folder; runs/STUDY unless given.")] = None,
    schemes: Annotated[str | None, typer.Option(help="Only these schemes: a,b")] = None,
    seeds: Annotated[str | None, typer.Option(help="Only these seeds: 0,1")] = None,
    limit_steps: Annotated[
        int | None, typer.Option(help="Train for at most so many steps.")
    ] = None,
    where: Annotated[
        str,
        typer.Option(
            metavar="local|ray[:ADDRESS]",
            help="Where the runs are made: processes here, or a Ray cluster that is there already.",
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            help="Runs at a time; unless given, as many as cores, or as the cluster has room for."
        ),
    ] = None,
    again: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST,...",
            help="Train these runs anew (a damaged one, say); their folders are kept aside.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train and measure a study, and write its report. Run again, it finishes what is missing."""
    from ..progress import display
    from ..report import write
    from ..run import run as run_study
    from ..study import Study

    asked = Study.load(study)
    if limit_steps is not None:
        asked = asked.limited(limit_steps)
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}")
    folder = out or Path("runs") / asked.name
    try:
        with display() as shown:
            results = run_study(
                asked,
                folder,
                display=shown,
                say=say,
                command=shlex.join(["longreach", *sys.argv[1:]]),
                where=where,
                workers=workers,
                again=listed(again, "--again") or (),
                schemes=listed(schemes, "--schemes"),
                seeds=numbers(seeds, "--seeds"),
            )
    except KeyboardInterrupt:
        say("interrupted; what was finished is kept, and the same command continues")
        raise typer.Exit(130) from None
    except RunError:
        with contextlib.suppress(InputError, OSError):
            say(f"the runs that were finished: {write(folder).page}")
        raise
    finish(write(folder), results, as_json)


@app.command()
def report(
    runs: Annotated[Path, typer.Argument(help="A folder that `longreach run` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Write report.html, summary.md, figures and study.json from the rows of a runs folder."""
    from ..report import write
    from ..results import Results

    results = Results.read(runs)
    finish(write(runs), results, as_json)


def finish(written: Written, results: Any, as_json: bool) -> None:
    """Says what was found and where the report is."""
    if as_json:
        emit(
            {
                "report": str(written.page),
                "rows": len(results.rows),
                "runs": len(results.runs),
                "missing": len(results.missing),
                "study": results.plan["study"]["name"],
            }
        )
        return
    print(written.brief)
    print(f"report: {written.page}")
