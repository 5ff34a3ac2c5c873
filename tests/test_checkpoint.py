"""What configs say: real families, transformers as oracle, and mistakes named with consequences."""

from __future__ import annotations

import importlib
import inspect
from math import pi
from typing import Any

import numpy as np
import pytest
import transformers
from transformers import AutoConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from longreach.checkpoint import Checkpoint, from_config
from longreach.checkpoint.blocks import OPTIONS
from longreach.checkpoint.families import FAMILIES
from longreach.errors import InputError
from longreach.repairs import REPAIRS, Repair, option_names

from .configs import LLAMA, PHI3, QWEN3, REAL, YARN, gemma3_form


def codes(checkpoint: Checkpoint) -> list[str]:
    return [problem.code for problem in checkpoint.problems]


def the(checkpoint: Checkpoint, code: str) -> str:
    """Message and consequence of the only problem of that code."""
    (problem,) = [each for each in checkpoint.problems if each.code == code]
    return f"{problem.message} | {problem.consequence}"


@pytest.mark.parametrize("name", REAL)
def test_a_released_config_is_read_as_it_was_trained(name):
    config, rotary_dim, base, trained, never, first, slowest = REAL[name]
    (group,) = from_config(config, name).groups
    assert (group.kind, group.rotary_dim, group.base) == ("rope", rotary_dim, base)
    assert group.trained_length == trained
    slow = np.flatnonzero(group.spectrum.never_completed(trained))
    assert (len(slow), slow[0]) == (never, first)
    # In another form: the rule itself, 2 pi base^(2i/d) > window.
    assert never == sum(
        2 * pi * base ** (2 * i / rotary_dim) > trained for i in range(rotary_dim // 2)
    )
    assert group.spectrum.wavelengths[-1] == pytest.approx(slowest, rel=1e-8)


NO_ROTARY_MODULE = {"exaone", "gptj", "codegen"}
"""Transformers 5.24 has no such module for them: remote code only, or another form of it."""

ODD_BY_DEFAULT = {"glm4_moe"}
"""The class's default sizes turn 21 dimensions of a head, which form no pairs; no model does."""

REPAIRED_BY_DEFAULT = {"apertus", "gpt_oss", "mistral4", "gemma4_text"}
"""An empty config gets a block of another type from the class; no released file is without."""

TURNED = sorted(
    name
    for name, family in FAMILIES.items()
    if family.kind == "rope" and name in CONFIG_MAPPING
    if name not in NO_ROTARY_MODULE | ODD_BY_DEFAULT
)


def theirs(name: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """A default config of transformers, and the spectra that its rotary module makes."""
    transformers.logging.set_verbosity_error()
    config = AutoConfig.for_model(name)
    text = config.get_text_config()
    module = importlib.import_module(type(text).__module__.replace("configuration_", "modeling_"))
    rotary = next(
        kind
        for label, kind in vars(module).items()
        if label.endswith("RotaryEmbedding") and "Vision" not in label and inspect.isclass(kind)
    )
    made = [
        buffer.double().numpy()
        for label, buffer in rotary(config=text).named_buffers()
        if label.endswith("inv_freq") and "original" not in label
    ]
    return config.to_dict(), [each[each > 0] for each in made]


@pytest.mark.parametrize(
    ("name", "stripped"),
    [(name, False) for name in TURNED]
    + [(name, True) for name in TURNED if name not in REPAIRED_BY_DEFAULT],
)
def test_every_known_family_has_the_spectrum_that_transformers_gives_it(name, stripped):
    """Stripped of its rope block, the family's own defaults (base, part of the head) must do."""
    config, spectra = theirs(name)
    if stripped:
        del config.get("text_config", config)["rope_parameters"]
    made = [group.used() for group in from_config(config, name).groups if group.kind == "rope"]
    assert spectra
    for spectrum in spectra:
        assert any(
            used.pairs == len(spectrum)
            and np.allclose(used.inverse_frequencies, spectrum, rtol=1e-5, atol=0)
            for used in made
        ), f"none of the bases {[used.base for used in made]} is transformers'"


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].kind != "rope"])
def test_a_family_without_rope_is_read_from_its_name_alone(name):
    sizes = {"num_attention_heads": 8, "hidden_size": 64}
    (group,) = from_config({"model_type": name, **sizes}).groups
    assert group.kind == FAMILIES[name].kind
    assert group.spectrum is None


def test_what_a_block_may_set_are_options_of_the_repair_of_its_name():
    for kind, names in OPTIONS.items():
        assert kind in REPAIRS
        assert set(names) <= set(option_names(kind))


# ---- forms -------------------------------------------------------------------------------------


def test_the_two_forms_of_transformers_say_the_same():
    old = from_config({**QWEN3, "rope_scaling": YARN})
    new = from_config(
        {
            **{key: value for key, value in QWEN3.items() if key != "rope_theta"},
            "rope_parameters": {**YARN, "rope_theta": 1000000.0},
        }
    )
    assert (old.dialect, new.dialect) == ("transformers4", "transformers5")
    np.testing.assert_array_equal(
        old.groups[0].used().inverse_frequencies, new.groups[0].used().inverse_frequencies
    )
    assert old.groups[0].repair == new.groups[0].repair


@pytest.mark.parametrize(
    "spelling",
    ["partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent", "rope_percent"],
)
def test_every_spelling_of_partial_rotary_is_read(spelling):
    assert from_config({**LLAMA, spelling: 0.25}).groups[0].rotary_dim == 32


def test_partial_rotary_inside_a_block_is_read():
    block = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    config = {**LLAMA, "rope_parameters": block}
    assert from_config(config).groups[0].rotary_dim == 64


def test_a_model_of_text_and_images_is_read_by_its_text_part():
    config = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 7}}
    found = from_config(config)
    assert (found.model_type, found.groups[0].rotary_dim) == ("llama", 128)


@pytest.mark.parametrize("form", ["v4", "v5"])
def test_gemma_3_has_local_layers_of_another_base_and_only_global_ones_are_repaired(form):
    found = from_config(gemma3_form(form))
    local, full = found.groups
    assert full.layers == (5, 11, 17, 23, 29)
    assert len(local.layers) == 29
    assert (local.base, local.window, local.repair) == (1e4, 1024, None)
    assert (full.base, full.window, full.trained_length) == (1e6, None, 32768)
    assert str(full.repair) == "linear:factor=8.0"
    assert full.used().local_resolution == pytest.approx(0.125)
    assert not found.problems


def test_layers_that_llama_4_does_not_turn_are_told_apart_from_chunked_ones():
    config = {
        "model_type": "llama4_text", "head_dim": 128, "num_hidden_layers": 48,
        "hidden_size": 5120, "num_attention_heads": 40, "max_position_embeddings": 10485760,
        "rope_theta": 500000.0, "no_rope_layers": [], "attention_chunk_size": 8192,
        "attn_scale": 0.1, "floor_scale": 8192,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
            "high_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        },
    }  # fmt: skip
    found = from_config(config)
    turned, free = found.groups
    assert (turned.kind, turned.window, turned.window_kind) == ("rope", 8192, "chunked")
    assert (free.kind, free.layers) == ("nope", tuple(range(3, 48, 4)))
    assert "1 + 0.1 ln(1 + floor((position + 1) / 8192))" in free.temperature
    assert found.problems == ()  # Alike frequency factors are a step, not a mistake.


def test_a_mark_of_1_in_no_rope_layers_means_that_the_layer_is_turned():
    config = {
        **LLAMA, "model_type": "smollm3", "num_hidden_layers": 8,
        "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0],
    }  # fmt: skip
    turned, free = from_config(config).groups
    assert (turned.kind, turned.layers) == ("rope", (0, 1, 2, 4, 5, 6))
    assert (free.kind, free.layers) == ("nope", (3, 7))
    del config["no_rope_layers"]
    assert from_config(config).groups[1].layers == (3, 7)


def test_command_r7b_turns_only_the_layers_that_slide():
    config = {**LLAMA, "model_type": "cohere2", "sliding_window": 1024, "sliding_window_pattern": 4}
    local, full = from_config(config).groups
    assert (local.kind, local.window) == ("rope", 1024)
    assert (full.kind, full.layers) == ("nope", (3, 7, 11, 15, 19, 23, 27, 31))


def test_a_window_that_is_no_narrower_than_the_context_is_none():
    (group,) = from_config({**LLAMA, "model_type": "mistral", "sliding_window": 4096}).groups
    assert group.window is None
    (group,) = from_config({**LLAMA, "model_type": "mistral", "sliding_window": 4095}).groups
    assert (group.window, group.trained_length) == (4095, 4095)


def test_qwen_2_slides_only_if_it_is_told_to_and_only_from_a_layer_on():
    config = {**LLAMA, "model_type": "qwen2", "sliding_window": 1024, "max_window_layers": 30}
    assert len(from_config(config).groups) == 1
    full, local = from_config({**config, "use_sliding_window": True}).groups
    assert (full.window, local.window, local.layers) == (None, 1024, (30, 31))


def test_latent_attention_has_a_softmax_factor_beside_the_amplitude():
    """DeepSeek-V3: cos and sin by 1, softmax by 1.8738542."""
    config = {
        "model_type": "deepseek_v3", "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
        "max_position_embeddings": 163840, "rope_theta": 10000,
        "rope_scaling": {
            "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
            "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
        },
    }  # fmt: skip
    found = from_config(config)
    (group,) = found.groups
    assert group.used().amplitude == 1.0
    assert group.softmax_factor == pytest.approx(1.87385420709, rel=1e-10)
    assert group.used().inverse_frequencies[-1] == pytest.approx(3.33380358e-06, rel=1e-8)
    assert not found.problems
    plain = {**QWEN3, "max_position_embeddings": 131072, "rope_scaling": YARN}
    assert from_config(plain).groups[0].softmax_factor == 1


@pytest.mark.parametrize(
    ("config", "first", "last"),
    [
        ({"model_type": "bloom", "n_head": 32, "seq_length": 2048}, 2**-0.25, 2**-8),
        ({"model_type": "bloom", "n_head": 6, "seq_length": 2048}, 0.25, 0.125),
        (
            {
                "model_type": "mpt",
                "n_heads": 32,
                "max_seq_len": 2048,
                "attn_config": {"alibi": True},
            },
            0.840896415,
            0.00390625,
        ),
        (
            {
                "model_type": "mpt",
                "n_heads": 32,
                "max_seq_len": 2048,
                "attn_config": {"alibi": True, "alibi_bias_max": 16},
            },
            0.707106781,
            1.52587890625e-05,
        ),
        ({"model_type": "falcon", "alibi": True, "num_attention_heads": 64}, 2**-0.125, 2**-8),
    ],
)
def test_alibi_models_have_their_slopes(config, first, last):
    (group,) = from_config(config).groups
    assert group.kind == "alibi"
    assert group.trained_length == 2048
    assert group.slopes[0] == pytest.approx(first, rel=1e-8)
    assert group.slopes[-1] == pytest.approx(last, rel=1e-8)


@pytest.mark.parametrize("heads", [6, 12, 32])
def test_mpt_and_bloom_agree_for_any_head_count(heads):
    mpt = {"model_type": "mpt", "n_heads": heads, "attn_config": {"alibi": True}}
    bloom = {"model_type": "bloom", "n_head": heads}
    assert from_config(mpt).groups[0].slopes == from_config(bloom).groups[0].slopes


def test_baichuan_13b_has_alibi_and_7b_has_rope():
    sizes = {"hidden_size": 5120, "num_attention_heads": 40}
    big = {"model_type": "baichuan", "model_max_length": 4096, **sizes}
    small = {**big, "hidden_size": 4096, "num_attention_heads": 32}
    assert from_config(big).groups[0].kind == "alibi"
    assert from_config(small).groups[0].kind == "rope"


def test_a_learned_table_ends_at_its_last_row_and_t5_has_buckets():
    (table,) = from_config({"model_type": "gpt2", "n_positions": 1024, "n_ctx": 1024}).groups
    assert (table.kind, table.limit) == ("learned", 1024)
    (buckets,) = from_config({"model_type": "t5", "relative_attention_num_buckets": 32}).groups
    assert (buckets.kind, buckets.buckets, buckets.max_distance) == ("t5", 32, 128)


def test_an_unknown_family_with_the_standard_keys_is_read():
    found = from_config({**LLAMA, "model_type": "brand_new"})
    assert (found.model_type, found.groups[0].rotary_dim) == ("brand_new", 128)


def test_an_unknown_family_without_them_says_which_keys_it_looked_for():
    with pytest.raises(InputError, match=r"'brand_new'.*rope_theta.*rotary_pct.*alibi"):
        from_config({"model_type": "brand_new", "hidden_size": 64})


def test_a_given_trained_length_overrules_the_config():
    (group,) = from_config(LLAMA, trained_length=2048).groups
    assert (group.trained_length, group.trained_length_source) == (2048, "given")


# ---- windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "trained"),
    [
        ({"rope_scaling": YARN}, 32768),
        ({"model_type": "qwen2", "max_position_embeddings": 131072}, 32768),
        ({"max_position_embeddings": 262144, "rope_theta": 5e6}, 262144),
    ],
)
def test_the_window_of_pre_training_is_told_from_the_one_that_is_stated(extra, trained):
    assert from_config({**QWEN3, **extra}).groups[0].trained_length == trained


def test_two_windows_in_one_config_are_named_and_the_smaller_is_taken():
    found = from_config({**LLAMA, "max_position_embeddings": 8192, "model_max_length": 131072})
    assert "max_position_embeddings 8,192, model_max_length 131,072" in the(found, "two_windows")
    assert found.groups[0].trained_length == 8192


@pytest.mark.parametrize(
    ("stated", "factor", "trained"), [(16384, 8.0, 2048), (16384, 4.0, 4096), (4096, 4.0, 4096)]
)
def test_a_model_that_is_interpolated_already_is_told_from_one_to_be(stated, factor, trained):
    """LongChat-16k, DeepSeek-Coder, Vicuna-16k: published linear blocks, with one number."""
    block = {"type": "linear", "factor": factor}
    found = from_config({**LLAMA, "max_position_embeddings": stated, "rope_scaling": block})
    assert found.groups[0].trained_length == trained
    assert f"{stated:,}" in the(found, "window_unclear")


# ---- mistakes -----------------------------------------------------------------------------------


def test_a_pasted_block_that_loses_the_base_is_told_with_both_bases():
    """unslothai/unsloth#7028: perplexity 13.8 became 11,316."""
    config = {
        "model_type": "qwen3", "head_dim": 128, "max_position_embeddings": 40960,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "rope_scaling": YARN,
    }  # fmt: skip
    found = from_config(config)
    told = the(found, "theta_dropped")
    assert "becomes 10000" in told
    assert "54,410 tokens instead of 5,063,256" in told
    (group,) = found.groups
    assert group.base == 1e6  # What the model was trained with...
    config_of_theirs = AutoConfig.for_model(
        "qwen3",
        head_dim=128,
        max_position_embeddings=40960,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        rope_scaling=dict(YARN),
    )
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    made = Qwen3RotaryEmbedding(config_of_theirs).inv_freq.double().numpy()
    # ... and what the config makes of it.
    np.testing.assert_allclose(group.used().inverse_frequencies, made, rtol=1e-5)


def test_a_pasted_block_that_brings_its_base_is_only_a_double():
    config = {
        **QWEN3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "rope_scaling": YARN,
    }
    found = from_config(config)
    assert "alias_blocks" in codes(found)
    assert "theta_dropped" not in codes(found)
    assert found.groups[0].misread is None


def test_a_factor_that_the_lengths_contradict_is_told_with_both_effects():
    """huggingface/transformers#38224: up to 4.55 the ratio was applied, from 4.56 on the factor."""
    told = the(from_config({**QWEN3, "rope_scaling": YARN}), "factor_disagrees")
    for number in ("1.25", "1.022314", "1.138629", "131,072"):
        assert number in told


MISTAKES = {
    "factor_below_one": ({"rope_type": "linear", "factor": 0.25}, "4 times faster"),
    "factor_not_a_number": ({"rope_type": "linear", "factor": "four"}, "'four'"),
    "factor_missing": ({"rope_type": "linear"}, "no factor"),
    "factor_ignored": ({"rope_type": "default", "factor": 4.0}, "does nothing"),
    "type_missing": ({"factor": 4.0}, "neither rope_type nor type"),
    "unknown_type": ({"rope_type": "yarm", "factor": 4.0}, "did you mean 'yarn'?"),
    "conflicting_types": (
        {"rope_type": "yarn", "type": "linear", "factor": 4.0},
        "transformers 5 takes rope_type, 4.57 takes type",
    ),
    "unknown_key": (
        {**YARN, "original_max_position_embedding": 4096},
        "did you mean 'original_max_position_embeddings'?",
    ),
    "betas_swapped": ({**YARN, "beta_fast": 1, "beta_slow": 32}, "run backwards"),
    "bad_option": ({**YARN, "truncate": "no"}, "truncate must be true or false"),
    "mscale_alone": ({**YARN, "mscale": 0.707}, "1.138629"),
    "original_missing": ({"rope_type": "yarn", "factor": 4.0}, "40,960"),
    "original_above_stated": ({**YARN, "original_max_position_embeddings": 65536}, "65,536"),
    "wrong_type": ({**YARN, "rope_type": 7}, "7"),
    "engine_type": ({"rope_type": "ntk", "factor": 4.0}, "only vLLM knows it"),
    "length_not_raised": (
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 40960,
        },
        "40,960",
    ),
    "missing_key": (
        {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
        "low_freq_factor, high_freq_factor",
    ),
    "two_bases": ({**YARN, "rope_theta": 10000.0}, "transformers 5 takes 10000, 4.x takes 1e+06"),
}
"""A block in a Qwen3 config that makes each problem, and words that its report must have."""


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_in_a_block_is_named_with_its_consequence(code):
    block, words = MISTAKES[code]
    assert words in the(from_config({**QWEN3, "rope_scaling": block}), code)


@pytest.mark.parametrize("code", [*MISTAKES, None])
def test_a_correct_block_is_not_accused(code):
    block, stated = dict(YARN), 131072
    found = from_config({**QWEN3, "max_position_embeddings": stated, "rope_scaling": block})
    assert code not in codes(found)


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ({**YARN, "factor": 1e308}, "factor_not_a_number"),
        (
            {
                "rope_type": "longrope",
                "long_factor": [2.0] * 64,
                "short_factor": [1.0] * 64,
                "attention_factor": ["x"],
            },
            "bad_option",
        ),
    ],
)
def test_values_out_of_all_bounds_are_named(block, code):
    assert code in codes(from_config({**QWEN3, "rope_scaling": block}))


def test_attn_factor_is_another_engines_word():
    told = the(from_config({**QWEN3, "rope_scaling": {**YARN, "attn_factor": 1.0}}), "unknown_key")
    assert "vLLM up to 0.29 and SGLang" in told


@pytest.mark.parametrize(("count", "wrong"), [(47, True), (48, False), (64, True)])
def test_lists_of_the_wrong_length_are_told_with_the_right_one(count, wrong):
    block = {"rope_type": "longrope", "long_factor": [2.0] * count, "short_factor": [1.0] * 48}
    found = from_config({**PHI3, "rope_scaling": block})
    assert ("list_length" in codes(found)) == wrong
    if wrong:
        assert f"has {count} numbers, and 48 pairs" in the(found, "list_length")
        assert found.groups[0].repair is None


def test_longrope_takes_the_long_list_from_the_first_token_past_the_trained_length():
    long, short = [1.0 + i for i in range(48)], [1.0] * 48
    block = {"type": "su", "long_factor": long, "short_factor": short}
    found = from_config({**PHI3, "rope_scaling": block})
    (group,) = found.groups
    assert group.trained_length == 4096
    assert group.used(4096).speed_kept[-1] == 1
    assert group.used(4097).speed_kept[-1] == pytest.approx(1 / 48)
    for length in (4096, 4097):
        assert group.used(length).amplitude == pytest.approx(1.19023807142, rel=1e-10)
    assert "KeyError" in the(found, "type_su")


def test_dynamic_takes_the_stated_length_as_trained_whatever_else_is_said():
    """LLaMA-Factory 0.9.5 writes such blocks; huggingface's formula then changes nothing."""
    block = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 4096}
    found = from_config({**LLAMA, "max_position_embeddings": 16384, "rope_scaling": block})
    (group,) = found.groups
    assert group.trained_length == 4096
    assert group.used(16384).base == 10000.0
    assert "16,384" in the(found, "dynamic_window")
    (plain,) = from_config(
        {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    ).groups
    assert plain.used(16384).base == pytest.approx(135401.973042, rel=1e-9)


@pytest.mark.parametrize("factor", [1, 1.0])
def test_a_factor_of_one_is_a_repair_where_the_length_or_lists_decide(factor):
    block = {"rope_type": "dynamic", "factor": factor}
    (group,) = from_config({**LLAMA, "rope_scaling": block}).groups
    assert group.repair == Repair("dynamic", {"factor": 1.0})
    assert group.used(4 * group.original_length).base > group.base
    lists = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    block = {"rope_type": "longrope", "factor": factor, **lists}
    (group,) = from_config({**LLAMA, "rope_scaling": block}).groups
    assert group.repair.options["long_factor"] == [2.0] * 64
    block = {"rope_type": "linear", "factor": factor}
    (group,) = from_config({**LLAMA, "rope_scaling": block}).groups
    assert group.repair is None


def test_hunyuan_writes_a_fixed_change_of_base_as_dynamic_with_alpha():
    block = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    config = {**LLAMA, "max_position_embeddings": 32768, "rope_scaling": block}
    (group,) = from_config({**config, "model_type": "hunyuan_v1_dense"}).groups
    assert group.used().base == pytest.approx(10000 * 1000 ** (128 / 126), rel=1e-9)


def test_blocks_by_layer_type_and_keys_beside_them_are_told():
    config = gemma3_form("v5")
    config["rope_parameters"]["factor"] = 4.0
    assert "factor" in the(from_config(config), "mixed_block")


def test_truncate_in_a_block_by_layer_type_is_told_to_be_ignored():
    """gpt-oss's numbers: pair 9 turns 0.0316207523 instead of 0.0317056962 radians per token."""
    block = {
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "truncate": False,
        "original_max_position_embeddings": 4096,
    }  # fmt: skip
    config = {
        **LLAMA, "head_dim": 64, "max_position_embeddings": 131072,
        "rope_parameters": {"full_attention": block},
    }  # fmt: skip
    del config["rope_theta"]
    found = from_config(config)
    assert "ignores it in a block by layer type" in the(found, "nested_truncate")
    assert found.groups[0].used().inverse_frequencies[9] == pytest.approx(0.0317056962, rel=1e-8)
    flat = {**config, "rope_parameters": block}
    assert codes(from_config(flat)) == []


@pytest.mark.parametrize("family", ["mistral", "mixtral"])
def test_mistrals_without_head_dim_are_told_what_stops_them(family):
    block = {**YARN, "original_max_position_embeddings": 4096}
    config = {
        **LLAMA,
        "model_type": family,
        "max_position_embeddings": 16384,
        "rope_scaling": block,
    }
    assert "write head_dim 128" in the(from_config(config), "head_dim_null")
    assert codes(from_config({**config, "head_dim": 128})) == []


def test_qwen_1_says_what_its_own_code_does():
    config = {
        "model_type": "qwen",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "seq_length": 8192,
    }
    (group,) = from_config({**config, "use_dynamic_ntk": True, "use_logn_attn": True}).groups
    assert len(group.notes) == 2


def test_a_float_where_a_whole_number_belongs_is_told_and_read():
    found = from_config({**LLAMA, "max_position_embeddings": 8192.0})
    assert "transformers 5 refuses" in the(found, "float_for_integer")
    assert found.groups[0].trained_length == 8192


def test_layer_types_of_another_length_than_the_layers_are_told():
    found = from_config({**LLAMA, "layer_types": ["full_attention"] * 3})
    assert "3 entries, and num_hidden_layers is 32" in the(found, "layer_types_length")


def test_a_repair_for_a_model_without_rope_is_told_to_do_nothing():
    found = from_config({"model_type": "gpt2", "n_positions": 1024, "rope_scaling": YARN})
    assert "does nothing" in the(found, "nothing_to_turn")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"head_dim": 127}, "127"),
        ({"hidden_size": None}, "looked for head_dim"),
        ({"num_hidden_layers": 10**9}, "more than 10,000 layers"),
        ({"rotary_dim": 3}, "rotary_dim is 3"),
    ],
)
def test_a_config_that_is_no_models_is_refused(change, words):
    with pytest.raises(InputError, match=words):
        from_config({**LLAMA, **change})


def test_a_list_is_no_config():
    with pytest.raises(InputError, match="one JSON object"):
        from_config([1, 2])  # type: ignore[arg-type]
