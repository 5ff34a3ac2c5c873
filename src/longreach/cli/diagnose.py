"""The verb `longreach diagnose`."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import AsJson, app, emit

Model = Annotated[
    str,
    typer.Argument(
        help="A config.json, a model folder, a GGUF file, a Hugging Face id (only its config is "
        "fetched), or - for a config on standard input."
    ),
]

TrainedLength = Annotated[
    int | None,
    typer.Option(
        help="Tokens of pre-training, where the config is wrong or silent about it.", min=1
    ),
]


@app.command()
def diagnose(
    model: Model,
    target_length: Annotated[
        int | None, typer.Option(help="Tokens the model is to reach.", min=1)
    ] = None,
    trained_length: TrainedLength = None,
    as_json: AsJson = False,
) -> None:
    """Say what a config makes of positions, what is wrong in it, and what a target takes."""
    from ..checkpoint import read
    from ..diagnose import diagnose as examine
    from ..show.diagnosis import show

    found = examine(read(model, trained_length=trained_length), target_length)
    if as_json:
        emit(found.as_json())
        return
    show(found)
