"""Hugging Face transformers: a block in config.json, in one place up to 4.57, another from 5.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..checkpoint import Checkpoint, from_config
from ..checkpoint.blocks import COMMON, OPTIONS
from ..checkpoint.reading import as_float
from ..repairs import Repair, growth, longrope_amplitude
from ..spectrum import Extension
from .base import Prescription, Reading, Release, Version
from .block import ORIGINAL, Asked, Block, by_layer_type, merged, version4, version5
from .effect import (
    KNOWN_TYPES,
    Stop,
    Taken,
    fails,
    fill_original,
    needed,
    outer_original,
    reading,
    repair_of,
    take4,
    take5,
)
from .words import no_dynamic_yarn, refusal, shared_notes, tokens

NAME = "transformers"
VERSIONS = ("4.43", "4.48", "4.51", "4.55", "4.56", "4.57.6", "5.0", "5.24.0")
LENGTH = '"max_position_embeddings": {length} in config.json'

# Since when a block's keys are honoured. Read in every minor version from 4.43 to 4.57, in 5.0.0,
# 5.6.0 and 5.24.0; 4.51.3, 4.55.4, 4.56.0, 4.57.6 and 5.24.0 were run too.
YARN_ORIGINAL = (4, 51)  # Before, the window is max_position_embeddings, whatever the block says.
YARN_MSCALE = (4, 51)
YARN_TRUNCATE = (4, 55)
YARN_FACTOR = (4, 56)  # From 4.51 until then, the factor is max_position_embeddings / original.
LONGROPE_BY_LENGTH = (4, 48)  # Before, the long list serves every length.
FIVE = (5, 0)

# Model types that read head_dim from the config even where it is null, which stops yarn, dynamic
# and longrope. Run: Mistral in 4.57.6; Mixtral in 4.57.6 and 5.24.0.
NULL_HEAD_DIM = {"mistral": FIVE, "mixtral": (99,)}

WHERE = "config.json: merge these keys into the text model's part of it"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """A block for config.json, and the same as the other major version spells it."""
    asked = Asked.of(checkpoint, repair, extension)
    if asked.repair.name == "dynamic_yarn":
        return refusal(NAME, release, no_dynamic_yarn(NAME, asked))
    block, notes = chosen(asked, release.number)
    if block is None:
        return refusal(NAME, release, notes[0])
    placed = place(asked, block, release.number)
    spellings: dict[str, Mapping[str, Any] | str] = {}
    for versions, number in (("4.55 to 4.57", (4, 57)), ("5.0 and later", (5, 24))):
        other, _ = chosen(asked, number)
        if other is not None and (number >= FIVE) != (release.number >= FIVE):
            spellings[versions] = place(asked, other, number)
    notes += _version_notes(asked, block, release.number)
    return Prescription(
        NAME,
        release.text,
        block=placed,
        where=WHERE,
        spellings=spellings,
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def place(asked: Asked, block: Block, number: Version) -> Block:
    """The block where the version looks for it, with the length that goes with it."""
    if block["rope_type"] == "dynamic" or _window_is_stated(block, number):
        stated = asked.window
    else:
        stated = asked.reach
    if number >= FIVE:
        return version5(asked, block, stated)
    placed = version4(asked, block, stated)
    if asked.checkpoint.model_type == "phi3" and block["rope_type"] == "longrope":
        lists = {key: block[key] for key in ("short_factor", "long_factor")}
        placed["rope_scaling"] = {"type": "longrope", **lists}
    return placed


def _window_is_stated(block: Block, number: Version) -> bool:
    return block["rope_type"] == "yarn" and number < YARN_ORIGINAL


def chosen(asked: Asked, number: Version) -> tuple[Block | None, list[str]]:
    """The block to write, and what to say of the choice; None with the reason if none will do."""
    native = asked.native
    reason = ""
    if native is None:
        reason = f"transformers has no rope_type for {asked.repair.name}" + (
            " with its ramp over turns" if asked.repair.name == "yarn" else ""
        )
    elif asked.checkpoint.model_type == "phi3" and native["rope_type"] not in (
        "longrope",
        "default",
    ):
        reason = f"its Phi-3 takes no rope_type but longrope, not {native['rope_type']}"
    elif native.get("truncate") is False and number < YARN_TRUNCATE:
        reason = (
            f"before 4.55 it does not read truncate: {_shown(number)} rounds the ramp's corners"
        )
    elif native.get("truncate") is False and number >= FIVE and by_layer_type(asked):
        reason = (
            "5.x does not read truncate: false in a block by layer type (seen in 5.24.0: inverse "
            "frequencies are those of truncate: true)"
        )
    elif native.get("mscale") is not None and number < YARN_MSCALE:
        reason = "before 4.51 it does not read mscale and mscale_all_dim in a yarn block"
    block = asked.pairwise if reason else native
    if block is None:
        return None, [
            f"{reason}, and one list of factors cannot say it. Take a repair that serves all "
            "lengths with one spectrum, such as yarn or ntk."
        ]
    if _phi3_cannot(asked, block, number):
        had = longrope_amplitude(asked.reach / asked.window, asked.window)
        return None, [
            "its Phi-3 takes rope_scaling with exactly three keys up to 4.57 (type, short_factor, "
            f"long_factor), so the amplitude is {had:.6f}, from the two lengths, and cannot be "
            f"{asked.amplitude:.6f}. Use transformers 5, which reads attention_factor there."
        ]
    if not reason:
        return block, []
    return block, [
        f"{reason[0].upper()}{reason[1:]}. Written pair by pair instead, as a longrope block whose "
        "two lists are the same: exactly this repair, at every length."
    ]


def _phi3_cannot(asked: Asked, block: Block, number: Version) -> bool:
    if asked.checkpoint.model_type != "phi3" or block["rope_type"] != "longrope" or number >= FIVE:
        return False
    had = longrope_amplitude(asked.reach / asked.window, asked.window)
    return abs(had - asked.amplitude) > 1e-6


def _shown(number: Version) -> str:
    return ".".join(map(str, number))


def _version_notes(asked: Asked, block: Block, number: Version) -> list[str]:
    kind, config, notes = block["rope_type"], asked.config, []
    if number >= FIVE:
        notes.append(
            "5.x reads rope_parameters, with rope_theta inside; 4.x reads rope_theta and "
            "rope_scaling. Never write both: 5.x takes rope_scaling in place of the whole of "
            "rope_parameters, and without rope_theta in it the base falls back to the family's "
            "default, often 10,000."
        )
    elif asked.checkpoint.dialect == "transformers5":
        notes.append(
            "4.x does not read the rope_parameters that stand in this config: remove them, or 5.x "
            "will see both. rope_theta is written out, since 4.x would take the family's default."
        )
    else:
        notes.append("5.x reads rope_parameters, with rope_theta inside: see the other spelling.")
    if kind == "yarn" and number < YARN_ORIGINAL:
        notes.append(
            "Before 4.51 it takes max_position_embeddings as the pre-training window and does not "
            f"read {ORIGINAL}: so that stays at {tokens(asked.window)}. Longer input only gives a "
            "warning."
        )
    elif kind == "yarn":
        notes.append(
            f"max_position_embeddings must be factor * {ORIGINAL}: from 4.51 to 4.55 the factor in "
            "effect is their ratio, whatever factor says."
        )
        if asked.reach != asked.factor * asked.window:
            notes.append(
                f"Rounded to whole tokens, that ratio is {asked.reach / asked.window:.9g} there, "
                f"not {asked.factor:.9g}."
            )
    if kind == "longrope" and asked.repair.name == "longrope":
        notes.append(
            "The list is chosen by the longest position of each call, and the cache is thrown away "
            "when a generation crosses the pre-training window."
            if number >= LONGROPE_BY_LENGTH
            else "Before 4.48 the long list serves every length, short ones too."
        )
    if kind == "dynamic":
        notes.append(
            "The window it counts from is max_position_embeddings, which must stay the "
            "pre-training window: raised, it switches the repair off up to there."
        )
        notes.append(
            "A long call changes what a shorter one after it gets (5.6 and earlier do not even "
            "reset below the window): measure each length in a fresh model."
        )
    if kind == "linear":
        notes.append(
            "max_position_embeddings is raised for this engine; vLLM multiplies it by the factor "
            "again, so do not serve the same file there."
        )
    if kind == "default":
        notes.append(
            "transformers has no static NTK type: the base is changed instead."
            if asked.repair.name == "ntk"
            else "The base is changed; there is no block to add."
        )
        if number >= FIVE:
            notes.append(
                "5.x has no 'default' in ROPE_INIT_FUNCTIONS; models do not look there, other code "
                "may."
            )
    if asked.checkpoint.model_type in NULL_HEAD_DIM and config.get("head_dim") is None:
        notes.append("head_dim is written out: where it is null, some versions stop (TypeError).")
    return notes


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, Any] | None = None,
) -> Reading:
    """What transformers builds from the config."""
    checkpoint = pasted(checkpoint, override)
    number = release.number
    taken = take5(checkpoint) if number >= FIVE else take4(checkpoint)
    group = checkpoint.unbounded[0]
    try:
        repaired = effective(taken, checkpoint, number, group.rotary_dim or 2, length)
    except Stop as stop:
        return fails(NAME, release, taken, str(stop))
    reach = taken.stated
    if taken.kind == "dynamic" and taken.stated is not None:
        reach = round(taken.factor * taken.stated)
    if length is not None and reach is not None and length > reach:
        taken.add(
            "past_stated_length",
            f"{tokens(length)} are asked for, and the config states {tokens(reach)}",
            "transformers warns, at most, and goes on",
        )
    return reading(NAME, release, group, taken, max_length=reach, length=length, repaired=repaired)


def pasted(checkpoint: Checkpoint, override: Mapping[str, Any] | None) -> Checkpoint:
    """The checkpoint with a block merged into its config.json."""
    if override is None:
        return checkpoint
    return from_config(merged(checkpoint.config, override), checkpoint.source)


def effective(
    taken: Taken, checkpoint: Checkpoint, number: Version, rotary_dim: int, length: int | None
) -> tuple[Repair | None, int | None]:
    """The repair in effect and its window; corrects what was taken. Raises Stop where it stops."""
    _check_type(taken, checkpoint, number)
    kind = taken.kind
    _ignore_unknown(taken, number)
    if kind in ("linear", "dynamic", "llama3") or (kind == "yarn" and number < FIVE):
        needed(taken, "factor")
    if kind in ("yarn", "dynamic", "longrope"):
        _check_head_dim(taken, checkpoint, number)
    if kind == "llama3":
        needed(taken, "low_freq_factor", "high_freq_factor")
        if number < FIVE:
            needed(taken, ORIGINAL)
    if number >= FIVE:
        fill_original(taken, NAME, "without a word")
    if kind == "yarn":
        _yarn(taken, checkpoint, number)
    if kind == "longrope":
        return _longrope(taken, checkpoint, number, rotary_dim // 2, length)
    return repair_of(taken, rotary_dim // 2)


def _check_type(taken: Taken, checkpoint: Checkpoint, number: Version) -> None:
    if taken.kind not in KNOWN_TYPES:
        raise Stop(f"KeyError: '{taken.kind}' is no rope_type (a warning, then this, at build)")
    name = taken.block.get("rope_type") or taken.block.get("type")
    if name == "su" and number >= FIVE and taken.block.get(ORIGINAL) is None:
        raise Stop(f"KeyError: missing {ORIGINAL} for 'longrope' (type 'su')")
    if checkpoint.model_type == "phi3" and taken.kind not in ("default", "longrope"):
        if name == "yarn":
            raise Stop("KeyError: 'short_factor' (Phi-3 takes yarn as another name of longrope)")
        raise Stop(f"ValueError: Phi-3 takes no rope_type but longrope, got '{name}'")
    three = {"type", "short_factor", "long_factor"}
    if checkpoint.model_type == "phi3" and number < FIVE and set(taken.block) not in (set(), three):
        raise Stop("ValueError: Phi-3's rope_scaling must have three keys: type and two lists")


def _ignore_unknown(taken: Taken, number: Version) -> None:
    if taken.kind == "dynamic" and taken.block.get(ORIGINAL) is not None:
        taken.add(
            "ignored_key",
            f"{ORIGINAL} is {taken.block.pop(ORIGINAL)}",
            "a dynamic repair counts from max_position_embeddings; the key is "
            + ("unrecognized" if number >= FIVE else "accepted and unused"),
        )
    known = set(OPTIONS.get(taken.kind, ())) | COMMON
    taken.drop(NAME, *[key for key in taken.block if key not in known])
    factor = taken.block.get("factor")
    if isinstance(factor, int) and number < FIVE and taken.kind != "longrope":
        taken.add(
            "factor_not_float",
            f"factor is {factor}, a whole number",
            f"4.x wants a float, {factor}.0: it warns, and some model classes stop",
        )


def _check_head_dim(taken: Taken, checkpoint: Checkpoint, number: Version) -> None:
    until = NULL_HEAD_DIM.get(checkpoint.model_type)
    if until is not None and number < until and checkpoint.config.get("head_dim") is None:
        raise Stop(
            f"TypeError: head_dim is None, which {checkpoint.model_type} does not fill in for "
            f"{taken.kind}; write head_dim: {checkpoint.head_dim}"
        )


def _yarn(taken: Taken, checkpoint: Checkpoint, number: Version) -> None:
    """Corrects a yarn block to what the version makes of it."""
    block, stated = taken.block, taken.stated
    if number < YARN_TRUNCATE:
        taken.drop(NAME, *(["truncate"] if block.get("truncate") is False else []))
    elif number >= FIVE and block.get("truncate") is False and _is_nested(checkpoint):
        taken.drop(NAME, "truncate")
    if number < YARN_MSCALE:
        taken.drop(NAME, "mscale", "mscale_all_dim")
    original = taken.original()
    if number < YARN_ORIGINAL:
        if original is not None and original != stated:
            taken.drop(NAME, ORIGINAL)
    elif original is None:
        fill_original(taken, NAME, "with a warning")
    elif number < YARN_FACTOR and stated is not None and stated / original != taken.factor:
        ratio = stated / original
        taken.add(
            "factor_from_lengths",
            f"factor is {taken.factor:g}, and max_position_embeddings / {ORIGINAL} is {ratio:g}",
            f"up to 4.55 the ratio counts: the factor in effect is {ratio:g}, the amplitude "
            f"{growth(ratio):.6f}. Set max_position_embeddings to {round(taken.factor * original)}",
        )
        block["factor"] = ratio
    if block.get("factor") is None and stated is not None:
        block["factor"] = stated / (taken.original() or stated)
    if number < YARN_ORIGINAL and stated is not None:
        block[ORIGINAL] = stated


def _is_nested(checkpoint: Checkpoint) -> bool:
    for key in ("rope_scaling", "rope_parameters"):
        block = checkpoint.config.get(key)
        if isinstance(block, Mapping) and any(isinstance(each, Mapping) for each in block.values()):
            return True
    return False


def _longrope(
    taken: Taken, checkpoint: Checkpoint, number: Version, pairs: int, length: int | None
) -> tuple[Repair | None, int | None]:
    needed(taken, "short_factor", "long_factor")
    block, stated = taken.block, taken.stated
    window = taken.original()
    if number < FIVE:
        above = outer_original(checkpoint.config)
        if above is None and window is not None and window != stated:
            taken.drop(NAME, ORIGINAL)
        window = stated if above is None else above
        if above is not None and stated is not None:
            block["factor"] = stated / above
    if window is None:
        raise Stop(f"KeyError: '{ORIGINAL}'")
    factor = as_float(block.get("factor")) or (stated or window) / window
    amplitude = as_float(block.get("attention_factor"))
    if amplitude is None:
        amplitude = longrope_amplitude(factor, window)
    options = {key: list(block[key]) for key in ("short_factor", "long_factor")}
    if number < LONGROPE_BY_LENGTH and (stated or 0) > window:
        options["short_factor"] = options["long_factor"]
        if block["short_factor"] != block["long_factor"]:
            taken.add(
                "long_always",
                "short_factor and long_factor differ",
                "before 4.48 the long list serves every length, short ones too",
            )
    return Repair("longrope", {**options, "attention_factor": amplitude}), window
