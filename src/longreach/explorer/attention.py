"""Attention maps of the models of a study, where their weights are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..results import Results
from ..table import nearest
from .studies import EVERY, Library
from .view import View

LONGEST = 64
"""Length of a map: as many cells as a page can draw."""


@dataclass(frozen=True)
class About:
    """What there is to look into: schemes, none where weights are missing."""

    schemes: Sequence[str] = ()
    trained_length: int = 1


def choices(library: Library, name: str) -> About:
    """Of a study in the list."""
    folder = library.weights(name)
    if folder is None:
        return About()
    results = Results.read(folder)
    trained = int(results.plan["study"]["trained_length"])
    if trained > LONGEST:
        return About()  # What its models were trained at is more than a map can show.
    labels = dict.fromkeys(run.rows[0].scheme for run in results.runs if run.aim is None)
    return About(list(labels), trained)


def view(library: Library, name: str, task: str, scheme: str, length: int) -> View:
    """The head that looks most at the token to come next, at a length.

    Raises InputError for what the study does not have, or an answer that is taken from no place.
    """
    from ..show import heatmaps
    from ..show.attention import chosen, gather

    about = choices(library, name)
    folder = library.weights(name)
    if folder is None or scheme not in about.schemes:
        raise InputError(
            f"there is no model of {scheme[:40]!r} to look into; {nearest(scheme, about.schemes)}"
        )
    if not 1 <= length <= LONGEST:
        raise InputError(f"a map can have a length from 1 to {LONGEST}, got {length}")
    runs = chosen(folder, [scheme], None if task == EVERY else task)
    (gaze,) = gather(runs[:1], [length])
    if gaze.pointer is None:
        raise InputError(f"{task} names no place that its answer is taken from: nothing to show")
    import altair as alt

    (panel,) = heatmaps.pointers(gaze)
    whole = heatmaps.finished(alt.vconcat(heatmaps.chart(panel)))
    return View(
        name="attention",
        title=panel.title,
        seen=panel.note,
        reading=heatmaps.caption([gaze]),
        description=heatmaps.describe([[panel]], panel.title),
        spec=whole,
        fixed=True,
    )
