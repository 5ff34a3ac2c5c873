"""GGUF files: what is read is what the gguf package reads, and no file does worse than a message.

Every kind of model is written twice, as its config.json and as llama.cpp's converter writes its
metadata, and must come out alike.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from math import log, sqrt
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from longreach.checkpoint import from_config, read
from longreach.checkpoint.gguf import read_gguf
from longreach.checkpoint.gguf_header import LONGEST_ARRAY, WORK, read_header
from longreach.checkpoint.layout import Checkpoint
from longreach.errors import InputError

ADD = {
    bool: "add_bool",
    int: "add_uint32",
    float: "add_float32",
    str: "add_string",
    list: "add_array",
}


def write(
    path: Path, architecture: str, keys: dict[str, Any], tensors: dict[str, Any] | None = None
) -> Path:
    """A file with keys of an architecture (with a dot in front: of none), and tensors."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in keys.items():
        key = name[1:] if name.startswith(".") else f"{architecture}.{name}"
        getattr(writer, ADD[type(value)])(key, value)
    for name, numbers in (tensors or {}).items():
        writer.add_tensor(name, np.asarray(numbers, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def sized(layers: int, width: int, heads: int, context: int, **keys: Any) -> dict[str, Any]:
    """The keys that every converter writes, and more: two underscores stand for a dot."""
    return {
        "context_length": context,
        "embedding_length": width,
        "feed_forward_length": 4 * width,
        "block_count": layers,
        "attention.head_count": heads,
        **{name.replace("__", "."): value for name, value in keys.items()},
    }


def config(
    kind: str, layers: int, width: int, heads: int, context: int, **keys: Any
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "max_position_embeddings": context,
        **keys,
    }


def llama3_divisors(block: dict[str, Any], head_dim: int, base: float) -> np.ndarray:
    """The tensor of the converter, by transformers' own function."""
    made = LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        max_position_embeddings=131_072,
        rope_parameters={"rope_theta": base, **block},
    )
    used, _ = ROPE_INIT_FUNCTIONS["llama3"](made, "cpu")
    plain = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
    return (plain / used).numpy()


@dataclass
class Model:
    """A model in both forms."""

    config: dict[str, Any]
    architecture: str
    keys: dict[str, Any]
    tensors: dict[str, Any] = field(default_factory=dict)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA31 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA32 = {**LLAMA31, "factor": 32.0}
SHORT = [1.0, 1.05, 1.1] + [1.25] * 45
LONG = [1.03, 1.1, 1.3] + [float(i) for i in range(2, 47)]
PHI3_AMPLITUDE = sqrt(1 + log(32) / log(4096))
DEEPSEEK = {
    "type": "yarn",
    "factor": 40,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}
SCALED = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 32768,
}

MODELS = {
    "llama 2": Model(
        config("llama", 32, 4096, 32, 4096),
        "llama",
        sized(32, 4096, 32, 4096, rope__dimension_count=128),
    ),
    "llama 3.1": Model(
        config("llama", 32, 4096, 32, 131072, rope_theta=5e5, rope_scaling=LLAMA31),
        "llama",
        sized(32, 4096, 32, 131072, rope__freq_base=5e5, rope__dimension_count=128),
        {"rope_freqs.weight": llama3_divisors(LLAMA31, 128, 5e5)},
    ),
    "llama 3.2": Model(
        config("llama", 16, 2048, 32, 131072, rope_theta=5e5, rope_scaling=LLAMA32),
        "llama",
        sized(16, 2048, 32, 131072, rope__freq_base=5e5, rope__dimension_count=64),
        {"rope_freqs.weight": llama3_divisors(LLAMA32, 64, 5e5)},
    ),
    "mistral": Model(
        config("mistral", 32, 4096, 32, 32768, rope_theta=1e6, sliding_window=None),
        "llama",
        sized(32, 4096, 32, 32768, rope__freq_base=1e6, rope__dimension_count=128),
    ),
    "vicuna, linear": Model(
        config("llama", 32, 4096, 32, 16384, rope_scaling={"type": "linear", "factor": 4.0}),
        "llama",
        sized(32, 4096, 32, 16384, rope__scaling__factor=4.0, rope__dimension_count=128),
    ),
    "old linear": Model(
        config("llama", 32, 4096, 32, 4096, rope_scaling={"type": "linear", "factor": 4.0}),
        "llama",
        sized(32, 4096, 32, 4096, rope__scale_linear=4.0, rope__dimension_count=128),
    ),
    "qwen 2.5": Model(
        config("qwen2", 28, 3584, 28, 131072, rope_theta=1e6, sliding_window=131072),
        "qwen2",
        sized(28, 3584, 28, 131072, rope__freq_base=1e6),
    ),
    "qwen 2.5, yarn": Model(
        config("qwen2", 28, 3584, 28, 131072, rope_theta=1e6, rope_scaling=YARN),
        "qwen2",
        {**sized(28, 3584, 28, 131072, rope__freq_base=1e6), **SCALED},
    ),
    "qwen 3": Model(
        config("qwen3", 36, 2560, 32, 40960, rope_theta=1e6, head_dim=128),
        "qwen3",
        sized(36, 2560, 32, 40960, rope__freq_base=1e6, attention__key_length=128),
    ),
    "qwen 3 with moe": Model(
        config("qwen3_moe", 48, 2048, 32, 40960, rope_theta=1e6, head_dim=128),
        "qwen3moe",
        sized(48, 2048, 32, 40960, rope__freq_base=1e6, attention__key_length=128),
    ),
    "gemma": Model(
        config("gemma", 28, 3072, 16, 8192, head_dim=256),
        "gemma",
        sized(28, 3072, 16, 8192, attention__key_length=256),
    ),
    "gemma 2": Model(
        config("gemma2", 42, 3584, 16, 8192, head_dim=256, sliding_window=4096),
        "gemma2",
        sized(42, 3584, 16, 8192, attention__key_length=256, attention__sliding_window=4096),
    ),
    "gemma 3": Model(
        config(
            "gemma3_text",
            34,
            2560,
            8,
            131072,
            head_dim=256,
            sliding_window=1024,
            rope_theta=1e6,
            rope_local_base_freq=1e4,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
        ),
        "gemma3",
        sized(
            34,
            2560,
            8,
            131072,
            attention__key_length=256,
            attention__sliding_window=1024,
            rope__freq_base=1e6,
            rope__scaling__type="linear",
            rope__scaling__factor=8.0,
        ),
    ),
    "phi 3, longrope": Model(
        config(
            "phi3",
            32,
            3072,
            32,
            131072,
            original_max_position_embeddings=4096,
            sliding_window=262144,
            rope_scaling={"type": "longrope", "short_factor": SHORT, "long_factor": LONG},
        ),
        "phi3",
        sized(
            32,
            3072,
            32,
            131072,
            rope__dimension_count=96,
            rope__freq_base=1e4,
            attention__sliding_window=262144,
            rope__scaling__original_context_length=4096,
            rope__scaling__attn_factor=PHI3_AMPLITUDE,
        ),
        {"rope_factors_long.weight": LONG, "rope_factors_short.weight": SHORT},
    ),
    "deepseek 2": Model(
        config(
            "deepseek_v2",
            27,
            2048,
            16,
            163840,
            kv_lora_rank=512,
            qk_rope_head_dim=64,
            qk_nope_head_dim=128,
            rope_scaling=DEEPSEEK,
        ),
        "deepseek2",
        sized(
            27,
            2048,
            16,
            163840,
            attention__kv_lora_rank=512,
            attention__key_length=576,
            attention__key_length_mla=192,
            rope__dimension_count=64,
            rope__freq_base=1e4,
            rope__scaling__type="yarn",
            rope__scaling__factor=40.0,
            rope__scaling__original_context_length=4096,
            rope__scaling__yarn_beta_fast=32.0,
            rope__scaling__yarn_beta_slow=1.0,
            rope__scaling__yarn_log_multiplier=0.1 * 0.707,
        ),
    ),
    "mistral 3": Model(
        config(
            "ministral3",
            26,
            3072,
            32,
            262144,
            head_dim=128,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 1e6,
                "factor": 16.0,
                "original_max_position_embeddings": 16384,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
        ),
        "mistral3",
        sized(
            26,
            3072,
            32,
            262144,
            attention__key_length=128,
            rope__dimension_count=128,
            rope__freq_base=1e6,
            rope__scaling__type="yarn",
            rope__scaling__factor=16.0,
            rope__scaling__original_context_length=16384,
            rope__scaling__yarn_beta_fast=32.0,
            rope__scaling__yarn_beta_slow=1.0,
            rope__scaling__yarn_log_multiplier=1.0,
        ),
    ),
    "gpt-neox": Model(
        config("gpt_neox", 24, 1024, 16, 2048, rotary_pct=0.25, rotary_emb_base=10000),
        "gptneox",
        sized(24, 1024, 16, 2048, rope__dimension_count=16),
    ),
    "phi 2": Model(
        config("phi", 32, 2560, 32, 2048, partial_rotary_factor=0.4),
        "phi2",
        sized(32, 2560, 32, 2048, rope__dimension_count=32),
    ),
    "falcon": Model(
        config("falcon", 32, 4544, 71, 2048, alibi=False),
        "falcon",
        sized(32, 4544, 71, 2048, attention__head_count_kv=1),
    ),
    "command-r": Model(
        config("cohere", 40, 8192, 64, 8192, rope_theta=8e6),
        "command-r",
        sized(40, 8192, 64, 8192, rope__freq_base=8e6, rope__scaling__type="none"),
    ),
    "cohere 2": Model(
        config("cohere2", 32, 4096, 32, 8192, rope_theta=5e4, sliding_window=4096),
        "cohere2",
        sized(32, 4096, 32, 8192, rope__freq_base=5e4, attention__sliding_window=4096),
    ),
    "smollm 3": Model(
        config("smollm3", 36, 2048, 16, 65536, rope_theta=5e6),
        "smollm3",
        sized(36, 2048, 16, 65536, rope__freq_base=5e6),
    ),
    "llama 4": Model(
        config(
            "llama4_text",
            48,
            5120,
            40,
            10485760,
            head_dim=128,
            rope_theta=5e5,
            attention_chunk_size=8192,
            no_rope_layers=[1, 1, 1, 0] * 12,
        ),
        "llama4",
        sized(48, 5120, 40, 10485760, rope__freq_base=5e5, attention__key_length=128),
    ),
    "gpt-oss": Model(
        config(
            "gpt_oss",
            24,
            2880,
            64,
            131072,
            head_dim=64,
            sliding_window=128,
            rope_theta=150000.0,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 32.0,
                "original_max_position_embeddings": 4096,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
            },
        ),
        "gpt-oss",
        sized(
            24,
            2880,
            64,
            131072,
            attention__key_length=64,
            attention__sliding_window=128,
            rope__freq_base=150000.0,
            rope__scaling__type="yarn",
            rope__scaling__factor=32.0,
            rope__scaling__original_context_length=4096,
            rope__scaling__yarn_beta_fast=32.0,
            rope__scaling__yarn_beta_slow=1.0,
        ),
    ),
    "olmo 3": Model(
        config(
            "olmo3",
            32,
            4096,
            32,
            65536,
            rope_theta=5e5,
            sliding_window=4096,
            layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 8,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 8.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        "olmo2",
        sized(
            32,
            4096,
            32,
            65536,
            rope__freq_base=5e5,
            attention__sliding_window=4096,
            attention__sliding_window_pattern=[True, True, True, False] * 8,
            rope__scaling__type="yarn",
            rope__scaling__factor=8.0,
            rope__scaling__original_context_length=8192,
        ),
    ),
    "exaone 4": Model(
        config("exaone4", 64, 5120, 40, 131072, head_dim=128, rope_theta=1e6, sliding_window=4096),
        "exaone4",
        sized(
            64,
            5120,
            40,
            131072,
            attention__key_length=128,
            attention__sliding_window=4096,
            rope__freq_base=1e6,
        ),
    ),
    "qwen 3 next": Model(
        config(
            "qwen3_next",
            48,
            2048,
            16,
            262144,
            head_dim=256,
            rope_theta=1e7,
            partial_rotary_factor=0.25,
            full_attention_interval=4,
        ),
        "qwen3next",
        sized(
            48,
            2048,
            16,
            262144,
            attention__key_length=256,
            rope__dimension_count=64,
            rope__freq_base=1e7,
        ),
    ),
    "lfm 2": Model(
        config(
            "lfm2",
            6,
            1024,
            16,
            128000,
            rope_theta=1e6,
            layer_types=["conv", "conv", "full_attention", "conv", "conv", "full_attention"],
        ),
        "lfm2",
        sized(
            6, 1024, 16, 128000, rope__freq_base=1e6, attention__head_count_kv=[0, 0, 8, 0, 0, 8]
        ),
    ),
    "gpt-2": Model(
        config("gpt2", 12, 768, 12, 1024),
        "gpt2",
        sized(12, 768, 12, 1024),
        {"position_embd.weight": np.zeros((1024, 768))},
    ),
    "starcoder": Model(
        config("gpt_bigcode", 24, 2048, 16, 8192), "starcoder", sized(24, 2048, 16, 8192)
    ),
    "bloom": Model(config("bloom", 30, 4096, 32, 2048), "bloom", sized(30, 4096, 32, 2048)),
    "mpt": Model(
        config("mpt", 32, 4096, 12, 2048, attn_config={"alibi": True, "alibi_bias_max": 16}),
        "mpt",
        sized(32, 4096, 12, 2048, attention__max_alibi_bias=16.0),
    ),
    "baichuan 13b": Model(
        config("baichuan", 40, 5120, 40, 4096),
        "baichuan",
        sized(40, 5120, 40, 4096, rope__dimension_count=128),
    ),
    "refact": Model(config("gpt_refact", 32, 2048, 32, 4096), "refact", sized(32, 2048, 32, 4096)),
    "t5": Model(
        config(
            "t5",
            12,
            768,
            12,
            512,
            relative_attention_num_buckets=32,
            relative_attention_max_distance=128,
        ),
        "t5",
        sized(12, 768, 12, 512, attention__relative_buckets_count=32),
    ),
    "jamba": Model(config("jamba", 32, 4096, 32, 262144), "jamba", sized(32, 4096, 32, 262144)),
    "granite 4": Model(
        config("granitemoehybrid", 40, 2048, 32, 131072, position_embedding_type="nope"),
        "granitehybrid",
        sized(40, 2048, 32, 131072, rope__dimension_count=64, rope__scaling__finetuned=False),
    ),
    "gemma 4": Model(
        config(
            "gemma4_text",
            12,
            2560,
            8,
            131072,
            head_dim=256,
            global_head_dim=512,
            sliding_window=512,
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {
                    "rope_type": "proportional",
                    "rope_theta": 1e6,
                    "partial_rotary_factor": 0.25,
                },
            },
        ),
        "gemma4",
        sized(
            12,
            2560,
            8,
            131072,
            attention__key_length=512,
            attention__key_length_swa=256,
            attention__sliding_window=512,
            attention__sliding_window_pattern=([True] * 5 + [False]) * 2,
            rope__dimension_count=512,
            rope__dimension_count_swa=256,
            rope__freq_base=1e6,
            rope__freq_base_swa=1e4,
        ),
        {"rope_freqs.weight": [1.0] * 64 + [1e30] * 192},
    ),
}


def both(model: Model, folder: Path) -> tuple[Checkpoint, Checkpoint]:
    path = write(folder / "model.gguf", model.architecture, model.keys, model.tensors)
    return from_config(model.config), read_gguf(path)


@pytest.mark.parametrize("name", MODELS)
def test_a_gguf_file_says_what_the_config_says(name, tmp_path):
    config, file = both(MODELS[name], tmp_path)
    assert file.dialect == "gguf"
    assert file.stated_length == config.stated_length
    assert len(file.groups) == len(config.groups)
    for ours, theirs in zip(file.groups, config.groups, strict=True):
        for attribute in (
            "layers",
            "kind",
            "trained_length",
            "original_length",
            "rotary_dim",
            "base",
            "window",
            "window_kind",
            "limit",
            "buckets",
            "max_distance",
            "slopes",
            "softmax_factor",
            "temperature",
        ):
            assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
        assert (ours.repair and ours.repair.name) == (theirs.repair and theirs.repair.name)
        for length in (1, 4096, 8193, file.stated_length):
            used, expected = ours.used(length), theirs.used(length)
            assert (used is None) == (expected is None)
            if used is not None:
                np.testing.assert_allclose(
                    used.inverse_frequencies, expected.inverse_frequencies, rtol=1e-12
                )
                assert used.amplitude == pytest.approx(expected.amplitude, rel=1e-12)
                assert used.original.base == expected.original.base


# What the file leaves open


def group(tmp_path: Path, keys: dict[str, Any], tensors: Any = None, architecture: str = "llama"):
    """The only group of a small model with these keys besides, and the codes of its problems."""
    path = write(tmp_path / "a.gguf", architecture, sized(4, 256, 4, 32768) | keys, tensors)
    found = read_gguf(path)
    (only,) = found.groups
    return only, [problem.code for problem in found.problems]


def test_an_unknown_architecture_is_read_by_its_keys(tmp_path):
    found, codes = group(tmp_path, {"rope.freq_base": 5e5}, architecture="brandnew")
    assert (found.kind, found.base, found.rotary_dim) == ("rope", 5e5, 64)
    assert found.trained_length == 32768
    assert codes == []


def test_an_unknown_architecture_without_keys_says_which_were_looked_for(tmp_path):
    path = write(tmp_path / "a.gguf", "brandnew", sized(4, 256, 4, 8192))
    with pytest.raises(InputError, match=r"'brandnew'.*brandnew\.rope\.dimension_count.*max_alibi"):
        read_gguf(path)


def test_a_given_trained_length_goes_before_the_file(tmp_path):
    path = write(tmp_path / "a.gguf", "llama", sized(4, 256, 4, 8192))
    (found,) = read_gguf(path, trained_length=2048).groups
    assert (found.trained_length, found.trained_length_source) == (2048, "given")
    (found,) = read(str(path), trained_length=2048).groups
    assert found.trained_length == 2048


def test_divisors_that_are_not_llama3s_are_kept_as_they_are(tmp_path):
    divisors = [1.0] * 10 + [1.5, 2.5, 2.0] + [4.0] * 19
    found, codes = group(tmp_path, {}, {"rope_freqs.weight": divisors})
    assert found.repair.name == "longrope"
    for length in (1, 32768, 100_000):
        used = found.used(length)
        np.testing.assert_allclose(used.speed_kept, 1 / np.array(divisors), rtol=1e-12)
        assert used.amplitude == 1
    assert (found.trained_length, codes) == (32768, [])


def test_divisors_that_are_almost_llama3s_are_not_taken_for_them(tmp_path):
    divisors = llama3_divisors(LLAMA31, 64, 5e5)
    divisors[16] *= 1.01  # One between the first and the last of those that tell the corners.
    assert 1 < divisors[15] < divisors[16] < divisors[17] < 8
    keys = {"rope.freq_base": 5e5, "context_length": 131072}
    found, codes = group(tmp_path, keys, {"rope_freqs.weight": divisors})
    assert (found.repair.name, found.trained_length, codes) == ("longrope", 131072, [])
    np.testing.assert_allclose(found.used().speed_kept, 1 / divisors, rtol=1e-6)


def test_divisors_of_one_are_no_repair(tmp_path):
    found, codes = group(tmp_path, {}, {"rope_freqs.weight": [1.0] * 32})
    assert (found.repair, codes) == (None, [])


@pytest.mark.parametrize("length", [4096, 8192, 16384])
@pytest.mark.parametrize(("high", "factor"), [(4.0, 8.0), (2.0, 16.0), (8.0, 2.5)])
def test_llama3_is_recovered_from_its_divisors(tmp_path, length, high, factor):
    block = {
        **LLAMA31,
        "factor": factor,
        "high_freq_factor": high,
        "original_max_position_embeddings": length,
    }
    path = write(
        tmp_path / "a.gguf",
        "llama",
        sized(4, 512, 4, 131072, rope__freq_base=5e5),
        {"rope_freqs.weight": llama3_divisors(block, 128, 5e5)},
    )
    (found,) = read_gguf(path).groups
    assert found.repair.name == "llama3"
    assert found.repair.options["factor"] == factor
    assert found.repair.options["high_freq_factor"] == high
    assert found.trained_length == length


@pytest.mark.parametrize(
    ("keys", "tensors", "repair", "code"),
    [
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, {}, None, "factor_ignored"),
        ({"rope.scaling.type": "none"}, {}, None, None),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 0.0}, {}, None, None),
        ({"rope.scaling.factor": 1.0}, {}, None, None),
        ({"rope.scaling.factor": 0.25}, {}, None, "factor_below_one"),
        ({"rope.scaling.factor": -4.0}, {}, None, "wrong_type"),
        ({"rope.scaling.factor": float("nan")}, {}, None, "wrong_type"),
        ({"rope.scaling.type": "ntk", "rope.scaling.factor": 4.0}, {}, None, "unknown_type"),
        ({"rope.scaling.type": "longrope"}, {}, None, "missing_tensor"),
        (
            {**SCALED, "rope.scaling.original_context_length": 32769},
            {},
            "yarn",
            "original_above_stated",
        ),
        (
            {**SCALED, "rope.scaling.yarn_beta_fast": 1.0, "rope.scaling.yarn_beta_slow": 32.0},
            {},
            None,
            "bad_option",
        ),
        ({**SCALED, "rope.scaling.yarn_attn_factor": 1.3}, {}, "yarn", "amplitude_recomputed"),
        ({**SCALED, "rope.scaling.yarn_attn_factor": 1 + 0.1 * log(4)}, {}, "yarn", None),
        ({**SCALED, "rope.scaling.yarn_ext_factor": 0.5}, {}, "yarn", "ext_factor"),
        ({**SCALED, "rope.scaling.yarn_ext_factor": 0.0}, {}, "linear", None),
        ({}, {"rope_freqs.weight": [2.0] * 31}, None, "bad_option"),
        ({}, {"rope_freqs.weight": [0.0] * 32}, None, "bad_option"),
        ({}, {"rope_factors_long.weight": [2.0] * 31}, None, "bad_option"),
        ({}, {"rope_factors_long.weight": [float("inf")] * 32}, None, "bad_option"),
        ({"rope.freq_base": 0.5}, {}, None, "wrong_type"),
        ({"attention.sliding_window": 32768}, {}, None, None),
    ],
)
def test_what_is_asked_for(tmp_path, keys, tensors, repair, code):
    found, codes = group(tmp_path, keys, tensors)
    assert (found.repair and found.repair.name) == repair
    assert [each for each in codes if each != "window_unclear"] == ([code] if code else [])


def test_amplitudes_of_yarn(tmp_path):
    growth = 1 + 0.1 * log(4)
    for keys, amplitude in [
        ({}, growth),
        ({"rope.scaling.attn_factor": 0.5}, 0.5 * growth),
        ({"rope.scaling.yarn_attn_factor": 1.25}, 1.25),
        ({"rope.scaling.yarn_log_multiplier": 1.0}, 1.0),
    ]:
        found, _ = group(tmp_path, {"context_length": 131072} | SCALED | keys)
        assert found.used().amplitude == pytest.approx(amplitude, rel=1e-6)


def test_corners_that_llama_cpp_rounds_are_told_with_their_effect(tmp_path):
    _, file = both(MODELS["gpt-oss"], tmp_path)
    (problem,) = file.problems
    assert problem.code == "corners_rounded"
    block = {**MODELS["gpt-oss"].config["rope_scaling"], "truncate": False}
    trained = from_config({**MODELS["gpt-oss"].config, "rope_scaling": block}).groups[0].used()
    change = np.abs(file.groups[0].used().inverse_frequencies / trained.inverse_frequencies - 1)
    assert f"by up to {change.max():.0%} " in problem.consequence


def test_a_pattern_of_another_length_than_the_layers(tmp_path):
    keys = {"attention.sliding_window": 512, "attention.sliding_window_pattern": [True, False]}
    path = write(tmp_path / "a.gguf", "gemma3", sized(4, 256, 4, 8192) | keys)
    with pytest.raises(InputError, match=r"sliding_window_pattern has 2 entries.*block_count is 4"):
        read_gguf(path)


@pytest.mark.parametrize(("period", "full"), [(1, [0, 1, 2, 3]), (2, [1, 3]), (3, [2])])
def test_a_pattern_by_its_period(tmp_path, period, full):
    keys = {"attention.sliding_window": 512, "attention.sliding_window_pattern": period}
    path = write(tmp_path / "a.gguf", "gemma3", sized(4, 256, 4, 8192) | keys)
    groups = read_gguf(path).groups
    (found,) = [group for group in groups if group.window is None]
    assert (list(found.layers) if found.layers else [0, 1, 2, 3]) == full


def test_slopes_that_would_vanish(tmp_path):
    found, codes = group(tmp_path, {"attention.max_alibi_bias": 4096.0})
    assert (min(found.slopes), codes) == (2**-8, ["wrong_type"])


def test_heads_that_differ_by_layer(tmp_path):
    keys = {"attention.head_count": [2, 4, 0, 4]}
    path = write(tmp_path / "a.gguf", "llama", sized(4, 256, 4, 8192) | keys)
    assert read_gguf(path).head_dim == 64


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"embedding_length": 0}, r"head dimension.*attention\.key_length, and for"),
        ({"rope.dimension_count": 33}, r"rope\.dimension_count is 33.*even"),
        ({"block_count": 10**9}, "more than 10,000 layers"),
        ({".split.no": 1, ".split.count": 3}, "is part 2 of 3.*give that"),
    ],
)
def test_files_that_say_too_little(tmp_path, keys, message):
    path = write(tmp_path / "a.gguf", "llama", sized(4, 256, 4, 8192) | keys)
    with pytest.raises(InputError, match=message) as caught:
        read_gguf(path)
    assert str(path) in str(caught.value)


# Bytes


def test_the_header_is_what_the_gguf_package_reads(tmp_path):
    keys = sized(3, 64, 4, 8192, rope__freq_base=0.1, attention__head_count_kv=[1, 2, 4])
    keys |= {
        ".general.name": "naïve — 中",
        ".general.long": "x" * 5000,
        ".tokenizer.ggml.tokens": [f"token {i}" for i in range(300)],
        ".tokenizer.ggml.scores": [0.5] * 300,
        ".general.alignment": 64,
        "yes": True,
        "signed": [-1, 2],
        "many": list(range(LONGEST_ARRAY + 1)),
    }
    tensors = {
        "rope_freqs.weight": np.linspace(1, 8, 8),
        "blk.0.attn_q.weight": np.zeros((64, 64)),
        "output_norm.weight": np.arange(64),
    }
    path = write(tmp_path / "a.gguf", "llama", keys, tensors)
    header, oracle = read_header(path), gguf.GGUFReader(path)
    passed_over = set(oracle.fields) - set(header.metadata)
    assert {key for key in passed_over if not key.startswith("GGUF.")} == {
        "general.long",
        "llama.many",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
    }
    for key, value in header.metadata.items():
        theirs = oracle.fields[key].contents()
        if isinstance(value, float):
            assert np.float32(value) == theirs
        else:
            assert value == theirs
    assert header.metadata["llama.rope.freq_base"] == 0.1  # Not 0.10000000149011612.
    placed = {tensor.name: tensor for tensor in oracle.tensors}
    for name in ("rope_freqs.weight", "output_norm.weight"):
        assert header.tensors[name].offset == placed[name].data_offset
        assert header.tensors[name].shape == tuple(placed[name].shape)
        np.testing.assert_array_equal(np.float32(header.read(name)), placed[name].data)
    assert header.read("nothing") is None


def small(tmp_path: Path) -> bytes:
    keys = sized(4, 256, 4, 131072, rope__freq_base=5e5, attention__head_count_kv=[1, 2, 1, 2])
    keys |= SCALED | {".tokenizer.ggml.tokens": ["a", "bc", "def"], "scores": [0.1, 0.2]}
    return write(tmp_path / "a.gguf", "llama", keys, {"rope_freqs.weight": [2.0] * 32}).read_bytes()


def test_a_file_cut_off_anywhere_is_a_message(tmp_path):
    whole, path = small(tmp_path), tmp_path / "cut.gguf"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError) as caught:
            read_gguf(path)
        assert str(path) in str(caught.value)


@settings(max_examples=300)
@given(st.data())
def test_changed_bytes_are_a_message_or_another_model(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "mutated"
    folder.mkdir(exist_ok=True)
    whole = bytearray(small(folder))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        if data.draw(st.booleans()):
            whole[at] = data.draw(st.integers(0, 255))
        else:
            word = data.draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]))
            whole[at : at + 8] = struct.pack("<Q", word)
    path = folder / "changed.gguf"
    path.write_bytes(whole)
    start = time.perf_counter()
    with suppress(InputError):
        for group in read_gguf(path).groups:
            group.used(8192)
    assert time.perf_counter() - start < 2


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def head(
    body: bytes, *, version: int = 3, tensors: int = 0, keys: int = 1, order: str = "<"
) -> bytes:
    return b"GGUF" + struct.pack(order + "IQQ", version, tensors, keys) + body


HOSTILE = {
    "numbers without end": head(text(b"k") + struct.pack("<IIQ", 9, 0, 2**62)),
    "strings without end": head(text(b"k") + struct.pack("<IIQ", 9, 8, 2**62)),
    "numbers past 64 bits of bytes": head(text(b"k") + struct.pack("<IIQ", 9, 10, 2**61)),
    "an array in an array": head(text(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 99),
    "a string without end": head(text(b"k") + struct.pack("<IQ", 8, 2**63)),
    "a key without end": head(struct.pack("<Q", 2**63) + b"abc"),
    "keys without end": head(b"", keys=2**62),
    "the same key for ever": head(b"\0" * 6400, keys=2**62),
    "tensors without end": head(b"", tensors=2**62, keys=0),
    "a tensor of many dimensions": head(
        text(b"t") + struct.pack("<I", 2**31) + b"\0" * 99, tensors=1, keys=0
    ),
    "an unknown type": head(text(b"k") + struct.pack("<I", 77)),
    "an array of an unknown type": head(text(b"k") + struct.pack("<IIQ", 9, 77, 1)),
    "version 1": head(b"", version=1, keys=0),
    "version 99": head(b"", version=99, keys=0),
    "big-endian": head(b"", keys=0, order=">"),
    "no alignment": head(text(b"general.alignment") + struct.pack("<II", 4, 0)),
    "nothing": b"",
    "half a magic": b"GG",
    "no magic": b"PK\x03\x04" + b"\0" * 99,
    "before GGUF": b"tjgg" + b"\0" * 99,
    "Git LFS": b"version https://git-lfs.github.com/spec/v1\n",
    "no architecture": head(b"", keys=0),
    "an architecture of another type": head(
        text(b"general.architecture") + struct.pack("<II", 4, 7)
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_a_message(tmp_path, name):
    path = tmp_path / "a.gguf"
    path.write_bytes(HOSTILE[name])
    start = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read_gguf(path)
    assert time.perf_counter() - start < 1
    assert str(path) in str(caught.value)


def test_more_entries_than_any_model_has(tmp_path):
    path = tmp_path / "a.gguf"
    keys = b"".join(text(b"%06d" % i) + struct.pack("<IB", 0, 0) for i in range(WORK // 1000 + 1))
    path.write_bytes(head(keys, keys=WORK // 1000 + 1))
    with pytest.raises(InputError, match="more entries"):
        read_gguf(path)


@pytest.mark.parametrize(
    ("shape", "kind", "offset", "message"),
    [
        ((2**40,), 0, 0, "up to 65,536 floats"),
        ((32,), 8, 0, "type 8"),
        ((0,), 0, 0, "got 0"),
        ((), 8, 0, "type 8"),
        ((32,), 0, 0, "is cut off or broken: it ends in its tensor rope_freqs.weight"),
        ((32,), 0, 2**62, "is cut off or broken"),
        ((32,), 0, 2**64 - 1, "is cut off or broken"),
    ],
)
def test_a_tensor_that_cannot_be_the_divisors(tmp_path, shape, kind, offset, message):
    keys = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    keys += text(b"llama.rope.dimension_count") + struct.pack("<II", 4, 64)
    tensor = text(b"rope_freqs.weight") + struct.pack("<I", len(shape))
    tensor += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)
    path = tmp_path / "a.gguf"
    path.write_bytes(head(keys + tensor, keys=2, tensors=1))
    with pytest.raises(InputError, match=message):
        read_gguf(path)


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None])
def test_no_file(tmp_path, make):
    path = tmp_path / "a.gguf"
    make(path)
    with pytest.raises(InputError, match=r"a folder|not there"):
        read_gguf(path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="says how much memory was used")
def test_a_large_vocabulary_costs_little(tmp_path):
    """Keys may come after it, so that it cannot be left unread."""
    keys = sized(4, 256, 4, 8192)
    keys[".tokenizer.ggml.tokens"] = [f"token{i}" for i in range(150_000)]
    keys[".tokenizer.ggml.merges"] = [f"to ken{i}" for i in range(150_000)]
    path = write(tmp_path / "a.gguf", "llama", {**keys, "rope.freq_base": 5e5})
    code = (
        "import re, sys, time, pathlib\n"
        "from longreach.checkpoint.gguf import read_gguf\n"
        "start = time.perf_counter()\n"
        "print(read_gguf(pathlib.Path(sys.argv[1])).groups[0].base, time.perf_counter() - start)\n"
        # Not getrusage: its peak begins with that of the process it was forked from.
        "print(re.search(r'VmHWM:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    base, seconds, kilobytes = done.stdout.split()
    assert float(base) == 5e5
    assert float(seconds) < 2
    assert int(kilobytes) < 60_000
