"""LLaMA-Factory: the name of a repair and a length; the factor is what it makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from ..checkpoint.layout import Checkpoint, Problem
from ..repairs import Repair
from ..spectrum import Extension
from . import transformers
from .base import Prescription, Reading, Release, numbers
from .block import STATED, Asked
from .words import no_dynamic_yarn, refusal, shared_notes, static_instead

NAME = "llama-factory"
VERSIONS = ("0.9.5",)
LENGTH = "cutoff_len: {length}"

# The options that each choice has, fixed. Run with transformers 4.57.6.
FIXED = {
    "linear": {},
    "yarn": {},
    "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
}
FOUR = Release("4.57.6", numbers("4.57.6"))

WHERE = "the training config (YAML); config.json must hold what the notes say"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Keys for the YAML file, or for the command line as --key value."""
    asked = Asked.of(checkpoint, repair, extension)
    why = _cannot(asked)
    if why:
        return refusal(NAME, release, why)
    factor = int(asked.factor) if asked.factor.is_integer() else ceil(asked.factor)
    cutoff = factor * asked.window if repair.options.get("factor") else extension.target_length
    notes = [
        (
            f"The factor is cutoff_len over the window, rounded up: {factor}. In inference it is "
            "always 2.0."
        ),
        "It does nothing where cutoff_len is not above the window.",
        "Use it with transformers below 5.6: from 5.6 on every choice of rope_scaling stops "
        "(max_position_embeddings becomes a float), though 5.6.0 is in its declared range; with "
        "any 5.x the block is set without rope_theta, which is lost. The block of `--engine "
        "transformers` in config.json has none of this.",
    ]
    if asked.factor != factor:
        notes.append(
            f"Not {asked.factor:g}, as the lengths would have it: it rounds up to {factor}."
        )
    stated = checkpoint.stated_length
    if stated != asked.window:
        notes.append(
            f"First set max_position_embeddings in config.json to {asked.window}: that is the "
            f"window it counts from, unless a block has the original length, and it is {stated} "
            "now."
        )
    return Prescription(
        NAME,
        release.text,
        block={"rope_scaling": asked.repair.name, "cutoff_len": cutoff},
        where=WHERE,
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def _cannot(asked: Asked) -> str | None:
    name = asked.repair.name
    if name == "dynamic_yarn":
        return no_dynamic_yarn(NAME, asked)
    if name == "dynamic":
        return (
            "its 'dynamic' raises max_position_embeddings to the new length, which is where "
            "transformers begins to scale: frequencies stay unchanged up to there, and plain "
            f"extrapolation is trained. {static_instead(asked)}, with the block of `--engine "
            "transformers` in config.json."
        )
    if name not in FIXED:
        return (
            f"rope_scaling takes linear, dynamic, yarn and llama3, not {name}. Put the block of "
            "`--engine transformers` into the model's config.json, and leave rope_scaling out."
        )
    given = {key: value for key, value in asked.repair.options.items() if value is not None}
    factor = given.pop("factor", None)
    for key, value in given.items():
        if FIXED[name].get(key) != value:
            return (
                f"rope_scaling takes a name and no options, so {key}={value} cannot be said. Put "
                "the block of `--engine transformers` into the model's config.json, and leave it "
                "out."
            )
    if factor is not None and not float(factor).is_integer():
        return (
            f"the factor is rounded up to a whole number: {ceil(factor)}, not {factor:g}. Put the "
            "block of `--engine transformers` into the model's config.json, and leave rope_scaling "
            "out."
        )
    return None


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What it makes of the config without rope_scaling, which is what transformers 4.57 does."""
    if override is not None and isinstance(override.get("rope_scaling"), str):
        return _chosen(checkpoint, release, str(override["rope_scaling"]), length)
    found = transformers.read(checkpoint, FOUR, length=length, override=override)
    return replace(found, engine=NAME, version=release.text)


def _chosen(checkpoint: Checkpoint, release: Release, choice: str, length: int | None) -> Reading:
    """What `rope_scaling: choice` with `cutoff_len: length` makes of the config."""
    stated = checkpoint.stated_length or 0
    group = checkpoint.unbounded[0]
    window = stated
    if group.repair is not None and group.original_length:
        window = group.original_length
    if length is None or length <= window:
        found = transformers.read(checkpoint, FOUR)
        skipped = Problem(
            "skipped", f"cutoff_len is not above the window, {window:,}", "nothing is scaled"
        )
        return replace(
            found, engine=NAME, version=release.text, problems=(*found.problems, skipped)
        )
    factor = float(ceil(length / window))
    block = {"rope_type": choice, "factor": factor}
    if choice in ("yarn", "llama3"):
        block["original_max_position_embeddings"] = window
    if choice == "llama3":
        block.update(low_freq_factor=1.0, high_freq_factor=4.0)
    reach = int(window * factor)
    found = transformers.read(
        checkpoint, FOUR, length=length, override={STATED: reach, "rope_scaling": block}
    )
    problems = list(found.problems)
    if factor != length / window:
        problems.append(
            Problem(
                "factor_rounded",
                f"cutoff_len / window is {length / window:g}",
                f"rounded up: the factor is {factor:g}",
            )
        )
    if choice == "dynamic":
        problems.append(
            Problem(
                "dynamic_noop",
                f"max_position_embeddings is raised to {reach:,}",
                "dynamic scaling begins there: frequencies are unchanged up to it",
            )
        )
    return replace(found, engine=NAME, version=release.text, problems=tuple(problems))
