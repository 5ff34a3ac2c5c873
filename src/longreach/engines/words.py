"""Sentences that several engines say: refusals, and notes on what goes with any repair."""

from __future__ import annotations

from ..checkpoint.layout import Checkpoint
from .base import Prescription, Release
from .block import ORIGINAL, Asked, by_layer_type


def tokens(count: int) -> str:
    """A length, with its unit.

    >>> tokens(131072)
    '131,072 tokens'
    """
    return f"{count:,} tokens"


def refusal(engine: str, release: Release, reason: str) -> Prescription:
    """The engine cannot: why, and what it can do instead."""
    return Prescription(engine, release.text, notes=release.notes, refused=reason)


def no_dynamic_yarn(engine: str, asked: Asked) -> str:
    """No engine changes YaRN's factor with the length."""
    factor = asked.extension.factor
    return (
        f"{engine} has no YaRN whose factor follows the length. Take yarn with one factor, "
        f"--repair yarn:factor={factor:g}, which is the same at "
        f"{tokens(asked.extension.target_length)} and costs a little on short text; or serve short "
        "requests from a second instance without it."
    )


def static_instead(asked: Asked) -> str:
    """What to take instead of dynamic NTK: the base it would have at the target length."""
    used = asked.used.base
    base = "" if used is None else f", --repair base:base={used:.8g}"
    return (
        f"Take the base that it comes to at {tokens(asked.extension.target_length)}{base}, for all "
        "lengths, or --repair yarn"
    )


def nothing_to_scale(checkpoint: Checkpoint, engine: str, length_setting: str) -> str | None:
    """Why no repair of a rope spectrum can do anything for this model; None if one can."""
    if checkpoint.unbounded:
        return None
    if checkpoint.rope:
        widest = max(group.window or 0 for group in checkpoint.rope)
        nope = any(group.kind == "nope" for group in checkpoint.groups)
        rest = " The layers that do see further are not turned at all (NoPE)." if nope else ""
        return (
            "nothing here to scale: every layer that is turned sees a window of at most "
            f"{tokens(widest)}, so no distance is longer than that, at any context.{rest} Raise "
            f"the length alone: {length_setting}"
        )
    kind = checkpoint.groups[0].kind if checkpoint.groups else "nope"
    return f"nothing here to scale: {_WHY[kind]} {_raise(checkpoint, kind, length_setting)}"


_WHY = {
    "nope": "the model is told no positions (NoPE).",
    "alibi": "the model has ALiBi, a bias by distance that goes on past the trained length.",
    "learned": "positions are rows of a learned table; there is no row past its end.",
    "sinusoidal": "positions are sinusoids added to the embeddings, not turned pairs.",
    "t5": "the model has T5's buckets: all distances past the last share one bias.",
    "rope": "the config does not say what is turned.",
}


def _raise(checkpoint: Checkpoint, kind: str, length_setting: str) -> str:
    if kind == "learned":
        return "A longer table must be trained; no block, flag or length setting helps."
    key = checkpoint.stated_key
    if key and " " not in key:
        return f"Raise {key} only; no rope block exists. For the engine: {length_setting}"
    return f"Raise the length only; no rope block exists. For the engine: {length_setting}"


def shared_notes(asked: Asked) -> list[str]:
    """What goes with the repair whatever the engine."""
    notes, group, checkpoint = [], asked.group, asked.checkpoint
    if group.repair is not None:
        notes.append(
            f"The config has a repair already ({group.repair}): this replaces it. The factor "
            f"counts from the pre-training window, {tokens(asked.window)}, not from the length it "
            "reaches now."
        )
    reach = round(asked.factor * asked.window)
    scaled = asked.repair.name in ("linear", "yarn", "llama3", "ntk_by_parts")
    if scaled and reach < asked.extension.target_length:
        notes.append(
            f"A factor of {asked.factor:g} reaches {tokens(reach)}, not the "
            f"{asked.extension.target_length:,} asked for."
        )
    if asked.latent and asked.option("mscale_all_dim") is not None:
        notes.append(
            "mscale and mscale_all_dim are kept: the softmax of multi-head latent attention reads "
            "them."
        )
    elif asked.latent and group.softmax_factor != 1:
        notes.append(
            f"The softmax factor of this model, {group.softmax_factor:.6f}, comes with "
            "mscale_all_dim in a yarn block: under another repair it is lost."
        )
    windowed = [each for each in checkpoint.rope if each.window is not None]
    if windowed and not by_layer_type(asked):
        notes.append("One block for all layers: those with a window get it too, and need none.")
    if checkpoint.model_type.endswith("_text"):
        notes.append("In a config for text and images, these keys belong into text_config.")
    if asked.window != (group.original_length or asked.window):
        notes.append(
            f"{ORIGINAL} is {tokens(asked.window)}, as given; the config says "
            f"{group.original_length:,}."
        )
    return notes
