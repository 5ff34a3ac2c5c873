"""From a checkpoint and a target length to a Diagnosis: what leaves the range, what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isclose
from typing import Any

import numpy as np

from .biases import t5_bucket_starts
from .checkpoint.layout import Checkpoint, LayerGroup
from .errors import InputError
from .repairs import Effect, Repair, effect, ntk_factor, softmax_factor
from .spectrum import Extension, whole
from .views import Shown


@dataclass(frozen=True)
class Candidate:
    """A repair that could reach the target, and what it costs on paper.

    changed: pairs that turn otherwise than in training, at every length; dynamic repairs change
        none up to the trained length. logits: what attention logits are multiplied by.
    softmax_factor: what multi-head latent attention multiplies its scale by, besides.
    """

    effect: Effect
    changed: int
    logits: float
    softmax_factor: float
    short_text: str

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            **self.effect.as_json(),
            "pairs_changed": self.changed,
            "logit_multiplier": self.logits,
            "softmax_factor": self.softmax_factor,
            "short_text": self.short_text,
        }


@dataclass(frozen=True)
class Advice:
    """What to do to reach the target length.

    needed: whether a repair is; None without a target. reason: why, or why not.
    smallest_factor: target over pre-training window, whatever the config asks for already.
    """

    needed: bool | None
    reason: str
    smallest_factor: float | None
    candidates: tuple[Candidate, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis(Shown):
    """What a model is, what a target length asks of it, and what would help."""

    checkpoint: Checkpoint
    target_length: int | None
    advice: Advice

    def as_json(self) -> dict[str, Any]:
        """For programs; every number is finite."""
        checkpoint = self.checkpoint
        return {
            "model_type": checkpoint.model_type,
            "stated_length": checkpoint.stated_length,
            "target_length": self.target_length,
            "groups": [
                group_json(group, checkpoint, self.target_length) for group in checkpoint.groups
            ],
            "problems": [
                {"code": each.code, "message": each.message, "consequence": each.consequence}
                for each in checkpoint.problems
            ],
            "advice": {
                "needed": self.advice.needed,
                "reason": self.advice.reason,
                "smallest_factor": self.advice.smallest_factor,
                "candidates": [each.as_json() for each in self.advice.candidates],
                "unknown_without_measuring": list(self.advice.unknown),
            },
        }


def diagnose(checkpoint: Checkpoint, target_length: int | None = None) -> Diagnosis:
    """What a model is told of positions, and what reaching the target length takes.

    target_length: tokens. Raises InputError if it is not a positive whole number.
    """
    if target_length is not None:
        whole("target length", target_length)
    return Diagnosis(checkpoint, target_length, advise(checkpoint, target_length))


def advise(checkpoint: Checkpoint, target: int | None) -> Advice:
    """Whether a repair is needed for the target, and which there are."""
    if target is None:
        return Advice(None, "no target length was given", None, (), ())
    main = _main(checkpoint)
    trained = main.trained_length
    factor = target / trained if trained else None
    if main.kind != "rope" or main.window is not None:
        needed, reason = _without_rope(main, target, checkpoint.stated_key or "the maximum length")
        return Advice(needed, reason, factor, (), tuple(_unknown(main, target)))
    if trained is None or main.spectrum is None:
        reason = (
            "the config does not say how many tokens it was trained with; give --trained-length"
        )
        return Advice(None, reason, None, (), ())
    needed, reason = _with_rope(checkpoint, main, Extension(trained, target))
    candidates = tuple(_candidates(checkpoint, main, Extension(trained, target))) if needed else ()
    return Advice(needed, reason, factor, candidates, tuple(_unknown(main, target)))


def _main(checkpoint: Checkpoint) -> LayerGroup:
    """The group that decides how far the model reaches: turned and without a window, if any is."""
    groups = checkpoint.groups
    return next(iter([*checkpoint.unbounded, *checkpoint.rope, *groups]))


def _without_rope(group: LayerGroup, target: int, key: str) -> tuple[bool, str]:
    """Whether anything need, or can, be done where no growing distance is turned."""
    if group.kind == "rope":
        return False, (
            f"nothing to repair: turned layers see {group.window:,} tokens at most, whatever the "
            f"context, so no distance is new to them; raise {key} only. What lies "
            "further "
            "back reaches a token through several layers, or through layers that are not turned"
        )
    if group.kind == "alibi":
        return False, (
            "nothing to repair: ALiBi takes slope times distance off each logit at any distance, "
            "and "
            f"has no angles to leave; raise {key} only. Distant tokens are damped, not "
            "unseen: that the model runs does not mean that it uses them"
        )
    if group.kind == "t5":
        first = t5_bucket_starts(group.buckets or 32, group.max_distance or 128)[-1]
        return False, (
            f"nothing to repair: every distance from {first} on shares one learned bias, so any "
            "length "
            f"is represented; raise {key} only. Beyond that distance order is not told"
        )
    if group.kind == "nope":
        return False, "nothing to repair: no positions are told, so none can leave a range"
    limit = group.limit if group.kind == "learned" else group.trained_length
    if limit is None:
        return False, "the config does not say how many positions there are"
    if target <= limit:
        return False, f"nothing to repair: the window, {limit:,} tokens, covers the target"
    if group.kind == "learned":
        return True, (
            f"the table has {limit:,} rows, and position {limit:,} has none: the model cannot be "
            "run "
            "there. No change of arithmetic helps; a longer table must be made (by interpolating "
            "its "
            "rows, say) and trained"
        )
    return True, (
        f"sinusoidal positions past {limit:,} can be computed, and were never trained; no repair "
        "of the "
        "arithmetic is known to hold without training"
    )


def _with_rope(checkpoint: Checkpoint, group: LayerGroup, extension: Extension) -> tuple[bool, str]:
    target, trained = extension.target_length, extension.trained_length
    used = group.used(target)
    assert used is not None
    if target <= trained:
        return (
            False,
            f"nothing to repair: the trained window, {trained:,} tokens, covers the target",
        )
    unseen = int(used.unseen(extension).sum())
    stated = checkpoint.stated_length
    raising = (
        f"; raise the maximum length, now {stated:,}"
        if stated is not None and stated < target
        else ""
    )
    if unseen == 0 and group.repair is not None:
        return False, (
            f"nothing to add: the config's own repair, {group.repair.name}, keeps every pair in "
            "its "
            f"trained range up to {target:,} tokens{raising}"
        )
    if unseen == 0:
        return False, (
            f"every pair has completed a turn in training, so no angle is new at {target:,} tokens"
            f"{raising}. Distances past {trained:,} are new all the same: measure before repairing"
        )
    reach = used.effective_length(trained)
    return True, (
        f"{unseen} of {used.pairs} pairs pass the largest angle they met in training; the first "
        "does "
        f"so at {reach:,} tokens" + (" even with the config's own repair" if group.repair else "")
    )


def _candidates(
    checkpoint: Checkpoint, group: LayerGroup, extension: Extension
) -> Iterator[Candidate]:
    """The repairs that reach the target, each at its smallest sufficient factor, rounded up."""
    plain = group.spectrum
    assert plain is not None
    factor = extension.factor
    kept = _yarn_options(group)
    yield _candidate(Repair("yarn", {"factor": factor, **kept}), group, extension)
    yield _candidate(Repair("llama3", {"factor": factor}), group, extension)
    try:
        enough = rounded_up(ntk_factor(plain, extension))
    except InputError:
        enough = None  # Its fastest pair, left alone, is out of range.
    if enough is not None and plain.pairs > 1:
        yield _candidate(Repair("ntk", {"factor": enough}), group, extension)
        growing = max(rounded_up((enough - 1) / (factor - 1)), 1.0)
        yield _candidate(Repair("dynamic", {"factor": growing}), group, extension)
    yield _candidate(Repair("linear", {"factor": factor}), group, extension)


def rounded_up(factor: float) -> float:
    """To thousandths: a block is written by hand, and a little more still suffices.

    >>> rounded_up(1.874741751808602), rounded_up(4.0)
    (1.875, 4.0)
    """
    return ceil(factor * 1000) / 1000


def _yarn_options(group: LayerGroup) -> dict[str, Any]:
    """What a model's own YaRN says besides the factor: another factor does not change it."""
    if group.repair is None or group.repair.name != "yarn":
        return {}
    dropped = ("factor", "attention_factor")
    return {key: value for key, value in group.repair.options.items() if key not in dropped}


def _candidate(repair: Repair, group: LayerGroup, extension: Extension) -> Candidate:
    plain = group.spectrum
    assert plain is not None
    made = effect(repair, plain, extension)
    changed = int((~np.isclose(made.spectrum.speed_kept, 1, rtol=1e-9)).sum())
    logits = made.spectrum.amplitude**2
    factor = 1.0
    if group.softmax_factor != 1 and repair.name == "yarn":
        factor = softmax_factor(repair.options["factor"], repair.options.get("mscale_all_dim"))
    if repair.name == "dynamic":
        text = (
            f"none up to {extension.trained_length:,} tokens; past that every length has another "
            "spectrum, and a cache of turned keys mixes them"
        )
        return Candidate(made, changed, logits, factor, text)
    text = f"{changed} of {plain.pairs} pairs turn otherwise than in training, at every length"
    if not isclose(logits, 1):
        text += f"; logits are multiplied by {logits:.4f}"
    if made.local_resolution < 1:
        text += (
            f"; neighbouring tokens are {1 / made.local_resolution:.3g} times harder to tell apart"
        )
    return Candidate(made, changed, logits, factor, text)


def _unknown(group: LayerGroup, target: int) -> Iterator[str]:
    """What the config cannot tell."""
    yield (
        f"whether the model uses what stands up to {target:,} tokens back: positions that are in "
        "range "
        "do not teach it to"
    )
    if group.kind == "rope" and group.window is None:
        yield "what each candidate costs on short text, and which costs least: measure both lengths"
        yield "how far the unrepaired model holds: some go on for a while past the trained length"
    if group.repair is not None:
        yield f"whether the weights were trained with the config's {group.repair.name} or not"
    source = group.trained_length_source
    if source and source != "given" and "original" not in source:
        yield f"whether {group.trained_length:,} tokens, from {source}, is what training really saw"


def group_json(
    group: LayerGroup, checkpoint: Checkpoint, target: int | None = None
) -> dict[str, Any]:
    """One group of layers, for programs. Keys that do not apply to its kind are null."""
    found: dict[str, Any] = {
        "layers": "all" if group.layers is None else list(group.layers),
        "kind": group.kind,
        "rotary_dim": group.rotary_dim,
        "pairs": None,
        "base": group.base,
        "trained_length": group.trained_length,
        "trained_length_source": group.trained_length_source or None,
        "never_completed": None,
        "first_never_completed": None,
        "slowest_wavelength": None,
        "existing_repair": repair_json(group),
        "slopes": None if group.slopes is None else list(group.slopes),
        "inverse_frequencies": None,
        "amplitude": None,
        "softmax_factor": group.softmax_factor,
        "unseen": None,
        "window": group.window,
        "window_kind": group.window_kind,
        "never_completed_at_stated": None,
        "limit": group.limit,
        "temperature": group.temperature,
        "notes": list(group.notes),
    }
    if group.slopes:
        found["distance_of_bias_10"] = 10 / min(group.slopes)
    if group.kind == "t5":
        starts = t5_bucket_starts(group.buckets or 32, group.max_distance or 128)
        found["buckets"], found["last_bucket_from"] = len(starts), starts[-1]
    used = group.used(target)
    if group.spectrum is None or used is None:
        return found
    found["pairs"] = group.spectrum.pairs
    found["slowest_wavelength"] = float(group.spectrum.wavelengths[-1])
    found["inverse_frequencies"] = used.inverse_frequencies.tolist()
    found["amplitude"] = used.amplitude
    if group.trained_length is not None:
        slow = np.flatnonzero(group.spectrum.never_completed(group.trained_length))
        found["never_completed"] = len(slow)
        found["first_never_completed"] = int(slow[0]) if len(slow) else None
        if target is not None:
            longest = target if group.window is None else min(target, group.window)
            asked = Extension(group.trained_length, longest)
            found["unseen"] = int(used.unseen(asked).sum())
    if checkpoint.stated_length is not None:
        at_stated = group.spectrum.never_completed(checkpoint.stated_length)
        found["never_completed_at_stated"] = int(at_stated.sum())
    return found


def repair_json(group: LayerGroup) -> dict[str, Any] | None:
    """The repair that the config asks for already."""
    if group.repair is None:
        return None
    return {"name": group.repair.name, "options": dict(group.repair.options)}
