"""Exact match: the fraction of sequences whose scored tokens are all right; and how others fail."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from ..tasks.base import Batch, Task
from .measured import Measurable, Measured, wilson

CHUNK = 128
"""Sequences per forward pass."""

FRACTIONS = ("exact_match", "exact_match_without_end", "end_too_early", "end_too_late")
"""Metrics that are right or wrong for each sequence."""


def judge(model: Measurable, batch: Batch, end: int | None) -> dict[str, Tensor]:
    """By metric, a value for each sequence, in one teacher-forced pass.

    That is the same as decoding greedily: a sequence whose every token is right under the true
    prefix is the one that greedy decoding writes, and up to the first wrong token both write the
    same. So these are of greedy decoding too: whether the sequence is wholly right
    (`exact_match`), whether all but the end token are (`exact_match_without_end`), whether the
    first mistake is an end token that comes before the answer is whole (`end_too_early`), or
    another token in its place (`end_too_late`). `token_accuracy` is of the true prefix alone.

    end: the token that ends an answer; without one, `exact_match` is all there is.
    """
    last = batch.last
    truth, scored = batch.tokens[:, -last:], batch.scored[:, -last:]
    guessed = model.logits(batch.tokens[:, :-1], last=last).argmax(-1)
    fits = (guessed == truth) | ~scored
    found = {"exact_match": fits.all(1)}
    if end is None:
        return found
    ends = scored & (truth == end)
    first_wrong = _first(~fits)
    found["exact_match_without_end"] = (fits | ends).all(1)
    found["end_too_early"] = (first_wrong & (guessed == end) & ~ends).any(1)
    found["end_too_late"] = (first_wrong & ends).any(1)
    found["token_accuracy"] = (fits & scored).sum(1) / scored.sum(1)
    return found


def _first(marks: Bool[Tensor, "batch time"]) -> Bool[Tensor, "batch time"]:
    """The first mark of each row alone."""
    return marks & (marks.cumsum(1) == 1)


def right(model: Measurable, batch: Batch) -> Bool[Tensor, " batch"]:
    """Whether each sequence is wholly right."""
    return judge(model, batch, None)["exact_match"]


def measure(
    model: Measurable, task: Task, lengths: Sequence[int], samples: Sequence[Batch], out: Measured
) -> None:
    """Adds rows for each length: `exact_match`, and where answers end with a token, how they end.

    samples: one batch per length, the same for every model.
    """
    metrics = FRACTIONS if task.end is not None else FRACTIONS[:1]
    for length, batch in zip(lengths, samples, strict=True):
        read = batch.tokens.shape[1] - 1
        positions = (read + 1 - batch.last, read)
        if not model.holds(batch.tokens[:, :-1]):
            out.past_limit("exact_match", length, positions)
            continue
        chunks = zip(
            torch.split(batch.tokens, CHUNK), torch.split(batch.scored, CHUNK), strict=True
        )
        judged = [judge(model, Batch(*chunk), task.end) for chunk in chunks]
        for metric in (*metrics, *(["token_accuracy"] if task.end is not None else [])):
            found = torch.cat([each[metric] for each in judged]).numpy()
            interval = None
            if metric in FRACTIONS:
                interval = wilson(int(found.sum()), len(found))
            out.add(metric, length, positions, found, interval=interval)
