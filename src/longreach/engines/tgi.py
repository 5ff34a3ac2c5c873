"""Text Generation Inference: two flags, of which one works for one repair, and config.json."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..checkpoint.layout import Checkpoint
from ..checkpoint.reading import as_float
from ..repairs import Repair, growth, longrope_amplitude
from ..spectrum import Extension
from .base import Prescription, Reading, Release
from .block import ORIGINAL, Asked, Block, version4
from .effect import Stop, Taken, fails, needed, outer_original, reading, repair_of, take4
from .transformers import pasted
from .words import no_dynamic_yarn, refusal, shared_notes, tokens

NAME = "tgi"
VERSIONS = ("db931fcf",)
LENGTH = "--max-total-tokens {length}"

# What yarn does not read. rotary.py at the commit; linear and yarn were run, the rest read.
YARN_FIXED = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}

WHERE = "config.json: merge these keys"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Flags for dynamic; a block for config.json for the rest, as far as it is read."""
    asked = Asked.of(checkpoint, repair, extension)
    why = _cannot(asked)
    if why:
        return refusal(NAME, release, why)
    reach = asked.extension.target_length
    lengths = ["--max-input-tokens", str(reach - 1), "--max-total-tokens", str(reach)]
    notes = [
        "--rope-scaling and the environment (ROPE_SCALING, ROPE_FACTOR) override config.json: "
        "leave them out."
    ]
    if repair.name == "dynamic":
        factor = asked.option("factor", 1.0)
        words = ["--rope-scaling", "dynamic", "--rope-factor", f"{factor:g}"]
        notes = [
            (
                "--rope-factor is 1.0 unless given, and alone it means linear, which does nothing "
                "here."
            ),
            "The base grows with the longest text seen and never shrinks again: after one long "
            "request, short ones get the long base until a restart.",
            "The window it counts from is max_position_embeddings, which must be the pre-training "
            f"window, {tokens(asked.window)}.",
        ]
        return Prescription(
            NAME,
            release.text,
            flags=shlex.join([*words, *lengths]),
            notes=(*release.notes, *notes, *shared_notes(asked)),
        )
    assert asked.native is not None
    if asked.native["rope_type"] == "yarn":
        notes.append(
            "yarn is no value of --rope-scaling, and counts in config.json only. Its "
            f"{ORIGINAL} is needed: KeyError without."
        )
        notes.append(
            "Its yarn has beta_fast 32 and beta_slow 1 fixed, and reads neither attention_factor "
            "nor truncate."
        )
    return Prescription(
        NAME,
        release.text,
        block=version4(asked, _written(asked), asked.reach),
        where=WHERE,
        flags=shlex.join(lengths),
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def _written(asked: Asked) -> Block:
    block = dict(asked.native or {})
    if block["rope_type"] == "longrope":
        block.pop("attention_factor")  # Not read: the amplitude follows from the two lengths.
    return block


def _cannot(asked: Asked) -> str | None:
    name, native = asked.repair.name, asked.native
    if name == "dynamic_yarn":
        return no_dynamic_yarn(NAME, asked)
    if name == "linear":
        return (
            "linear has no effect at db931fcf, neither by --rope-scaling linear nor in "
            "config.json: the factor is never stored, and positions stay as they are. Put yarn "
            "into config.json (--repair yarn), or a larger rope_theta (--repair ntk)."
        )
    if native is None:
        return (
            f"it has no rope_type for {name}{' over turns' if name == 'yarn' else ''}. Put yarn "
            "into config.json (--repair yarn), whose ramp goes over the pairs' indices, or a "
            "larger rope_theta (--repair ntk)."
        )
    if name == "yarn":
        return _yarn_cannot(asked)
    if name == "longrope":
        lists = native["short_factor"] == native["long_factor"]
        own = longrope_amplitude(asked.reach / asked.window, asked.window)
        if not lists:
            return (
                "its longrope mixes both lists by position inside one sequence: distances across "
                f"the seam at {tokens(asked.window)} are wrong. Serve it with vllm or "
                "transformers, or take --repair yarn here."
            )
        if abs(own - asked.amplitude) > 1e-6:
            return (
                f"its longrope takes the amplitude from the two lengths, {own:.6f}, and cannot be "
                f"told {asked.amplitude:.6f}. Serve it with vllm or transformers."
            )
    return None


def _yarn_cannot(asked: Asked) -> str | None:
    for key, fixed in YARN_FIXED.items():
        given = asked.option(key, fixed)
        if given != fixed:
            return (
                f"its yarn has {key} {fixed!s} fixed and does not read {given!s}. Leave the option "
                "out, or serve with vllm or transformers."
            )
    mscale, whole = asked.option("mscale", 1.0), asked.option("mscale_all_dim", 0.0)
    own = _amplitude(asked.factor, mscale, whole)
    if abs(own - asked.amplitude) > 1e-6:
        return (
            "its yarn does not read attention_factor, nor mscale as transformers does: the "
            f"amplitude would be {own:.6f}, not {asked.amplitude:.6f}. Leave the option out, or "
            "serve with vllm or transformers."
        )
    return None


def _amplitude(factor: float, mscale: float, whole: float) -> float:
    """growth(mscale) over growth(mscale_all_dim), which is 1 at 0; mscale is 1 unless given."""
    return growth(factor, mscale) / growth(factor, whole)


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What TGI makes of the config."""
    checkpoint = pasted(checkpoint, override)
    taken = take4(checkpoint)
    group = checkpoint.unbounded[0]
    try:
        repaired = _effective(taken, checkpoint, (group.rotary_dim or 2) // 2)
    except Stop as stop:
        return fails(NAME, release, taken, str(stop))
    return reading(
        NAME, release, group, taken, max_length=taken.stated, length=length, repaired=repaired
    )


def _effective(
    taken: Taken, checkpoint: Checkpoint, pairs: int
) -> tuple[Repair | None, int | None]:
    kind, block = taken.kind, taken.block
    if kind == "linear":
        taken.add(
            "linear_noop",
            f"rope_type is 'linear', factor {taken.factor:g}",
            "nothing is scaled at db931fcf: the factor is never stored. Use yarn in config.json",
        )
        return None, taken.stated
    if kind in ("dynamic", "yarn"):
        needed(taken, "factor")
    if kind == "llama3":
        needed(taken, "factor", "low_freq_factor", "high_freq_factor", ORIGINAL)
    if kind == "yarn":
        needed(taken, ORIGINAL)
        taken.drop(NAME, "attention_factor", "beta_fast", "beta_slow", "truncate")
        mscale = as_float(block.pop("mscale", None))
        whole = as_float(block.pop("mscale_all_dim", None))
        block["attention_factor"] = _amplitude(
            taken.factor, 1.0 if mscale is None else mscale, whole or 0.0
        )
    if kind == "longrope":
        return _longrope(taken, checkpoint)
    if kind not in ("default", "dynamic", "yarn", "llama3", "mrope"):
        raise Stop("KeyError: 'type'" if "type" not in block else f"NotImplementedError: {kind}")
    return repair_of(taken, pairs)


def _longrope(taken: Taken, checkpoint: Checkpoint) -> tuple[Repair, int | None]:
    needed(taken, "short_factor", "long_factor")
    window, block = outer_original(checkpoint.config), taken.block
    if window is None:
        raise Stop(f"AttributeError: the config has no {ORIGINAL} beside the block")
    taken.drop(NAME, "attention_factor")
    if block["short_factor"] != block["long_factor"]:
        taken.add(
            "lists_mixed",
            "short_factor and long_factor differ",
            f"positions below {window:,} use one, the rest the other, inside one sequence: "
            "distances across the seam are wrong",
        )
    options = {key: list(block[key]) for key in ("short_factor", "long_factor")}
    amplitude = longrope_amplitude((taken.stated or window) / window, window)
    return Repair("longrope", {**options, "attention_factor": amplitude}), window
