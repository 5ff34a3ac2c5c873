"""The whole visit: diagnose, measure the model and its candidates, judge, and prescribe."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import files
from ..cell import provenance
from ..diagnose import Diagnosis, diagnose
from ..engines import Prescription, prescribe
from ..errors import InputError
from ..repairs import Repair
from ..results import Results
from ..spectrum import Extension
from .answers import CHOICES
from .hunt import NeedleRequest
from .loading import Pretrained
from .measure import measure
from .needles import NEEDLES as KINDS
from .seek import fits, seek
from .verdict import Trial, Verdict, cheapest, judge, needles_of
from .wear import Proof
from .work import LAST_TOKENS, Request, lengths_for

LOSSES, NEEDLES, VERDICT = "losses", "needles", "verdict.json"
"""In the folder of a visit: two runs folders, and what came of them."""

NEEDLE_SHARE = 0.25
"""Of the time, kept for needles: two models are read for them, and every candidate for the loss."""

FEW, MANY = (0.1, 0.5, 0.9), tuple((2 * n + 1) / (2 * CHOICES) for n in range(CHOICES))
"""Depths of needles: where each takes a text of its own, and where one text holds them all."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What a visit came to.

    reason: why nothing was measured at the target, where nothing could be. prescription: for the
    chosen repair, where there is one. left_out: in sentences, what the time did not allow.
    """

    model: str
    diagnosis: Diagnosis
    verdict: Verdict | None
    reason: str
    proofs: tuple[Proof, ...]
    prescription: Prescription | None
    losses: Results | None
    needles: Results | None
    left_out: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "model": self.model,
            "diagnosis": self.diagnosis.as_json(),
            "verdict": None if self.verdict is None else self.verdict.as_json(),
            "reason": self.reason,
            "proofs": [proof.as_json() for proof in self.proofs],
            "prescription": None if self.prescription is None else self.prescription.as_json(),
            "left_out": list(self.left_out),
        }


def prove(
    model: Pretrained,
    target: int,
    out: Path,
    *,
    engine: str,
    texts: Sequence[str],
    repairs: Sequence[Repair],
    windows: int,
    kinds: Sequence[str],
    trials: int,
    display: Callable[[], Any],
    command: str,
    say: Callable[[str], None],
    max_seconds: float | None,
) -> Visit:
    """Diagnoses a model, measures it at the target and before, chooses a repair, prescribes it.

    repairs: candidates; those that the diagnosis names unless given. kinds: of needles; none to
    judge by the loss alone. trials: needles of each kind, length and depth.
    display: makes a display for each part. max_seconds: for all of it; the first window and the
    first needles are always read.

    Raises InputError for a target within the trained length, or a mistake in what is asked.
    """
    checkpoint, trained = model.checkpoint, model.trained_length
    if target <= trained:
        raise InputError(
            f"{model.name} was trained with {trained:,} tokens, and the target is {target:,}: "
            "there is nothing to prove past its window"
        )
    began = time.monotonic()
    found = diagnose(checkpoint, target)
    if model.limit is not None and target > model.limit:
        return told(model, found, f"it cannot be run there: {found.advice.reason}")
    candidates = list(repairs) or [each.effect.repair for each in found.advice.candidates]
    asked = Request(
        lengths=lengths_for(trained, target),
        repairs=tuple(candidates),
        texts=tuple(texts),
        windows=windows,
        last_tokens=min(LAST_TOKENS, lengths_for(trained, target)[0]),
        target_length=target,
    )
    search = None
    if kinds:
        search = NeedleRequest(
            lengths=(trained, target),
            depths=FEW if any(KINDS[k].told == 1 for k in kinds if k in KINDS) else MANY,
            kinds=tuple(kinds),
            texts=tuple(texts[:1]),
            trials=trials,
            target_length=target,
        ).checked()
        fits(model, search)
    share = 1.0 if search is None else 1.0 - NEEDLE_SHARE
    say(f"measuring {model.name} as it is and with {len(candidates)} candidates")
    with display() as shown:
        losses = measure(
            model,
            asked,
            out / LOSSES,
            display=shown,
            command=command,
            say=say,
            max_seconds=None if max_seconds is None else share * max_seconds,
            question=f"Which repair takes {model.name} from {trained:,} to {target:,} tokens?",
        )
    everyone = [None, *candidates]
    verdict = judge(losses.results, None, everyone, target)
    needles, left_out = None, list(losses.left_out)
    if search is not None:
        left = None if max_seconds is None else max_seconds - (time.monotonic() - began)
        needles, more = sought(model, search, verdict, out / NEEDLES, display, command, say, left)
        left_out += more
        verdict = judge(losses.results, needles, everyone, target)
    chosen = verdict.chosen.repair if verdict.chosen is not None else None
    prescription = None
    if chosen is not None:
        prescription = prescribe(checkpoint, chosen, Extension(trained, target), engine)
    return Visit(
        model=model.name,
        diagnosis=found,
        verdict=verdict,
        reason="",
        proofs=tuple(losses.proofs.values()),
        prescription=prescription,
        losses=losses.results,
        needles=needles,
        left_out=tuple(left_out),
    )


def sought(
    model: Pretrained,
    search: NeedleRequest,
    first: Verdict,
    out: Path,
    display: Callable[[], Any],
    command: str,
    say: Callable[[str], None],
    seconds: float | None,
) -> tuple[Results, tuple[str, ...]]:
    """Looks for needles under what holds by its loss, the cheapest first, until one holds.

    The model as it is is always looked at: what it finds at its trained length is the measure.
    """
    trained, target = search.lengths
    plain, *others = first.trials
    waiting = [trial for trial in others if trial.loss_holds]
    worn: list[Repair] = []
    began = time.monotonic()
    # Where the model as it is keeps its loss, its needles decide whether a repair is needed at all.
    if not plain.loss_holds:
        worn += take(waiting)
    while True:
        say(f"looking for needles: {', '.join(['the model as it is', *map(str, worn)])}")
        left = None if seconds is None else max(1.0, seconds - (time.monotonic() - began))
        with display() as shown:
            found = seek(
                model,
                replace(search, repairs=tuple(worn)),
                out,
                display=shown,
                command=command,
                say=say,
                max_seconds=left,
            )
        asked = [None, *map(str, worn)] if plain.loss_holds else [*map(str, worn)]
        hold = [needles_of(found.results, one, trained, target)[1] for one in asked]
        if any(hold) or not waiting:
            return found.results, tuple(found.left_out)
        if seconds is not None and time.monotonic() - began > seconds:
            names = ", ".join(trial.name for trial in waiting)
            late = f"needles were not looked for under {names}: the time did not allow it"
            return found.results, (*found.left_out, late)
        worn += take(waiting)


def take(waiting: list[Trial]) -> list[Repair]:
    """The next repair to be tried, taken off those that wait; none if none does."""
    best = cheapest(waiting)
    if best is None or best.repair is None:
        return []
    waiting.remove(best)
    return [best.repair]


def told(model: Pretrained, found: Diagnosis, reason: str) -> Visit:
    """A visit that ends with the diagnosis."""
    return Visit(
        model=model.name,
        diagnosis=found,
        verdict=None,
        reason=reason,
        proofs=(),
        prescription=None,
        losses=None,
        needles=None,
        left_out=(),
    )


def keep(visit: Visit, out: Path, command: str) -> None:
    """Writes verdict.json: everything that was found, and what made it."""
    out.mkdir(parents=True, exist_ok=True)
    content = {"format": 1, **visit.as_json(), "provenance": provenance(command)}
    files.write(out / VERDICT, json.dumps(content, indent=1, allow_nan=False) + "\n")
