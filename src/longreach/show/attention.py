"""What every head of trained models looks at: gathered from run folders, and tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cell import stored_model, stored_training
from ..errors import InputError
from ..evaluate import sample
from ..measure.attention import Attending, Attention, Head, distance_within, mean_distance, measure
from ..measure.measured import mean_interval
from ..results import PLAN, TRAINING, Results
from ..study import Training
from ..table import nearest
from ..tasks.base import Batch, Task
from ..tasks.text import Text
from ..train import build_task
from .spectrum import lay, lean_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SEQUENCES = 64
"""That numbers are averaged over, for each length."""


@dataclass(frozen=True, kw_only=True)
class Gaze:
    """One trained model, and its attention by length: None where it has no such positions."""

    digest: str
    training: Training
    task: Task
    limit: int | None
    lengths: Sequence[int]
    found: Mapping[int, Attention | None]

    @property
    def pointer(self) -> Head | None:
        """The head that looks most at the token to come next, at the trained length."""
        trained = self.found[self.training.trained_length]
        return None if trained is None else trained.best

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.training.scheme.label} on {self.training.task.label}"


def chosen(
    where: Path, schemes: Sequence[str] = (), task: str | None = None, seed: int | None = None
) -> list[Path]:
    """A run folder itself, or those of a runs folder: one for each scheme, in the plan's order.

    task, seed: which of several; of seeds the lowest unless given. Raises InputError for a folder
    that is neither, or names that are not there.
    """
    if (where / TRAINING).is_file():
        if schemes or task is not None or seed is not None:
            raise InputError(
                f"{where} is a single run; --scheme, --task and --seed choose among those of a "
                "runs folder"
            )
        return [where]
    if where.is_dir() and not (where / PLAN).is_file():
        raise InputError(
            f"{where} holds neither {TRAINING} nor {PLAN}: give a run folder, or the folder that "
            "`longreach run` wrote"
        )
    own = [run.folder for run in Results.read(where).runs if run.aim is None]
    runs = [(folder, stored_training(folder)) for folder in own]
    if not runs:
        raise InputError(f"no run in {where} is finished; `longreach run` finishes them")
    for scheme in schemes:
        known = {name for _, run in runs for name in (run.scheme.name, run.scheme.label)}
        if scheme not in known:
            raise InputError(
                f"--scheme: {where} has no run of '{scheme}'; {nearest(scheme, known)}"
            )
    if schemes:
        runs = [run for run in runs if {run[1].scheme.name, run[1].scheme.label} & {*schemes}]
    tasks = list(dict.fromkeys(run.task.label for _, run in runs))
    if task is None and len(tasks) > 1:
        raise InputError(f"{where} has runs of {' and '.join(tasks)}; name one with --task")
    if task is not None:
        if task not in tasks:
            raise InputError(f"--task: {where} has no run of '{task}'; {nearest(task, tasks)}")
        runs = [run for run in runs if run[1].task.label == task]
    seeds = sorted({run.seed for _, run in runs})
    if seed is not None and seed not in seeds:
        raise InputError(f"--seed: {where} has no run of seed {seed}; it has {seeds}")
    wanted = seeds[0] if seed is None else seed
    return [folder for folder, run in runs if run.seed == wanted]


def gather(folders: Sequence[Path], lengths: Sequence[int] = ()) -> list[Gaze]:
    """Measures the attention of the models in run folders.

    lengths: the trained length and twice as much unless given.
    Raises InputError for a length that the task does not have, or damaged files.
    """
    gazes = []
    for folder in folders:
        training = stored_training(folder)
        trained = training.trained_length
        asked = tuple(dict.fromkeys(lengths)) or (trained, 2 * trained)
        built = build_task(training)
        batches = {
            length: sequences(built, training.task.label, length) for length in {*asked, trained}
        }
        model = stored_model(folder, training, built)
        if not isinstance(model, Attending):
            raise InputError(
                f"{folder} holds an {training.model.architecture}: what its heads look at lies in "
                "two "
                "texts, and is not shown; name the run of a decoder"
            )
        found = {length: measure(model, built, batch) for length, batch in batches.items()}
        gazes.append(
            Gaze(
                digest=folder.name,
                training=training,
                task=built,
                limit=model.limit,
                lengths=asked,
                found=found,
            )
        )
    return gazes


def sequences(task: Task, label: str, length: int) -> Batch:
    """Those that any model is measured on at that length. InputError for one the task has not."""
    task.fits(length)
    if isinstance(task, Text):
        tokens = task.windows(length + 1, SEQUENCES).tokens
        scored = tokens >= 0
        scored[:, 0] = False
        return Batch(tokens, scored)
    return sample(task, label, length, SEQUENCES)


def as_json(gazes: Sequence[Gaze]) -> dict[str, Any]:
    """For programs; layers and heads count from 0, distances are in tokens."""
    return {"runs": [run_json(gaze) for gaze in gazes]}


def run_json(gaze: Gaze) -> dict[str, Any]:
    """One run: the head that points, and at each length every head."""
    training, pointer = gaze.training, gaze.pointer
    return {
        "training": gaze.digest,
        "scheme": training.scheme.label,
        "task": training.task.label,
        "seed": training.seed,
        "trained_length": training.trained_length,
        "counts": gaze.task.counts,
        "pointer": None if pointer is None else pointer._asdict(),
        "lengths": [length_json(gaze, length) for length in gaze.lengths],
    }


def length_json(gaze: Gaze, length: int) -> dict[str, Any]:
    """One length of one run."""
    found = gaze.found[length]
    if found is None:
        return {"length": length, "status": "past_limit"}
    even = distances_json(found.even_shares) | {"on_target": found.even_on_target}
    heads = []
    for head in found.heads:
        score: dict[str, Any] = {"on_target": found.score(head), "low": None, "high": None}
        if found.on_target is not None:
            score["low"], score["high"] = mean_interval(found.on_target[head])
        heads.append(head._asdict() | score | distances_json(found.shares[head]))
    return {
        "length": length,
        "status": "measured",
        "tokens_read": found.read,
        "sequences": found.sequences,
        "best": None if found.best is None else found.best._asdict(),
        "even": even,
        "heads": heads,
    }


def distances_json(shares: Any) -> dict[str, Any]:
    """Tokens back: the mean, and within which half and nine tenths of the attention lie."""
    return {
        "mean_distance": mean_distance(shares),
        "median_distance": distance_within(shares, 0.5),
        "distance_90": distance_within(shares, 0.9),
    }


def show(gazes: Sequence[Gaze], console: Console | None = None) -> None:
    """Prints every head of a single run, or the pointing heads of several."""
    from rich.console import Console

    console = console or Console(highlight=False)
    piped = not console.is_terminal  # A pipe has no width: what is printed there must not be cut.

    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=piped)

    for text in opening(gazes):
        line(text)
    if len(gazes) == 1:
        for length in gazes[0].lengths:
            line(f"\nlength {length} ({gazes[0].task.counts})")
            if gazes[0].found[length] is None:
                line(past_limit(gazes[0], length))
            else:
                lay(console, head_table(gazes[0], length))
    else:
        console.print()
        lay(console, pointer_table(gazes))
    console.print()
    for text in closing(gazes):
        line(text)


def opening(gazes: Sequence[Gaze]) -> list[str]:
    """What is shown, and how it is counted."""
    first = gazes[0].training
    subject = gazes[0].label if len(gazes) == 1 else first.task.label
    most = max((f.sequences for g in gazes for f in g.found.values() if f), default=SEQUENCES)
    return [
        f"{subject}, seed {first.seed}, trained at {first.trained_length} {gazes[0].task.counts}; "
        f"{most} sequences per length.",
        "Layers and heads count from 0; distances are in tokens.",
    ]


def head_table(gaze: Gaze, length: int) -> Table:
    """One row per head, and what even attention would give; the pointing head is bold."""
    found = gaze.found[length]
    assert found is not None  # as the caller sees to
    table = lean_table()
    titles = ["layer", "head", *(["on target"] if found.on_target is not None else [])]
    for title in (*titles, "mean\ndistance", "median", "90 %\nwithin"):
        table.add_column(title, justify="right")
    rows = [(str(head.layer), str(head.head), found.score(head), head) for head in found.heads]
    for layer, number, score, head in [*rows, ("even", "", found.even_on_target, None)]:
        shares = found.even_shares if head is None else found.shares[head]
        table.add_row(
            layer,
            number,
            *([] if score is None else [f"{score:.1%}"]),
            f"{mean_distance(shares):.1f}",
            str(distance_within(shares, 0.5)),
            str(distance_within(shares, 0.9)),
            style="bold" if head is not None and head == gaze.pointer else None,
        )
    return table


def pointer_table(gazes: Sequence[Gaze]) -> Table:
    """One row per run: its pointing head at each length, and the best head there."""
    table = lean_table()
    table.add_column("scheme")
    table.add_column("head")
    for length in gazes[0].lengths:
        for title in (f"on target\nat {length}", "best head\nthere", "even\nattention"):
            table.add_column(title, justify="right")
    for gaze in gazes:
        cells = []
        for length in gaze.lengths:
            found = gaze.found[length]
            if found is None:
                cells += ["past limit", "", ""]
            elif gaze.pointer is None or found.best is None:
                cells += ["", "", ""]
            else:
                best = f"{short(found.best)}: {found.score(found.best):.1%}"
                cells += [f"{found.score(gaze.pointer):.1%}", best, f"{found.even_on_target:.1%}"]
        pointer = "" if gaze.pointer is None else short(gaze.pointer)
        table.add_row(gaze.training.scheme.label, pointer, *cells)
    return table


def closing(gazes: Sequence[Gaze]) -> list[str]:
    """How the pointing head was chosen, and how it does elsewhere."""
    first = gazes[0]
    if first.pointer is None:
        return [f"{first.training.task.label} names no place that its answer is taken from."]
    trained, counts = first.training.trained_length, first.task.counts
    said = [
        "On target: the attention on the very token that is to come next, where it stands in the "
        "prompt, averaged over the answer's tokens and the sequences. Even: a head that looks at "
        "all tokens alike.",
    ]
    if len(gazes) > 1:
        return [*said, f"The head is the one most on target at {trained} {counts}."]
    found = first.found[trained]
    assert found is not None  # or there would be no pointer
    score = found.score(first.pointer)
    said.append(
        f"Bold: {spelt(first.pointer)}, the one most on target at {trained} {counts} ({score:.1%})."
    )
    for length in first.lengths:
        there = first.found[length]
        if length == trained or there is None or there.best is None:
            continue
        now = there.score(first.pointer)
        if there.best == first.pointer:
            said.append(f"At {length} it still is, with {now:.1%}.")
        else:
            said.append(
                f"At {length} it has {now:.1%}; most on target there is {spelt(there.best)} "
                f"({there.score(there.best):.1%})."
            )
    return said


def past_limit(gaze: Gaze, length: int) -> str:
    """Why there is nothing to see."""
    return (
        f"past the limit: {gaze.training.scheme.label} has {gaze.limit} positions, and up to "
        f"{gaze.task.total(length) - 1} tokens are read"
    )


def short(head: Head) -> str:
    """A head in a table, layer first.

    >>> short(Head(2, 1))
    '2.1'
    """
    return f"{head.layer}.{head.head}"


def spelt(head: Head) -> str:
    """A head in a sentence.

    >>> spelt(Head(2, 1))
    'head 1 of layer 2'
    """
    return f"head {head.head} of layer {head.layer}"
