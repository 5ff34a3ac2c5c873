"""Engines: how each is told to apply a repair, and what it makes of a config. No torch.

One file per engine. To add one: write the file (see `base.Engine`), and add a line to ENGINES. The
laws in tests/test_engines.py then run over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from ..checkpoint import Checkpoint, Problem
from ..errors import InputError
from ..repairs import Repair
from ..spectrum import Extension
from ..table import nearest
from .base import (
    Engine as Engine,
    Prescription as Prescription,
    Reading as Reading,
    Release,
    release,
)
from .effect import taken_block
from .words import nothing_to_scale, refusal

ENGINES = {
    "transformers": ".transformers",
    "vllm": ".vllm",
    "sglang": ".sglang",
    "llama.cpp": ".llama_cpp",
    "tgi": ".tgi",
    "ollama": ".ollama",
    "axolotl": ".axolotl",
    "llama-factory": ".llama_factory",
}
"""Every engine by the name that users type, and its module, imported when asked for."""

READS_GGUF = ("llama.cpp", "ollama")


def find(spec: str) -> tuple[Engine, Release]:
    """The engine and version of `ENGINE` or `ENGINE==VERSION`.

    Raises InputError for an unknown engine, naming the nearest, or a version that is none.

    >>> engine, version = find("vLLM==0.29.0")
    >>> engine.NAME, version.number
    ('vllm', (0, 29, 0))
    """
    name, equals, version = (part.strip() for part in spec.partition("=="))
    plain = {_plain(known): known for known in ENGINES}
    known = plain.get(_plain(name))
    if known is None:
        raise InputError(f"unknown engine '{name}'; {nearest(name, ENGINES)}")
    if equals and not version:
        raise InputError(f"'{spec}' has no version; write {known}==VERSION, or {known} alone")
    engine = cast(Engine, import_module(ENGINES[known], __name__))
    return engine, release(known, engine.VERSIONS, version or None)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def prescribe(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, engine: str
) -> Prescription:
    """How an engine is told to apply a repair to a model, or why it cannot.

    engine: `ENGINE` or `ENGINE==VERSION`.

    Raises InputError if the repair itself cannot be applied: a wrong option, nothing to extend.
    """
    module, version = find(engine)
    length = module.LENGTH.format(length=extension.target_length)
    why = nothing_to_scale(checkpoint, module.NAME, length)
    if why is not None:
        return refusal(module.NAME, version, why)
    spectrum = checkpoint.unbounded[0].spectrum
    if spectrum is None:
        raise InputError(
            f"{checkpoint.source} does not say which dimensions are turned, nor how fast"
        )
    repair.apply(spectrum, extension)
    if taken_block(checkpoint.config).get("rope_type") == "proportional":
        why = (
            "the model's own rope_type, proportional (Gemma 4), leaves pairs unturned, and no "
            "engine combines it with a repair. Raise the length alone and measure."
        )
        return refusal(module.NAME, version, why)
    found = module.express(checkpoint, repair, extension, version)
    if checkpoint.dialect == "gguf" and module.NAME not in READS_GGUF and found.refused is None:
        note = (
            f"{module.NAME} reads config.json, not the GGUF file that was given: this is for the "
            "model that the file was made from."
        )
        return replace(found, notes=(*found.notes, note))
    return found


def verify(
    checkpoint: Checkpoint,
    engine: str,
    *,
    length: int | None = None,
    override: Mapping[str, Any] | None = None,
) -> Reading:
    """What an engine will make of a model's config as it stands.

    engine: `ENGINE` or `ENGINE==VERSION`. length: tokens that it is asked to accept.
    override: a block to merge first, as the engine merges it.
    """
    module, version = find(engine)
    if checkpoint.dialect == "gguf" and module.NAME not in READS_GGUF:
        why = f"{module.NAME} is read from config.json here, not from a GGUF file"
        return Reading(module.NAME, version.text, fails=why)
    if not checkpoint.unbounded:
        setting = module.LENGTH.format(length=length or checkpoint.stated_length or "N")
        why = nothing_to_scale(checkpoint, module.NAME, setting) or ""
        problem = Problem("nothing_to_scale", why.partition(".")[0], why.partition(". ")[2] or why)
        return Reading(
            module.NAME, version.text, max_length=checkpoint.stated_length, problems=(problem,)
        )
    found = module.read(checkpoint, version, length=length, override=override)
    notes = tuple(Problem("version", note, "") for note in version.notes)
    return replace(found, problems=(*notes, *found.problems))


BLOCK_KEYS = ("rope_scaling", "rope_parameters")


def bare_block(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The overrides that a file holds if it is a rope block and no model's config; else None.

    >>> bare_block({"rope_type": "yarn", "factor": 4.0})
    {'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0}}
    """
    if "model_type" in config or "architectures" in config:
        return None
    if "hidden_size" in config or "num_attention_heads" in config:
        return None
    if any(isinstance(config.get(key), Mapping) for key in BLOCK_KEYS):
        return dict(config)
    if "rope_type" in config or ("type" in config and "factor" in config):
        return {"rope_scaling": dict(config)}
    return None
