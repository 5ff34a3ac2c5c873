"""Runs a study: every scheme x task x seed, resumed where it was left."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from filelock import FileLock, Timeout

from . import files
from .cell import Cell, checked, provenance
from .errors import InputError, RunError
from .evaluate import Aim, Asked
from .model.decoder import Decoder
from .repairs import Repair
from .results import FORMAT, LONG_TRAINING, PLAN, Results, done_for, read_json
from .study import UNREPAIRED, Extended, Extending, Recipe, Study, Training, resolve
from .table import nearest
from .tasks import TASKS
from .tasks.base import Task
from .tasks.text import Text
from .train import build_model, check_frame, repaired
from .where import Outcome, chosen as chosen_place


class Display(Protocol):
    """Shows how a study advances. `steps` are of all trainings together."""

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        """Once, before anything runs."""

    def advance(self, steps: int) -> None:
        """So many training steps more are done."""

    def finish(self, label: str) -> None:
        """One more run is in its folder."""


def trainings(study: Study, say: Callable[[str], None]) -> list[tuple[Training, Task]]:
    """A study's trainings with their tasks, in order: tasks, then seeds, then schemes.

    Those by which an extension serves further lengths are not among them: see `cells_of`.

    Corpora are prepared here, once, and every choice is built once, so that a mistake in a study
    shows before anything is trained. Raises InputError for it.
    """
    found: list[tuple[Training, Task]] = []
    for choice in study.tasks:
        kind: Any = TASKS[choice.name]
        check_frame(study.model, choice, kind)
        options = resolve("task", kind, choice)
        task: Task = kind(**options, say=say) if "corpus" in options else kind(**options)
        Asked(lengths=study.evaluation_lengths, evaluation=study.evaluation).settings(task)
        task.sample(study.trained_length, 1, torch.Generator())
        if isinstance(task, Text):
            task.windows(study.evaluation_lengths[-1] + 1, 1)
        for seed in study.seeds:
            for scheme in study.schemes:
                training = Training(
                    scheme=scheme,
                    task=choice,
                    data=task.data,
                    seed=seed,
                    trained_length=study.trained_length,
                    model=study.model,
                    training=study.training,
                )
                if seed == study.seeds[0]:
                    check_repairs(study, training, task)
                found.append((training, task))
    return found


def check_repairs(study: Study, training: Training, task: Task) -> None:
    """Builds a model, and every spectrum that it is to have. Raises InputError if one cannot be."""
    model = build_model(training, task)
    extension = study.extension
    if extension is None or training.scheme.label not in extension.schemes:
        return
    assert isinstance(model, Decoder)
    for name in extension.worn:
        for length in study.past:
            repaired(model, Repair.parse(name), task, training.trained_length, length)


def cells_of(
    study: Study, planned: Iterable[tuple[Training, Task]], out: Path, command: str
) -> list[tuple[Cell, Task]]:
    """What a study consists of: its trainings, each before those that extend it."""
    found = []
    shared: dict[str, Any] = {
        "lengths": study.evaluation_lengths,
        "evaluation": study.evaluation,
        "out": out.absolute(),
        "command": command,
    }
    for training, task in planned:
        extension = study.extension
        if extension is None or training.scheme.label not in extension.schemes:
            found.append((Cell(training=training, **shared), task))
            continue
        found.append((Cell(training=training, repairs=extension.worn, **shared), task))
        for length in study.past:
            for done, longer in extended(training, extension, length):
                aim = Aim(done=done, length=length, trained_length=study.trained_length)
                found.append((Cell(training=longer, aim=aim, **shared), task))
    return found


def extended(base: Training, extension: Extending, length: int) -> Iterator[tuple[str, Training]]:
    """The trainings that serve one length past the trained one, and what is done in each.

    Their steps read as many tokens as those at the trained length.
    """

    def as_many_tokens(recipe: Recipe) -> Recipe:
        batch = max(1, round(recipe.batch * base.trained_length / length))
        return recipe.model_copy(update={"batch": batch})

    if extension.training is not None:
        for name in extension.repairs:
            repair = None if name == UNREPAIRED else name
            after = Extended(
                repair=repair, length=length, training=as_many_tokens(extension.training)
            )
            done = done_for(repair, tuned=True)
            assert done is not None
            yield done, base.model_copy(update={"extended": after})
    if extension.from_scratch:
        whole = {"trained_length": length, "training": as_many_tokens(base.training)}
        yield LONG_TRAINING, base.model_copy(update=whole)


def narrow(
    cells: Sequence[Cell], *, schemes: Sequence[str] | None, seeds: Sequence[int] | None
) -> list[Cell]:
    """The cells of some schemes (by name or label) and seeds; InputError for one not there."""
    by_scheme = {name for c in cells for name in (c.training.scheme.name, c.training.scheme.label)}
    for name in schemes or ():
        if name not in by_scheme:
            raise InputError(f"--schemes: the study has no '{name}'; {nearest(name, by_scheme)}")
    by_seed = {c.training.seed for c in cells}
    for seed in seeds or ():
        if seed not in by_seed:
            raise InputError(f"--seeds: the study has no seed {seed}; it has {sorted(by_seed)}")
    return [
        cell
        for cell in cells
        if (schemes is None or {cell.training.scheme.name, cell.training.scheme.label} & {*schemes})
        and (seeds is None or cell.training.seed in seeds)
    ]


def run(
    study: Study,
    out: Path,
    *,
    display: Display,
    say: Callable[[str], None],
    command: str,
    where: str = "local",
    workers: int | None = None,
    schemes: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    again: Sequence[str] = (),
) -> Results:
    """Trains and measures what is missing in `out`, and reads all of it.

    where: `local`, `ray` or `ray:ADDRESS`. workers: how many runs at a time; unless given, as many
        as cores, or as the cluster has room for.
    again: digests, or how they begin, of runs to train anew; their folders are kept aside.
    Raises InputError for a mistake in the study or a folder that is not its own, RunError if a run
    failed (the others are finished first).
    """
    place = chosen_place(where, workers, say)
    with locked(out):
        check_folder(out, study)
        planned = cells_of(study, trainings(study, say), out, command)
        cells = [cell for cell, _ in planned]
        tasks = {cell.training.digest: task for cell, task in planned}
        chosen = narrow(cells, schemes=schemes, seeds=seeds)
        for cell in named(chosen, again):
            if cell.folder.exists():
                say(f"kept aside: {set_aside(cell)}")
        missing = wanting(chosen, tasks)
        write_plan(out, study, cells, command)
        display.start(
            runs=len(chosen),
            finished=len(chosen) - len(missing),
            steps=sum(cell.training.recipe.steps for cell in missing if not cell.trained),
        )
        failures: list[str] = []
        # Those that begin from another's weights come after it.
        for wave in ([c for c in missing if not c.base], [c for c in missing if c.base]):
            ready = [c for c in wave if c.trained or c.base is None or c.base.exists()]
            if ready:
                with contextlib.closing(place.outcomes(ready, display.advance)) as outcomes:
                    failures += collect(outcomes, display)
        if failures:
            raise RunError("; ".join(failures))
        return Results.read(out)


def named(cells: Sequence[Cell], digests: Sequence[str]) -> list[Cell]:
    """The cells whose digests begin so; InputError where that is none, or several."""
    found = []
    for begin in digests:
        fitting = [cell for cell in cells if cell.training.digest.startswith(begin)]
        if len(fitting) != 1:
            known = [cell.training.digest for cell in fitting or cells]
            raise InputError(
                f"--again: {len(fitting)} of the runs asked for have a digest that begins with "
                f"'{begin}'; give one of {', '.join(known)}"
            )
        found += fitting
    return found


def set_aside(cell: Cell) -> Path:
    """Renames a run folder, so that its place is free; nothing in it is touched."""
    try:
        checked(cell.folder)
        why = "before"
    except InputError:
        why = "damaged"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    aside = cell.folder.with_name(f"{cell.folder.name}.{why}-{stamp}")
    cell.folder.rename(aside)
    files.sync(cell.out)
    return aside


def wanting(cells: Sequence[Cell], tasks: Mapping[str, Task]) -> list[Cell]:
    """The cells with something left to do. Raises InputError that names everything damaged."""
    missing, problems = [], []
    for cell in cells:
        try:
            if cell.wants(tasks[cell.training.digest]):
                missing.append(cell)
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("\n".join(problems))
    return missing


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Makes the folder, and keeps a second run out of it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / ".lock")
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"another longreach run is working in {out}; wait for it, or use --out"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; use another --out") from None
    try:
        yield
    finally:
        lock.release()


def check_folder(out: Path, study: Study) -> None:
    """Raises InputError if the folder holds another study's runs."""
    if not (out / PLAN).exists():
        return
    held = read_json(out / PLAN)["study"]["name"]
    if held != study.name:
        raise InputError(
            f"{out} holds the study '{held}', not '{study.name}'; use another --out folder"
        )


def write_plan(out: Path, study: Study, cells: Sequence[Cell], command: str) -> None:
    """Writes plan.json: the study as it was resolved, and the trainings it consists of."""
    plan = {
        "format": FORMAT,
        "study": study.model_dump(mode="json"),
        "trainings": [
            {
                "digest": c.training.digest,
                "scheme": c.training.scheme.label,
                "task": c.training.task.label,
                "seed": c.training.seed,
                **({"done": c.aim.done, "length": c.aim.length} if c.aim else {}),
            }
            for c in cells
        ],
        "provenance": provenance(command),
    }
    files.write(out / PLAN, json.dumps(plan, indent=1) + "\n")


def collect(outcomes: Iterable[Outcome], display: Display) -> list[str]:
    """Shows outcomes as they come; says of every run that failed why.

    Raises RunError for a file that cannot be written, which stops the rest: it would happen to them
    too.
    """
    failures = []
    for outcome in outcomes:
        error = outcome.error
        if error is None:
            display.finish(outcome.cell.label)
        elif isinstance(error, RunError):
            failures.append(str(error))
        elif isinstance(error, OSError):
            raise RunError(unwritable(error)) from None
        else:
            raise error
    return failures


def unwritable(error: OSError) -> str:
    """The message for a file that the system does not let be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"the disk is full ({error.filename}). What was finished is kept; "
            "free some space, and the same command continues"
        )
    path = error.filename2 or error.filename
    return (
        f"cannot write {path}: {error.strerror}. What was finished is kept; "
        "make it writable, and the same command continues"
    )
