"""How answers end: of each scheme, a strip of what became of its answers at each length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from .aggregate import Aggregate
from .charts import WIDTH, as_spec, x_axis
from .picture import Picture
from .summarise import Task

NAME = "endings"
STRIP = 58  # pixels of each scheme
GAP = 0.22  # of a strip, left free above it
FATES = {
    "right": "#1d6b54",
    "goes on too long": "#b563a0",
    "ends too early": "#d9972b",
    "a wrong symbol first": "#c4c4bf",
}
"""What becomes of an answer, from the bottom of a strip to its top, in colours for any paper.

Each is lighter than the one below it, so that strips can be read in grey too.
"""
PARTS = {"exact_match": "right", "end_too_late": "goes on too long"} | {
    "end_too_early": "ends too early"
}
"""The metrics behind them; what is left over is a wrong symbol."""


def told(task: Task) -> bool:
    """Whether the task's answers end with a token, so that there is something to say."""
    return set(PARTS) <= {row.metric for row in task.aggregates}


def rows_of(task: Task) -> list[Aggregate]:
    """The aggregates behind the figure."""
    return [row for row in task.aggregates if row.metric in PARTS]


def shares(task: Task) -> dict[str, dict[int, dict[str, float] | None]]:
    """By curve and length, the share of each fate; None past the limit."""
    found: dict[str, dict[int, dict[str, float] | None]] = {}
    means = {(r.curve, r.evaluation_length, r.metric): r.mean for r in rows_of(task)}
    for curve in task.curves:
        for length in task.lengths("exact_match"):
            parts = {
                fate: means.get((curve, length, metric)) or 0.0 for metric, fate in PARTS.items()
            }
            there = means.get((curve, length, "exact_match")) is not None
            left = max(0.0, 1.0 - sum(parts.values()))
            at = {fate: parts.get(fate, left) for fate in FATES}
            found.setdefault(curve, {})[length] = at if there else None
    return found


def strips(task: Task) -> list[dict[str, Any]]:
    """The areas: from where to where each fate reaches, strip by strip from the top down."""
    areas = []
    for number, (curve, lengths) in enumerate(shares(task).items()):
        for length, found in lengths.items():
            low = float(len(task.curves) - 1 - number)
            for fate, share in (found or {}).items():
                high = low + share * (1 - GAP)
                areas.append({"curve": curve, "x": length, "fate": fate, "low": low, "high": high})
                low = high
    return areas


def columns(task: Task) -> list[dict[str, Any]]:
    """What a pointer meets: of each strip and length, the share of every fate."""
    return [
        {"curve": curve, "x": length, "low": floor, "high": floor + 1 - GAP, **found}
        for floor, (curve, lengths) in zip(
            range(len(task.curves) - 1, -1, -1), shares(task).items(), strict=True
        )
        for length, found in lengths.items()
        if found is not None
    ]


def names(task: Task) -> list[dict[str, Any]]:
    """The scheme of each strip, and from where on it has no positions."""
    found = []
    for number, (curve, lengths) in enumerate(shares(task).items()):
        past = [length for length, at in lengths.items() if at is None]
        middle = len(task.curves) - 1 - number + (1 - GAP) / 2
        found.append({"curve": curve, "middle": middle, "x": min(past, default=None)})
    return found


def chart(task: Task) -> dict[str, Any]:
    """The Vega-Lite spec, without a config: themes bring it."""
    areas = strips(task)
    lengths = task.lengths("exact_match")
    x = x_axis(
        Picture(
            curves=task.curves,
            lines=[{"x": length} for length in lengths],
            x=f"evaluation length ({task.unit})",
            y="",
            ticks=task.ticks,
            linear=task.dense,
            trained_length=task.trained_length,
        )
    )
    scale = alt.Scale(domain=[0, len(task.curves)], nice=False)
    y = alt.Y("low:Q", scale=scale, axis=None)
    middle = alt.Y("middle:Q", scale=scale, axis=None)
    fates = list(FATES)
    colour = alt.Color(
        "fate:N",
        scale=alt.Scale(domain=fates, range=list(FATES.values())),
        sort=fates,
        legend=alt.Legend(orient="bottom", title=None, symbolOpacity=1, columns=2),
    )
    rule = alt.Chart(alt.InlineData(values=[{"x": task.trained_length}])).encode(x=x)
    named = names(task)
    layers = [
        alt.Chart()
        .mark_area(aria=False)
        .encode(x=x, y=y, y2="high:Q", color=colour, detail="curve:N"),
        # Areas have no tooltip of their own for each length.
        alt.Chart(alt.InlineData(values=columns(task)))
        .mark_rule(opacity=0, strokeWidth=max(2, 480 // len(lengths)), aria=False)
        .encode(
            x=x,
            y=y,
            y2="high:Q",
            tooltip=[
                alt.Tooltip("curve:N", title="scheme"),
                alt.Tooltip("x:Q", title="at"),
                *(alt.Tooltip(f"{fate}:Q", format=".1%") for fate in fates),
            ],
        ),
        rule.mark_rule(strokeDash=[5, 4], style="reference"),
        rule.mark_text(
            style="note", text=f"trained length {task.trained_length}", baseline="bottom"
        ).encode(y=alt.value(-7)),
        alt.Chart(alt.InlineData(values=named))
        .mark_text(style="name", align="right", dx=-10)
        .encode(x=alt.value(0), y=middle, text="curve:N"),
    ]
    if limited := [name for name in named if name["x"] is not None]:
        layers.append(
            alt.Chart(alt.InlineData(values=limited))
            .mark_text(style="note", align="left", dx=6, text="no such positions")
            .encode(x=x, y=middle)
        )
    layered = alt.layer(*layers, data=alt.InlineData(values=areas))
    return as_spec(layered.properties(width=WIDTH, height=STRIP * len(task.curves)))


def describe(task: Task, lengths: Sequence[int]) -> str:
    """What became of each scheme's answers at some lengths, in words."""
    said = []
    for curve, found in shares(task).items():
        for length in lengths:
            at = found[length]
            if at is None:
                said.append(f"{curve} has no such positions at {length}")
                continue
            parts = ", ".join(f"{share:.0%} {fate}" for fate, share in at.items() if share > 0.005)
            said.append(f"{curve} at {length}: {parts}")
    return f"Strips of how answers end, {task.label}. " + "; ".join(said)
