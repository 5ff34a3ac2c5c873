"""Rows of a measurement: from the losses of all passes to what is reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import log

import numpy as np
from numpy.typing import NDArray

from ..measure.measured import Measured
from ..measure.text_loss import add_bits, position_ranges
from ..repairs import Repair
from .work import Work


def rows_of(work: Work, digest: str, scheme: str, label: str) -> Measured:
    """All rows of one text."""
    model, asked = work.model, work.asked
    trained, longest, last = model.trained_length, asked.lengths[-1], asked.last_tokens
    windows = work.text.windows
    chosen = range(work.done)
    owners = windows.owners[: work.done].numpy()

    def per_document(values: NDArray[np.float64]) -> NDArray[np.float64]:
        means: NDArray[np.float64] = np.bincount(owners, values) / np.bincount(owners)
        # The windows of a single document stand for themselves, or there would be no interval.
        return values if len(means) == 1 else means

    plain = np.stack([whole(work, window, None)[longest] for window in chosen])
    ends: dict[int, NDArray[np.float64]] = {}
    for end in {n for window in chosen for n in work.controls(window)}:
        ends[end] = np.stack(
            [work.ledger.losses(work.controls(window)[end]).astype(np.float64) for window in chosen]
        )
    control = {
        n: plain[:, n - last : n] if n <= trained else ends[n][:, -last:] for n in asked.lengths
    }
    sizes = work.text.sizes[: work.done].numpy().astype(np.float64)
    out = Measured(
        {
            "training": digest,
            "scheme": scheme,
            "task": label,
            "seed": 0,
            "repair": None,
            "trained_length": trained,
        }
    )
    for repair in asked.repairs:
        out.about["repair"] = None if repair is None else str(repair)
        by_length = [whole(work, window, repair) for window in chosen]
        for length in asked.lengths:
            losses = np.stack([found[length] for found in by_length])
            seen = per_document(losses.mean(1))
            out.add("loss", length, (1, length), seen)
            add_bits(out, length, seen / log(2), per_document(sizes[:, :length].mean(1)), seen)
            late = (length - last + 1, length)
            out.add("end_loss", length, late, per_document(losses[:, -last:].mean(1)))
            over = losses[:, -last:].mean(1) - control[length].mean(1)
            out.add("excess", length, late, per_document(over))
            if repair is None:
                out.add("control_loss", length, late, per_document(control[length].mean(1)))
        losses = np.stack([found[longest] for found in by_length])
        for first, end in position_ranges(longest, trained):
            seen = per_document(losses[:, first - 1 : end].mean(1))
            out.add("loss_by_position", longest, (first, end), seen)
    out.about["repair"] = None
    for first, end, found in beyond(plain, ends, trained, longest):
        out.add("control_by_position", longest, (first, end), per_document(found))
    return out


def controlled(work: Work, end: int) -> NDArray[np.float64]:
    """Of every window, the losses of the control that ends there."""
    found = [work.ledger.losses(work.controls(window)[end]) for window in range(work.done)]
    return np.stack(found).astype(np.float64)


def whole(work: Work, window: int, repair: Repair | None) -> dict[int, NDArray[np.float64]]:
    """By evaluation length, the losses of a window's first tokens."""
    return {
        length: work.ledger.losses(one)[:length].astype(np.float64)
        for length, one in work.readings(window, repair).items()
    }


def beyond(
    plain: NDArray[np.float64],
    ends: Mapping[int, NDArray[np.float64]],
    trained: int,
    longest: int,
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """The control by position: first and last position of a range, and the mean of each window.

    Up to the trained length it is the model as it is; past it, the control that ends first at or
    after a token and still scored it.
    """
    merged = plain.copy()
    for before, end in pairwise([trained, *sorted(ends)]):
        scored = ends[end].shape[1]
        start = max(before, end - scored)
        merged[:, start:end] = ends[end][:, scored - (end - start) :]
    for first, last in position_ranges(longest, trained):
        yield first, last, merged[:, first - 1 : last].mean(1)
