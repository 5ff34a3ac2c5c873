"""The verb `longreach prescribe`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import InputError
from .app import AsJson, app, emit


@app.command()
def prescribe(
    model: Annotated[
        str | None,
        typer.Argument(help="A config.json, model folder, GGUF file or Hugging Face id."),
    ] = None,
    target_length: Annotated[
        int | None, typer.Option(help="Tokens to reach; with --verify, tokens asked for.")
    ] = None,
    repair: Annotated[
        str | None,
        typer.Option(metavar="NAME[:OPTION=VALUE,...]", help="As `longreach spectrum` takes it."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE[==VERSION]",
            help="transformers, vllm, sglang, llama.cpp, tgi, ollama, axolotl or llama-factory.",
        ),
    ] = None,
    trained_length: Annotated[
        int | None, typer.Option(help="Tokens in pre-training, where the config is wrong.")
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="Say what engines make of this config, or of MODEL with this block.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the block or flags that make an engine apply a repair, or say why it cannot."""
    from ..show import prescription as shown

    if verify is not None:
        readings = shown.verified(verify, model, engine, target_length)
        if as_json:
            found = [each.as_json() for each in readings]
            emit(found[0] if engine is not None else {"readings": found})
        else:
            print(shown.readings_text(readings))
        if engine is not None and readings[0].fails is not None:
            raise typer.Exit(1)
        return
    if model is None or target_length is None or repair is None or engine is None:
        raise InputError(
            "prescribe takes MODEL --target-length N --repair NAME --engine ENGINE, or --verify "
            "CONFIG"
        )
    answer = shown.prescribed(model, repair, target_length, engine, trained_length)
    if as_json:
        emit(answer.as_json())
    else:
        print(shown.text(answer))
    if answer.refused is not None:
        raise typer.Exit(1)
