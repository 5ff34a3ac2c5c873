"""The command line: one function per verb, no logic of its own."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .errors import InputError, RunError

if TYPE_CHECKING:
    from .report import Written

app = typer.Typer(
    name="longreach",
    help="How far past its training length does a transformer reach, and why does it stop there?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Boxes would cut an error message into lines.
    context_settings={"token_normalize_func": lambda word: word.replace("_", "-")},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


def say(line: str) -> None:
    """A line for the person who waits; standard output stays clean."""
    print(line, file=sys.stderr, flush=True)


def emit(found: dict[str, Any]) -> None:
    """The JSON object that a command was asked for."""
    print(json.dumps(found))


def listed(given: str | None, option: str) -> list[str] | None:
    """The words between commas."""
    if given is None:
        return None
    words = [word.strip() for word in given.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} is empty; give names between commas, or leave it out")
    return words


def numbers(given: str | None, option: str) -> list[int] | None:
    """The whole numbers between commas."""
    words = listed(given, option)
    try:
        return None if words is None else [int(word) for word in words]
    except ValueError:
        raise InputError(f"{option} takes whole numbers between commas, got '{given}'") from None


def show_version(asked: bool) -> None:
    """Prints the version and ends."""
    if asked:
        print(version("longreach"))
        raise typer.Exit


@app.callback()
def longreach(
    asked: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """How far past its training length does a transformer reach, and why does it stop there?"""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the studies, schemes, tasks and corpora there are."""
    from .corpora import CORPORA
    from .schemes import SCHEMES
    from .study import Study, built_in_studies
    from .tasks import TASKS

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
        runs = len(study.schemes) * len(study.tasks) * len(study.seeds)
        table.add_row(name, study.question, str(runs))
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
    workers: Annotated[
        int | None, typer.Option(help="Processes; as many as cores unless given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train and measure a study, and write its report. Run again, it finishes what is missing."""
    from .progress import display
    from .report import write
    from .run import run as run_study
    from .study import Study

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
                workers=workers,
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
    from .report import write
    from .results import Results

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


def main() -> None:
    """Runs the command line. Exit 0: done; 1: a run failed; 2: wrong input; 130: interrupted."""
    try:
        app()
    except InputError as error:
        say(f"error: {error}")
        sys.exit(2)
    except (RunError, OSError) as error:
        say(f"failed: {error}")
        sys.exit(1)
