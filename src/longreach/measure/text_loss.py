"""Loss on text: mean over positions, by position, and of the same last tokens as context grows."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ..tasks.text import Windows
from .measured import Measurable, Measured, mean_interval

CHUNK_TOKENS = 4096
"""Tokens per forward pass: memory holds the logits of so many at a time."""

RANGES_PER_OCTAVE = 4
"""How finely positions are binned for the loss by position."""


def token_losses(
    model: Measurable, windows: Int[Tensor, "windows time"], last: int | None = None
) -> Float[Tensor, "windows scored"]:
    """Loss of every token but the first, or of the `last` so many, in nats."""
    read, last = windows.shape[1] - 1, last or windows.shape[1] - 1
    found = []
    for chunk in torch.split(windows, max(1, CHUNK_TOKENS // read)):
        logits = model.logits(chunk[:, :-1], last=last)
        losses = F.cross_entropy(logits.flatten(0, 1), chunk[:, -last:].flatten(), reduction="none")
        found.append(losses.view(len(chunk), last))
    return torch.cat(found)


def position_ranges(longest: int, trained_length: int) -> list[tuple[int, int]]:
    """Ranges of positions, growing geometrically, with one ending exactly at the trained length.

    >>> position_ranges(8, 3)
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 8)]
    """
    octaves = np.arange(0, np.log2(longest), 1 / RANGES_PER_OCTAVE)
    edges = {int(edge) for edge in 2**octaves} | {longest}
    if trained_length < longest:
        edges.add(trained_length)
    ends = sorted(edges)
    return [(before + 1, end) for before, end in zip([0, *ends], ends, strict=False)]


def measure(
    model: Measurable,
    windows: Windows,
    lengths: Sequence[int],
    last_tokens: int,
    token_bytes: Int[Tensor, " vocabulary"],
    out: Measured,
) -> None:
    """Adds the rows of all four metrics.

    windows: one token longer than the longest evaluation length. The value of a document is the
        mean over its windows.

    The mean at each length and the loss by position come from one pass at the longest length: a
    causal model's loss on a prefix does not depend on what follows. The loss of the same last
    tokens under growing context cannot come from it (their context must begin later) and takes a
    pass per length.
    """
    longest = lengths[-1]
    reach = longest if model.limit is None else min(longest, model.limit)
    losses = token_losses(model, windows.tokens[:, : reach + 1]).double().numpy()
    sizes = token_bytes[windows.tokens[:, 1:]].double().numpy()
    for length in lengths:
        if length > reach:
            for metric in ("loss", "bits_per_byte"):
                out.past_limit(metric, length, (1, length))
            continue
        seen = windows.per_document(losses[:, :length].mean(1))
        out.add("loss", length, (1, length), seen)
        size = windows.per_document(sizes[:, :length].mean(1))
        add_bits(out, length, seen / log(2), size, seen)
    for first, end in position_ranges(longest, out.about["trained_length"]):
        if end > reach:
            out.past_limit("loss_by_position", longest, (first, end))
        else:
            seen = windows.per_document(losses[:, first - 1 : end].mean(1))
            out.add("loss_by_position", longest, (first, end), seen)
    for length in lengths:
        measure_last(model, windows, "last_loss", length, length, last_tokens, out)


def measure_last(
    model: Measurable,
    windows: Windows,
    metric: str,
    length: int,
    context: int,
    last_tokens: int,
    out: Measured,
) -> None:
    """Adds a row of the loss of the same last tokens, seen with so much context.

    length: the evaluation length that the row is for.
    """
    positions = (context - last_tokens + 1, context)
    if model.limit is not None and context > model.limit:
        out.past_limit(metric, length, positions)
        return
    late = token_losses(model, windows.tokens[:, -context - 1 :], last_tokens)
    seen = windows.per_document(late.double().mean(1).numpy())
    out.add(metric, length, positions, seen)


def add_bits(
    out: Measured,
    length: int,
    bits: NDArray[np.float64],
    sizes: NDArray[np.float64],
    losses: NDArray[np.float64],
) -> None:
    """Adds a row of bits per byte: all bits over all bytes, with the loss's relative interval.

    bits, sizes: per token, of each document.
    """
    value = float(bits.sum() / sizes.sum())
    low, high = mean_interval(losses)
    scale = value / float(losses.mean())
    out.add(
        "bits_per_byte",
        length,
        (1, length),
        bits / sizes,
        value=value,
        interval=(low * scale, high * scale),
    )
