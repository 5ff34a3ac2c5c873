"""The verb `longreach measure`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

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
    Windows,
    applied,
    as_data,
    resumable,
    seconds,
    slug,
    tokens,
    worn,
)


@app.command()
def measure(
    model: Model,
    lengths: Annotated[
        str, typer.Option(help="Evaluation lengths in tokens: 2k,4k,8k,12k. 1k is 1,024.")
    ],
    repair: Repairs = None,
    text: Texts = None,
    windows: Windows = 8,
    last_tokens: Annotated[
        int, typer.Option(help="Compare so many tokens up to each length with the control.")
    ] = 256,
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
    """Measure a trained model past its window, under repairs, beside a control."""
    asked = [tokens(word, "--lengths") for word in listed(lengths, "--lengths") or ()]
    repairs = worn(repair)
    allowed = seconds(max_minutes)
    target = None if target_length is None else tokens(target_length, "--target-length")

    from ..pretrained import load
    from ..pretrained.measure import measure as measure_model
    from ..pretrained.memory import check
    from ..pretrained.work import Request
    from ..progress import display
    from ..report import write

    request = Request(
        lengths=tuple(asked),
        repairs=repairs,
        texts=tuple(text or ("stdlib",)),
        windows=windows,
        last_tokens=last_tokens,
        target_length=target,
    )
    loaded = load(model, dtype=dtype, device=device, trained_length=trained_length, say=say)
    check(loaded, max(*asked, loaded.trained_length), force=force)
    folder = out or Path("runs") / f"measure-{slug(model)}"
    with resumable(), display("windows", "tokens") as shown:
        found = measure_model(
            loaded,
            request,
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
