"""Recorded attention maps: what heads of a study's models look at, small enough to ship.

`python -m longreach.explorer.maps OUT RUNS [SEED]` writes them, from a runs folder with weights.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..errors import InputError
from ..report.verdict import listed
from ..results import Results
from ..show.panels import Panel
from ..table import nearest
from .studies import ENDING, SHIPPED

if TYPE_CHECKING:
    from ..show.attention import Gaze

MAPS = SHIPPED / "attention"

WHOLE = 1000
"""What a weight of 1 is stored as: a page shows tenths of a percent."""

VERSIONS = ("longreach", "torch", "numpy")
"""That a map may depend on."""


@dataclass(frozen=True, kw_only=True)
class Map:
    """One run at one length: the head that looks most at the token to come next.

    run: its digest. layer, head, score: None past the scheme's limit, where the panel says why
    there is no map. score: averaged over sequences; the panel shows the first of them.
    """

    run: str
    scheme: str
    task: str
    length: int
    layer: int | None
    head: int | None
    score: float | None
    caption: str
    panel: Panel


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The maps of one study's models, and where they come from."""

    name: str
    trained_length: int
    provenance: Sequence[tuple[str, str]]
    maps: Sequence[Map]

    @property
    def schemes(self) -> list[str]:
        """In the study's order."""
        return list(dict.fromkeys(one.scheme for one in self.maps))

    @property
    def tasks(self) -> list[str]:
        """In the study's order."""
        return list(dict.fromkeys(one.task for one in self.maps))

    @property
    def lengths(self) -> list[int]:
        """The shortest first."""
        return sorted({one.length for one in self.maps})

    @property
    def origin(self) -> str:
        """Where they come from, in a sentence."""
        told = dict(self.provenance)
        versions = ", ".join(f"{key} {told[key]}" for key in VERSIONS)
        return (
            f"Recorded from {told['command']}, seed {told['seed']}, on {told['date']}: {versions}."
        )

    def get(self, task: str, scheme: str, length: int) -> Map:
        """The map of one model at one length. Raises InputError for what is not recorded."""
        for name, given, known in (
            ("task", task, self.tasks),
            ("scheme", scheme, self.schemes),
        ):
            if given not in known:
                raise InputError(
                    f"no attention map of the {name} {given[:40]!r} is recorded; "
                    f"{nearest(given, known)}"
                )
        found = {one.length: one for one in self.maps if (one.task, one.scheme) == (task, scheme)}
        if length not in found:
            raise InputError(
                f"no attention map of {scheme} on {task} is recorded at length {length}; there "
                f"are maps at {listed(map(str, sorted(found)))}"
            )
        return found[length]

    @classmethod
    def of(cls, folder: Path, seed: int | None = None) -> Recorded:
        """Looks into the models of a runs folder: at half the trained length, at it, and at twice.

        seed: the lowest unless given. Raises InputError as `gather` does, and for a study whose
        tasks name no place that an answer is taken from.
        """
        from ..show.attention import chosen, gather

        results = Results.read(folder)
        study = results.plan["study"]
        trained = int(study["trained_length"])
        tasks = dict.fromkeys(run.rows[0].task for run in results.runs if run.aim is None)
        gazes = [
            gaze
            for task in tasks
            for gaze in gather(chosen(folder, (), task, seed), (trained // 2, trained, 2 * trained))
            if gaze.pointer is not None
        ]
        if not gazes:
            raise InputError(
                f"the tasks of {folder} name no place that an answer is taken from: nothing to show"
            )
        origin = results.plan["provenance"]
        provenance = [
            # Without the folder that was written to. Each map's digest says what was trained.
            ("command", f"longreach run {results.name}"),
            ("seed", str(gazes[0].training.seed)),
            ("date", str(origin["date"])[:10]),
            *((key, str(origin[key])) for key in VERSIONS),
        ]
        return cls(
            name=results.name,
            trained_length=trained,
            provenance=provenance,
            maps=[one for gaze in gazes for one in maps_of(gaze)],
        )

    @classmethod
    def load(cls, path: Path) -> Recorded:
        """What `save` wrote."""
        found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        found["maps"] = [
            Map(**one | {"panel": unpacked(one["panel"])}) for one in found.pop("maps")
        ]
        return cls(**found)

    def save(self, path: Path) -> None:
        """Writes it, the same bytes for the same maps."""
        packed = asdict(self)
        for one in packed["maps"]:
            if one["panel"]["weights"] is not None:
                one["panel"]["weights"] = (
                    (WHOLE * one["panel"]["weights"]).round().astype(int).tolist()
                )
        text = json.dumps(packed, separators=(",", ":"), allow_nan=False)
        files.write(path, gzip.compress(text.encode(), mtime=0))


def unpacked(panel: dict[str, Any]) -> Panel:
    """A panel as it was before it was saved, to the nearest thousandth."""
    made = Panel(**panel)
    if made.weights is None:
        return made
    return replace(made, weights=(np.array(made.weights) / WHOLE).astype(np.float32))


def maps_of(gaze: Gaze) -> list[Map]:
    """Of one run at each of its lengths."""
    from ..show import heatmaps

    maps = []
    for length, panel in zip(gaze.lengths, heatmaps.pointers(gaze), strict=True):
        found, pointer = gaze.found[length], gaze.pointer
        assert pointer is not None  # as `pointers` asks too
        there = panel.weights is not None and found is not None
        maps.append(
            Map(
                run=gaze.digest,
                scheme=gaze.training.scheme.label,
                task=gaze.training.task.label,
                length=length,
                layer=pointer.layer if there else None,
                head=pointer.head if there else None,
                score=found.score(pointer) if found is not None else None,
                caption=heatmaps.caption([gaze]),
                panel=panel,
            )
        )
    return maps


@lru_cache(maxsize=4)
def recorded(study: Path) -> Recorded | None:
    """The maps that ship beside a study that ships, if there are any."""
    path = MAPS / study.name
    return Recorded.load(path) if study.parent == SHIPPED and path.is_file() else None


if __name__ == "__main__":
    made = Recorded.of(Path(sys.argv[2]), *map(int, sys.argv[3:]))
    path = Path(sys.argv[1]) / f"{made.name}{ENDING}"
    made.save(path)
    sys.stdout.write(f"{path} {path.stat().st_size:,} bytes\n")
