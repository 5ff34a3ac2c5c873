"""What an adaptation leaves on disk: a checkpoint while it runs, a model's folder at its end."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from .. import files
from ..errors import InputError
from ..results import read_json
from .loading import ADAPTED

CHECKPOINT = "checkpoint.safetensors"

Parameters = Mapping[str, nn.Parameter]
"""Those that are trained, by name."""


@dataclass
class Progress:
    """Where an adaptation stands. losses: of every step, in nats. seconds: spent on steps."""

    step: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)


def work_of(out: Path) -> Path:
    """The folder beside the one to be written that holds what is unfinished."""
    return out.with_name(f"{out.name}.work")


def keep(
    folder: Path,
    trained: Parameters,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    request: Mapping[str, Any],
) -> None:
    """Writes a checkpoint, whole or not at all."""
    tensors = {f"weight.{name}": each.detach() for name, each in trained.items()}
    for name, parameter in trained.items():
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{name}.{key}"] = value
    # As safetensors' save_file writes it, without a copy of everything in memory.
    aside = folder / f".{CHECKPOINT}.{os.getpid()}"
    about = {"progress": json.dumps(asdict(progress)), "request": json.dumps(dict(request))}
    try:
        save_file({name: each.contiguous() for name, each in tensors.items()}, aside, about)
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(folder / CHECKPOINT)
    except SafetensorError as error:
        raise OSError(f"cannot write {folder / CHECKPOINT}: {error}") from None
    finally:
        aside.unlink(missing_ok=True)
    files.sync(folder)


def restore(
    folder: Path,
    trained: Parameters,
    optimizer: torch.optim.Optimizer,
    request: Mapping[str, Any],
) -> Progress | None:
    """Loads a checkpoint into parameters and optimizer; None if there is none.

    Raises InputError if it is another adaptation's, or damaged.
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
            check_same(json.loads(about["request"]), request, folder)
            progress = Progress(**json.loads(about["progress"]))
            state: dict[int, dict[str, Tensor]] = {}
            names = {name: number for number, name in enumerate(trained)}
            for key in file.keys():  # noqa: SIM118
                kind, _, rest = key.partition(".")
                if kind == "weight":
                    with torch.no_grad():
                        trained[rest].copy_(file.get_tensor(key))
                else:
                    name, _, part = rest.rpartition(".")
                    state.setdefault(names[name], {})[part] = file.get_tensor(key)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        # It appears whole, so this one was damaged from outside; not to be mended in silence.
        raise InputError(
            f"the checkpoint {path} is damaged ({error}); remove {folder} to begin again"
        ) from None
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return progress


def check_same(held: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> None:
    """Raises InputError if a folder is of another adaptation, naming what differs."""
    differ = [key for key in {**held, **asked} if held.get(key) != asked.get(key)]
    if differ:
        shown = ", ".join(f"{key} is {held.get(key)}, not {asked.get(key)}" for key in differ[:3])
        raise InputError(
            f"{folder} holds another adaptation ({shown}); use another --out, or remove it"
        )


def finished(out: Path, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """adapt.json of a folder that is there already; None if the place is free.

    Raises InputError if something else is there.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / ADAPTED).is_file():
        raise InputError(f"{out} exists and holds something else; use another --out")
    found = read_json(out / ADAPTED)
    check_same(found["request"], request, out)
    return found


def write_folder(out: Path, model: Any, tokenizer: Any, about: Mapping[str, Any]) -> None:
    """Config, weights and tokenizer as `transformers` writes them, and adapt.json: whole or not."""
    aside = work_of(out) / "whole"
    shutil.rmtree(aside, ignore_errors=True)  # Of one that was killed while it wrote.
    model.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    files.write(aside / ADAPTED, json.dumps(dict(about), indent=1) + "\n")
    for path in aside.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    if out.exists():
        out.rmdir()  # Empty, or it would have been refused.
    aside.rename(out)
    files.sync(out.parent)
