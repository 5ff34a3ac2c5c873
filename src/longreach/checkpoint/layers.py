"""Which layers of a model see all tokens, and which are turned: from layer_types and older keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InputError
from ..spectrum import brief
from .families import Family
from .reading import Notes, whole

Sees = Literal["all", "sliding", "chunked", "nothing"]
"""What a layer's attention reaches; "nothing" for layers that are not attention."""

DEEPEST = 10_000

SHOWN = 12
"""Layers shown where the config does not say how many: two turns of the longest pattern."""

COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers")

NOT_ATTENTION = ("linear_attention", "mamba", "conv", "recurrent", "mamba2", "moe", "mlp")


@dataclass(frozen=True)
class Layer:
    """What one layer sees, and whether its queries and keys are turned."""

    sees: Sees
    turned: bool


def read_layers(config: Mapping[str, Any], family: Family, notes: Notes) -> list[Layer]:
    """Every layer in order; where the config does not say how many, as many as show the pattern."""
    listed = _listed(config, notes)
    found = whole(config, COUNTS, notes, most=DEEPEST)
    if found is None and any(_too_many(config.get(key)) for key in COUNTS):
        raise InputError(f"the config has more than {DEEPEST:,} layers; no model has")
    count = found.value if found else len(listed) if listed else None
    if listed is not None and count is not None and len(listed) != count:
        notes.add(
            "layer_types_length",
            f"layer_types has {len(listed)} entries, and {found.key if found else ''} is {count}",
            "transformers 5 refuses the config; the entries are passed over here",
        )
        listed = None
    size = count or SHOWN
    sees = listed or _pattern(config, family, size, notes)
    turned = _turned(config, family, sees, notes)
    return [Layer(*each) for each in zip(sees, turned, strict=True)]


def _too_many(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > DEEPEST


def _listed(config: Mapping[str, Any], notes: Notes) -> list[Sees] | None:
    for key in ("layer_types", "layers_block_type"):
        value = config.get(key)
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            notes.add(
                "wrong_type",
                f"{key} is {brief(value)}",
                "a list with the type of each layer belongs there; it is passed over",
            )
            continue
        if 0 < len(value) <= DEEPEST:
            return [_sees(each) for each in value]
    return None


def _sees(layer_type: str) -> Sees:
    if "sliding" in layer_type or layer_type == "local":
        return "sliding"
    if "chunked" in layer_type:
        return "chunked"
    return "nothing" if layer_type in NOT_ATTENTION else "all"


def _pattern(config: Mapping[str, Any], family: Family, count: int, notes: Notes) -> list[Sees]:
    """What each layer sees, from the keys that came before layer_types."""
    window = whole(config, ["sliding_window"], notes)
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        period = config.get(key)
        if isinstance(period, str) and period and set(period) <= {"L", "G"}:
            return ["sliding" if period[i % len(period)] == "L" else "all" for i in range(count)]
        if isinstance(period, int) and not isinstance(period, bool) and period > 1 and window:
            return _every(period, count)
    if window and family.period:
        return _every(family.period, count)
    interval = whole(config, ["full_attention_interval"], notes, most=DEEPEST)
    if interval:
        return ["all" if (i + 1) % interval.value == 0 else "nothing" for i in range(count)]
    if window and _slides(config, family):
        # Qwen 2 lets layers from max_window_layers on slide.
        first = whole(config, ["max_window_layers"], notes, least=0)
        start = first.value if first else 0
        return ["sliding" if i >= start else "all" for i in range(count)]
    return ["all"] * count


def _every(period: int, count: int) -> list[Sees]:
    """Every period-th layer sees all."""
    return ["sliding" if (i + 1) % period else "all" for i in range(count)]


def _slides(config: Mapping[str, Any], family: Family) -> bool:
    return bool(config.get("use_sliding_window", family.slides))


def _turned(
    config: Mapping[str, Any], family: Family, sees: list[Sees], notes: Notes
) -> list[bool]:
    """Whether each layer is turned."""
    marks = config.get("no_rope_layers")
    if isinstance(marks, list) and marks:
        # Inverted: 1 means that the layer *uses* RoPE.
        if len(marks) == len(sees) and all(mark in (0, 1) for mark in marks):
            return [bool(mark) for mark in marks]
        notes.add(
            "no_rope_layers",
            f"no_rope_layers has {len(marks)} entries for {len(sees)} layers, or others than 0 and "
            "1",
            "one mark per layer belongs there, 1 where the layer is turned; they are passed over",
        )
    if family.nope == "interval" or "no_rope_layer_interval" in config:
        found = whole(config, ["no_rope_layer_interval"], notes, most=DEEPEST)
        interval = found.value if found else 4
        return [(i + 1) % interval != 0 for i in range(len(sees))]
    if family.nope == "full" and "sliding" in sees:
        return [each != "all" for each in sees]
    return [each != "nothing" for each in sees]
