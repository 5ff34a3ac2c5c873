"""The verb `longreach prove`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .app import AsJson, app, emit, say
from .models import (
    Device,
    Dtype,
    Force,
    MaxMinutes,
    Model,
    Out,
    Texts,
    TrainedLength,
    Windows,
    applied,
    resumable,
    seconds,
    slug,
    tokens,
)


@app.command()
def prove(
    model: Model,
    target_length: Annotated[str, typer.Option(help="Tokens to reach: 12288, or 12k.")],
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE[==VERSION]", help="To prescribe for; as `longreach prescribe` takes it."
        ),
    ] = "transformers",
    repair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:OPTION=VALUE,...]",
            help="A candidate; may be given several times. Unless given, those that "
            "`longreach diagnose` names, each at its smallest sufficient factor.",
        ),
    ] = None,
    text: Texts = None,
    windows: Windows = 4,
    needles: Annotated[
        str, typer.Option(help="Kinds between commas (facts,key_value,passkey), or none.")
    ] = "facts",
    trials: Annotated[int, typer.Option(help="Needles of each kind, length and depth.")] = 4,
    trained_length: TrainedLength = None,
    dtype: Dtype = None,
    device: Device = None,
    max_minutes: MaxMinutes = None,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure a model at a target length, choose the cheapest repair that holds, prescribe it."""
    from ..repairs import Repair

    target = tokens(target_length, "--target-length")
    candidates = [Repair.parse(word) for word in repair or ()]
    kinds = [] if needles.strip() == "none" else [word.strip() for word in needles.split(",")]
    allowed = seconds(max_minutes)

    from ..engines import find
    from ..pretrained import letter, load, prove as visit
    from ..pretrained.loading import for_engines
    from ..pretrained.memory import check
    from ..progress import display
    from ..report import put, write

    find(engine)  # An engine that there is not is told before anything is measured.
    loaded = for_engines(
        load(model, dtype=dtype, device=device, trained_length=trained_length, say=say)
    )
    check(loaded, target, force=force, questions=bool(kinds))
    folder = out or Path("runs") / f"prove-{slug(model)}"
    command = shlex.join(["longreach", *sys.argv[1:]])
    with resumable():
        found = visit.prove(
            loaded,
            target,
            folder,
            engine=engine,
            texts=tuple(text or ("stdlib",)),
            repairs=candidates,
            windows=windows,
            kinds=kinds,
            trials=trials,
            display=lambda: display("parts", "tokens"),
            command=command,
            say=say,
            max_seconds=allowed,
        )
    visit.keep(found, folder, command)
    for part, results in ((visit.LOSSES, found.losses), (visit.NEEDLES, found.needles)):
        if results is not None:
            write(folder / part)
    put(folder / "verdict.md", letter.text(found).encode())
    put(folder / "verdict.html", letter.page(found, folder).encode())
    if as_json:
        emit({**found.as_json(), "page": str(folder / "verdict.html")})
        return
    print(letter.text(found))
    for proof in found.proofs:
        print(applied(proof))
    print(f"page: {folder / 'verdict.html'}")
