"""The drawings across tasks: ranks as dots with intervals, scores as a table in shades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from .charts import WIDTH, as_spec
from .ranking import PastTrained, Ranked


def ranks_chart(ranked: Sequence[Ranked], curves: Sequence[str]) -> dict[str, Any]:
    """A dot with its interval for each curve, the highest at the top."""
    rows = [
        {
            "curve": each.curve,
            "mean": each.mean,
            "low": each.low,
            "high": each.high,
            "slighted": each.slighted,
            "favoured": each.favoured,
        }
        for each in ranked
    ]
    order = [each.curve for each in ranked]
    scale = alt.Scale(domain=[0, 1], nice=False)
    title = "mean reciprocal rank over tasks and seeds (1: first in all)"
    x = alt.X("mean:Q", scale=scale, axis=alt.Axis(title=title, grid=True, tickCount=6))
    y = alt.Y("curve:N", sort=order, axis=alt.Axis(title=None))
    colour = alt.Color("curve:N", scale=alt.Scale(domain=list(curves)), legend=None)
    tooltip = [
        alt.Tooltip("curve:N", title="scheme"),
        *(alt.Tooltip(f"{key}:Q", format=".3f") for key in list(rows[0])[1:]),
    ]
    base = alt.Chart().encode(y=y, color=colour)
    layers = [
        base.mark_rule(strokeWidth=1).encode(x=alt.X("slighted:Q", scale=scale), x2="favoured:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.45).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q"
        ),
        base.mark_point(filled=True, opacity=1, size=110).encode(x=x, tooltip=tooltip),
    ]
    layered = alt.layer(*layers, data=alt.InlineData(values=rows))
    return as_spec(layered.properties(width=WIDTH, height=34 * len(ranked)))


def scores_chart(found: Sequence[PastTrained], curves: Sequence[str]) -> dict[str, Any]:
    """A table in shades: tasks down, curves and chance across."""
    tasks = list(dict.fromkeys(each.task for each in found))
    chance = {each.task: each.chance for each in found}
    rows = [{"task": each.task, "curve": each.curve, "share": 100 * each.mean} for each in found]
    rows += [
        {"task": task, "curve": "chance", "share": 100 * value} for task, value in chance.items()
    ]
    x = alt.X(
        "curve:N",
        sort=[*curves, "chance"],
        axis=alt.Axis(
            title=None, orient="top", labelAngle=0, grid=False, domain=False, ticks=False
        ),
    )
    y = alt.Y("task:N", sort=tasks, axis=alt.Axis(title=None))
    shade = alt.Color(
        "share:Q",
        scale=alt.Scale(domain=[0, 100]),
        legend=alt.Legend(title="exact match (%)", orient="bottom", gradientLength=220),
    )
    base = alt.Chart().encode(x=x, y=y)
    number = alt.Text("share:Q", format=".1f")
    layers = [
        base.mark_rect(stroke="#8888", strokeWidth=0.5).encode(
            color=shade,
            tooltip=[
                alt.Tooltip("task:N"),
                alt.Tooltip("curve:N", title="scheme"),
                alt.Tooltip("share:Q", title="exact match (%)", format=".1f"),
            ],
        ),
        # The halo keeps a number readable on any shade.
        base.mark_text(style="halo").encode(text=number),
        base.mark_text(style="name").encode(text=number),
    ]
    layered = alt.layer(*layers, data=alt.InlineData(values=rows))
    return as_spec(layered.properties(width=WIDTH, height=30 * len(tasks)))
