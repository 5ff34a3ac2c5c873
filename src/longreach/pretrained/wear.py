"""A repair is worn, not implanted: put on for a while, proven to be applied, and off without trace.

What is replaced is the function that makes cos and sin; weights and buffers are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from ..checkpoint import Checkpoint, LayerGroup
from ..errors import InputError
from ..repairs import Repair
from ..spectrum import Extension, Spectrum
from .adapters import Adapter, Rotary

CosSin = tuple[Tensor, Tensor]

BY_LENGTH = ("dynamic", "dynamic_yarn", "longrope")
"""Repairs whose spectrum depends on the length that is being read."""


@dataclass(frozen=True)
class Worn:
    """What some layers turn by, as read back from the running model.

    layers: those that were given it in a forward pass. inverse_frequencies: radians per token, from
    the angles that came out. amplitude: the length of (cos, sin). base: of the plain spectrum.
    """

    layers: tuple[int, ...]
    inverse_frequencies: NDArray[np.float64]
    amplitude: float
    base: float | None


@dataclass(frozen=True)
class Proof:
    """That a repair is applied: what the model turns by while it is worn.

    repair: as it was asked for. target_length: that it is set for. worn: one entry for each kind of
    layer that is repaired. untouched: layers that go on as they were (without turning, or with a
    window).
    """

    repair: Repair
    target_length: int
    worn: tuple[Worn, ...]
    untouched: tuple[int, ...]

    @property
    def layers(self) -> int:
        """How many layers are repaired."""
        return sum(len(each.layers) for each in self.worn)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "repair": str(self.repair),
            "target_length": self.target_length,
            "layers_touched": self.layers,
            "layers_untouched": len(self.untouched),
            "worn": [
                {
                    "layers": list(each.layers),
                    "base": each.base,
                    "amplitude": each.amplitude,
                    "inverse_frequencies": each.inverse_frequencies.tolist(),
                }
                for each in self.worn
            ],
        }


@contextmanager
def wearing(
    adapter: Adapter, checkpoint: Checkpoint, repair: Repair, target_length: int
) -> Iterator[Proof]:
    """The model repaired for a target length; afterwards it is bit for bit what it was.

    The repair starts from the spectrum of pre-training, whatever the config asks for already, and
    each kind of layer from its own base. Layers with a window keep theirs, unless one module turns
    them together with others, as configuring the repair in `transformers` would do, too.

    Raises InputError if there is nothing that the repair could change.
    """
    plan = spectra(adapter, checkpoint, repair, target_length)
    taken_off: list[Callable[[], None]] = []
    try:
        for module in dict.fromkeys(rotary.module for rotary, _, _ in plan):
            mine = {rotary.key: used for rotary, _, used in plan if rotary.module is module}
            taken_off.append(put_on(module, mine))
        yield prove(adapter, plan, repair, target_length)
    finally:
        for take_off in reversed(taken_off):
            take_off()


def spectra(
    adapter: Adapter, checkpoint: Checkpoint, repair: Repair, target_length: int
) -> list[tuple[Rotary, LayerGroup, Spectrum]]:
    """What each rotary module is to turn by. Raises InputError if none is to change."""
    found = []
    for rotary in adapter.rotaries:
        groups = [
            g for g in checkpoint.rope if g.layers is None or set(g.layers) & {*rotary.layers}
        ]
        open_ = [group for group in groups if group.window is None]
        if not open_:
            continue
        group = open_[0]
        length = group.original_length or group.trained_length
        if group.spectrum is None or length is None:
            raise InputError(
                f"the config of {checkpoint.source} does not say how its layers were turned in "
                "training; give --trained-length"
            )
        found.append(
            (rotary, group, repair.apply(group.spectrum, Extension(length, target_length)))
        )
    if found:
        return found
    if checkpoint.rope:
        raise InputError(
            f"there is nothing to repair in {checkpoint.source}: every layer that is turned sees a "
            "window of tokens, and no longer distance; measure it with --repair none"
        )
    kinds = " and ".join(dict.fromkeys(group.kind for group in checkpoint.groups))
    raise InputError(
        f"{repair.name} changes how fast pairs turn, and {checkpoint.source} turns none (its "
        f"positions: {kinds}); measure it with --repair none"
    )


def put_on(module: nn.Module, spectra: dict[str | None, Spectrum]) -> Callable[[], None]:
    """Replaces a module's forward; returns what puts it back.

    spectra: by layer type, for those that change; {None: ...} where there are no types.
    """
    # One set on the instance (by accelerate, say) comes back; else the class's shows again.
    had, before = module.__dict__.get("forward"), module.forward

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> CosSin:
        if layer_type not in spectra:
            given = () if layer_type is None else (layer_type,)
            kept: CosSin = before(x, position_ids, *given)
            return kept
        return turns(spectra[layer_type], x, position_ids)

    module.forward = forward

    def take_off() -> None:
        if had is None:
            del module.forward
        else:
            module.forward = had

    return take_off


def turns(
    spectrum: Spectrum, x: Float[Tensor, "batch time width"], positions: Int[Tensor, "any time"]
) -> CosSin:
    """Cos and sin for every position, of both halves of a head: [any, time, rotary_dim].

    In float32 as `transformers` does it, whose pairs are dimensions i and i + rotary_dim / 2.
    """
    speeds = torch.from_numpy(spectrum.inverse_frequencies).to(x.device, torch.float32)
    angles = positions[..., None].float() * speeds
    angles = torch.cat([angles, angles], dim=-1)
    amplitude = spectrum.amplitude
    return (angles.cos() * amplitude).to(x.dtype), (angles.sin() * amplitude).to(x.dtype)


def prove(
    adapter: Adapter,
    plan: list[tuple[Rotary, LayerGroup, Spectrum]],
    repair: Repair,
    target_length: int,
) -> Proof:
    """Runs two tokens through the model, and reads back who turns by what.

    Raises RuntimeError if a layer is not given what it should be: a fault of an adapter.
    """
    asked: dict[int, Tensor] = {}

    def look(layer: int) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = kwargs.get("position_embeddings")
            if given is not None:
                asked[layer] = given[0]

        return hook

    handles = [
        attention.register_forward_pre_hook(look(number), with_kwargs=True)
        for number, attention in enumerate(adapter.attentions)
    ]
    device = next(adapter.model.parameters()).device
    try:
        with torch.inference_mode():
            adapter.hidden(torch.zeros(1, 2, dtype=torch.long, device=device))
    finally:
        for handle in handles:
            handle.remove()
    worn = []
    for rotary, group, spectrum in plan:
        probe = torch.zeros(1, 2, 1, dtype=next(iter(asked.values())).dtype, device=device)
        wanted, _ = turns(spectrum, probe, torch.arange(2, device=device)[None])
        layers = tuple(n for n in rotary.layers if n in asked and torch.equal(asked[n], wanted))
        if layers != rotary.layers:
            missed = sorted({*rotary.layers} - {*layers})
            raise RuntimeError(f"layers {missed} were not given the spectrum of {repair}")
        speeds, amplitude = read_back(rotary, spectrum)
        worn.append(Worn(layers, speeds, amplitude, group.base))
    touched = {layer for each in worn for layer in each.layers}
    untouched = tuple(n for n in range(len(adapter.blocks)) if n not in touched)
    return Proof(repair, target_length, tuple(worn), untouched)


def read_back(
    rotary: Rotary, spectrum: Spectrum, length: int | None = None
) -> tuple[NDArray[np.float64], float]:
    """Inverse frequencies and amplitude, from the angles that the module makes.

    Each pair is read at a position where it has turned by about one radian: earlier, float32 knows
    too little of the angle, and later it may have gone round.

    length: read as in a text of so many tokens, which decides for modules that look at it: the last
        of its positions is asked for, too, and none past it.
    """
    positions = np.maximum(1, np.floor(1 / spectrum.inverse_frequencies)).astype(np.int64)
    pairs = len(positions)
    if length is not None:
        positions = np.append(np.minimum(positions, length - 1), length - 1)
    device = next((b.device for b in rotary.module.buffers()), torch.device("cpu"))
    x = torch.zeros(1, len(positions), 1, dtype=torch.float32, device=device)
    given = () if rotary.key is None else (rotary.key,)
    cos, sin = rotary.module.forward(x, torch.from_numpy(positions)[None].to(device), *given)
    pair = torch.arange(pairs)
    c, s = (part[0, pair, pair].double().cpu().numpy() for part in (cos, sin))
    return np.arctan2(s, c) / positions[:pairs], float(np.hypot(c, s).mean())
