"""A model configured for a repair as a user would do it: the block in its config, the same weights.

Unlike a repair that is worn, this is what `transformers` itself makes of the config; so what is
trained is what the written folder will be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..engines import prescribe
from ..errors import InputError, RunError
from ..repairs import Repair
from ..spectrum import Extension, Spectrum
from .adapters import Adapter, Rotary
from .loading import Pretrained, library
from .wear import BY_LENGTH, Worn, read_back, spectra

STATED = "max_position_embeddings"

CLOSE = 1e-5
"""Relative difference between what is asked for and what is read back: some steps of float32."""


@dataclass(frozen=True)
class Rescaled:
    """A model that `transformers` built from a config with a repair in it.

    block: what was merged into the config. notes: what goes with it, in sentences. proof: what its
    layers turn by at the target length, as read back from it.
    """

    adapter: Adapter
    block: Mapping[str, Any]
    notes: tuple[str, ...]
    proof: tuple[Worn, ...]


def rescaled(
    loaded: Pretrained, repair: Repair | None, target_length: int, dtype: torch.dtype
) -> Rescaled:
    """The model of a config that asks for the repair, with the weights of the one that is loaded.

    repair: None raises the length that the config states, and changes nothing else. dtype: of its
        weights. The loaded model's memory may go into it: it is used up.

    Raises InputError if `transformers` cannot apply the repair, or there is nothing to be had;
    RunError if it does not do what its config asks for.
    """
    block, notes = (
        raised(loaded, target_length) if repair is None else block_of(loaded, repair, target_length)
    )
    asked = wanted(loaded, repair, target_length)
    model = rebuilt(loaded, block, dtype)
    adapter = type(loaded.adapter)(model)
    return Rescaled(adapter, block, notes, proven(adapter, asked, repair, target_length))


def block_of(
    loaded: Pretrained, repair: Repair, target_length: int
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """What to merge into the config for a repair, and what to know of it."""
    extension = Extension(loaded.trained_length, target_length)
    engine = f"transformers=={library().__version__}"
    found = prescribe(loaded.checkpoint, repair, extension, engine)
    if found.refused is not None or found.block is None:
        raise InputError(
            f"transformers cannot apply {repair} to {loaded.name}, so no folder that it loads "
            f"could carry it: {found.refused}"
        )
    return found.block, found.notes


def raised(loaded: Pretrained, target_length: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The stated length alone, where stating more changes nothing else."""
    had = [group.repair for group in loaded.checkpoint.rope if group.repair is not None]
    counting = [each.name for each in had if each.name in BY_LENGTH]
    if counting:
        return {}, (
            f"The stated length is left as it is: the {counting[0]} in the config counts from it.",
        )
    config = source_config(loaded)
    keys = [key for key in (loaded.checkpoint.stated_key, STATED) if key in config]
    return ({keys[0]: target_length} if keys else {}), ()


def source_config(loaded: Pretrained) -> dict[str, Any]:
    """config.json as it stands; of a GGUF file, what `transformers` made of it."""
    if loaded.checkpoint.dialect != "gguf":
        found = dict(loaded.checkpoint.config)
        if found.get("quantization_config"):
            raise InputError(
                f"the weights of {loaded.name} are quantized (quantization_config in its config), "
                "and cannot be trained; take the model that they were made from"
            )
        return found
    made: dict[str, Any] = loaded.model.config.to_dict()
    made.pop("quantization_config", None)  # The weights were unpacked.
    return made


Asked = list[tuple[Rotary, Spectrum]]
"""What turns some layers of the loaded model, and the spectrum that those layers should have."""


def wanted(loaded: Pretrained, repair: Repair | None, target_length: int) -> Asked:
    """What modules should turn by: the repair's, or what they turn by already."""
    if repair is not None:
        plan = spectra(loaded.adapter, loaded.checkpoint, repair, target_length)
        return [(rotary, spectrum) for rotary, _, spectrum in plan]
    found = []
    for rotary in loaded.adapter.rotaries:
        groups = [
            group
            for group in loaded.checkpoint.rope
            if group.layers is None or set(group.layers) & {*rotary.layers}
        ]
        used = groups[0].used(target_length) if groups else None
        if used is not None:
            # Of a GGUF file, that may be otherwise than the file says.
            speeds, amplitude = read_back(rotary, used, target_length)
            found.append((rotary, Spectrum(speeds, amplitude=amplitude)))
    return found


def rebuilt(loaded: Pretrained, block: Mapping[str, Any], dtype: torch.dtype) -> Any:
    """A fresh model of the config with the block in it, and the loaded one's weights."""
    transformers = library()
    old = loaded.model
    config = type(old.config).from_dict({**source_config(loaded), **block})
    try:
        with unfilled():
            model = getattr(transformers, loaded.adapter.auto).from_config(config, dtype=dtype)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"transformers {transformers.__version__} does not take the config of {loaded.name} "
            f"with {dict(block)}: {error}"
        ) from error
    weights = {name: value.to(dtype) for name, value in old.state_dict().items()}
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    head = old.get_output_embeddings().weight
    if head is not old.get_input_embeddings().weight:
        # `transformers` has every config of T5 say that both ends are tied, and has just tied them.
        model.get_output_embeddings().weight = nn.Parameter(head.detach().to(dtype))
        model.config.tie_word_embeddings = False
    with contextlib.suppress(ValueError):  # Some are released with settings that cannot be saved.
        old.generation_config.validate(strict=True)
        model.generation_config = old.generation_config
    return model


def unfilled() -> contextlib.AbstractContextManager[None]:
    """Weights are about to be loaded: that they are not drawn first saves minutes on large models.

    Only where `transformers` offers it.
    """
    try:
        from transformers.initialization import no_init_weights
    except ImportError:
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[None] = no_init_weights()
    return found


def proven(
    adapter: Adapter, asked: Asked, repair: Repair | None, target_length: int
) -> tuple[Worn, ...]:
    """What the model turns by, read back. Raises RunError if that is not what was asked for."""
    found = []
    for before, spectrum in asked:
        rotary = next(
            each
            for each in adapter.rotaries
            if (each.key, each.layers) == (before.key, before.layers)
        )
        speeds, amplitude = read_back(rotary, spectrum, target_length)
        off = max(
            float(apart(speeds, spectrum.inverse_frequencies)),
            abs(amplitude / spectrum.amplitude - 1),
        )
        if off > CLOSE:
            raise RunError(
                f"transformers {library().__version__} does not apply what its config asks for: "
                f"with {repair or 'no repair'}, layer {rotary.layers[0]} turns {off:.2%} otherwise"
            )
        found.append(Worn(rotary.layers, speeds, amplitude, spectrum.base))
    return tuple(found)


def apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The largest relative difference."""
    return float(np.abs(one / other - 1).max())
