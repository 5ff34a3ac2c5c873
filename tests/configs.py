"""Released configs, as their makers published them, for tests of the clinic."""

from __future__ import annotations

from math import pi
from typing import Any

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}

QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "head_dim": 128,
    "num_hidden_layers": 36,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
}

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}

PHI3: dict[str, Any] = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}

GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "head_dim": 256,
    "num_hidden_layers": 34,
    "max_position_embeddings": 131072,
    "sliding_window": 1024,
}


def gemma3_form(form: str) -> dict[str, Any]:
    if form == "v4":
        return {
            **GEMMA3,
            "rope_theta": 1e6,
            "rope_local_base_freq": 1e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "sliding_window_pattern": 6,
        }
    kinds = ["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(34)]
    return {
        **GEMMA3,
        "layer_types": kinds,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    }


REAL = {
    "llama2-7b": (LLAMA, 128, 1e4, 4096, 18, 46, 54410.1431),
    "llama3-8b": (
        {**LLAMA, "max_position_embeddings": 8192, "rope_theta": 500000.0},
        128, 5e5, 8192, 29, 35, 2559195.52,
    ),
    "qwen2.5-7b": (
        {
            "model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28,
            "num_hidden_layers": 28, "max_position_embeddings": 32768, "rope_theta": 1000000.0,
            "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28,
        },
        128, 1e6, 32768, 24, 40, 5063255.79,
    ),
    "qwen3-8b": (QWEN3, 128, 1e6, 32768, 24, 40, 5063255.79),
    "mistral-7b-v0.1": (
        {
            "model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32,
            "max_position_embeddings": 32768, "rope_theta": 10000.0, "sliding_window": 4096,
        },
        128, 1e4, 4096, 18, 46, 54410.1431,
    ),
    "smollm2-135m": (
        {
            "model_type": "llama", "hidden_size": 576, "num_attention_heads": 9, "head_dim": 64,
            "num_hidden_layers": 30, "max_position_embeddings": 8192, "rope_theta": 100000,
            "rope_scaling": None,
        },
        64, 1e5, 8192, 12, 20, 438459.888,
    ),
    "deepseek-v3": (
        {
            "model_type": "deepseek_v3", "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
            "max_position_embeddings": 163840, "rope_theta": 10000,
        },
        64, 1e4, 4096, 9, 23, 47117.2428,
    ),
    "pythia-160m": (
        {
            "model_type": "gpt_neox", "hidden_size": 768, "num_attention_heads": 12,
            "num_hidden_layers": 12, "max_position_embeddings": 2048, "rotary_pct": 0.25,
            "rotary_emb_base": 10000,
        },
        16, 1e4, 2048, 2, 6, 2 * pi * 10000 ** (14 / 16),
    ),
    "gpt-j-6b": (
        {
            "model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048,
            "rotary_dim": 64,
        },
        64, 1e4, 2048, 11, 21, 47117.2428,
    ),
    "phi-2": (
        {
            "model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32,
            "num_hidden_layers": 32, "max_position_embeddings": 2048, "partial_rotary_factor": 0.4,
            "rope_theta": 10000.0,
        },
        32, 1e4, 2048, 5, 11, 2 * pi * 10000 ** (30 / 32),
    ),
    "glm-4-9b": (
        {
            "model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32,
            "kv_channels": 128, "num_layers": 40, "seq_length": 131072, "rope_ratio": 500,
        },
        64, 5e6, 131072, 11, 21, 2 * pi * 5e6 ** (62 / 64),
    ),
    "falcon-7b": (
        {
            "model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71,
            "num_hidden_layers": 32, "alibi": False,
        },
        64, 1e4, 2048, 11, 21, 47117.2428,
    ),
}  # fmt: skip
"""Released configs: config, rotary_dim, base, trained length, never completed, first, slowest."""
