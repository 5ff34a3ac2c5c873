"""Measures a trained model on its task: at every length, or at the one that it was made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import InputError
from .measure import exact_match, text_loss
from .measure.measured import Measured
from .model.decoder import Decoder
from .repairs import Repair
from .study import Evaluation, Training
from .tasks.base import Batch, Task
from .tasks.text import Text
from .train import Network, generator_for, repaired


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a model was made for that is trained otherwise than its study's.

    done: what was done, as a row's `repair`. length: the one evaluation length that it serves.
    trained_length: that of the study, which its rows are compared with.
    """

    done: str
    length: int
    trained_length: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be measured of a model.

    repairs: worn in turn besides, each set for every length past the trained one.
    """

    lengths: tuple[int, ...]
    evaluation: Evaluation
    repairs: tuple[str, ...] = ()
    aim: Aim | None = None

    def settings(self, task: Task) -> dict[str, Any]:
        """What the rows depend on besides the weights. Rows of others are measured anew.

        Raises InputError if the last tokens to be followed do not fit the shortest length.
        """
        found: dict[str, Any] = {"lengths": list(self.lengths)}
        if task.metric == "exact_match":
            found["sequences"] = self.evaluation.sequences
        elif self.evaluation.last_tokens > self.lengths[0]:
            raise InputError(
                f"evaluation.last_tokens is {self.evaluation.last_tokens}, more than the shortest "
                f"of evaluation_lengths, {self.lengths[0]}: the same last tokens must fit every "
                "length"
            )
        else:
            wanted = ("documents", "windows", "last_tokens")
            found |= {name: getattr(self.evaluation, name) for name in wanted}
        if self.repairs:
            found["repairs"] = list(self.repairs)
        if self.aim is not None:
            found["aim"] = {"done": self.aim.done, "length": self.aim.length}
        return found


def sample(task: Task, label: str, length: int, count: int) -> Batch:
    """Evaluation sequences: they depend on the task and the length, never on a training's seed."""
    return task.sample(length, count, generator_for("evaluate", label, length))


def evaluate(model: Network, task: Task, training: Training, asked: Asked) -> Measured:
    """All rows of one trained model."""
    aim = asked.aim
    shared = {
        "training": training.digest,
        "scheme": training.scheme.label,
        "task": training.task.label,
        "seed": training.seed,
        "trained_length": training.trained_length if aim is None else aim.trained_length,
    }
    if aim is not None:
        out = Measured(shared | {"repair": aim.done})
        at_one_length(model, task, asked, aim.length, out)
        return out
    out = Measured(shared | {"repair": None})
    at_every_length(model, task, asked, out)
    for name in asked.repairs:
        assert isinstance(model, Decoder)
        worn = Measured(shared | {"repair": name})
        for length in asked.lengths:
            if length > training.trained_length:
                repair = Repair.parse(name)
                spectrum = repaired(model, repair, task, training.trained_length, length)
                with model.using(spectrum):
                    at_one_length(model, task, asked, length, worn)
        out.rows += worn.rows
        out.items |= worn.items
    return out


def at_every_length(model: Network, task: Task, asked: Asked, out: Measured) -> None:
    """Adds the rows of a model as it is."""
    evaluation = asked.evaluation
    if isinstance(task, Text):
        windows = task.windows(asked.lengths[-1] + 1, evaluation.documents, evaluation.windows)
        last, sizes = evaluation.last_tokens, task.token_bytes
        text_loss.measure(model, windows, asked.lengths, last, sizes, out)
    else:
        label = out.about["task"]
        samples = [sample(task, label, length, evaluation.sequences) for length in asked.lengths]
        exact_match.measure(model, task, asked.lengths, samples, out)


def at_one_length(model: Network, task: Task, asked: Asked, length: int, out: Measured) -> None:
    """Adds the rows of a model that is set for one length: there, and at the trained length."""
    evaluation, trained = asked.evaluation, out.about["trained_length"]
    if isinstance(task, Text):
        # The documents and last tokens of every other row of the study.
        windows = task.windows(asked.lengths[-1] + 1, evaluation.documents, evaluation.windows)
        for metric, context in (("last_loss", length), ("short_loss", trained)):
            last = evaluation.last_tokens
            text_loss.measure_last(model, windows, metric, length, context, last, out)
        return
    label, count = out.about["task"], evaluation.sequences
    exact_match.measure(model, task, [length], [sample(task, label, length, count)], out)
    short = Measured(out.about)
    exact_match.measure(model, task, [trained], [sample(task, label, trained, count)], short)
    for row in short.rows:
        if row.metric == "exact_match" and row.value is not None:
            out.add(
                "short_exact_match",
                length,
                (row.first_position, row.last_position),
                short.items[row.item_key].astype(bool),
                interval=(row.low or 0.0, row.high or 0.0),
            )
