"""llama.cpp: flags for linear, YaRN and the base; LongRoPE and Llama 3 are tensors in the GGUF."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..checkpoint.layout import Checkpoint, LayerGroup
from ..repairs import Repair, growth
from ..spectrum import Extension
from .base import Prescription, Reading, Release
from .block import Asked
from .effect import Taken, reading
from .transformers import pasted
from .words import no_dynamic_yarn, refusal, shared_notes, static_instead

NAME = "llama.cpp"
VERSIONS = ("master",)
LENGTH = "-c {length}"

# The architecture's name in GGUF, where it is not the model_type. gguf 0.19.0, read.
ARCHITECTURES = {
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "gemma3_text": "gemma3",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "kimi_k2": "deepseek2",
    "phi": "phi2",
}


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Flags for llama-cli and llama-server."""
    asked = Asked.of(checkpoint, repair, extension)
    why = cannot(NAME, asked) or _has_tensor(asked)
    if why:
        return refusal(NAME, release, why)
    words, notes = _words(asked)
    if asked.group.repair is not None:
        notes.append("Flags are taken before what the GGUF says.")
    return Prescription(
        NAME,
        release.text,
        flags=shlex.join(["-c", str(asked.reach), *words]),
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def cannot(engine: str, asked: Asked) -> str | None:
    """Why neither flags nor plain metadata of a GGUF file express the repair; None if they do."""
    name, option = asked.repair.name, asked.option
    if name == "dynamic_yarn":
        return no_dynamic_yarn(engine, asked)
    if name == "dynamic":
        return f"{engine} has no dynamic NTK. {static_instead(asked)}."
    if name in ("longrope", "llama3"):
        tensor = "rope_factors_long and rope_factors_short" if name == "longrope" else "rope_freqs"
        chosen = (
            " They are chosen by the context that is allocated (-c), not by the prompt's length."
            if name == "longrope"
            else ""
        )
        return (
            f"{engine} has {name} as tensors in the GGUF file ({tensor}), not as a setting. Put "
            "the block of `--engine transformers==4.57` into config.json and convert with "
            f"convert_hf_to_gguf.py, which writes them; or take --repair yarn.{chosen}"
        )
    if name == "ntk_by_parts" or option("ramp", "index") == "turns":
        return (
            f"{engine} has no ramp over turns. Take --repair yarn, whose ramp goes over the pairs' "
            "indices."
        )
    if option("truncate") is False:
        return (
            f"{engine} always rounds the corners of YaRN's ramp outward (floor and ceil); "
            "truncate=false cannot be said. Leave the option out, or serve with vllm or "
            "transformers."
        )
    return None


def _has_tensor(asked: Asked) -> str | None:
    """Why flags will not do for a model whose present repair is a tensor; None if it is not."""
    had = asked.group.repair
    if had is None or had.name not in ("llama3", "longrope"):
        return None
    return (
        f"the GGUF holds the model's present repair, {had.name}, as a tensor, which no flag takes "
        "away: both would be applied. Put the block of `--engine transformers==4.57` into "
        "config.json and convert with convert_hf_to_gguf.py."
    )


def _words(asked: Asked) -> tuple[list[str], list[str]]:
    if asked.changes_base:
        return ["--rope-freq-base", f"{asked.base:.8g}"], [
            "The base is written out: --rope-freq-base takes the base itself, not a factor."
        ]
    scale = [
        "--rope-scaling",
        "yarn" if asked.repair.name == "yarn" else "linear",
        "--rope-scale",
        f"{asked.factor:.8g}",
    ]
    notes = [
        "--rope-scale is the factor; --rope-freq-scale is its inverse, "
        f"{1 / asked.factor:.6g}. Giving the factor there compresses the window instead."
    ]
    if asked.repair.name == "linear":
        notes.append(
            "Without --rope-scaling the type is linear, unless the GGUF says otherwise; "
            "`--rope-scaling none` forces a scale of 1."
        )
        return scale, notes
    words = [*scale, "--yarn-orig-ctx", str(asked.window)]
    notes.append(
        "Without --yarn-orig-ctx the window is the GGUF's original_context_length, else its whole "
        "context_length, which may be the length after an extension."
    )
    for key in ("beta_fast", "beta_slow"):
        if asked.option(key) is not None:
            words += [f"--yarn-{key.replace('_', '-')}", f"{asked.option(key):.8g}"]
    return words + _amplitude(asked, notes), notes


def _amplitude(asked: Asked, notes: list[str]) -> list[str]:
    """What it takes for an amplitude that is not YaRN's own; adds what to know of it."""
    ratio = asked.amplitude / growth(asked.factor)
    notes.append(
        "Do not add --yarn-attn-factor: it is overwritten while YaRN is on, and is not "
        "transformers' attention_factor. The amplitude is 1 + 0.1 ln(scale), "
        f"{growth(asked.factor):.6f}, times the GGUF key rope.scaling.attn_factor."
    )
    if asked.latent:
        notes.append(
            "DeepSeek's GGUF holds rope.scaling.yarn_log_multiplier, 0.1 * mscale_all_dim, for its "
            "softmax and amplitude; the converter writes it from config.json."
        )
        return []
    if abs(ratio - 1) < 1e-9:
        return []
    key = f"{architecture(asked.checkpoint)}.rope.scaling.attn_factor"
    notes.append(
        f"An amplitude of {asked.amplitude:.6f} needs {key} = {ratio:.12g}: overridden here, as "
        "read in the source (not run). The converter writes attention_factor to yarn_attn_factor, "
        "which is overwritten."
    )
    return ["--override-kv", f"{key}=float:{ratio:.12g}"]


def architecture(checkpoint: Checkpoint) -> str:
    """The model's architecture, as GGUF names it: the first part of its keys."""
    named = checkpoint.config.get("general.architecture")
    if isinstance(named, str):
        return named
    return ARCHITECTURES.get(checkpoint.model_type, checkpoint.model_type)


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What llama.cpp makes of the GGUF, or of what its converter writes from config.json."""
    checkpoint, group, taken = from_file(NAME, checkpoint, override)
    if length is not None and taken.stated is not None and length > taken.stated:
        taken.add(
            "past_stated_length",
            f"-c {length} is above the file's context_length, {taken.stated:,}",
            "llama.cpp warns and goes on, unscaled unless flags say otherwise",
        )
    return reading(
        NAME,
        release,
        group,
        taken,
        max_length=taken.stated,
        length=length,
        repaired=(effective(NAME, group, taken), group.original_length or group.trained_length),
    )


def from_file(
    engine: str, checkpoint: Checkpoint, override: Mapping[str, object] | None
) -> tuple[Checkpoint, LayerGroup, Taken]:
    """What stands in the GGUF, or would after conversion."""
    checkpoint = pasted(checkpoint, override)
    group = checkpoint.unbounded[0]
    taken = Taken(group.base, {}, checkpoint.stated_length)
    if checkpoint.dialect != "gguf":
        taken.add(
            "converted",
            "this is a config.json",
            f"{engine} reads GGUF: said here is what comes out of convert_hf_to_gguf.py",
        )
    return checkpoint, group, taken


def effective(engine: str, group: LayerGroup, taken: Taken) -> Repair | None:
    """The file's repair as it is applied; notes what is not."""
    repair = group.repair
    if repair is None or repair.name in ("linear", "llama3", "longrope", "ntk", "base"):
        if repair is not None and repair.name == "longrope":
            taken.add(
                "lists_by_context",
                "the file has two lists of factors",
                "the long one is taken when the allocated context is above the original length, "
                "whatever the prompt's",
            )
        return repair
    if repair.name != "yarn":
        taken.add(
            "no_such_type",
            f"the repair is {repair}",
            f"{engine} has no such type: positions are not scaled",
        )
        return None
    options = dict(repair.options)
    if options.pop("truncate", True) is False:
        taken.add(
            "ignored_key",
            "truncate is false",
            f"{engine} always rounds the ramp's corners outward",
        )
    if options.pop("attention_factor", None) is not None:
        taken.add(
            "ignored_key",
            f"attention_factor is {repair.options['attention_factor']}",
            "the converter writes it to yarn_attn_factor, which is overwritten while YaRN is on: "
            f"the amplitude is {growth(options['factor']):.6f}. rope.scaling.attn_factor would "
            "multiply",
        )
    return Repair("yarn", options)


def gguf_keys(asked: Asked) -> dict[str, object]:
    """The metadata that says the repair inside a GGUF file."""
    arch = architecture(asked.checkpoint)
    keys: dict[str, object] = {f"{arch}.context_length": asked.reach}
    if asked.changes_base:
        return {**keys, f"{arch}.rope.freq_base": asked.base}
    keys[f"{arch}.rope.scaling.type"] = asked.repair.name
    keys[f"{arch}.rope.scaling.factor"] = asked.factor
    if asked.repair.name == "yarn":
        keys[f"{arch}.rope.scaling.original_context_length"] = asked.window
        for key in ("beta_fast", "beta_slow"):
            if asked.option(key) is not None:
                keys[f"{arch}.rope.scaling.yarn_{key}"] = float(asked.option(key))
        ratio = asked.amplitude / growth(asked.factor)
        if abs(ratio - 1) > 1e-9 and not asked.latent:
            keys[f"{arch}.rope.scaling.attn_factor"] = ratio
    return keys
