"""Heatmaps of attention: the pointing head of each scheme, or every head of one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..measure.attention import Attention, Head
from .attention import Gaze, past_limit, spelt
from .panels import CELL, SMALLEST, WIDEST, Panel, draw

MOST = 96
"""Tokens that a side shows one by one; of more, blocks are shown. Altair draws 5,000 cells."""
FEW = 8
"""With fewer tokens in the answer than these, the prompt's are shown as queries too."""


def draw_pointers(gazes: Sequence[Gaze], path: Path) -> None:
    """Writes the figure of the pointing heads: a row for each run, a column for each length.

    Raises InputError if the task names no place to point at, or as `plot.check` does.
    """
    if gazes[0].pointer is None:
        task = gazes[0].training.task.label
        raise InputError(
            f"{task} names no place that its answer is taken from: nothing to point at"
        )
    draw([pointers(gaze) for gaze in gazes], pointers_title(gazes), caption(gazes), path)


def draw_heads(gaze: Gaze, path: Path) -> None:
    """Writes every head of one model: a row for each layer, length by length."""
    title = f"Attention of every head: {gaze.label}, seed {gaze.training.seed}"
    draw(every_head(gaze), title, HEADS_CAPTION, path)


HEADS_CAPTION = (
    "One sequence for each length. Rows of a map: queries, from the first token down; columns: the "
    "keys that they look at. In brackets: tokens that the head looks back on average."
)


def pointers_title(gazes: Sequence[Gaze]) -> str:
    """What the figure of pointing heads shows."""
    first = gazes[0].training
    return f"Attention to the token to come next: {first.task.label}, seed {first.seed}"


def caption(gazes: Sequence[Gaze]) -> str:
    """How to read it."""
    return (
        "Of each scheme the head most on target at the trained length, "
        f"{gazes[0].training.trained_length} {gazes[0].task.counts}. Outlined: where the token to "
        "come next stands. Maps show one sequence; scores are averages over "
        f"{max(f.sequences for g in gazes for f in g.found.values() if f)}."
    )


def pointers(gaze: Gaze) -> list[Panel]:
    """The pointing head of one run at each length."""
    assert gaze.pointer is not None  # as the caller sees to
    panels = []
    for length in gaze.lengths:
        found, name = gaze.found[length], f"{gaze.training.scheme.label} at {length}"
        if found is None or found.best is None:
            panels.append(Panel(title=name, note=past_limit(gaze, length)))
            continue
        note = spelt(gaze.pointer)
        if found.best != gaze.pointer:
            note += f"; best here: {spelt(found.best)}, {found.score(found.best):.1%}"
        scored = found.example.scored[1:].nonzero()[:, 0]
        first = int(scored[0]) if len(scored) >= FEW else 0
        title = f"{name}: {found.score(gaze.pointer):.1%} on target"
        panels.append(panel(gaze, found, gaze.pointer, title, note, first, WIDEST))
    return panels


def every_head(gaze: Gaze) -> list[list[Panel]]:
    """All heads of one run: a row per layer, length by length."""
    rows = []
    for length in gaze.lengths:
        found = gaze.found[length]
        if found is None:
            rows.append([Panel(title=f"length {length}", note=past_limit(gaze, length))])
            continue
        layers, heads = found.shares.shape[:2]
        for layer in range(layers):
            row = []
            for head in (Head(layer, number) for number in range(heads)):
                back = float(found.shares[head] @ np.arange(found.read))
                score = found.score(head)
                title = f"length {length}: layer {layer}, head {head.head} ({back:.1f})"
                note = "" if score is None else f"{score:.1%} on target"
                row.append(panel(gaze, found, head, title, note, 0, SMALLEST))
            rows.append(row)
    return rows


def panel(
    gaze: Gaze, found: Attention, head: Head, title: str, note: str, first: int, room: int
) -> Panel:
    """One head on the example, its queries from `first` on."""
    example = found.example
    weights = example.weights[head].numpy()
    read = len(weights)
    block = -(-read // MOST)
    side = max(1, min(CELL, room // -(-read // block)))
    if block > 1:
        return Panel(title=title, note=note, weights=in_blocks(weights, block), block=block,
                     side=side)  # fmt: skip
    sources = example.sources
    return Panel(
        title=title,
        note=note,
        weights=weights[first:],
        first=first,
        words=[gaze.task.words[token] for token in example.tokens[:read]],
        targets=() if sources is None else sources[first + 1 :].tolist(),
        side=side,
    )


def in_blocks(weights: NDArray[np.float32], block: int) -> NDArray[np.float32]:
    """What the average query of a block looks at, summed over each block of keys.

    >>> in_blocks(np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], np.float32), 2).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    starts = np.arange(0, len(weights), block)
    sizes = np.diff(np.append(starts, len(weights)))
    summed = np.add.reduceat(np.add.reduceat(weights, starts, axis=1), starts, axis=0)
    found: NDArray[np.float32] = (summed / sizes[:, None]).astype(np.float32)
    return found
