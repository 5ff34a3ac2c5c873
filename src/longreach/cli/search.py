"""The verb `longreach search`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .app import AsJson, app, emit, say
from .models import Device, Dtype, Force, Model, Out, TrainedLength, resumable, slug, tokens


@app.command()
def search(
    model: Model,
    target_length: Annotated[str, typer.Option(help="Tokens to reach: 12288, or 12k.")],
    evaluations: Annotated[
        int, typer.Option(help="Of each of the two forms, LongRoPE's and YaRN's.")
    ] = 20,
    text: Annotated[
        str, typer.Option(help="A corpus (stdlib, text:FOLDER, hf:NAME) or a folder.")
    ] = "stdlib",
    windows: Annotated[int, typer.Option(help="Documents to search on, one window of each.")] = 2,
    measured: Annotated[
        int, typer.Option(help="Other documents, to measure on afterwards; 0 to leave that out.")
    ] = 4,
    seed: Annotated[int, typer.Option(help="Of the proposals.")] = 0,
    trained_length: TrainedLength = None,
    dtype: Dtype = None,
    device: Device = None,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Search a factor for every pair by measuring, beside YaRN tuned with as many evaluations."""
    from ..errors import InputError
    from ..pretrained import load
    from ..pretrained.loading import for_engines
    from ..pretrained.measure import measure as measure_model
    from ..pretrained.memory import check
    from ..pretrained.search import gains, search as climb
    from ..pretrained.work import LAST_TOKENS, Request, lengths_for
    from ..progress import display
    from ..repairs import Repair
    from ..report import write

    target = tokens(target_length, "--target-length")
    if windows < 1 or measured < 0:
        raise InputError("--windows must be at least 1, and --measured at least 0")
    loaded = for_engines(
        load(model, dtype=dtype, device=device, trained_length=trained_length, say=say)
    )
    check(loaded, target, force=force)
    folder = out or Path("runs") / f"search-{slug(model)}"
    command = shlex.join(["longreach", *sys.argv[1:]])
    with resumable():
        with display("evaluations", "tokens") as shown:
            found = climb(
                loaded,
                target,
                folder,
                text=text,
                windows=windows,
                kept=measured,
                evaluations=evaluations,
                seed=seed,
                display=shown,
                command=command,
                say=say,
            )
        brief = ""
        if measured:
            lengths = lengths_for(loaded.trained_length, target)
            repairs = (Repair("yarn"), found.yarn.repair(), found.longrope.repair())
            request = Request(
                lengths=lengths,
                repairs=repairs,
                texts=(text,),
                windows=measured,
                last_tokens=min(LAST_TOKENS, lengths[0]),
                target_length=target,
            )
            with display("windows", "tokens") as shown:
                measure_model(
                    loaded, request, folder / "losses", display=shown, command=command, say=say
                )
            brief = write(folder / "losses").brief
    if as_json:
        emit(
            {
                "longrope": dict(found.longrope.repair().options),
                "yarn": dict(found.yarn.repair().options),
                "losses": {
                    climbed.name: [value for _, value in climbed.history]
                    for climbed in (found.longrope, found.yarn)
                },
                "searched_on": list(found.documents),
                "folder": str(folder),
            }
        )
        return
    for line in gains(found):
        print(line)
    if brief:
        print(f"\nOn other documents:\n\n{brief}")
    print(f"use it as: --repair longrope:@{folder / 'longrope.json'}")
