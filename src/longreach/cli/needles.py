"""The verb `longreach needles`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .app import AsJson, app, emit, listed, say
from .models import (
    Device,
    Dtype,
    Force,
    MaxMinutes,
    Model,
    Out,
    Repairs,
    Texts,
    TrainedLength,
    applied,
    as_data,
    resumable,
    seconds,
    slug,
    tokens,
    worn,
)


@app.command()
def needles(
    model: Model,
    lengths: Annotated[
        str,
        typer.Option(
            help="Lengths of prompts in tokens: 2k,4k,8k. 1k is 1,024. Give the trained length "
            "too, to see what the model can do there."
        ),
    ],
    depths: Annotated[
        str, typer.Option(help="Where needles are: 0 before all text, 1 right before the question.")
    ] = "0,0.25,0.5,0.75,1",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="facts, key_value or passkey; may be given several times. All unless given."
        ),
    ] = None,
    repair: Repairs = None,
    text: Texts = None,
    trials: Annotated[int, typer.Option(help="Needles at each length and depth.")] = 10,
    target_length: Annotated[
        str | None, typer.Option(help="Set repairs for it; the longest length unless given.")
    ] = None,
    trained_length: TrainedLength = None,
    dtype: Dtype = None,
    device: Device = None,
    max_minutes: MaxMinutes = None,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Hide needles in long text, and measure where a trained model finds them, under repairs."""
    asked = [tokens(word, "--lengths") for word in listed(lengths, "--lengths") or ()]
    repairs = worn(repair)
    allowed = seconds(max_minutes)
    target = None if target_length is None else tokens(target_length, "--target-length")
    places = fractions(depths, "--depths")

    from ..pretrained import load
    from ..pretrained.hunt import NeedleRequest
    from ..pretrained.memory import check
    from ..pretrained.needles import NEEDLES
    from ..pretrained.seek import seek
    from ..progress import display
    from ..report import write

    search = NeedleRequest(
        lengths=tuple(asked),
        depths=tuple(places),
        kinds=tuple(word.strip().replace("-", "_") for word in kind or NEEDLES),
        repairs=repairs,
        texts=tuple(text or ("stdlib",)),
        trials=trials,
        target_length=target,
    ).checked()
    loaded = load(model, dtype=dtype, device=device, trained_length=trained_length, say=say)
    check(loaded, max(asked), force=force, questions=True)
    folder = out or Path("runs") / f"needles-{slug(model)}"
    with resumable(), display("rounds", "tokens") as shown:
        found = seek(
            loaded,
            search,
            folder,
            display=shown,
            say=say,
            command=shlex.join(["longreach", *sys.argv[1:]]),
            max_seconds=allowed,
        )
    written = write(folder)
    if as_json:
        emit(as_data(found, str(written.page)))
        return
    print(written.brief)
    for proof in found.proofs.values():
        print(applied(proof))
    for line in (*found.problems, *found.left_out):
        print(line)
    print(f"report: {written.page}")


def fractions(text: str, option: str) -> list[float]:
    """Numbers from 0 to 1 between commas.

    >>> fractions("0, .25,1", "--depths")
    [0.0, 0.25, 1.0]
    """
    try:
        found = [float(word) for word in listed(text, option) or ()]
    except ValueError:
        found = [-1.0]
    if not all(0 <= each <= 1 for each in found):  # Also where it is no number.
        raise InputError(f"{option} takes numbers from 0 to 1 between commas, got '{text}'")
    return found
