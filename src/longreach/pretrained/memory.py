"""Whether memory will do for a length, estimated before anything is read."""

from __future__ import annotations

from typing import Any

import psutil
import torch

from ..errors import InputError
from .base import LanguageModel
from .loading import CHUNK, Pretrained
from .recipe import Recipe

COPIES = 6
"""Arrays of a layer's width, or of its feed-forward's, that a layer holds at a time."""


def needed(model: Pretrained, length: int) -> int:
    """Bytes that one pass of so many tokens takes, besides the weights.

    A layer's activations, the logits of one chunk in float32, and where attention is materialised,
    three numbers for every pair of tokens and head.
    """
    config: Any = model.model.config
    size = model.model.dtype.itemsize
    width = int(config.hidden_size)
    inner = getattr(config, "intermediate_size", None) or getattr(config, "d_ff", None)
    inner = inner or 4 * width
    vocabulary = int(config.vocab_size)
    found = COPIES * length * (width + int(inner)) * size + 2 * CHUNK * vocabulary * 4
    if model.adapter.materialised or config._attn_implementation == "eager":
        found += 3 * int(config.num_attention_heads) * length**2 * max(size, 4)
    return int(found)


def kept(model: Pretrained, length: int) -> int:
    """Bytes of the keys and values of so many tokens: once, and in a copy for each question."""
    config: Any = model.model.config
    heads = int(getattr(config, "num_attention_heads", 0) or config.n_heads)
    groups = int(getattr(config, "num_key_value_heads", None) or heads)
    head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    layers = len(model.adapter.blocks)
    return 2 * 2 * layers * length * groups * head_dim * int(model.model.dtype.itemsize)


def available(device: torch.device) -> int:
    """Bytes that are free where the model is."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def check(model: LanguageModel, length: int, *, force: bool, questions: bool = False) -> None:
    """Raises InputError if a length takes more memory than is free, unless forced.

    questions: whether several are to be read behind one text, whose keys and values are kept.
    """
    if force or not isinstance(model, Pretrained):
        return
    wanted, free = needed(model, length), available(model.device)
    wanted += kept(model, length) if questions else 0
    if wanted > free:
        raise InputError(
            f"{length:,} tokens would take about {wanted / 1e9:.1f} GB besides the weights, and "
            f"{free / 1e9:.1f} GB are free on {model.device}; give shorter --lengths, or --force"
        )


def needed_to_train(model: Pretrained, recipe: Recipe) -> int:
    """Bytes that training takes at the least, weights and all.

    Of each weight that is trained its gradient and two moments; what every layer is given, of all
    tokens of a batch; and one pass.
    """
    weights = sum(each.numel() for each in model.model.parameters())
    tokens = recipe.batch * recipe.window
    kept = len(model.adapter.blocks) * tokens * int(model.model.config.hidden_size)
    if not recipe.checkpointing:
        kept *= COPIES
    held = int(weights) * (16 if recipe.lora is None else recipe.held.itemsize)
    return int(held + kept * recipe.passes.itemsize) + needed(model, recipe.window)


def check_training(model: Pretrained, recipe: Recipe, device: torch.device) -> None:
    """Raises InputError if training takes more memory than is free where it is to be done."""
    wanted, free = needed_to_train(model, recipe), available(device)
    if device.type == "cpu":  # The weights that are there now make room.
        free += sum(each.nbytes for each in model.model.parameters())
    if wanted > free:
        raise InputError(
            f"training on {recipe.batch} x {recipe.window:,} tokens would take {wanted / 1e9:.1f} "
            f"GB at the least, and {free / 1e9:.1f} GB are free on {device}; give a smaller "
            "--length or --batch, --lora, --pose, or --force"
        )
