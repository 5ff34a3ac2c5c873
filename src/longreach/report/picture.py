"""Picture: what a line chart shows, and the arithmetic of where it shows it. No drawing here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .aggregate import Aggregate

HEIGHT = 320  # pixels; known beforehand, so that names can be kept apart
NAME_GAP = 16  # pixels between the names of two curves
LONGEST_NAME = 18  # characters; with longer ones a legend takes the place of names at line ends
MOST_NAMES = 12
FLATTENED = 4.0
"""A curve that stretches the axis by more than this is let out of the picture."""
LEAST_RANGE = 0.5
"""Nats that the axis shows at least in that case, so that noise is not blown up."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What a chart shows.

    curves: all of the study, which gives each its look. lines: points (see `line`). ends: where a
    curve ends for want of positions. references: grey lines by name, value by length; drawn where
    they lie within the axis. rules: level lines that always do, value by name. ticks: of x. bounds:
    of y, if they do not follow from the data. linear: x is not in powers of two; lengths, if there
    are ticks.
    """

    curves: Sequence[str]
    lines: Sequence[Mapping[str, Any]]
    x: str
    y: str
    ends: Mapping[str, float | None] = field(default_factory=dict)
    references: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    rules: Mapping[str, float] = field(default_factory=dict)
    ticks: Sequence[int] = ()
    trained_length: int | None = None
    bounds: tuple[float, float] | None = None
    linear: bool = False

    @cached_property
    def shown(self) -> list[str]:
        """The curves with at least one point."""
        return [c for c in self.curves if any(point["curve"] == c for point in self.lines)]

    def last(self, curve: str) -> Mapping[str, Any]:
        """The rightmost point of a curve."""
        return max((p for p in self.lines if p["curve"] == curve), key=lambda point: point["x"])

    @property
    def span(self) -> tuple[float, float]:
        """Of the x axis: from the first point to the last tick."""
        places = [point["x"] for point in self.lines]
        return min(places), max([*places, *self.ticks])

    @property
    def rule_at(self) -> int | None:
        """Where the rule at the trained length stands; None where the axis does not reach it."""
        first, last = self.span
        trained = self.trained_length
        return trained if trained is not None and first <= trained <= last else None

    @cached_property
    def extent(self) -> dict[str, tuple[float, float]]:
        """The lowest and highest value of each curve, its band included."""
        return {
            curve: (
                min(lowest(p) for p in self.lines if p["curve"] == curve),
                max(highest(p) for p in self.lines if p["curve"] == curve),
            )
            for curve in self.shown
        }

    @cached_property
    def cut(self) -> dict[str, float]:
        """Curves that leave the picture because they would flatten the others, and how far they go.

        Only from three curves on, and fewer than half of them: a contrast is what one wants to see.
        """
        if self.bounds or len(self.shown) < 3:
            return {}
        low = min(least for least, _ in self.extent.values())
        order = sorted(self.shown, key=lambda curve: self.extent[curve][1])
        kept = len(order)
        while kept > 1 and len(order) - kept + 1 < len(order) / 2:
            rest = max(LEAST_RANGE, self.extent[order[kept - 2]][1] - low)
            if self.extent[order[kept - 1]][1] - low <= FLATTENED * rest:
                break
            kept -= 1
        return {
            curve: max(p["mean"] for p in self.lines if p["curve"] == curve)
            for curve in order[kept:]
        }

    @cached_property
    def domain(self) -> tuple[float, float]:
        """Of the y axis."""
        if self.bounds:
            return self.bounds
        kept = [extent for curve, extent in self.extent.items() if curve not in self.cut]
        low = min([*self.rules.values(), *(least for least, _ in kept)])
        high = max([*self.rules.values(), *(most for _, most in kept)])
        if self.cut:
            high = max(high, low + LEAST_RANGE)
        room = 0.06 * (high - low) or 0.1
        # A word has room below the cross where a curve ends.
        ended = [self.last(c)["mean"] for c in self.shown if self.ends.get(c) is not None]
        bottom = min([low - room, *(mean - 2 * room for mean in ended)])
        # No loss is below 0, but a change may be.
        return (max(0.0, bottom) if low >= 0 and not self.rules else bottom), high + room

    def pixel(self, value: float) -> float:
        """Where a value is drawn, counted from the top; values outside stand at the edge."""
        low, high = self.domain
        return HEIGHT * (high - min(max(value, low), high)) / (high - low)

    def value(self, pixel: float) -> float:
        """The value that is drawn there."""
        low, high = self.domain
        return high - (high - low) * pixel / HEIGHT

    @cached_property
    def drawn_references(self) -> dict[str, dict[float, float]]:
        """The grey lines at the lengths shown, if they lie within the axis."""
        low, high = self.domain
        first, last = self.span
        within = {
            name: {length: value for length, value in values.items() if first <= length <= last}
            for name, values in self.references.items()
        }
        return {
            name: values
            for name, values in within.items()
            if values and all(low <= value <= high for value in values.values())
        }

    @cached_property
    def named(self) -> bool:
        """Whether names stand at the ends of the lines, or in a legend."""
        return len(self.shown) <= MOST_NAMES and max(map(len, self.shown)) <= LONGEST_NAME


def line(row: Aggregate, *, by_position: bool) -> dict[str, Any]:
    """One point of a curve."""
    return {
        "curve": row.curve,
        "x": place(row, by_position=by_position),
        "at": f"positions {row.first_position} to {row.last_position}"
        if by_position
        else str(row.evaluation_length),
        "mean": row.mean,
        "sd": row.sd,
        "low": row.low,
        "high": row.high,
        "seeds": row.seeds,
    }


def place(row: Aggregate, *, by_position: bool) -> float:
    """Where a row stands on the x axis: at its length, or at the middle of its range."""
    if by_position:  # the middle as the axis shows it, in powers of two
        return math.sqrt(row.first_position * row.last_position)
    return row.evaluation_length


def lowest(point: Mapping[str, Any]) -> float:
    """Of a point's band."""
    return float(point["mean"] if point["low"] is None else min(point["low"], point["mean"]))


def highest(point: Mapping[str, Any]) -> float:
    """Of a point's band."""
    return float(point["mean"] if point["high"] is None else max(point["high"], point["mean"]))


def spread(wanted: Sequence[float], gap: float, end: float) -> list[float]:
    """Places at least a gap apart, near those wanted, none past the end if there is room.

    >>> spread([100.0, 102.0, 50.0], gap=10, end=320)
    [100.0, 110.0, 50.0]
    >>> spread([319.0, 320.0], gap=10, end=320)
    [310, 320]
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [wanted[index] for index in order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    bound = end
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], bound)
        bound = placed[i] - gap
    result = [0.0] * len(wanted)
    for index, where in zip(order, placed, strict=True):
        result[index] = where
    return result
