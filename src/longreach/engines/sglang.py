"""SGLang: overrides of the model's config as JSON, merged key by key."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from ..checkpoint import Checkpoint, from_config
from ..checkpoint.reading import as_float
from ..repairs import Repair, growth, longrope_amplitude
from ..spectrum import Extension
from .base import Prescription, Reading, Release
from .block import ORIGINAL, STATED, Asked, Block, by_layer_type, parameters
from .effect import (
    KNOWN_TYPES,
    Stop,
    Taken,
    fails,
    fill_original,
    needed,
    reading,
    repair_of,
    take5,
    taken_block,
    translated_amplitude,
)
from .vllm import cannot, latent_multiplier, translated_latent
from .words import refusal, shared_notes, static_instead, tokens

NAME = "sglang"
VERSIONS = ("0.5.23",)
LENGTH = "--context-length {length}"

# Values that do nothing, for the keys that a yarn block's rotary embedding reads: factory.py of
# 0.5.23, read. Overrides are merged into the block that is there: what it has and the new one has
# not must be undone.
NEUTRAL = {
    "attn_factor": 1.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 0.0,
    "truncate": True,
}

LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Flags that override the config, the longest context among them."""
    asked = Asked.of(checkpoint, repair, extension)
    why = cannot(NAME, asked)
    if repair.name == "dynamic":
        why = (
            "'dynamic' is a fixed table here, for factor * factor - (factor - 1) at every length, "
            f"short ones too. {static_instead(asked)}."
        )
    if why:
        return refusal(NAME, release, why)
    block, notes = _chosen(asked)
    longest = asked.extension.target_length if block["rope_type"] == "linear" else asked.reach
    words = ["--json-model-override-args", json.dumps(_overrides(asked, block))]
    notes.append(
        f"A --context-length above the derived length is refused (unless {LONGER}): that is "
        "max_position_embeddings, times the factor only where the block has no "
        f"{ORIGINAL} and is not llama3."
    )
    notes.append(
        "Overrides are merged into the config's own block; rope_theta is written out all the same."
    )
    return Prescription(
        NAME,
        release.text,
        flags=shlex.join([*words, "--context-length", str(longest)]),
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def _chosen(asked: Asked) -> tuple[Block, list[str]]:
    native, notes = asked.native, []
    if native is None:
        native = asked.pairwise
        assert native is not None
        notes.append(
            f"SGLang has no rope_type for {asked.repair.name}. Written pair by pair instead, as a "
            "longrope block whose two lists are the same: exactly this repair."
        )
    block = dict(native)
    if block["rope_type"] == "longrope":
        amplitude = block.pop("attention_factor")
        block.update(short_mscale=amplitude, long_mscale=amplitude)
        if asked.repair.name == "longrope":
            notes.append(
                "If any position of a batch is past the pre-training window, the long list serves "
                "the whole batch, short requests too."
            )
    elif asked.latent:
        notes += latent_multiplier("SGLang", asked, block)
    elif block.pop("attention_factor", None) is not None:
        block.pop("mscale", None)
        block.pop("mscale_all_dim", None)
        block["attn_factor"] = asked.amplitude / growth(asked.factor)
        notes.append(
            "It does not read attention_factor: attn_factor, which multiplies YaRN's own "
            "amplitude, is set instead."
        )
    return block, notes


def _overrides(asked: Asked, block: Block) -> Block:
    nested = by_layer_type(asked)
    had = taken_block(asked.config)
    undone = {key: value for key, value in NEUTRAL.items() if key in had and key not in block}
    whole = parameters(asked, {**block, **undone})
    overrides: Block = {"rope_parameters" if nested else "rope_scaling": whole}
    if asked.changes_base and not nested:
        overrides["rope_theta"] = asked.base
    if block["rope_type"] != "linear" or ORIGINAL in had:
        overrides[STATED] = asked.reach
    return overrides


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What SGLang makes of the config; length is --context-length."""
    taken = take5(_merged(checkpoint, override))
    group = checkpoint.unbounded[0]
    try:
        multiplied = ORIGINAL not in taken.block and taken.kind not in ("llama3", "default")
        repaired = _effective(taken, checkpoint, (group.rotary_dim or 2) // 2)
        longest = _accepted(taken, multiplied, length)
    except Stop as stop:
        return fails(NAME, release, taken, str(stop))
    return reading(
        NAME, release, group, taken, max_length=longest, length=length, repaired=repaired
    )


def _merged(checkpoint: Checkpoint, override: Mapping[str, object] | None) -> Checkpoint:
    """Overrides go into the block that is there, key by key, so that its rope_theta stays."""
    if override is None:
        return checkpoint
    config = {**checkpoint.config, **override}
    for key in ("rope_scaling", "rope_parameters"):
        given = override.get(key)
        if isinstance(given, Mapping):
            had = checkpoint.config.get("rope_parameters") or checkpoint.config.get("rope_scaling")
            config.pop("rope_scaling", None)
            config["rope_parameters"] = {**(had or {}), **given}
    if "rope_theta" not in override and isinstance(config.get("rope_parameters"), dict):
        outer = as_float(config.get("rope_theta"))
        if outer is not None:
            config["rope_parameters"].setdefault("rope_theta", outer)
    return from_config(config, checkpoint.source)


def _effective(
    taken: Taken, checkpoint: Checkpoint, pairs: int
) -> tuple[Repair | None, int | None]:
    kind, block = taken.kind, taken.block
    if kind not in KNOWN_TYPES:
        raise Stop(f"ValueError: unknown RoPE scaling type {kind}")
    fill_original(taken, NAME, "with a warning")
    if kind == "dynamic":
        factor = as_float(block.get("alpha")) or taken.factor**2 - (taken.factor - 1)
        taken.add(
            "dynamic_is_static",
            f"rope_type is 'dynamic', factor {taken.factor:g}",
            f"a fixed table, that of NTK with factor {factor:g}, at every length, short ones too",
        )
        return (Repair("ntk", {"factor": factor}) if factor > 1 else None), taken.stated
    if kind == "yarn":
        taken.drop(NAME, "attention_factor")
        if "qk_rope_head_dim" in checkpoint.config:
            taken.drop(NAME, *(["truncate"] if block.get("truncate") is False else []))
            translated_latent(taken)
        else:
            translated_amplitude(taken)
    if kind == "longrope":
        return _longrope(taken)
    return repair_of(taken, pairs)


def _longrope(taken: Taken) -> tuple[Repair, int | None]:
    needed(taken, "short_factor", "long_factor")
    taken.drop(NAME, "attention_factor")
    block, window = taken.block, taken.original()
    amplitude = as_float(block.get("long_mscale"))
    if amplitude is None:
        amplitude = longrope_amplitude((taken.stated or 1) / (window or 1), window or 1)
    if block["short_factor"] != block["long_factor"]:
        taken.add(
            "long_for_batch",
            "short_factor and long_factor differ",
            "if any position of a batch is past the pre-training window, the long list serves "
            "all of it",
        )
    options = {key: list(block[key]) for key in ("short_factor", "long_factor")}
    return Repair("longrope", {**options, "attention_factor": amplitude}), window


def _accepted(taken: Taken, multiplied: bool, length: int | None) -> int | None:
    derived = taken.stated
    if derived is not None and multiplied:
        derived = int(derived * taken.factor)
    if length is not None and derived is not None and length > derived:
        raise Stop(
            f"ValueError: --context-length {length} is longer than the derived {derived} (unless "
            f"{LONGER}); set max_position_embeddings to {length}"
        )
    whole = int(taken.factor * (taken.original() or 0))
    if taken.kind == "yarn" and not multiplied and (derived or 0) < whole:
        taken.add(
            "length_unscaled",
            f"a yarn block with {ORIGINAL}",
            f"the longest context is max_position_embeddings, {tokens(derived or 0)}, unscaled; "
            f"without the key it would be scaled. Set max_position_embeddings to {whole}",
        )
    return length or derived
