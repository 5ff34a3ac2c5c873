"""Needles by depth and length: tables in shades, one for each scheme and repair."""

from __future__ import annotations

from typing import Any

import altair as alt

from .aggregate import Aggregate
from .charts import WIDTH, as_spec
from .metrics import metric_of
from .summarise import Task

SUFFIX = "_by_depth"
"""Ends the names of metrics whose rows are of a depth and a length."""

ROW = 25
"""Pixels that a depth takes, and the name of a curve above its depths."""


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


def chart(task: Task, name: str) -> dict[str, Any]:
    """The Vega-Lite spec, without a config: lengths across; down, the depths of curve after curve.

    One view and no facets, since only a single view takes the width that the page has.
    """
    cells, heads, order = [], [], []
    for number, curve in enumerate(task.curves):
        heads.append({"row": f"{number}|", "curve": curve})
        order += [f"{number}|", *(f"{number}|{percent(depth)}" for depth in task.depths)]
    for row in rows_of(task, name):
        if row.mean is None or row.low is None or row.high is None:
            continue
        depth = percent(task.depth(row))
        cells.append(
            {
                "row": f"{task.curves.index(row.curve)}|{depth}",
                "curve": row.curve,
                "length": str(row.evaluation_length),
                "depth": depth,
                "share": 100 * row.mean,
                "low": 100 * row.low,
                "high": 100 * row.high,
                "trials": row.count,
            }
        )
    title = metric_of(name).axis
    x = alt.X(
        "length:N",
        sort=list(map(str, task.lengths(name))),
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
        "row:N",
        scale=alt.Scale(domain=order),
        axis=alt.Axis(title="depth of the needle", labelExpr="split(datum.value, '|')[1]"),
    )
    shade = alt.Color(
        "share:Q",
        scale=alt.Scale(domain=[0, 100]),
        legend=alt.Legend(title=title, orient="bottom", gradientLength=220),
    )
    tooltip = [
        alt.Tooltip("curve:N", title="scheme"),
        alt.Tooltip("length:N", title="at"),
        alt.Tooltip("depth:N"),
        alt.Tooltip("share:Q", title=title, format=".1f"),
        alt.Tooltip("low:Q", title="from", format=".1f"),
        alt.Tooltip("high:Q", title="to", format=".1f"),
        alt.Tooltip("trials:Q"),
    ]
    base = alt.Chart().encode(x=x, y=y)
    number_in = alt.Text("share:Q", format=".0f")
    layers = [
        base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(color=shade, tooltip=tooltip),
        # The halo keeps a number readable on any shade.
        base.mark_text(style="halo").encode(text=number_in),
        base.mark_text(style="name").encode(text=number_in),
        alt.Chart(alt.InlineData(values=heads))
        .mark_text(
            style="name", align="left", baseline="middle", dx=2, dy=3, limit=alt.ExprRef("width")
        )
        .encode(x=alt.value(0), y=y, text="curve:N"),
    ]
    layered = alt.layer(*layers, data=alt.InlineData(values=cells))
    return as_spec(layered.properties(width=WIDTH, height=ROW * len(order)))


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
