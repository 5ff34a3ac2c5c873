"""The verbs `longreach tasks list` and `longreach tasks show`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .app import AsJson, app, emit

tasks = typer.Typer(
    help="Show what is asked of models.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(tasks, name="tasks")


@tasks.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show every task: what its length counts, and where it is from."""
    from ..tasks import TASKS

    found = [
        {"task": name, "counts": kind.counts, "metric": kind.metric, "source": kind.source}
        for name, kind in TASKS.items()
    ]
    if as_json:
        emit({"tasks": found})
        return
    from rich.console import Console

    from ..show.spectrum import lay, lean_table

    table = lean_table()
    for title in ("task", "length counts", "source"):
        table.add_column(title)
    for each in found:
        table.add_row(each["task"], each["counts"], each["source"])
    lay(Console(highlight=False), table)


@tasks.command()
def show(
    name: Annotated[str, typer.Argument(help="As `longreach tasks list` spells it.")],
    length: Annotated[int, typer.Option(help="Of the sequence; the task says what it counts.")],
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="As in a study file; may be given several times."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print one example of a task, its ceiling and its chance."""
    from ..study import Choice, resolve
    from ..tasks import TASKS
    from ..tasks.show import describe, example, options_from

    options = options_from(option or [])
    kind: Any = TASKS[name]
    resolve("task", kind, Choice(name=name, options=options))
    found = example(name, length, seed, options)
    if as_json:
        emit(found)
    else:
        print("\n".join(describe(found)))
