"""The verb `longreach adapt`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .app import AsJson, app, emit, say
from .models import Force, Model, TrainedLength, seconds, tokens


@app.command()
def adapt(
    model: Model,
    repair: Annotated[
        str,
        typer.Option(
            metavar="NAME[:OPTION=VALUE,...]",
            help="What its config is to carry, as `longreach spectrum` takes it; none to train at "
            "the new length without one, on the same tokens, to compare with.",
        ),
    ],
    target_length: Annotated[str, typer.Option(help="Tokens to reach; 1k is 1,024.")],
    steps: Annotated[int, typer.Option(help="Steps of training.")],
    text: Annotated[
        str, typer.Option(help="A corpus (stdlib, text:FOLDER, hf:NAME), a folder or a file.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write; must not be there.")],
    length: Annotated[
        str | None,
        typer.Option(
            help="Tokens that are read at once; the target length, or with --pose the trained one."
        ),
    ] = None,
    pose: Annotated[
        bool,
        typer.Option("--pose", help="Skip positions, so that short windows cover long distances."),
    ] = False,
    lora: Annotated[
        int | None,
        typer.Option(
            metavar="RANK", help="Train matrices of this rank beside attention's, and merge them."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Windows per step, over all devices.")] = 1,
    learning_rate: Annotated[
        float | None, typer.Option(help="2e-5 unless given, with --lora 2e-4.")
    ] = None,
    warmup: Annotated[int, typer.Option(help="Steps until the whole learning rate.")] = 20,
    seed: Annotated[int, typer.Option(help="Draws windows and skips.")] = 0,
    trained_length: TrainedLength = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Of passes: float32 or bfloat16; float32 unless on a GPU."),
    ] = None,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="Train on the CPU, whatever else there is.")
    ] = False,
    gradient_checkpointing: Annotated[
        bool,
        typer.Option(
            "--gradient-checkpointing/--no-gradient-checkpointing",
            help="Less memory for about a third more time.",
        ),
    ] = True,
    max_minutes: Annotated[
        float | None,
        typer.Option(help="Stop with a checkpoint by then; the same command continues."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Put a repair into a model's config and train it briefly at the new length.

    Writes a folder that `transformers` loads as it is. On several devices: accelerate launch -m
    longreach adapt ...
    """
    from ..repairs import Repair

    asked = None if repair.strip() == "none" else Repair.parse(repair)
    target = tokens(target_length, "--target-length")
    window = None if length is None else tokens(length, "--length")
    allowed = seconds(max_minutes)

    from ..pretrained import load
    from ..pretrained.adapt import adapt as adapt_model
    from ..pretrained.loading import Pretrained
    from ..pretrained.recipe import Recipe
    from ..pretrained.session import speaks
    from ..progress import Lines, display

    recipe = Recipe(
        repair=asked,
        target_length=target,
        steps=steps,
        text=text,
        length=window,
        pose=pose,
        lora=lora,
        batch=batch,
        learning_rate=learning_rate,
        warmup=warmup,
        seed=seed,
        dtype=dtype,
        checkpointing=gradient_checkpointing,
    )
    talks = speaks()
    loaded = load(
        model,
        device="cpu",  # Each process takes its own copy to its device.
        trained_length=trained_length,
        say=say if talks else lambda line: None,
    )
    if not isinstance(loaded, Pretrained):
        raise InputError(
            f"{model} is a run of our own, which is not adapted; write a study with the length "
            "wanted as its trained_length"
        )
    try:
        with display("models", "steps") if talks else Lines() as shown:
            found = adapt_model(
                loaded,
                recipe,
                out,
                display=shown,
                command=shlex.join(["longreach", *sys.argv[1:]]),
                cpu=cpu,
                max_seconds=allowed,
                force=force,
                say=say if talks else lambda line: None,
            )
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from the last checkpoint, if one was written")
        raise typer.Exit(130) from None
    if not talks:
        return
    if as_json:
        emit(as_data(found))
    else:
        print(told(found))


def told(found: Any) -> str:
    """What became of it, in a few lines."""
    about = found.about
    done, steps = about["steps"], about["request"]["steps"]
    losses = about["losses"]
    few = max(1, min(20, done // 4))
    first, last = (sum(part) / len(part) for part in (losses[:few], losses[-few:]))
    lines = [
        f"trained {about['model']} on {about['tokens']:,} tokens in {done:,} of {steps:,} steps; "
        f"mean loss {first:.3f} at first and {last:.3f} in the end, nats per token, over {few} "
        f"step{'s' if few > 1 else ''} each"
    ]
    for each in about["proof"]:
        speeds = each["inverse_frequencies"]
        lines.append(
            f"its config makes {len(each['layers'])} layers turn at {speeds[0]:.4g} to "
            f"{speeds[-1]:.4g} radians per token, amplitude {each['amplitude']:.4g}"
        )
    if found.finished:
        lines.append(f"model: {found.folder}")
        if about["request"]["repair"] is not None:
            lines.append(
                "compare it with the same command with --repair none and another --out: the same "
                f"tokens without a repair. Measure both on --text held-out:{about['text']['given']}"
            )
    else:
        lines.append("the time did not allow more; the same command continues")
    return "\n".join(lines)


def as_data(found: Any) -> dict[str, Any]:
    """For programs."""
    return {"folder": str(found.folder), "finished": found.finished, **found.about}
