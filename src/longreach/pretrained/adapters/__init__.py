"""Adapters: how to reach into each family of models. One file per family; ADAPTERS lists them.

To add one: write a subclass of `base.Adapter`, and a line here for each `model_type` it serves. The
laws in tests/test_pretrained.py then run over it.
"""

from __future__ import annotations

from ...table import Table
from .base import Adapter as Adapter, Rotary as Rotary

ADAPTERS: Table[type[Adapter]] = Table(
    "model type",
    __name__,
    {
        "llama": ".llama:Llama",
        "mistral": ".llama:Llama",
        "qwen2": ".llama:Llama",
        "qwen3": ".llama:Llama",
        "smollm3": ".llama:Llama",
        "gpt_neox": ".gpt_neox:GPTNeoX",
        "gemma3_text": ".gemma3:Gemma3",
        "phi3": ".phi3:Phi3",
        "gpt2": ".gpt2:GPT2",
        "bloom": ".bloom:Bloom",
        "mpt": ".mpt:Mpt",
        "t5": ".t5:T5",
        "mt5": ".t5:MT5",
        "umt5": ".t5:T5",
    },
)
