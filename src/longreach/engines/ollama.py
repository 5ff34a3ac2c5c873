"""Ollama: no rope parameter of its own; what the GGUF file says is what is done."""

from __future__ import annotations

from collections.abc import Mapping

from ..checkpoint.layout import Checkpoint
from ..repairs import Repair
from ..spectrum import Extension
from .base import Prescription, Reading, Release
from .block import Asked
from .effect import reading
from .llama_cpp import cannot, effective, from_file, gguf_keys
from .words import refusal, shared_notes, tokens

NAME = "ollama"
VERSIONS = ("fb30760",)
LENGTH = "PARAMETER num_ctx {length} in the Modelfile"


def express(
    checkpoint: Checkpoint, repair: Repair, extension: Extension, release: Release
) -> Prescription:
    """Metadata for the GGUF file, and the Modelfile's line for the length."""
    asked = Asked.of(checkpoint, repair, extension)
    why = cannot(NAME, asked)
    if why:
        return refusal(NAME, release, why)
    notes = [
        "Ollama has no rope parameter, neither in a Modelfile nor in a request: the repair must be "
        "in the GGUF. Put the block of `--engine transformers==4.57` into config.json and convert "
        "with llama.cpp's convert_hf_to_gguf.py, which writes these keys; then `ollama create`.",
        (
            "num_ctx above the GGUF's context_length is reduced to it: so context_length is among "
            "the keys."
        ),
    ]
    return Prescription(
        NAME,
        release.text,
        block=gguf_keys(asked),
        where="the metadata of the GGUF file",
        flags=f"PARAMETER num_ctx {asked.reach}",
        notes=(*release.notes, *notes, *shared_notes(asked)),
    )


def read(
    checkpoint: Checkpoint,
    release: Release,
    *,
    length: int | None = None,
    override: Mapping[str, object] | None = None,
) -> Reading:
    """What Ollama makes of the GGUF, or of what llama.cpp's converter writes from config.json."""
    checkpoint, group, taken = from_file(NAME, checkpoint, override)
    longest = taken.stated
    if length is not None and longest is not None and length > longest:
        taken.add(
            "length_reduced",
            f"num_ctx {length} is above the file's context_length",
            f"it is reduced to {tokens(longest)}",
        )
    return reading(
        NAME,
        release,
        group,
        taken,
        max_length=longest,
        length=None if length is None or longest is None else min(length, longest),
        repaired=(effective(NAME, group, taken), group.original_length or group.trained_length),
    )
