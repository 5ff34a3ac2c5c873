"""BLOOM: ALiBi, added to the logits of every pair of tokens."""

from __future__ import annotations

from .gpt2 import GPT2


class Bloom(GPT2):
    """Nothing turns, and nothing ends."""

    materialised = True
    projections = ("query_key_value", "dense")
