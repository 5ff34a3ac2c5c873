"""Heatmaps of attention: the pointing head of each scheme, or every head of one model."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..measure.attention import Attention, Head
from . import plot
from .attention import Gaze, past_limit, spelt

CELL = 10  # pixels of a token's side, if there is room
PANEL = 660  # pixels of a panel's side, at most
SMALL_PANEL = 200  # of every head's
CAPTION = 110  # characters of a line
LEGIBLE = 9  # pixels of a cell from which on its token is printed
APART = 30  # pixels between two numbers of an axis, at least
OUTLINE = "#E8590C"
"""Between the shades in brightness, so that it shows on the palest and on the darkest."""
MOST = 96
"""Tokens that a side shows one by one; of more, blocks are shown. Altair draws 5,000 cells."""
FEW = 8
"""With fewer tokens in the answer than these, the prompt's are shown as queries too."""
INVISIBLE = 0.002
"""Attention below this is left blank: on paper nobody could tell it from none."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One heatmap, or the reason why there is none.

    weights: of queries (rows) on keys, both in blocks of so many tokens. first: of the tokens
        shown as queries. words: what the tokens are, by place; none where blocks are shown.
        targets: for each query shown the key that it should look at, or below 0. side: pixels of
        a block.
    """

    title: str
    note: str
    weights: NDArray[np.float32] | None = None
    block: int = 1
    first: int = 0
    words: Sequence[str] = ()
    targets: Sequence[int] = ()
    side: int = CELL


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


def draw(rows: Sequence[Sequence[Panel]], title: str, caption: str, path: Path) -> None:
    """Writes rows of panels, in the form that the file's suffix names."""
    words = describe(rows, title)
    whole = alt.vconcat(*[alt.hconcat(*map(chart, row), spacing=24) for row in rows])

    def svg() -> str:
        heading = alt.TitleParams(
            title,
            subtitle=textwrap.wrap(caption, CAPTION),
            anchor="start",
            fontSize=15,
            subtitleFontSize=12,
            offset=16,
        )
        return plot.drawn(finished(whole.properties(title=heading)), "attention", words)

    def page() -> str:
        return plot.page(
            title=title,
            description=words,
            lead=caption,
            captions=[""],
            specs=[finished(whole) | {"description": words}],
            svg=svg(),
        )

    plot.write(path, svg, page)


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


def describe(rows: Sequence[Sequence[Panel]], title: str) -> str:
    """The figure in words, for who cannot see it."""
    panels = [panel for row in rows for panel in row]
    return f"Heatmaps. {title}. " + "; ".join(f"{each.title} ({each.note})" for each in panels)


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
        panels.append(panel(gaze, found, gaze.pointer, title, note, first, PANEL))
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
                row.append(panel(gaze, found, head, title, note, 0, SMALL_PANEL))
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


def chart(panel: Panel) -> alt.LayerChart:
    """A panel drawn."""
    title = alt.TitleParams(
        panel.title, subtitle=panel.note, anchor="start", fontSize=12.5, fontWeight="normal",
        subtitleFontSize=11.5, offset=6, limit=PANEL,
    )  # fmt: skip
    if panel.weights is None:
        empty = alt.Chart(alt.InlineData(values=[{}])).mark_text(text="")
        return alt.LayerChart(layer=[empty], width=2 * SMALL_PANEL, height=CELL, title=title)
    queries, keys = panel.weights.shape
    values = [
        {"query": panel.first + row, "key": column, "attention": round(float(weight), 4)}
        | ({"looks": panel.words[panel.first + row], "at": panel.words[column]}
           if panel.words else {})
        for (row, column), weight in np.ndenumerate(panel.weights)
        if weight >= INVISIBLE
    ]  # fmt: skip
    x = alt.X("key:O", scale=band(0, keys), axis=axis(panel, 0, keys, "key"))
    y = alt.Y(
        "query:O",
        scale=band(panel.first, queries),
        axis=axis(panel, panel.first, queries, "query"),
    )
    shades = alt.Color(
        "attention:Q",
        scale=alt.Scale(domain=[0, 1], type="sqrt", interpolate="rgb"),
        legend=alt.Legend(
            title="attention", values=[0, 0.05, 0.25, 0.5, 1], format="~%", gradientLength=150
        ),
    )
    shown = ["looks", "at"] if panel.words else []
    tooltip = [
        *(alt.Tooltip(f"{name}:N") for name in shown),
        alt.Tooltip("query:O"),
        alt.Tooltip("key:O"),
        alt.Tooltip("attention:Q", format=".1%"),
    ]
    cells = (
        alt.Chart(alt.InlineData(values=values))
        .mark_rect(aria=False)
        .encode(x=x, y=y, color=shades, tooltip=tooltip)
    )
    marks = [
        {"query": panel.first + row, "key": target}
        for row, target in enumerate(panel.targets)
        if target >= 0
    ]
    layers = [cells]
    if marks and panel.side >= LEGIBLE // 2:
        outline = alt.Chart(alt.InlineData(values=marks))
        layers.append(
            outline.mark_rect(
                filled=False, stroke=OUTLINE, strokeWidth=1.2, aria=False, tooltip=None
            ).encode(x=x, y=y)
        )
    width, height = panel.side * keys, panel.side * queries
    return alt.LayerChart(layer=layers, width=width, height=height, title=title)


def band(first: int, count: int) -> alt.Scale:
    """Places side by side, without gaps."""
    return alt.Scale(domain=list(range(first, first + count)), paddingInner=0, paddingOuter=0)


def axis(panel: Panel, first: int, count: int, name: str) -> alt.Axis:
    """Every token printed where there is room for it, or places every now and then."""
    if panel.words and panel.side >= LEGIBLE:
        words = ",".join(quoted(word) for word in panel.words)
        return alt.Axis(
            title=f"{name} (token)",
            labelExpr=f"[{words}][datum.value]",
            labelFontSize=9,
            labelAngle=-90 if name == "key" else 0,
            labelOverlap=False,
            ticks=False,
            labelPadding=3,
            domain=True,
            titlePadding=4,
        )
    step = next(step for step in (1, 2, 5, 10, 20, 50) if step * panel.side >= APART)
    each = f", blocks of {panel.block}" if panel.block > 1 else ""
    return alt.Axis(
        title=f"{name} (place{each})",
        values=[place for place in range(first, first + count) if place % step == 0],
        labelExpr=f"datum.value * {panel.block}",
        labelFontSize=9,
        labelAngle=0,
        ticks=False,
        labelPadding=3,
        domain=True,
        titlePadding=4,
    )


def quoted(word: str) -> str:
    r"""A word as Vega's expressions spell it.

    >>> print(quoted("it's"), quoted("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


def finished(whole: alt.VConcatChart) -> dict[str, Any]:
    """Panels as both the files and the page take them."""
    spec: dict[str, Any] = whole.properties(padding=12, spacing=26).to_dict()
    # vega-embed would take the address for something to check; both renderers know the language.
    del spec["$schema"], spec["config"]
    return spec
