"""The verb `longreach measure`."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .app import AsJson, app, emit, listed, say


def tokens(text: str, option: str) -> int:
    """A number of tokens; k stands for 1,024.

    >>> tokens("12k", "--lengths"), tokens("500", "--lengths")
    (12288, 500)
    """
    match = re.fullmatch(r"(\d{1,12})(k?)", text.strip().lower())
    if match is None or int(match[1]) < 1:
        raise InputError(
            f"{option} takes numbers of tokens, such as 4096 or 4k (1k is 1,024), got '{text}'"
        )
    return int(match[1]) * (1024 if match[2] else 1)


@app.command()
def measure(
    model: Annotated[
        str,
        typer.Argument(
            help="A model's folder, a Hugging Face id, a GGUF file (gguf:PATH), or one of our runs "
            "(run:DIGEST)."
        ),
    ],
    lengths: Annotated[
        str, typer.Option(help="Evaluation lengths in tokens: 2k,4k,8k,12k. 1k is 1,024.")
    ],
    repair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:OPTION=VALUE,...]",
            help="Wear this repair, as `longreach spectrum` takes it; may be given several times. "
            "The model as it is (none) is always measured.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="A corpus (stdlib, text:FOLDER, hf:NAME) or a file; may be given several times. "
            "held-out:TEXT is the part of it that `longreach adapt` does not train on."
        ),
    ] = None,
    windows: Annotated[int, typer.Option(help="Stretches of each text, at most.")] = 8,
    last_tokens: Annotated[
        int, typer.Option(help="Compare so many tokens up to each length with the control.")
    ] = 256,
    target_length: Annotated[
        str | None, typer.Option(help="Set repairs for it; the longest length unless given.")
    ] = None,
    trained_length: Annotated[
        int | None, typer.Option(help="Tokens in pre-training, where the config is wrong.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or float16; as stored unless given.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:N, mps, or auto (all there are).")
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(help="Begin no window that would end later, and say what was left out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Runs folder; runs/measure-MODEL unless given.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where memory seems to be too little.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a trained model past its window, under repairs, beside a control."""
    from ..repairs import Repair

    asked = [tokens(word, "--lengths") for word in listed(lengths, "--lengths") or ()]
    worn = [None if word.strip() == "none" else Repair.parse(word) for word in repair or ()]
    if max_minutes is not None and max_minutes <= 0:
        raise InputError(f"--max-minutes must be above 0, got {max_minutes:g}")
    target = None if target_length is None else tokens(target_length, "--target-length")

    from ..pretrained import load
    from ..pretrained.measure import measure as measure_model
    from ..pretrained.memory import check
    from ..pretrained.work import Request
    from ..progress import display
    from ..report import write

    request = Request(
        lengths=tuple(asked),
        repairs=tuple(worn),
        texts=tuple(text or ("stdlib",)),
        windows=windows,
        last_tokens=last_tokens,
        target_length=target,
    )
    loaded = load(model, dtype=dtype, device=device, trained_length=trained_length, say=say)
    check(loaded, max(*asked, loaded.trained_length), force=force)
    folder = out or Path("runs") / f"measure-{slug(model)}"
    try:
        with display("windows", "tokens") as shown:
            found = measure_model(
                loaded,
                request,
                folder,
                display=shown,
                say=say,
                command=shlex.join(["longreach", *sys.argv[1:]]),
                max_seconds=None if max_minutes is None else 60 * max_minutes,
            )
    except KeyboardInterrupt:
        say("interrupted; what was read is kept, and the same command continues")
        raise typer.Exit(130) from None
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


def applied(proof: Any) -> str:
    """One line that says what a repair changed, as read back from the running model."""
    parts = [
        f"{len(each.layers)} layers at {each.inverse_frequencies[0]:.4g} to "
        f"{each.inverse_frequencies[-1]:.4g} radians per token, amplitude {each.amplitude:.4g}"
        for each in proof.worn
    ]
    left = f"; {len(proof.untouched)} layers untouched" if proof.untouched else ""
    return f"applied {proof.repair} for {proof.target_length:,} tokens: {'; '.join(parts)}{left}"


def as_data(found: Any, page: str) -> dict[str, Any]:
    """For programs."""
    from dataclasses import asdict

    return {
        "report": page,
        "trained_length": found.results.plan["study"]["trained_length"],
        "rows": [asdict(row) for row in found.results.rows],
        "proofs": [proof.as_json() for proof in found.proofs.values()],
        "problems": list(found.problems),
        "left_out": list(found.left_out),
    }


def slug(model: str) -> str:
    """A model's name as part of a folder's.

    >>> slug("gguf:models/SmolLM2-135M.Q4_1.gguf"), slug("org/name@main")
    ('smollm2-135m-q4-1', 'name-main')
    """
    last = model.rstrip("/").rpartition("/")[2].removeprefix("gguf:").removesuffix(".gguf")
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-") or "model"
