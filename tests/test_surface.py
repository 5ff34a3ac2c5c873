"""The public surface, frozen in surface.txt: whoever changes it sees it in the diff.

After a change that is meant: `python -m tests.test_surface` from the repository's root writes it
anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import typer.main

from longreach.cli import app
from longreach.corpora import CORPORA
from longreach.results import ROW_FIELDS
from longreach.schemes import SCHEMES
from longreach.study import Study, _options_model, built_in_studies
from longreach.tasks import TASKS

FROZEN = Path(__file__).with_name("surface.txt")


def keys(model: type, path: str = "") -> Iterator[str]:
    """The keys of a study file, nested ones with dots."""
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        optional = isinstance(field.annotation, UnionType)
        kinds = get_args(field.annotation) if optional else (field.annotation,)
        inner = [kind for kind in kinds if inspect.isclass(kind) and hasattr(kind, "model_fields")]
        if inner:
            yield from keys(inner[0], f"{path}{name}.")
        else:
            yield path + name


def verbs(group: Any, path: str = "") -> Iterator[str]:
    """Every parameter of every verb, those of groups of verbs too."""
    for verb, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from verbs(command, f"{path}{verb} ")
            continue
        for parameter in command.params:
            spelt = "/".join(parameter.opts) if parameter.param_type_name == "option" else "<...>"
            yield f"{path}{verb} {spelt}"


def surface() -> str:
    """Everything that a user may come to rely on, a line each."""
    lines = [f"cli {line}" for line in verbs(typer.main.get_command(app))]
    lines += [f"row {name}" for name in ROW_FIELDS]
    lines += [f"study key {key}" for key in keys(Study)]
    for noun, table in (("scheme", SCHEMES), ("task", TASKS)):
        for name, kind in table.items():
            options = "".join(f" {option}" for option in _options_model(kind).model_fields)
            lines.append(f"{noun} {name}{options}")
    lines += [f"corpus {name}" for name in CORPORA]
    lines += [f"built-in study {name}" for name in built_in_studies()]
    return "\n".join(lines) + "\n"


def test_the_surface_is_as_it_was_frozen():
    assert surface() == FROZEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    FROZEN.write_text(surface(), encoding="utf-8")
