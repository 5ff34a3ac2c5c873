"""Attention maps of the models of a study: recorded ones, or made where weights are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..results import Results
from ..show.panels import Panel
from ..table import nearest
from .maps import recorded
from .studies import EVERY, Library
from .view import View

LONGEST = 64
"""Length of a map: as many cells as a page can draw."""


@dataclass(frozen=True)
class About:
    """What there is to look into: nothing where there are neither weights nor recorded maps.

    made: whether a model is run for each map, which takes a moment.
    """

    schemes: Sequence[str] = ()
    lengths: Sequence[int] = ()
    trained_length: int = 1
    made: bool = False


def choices(library: Library, name: str) -> About:
    """Of a study in the list."""
    maps = recorded(library.source(name))
    if maps is not None:
        return About(maps.schemes, maps.lengths, maps.trained_length)
    folder = library.weights(name)
    if folder is None:
        return About()
    results = Results.read(folder)
    trained = int(results.plan["study"]["trained_length"])
    if trained > LONGEST:
        return About()  # What its models were trained at is more than a map can show.
    labels = dict.fromkeys(run.rows[0].scheme for run in results.runs if run.aim is None)
    return About(list(labels), range(1, LONGEST + 1), trained, made=True)


def view(library: Library, name: str, task: str, scheme: str, length: int) -> View:
    """The head that looks most at the token to come next, at a length.

    Raises InputError for what the study does not have, or an answer that is taken from no place.
    """
    maps = recorded(library.source(name))
    if maps is None:
        return measured(library, name, task, scheme, length)
    found = maps.get(task, scheme, length)
    return shown(found.panel, f"{found.caption} {maps.origin}")


def measured(library: Library, name: str, task: str, scheme: str, length: int) -> View:
    """The same from the model's weights."""
    about = choices(library, name)
    folder = library.weights(name)
    if folder is None or scheme not in about.schemes:
        raise InputError(
            f"there is no model of {scheme[:40]!r} to look into; {nearest(scheme, about.schemes)}"
        )
    if length not in about.lengths:
        raise InputError(f"a map can have a length from 1 to {LONGEST}, got {length}")
    from ..show import heatmaps
    from ..show.attention import chosen, gather

    runs = chosen(folder, [scheme], None if task == EVERY else task)
    (gaze,) = gather(runs[:1], [length])
    if gaze.pointer is None:
        raise InputError(f"{task} names no place that its answer is taken from: nothing to show")
    (panel,) = heatmaps.pointers(gaze)
    return shown(panel, heatmaps.caption([gaze]))


def shown(panel: Panel, reading: str) -> View:
    """A map on a page, or in words why there is none."""
    seen = f"{panel.note[:1].upper()}{panel.note[1:]}."
    if panel.weights is None:
        return View(name="attention", title=panel.title, seen=seen)
    import altair as alt

    from ..show import panels

    return View(
        name="attention",
        title=panel.title,
        seen=seen,
        reading=reading,
        description=panels.describe([[panel]], panel.title),
        spec=panels.finished(alt.vconcat(panels.chart(panel, titled=False))),
        fixed=True,
    )
