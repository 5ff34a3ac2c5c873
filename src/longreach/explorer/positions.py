"""What positions look like: views of a RoPE, its repairs and its rivals, from numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import cos, pi, sin
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from ..biases import alibi_slopes, t5_bucket_starts
from ..errors import InputError
from ..repairs import REPAIRS, Effect, Repair, effect, option_names
from ..report.lengths import spoken
from ..report.theme import looks
from ..report.verdict import listed
from ..show import chart
from ..show.spectrum import Sheet, ntk_note, opening, percent
from ..spectrum import Extension, Spectrum, decay, independent, whole
from .view import View

HEAD_DIMS = tuple(range(8, 257, 8))
"""That the slider stops at."""
LENGTHS = tuple(2**power for power in range(4, 21))
"""Trained and target lengths that the sliders stop at, in tokens."""
BASES = (*(step * 10.0**power for power in range(2, 8) for step in (1, 2, 5)), 1e8)
"""Bases that the slider stops at."""
HEADS = tuple(range(1, 33))
"""Heads of ALiBi that the slider stops at."""

FREE = tuple(name for name in REPAIRS if not any(option_names(name).values()))
"""Repairs that need no options, so that lengths alone say what they do."""

POINTS = 240
"""Of a curve over distances."""
CLOCKS = 16
"""Drawn at most."""
CURVES = 8
"""Of ALiBi's heads, drawn at most."""
WITHIN = 2
"""Standard errors, which noise seldom leaves."""
NEGLIGIBLE = 10.0
"""Nats that a bias takes off; e to that power is a factor of 22,026."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the sliders say. Raises InputError for numbers out of range or repairs that are none.

    repairs: names of those in FREE. heads: of ALiBi.
    """

    head_dim: int = 64
    base: float = 10_000.0
    trained_length: int = 2048
    target_length: int = 8192
    repairs: tuple[str, ...] = ("linear", "ntk", "yarn", "llama3")
    heads: int = 8

    def __post_init__(self) -> None:
        whole("target_length", self.target_length)
        whole("heads", self.heads, most=HEADS[-1])
        Sheet.of(self.head_dim, self.base, self.trained_length, self.target_length)
        for name in self.repairs:
            Repair(name)

    @cached_property
    def extension(self) -> Extension:
        """From the trained to the target length."""
        return Extension(self.trained_length, self.target_length)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Plain RoPE."""
        return Spectrum.rope(self.head_dim, self.base)

    @cached_property
    def applied(self) -> tuple[list[Effect], list[str]]:
        """What the repairs come to, and why some do not apply here."""
        found, refused = [], []
        for name in self.repairs:
            try:
                found.append(effect(Repair(name), self.spectrum, self.extension))
            except InputError as error:
                refused.append(f"{name}: {error}.")
        return found, refused

    @cached_property
    def sheet(self) -> Sheet:
        """As `longreach spectrum` would work it out."""
        return Sheet(self.spectrum, self.base, self.trained_length, self.extension, self.applied[0])


def views(setting: Setting) -> list[View]:
    """All of them, in the order of a page."""
    return [
        wavelengths(setting),
        clocks(setting),
        speeds(setting),
        resolution(setting),
        alignment(setting),
        trap(setting),
        alibi(setting),
        t5(setting),
    ]


def wavelengths(setting: Setting) -> View:
    """How long each pair takes for a turn, beside the two lengths."""
    sheet = setting.sheet
    return View(
        name="wavelengths",
        title="How long each pair takes for a turn",
        seen=" ".join(opening(sheet)),
        reading=chart.captions(sheet)[0],
        description=chart.description(sheet),
        spec=chart.wavelengths(sheet),
    )


def speeds(setting: Setting) -> View:
    """What each repair leaves of each pair's speed."""
    sheet, (_, refused) = setting.sheet, setting.applied
    title = "The speed that each repair leaves each pair"
    if not sheet.effects:
        why = " ".join(refused) or "No repair is chosen."
        return View(name="speeds", title=title, seen=why)
    said = []
    for each in sheet.effects:
        kept = each.spectrum.speed_kept
        still = (
            f"{each.unseen} {'pairs' if each.unseen != 1 else 'pair'} still unseen"
            if each.unseen
            else "none left unseen"
        )
        said.append(
            f"{each.repair.name} leaves the fastest pair {percent(kept[0])} of its speed and the "
            f"slowest {percent(kept[-1])}: {still} at {setting.target_length:,} tokens."
        )
    needy = [name for name in REPAIRS if name not in FREE]
    reading = (
        f"{chart.captions(sheet)[1]} Not among them: {listed(needy)}, which lengths alone do not "
        "settle."
    )
    return View(
        name="speeds",
        title=title,
        seen=" ".join([*said, *ntk_note(sheet), *refused]),
        reading=reading,
        description=chart.description(sheet),
        spec=chart.speeds(sheet),
    )


def resolution(setting: Setting) -> View:
    """What each repair takes from the angle between neighbours."""
    title = "What it costs: the angle between neighbouring tokens"
    effects = setting.sheet.effects
    if not effects:
        return View(name="resolution", title=title, seen="No repair is applied.")
    rows: list[dict[str, Any]] = [
        {"repair": each.repair.name, "lost": 1 - each.local_resolution} for each in effects
    ]
    for row in rows:
        row["said"] = percent(row["lost"]) if row["lost"] else "nothing"
    costly = [row for row in rows if row["lost"] > 0]
    free = [str(row["repair"]) for row in rows if row["lost"] <= 0]
    said = [
        f"{row['repair']} takes {row['said']} of the angle between neighbouring tokens."
        for row in costly
    ]
    if free:
        verb = "leaves" if len(free) == 1 else "leave"
        said.append(f"{listed(free)} {verb} the fastest pair, which tells neighbours apart, alone.")
    names = [str(row["repair"]) for row in rows]
    spec = chart.filled(resolution_layout(tuple(names)), {"resolution": rows})
    return View(
        name="resolution",
        title=title,
        seen=" ".join(said),
        reading="The fastest pair turns furthest from one token to the next. A repair that slows "
        "it makes neighbours harder to tell apart, in short texts too.",
        spec=spec,
    )


@lru_cache(maxsize=128)
def resolution_layout(names: Sequence[str]) -> dict[str, Any]:
    """Without numbers. names: of the bars."""
    bars = alt.Chart(alt.NamedData(name="resolution")).encode(
        y=alt.Y("repair:N", sort=names, axis=alt.Axis(title=None, labelLimit=120)),
        x=alt.X(
            "lost:Q",
            scale=alt.Scale(domain=[0, 1.12], nice=False),
            axis=alt.Axis(
                title="lost in the fastest pair (% of its speed)",
                format=".0%",
                values=[0, 0.25, 0.5, 0.75, 1],
            ),
        ),
        tooltip=[alt.Tooltip("repair:N"), alt.Tooltip("lost:Q", format=".2%")],
    )
    words = bars.mark_text(style="name", align="left", dx=5).encode(text="said:N")
    hue = alt.Color("repair:N", scale=alt.Scale(domain=names), legend=None)
    return finished(
        alt.layer(bars.mark_bar(size=16).encode(color=hue), words), height=32 * len(names) + 10
    )


def along(field: str) -> alt.X:
    """Distances from 1 on, in powers of two; `reach` fills in how far, and the numbers."""
    return alt.X(
        field,
        scale=alt.Scale(type="log", base=2, domain=[1, alt.ExprRef("longest")], nice=False),
        axis=alt.Axis(
            title="distance (tokens)",
            values=alt.ExprRef("powers"),
            format=",d",
            labelOverlap="greedy",
            labelSeparation=6,
        ),
    )


def reach(longest: int) -> dict[str, Any]:
    """What `along` leaves open.

    >>> reach(100)
    {'longest': 100, 'powers': [1, 4, 16, 64]}
    """
    powers = [4**power for power in range(longest.bit_length() // 2 + 1)]
    return {"longest": longest, "powers": powers}


def distances(longest: int, points: int = POINTS) -> NDArray[np.int64]:
    """Whole tokens from 1 to the longest, close where curves are.

    >>> distances(5).tolist()
    [1, 2, 3, 4, 5]
    """
    return np.unique(np.geomspace(1, longest, points).round().astype(np.int64))


def alignment(setting: Setting) -> View:
    """How aligned a vector stays with itself, by distance; plain, and under the repairs."""
    places = distances(max(setting.trained_length, setting.target_length))
    plain = decay(setting.spectrum, places)
    curves = {"plain RoPE": plain}
    for name, each in zip(setting.sheet.names, setting.sheet.effects, strict=True):
        curves[name] = decay(each.spectrum, places)
    lowest = int(plain.argmin())
    rises = int((np.diff(plain) > 0).sum())
    at_trained = float(decay(setting.spectrum, [setting.trained_length])[0])
    seen = (
        f"Under plain RoPE a vector one token away keeps {plain[0]:.3f} of its alignment with "
        f"itself; at the trained length, {setting.trained_length:,} tokens, {at_trained:.3f}. "
        f"It is lowest ({plain[lowest]:.3f}) at {places[lowest]:,} tokens, and rises again between "
        f"{rises} of {len(places) - 1} neighbouring points: it falls and swings, and never was a "
        "promise that further is weaker."
    )
    return View(
        name="alignment",
        title="How aligned a vector stays with itself",
        seen=seen,
        reading="The inner product of a vector with itself turned by a distance, over that at "
        "distance 0, where every pair weighs alike. The dashed rule is the trained length.",
        spec=over_distance(places, curves, setting, "alignment (1 at distance 0)"),
    )


def trap(setting: Setting) -> View:
    """The same for independent vectors: noise that is often shown as decay."""
    places = distances(max(setting.trained_length, setting.target_length))
    mean, error = independent(setting.spectrum, places)
    inside = int((np.abs(mean) <= WITHIN * error).sum())
    return View(
        name="trap",
        title="A trap: the same picture from independent vectors",
        seen=f"{inside} of {len(places)} points lie within {WITHIN} standard errors ({error:.4f} "
        "each) of 0. The expectation is exactly 0 at every distance: what looks like a curve is "
        "the noise of one draw, and its slow end moves slowly because slow pairs turn slowly.",
        reading="The mean turned product of 1,000 random queries with 1,000 random keys, a figure "
        "that is often shown to say that RoPE forgets what is far. The band is "
        f"{WITHIN} standard errors about 0. Only a vector's alignment with itself (the figure "
        "before) falls.",
        spec=over_distance(
            places,
            {"independent vectors": mean},
            setting,
            "mean product (of |q||k|)",
            band=WITHIN * error,
        ),
    )


def over_distance(
    places: NDArray[np.int64],
    curves: dict[str, NDArray[np.float64]],
    setting: Setting,
    axis: str,
    band: float = 0.0,
    most: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Lines against distance on a log axis, the trained length drawn.

    band: half the height of a grey one about 0. most: limits of the y axis.
    """
    rows = [
        {"distance": int(place), "value": round(float(value), 5), "curve": name}
        for name, values in curves.items()
        for place, value in zip(places, values, strict=True)
    ]
    longest = int(places[-1])
    data: dict[str, chart.Rows] = {
        "curves": rows,
        "trained": [{"distance": setting.trained_length}],
    }
    if band:
        data["band"] = [{"distance": at, "low": -band, "high": band} for at in (1, longest)]
    return chart.filled(
        distance_layout(tuple(curves), axis, bool(band), most),
        data,
        said=f"trained {setting.trained_length:,}",
        **reach(longest),
    )


@lru_cache(maxsize=64)
def distance_layout(
    names: Sequence[str], axis: str, banded: bool, most: tuple[float, float] | None
) -> dict[str, Any]:
    """Without numbers. names: of the lines."""
    _, dashes = looks(len(names))
    x = along("distance:Q")
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(domain=list(most), nice=False) if most else alt.Scale(zero=False),
        axis=alt.Axis(title=axis, tickCount=5),
    )
    legend: Any = None
    if len(names) > 1:
        columns = max(1, 330 // (7 * max(map(len, names)) + 40))
        legend = alt.Legend(orient="bottom", title=None, symbolOpacity=1, columns=columns)
    lines = (
        alt.Chart(alt.NamedData(name="curves"))
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=x,
            y=y,
            color=alt.Color("curve:N", scale=alt.Scale(domain=names), legend=legend),
            strokeDash=alt.StrokeDash(
                "curve:N", scale=alt.Scale(domain=names, range=dashes), legend=legend
            ),
            tooltip=[
                alt.Tooltip("curve:N"),
                alt.Tooltip("distance:Q", format=",d"),
                alt.Tooltip("value:Q", format=".4f"),
            ],
        )
    )
    layers: list[alt.Chart] = []
    if banded:
        layers.append(
            alt.Chart(alt.NamedData(name="band"))
            .mark_area(opacity=0.18, color="#808080")
            .encode(x=x, y="low:Q", y2="high:Q")
        )
    rule = alt.Chart(alt.NamedData(name="trained")).encode(x=x)
    layers.append(rule.mark_rule(style="reference", strokeDash=[5, 4]))
    for style in ("halo", "note"):
        layers.append(
            rule.mark_text(
                style=style, text=alt.ExprRef("said"), align="right", dx=-5, baseline="top"
            ).encode(y=alt.value(4))
        )
    return finished(alt.layer(*layers[:1], lines, *layers[1:]), height=260)


def clocks(setting: Setting) -> View:
    """Pairs as clocks: which part of the dial training met, and where the target puts the hand."""
    spectrum, extension = setting.spectrum, setting.extension
    unseen = spectrum.unseen(extension)
    turns = spectrum.turns(setting.trained_length)
    asked = spectrum.turns(setting.target_length)
    shown = evenly(spectrum.pairs, CLOCKS)
    faces = "".join(
        clock(
            pair,
            turns=float(turns[pair]),
            asked=float(asked[pair]),
            unseen=bool(unseen[pair]),
            wavelength=float(spectrum.wavelengths[pair]),
        )
        for pair in shown
    )
    whole_dials = int((turns >= 1).sum())
    seen = (
        f"{whole_dials} of {spectrum.pairs} dials were met whole in {setting.trained_length:,} "
        f"tokens of training. At {setting.target_length:,} tokens {int(unseen.sum())} hands "
        f"{'stand' if unseen.sum() != 1 else 'stands'} where training never put them."
    )
    return View(
        name="clocks",
        title="Pairs as clocks",
        seen=seen,
        reading="Below each clock, the tokens of one turn. The thick arc is what training met of a "
        "dial. The hand is where the token at the target length stands; dashed, with a ring at its "
        "tip and the word unseen, if that is past the arc. "
        + (
            f"{len(shown)} of {spectrum.pairs} pairs are drawn, evenly chosen."
            if len(shown) < spectrum.pairs
            else "All pairs are drawn."
        ),
        markup=f'<div class="lr-clocks" role="img" aria-label="{seen}">{faces}</div>',
    )


def evenly(count: int, most: int) -> list[int]:
    """So many places of a list at most, the first and the last among them.

    >>> evenly(4, 16), len(evenly(64, 16)), evenly(64, 16)[-1]
    ([0, 1, 2, 3], 16, 63)
    """
    return sorted({int(at) for at in np.linspace(0, count - 1, min(count, most)).round()})


def clock(pair: int, *, turns: float, asked: float, unseen: bool, wavelength: float) -> str:
    """One dial as SVG: numbers alone, so there is nothing to escape.

    turns, asked: in training and at the target length.
    """
    met = (
        '<circle cx="50" cy="50" r="38" class="lr-met"/>'
        if turns >= 1
        else f'<path d="M{at(0)} A38 38 0 {int(turns > 0.5)} 1 {at(turns)}" class="lr-met"/>'
    )
    kind = "lr-hand lr-unseen" if unseen else "lr-hand"
    tip = f'<circle cx="{xy(asked, 30)[0]}" cy="{xy(asked, 30)[1]}" r="5" class="lr-tip"/>'
    return (
        f'<div class="lr-clock"><svg viewBox="0 0 100 100" aria-hidden="true">'
        f'<circle cx="50" cy="50" r="38" class="lr-dial"/>{met}'
        f'<line x1="50" y1="50" x2="{xy(asked, 30)[0]}" y2="{xy(asked, 30)[1]}" class="{kind}"/>'
        f"{tip if unseen else ''}</svg>"
        f"<span>pair {pair}{' · unseen' if unseen else ''}</span>"
        f"<span>{wavelength:,.0f} tokens</span></div>"
    )


def xy(turns: float, radius: float) -> tuple[str, str]:
    """A place on a dial of 100 by 100, from the top clockwise."""
    angle = 2 * pi * (turns % 1)
    return f"{50 + radius * sin(angle):.2f}", f"{50 - radius * cos(angle):.2f}"


def at(turns: float) -> str:
    """On the rim.

    >>> at(0.25)
    '88.00 50.00'
    """
    return " ".join(xy(turns, 38))


def alibi(setting: Setting) -> View:
    """ALiBi's biases, head by head."""
    slopes = sorted(alibi_slopes(setting.heads), reverse=True)
    longest = max(setting.trained_length, setting.target_length)
    places = distances(longest, POINTS // 2)  # Half as many do for a curve so smooth.
    curves = {
        f"slope {slope:.3g}": np.maximum(-slope * places, -2 * NEGLIGIBLE)
        for slope in (slopes[at] for at in evenly(len(slopes), CURVES))
    }
    ends = [NEGLIGIBLE / slope for slope in slopes]
    within = sum(end < setting.trained_length for end in ends)
    seen = (
        f"Of {setting.heads} head{'s' if setting.heads > 1 else ''}, the steepest takes "
        f"{NEGLIGIBLE:g} nats off at {ends[0]:,.0f} tokens, the flattest at {ends[-1]:,.0f}: "
        f"{within} of {setting.heads} within the trained length."
    )
    return View(
        name="alibi",
        title="ALiBi: what distance takes off a logit",
        seen=seen,
        reading=f"Slope times distance, head by head ({len(curves)} of {setting.heads} drawn); the "
        f"axis ends at {2 * NEGLIGIBLE:g} nats. There is no angle, so none to leave: what grows is "
        "the damping.",
        spec=over_distance(places, curves, setting, "bias (nats)", most=(-2 * NEGLIGIBLE, 0.0)),
    )


def t5(setting: Setting, buckets: int = 32, max_distance: int = 128) -> View:
    """T5's buckets: which distances share a learned bias, and which buckets training fills."""
    starts = t5_bucket_starts(buckets, max_distance)
    longest = max(setting.trained_length, setting.target_length, max_distance)
    met = [start < setting.trained_length for start in starts]
    rows = [
        {
            "bucket": number,
            "from": max(start, 1),
            "to": (starts[number + 1] if number + 1 < len(starts) else longest),
            "kind": T5_KINDS[not trained],
            "said": spoken(span(starts, number)) if number + 1 < len(starts) else f"{start:,} on",
        }
        for number, (start, trained) in enumerate(zip(starts, met, strict=True))
    ]
    empty = len(met) - sum(met)
    if empty:
        which = f"{len(met) - empty} to {len(met) - 1}" if empty > 1 else f"{len(met) - 1}"
        seen = (
            f"Trained at {setting.trained_length:,} tokens, no distance falls into bucket"
            f"{'s' if empty > 1 else ''} {which}: their biases are as they were drawn at the "
            "start, and longer texts use them."
        )
    else:
        seen = (
            f"Every bucket is trained at {setting.trained_length:,} tokens. All distances from "
            f"{starts[-1]:,} on share the last one: order beyond it is not told."
        )
    return View(
        name="t5",
        title="T5's bias: distances in buckets",
        seen=seen,
        reading=f"{buckets} buckets up to {max_distance} tokens, as in T5, for earlier keys. Each "
        "stands for one learned number a head; dashed: no distance of training falls into it.",
        spec=chart.filled(t5_layout(), {"buckets": rows}, **reach(longest)),
    )


@lru_cache(maxsize=1)
def t5_layout() -> dict[str, Any]:
    """Without numbers."""
    legend = alt.Legend(orient="bottom", title=None, columns=1, symbolOpacity=1)
    bars = (
        alt.Chart(alt.NamedData(name="buckets"))
        .mark_rule(strokeWidth=5)
        .encode(
            x=along("from:Q"),
            x2="to:Q",
            y=alt.Y("bucket:Q", axis=alt.Axis(title="bucket", tickCount=6)),
            color=alt.Color("kind:N", scale=alt.Scale(domain=T5_KINDS), legend=legend),
            strokeDash=alt.StrokeDash(
                "kind:N", scale=alt.Scale(domain=T5_KINDS, range=[[1, 0], [4, 3]]), legend=legend
            ),
            tooltip=[alt.Tooltip("bucket:Q"), alt.Tooltip("said:N", title="distances")],
        )
    )
    return finished(alt.layer(bars), height=260)


T5_KINDS = ["trained", "never trained"]


def span(starts: Sequence[int], number: int) -> list[int]:
    """The distances of a bucket: one, or the first and the last."""
    last = starts[number + 1] - 1
    return [starts[number]] if last == starts[number] else [starts[number], last]


def finished(layered: alt.LayerChart | alt.FacetChart, height: int) -> dict[str, Any]:
    """The spec as a page takes it."""
    return chart.finished(layered) | {"height": height, "padding": 8}


def nearest_stop(value: float, stops: Iterable[float]) -> float:
    """Where a slider stands for a value that an address names: the nearest by ratio.

    >>> nearest_stop(2800, LENGTHS), nearest_stop(500_000, BASES)
    (2048, 500000.0)
    """
    return min(stops, key=lambda stop: max(stop / value, value / stop))
