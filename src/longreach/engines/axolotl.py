"""Axolotl: keys of the model's config under one key of its YAML, for transformers to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..checkpoint.layout import Checkpoint, Problem
from ..repairs import Repair
from ..spectrum import Extension
from . import transformers
from .base import Prescription, Reading, Release, numbers
from .block import STATED, Asked, Block, by_layer_type, parameters, version4, version5
from .words import no_dynamic_yarn, refusal, shared_notes

NAME = "axolotl"
VERSIONS = ("067b021",)
LENGTH = "sequence_len: {length}"

LATEST = Release("5.24.0", numbers("5.24.0"))

# Overrides are passed on to transformers, of either major version: read at the commit, not run.
WHERE = "the training config (YAML)"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Keys for the YAML file."""
    asked = Asked.of(checkpoint, repair, extension)
    if repair.name == "dynamic_yarn":
        return refusal(NAME, release, no_dynamic_yarn(NAME, asked))
    block, notes = transformers.chosen(asked, LATEST.number)
    if block is None:
        return refusal(NAME, release, notes[0])
    overrides = _overrides(asked, block)
    notes += [
        "rope_scaling at the top level of the YAML is an error: it belongs under "
        "overrides_of_model_config.",
        (
            "sequence_len above max_position_embeddings only raises that number: nothing is "
            "scaled by it."
        ),
        "rope_theta stands inside the block, for transformers 5, which replaces the whole of "
        "rope_parameters; 4.x calls it unrecognized, and goes on.",
    ]
    if block["rope_type"] == "dynamic":
        notes.append(
            "max_position_embeddings stays the pre-training window, from which dynamic counts; "
            "sequence_len above it raises it and switches the repair off. Train with yarn or ntk."
        )
    return Prescription(
        NAME,
        release.text,
        block={"sequence_len": extension.target_length, "overrides_of_model_config": overrides},
        where=WHERE,
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def _overrides(asked: Asked, block: Block) -> Block:
    stated = asked.window if block["rope_type"] == "dynamic" else asked.reach
    if by_layer_type(asked):
        return version5(asked, block, stated)
    if block["rope_type"] == "default":
        return {STATED: stated, "rope_theta": asked.base, "rope_scaling": parameters(asked, block)}
    placed = version4(asked, block, stated)
    return {**placed, "rope_scaling": parameters(asked, block)}


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What transformers makes of the config; length is sequence_len."""
    found = transformers.read(checkpoint, LATEST, length=length, override=override)
    problems = [each for each in found.problems if each.code != "past_stated_length"]
    longest, stated = found.max_length, checkpoint.stated_length
    if length is not None and stated is not None and length > stated:
        longest = length
        problems.append(
            Problem(
                "length_only",
                f"sequence_len {length} is above max_position_embeddings, {stated:,}",
                "the number is raised and nothing else: positions past the trained length are "
                "unscaled",
            )
        )
    return replace(
        found,
        engine=NAME,
        version=release.text,
        problems=tuple(problems),
        max_length=None if found.fails else longest,
    )
