"""Needles by depth and length: a table in shades for each scheme and repair."""

from __future__ import annotations

from typing import Any

import altair as alt

from .aggregate import Aggregate
from .charts import WIDTH, as_spec
from .metrics import metric_of
from .summarise import Task

SUFFIX = "_by_depth"
"""Ends the names of metrics whose rows are of a depth and a length."""

ROW = 26
"""Pixels that a depth takes."""
MARGIN = 90
"""Pixels beside the panels, for axes."""
MOST_CELLS = 9
"""With more lengths in all panels of a row, a row holds fewer panels."""


def rows_of(task: Task, name: str) -> list[Aggregate]:
    """The aggregates behind the figure: curve by curve, then by length, then by depth."""
    order = {curve: place for place, curve in enumerate(task.curves)}
    return sorted(
        task.of(name), key=lambda row: (order[row.curve], row.evaluation_length, task.depth(row))
    )


def percent(depth: float) -> str:
    """A depth as it is said.

    >>> percent(0.25), percent(1 / 3)
    ('25%', '33.3%')
    """
    return f"{100 * depth:.3g}%"


def panels(task: Task, name: str) -> int:
    """How many panels stand beside one another."""
    return min(len(task.curves), 3, max(1, MOST_CELLS // len(task.lengths(name))))


def chart(task: Task, name: str) -> dict[str, Any]:
    """The Vega-Lite spec, without a config: lengths across, depths down, a panel for each curve."""
    lengths, beside = task.lengths(name), panels(task, name)
    cells = [
        {
            "curve": row.curve,
            "length": str(row.evaluation_length),
            "depth": percent(task.depth(row)),
            "share": 100 * row.mean,
            "low": 100 * row.low,
            "high": 100 * row.high,
            "trials": row.count,
        }
        for row in rows_of(task, name)
        if row.mean is not None and row.low is not None and row.high is not None
    ]
    title = metric_of(name).axis
    x = alt.X(
        "length:N",
        sort=list(map(str, lengths)),
        axis=alt.Axis(
            title=f"evaluation length ({task.unit})",
            labelAngle=0,
            labelOverlap="greedy",
            grid=False,
            domain=False,
            ticks=False,
        ),
    )
    y = alt.Y(
        "depth:N",
        sort=list(map(percent, task.depths)),
        axis=alt.Axis(title="depth of the needle", titlePadding=8),
    )
    shade = alt.Color(
        "share:Q",
        scale=alt.Scale(domain=[0, 100]),
        legend=alt.Legend(title=title, orient="bottom", gradientLength=220),
    )
    number = alt.Text("share:Q", format=".0f")
    base = alt.Chart().encode(x=x, y=y)
    tooltip = [
        alt.Tooltip("curve:N", title="scheme"),
        alt.Tooltip("length:N", title="at"),
        alt.Tooltip("depth:N"),
        alt.Tooltip("share:Q", title=title, format=".1f"),
        alt.Tooltip("low:Q", title="from", format=".1f"),
        alt.Tooltip("high:Q", title="to", format=".1f"),
        alt.Tooltip("trials:Q"),
    ]
    layers = [
        base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(color=shade, tooltip=tooltip),
        # The halo keeps a number readable on any shade.
        base.mark_text(style="halo").encode(text=number),
        base.mark_text(style="name").encode(text=number),
    ]
    panel = alt.layer(*layers).properties(
        width=(WIDTH - MARGIN) // beside - 20, height=ROW * len(task.depths)
    )
    header = alt.Header(title=None, labelFontSize=12.5, labelLimit=WIDTH // beside)
    facet = alt.Facet("curve:N", sort=list(task.curves), header=header)
    faceted = panel.facet(data=alt.InlineData(values=cells), facet=facet, columns=beside)
    return as_spec(faceted)


def reading(task: Task, name: str) -> str:
    """How to read the figure."""
    chance = task.bounds(name.removesuffix(SUFFIX)).get("chance", {})
    guessed = f"{100 * max(chance.values(), default=0.0):.3g}"
    return metric_of(name).reading.format(chance=guessed)


def describe(task: Task, name: str) -> str:
    """Of each curve, the share at every length, shallowest depth to deepest, in words."""
    said = []
    for curve in task.curves:
        for length in task.lengths(name):
            found = [
                f"{row.mean:.0%} at {percent(task.depth(row))}"
                for row in rows_of(task, name)
                if (row.curve, row.evaluation_length) == (curve, length) and row.mean is not None
            ]
            said.append(f"{curve} at {length}: {', '.join(found) or 'no such positions'}")
    title = metric_of(name).title.lower()
    return f"Tables in shades of {title}, {task.label}. " + "; ".join(said)
