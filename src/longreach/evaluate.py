"""Measures a trained model on its task at every evaluation length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import InputError
from .measure import exact_match, text_loss
from .measure.measured import Measurable, Measured
from .study import Evaluation, Training
from .tasks.base import Batch, Task
from .tasks.text import Text
from .train import generator_for


def settings(task: Task, lengths: Sequence[int], evaluation: Evaluation) -> dict[str, Any]:
    """What the rows depend on besides the weights. Rows of other settings are measured anew.

    Raises InputError if the last tokens to be followed do not fit the shortest length.
    """
    if task.metric == "exact_match":
        return {"lengths": list(lengths), "sequences": evaluation.sequences}
    if evaluation.last_tokens > lengths[0]:
        raise InputError(
            f"evaluation.last_tokens is {evaluation.last_tokens}, more than the shortest of "
            f"evaluation_lengths, {lengths[0]}: the same last tokens must fit every length"
        )
    return {
        "lengths": list(lengths),
        "documents": evaluation.documents,
        "windows": evaluation.windows,
        "last_tokens": evaluation.last_tokens,
    }


def sample(task: Task, label: str, length: int, count: int) -> Batch:
    """Evaluation sequences: they depend on the task and the length, never on a training's seed."""
    return task.sample(length, count, generator_for("evaluate", label, length))


def evaluate(
    model: Measurable,
    task: Task,
    training: Training,
    lengths: Sequence[int],
    evaluation: Evaluation,
) -> Measured:
    """All rows of one trained model."""
    out = Measured(
        {
            "training": training.digest,
            "scheme": training.scheme.label,
            "task": training.task.label,
            "seed": training.seed,
            "repair": None,
            "trained_length": training.trained_length,
        }
    )
    if isinstance(task, Text):
        windows = task.windows(lengths[-1] + 1, evaluation.documents, evaluation.windows)
        text_loss.measure(model, windows, lengths, evaluation.last_tokens, task.token_bytes, out)
    else:
        label = training.task.label
        samples = [sample(task, label, length, evaluation.sequences) for length in lengths]
        exact_match.measure(model, task, lengths, samples, out)
    return out
