"""Phi-3: built like Llama, with a spectrum that depends on the length where it asks for longrope.

What is worn replaces that too, at every length.
"""

from __future__ import annotations

from .llama import Llama


class Phi3(Llama):
    """Reached into as Llama is."""

    projections = ("qkv_proj", "o_proj")
