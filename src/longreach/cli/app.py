"""The parts that every verb shares: the app itself, options they have in common, how they speak."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from ..errors import InputError

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
    print(json.dumps(found, allow_nan=False))


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
        from importlib.metadata import version  # 25 ms, which no other verb needs

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
