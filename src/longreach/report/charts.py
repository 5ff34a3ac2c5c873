"""The line chart of a Picture, as one Vega-Lite definition for page, SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from .picture import HEIGHT, LONGEST_NAME, NAME_GAP, Picture, spread
from .sheet import rounded
from .theme import looks

MANY = 200  # points
WIDTH = 720  # pixels of the files, names included; the page takes the width that there is


def chart(picture: Picture) -> dict[str, Any]:
    """The Vega-Lite spec, without a config: themes bring it."""
    shapes, dashes = looks(len(picture.curves))
    curves = list(picture.curves)
    legend: Any = alt.Undefined
    if picture.named:
        legend = None
    else:
        widest = max(map(len, picture.shown))
        legend = alt.Legend(
            orient="bottom",
            title=None,
            symbolOpacity=1,
            values=picture.shown,
            columns=max(1, 330 // (7 * widest + 40)),
        )
    colour = alt.Color("curve:N", scale=alt.Scale(domain=curves), legend=legend)
    dash = alt.StrokeDash("curve:N", scale=alt.Scale(domain=curves, range=dashes), legend=legend)
    shape = alt.Shape("curve:N", scale=alt.Scale(domain=curves, range=shapes), legend=legend)
    x = x_axis(picture)
    y = alt.Y(
        "mean:Q",
        scale=alt.Scale(domain=list(picture.domain), nice=False, zero=False),
        axis=alt.Axis(title=picture.y.split("\n"), tickCount=6),
    )
    tooltip = [
        alt.Tooltip("curve:N", title="scheme"),
        alt.Tooltip("at:N", title="at"),
        alt.Tooltip("mean:Q", format=".4f"),
        alt.Tooltip("low:Q", title="from", format=".4f"),
        alt.Tooltip("high:Q", title="to", format=".4f"),
        alt.Tooltip("sd:Q", title="sd over seeds", format=".4f"),
        alt.Tooltip("seeds:Q"),
    ]
    base = alt.Chart().encode(x=x, color=colour)
    layers = [
        *references(picture, x),
        base.mark_area(opacity=band_opacity(len(picture.shown)), clip=True).encode(
            y=alt.Y("low:Q"), y2="high:Q"
        ),
        base.mark_line(strokeWidth=2, clip=True).encode(y=y, strokeDash=dash),
        base.mark_point(
            filled=True,
            opacity=1,
            size=point_size(picture),
            clip=bool(picture.cut),
            # A label for each of hundreds of points helps nobody; the drawing as a whole has one.
            aria=alt.Undefined if len(picture.lines) < MANY else False,
        ).encode(y=y, shape=shape, tooltip=tooltip),
        *end_marks(picture, x, y, colour),
        *names(picture, y, colour, shape),
    ]
    layered = alt.layer(
        *layers, data=alt.InlineData(values=[dict(point) for point in picture.lines])
    )
    return as_spec(layered.properties(width=WIDTH, height=HEIGHT))


def as_spec(layered: alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """The definition as files and the page take it, its numbers to what an eye can tell apart."""
    spec: dict[str, Any] = layered.properties(
        # Names beyond the plot are counted in, so the plot gives way to them.
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        padding=8,
    ).to_dict()
    # vega-embed would take the address for something to check; both renderers know the language.
    del spec["$schema"], spec["config"]
    spec["datasets"] = {
        name: [{key: rounded(value) for key, value in row.items()} for row in rows]
        for name, rows in spec["datasets"].items()
    }
    return spec


def band_opacity(curves: int) -> float:
    """Of the interval bands: many that lie on one another must not hide the lines.

    >>> band_opacity(4), band_opacity(12)
    (0.13, 0.065)
    """
    return round(min(0.13, 0.78 / curves), 3)


def point_size(picture: Picture) -> int:
    """Of the marks, in square pixels: many to a line must not run into one another."""
    if not picture.linear:
        return 55
    return 26 if picture.ticks else 4


def x_axis(picture: Picture) -> alt.X:
    """Lengths in powers of two, ticks where something was measured; or linear, ticks as given."""
    if picture.linear and picture.ticks:
        return alt.X(
            "x:Q",
            scale=alt.Scale(nice=False, zero=False, padding=12, domain=list(picture.span)),
            axis=alt.Axis(title=picture.x, values=list(picture.ticks), format="d"),
        )
    if picture.linear:
        return alt.X("x:Q", axis=alt.Axis(title=picture.x, tickCount=6, format="d"))
    return alt.X(
        "x:Q",
        # The padding keeps the first and last points off the edges.
        scale=alt.Scale(type="log", base=2, nice=False, padding=12, domain=list(picture.span)),
        axis=alt.Axis(
            title=picture.x,
            values=list(picture.ticks),
            format="d",
            labelOverlap="greedy",
            labelSeparation=6,
        ),
    )


def references(picture: Picture, x: alt.X) -> Iterator[alt.Chart]:
    """The rule at the trained length, and the grey lines; a level one at 0 is drawn through."""
    if picture.rule_at is not None:
        rule = alt.Chart(alt.InlineData(values=[{"x": picture.rule_at}])).encode(x=x)
        yield rule.mark_rule(strokeDash=[5, 4], style="reference")
        # Above the plot, where no line can run through it.
        yield rule.mark_text(
            style="note", text=f"trained length {picture.rule_at}", baseline="bottom"
        ).encode(y=alt.value(-7))
    for value in picture.rules.values():
        level = alt.Chart(alt.InlineData(values=[{"value": value}])).encode(y="value:Q")
        yield level.mark_rule(style="reference", strokeDash=[2, 2] if value else [1, 0])
    for values in picture.drawn_references.values():
        points = [{"x": length, "value": value} for length, value in values.items()]
        yield (
            alt.Chart(alt.InlineData(values=points))
            .mark_line(strokeDash=[1, 3], strokeWidth=1.5, style="reference")
            .encode(x=x, y="value:Q")
        )


def end_marks(picture: Picture, x: alt.X, y: alt.Y, colour: alt.Color) -> Iterator[alt.Chart]:
    """A cross and a word where a scheme has no further positions."""
    ended = [
        dict(picture.last(curve)) for curve in picture.shown if picture.ends.get(curve) is not None
    ]
    if not ended:
        return
    base = alt.Chart(alt.InlineData(values=ended)).encode(x=x)
    yield base.mark_point(shape="cross", angle=45, size=260, filled=True, opacity=1).encode(
        y=y, color=colour
    )
    words = alt.Chart(alt.InlineData(values=end_words(picture, ended))).encode(x=x)
    for style in ("halo", "name"):
        yield words.mark_text(style=style).encode(y="mean:Q", text="text:N")


def end_words(picture: Picture, ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One text for all curves that end at the same length, below their crosses if there is room.

    Below, since what goes on mostly goes up from there (a loss) and stood higher before.
    """
    words = []
    for where in sorted({point["x"] for point in ended}):
        here = [point for point in ended if point["x"] == where]
        names = " and ".join(point["curve"] for point in here)
        verb = "ends" if len(here) == 1 else "end"
        text = f"{names if len(names) <= LONGEST_NAME else f'{len(here)} schemes'} {verb}"
        pixels = [picture.pixel(point["mean"]) for point in here]
        below = max(pixels) + 20
        pixel = below if below < HEIGHT - 8 else min(pixels) - 20
        words.append({"x": where, "mean": picture.value(pixel), "text": text})
    return words


def margin_names(picture: Picture) -> list[tuple[str, str | None, float]]:
    """Text, curve (None: a grey line) and value of the names to the right of the plot."""
    found: list[tuple[str, str | None, float]] = []
    found += [(name, None, value) for name, value in picture.rules.items() if value]
    for name, values in picture.drawn_references.items():
        found.append((name, None, values[max(values)]))
    for curve in picture.shown if picture.named else ():
        if picture.ends.get(curve) is None:
            last = picture.last(curve)
            beyond = curve in picture.cut and last["mean"] > picture.domain[1]
            found.append((f"{curve} ↑" if beyond else curve, curve, last["mean"]))
    return found


def names(picture: Picture, y: alt.Y, colour: alt.Color, shape: alt.Shape) -> Iterator[alt.Chart]:
    """The names at the line ends, each with its mark, kept apart from each other."""
    found = margin_names(picture)
    places = spread([picture.pixel(value) for _, _, value in found], NAME_GAP, HEIGHT)
    rows = [
        {"text": text, "curve": curve, "mean": picture.value(place)}
        for (text, curve, _), place in zip(found, places, strict=True)
    ]
    marked = [row for row in rows if row["curve"] is not None]
    edge = alt.value("width")
    if marked:
        yield (
            alt.Chart(alt.InlineData(values=marked))
            .mark_point(filled=True, opacity=1, size=70, xOffset=12)
            .encode(x=edge, y=y, color=colour, shape=shape)
        )
    for style, some in (("name", marked), ("note", [row for row in rows if row not in marked])):
        if some:
            yield (
                alt.Chart(alt.InlineData(values=some))
                .mark_text(style=style, align="left", dx=22)
                .encode(x=edge, y=y, text="text:N")
            )
