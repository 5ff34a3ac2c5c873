"""One cell of a study: train a model, measure it, and leave a run folder, whole or not at all."""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import safetensors.numpy
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from . import files
from .errors import InputError
from .evaluate import Aim, Asked, evaluate, sample
from .held_out import HeldOut
from .measure.measured import Measured
from .results import (
    EVALUATION,
    FORMAT,
    ITEMS,
    LOG,
    ROWS,
    TRAINING,
    WEIGHTS,
    Run,
    damaged,
    dump_rows,
    read_json,
    read_run,
    sha256,
)
from .study import Evaluation, Training, explain
from .tasks.base import Task
from .train import Network, build_model, build_task, train

WORK = ".work"
"""Inside the runs folder: checkpoints, and run folders not yet whole."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A training, how to measure it, and where the run folder goes.

    repairs, aim: see `evaluate.Asked`.
    made_with: longreach's version. It travels along: where a cell is fulfilled, longreach may be
        there as source alone, which cannot say.
    """

    training: Training
    lengths: tuple[int, ...]
    evaluation: Evaluation
    out: Path
    command: str
    repairs: tuple[str, ...] = ()
    aim: Aim | None = None
    made_with: str = field(default_factory=lambda: version("longreach"))

    @property
    def label(self) -> str:
        """For people."""
        training, aim = self.training, self.aim
        made = "" if aim is None else f" + {aim.done} at {aim.length}"
        return f"{training.scheme.label}{made} on {training.task.label}, seed {training.seed}"

    @property
    def asked(self) -> Asked:
        """What is to be measured."""
        return Asked(
            lengths=self.lengths, evaluation=self.evaluation, repairs=self.repairs, aim=self.aim
        )

    @property
    def base(self) -> Path | None:
        """The run folder whose weights it begins from, if there is one."""
        training = self.training
        return None if training.extended is None else self.out / training.base.digest

    @property
    def folder(self) -> Path:
        """Where the finished run is."""
        return self.out / self.training.digest

    @property
    def work(self) -> Path:
        """Where it is made."""
        return self.out / WORK / self.training.digest

    @property
    def trained(self) -> bool:
        """Whether the run folder is there (it appears whole)."""
        return (self.folder / TRAINING).exists()

    def wants(self, task: Task) -> bool:
        """Whether anything is left to do. Raises InputError if the run folder is damaged."""
        if not self.trained:
            return True
        asked = self.asked.settings(task)
        if checked(self.folder).evaluation["evaluation"] == asked:
            return False
        if not (self.folder / WEIGHTS).exists():
            raise InputError(
                damaged(self.folder / WEIGHTS, "no file, and other rows are asked for")
            )
        return True


def checked(folder: Path) -> Run:
    """The run in a folder. Raises InputError if a file of it is not as it was written.

    Weights may be missing (recorded results come without), as long as nobody needs them.
    """
    run = read_run(folder)
    path = folder / WEIGHTS
    if path.exists():
        expected = run.training.get("sha256", {}).get(WEIGHTS)
        if expected is None:  # Written before their sum was.
            readable(path)
        elif (found := sha256(path)) != expected:
            raise InputError(damaged(path, f"sha256 {found[:12]}, expected {expected[:12]}"))
    return run


def readable(path: Path) -> None:
    """Raises InputError if a file of tensors is cut short or none at all."""
    try:
        with safe_open(path, framework="pt"):
            pass
    except SafetensorError as error:
        raise InputError(damaged(path, str(error).splitlines()[0])) from None


def provenance(command: str, made_with: str | None = None) -> dict[str, Any]:
    """What made a result: command, versions, machine, date."""
    return {
        "command": command,
        "longreach": made_with or version("longreach"),
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "platform": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def fulfil(cell: Cell, tell: Callable[[int, float], None], until: int | None = None) -> bool:
    """Trains unless the weights are there, measures unless the rows are; whether all is done.

    until: train for so many steps in all and leave a checkpoint, if the recipe has more.

    Raises RunError if training fails, InputError if what is there is damaged, OSError if the disk
    does not take it; in each case nothing half-made is left where results are read.
    """
    task = build_task(cell.training)
    if cell.trained:
        remeasure(cell, task)
        return True
    held_out = held_out_of(cell, task)
    begin = None if cell.base is None else stored_model(cell.base, cell.training.base, task)
    model, progress = train(
        cell.training,
        task,
        begin=begin,
        held_out=held_out,
        checkpoint=cell.work / "checkpoint.safetensors",
        until=until,
        tell=tell,
    )
    if progress.step < cell.training.recipe.steps:
        return False
    started = time.monotonic()
    whole = cell.work / "run"
    shutil.rmtree(whole, ignore_errors=True)
    whole.mkdir(parents=True)
    files.write(whole / WEIGHTS, save(model.state_dict()))
    files.write(whole / LOG, "".join(json.dumps(line) + "\n" for line in progress.log))
    if task.data is not None:
        tokenizer = task.corpus.folder / "tokenizer.json"  # type: ignore[attr-defined]
        files.write(whole / "tokenizer.json", tokenizer.read_bytes())
    write_measured(cell, task, whole, measured(cell, task, model), ROWS, ITEMS)
    about = {
        "format": FORMAT,
        "digest": cell.training.digest,
        "training": cell.training.model_dump(mode="json"),
        "provenance": {
            **provenance(cell.command, cell.made_with),
            "seconds": round(progress.seconds + time.monotonic() - started, 1),
        },
        "summary": {
            "parameters": sum(p.numel() for p in model.parameters()),
            "final_loss": progress.log[-1]["loss"],
            "overlap": None if held_out is None else progress.overlap,
            "seen": None if held_out is None else held_out.seen(progress.seen),
        },
        "sha256": {WEIGHTS: sha256(whole / WEIGHTS)},
    }
    files.write(whole / TRAINING, json.dumps(about, indent=1) + "\n")
    whole.rename(cell.folder)
    files.sync(cell.out)
    shutil.rmtree(cell.work, ignore_errors=True)
    return True


def held_out_of(cell: Cell, task: Task) -> HeldOut | None:
    """What will be evaluated, at the lengths trained at; None where the text is split instead."""
    if task.metric != "exact_match":
        return None
    training = cell.training
    shortest = training.recipe.shortest or training.length
    return HeldOut(
        {
            length: sample(task, training.task.label, length, cell.evaluation.sequences).tokens
            for length in cell.lengths
            if shortest <= length <= training.length
        }
    )


def remeasure(cell: Cell, task: Task) -> None:
    """Measures stored weights under other settings; the old rows stay beside the new ones."""
    run = read_run(cell.folder)
    if run.evaluation["evaluation"] == cell.asked.settings(task):
        return
    model = stored_model(cell.folder, cell.training, task)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    rows, items = f"rows-{stamp}.jsonl", f"items-{stamp}.safetensors"
    write_measured(cell, task, cell.folder, measured(cell, task, model), rows, items)


def stored_training(folder: Path) -> Training:
    """What the model of a run folder was trained as. Raises InputError if it is damaged."""
    path = folder / TRAINING
    try:
        return Training.model_validate(read_json(path).get("training"))
    except ValidationError as error:
        raise InputError(damaged(path, explain(error, Training))) from None


def stored_model(folder: Path, training: Training, task: Task) -> Network:
    """The trained model of a run folder. Raises InputError if its weights are gone or damaged."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(
            f"{path} is not there: results are recorded without weights. To have them, run the "
            "study again into another folder"
        )
    model = build_model(training, task)
    try:
        model.load_state_dict(load_file(path))
    except Exception as error:
        raise InputError(damaged(path, str(error).splitlines()[0])) from None
    return model.eval()


def measured(cell: Cell, task: Task, model: Network) -> Measured:
    """All rows of the cell's model."""
    return evaluate(model, task, cell.training, cell.asked)


def write_measured(
    cell: Cell, task: Task, folder: Path, found: Measured, rows: str, items: str
) -> None:
    """Writes rows and items, then evaluation.json, which names them and so makes them count."""
    files.write(folder / rows, dump_rows(found.rows))
    files.write(folder / items, safetensors.numpy.save(found.items))
    about = {
        "format": FORMAT,
        "evaluation": cell.asked.settings(task),
        "provenance": provenance(cell.command, cell.made_with),
        "task": {
            "label": cell.training.task.label,
            "metric": task.metric,
            "length_unit": task.counts,
            "ceiling": {str(length): task.ceiling(length) for length in cell.lengths},
            "chance": {str(length): task.chance(length) for length in cell.lengths},
            "note": task.note,
        },
        "rows": rows,
        "items": items,
        "sha256": {rows: sha256(folder / rows), items: sha256(folder / items)},
    }
    files.write(folder / EVALUATION, json.dumps(about, indent=1) + "\n")
