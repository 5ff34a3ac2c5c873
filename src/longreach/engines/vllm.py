"""vLLM: overrides of the model's config on the command line, and a length check of its own."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from ..checkpoint import Checkpoint, Problem, from_config
from ..checkpoint.reading import as_float
from ..repairs import Repair, growth, longrope_amplitude, yarn_amplitude
from ..spectrum import Extension, brief
from .base import Prescription, Reading, Release, Version
from .block import ORIGINAL, STATED, Asked, Block, parameters
from .effect import (
    KNOWN_TYPES,
    Stop,
    Taken,
    fails,
    fill_original,
    mscales,
    needed,
    reading,
    repair_of,
    take4,
    take5,
    translated_amplitude,
)
from .words import no_dynamic_yarn, refusal, shared_notes, static_instead, tokens

NAME = "vllm"
VERSIONS = ("0.11.0", "0.11.1", "0.29.0", "0.30.0", "0.33.0")
LENGTH = "--max-model-len {length}"

OVERRIDES = (0, 11, 1)  # From here --hf-overrides; before, --rope-scaling and --rope-theta.
UNSCALED = (0, 30)  # From here YaRN does not lift the derived length, and reads other keys.

# Keys of a yarn block that reach the rotary embedding, besides factor, rope_theta and the original
# length. Read in the sources of 0.29.0 and 0.33.0, run there; truncate came with vllm#27722.
YARN_KEYS: dict[Version, tuple[str, ...]] = {
    (0,): ("attn_factor", "beta_fast", "beta_slow"),
    OVERRIDES: ("attn_factor", "beta_fast", "beta_slow", "truncate"),
    UNSCALED: (
        "attention_factor",
        "mscale",
        "mscale_all_dim",
        "beta_fast",
        "beta_slow",
        "truncate",
    ),
}
UNUSUAL = ("extrapolation_factor", "apply_yarn_scaling")
"""Keys of vLLM's own that reach YaRN's class from 0.11.1 to 0.29, and nothing after."""

LATENT_KEYS = ("mscale", "mscale_all_dim", "attn_factor", "beta_fast", "beta_slow")

LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Flags that override the config, the longest context among them."""
    asked, number = Asked.of(checkpoint, repair, extension), release.number
    why = cannot(NAME, asked) or (no_dynamic(asked, number) if repair.name == "dynamic" else None)
    if why:
        return refusal(NAME, release, why)
    block, notes = chosen(asked, number)
    other = (0, 11, 0) if number >= OVERRIDES else (0, 33)
    label = "0.11.0 and earlier" if number >= OVERRIDES else "0.11.1 and later"
    return Prescription(
        NAME,
        release.text,
        flags=flags(asked, block, number),
        spellings={label: flags(asked, chosen(asked, other)[0], other)},
        notes=(*release.notes, *notes, *_length_notes(asked, block, number), *shared_notes(asked)),
    )


def cannot(engine: str, asked: Asked) -> str | None:
    """Why neither vLLM nor SGLang can express a repair; None if they can."""
    if asked.repair.name == "dynamic_yarn":
        return no_dynamic_yarn(engine, asked)
    plain_yarn = asked.native is not None and asked.native["rope_type"] in ("yarn", "default")
    if asked.latent and asked.repair.name != "dynamic" and not plain_yarn:
        return (
            f"{engine} reads every scaled block of a model with multi-head latent attention as "
            f"YaRN, so {asked.repair.name} cannot be said. Take --repair yarn, or a changed base "
            "(--repair ntk)."
        )
    if asked.latent and asked.option("truncate") is False:
        return (
            f"{engine} does not read truncate for a model with multi-head latent attention: the "
            "corners of the ramp are rounded. Leave the option out, or serve with transformers."
        )
    return None


def no_dynamic(asked: Asked, number: Version) -> str:
    """Dynamic NTK is not dynamic in vLLM."""
    if number >= UNSCALED:
        return (
            "'dynamic' does nothing here on models other than NomicBert: frequencies stay as they "
            "are (seen in 0.33.0), while the derived length is multiplied by the factor, so that "
            f"positions run past the table. {static_instead(asked)}."
        )
    return (
        "'dynamic' is a fixed table here, for factor * factor - (factor - 1) at every length, "
        f"short ones too. {static_instead(asked)}."
    )


def chosen(asked: Asked, number: Version) -> tuple[Block, list[str]]:
    """The block, in vLLM's words, and what to say of the choice."""
    native, notes = asked.native, []
    if native is None or (native.get("truncate") is False and "truncate" not in _keys(number)):
        what = asked.repair.name if native is None else "truncate: false"
        native = asked.pairwise
        assert native is not None
        notes.append(
            f"vLLM has no rope_type for {what}. Written pair by pair instead, as a longrope block "
            "whose two lists are the same: exactly this repair."
        )
    block = dict(native)
    if block["rope_type"] == "longrope":
        amplitude = block.pop("attention_factor")
        block.update(short_mscale=amplitude, long_mscale=amplitude)
        notes.append(
            "vLLM does not read attention_factor in a longrope block: short_mscale and long_mscale "
            "set the amplitude."
        )
        if asked.repair.name == "longrope":
            notes.append(
                "Without --max-model-len the longest context is the pre-training window; above it "
                "the long list serves every request, short ones too."
            )
    elif block["rope_type"] == "yarn" and (number < UNSCALED or asked.latent):
        notes += _multiplier(asked, block)
    if asked.repair.name == "ntk":
        notes.append(
            "Its own rope_type 'ntk' is another formula (the first pair is slowed too, by "
            f"{asked.factor ** (-1 / asked.plain.pairs):.6f}): the base is changed instead."
        )
    return block, notes


def _keys(number: Version) -> tuple[str, ...]:
    return next(keys for since, keys in reversed(YARN_KEYS.items()) if number >= since)


def _multiplier(asked: Asked, block: Block) -> list[str]:
    """Says an amplitude in the one key that counts up to 0.29: a multiplier of YaRN's own."""
    if asked.latent:
        return latent_multiplier(NAME, asked, block)
    for key in ("attention_factor", "mscale", "mscale_all_dim"):
        block.pop(key, None)
    multiplier = asked.amplitude / growth(asked.factor)
    if abs(multiplier - 1) < 1e-9:
        return []
    block["attn_factor"] = multiplier
    return [
        "Up to 0.29 it drops attention_factor, mscale and mscale_all_dim: attn_factor, which "
        "multiplies YaRN's own amplitude, is set instead. From 0.30 on that key is dropped: "
        f"{UNSCALED[1]} and later take attention_factor."
    ]


def latent_multiplier(engine: str, asked: Asked, block: Block) -> list[str]:
    """The same for multi-head latent attention, whose code reads mscale and mscale_all_dim too."""
    block.pop("attention_factor", None)
    multiplier = asked.amplitude / latent_amplitude(asked.factor, block)
    if abs(multiplier - 1) < 1e-9:
        return []
    block["attn_factor"] = multiplier
    return [
        f"{engine} does not read attention_factor for multi-head latent attention: attn_factor, "
        "which multiplies the amplitude, is set instead."
    ]


def latent_amplitude(factor: float, block: Mapping[str, object]) -> float:
    """What that code makes of mscale, 1 unless given, and mscale_all_dim, 0 unless given."""
    mscale, whole = (as_float(block.get(key)) for key in ("mscale", "mscale_all_dim"))
    return growth(factor, 1.0 if mscale is None else mscale) / growth(factor, whole or 0.0)


def multiplies(kind: str, model_type: str, number: Version) -> bool:
    """Whether the derived length is max_position_embeddings times the factor."""
    if kind in ("default", "llama3", "longrope", "su", "mrope") or "gemma3" in model_type:
        return False
    return number < UNSCALED or "yarn" not in kind


def stated_length(asked: Asked, block: Block, number: Version) -> int | None:
    """max_position_embeddings to override with; None where the check multiplies by the factor."""
    kind, model_type = block["rope_type"], asked.checkpoint.model_type
    if kind != "yarn" and multiplies(kind, model_type, number):
        return None
    return asked.reach


def flags(asked: Asked, block: Block, number: Version) -> str:
    """As typed in a shell."""
    stated = stated_length(asked, block, number)
    length = ["--max-model-len", str(_longest(asked, block))]
    if number >= OVERRIDES:
        overrides: Block = {"rope_parameters": parameters(asked, block)}
        if stated is not None:
            overrides[STATED] = stated
        return shlex.join(["--hf-overrides", json.dumps(overrides), *length])
    words = []
    if block["rope_type"] != "default":
        words += ["--rope-scaling", json.dumps(block)]
    if asked.changes_base:
        words += ["--rope-theta", f"{asked.base:.12g}"]
    if stated is not None and block["rope_type"] != "yarn":
        words += ["--hf-overrides", json.dumps({STATED: stated})]
    return shlex.join([*words, *length])


def _longest(asked: Asked, block: Block) -> int:
    return asked.extension.target_length if block["rope_type"] == "linear" else asked.reach


def _length_notes(asked: Asked, block: Block, number: Version) -> list[str]:
    notes, kind = [], block["rope_type"]
    if number >= OVERRIDES:
        notes.append(
            "--hf-overrides replaces the whole of rope_parameters: without rope_theta in it the "
            "base becomes None and the model fails."
        )
        notes.append(
            "Up to 0.11.0 the same is said with --rope-scaling and --rope-theta, flags that Qwen's "
            "documentation still shows."
        )
    else:
        notes.append("From 0.11.1 on --rope-scaling is gone: the same is said with --hf-overrides.")
        notes.append("A block with both type and rope_type, that differ, is refused.")
    if kind == "linear" and stated_length(asked, block, number) is None:
        stated = asked.checkpoint.stated_length or asked.window
        notes.append(
            f"max_position_embeddings stays {stated:,}: it is multiplied by the factor, so the "
            f"longest context allowed is {tokens(int(stated * asked.factor))}."
        )
    elif kind == "yarn":
        notes.append(
            f"max_position_embeddings is set to factor * {ORIGINAL}: from 0.30 on YaRN no longer "
            "lifts the longest context, and the command in vLLM's own 0.33 documentation is "
            "refused by its own check."
        )
    else:
        notes.append(
            "max_position_embeddings is set: a --max-model-len above it is refused (unless "
            f"{LONGER})."
        )
    return notes


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What vLLM makes of the config; length is --max-model-len, override is --hf-overrides."""
    number = release.number
    checkpoint = _overridden(checkpoint, override)
    taken = take5(checkpoint) if number >= OVERRIDES else take4(checkpoint)
    if override is not None and number >= OVERRIDES:
        _lose_base(taken, override)
    group = checkpoint.unbounded[0]
    try:
        if taken.base is None:
            raise Stop(
                "the base, rope_theta, is None: the override replaces the whole block and has "
                "none. Put rope_theta into it"
            )
        repaired = _effective(taken, checkpoint, number, (group.rotary_dim or 2) // 2)
        derived = _derived(taken, checkpoint.model_type, number)
        longest = _accepted(taken, derived, length)
        if taken.kind == "longrope":
            repaired = _longrope(taken, longest)
    except Stop as stop:
        return fails(NAME, release, taken, str(stop))
    return reading(
        NAME, release, group, taken, max_length=longest, length=length, repaired=repaired
    )


def _overridden(checkpoint: Checkpoint, override: Mapping[str, object] | None) -> Checkpoint:
    if override is None:
        return checkpoint
    config = {**checkpoint.config, **override}
    if "rope_parameters" in override:
        config.pop("rope_scaling", None)
    elif "rope_scaling" in override:
        config.pop("rope_parameters", None)
    return from_config(config, checkpoint.source)


def _lose_base(taken: Taken, override: Mapping[str, object]) -> None:
    for key in ("rope_parameters", "rope_scaling"):
        if key in override and "rope_theta" not in override:
            taken.base = as_float(taken.block.get("rope_theta"))


def _effective(
    taken: Taken, checkpoint: Checkpoint, number: Version, pairs: int
) -> tuple[Repair | None, int | None]:
    """The repair in effect, longrope aside."""
    block = taken.block
    both = block.get("type"), block.get("rope_type")
    if all(both) and both[0] != both[1]:
        raise Stop(f"ValueError: type '{both[0]}' and rope_type '{both[1]}' conflict")
    kind = taken.kind
    if kind not in (*KNOWN_TYPES, "ntk"):
        raise Stop(f"ValueError: unknown RoPE scaling type {kind}")
    if kind == "ntk":
        return _own_ntk(taken, pairs)
    if number < OVERRIDES and kind in ("yarn", "llama3", "longrope"):
        needed(taken, ORIGINAL)
    fill_original(taken, NAME, "filled in by transformers")
    if kind == "dynamic":
        return _dynamic(taken, number)
    if kind in ("linear", "yarn", "llama3"):
        needed(taken, "factor")
    if kind == "yarn":
        _yarn(taken, "qk_rope_head_dim" in checkpoint.config, number)
    return repair_of(taken, pairs)


def _yarn(taken: Taken, latent: bool, number: Version) -> None:
    keys = LATENT_KEYS if latent else _keys(number)
    every = ("attention_factor", "attn_factor", "mscale", "mscale_all_dim", "truncate", *UNUSUAL)
    drop = [key for key in every if key not in keys]
    if OVERRIDES <= number < UNSCALED:
        for key in [key for key in UNUSUAL if key in taken.block]:
            drop.remove(key)
            taken.add(
                "engine_option",
                f"{key} is {brief(taken.block[key])}",
                "this version reads it, and no other engine does; what it does to the ramp or the "
                "amplitude is not in the figures here",
            )
            taken.block.pop(key)
    if taken.block.get("truncate") is not False and "truncate" in drop:
        drop.remove("truncate")
    taken.drop(NAME, *drop)
    if latent:
        translated_latent(taken)
    else:
        translated_amplitude(taken)


def translated_latent(taken: Taken) -> None:
    """Puts attention_factor for what the code of multi-head latent attention reads."""
    block, factor = taken.block, taken.factor
    multiplier = as_float(block.pop("attn_factor", None))
    amplitude = latent_amplitude(factor, block) * (1.0 if multiplier is None else multiplier)
    if abs(amplitude - yarn_amplitude(factor, None, *mscales(block))) > 1e-9:
        block["attention_factor"] = amplitude


def _own_ntk(taken: Taken, pairs: int) -> tuple[Repair, int | None]:
    """Its rope_type ntk, which is another formula than NTK-aware scaling."""
    needed(taken, "factor")
    slowed = [taken.factor ** ((i + 1) / pairs) for i in range(pairs)]
    taken.add(
        "another_ntk",
        f"rope_type is 'ntk', factor {taken.factor:g}",
        f"vLLM's own formula: the first pair is slowed too, by {1 / slowed[0]:.6f}. transformers "
        "does not know the type",
    )
    lists = {"short_factor": slowed, "long_factor": slowed, "attention_factor": 1.0}
    return Repair("longrope", lists), taken.stated


def _dynamic(taken: Taken, number: Version) -> tuple[Repair | None, int | None]:
    alpha = as_float(taken.block.get("alpha"))
    if alpha is not None:
        return (Repair("ntk", {"factor": alpha}) if alpha > 1 else None), taken.stated
    needed(taken, "factor")
    factor, stated = taken.factor, taken.stated
    if number >= UNSCALED and taken.block.get("max_trained_positions") is None:
        taken.problems.append(
            Problem(
                "dynamic_noop",
                f"rope_type is 'dynamic', factor {factor:g}",
                "frequencies do not change (seen in 0.33.0), the table has "
                f"{stated if stated is None else f'{stated:,}'} rows, and the longest context is "
                "multiplied: later positions run past the table. Change rope_theta, or use yarn",
            )
        )
        return None, stated
    static = factor * factor - (factor - 1)
    taken.add(
        "dynamic_is_static",
        f"rope_type is 'dynamic', factor {factor:g}",
        f"a fixed table, that of NTK with factor {static:g}, at every length, short ones too",
    )
    return (Repair("ntk", {"factor": static}) if static > 1 else None), stated


def _derived(taken: Taken, model_type: str, number: Version) -> int | None:
    """The longest context that the check derives from the config."""
    raw = taken.block.get("rope_type") or taken.block.get("type") or "default"
    length = taken.stated
    if length is None or not multiplies(raw, model_type, number):
        return length
    if raw == "yarn":
        length = taken.original() or length
    return int(length * taken.factor)


def _accepted(taken: Taken, derived: int | None, length: int | None) -> int | None:
    if length is not None and derived is not None and length > derived:
        raise Stop(
            f"ValueError: --max-model-len {length} is greater than the derived {derived} (unless "
            f"{LONGER}); set max_position_embeddings to {length} beside a yarn block"
        )
    if length is None and taken.kind == "longrope":
        return taken.original() or derived
    return length or derived


def _longrope(taken: Taken, longest: int | None) -> tuple[Repair, int | None]:
    needed(taken, "short_factor", "long_factor")
    block, window = taken.block, taken.original()
    taken.drop(NAME, "attention_factor")
    amplitude = longrope_amplitude((taken.stated or 1) / (window or 1), window or 1)
    long = longest is not None and window is not None and longest > window
    amplitude = as_float(block.get("long_mscale" if long else "short_mscale")) or amplitude
    if long and block["short_factor"] != block["long_factor"]:
        taken.add(
            "long_always",
            f"the longest context is above {ORIGINAL}",
            "the long list serves every request, short ones too",
        )
    options = {key: list(block[key]) for key in ("short_factor", "long_factor")}
    chosen_list = "long_factor" if long else "short_factor"
    options["short_factor"] = options["long_factor"] = options[chosen_list]
    return Repair("longrope", {**options, "attention_factor": amplitude}), window
