"""Heatmaps as they are drawn: a panel is data, so that one can be drawn without its model."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from . import plot

CELL = 10  # pixels of a token's side, if there is room
WIDEST = 660  # pixels of a panel's side, at most
SMALLEST = 200  # of every head's
CAPTION = 110  # characters of a line
LEGIBLE = 9  # pixels of a cell from which on its token is printed
APART = 30  # pixels between two numbers of an axis, at least
OUTLINE = "#E8590C"
"""Between the shades in brightness, so that it shows on the palest and on the darkest."""
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


def describe(rows: Sequence[Sequence[Panel]], title: str) -> str:
    """The figure in words, for who cannot see it."""
    panels = [panel for row in rows for panel in row]
    return f"Heatmaps. {title}. " + "; ".join(f"{each.title} ({each.note})" for each in panels)


def chart(panel: Panel, *, titled: bool = True) -> alt.LayerChart:
    """A panel drawn. titled: unless the page around it says what it is."""
    title: Any = alt.Undefined
    if titled:
        title = alt.TitleParams(
            panel.title, subtitle=panel.note, anchor="start", fontSize=12.5, fontWeight="normal",
            subtitleFontSize=11.5, offset=6, limit=WIDEST,
        )  # fmt: skip
    if panel.weights is None:
        empty = alt.Chart(alt.InlineData(values=[{}])).mark_text(text="")
        return alt.LayerChart(layer=[empty], width=2 * SMALLEST, height=CELL, title=title)
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
