"""What the verbs about a trained model share: options, and how they are read and told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .app import say

if TYPE_CHECKING:
    from ..repairs import Repair

Model = Annotated[
    str,
    typer.Argument(
        help="A model's folder, a Hugging Face id, a GGUF file (gguf:PATH), or one of our runs "
        "(run:DIGEST)."
    ),
]
Repairs = Annotated[
    list[str] | None,
    typer.Option(
        "--repair",
        metavar="NAME[:OPTION=VALUE,...]",
        help="Wear this repair, as `longreach spectrum` takes it; may be given several times. "
        "The model as it is (none) is always measured.",
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        help="A corpus (stdlib, text:FOLDER, hf:NAME) or a file; may be given several times. "
        "held-out:TEXT is the part of it that `longreach adapt` does not train on.",
    ),
]
Windows = Annotated[int, typer.Option(help="Stretches of each text, at most.")]
TrainedLength = Annotated[
    int | None, typer.Option(help="Tokens in pre-training, where the config is wrong.")
]
Dtype = Annotated[
    str | None, typer.Option(help="float32, bfloat16 or float16; as stored unless given.")
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:N, mps, or auto (all there are).")
]
MaxMinutes = Annotated[
    float | None, typer.Option(help="Begin nothing that would end later, and say what is left out.")
]
Out = Annotated[Path | None, typer.Option(help="Folder for it; runs/VERB-MODEL unless given.")]
Force = Annotated[bool, typer.Option("--force", help="Also where memory seems to be too little.")]


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


def seconds(max_minutes: float | None) -> float | None:
    """The time allowed, in seconds."""
    if max_minutes is not None and max_minutes <= 0:
        raise InputError(f"--max-minutes must be above 0, got {max_minutes:g}")
    return None if max_minutes is None else 60 * max_minutes


def worn(given: list[str] | None) -> tuple[Repair | None, ...]:
    """The repairs asked for; "none" is the model as it is."""
    from ..repairs import Repair

    return tuple(None if word.strip() == "none" else Repair.parse(word) for word in given or ())


@contextmanager
def resumable() -> Iterator[None]:
    """What is read is kept, so an interruption is no failure; it ends with 130."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted; what was read is kept, and the same command continues")
        raise typer.Exit(130) from None


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
