"""Exact match: the fraction of sequences whose scored tokens are all right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..tasks.base import Batch, Task
from .measured import Measurable, Measured, wilson

CHUNK = 128
"""Sequences per forward pass."""


def right(model: Measurable, batch: Batch) -> torch.Tensor:
    """Whether each sequence is wholly right, in one teacher-forced pass.

    That is the same as decoding greedily: a sequence whose every token is right under the true
    prefix is the one that greedy decoding writes, and at the first wrong token both have failed.
    """
    last = batch.last
    guessed = model.logits(batch.tokens[:, :-1], last=last).argmax(-1)
    fits = (guessed == batch.tokens[:, -last:]) | ~batch.scored[:, -last:]
    return fits.all(1)


def measure(
    model: Measurable, task: Task, lengths: Sequence[int], samples: Sequence[Batch], out: Measured
) -> None:
    """Adds a row per length.

    samples: one batch per length, the same for every model.
    """
    for length, batch in zip(lengths, samples, strict=True):
        read = batch.tokens.shape[1] - 1
        positions = (read + 1 - batch.last, read)
        if model.limit is not None and read > model.limit:
            out.past_limit("exact_match", length, positions)
            continue
        chunks = zip(
            torch.split(batch.tokens, CHUNK), torch.split(batch.scored, CHUNK), strict=True
        )
        found = torch.cat([right(model, Batch(*chunk)) for chunk in chunks]).numpy()
        out.add(
            "exact_match",
            length,
            positions,
            found.astype(np.float32),
            interval=wilson(int(found.sum()), len(found)),
        )
