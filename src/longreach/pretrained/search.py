"""A factor for every pair, found by measuring: LongRoPE's idea, beside YaRN tuned as long.

What is searched on is never what is measured on: other documents of the same text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..cell import provenance
from ..errors import InputError
from ..repairs import Repair, growth
from ..run import locked
from ..spectrum import Extension, Spectrum
from .loading import Pretrained
from .measure import WORK, Display
from .passes import Ledger, Pass
from .windows import Passages, passages

KNOTS = 6
"""Places along the pairs where a curve of factors bends. A number for each pair would need more
evaluations than a model of any size allows on one machine."""

STEP = 0.1
"""Standard deviation of the first proposals, in logarithms."""

FASTER, SLOWER = 1.5, 1.5**-0.25
"""Of the step, after a success and a failure: the one-fifth rule (Rechenberg 1973)."""

Floats = NDArray[np.float64]


@dataclass
class Climb:
    """A (1+1) evolution strategy: propose near the best, keep what is better.

    make: the repair of a point. size: of a point; it starts at 0, which is YaRN as it stands.
    history: every point with its value, in order.
    """

    name: str
    make: Callable[[Floats], Repair]
    size: int
    history: list[tuple[Floats, float]] = field(default_factory=list)
    step: float = STEP

    @property
    def best(self) -> tuple[Floats, float]:
        """The point of the lowest value, the first of equal ones."""
        return min(self.history, key=lambda each: each[1])

    def ask(self, draw: np.random.Generator) -> Floats:
        """The next point."""
        if not self.history:
            return np.zeros(self.size)
        return self.best[0] + self.step * draw.standard_normal(self.size)

    def tell(self, point: Floats, value: float) -> None:
        """What a point came to."""
        if self.history:
            self.step *= FASTER if value < self.best[1] else SLOWER
        self.history.append((point, value))

    def repair(self) -> Repair:
        """That of the best point."""
        return self.make(self.best[0])


@dataclass(frozen=True)
class Searched:
    """What a search came to: one climb for LongRoPE's form, one for YaRN's.

    documents: those that were searched on.
    """

    longrope: Climb
    yarn: Climb
    evaluations: int
    documents: tuple[str, ...]


def factors_of(start: Floats, point: Floats, largest: float) -> list[float]:
    """A factor for each pair: the start's, bent at KNOTS places, never falling, from 1 on.

    As LongRoPE has it, slower pairs are slowed no less than faster ones.
    start: YaRN's factors. point: logarithms of what they are multiplied by at each knot.
    """
    pairs = len(start)
    places = np.linspace(0, pairs - 1, len(point))
    bent = start * np.exp(np.interp(np.arange(pairs), places, point))
    rising = np.maximum.accumulate(np.clip(bent, 1.0, largest))
    return [float(f"{each:.6g}") for each in rising]


def climbs(plain: Spectrum, extension: Extension) -> tuple[Climb, Climb]:
    """The two climbs, each from YaRN as it stands."""
    factor = extension.factor
    start = 1 / Repair("yarn").apply(plain, extension).speed_kept
    amplitude = growth(factor)

    def longrope(point: Floats) -> Repair:
        *bends, louder = point.tolist()
        found = factors_of(start, np.array(bends), 4 * factor)
        options = {"attention_factor": float(f"{amplitude * np.exp(louder):.6g}")}
        return Repair("longrope", {"long_factor": found, "short_factor": found, **options})

    def yarn(point: Floats) -> Repair:
        fast, slow, louder = np.exp(point).tolist()
        fast, slow = 32.0 * fast, 1.0 * slow
        options = {
            "factor": factor,
            "beta_fast": float(f"{max(fast, 1.01 * slow):.6g}"),
            "beta_slow": float(f"{slow:.6g}"),
            "attention_factor": float(f"{amplitude * louder:.6g}"),
        }
        return Repair("yarn", options)

    return Climb("longrope", longrope, KNOTS + 1), Climb("yarn", yarn, 3)


def search(
    model: Pretrained,
    target: int,
    out: Path,
    *,
    text: str,
    windows: int,
    kept: int,
    evaluations: int,
    seed: int,
    display: Display,
    command: str,
    say: Callable[[str], None],
) -> Searched:
    """Climbs with as many evaluations each, in turns, and writes longrope.json and yarn.json.

    An evaluation is the mean loss over all tokens of windows of the target length, so short text
    counts as well as long. Each pass is kept, so that a search that was stopped goes on the same
    way to the same end.

    windows: to search on, one of each document. kept: documents that are left for measuring.
    seed: of the proposals. Files are options as `--repair longrope:@FILE` takes them.

    Raises InputError if nothing is turned, or the text is too short.
    """
    trained = model.trained_length
    group = next((g for g in model.checkpoint.unbounded if g.spectrum is not None), None)
    if group is None or group.spectrum is None:
        raise InputError(f"{model.name} turns nothing whose distances grow: nothing to search for")
    if target <= trained:
        raise InputError(f"the target, {target:,}, is not above the trained length, {trained:,}")
    if evaluations < 1:
        raise InputError(f"--evaluations must be at least 1, got {evaluations}")
    with locked(out):
        found = passages(model, text, target, windows, say, skip=kept)
        ledger = Ledger(out / WORK / model.digest, model)
        both = climbs(group.spectrum, Extension(group.original_length or trained, target))
        draw = np.random.default_rng(seed)
        display.start(runs=2 * evaluations, finished=0, steps=2 * evaluations * windows * target)
        for number in range(evaluations):
            for climb in both:
                point = climb.ask(draw)
                value = loss_of(ledger, found, climb.make(point), target)
                climb.tell(point, value)
                display.advance(len(found.windows.tokens) * target)
                display.finish(f"{climb.name} {number + 1}: {value:.4f}, best {climb.best[1]:.4f}")
        done = Searched(*both, evaluations, found.names)
        write(out, done, model, target, seed, command)
        return done


def loss_of(ledger: Ledger, text: Passages, repair: Repair, target: int) -> float:
    """Mean loss of all tokens of the windows, in nats."""
    passes = [Pass(tokens, target, repair, target) for tokens in text.windows.tokens]
    return float(np.mean([ledger.losses(each).astype(np.float64) for each in passes]))


def write(
    out: Path, done: Searched, model: Pretrained, target: int, seed: int, command: str
) -> None:
    """The two best repairs as files of options, and search.json with all that was tried."""
    for climb in (done.longrope, done.yarn):
        options = json.dumps(climb.repair().options, indent=1)
        files.write(out / f"{climb.name}.json", options + "\n")
    content: dict[str, Any] = {
        "format": 1,
        "model": model.name,
        "digest": model.digest,
        "target_length": target,
        "evaluations": done.evaluations,
        "seed": seed,
        "documents": list(done.documents),
        "provenance": provenance(command),
        "climbs": {
            climb.name: [
                {"options": climb.make(point).options, "loss": value}
                for point, value in climb.history
            ]
            for climb in (done.longrope, done.yarn)
        },
    }
    files.write(out / "search.json", json.dumps(content, indent=1) + "\n")


def gains(done: Searched) -> Sequence[str]:
    """What each climb gained on the text that it was searched on, in sentences."""
    return [
        f"{climb.name}: {climb.history[0][1]:.4f} nats per token at the start (YaRN as it stands), "
        f"{climb.best[1]:.4f} at best, after {done.evaluations} evaluations"
        for climb in (done.longrope, done.yarn)
    ]
