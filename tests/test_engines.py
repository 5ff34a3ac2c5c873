"""Engines: every engine answers for every repair and kind of model, and what it answers is right.

Blocks for transformers are checked by transformers itself, in two major versions. Other engines
are held to behaviour seen in public reports or by running their code: each case names its source.
"""

from __future__ import annotations

import copy
import json
import shlex
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from longreach.checkpoint import Checkpoint, from_config
from longreach.cli import main
from longreach.engines import ENGINES, Prescription, Reading, bare_block, find, prescribe, verify
from longreach.engines.block import completed
from longreach.errors import InputError
from longreach.repairs import REPAIRS, Repair
from longreach.spectrum import Extension, Spectrum

from .engine_parity import built

SHAPE = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 12}
LLAMA2 = {**SHAPE, "model_type": "llama", "max_position_embeddings": 4096, "rope_theta": 10000.0}
QWEN3 = {
    **SHAPE,
    "model_type": "qwen3",
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
}
YARN4 = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LISTS = {"short_factor": [1.0] * 48, "long_factor": [1.0 + i for i in range(48)]}
MIXTRAL = {
    **SHAPE,
    "model_type": "mixtral",
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "sliding_window": None,
}
GEMMA3 = {
    **SHAPE,
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "sliding_window": 1024,
    "sliding_window_pattern": 6,
}

# Kinds of model: how they are told positions, who wrote their config, what is scaled already.
MODELS: dict[str, dict[str, Any]] = {
    "llama2": LLAMA2,
    "qwen3": QWEN3,
    "qwen3, version 5": {
        **{key: value for key, value in QWEN3.items() if not key.startswith("rope")},
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    },
    "llama 3.1": {
        **LLAMA2,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    },
    "gemma3": {
        **GEMMA3,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    "gemma3, version 5": {
        **GEMMA3,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "phi3": {
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "num_hidden_layers": 4,
        "model_type": "phi3",
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "longrope", **LISTS},
    },
    "deepseek_v3": {
        **SHAPE,
        "model_type": "deepseek_v3",
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "kv_lora_rank": 512,
        "max_position_embeddings": 163840,
        "rope_theta": 10000,
        "rope_scaling": {
            "type": "yarn",
            "factor": 40,
            "original_max_position_embeddings": 4096,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "beta_fast": 32,
            "beta_slow": 1,
        },
    },
    "gpt-neox": {
        "model_type": "gpt_neox",
        "hidden_size": 6144,
        "num_attention_heads": 64,
        "num_hidden_layers": 4,
        "rotary_pct": 0.25,
        "rotary_emb_base": 10000,
        "max_position_embeddings": 2048,
    },
    "gpt-oss": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "head_dim": 64,
        "num_hidden_layers": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "max_position_embeddings": 131072,
        "rope_theta": 150000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
        },
    },
    "mixtral": MIXTRAL,
}

# Every repair, and options that some engines do not read.
ASKED = [
    "linear",
    "ntk",
    "dynamic",
    "dynamic:factor=2",
    "ntk_by_parts",
    "yarn",
    "yarn:ramp=turns",
    "yarn:truncate=false",
    "yarn:attention_factor=1.0",
    "yarn:beta_fast=16,mscale=0.707,mscale_all_dim=0.5",
    "dynamic_yarn",
    "llama3",
    "longrope",
    "longrope:attention_factor=1.1",
    "base:base=5000000.0",
]

VERSIONS = {
    "transformers": ["4.43", "4.45", "4.48", "4.51", "4.55", "4.56", "4.57.6", "5.0", "5.24.0"],
    "vllm": ["0.11.0", "0.11.1", "0.29.0", "0.30.0", "0.33.0"],
}
SPECS = [
    f"{engine}=={version}" if version else engine
    for engine in ENGINES
    for version in VERSIONS.get(engine, [""])
]


def repair_for(text: str, spectrum: Spectrum) -> Repair:
    """The repair; longrope's list has one number per pair."""
    name, _, options = text.partition(":")
    if name != "longrope":
        return Repair.parse(text)
    count = spectrum.pairs
    given = dict(Repair.parse(f"longrope:long_factor=[1],{options}".rstrip(",")).options)
    given["long_factor"] = [1 + 3 * i / count for i in range(count)]
    return Repair("longrope", given)


@cache
def checkpoint_of(config: str) -> Checkpoint:
    return from_config(json.loads(config))


def setting(config: dict[str, Any], text: str, factor: float = 4.0):
    checkpoint = checkpoint_of(json.dumps(config))
    group = checkpoint.unbounded[0]
    window = group.trained_length
    return checkpoint, repair_for(text, group.spectrum), Extension(window, int(window * factor))


def wanted(checkpoint: Checkpoint, repair: Repair, extension: Extension) -> Spectrum:
    group = checkpoint.unbounded[0]
    return completed(repair, group).apply(group.spectrum, extension)


def words(prescription: Prescription) -> dict[str, Any]:
    """The flags of a prescription, JSON read."""
    found = shlex.split(prescription.flags or "")
    pairs = dict(zip(found[::2], found[1::2], strict=True))
    return {key: json.loads(value) if value[0] == "{" else value for key, value in pairs.items()}


def read_back(
    config: dict[str, Any], prescription: Prescription, spec: str, length: int
) -> Reading | None:
    """What the engine makes of the prescription; None where it is no matter of a config."""
    engine = prescription.engine
    if engine in ("transformers", "tgi"):
        if prescription.block is None:
            return None
        return verify(from_config({**config, **prescription.block}), spec, length=length)
    if engine == "axolotl":
        overrides = prescription.block["overrides_of_model_config"]
        return verify(from_config(config), spec, override=overrides)
    if engine == "vllm" and "0.11.0" in spec:
        return verify(from_config(old_vllm(config, words(prescription))), spec, length=length)
    if engine in ("vllm", "sglang"):
        flag = {"vllm": "--hf-overrides", "sglang": "--json-model-override-args"}[engine]
        overrides = words(prescription)[flag]
        return verify(from_config(config), spec, length=length, override=overrides)
    return None


def old_vllm(config: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The config as --rope-scaling and --rope-theta change it."""
    base = from_config(config).unbounded[0].base
    key = "rotary_emb_base" if config["model_type"] == "gpt_neox" else "rope_theta"
    kept = {name: value for name, value in config.items() if name != "rope_parameters"}
    return {
        **kept,
        **flags.get("--hf-overrides", {}),
        "rope_scaling": flags.get("--rope-scaling"),
        key: float(flags.get("--rope-theta", base)),
    }


# Laws, for every engine, version, model and repair.


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("spec", SPECS)
def test_every_repair_is_expressed_or_refused_with_a_reason(spec, model):
    for text in ASKED:
        checkpoint, repair, extension = setting(MODELS[model], text)
        found = prescribe(checkpoint, repair, extension, spec)
        as_json = json.loads(json.dumps(found.as_json()))
        assert {"engine", "version", "notes", "refused"} <= set(as_json)
        ways = [way for way in ("block", "flags", "command") if as_json.get(way)]
        if found.refused is None:
            assert ways
            # The length is said, in one place or another.
            told = json.dumps(found.as_json())
            assert str(extension.target_length) in told or repair.name == "dynamic"
        else:
            assert not ways
            assert len(found.refused) > 60  # What it can do instead is told too.
        assert all(note.endswith((".", ")")) for note in found.notes)
    assert checkpoint.config == MODELS[model]  # Nothing is changed on the way.


def test_the_repairs_asked_for_are_all_there_are():
    assert {text.partition(":")[0] for text in ASKED} == set(REPAIRS)


@pytest.mark.parametrize("factor", [4.0, 6000 / 4096])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("spec", SPECS)
def test_what_is_prescribed_reads_back_as_the_repair(spec, model, factor):
    config = MODELS[model]
    for text in ASKED:
        checkpoint, repair, extension = setting(config, text, factor)
        found = prescribe(checkpoint, repair, extension, spec)
        if found.refused is not None:
            continue
        length = extension.target_length
        # A trainer is not asked for one length.
        reading = read_back(config, found, spec, length) if text[:7] != "dynamic" else None
        if reading is None:
            continue
        expected = wanted(checkpoint, repair, extension)
        assert reading.fails is None, (text, reading.fails)
        np.testing.assert_allclose(
            reading.inverse_frequencies, expected.inverse_frequencies, rtol=1e-6, err_msg=text
        )
        assert reading.amplitude == pytest.approx(expected.amplitude, rel=1e-6), text
        if found.engine in ("vllm", "sglang"):
            assert reading.max_length == length


@pytest.mark.parametrize("model", MODELS)
def test_version_5_blocks_hold_their_base_and_version_4_blocks_are_flat(model):
    checkpoint, repair, extension = setting(MODELS[model], "yarn:truncate=false")
    base = checkpoint.unbounded[0].base
    for spec in ("transformers==5", "vllm", "sglang"):
        found = prescribe(checkpoint, repair, extension, spec)
        if found.refused:
            continue
        told = found.block or next(iter(words(found).values()))
        block = told.get("rope_parameters") or told.get("rope_scaling")
        assert (block.get("full_attention") or block)["rope_theta"] == base
        assert told["max_position_embeddings"] == extension.target_length
    old = prescribe(checkpoint, repair, extension, "transformers==4.57")
    if old.refused is None:
        assert not any(isinstance(each, dict) for each in old.block["rope_scaling"].values())


def test_only_full_attention_is_repaired_where_blocks_are_by_layer_type():
    local = {"rope_type": "default", "rope_theta": 10000.0}
    for model in ("gemma3", "gemma3, version 5"):
        checkpoint, repair, extension = setting(MODELS[model], "yarn")
        block = prescribe(checkpoint, repair, extension, "transformers==5").block
        assert block["rope_parameters"]["sliding_attention"] == local
        assert block["rope_parameters"]["full_attention"]["rope_type"] == "yarn"


def test_the_turned_part_of_a_head_stays_in_version_5_blocks():
    for spec in ("transformers==5", "vllm", "sglang"):
        found = prescribe(*setting(MODELS["gpt-neox"], "yarn"), spec)
        told = found.block or next(iter(words(found).values()))
        block = told.get("rope_parameters") or told.get("rope_scaling")
        assert block["partial_rotary_factor"] == 0.25


def test_a_repair_replaces_the_one_that_is_there():
    found = prescribe(*setting(MODELS["llama 3.1"], "yarn"), "transformers==4.57")
    assert found.block["rope_scaling"]["original_max_position_embeddings"] == 8192
    assert found.block["max_position_embeddings"] == 32768
    assert any("has a repair already" in note for note in found.notes)


def test_multi_head_latent_attention_keeps_its_mscale():
    found = prescribe(*setting(MODELS["deepseek_v3"], "yarn"), "transformers==4.57")
    assert found.block["rope_scaling"]["mscale"] == 1.0
    assert found.block["rope_scaling"]["mscale_all_dim"] == 1.0
    other = prescribe(*setting(MODELS["deepseek_v3"], "yarn:attention_factor=1.5"), "transformers")
    assert "mscale" not in other.block["rope_parameters"]


def test_a_mrope_section_stays():
    """Qwen2-VL's own block, transformers docs: yarn beside mrope_section."""
    config = {**LLAMA2, "model_type": "qwen2_vl"}
    config["rope_scaling"] = {"type": "mrope", "mrope_section": [16, 24, 24]}
    for text in ("yarn", "ntk"):
        for spec, key in (("transformers==4.57", "rope_scaling"), ("vllm", "rope_parameters")):
            found = prescribe(*setting(config, text), spec)
            told = found.block or words(found)["--hf-overrides"]
            assert told[key]["mrope_section"] == [16, 24, 24]


# Models with nothing to scale.


@pytest.mark.parametrize("spec", ENGINES)
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            # llm-foundry#172, #365: raise max_seq_len only, no rope block exists.
            {
                "model_type": "mpt",
                "n_heads": 32,
                "d_model": 4096,
                "max_seq_len": 2048,
                "attn_config": {"alibi": True},
            },
            "Raise max_seq_len only",
        ),
        ({"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_head": 12}, "learned table"),
        ({"model_type": "t5", "d_model": 512, "num_heads": 8, "n_positions": 512}, "T5's buckets"),
        (
            # HF#29496: with a window on every layer no distance is longer than it.
            {
                **SHAPE,
                "model_type": "mistral",
                "max_position_embeddings": 32768,
                "rope_theta": 10000.0,
                "sliding_window": 4096,
            },
            "window of at most 4,096 tokens",
        ),
    ],
    ids=["alibi", "learned", "t5", "windows"],
)
def test_nothing_here_to_scale(config, reason, spec):
    checkpoint = from_config(config)
    found = prescribe(checkpoint, Repair.parse("yarn"), Extension(2048, 8192), spec)
    assert found.refused.startswith("nothing here to scale")
    assert reason in found.refused
    assert verify(checkpoint, spec).problems[0].code == "nothing_to_scale"


# Versions.


@pytest.mark.parametrize("name", ["vLLM", "vllm==0.33.0", "llama_cpp", "llamafactory", "Llama.CPP"])
def test_engines_go_by_several_spellings(name):
    assert find(name)[0].NAME in ENGINES


@pytest.mark.parametrize("spec", ["vllm==abc", "vllm==", "tgi==!", "vlm", "transformers==4.x"])
def test_nonsense_is_refused(spec):
    with pytest.raises(InputError):
        find(spec)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("vllm==0.40", "newer than what is known"),
        ("transformers==4.30", "older than what is known"),
        ("tgi==3.3.4", "known here at db931fcf only"),
    ],
)
def test_an_unknown_version_is_taken_for_the_nearest_and_said_so(spec, said):
    found = prescribe(*setting(QWEN3, "yarn"), spec)
    assert found.version == spec.partition("==")[2]
    assert any(said in note for note in found.notes)


def test_a_major_version_is_the_last_known_of_its_line():
    assert find("transformers==4")[1].number == (4, 57, 6)
    assert find("transformers==5")[1].number == (5, 24, 0)


def test_both_spellings_are_offered():
    found = prescribe(*setting(QWEN3, "yarn"), "transformers==5")
    assert found.spellings["4.55 to 4.57"]["rope_scaling"] == YARN4
    old = prescribe(*setting(QWEN3, "yarn"), "vllm==0.11.0")
    assert old.flags.startswith("--rope-scaling")
    assert "--hf-overrides" in old.spellings["0.11.1 and later"]


# Cases from public reports.


def test_transformers_up_to_4_55_takes_the_factor_from_the_lengths():
    """HF#38224, HF#40320, Qwen3#1424; run on 4.51.3, 4.55.4, 4.56.0, 4.57.6 and 5.24.0."""
    checkpoint = from_config({**QWEN3, "rope_scaling": YARN4})
    for version in ("4.51.3", "4.55.4"):
        found = verify(checkpoint, f"transformers=={version}")
        assert found.repair.options["factor"] == 1.25
        assert found.amplitude == pytest.approx(1.02231435513)
        assert found.problems[0].code == "factor_from_lengths"
    for version in ("4.56.0", "4.57.6", "5.24.0"):
        found = verify(checkpoint, f"transformers=={version}")
        assert found.repair.options["factor"] == 4.0
        assert found.amplitude == pytest.approx(1.13862943611)
    for version in ("4.51.3", "4.57.6", "5.24.0"):
        found = prescribe(*setting(QWEN3, "yarn"), f"transformers=={version}")
        assert found.block["max_position_embeddings"] == 131072


def test_transformers_before_4_51_takes_the_stated_length_for_the_window():
    """Read in 4.43.0 to 4.50.0: the block's original length is not used."""
    found = verify(from_config({**QWEN3, "rope_scaling": YARN4}), "transformers==4.50")
    assert found.problems[0].code == "ignored_key"
    ours = Repair.parse("yarn:factor=4").apply(Spectrum.rope(128, 1e6), Extension(40960, 163840))
    np.testing.assert_allclose(found.inverse_frequencies, ours.inverse_frequencies)
    block = prescribe(*setting(QWEN3, "yarn"), "transformers==4.50").block
    assert block["max_position_embeddings"] == 32768


def test_transformers_5_loses_the_base_of_a_pasted_block():
    """unsloth#7028, sglang#22739; run on 5.6.0 and 5.24.0."""
    config = {**MODELS["qwen3, version 5"], "rope_scaling": YARN4}
    for version in ("5.6.0", "5.24.0"):
        found = verify(from_config(config), f"transformers=={version}")
        assert found.base == 10000.0
        assert found.problems[0].code == "theta_dropped"
    repaired = prescribe(*setting(config, "yarn"), "transformers==5")
    assert repaired.block["rope_parameters"]["rope_theta"] == 1000000.0
    assert repaired.block["rope_scaling"] is None


def test_transformers_4_does_not_read_a_version_5_config():
    """Run on 4.57.6: rope_theta 10000, rope_scaling None, silent."""
    found = verify(from_config(MODELS["qwen3, version 5"]), "transformers==4.57.6")
    assert (found.base, found.repair) == (10000.0, None)
    assert found.problems[0].code == "version5_config"


NESTED = {
    **GEMMA3,
    "head_dim": 64,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}


def test_transformers_5_ignores_truncate_in_a_nested_block():
    """Found by running 5.24.0; the value that is right is that of vllm#27722."""
    found = verify(from_config(NESTED), "transformers==5.24.0")
    assert found.inverse_frequencies[9] == pytest.approx(0.0316207523, rel=1e-7)
    assert "ignored_key" in [problem.code for problem in found.problems]
    prescribed = prescribe(*setting(NESTED, "yarn:truncate=false", 32.0), "transformers==5.24.0")
    assert any("truncate: false" in note for note in prescribed.notes)
    reading = verify(from_config({**NESTED, **prescribed.block}), "transformers", length=131072)
    assert reading.inverse_frequencies[9] == pytest.approx(0.0317056962, rel=1e-7)


@pytest.mark.parametrize(
    ("spec", "fails"),
    [("transformers==4.57.6", None), ("transformers==5.24.0", "KeyError"), ("vllm==0.33.0", None)],
)
def test_type_su(spec, fails):
    """Phi-3-vision's block; run on 4.57.6 and 5.24.0."""
    config = {**MODELS["phi3"], "rope_scaling": {"type": "su", **LISTS}}
    config["max_position_embeddings"] = 131072
    found = verify(from_config(config), spec)
    assert (found.fails or "None").startswith(str(fails))


def test_phi3s_amplitude_and_its_block_of_three_keys():
    """llama.cpp#6849, HF#33129: 1.1902380714238083, by Phi3Config of 4.57.6 and 5.24.0."""
    for version in ("4.57.6", "5.24.0"):
        found = verify(from_config(MODELS["phi3"]), f"transformers=={version}")
        assert found.amplitude == pytest.approx(1.19023807142)
    lists = {key: LISTS[key] for key in ("long_factor", "short_factor")}
    checkpoint = from_config(MODELS["phi3"])
    extension = Extension(4096, 131072)
    four = prescribe(checkpoint, Repair("longrope", lists), extension, "transformers==4.57")
    assert set(four.block["rope_scaling"]) == {"type", "short_factor", "long_factor"}
    assert four.block["original_max_position_embeddings"] == 4096
    five = prescribe(checkpoint, Repair("longrope", lists), extension, "transformers==5")
    assert five.block["rope_parameters"]["original_max_position_embeddings"] == 4096
    other = Repair("longrope", {**lists, "attention_factor": 1.0})
    refused = prescribe(checkpoint, other, extension, "transformers==4.57").refused
    assert "three keys" in refused


def test_longropes_long_list_serves_all_lengths_before_4_48():
    """Read in 4.43.0 to 4.47.0 and 4.48.0."""
    for version, last in (("4.47", 48.0), ("4.48", 1.0)):
        found = verify(from_config(MODELS["phi3"]), f"transformers=={version}", length=100)
        plain = Spectrum.rope(96).inverse_frequencies[-1]
        assert plain / found.inverse_frequencies[-1] == pytest.approx(last)


@pytest.mark.parametrize(
    ("spec", "name"),
    [("transformers==4.57.6", "linear"), ("transformers==5", "yarn"), ("vllm", None)],
)
def test_two_types_that_differ(spec, name):
    """Run on 4.57.6 and 5.24.0; vLLM's ValueError read."""
    block = {**YARN4, "rope_type": "yarn", "type": "linear"}
    found = verify(from_config({**QWEN3, "rope_scaling": block}), spec)
    assert (found.repair.name if found.repair else None) == name
    assert (found.fails or "ValueError").startswith("ValueError")


LLAMA_LINEAR = {**LLAMA2, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}

# vllm#56446, vllm#53634, vllm#8793, vllm#10293, NeMo Safe-Synthesizer#623; the check of 0.29.0 and
# 0.33.0 was run, that of 0.30 and 0.31 read. Config, --max-model-len, and what 0.29 and 0.30 say.
LENGTHS: list[tuple[dict[str, Any], int | None, int | None, int | None]] = [
    (
        {**QWEN3, "model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": YARN4},
        None,
        131072,
        32768,
    ),
    (
        {**QWEN3, "model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": YARN4},
        131072,
        131072,
        None,
    ),
    ({**QWEN3, "rope_scaling": YARN4}, 131072, 131072, None),
    (
        {**QWEN3, "max_position_embeddings": 131072, "rope_scaling": YARN4},
        131072,
        131072,
        131072,
    ),
    (LLAMA_LINEAR, None, 16384, 16384),
    ({**LLAMA_LINEAR, "max_position_embeddings": 16384}, None, 65536, 65536),
    (MODELS["llama 3.1"], None, 131072, 131072),
    (MODELS["phi3"], None, 4096, 4096),
    (MODELS["gemma3"], None, 131072, 131072),
    (
        {
            **MODELS["deepseek_v3"],
            "rope_scaling": {
                **MODELS["deepseek_v3"]["rope_scaling"],
                "type": None,
                "rope_type": "deepseek_yarn",
            },
        },
        None,
        6553600,
        163840,
    ),
    (LLAMA2, 8192, None, None),
]


@pytest.mark.parametrize(("config", "asked", "old", "new"), LENGTHS)
def test_the_longest_context_that_vllm_accepts(config, asked, old, new):
    for versions, expected in ((["0.29.0"], old), (["0.30.0", "0.31.0", "0.33.0"], new)):
        for version in versions:
            found = verify(from_config(config), f"vllm=={version}", length=asked)
            assert found.max_length == expected
            assert (found.fails or "").startswith("ValueError" if expected is None else "")


def test_vllm_fails_on_an_override_without_a_base():
    """vLLM docs, recipes#856; run on the code of 0.33.0 with transformers 5.24.0."""
    checkpoint = from_config({**QWEN3, "max_position_embeddings": 131072})
    found = verify(checkpoint, "vllm==0.33.0", override={"rope_parameters": YARN4})
    assert found.base is None
    assert "None" in found.fails
    both = {"rope_scaling": YARN4, "rope_theta": 1000000.0}
    assert verify(checkpoint, "vllm==0.33.0", override=both).base == 1000000.0
    overrides = words(prescribe(*setting(QWEN3, "yarn"), "vllm==0.33.0"))["--hf-overrides"]
    assert overrides == {
        "rope_parameters": {**YARN4, "rope_theta": 1000000},
        "max_position_embeddings": 131072,
    }


def test_vllm_never_gets_a_raised_length_beside_linear():
    found = prescribe(*setting(LLAMA2, "linear"), "vllm==0.33.0")
    assert set(words(found)["--hf-overrides"]) == {"rope_parameters"}
    assert words(found)["--max-model-len"] == "16384"


DYNAMIC = {**LLAMA2, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}


def test_dynamic_is_nothing_in_vllm_0_33_and_static_before_and_in_sglang():
    """vllm#41236, vllm#52665, HF#25104; the classes of 0.33.0 and 0.29.0 were run."""
    found = verify(from_config(DYNAMIC), "vllm==0.33.0")
    assert (found.base, found.repair, found.max_length) == (10000.0, None, 16384)
    assert found.problems[0].code == "dynamic_noop"
    assert "4,096 rows" in found.problems[0].consequence
    for spec in ("vllm==0.29.0", "sglang==0.5.23"):
        static = verify(from_config(DYNAMIC), spec)
        assert static.repair.options["factor"] == 13
        base = Spectrum(np.array(static.inverse_frequencies)).base
        assert base == pytest.approx(135401.973042)
    for spec in ("vllm==0.33.0", "vllm==0.29.0", "sglang"):
        assert "--repair base:base=" in prescribe(*setting(LLAMA2, "dynamic"), spec).refused


def test_dynamic_in_transformers_follows_the_length():
    """HF#25104, HF#46624."""
    for length, base in ((4096, 10000.0), (8192, 51293.7872682), (16384, 135401.973042)):
        found = verify(from_config(DYNAMIC), "transformers", length=length)
        assert Spectrum(np.array(found.inverse_frequencies)).base == pytest.approx(base)
    block = prescribe(*setting(QWEN3, "dynamic:factor=4"), "transformers==4.57").block
    assert block["max_position_embeddings"] == 32768
    assert block["rope_scaling"] == {"rope_type": "dynamic", "factor": 4.0}


def test_vllms_ntk_is_another_formula():
    """Run: the class of 0.33.0."""
    config = {**LLAMA2, "rope_scaling": {"rope_type": "ntk", "factor": 4.0}}
    found = verify(from_config(config), "vllm==0.33.0")
    assert found.inverse_frequencies[0] == pytest.approx(0.978572062)
    assert found.inverse_frequencies[-1] == pytest.approx(2.88695496e-05)
    block = words(prescribe(*setting(LLAMA2, "ntk"), "vllm"))["--hf-overrides"]["rope_parameters"]
    assert block == {"rope_type": "default", "rope_theta": pytest.approx(40889.9424325)}


@pytest.mark.parametrize(
    ("spec", "amplitude"),
    [
        ("transformers==4.57.6", 1.0),
        ("transformers==5.24.0", 1.0),
        ("vllm==0.33.0", 1.0),
        ("vllm==0.29.0", 1.13862943611),
        ("sglang==0.5.23", 1.13862943611),
        ("tgi==db931fcf", 1.13862943611),
        ("llama.cpp", 1.13862943611),
    ],
)
def test_who_reads_attention_factor(spec, amplitude):
    """vllm#48351 and its kin; vLLM and TGI by running their code, SGLang and llama.cpp read."""
    block = {**YARN4, "attention_factor": 1.0}
    config = {**QWEN3, "max_position_embeddings": 131072, "rope_scaling": block}
    found = verify(from_config(config), spec)
    assert found.amplitude == pytest.approx(amplitude)
    codes = [problem.code for problem in found.problems]
    assert ("ignored_key" in codes) == (amplitude != 1.0)


def test_attention_factor_is_said_in_each_engines_own_key():
    multiplier = pytest.approx(0.878248856287)
    asked = setting(QWEN3, "yarn:attention_factor=1.0")
    block = words(prescribe(*asked, "sglang"))["--json-model-override-args"]["rope_scaling"]
    assert block["attn_factor"] == multiplier
    block = words(prescribe(*asked, "vllm==0.29"))["--hf-overrides"]["rope_parameters"]
    assert block["attn_factor"] == multiplier
    assert "attention_factor" not in block
    block = words(prescribe(*asked, "vllm"))["--hf-overrides"]["rope_parameters"]
    assert block["attention_factor"] == 1.0
    # llama.cpp#17945, #18006: desired 1.0 needs 0.878248856287 in the file.
    found = prescribe(*asked, "llama.cpp")
    assert "qwen3.rope.scaling.attn_factor=float:0.878248856287" in found.flags
    assert "--yarn-attn-factor" not in found.flags


def test_sglang_undoes_what_the_block_had():
    """Overrides are merged into the config's block: its truncate would stay."""
    found = prescribe(*setting(MODELS["gpt-oss"], "yarn"), "sglang")
    assert words(found)["--json-model-override-args"]["rope_scaling"]["truncate"] is True


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("linear", "-c 131072 --rope-scaling linear --rope-scale 4"),
        ("yarn", "-c 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"),
        ("ntk", "-c 131072 --rope-freq-base 4088994.2"),
    ],
)
def test_llama_cpps_flags(text, flags):
    """llama.cpp#2544, #2402, textgen#3571, axolotl#342; Qwen3's own line for yarn."""
    found = prescribe(*setting(QWEN3, text), "llama.cpp")
    assert found.flags == flags
    inverse = any("--rope-freq-scale is its inverse, 0.25" in note for note in found.notes)
    assert inverse == (text != "ntk")


def test_llama_cpp_cannot_take_away_a_repair_that_is_a_tensor():
    for model in ("llama 3.1", "phi3"):
        found = prescribe(*setting(MODELS[model], "yarn"), "llama.cpp")
        assert "both would be applied" in found.refused


def test_a_gguf_file_is_for_engines_that_read_it():
    file = {"dialect": "gguf", "config": {"general.architecture": "qwen3"}}
    checkpoint, repair, extension = setting(QWEN3, "yarn")
    checkpoint = replace(checkpoint, **file)
    assert "GGUF" in verify(checkpoint, "vllm").fails
    assert verify(checkpoint, "llama.cpp").fails is None
    found = prescribe(checkpoint, repair, extension, "transformers==4.57")
    assert found.block["rope_theta"] == 1000000.0
    assert "not the GGUF file" in found.notes[-1]


def test_tgi_does_nothing_for_linear():
    """TGI#782, #816; run at db931fcf: the last pair's angle at 8,000 is 0.92382550."""
    found = verify(from_config(LLAMA_LINEAR), "tgi")
    assert found.repair is None
    assert 8000 * found.inverse_frequencies[-1] == pytest.approx(0.923825588, rel=1e-6)
    assert found.problems[0].code == "linear_noop"
    assert "no effect" in prescribe(*setting(LLAMA2, "linear"), "tgi").refused
    dynamic = prescribe(*setting(LLAMA2, "dynamic:factor=4"), "tgi")
    assert dynamic.flags.startswith("--rope-scaling dynamic --rope-factor 4 ")


@pytest.mark.parametrize(
    ("spec", "fails", "window"),
    [
        ("tgi", "KeyError: 'original_max_position_embeddings'", None),
        ("vllm==0.11.0", "KeyError: 'original_max_position_embeddings'", None),
        ("transformers==4.57.6", None, 131072),
        ("transformers==5.24.0", None, 131072),
        ("vllm==0.33.0", None, 131072),
        ("sglang==0.5.23", None, 131072),
    ],
)
def test_what_a_missing_original_length_means(spec, fails, window):
    """TGI#1320; run on TGI and transformers."""
    block = {"type": "yarn", "factor": 4.0}
    config = {**QWEN3, "max_position_embeddings": 131072, "rope_scaling": block}
    found = verify(from_config(config), spec)
    assert found.fails == fails
    if fails is None:
        assert "original_missing" in [problem.code for problem in found.problems]
        ours = Repair.parse("yarn:factor=4").apply(
            Spectrum.rope(128, 1e6), Extension(window, window)
        )
        np.testing.assert_allclose(found.inverse_frequencies, ours.inverse_frequencies)


def test_tgis_yarn_has_its_options_fixed():
    """Run at db931fcf: beta_fast, beta_slow, attention_factor and truncate are not read."""
    for option in ("beta_fast=16", "beta_slow=2", "truncate=false", "attention_factor=1.0"):
        found = prescribe(*setting(QWEN3, f"yarn:{option}"), "tgi")
        assert option.partition("=")[0] in found.refused


def test_llama_factorys_dynamic_changes_nothing():
    """LlamaFactory#633, #1298, #8664; 0.9.5 run with transformers 4.57.6."""
    found = verify(
        from_config(LLAMA2), "llama-factory", length=16384, override={"rope_scaling": "dynamic"}
    )
    assert Spectrum(np.array(found.inverse_frequencies)).base == 10000.0
    assert found.problems[-1].code == "dynamic_noop"
    assert "unchanged" in prescribe(*setting(LLAMA2, "dynamic"), "llama-factory").refused


def test_llama_factory_rounds_its_factor_up():
    """0.9.5 run: 6000 over 4096 is 2.0; its transformers must be below 5.6."""
    found = verify(
        from_config(LLAMA2), "llama-factory", length=6000, override={"rope_scaling": "linear"}
    )
    assert found.repair.options["factor"] == 2.0
    prescribed = prescribe(*setting(LLAMA2, "linear", 6000 / 4096), "llama-factory")
    assert prescribed.block == {"rope_scaling": "linear", "cutoff_len": 6000}
    assert any("rounds up to 2" in note for note in prescribed.notes)
    assert any("below 5.6" in note for note in prescribed.notes)


@pytest.mark.parametrize("model_type", ["mistral", "mixtral"])
def test_a_null_head_dim_stops_transformers_and_is_written_out(model_type):
    """Run on 4.57.6 (both) and 5.24.0 (Mixtral): TypeError."""
    config = {**MIXTRAL, "model_type": model_type, "rope_scaling": YARN4}
    assert "TypeError" in verify(from_config(config), "transformers==4.57.6").fails
    new = verify(from_config(config), "transformers==5.24.0").fails
    assert (new is not None) == (model_type == "mixtral")
    block = prescribe(*setting(config, "yarn"), "transformers==5").block
    assert block["head_dim"] == 128


def test_ollama_reduces_a_length_past_the_files():
    found = verify(from_config(QWEN3), "ollama", length=131072)
    assert found.max_length == 40960
    assert "length_reduced" in [problem.code for problem in found.problems]
    block = prescribe(*setting(QWEN3, "yarn"), "ollama").block
    assert block["qwen3.context_length"] == 131072
    assert block["qwen3.rope.scaling.original_context_length"] == 32768


def test_axolotl_takes_overrides_and_only_raises_the_length_itself():
    """axolotl#342, #343."""
    found = prescribe(*setting(QWEN3, "yarn"), "axolotl")
    overrides = found.block["overrides_of_model_config"]
    assert overrides["rope_scaling"] == {**YARN4, "rope_theta": 1000000.0}
    assert found.block["sequence_len"] == 131072
    reading = verify(from_config(QWEN3), "axolotl", length=131072)
    assert (reading.repair, reading.max_length) == (None, 131072)
    assert reading.problems[-1].code == "length_only"


# Configs of any quality.

VALUES = [None, 0, -1, 0.5, 1, 4, "4", "", "x", [], {}, [1], True, 10**40, "yarn", "su", 131072]
BLOCK_KEYS = [
    *("rope_type", "type", "factor", "original_max_position_embeddings", "attention_factor"),
    *("attn_factor", "beta_fast", "mscale", "mscale_all_dim", "truncate", "long_factor", "alpha"),
    *("low_freq_factor", "rope_theta", "long_mscale", "mrope_section"),
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([*MODELS.values()]),
    st.dictionaries(st.sampled_from(BLOCK_KEYS), st.sampled_from(VALUES), max_size=4),
    st.sampled_from(SPECS),
    st.sampled_from(ASKED),
    st.sampled_from([None, 8192, 262144]),
)
def test_any_block_is_read_and_replaced_or_refused(config, harm, spec, text, length):
    config = copy.deepcopy(config)
    key = "rope_parameters" if "rope_parameters" in config else "rope_scaling"
    config[key] = {**(config.get(key) or {}), **harm}
    try:
        checkpoint, repair, extension = setting(config, text)
        answers = [
            verify(checkpoint, spec, length=length),
            verify(checkpoint_of(json.dumps(QWEN3)), spec, length=length, override={key: harm}),
            prescribe(checkpoint, repair, extension, spec),
        ]
    except InputError:
        return
    for answer in answers:
        json.dumps(answer.as_json(), allow_nan=False)


# Transformers itself.


def parity_cases(version: str) -> list[tuple[str, dict[str, Any], Extension, Spectrum]]:
    cases = []
    for model, config in MODELS.items():
        for text in ASKED:
            checkpoint, repair, extension = setting(config, text)
            found = prescribe(checkpoint, repair, extension, f"transformers=={version}")
            if found.refused is None:
                merged = copy.deepcopy({**config, **found.block})
                expected = wanted(checkpoint, repair, extension)
                cases.append((f"{model} {text}", merged, extension, expected))
    return cases


# As they stand: what is read, and what stops.
STANDING = {
    "two lengths": {**QWEN3, "rope_scaling": YARN4},
    "base lost": {**MODELS["qwen3, version 5"], "rope_scaling": YARN4},
    "no original": {**QWEN3, "rope_scaling": {"type": "yarn", "factor": 4.0}},
    "nested truncate": NESTED,
    "flat truncate": MODELS["gpt-oss"],
    "su": {**MODELS["phi3"], "rope_scaling": {"type": "su", **LISTS}},
    "phi3 as yarn": {**MODELS["phi3"], "rope_scaling": YARN4},
    "phi3 as linear": {**MODELS["phi3"], "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "mixtral": {**MIXTRAL, "rope_scaling": YARN4},
    "mistral": {**MIXTRAL, "model_type": "mistral", "rope_scaling": YARN4},
    "unknown type": {**LLAMA2, "rope_scaling": {"rope_type": "foo", "factor": 4.0}},
    "no factor": {**LLAMA2, "rope_scaling": {"rope_type": "linear"}},
    "null factor": {**QWEN3, "rope_scaling": {**YARN4, "factor": None}},
    "factor of 1": {**QWEN3, "rope_scaling": {**YARN4, "factor": 1.0}},
    "llama3, no original": {
        **LLAMA2,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    },
    "attn_factor": {**QWEN3, "rope_scaling": {**YARN4, "attn_factor": 2.0}},
    "two types": {**LLAMA2, "rope_scaling": {**YARN4, "rope_type": "linear", "type": "yarn"}},
    "longrope, no outer original": {
        **LLAMA2,
        "rope_scaling": {
            "rope_type": "longrope",
            "factor": 4.0,
            "short_factor": [1.0] * 64,
            "long_factor": [2.0] * 64,
            "original_max_position_embeddings": 2048,
        },
    },
    "short lists": {
        **LLAMA2,
        "original_max_position_embeddings": 2048,
        "rope_scaling": {
            "rope_type": "longrope",
            "factor": 4.0,
            "short_factor": [1.0] * 10,
            "long_factor": [2.0] * 10,
        },
    },
    "mscale alone": {**QWEN3, "rope_scaling": {**YARN4, "mscale": 0.7}},
}


@pytest.mark.environments
@pytest.mark.parametrize("version", ["4.57.6", "5.24.0"])
def test_transformers_builds_what_we_say(version):
    """Inverse frequencies and attention_scaling of the modules that it builds, against ours."""
    cases = parity_cases(version)
    standing = [(config, 2048) for config in STANDING.values()]
    asked = [(config, extension.target_length) for _, config, extension, _ in cases] + standing
    answers = built(version, [{"config": config, "length": length} for config, length in asked])
    assert len(cases) > 120
    for (name, _, _, ours), theirs in zip(cases, answers, strict=False):
        assert "error" not in theirs, (name, theirs)
        np.testing.assert_allclose(
            theirs["inverse_frequencies"], ours.inverse_frequencies, rtol=2e-5, err_msg=name
        )
        assert theirs["amplitude"] == pytest.approx(ours.amplitude, rel=1e-6), name
    for (name, config), theirs in zip(STANDING.items(), answers[len(cases) :], strict=True):
        read = verify(from_config(config), f"transformers=={version}", length=2048)
        assert ("error" in theirs) == (read.fails is not None), (name, theirs, read.fails)
        if read.fails is None:
            np.testing.assert_allclose(
                theirs["inverse_frequencies"], read.inverse_frequencies, rtol=2e-5, err_msg=name
            )
            assert theirs["amplitude"] == pytest.approx(read.amplitude, rel=1e-6), name


# The command line.


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the verb; gives its exit code, its output and its errors."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN3))
    (tmp_path / "block.json").write_text(json.dumps(YARN4))
    monkeypatch.chdir(tmp_path)

    def prescribe_(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longreach", "prescribe", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return prescribe_


ASK = ["config.json", "--target-length", "131072", "--repair", "yarn", "--engine"]


def test_the_verb_prints_json_with_one_of_block_flags_and_command(run):
    code, out, _ = run(*ASK, "llama.cpp", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["flags"] == "-c 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"
    assert (found["engine"], found["refused"]) == ("llama.cpp", None)
    assert "block" not in found


@pytest.mark.parametrize("engine", ENGINES)
def test_the_verb_prints_for_people_without_cutting_what_is_pasted(run, engine):
    code, out, _ = run(*ASK, engine)
    assert code == 0
    found = prescribe(*setting(QWEN3, "yarn"), engine)
    if found.flags:
        assert f"    {found.flags}\n" in out
    prose = [line for line in out.splitlines() if not line.startswith("    ")]
    assert max(map(len, prose)) <= 110


def test_a_printed_block_is_json(run):
    _, out, _ = run(*ASK, "transformers==4.57")
    block, _, _ = out.partition("\n}")[0].partition("\n- ")
    pasted = out[out.index("{") : out.index("\n    }") + 6]
    assert block
    assert json.loads(pasted)["rope_scaling"] == YARN4


def test_a_refusal_exits_with_1(run):
    code, out, _ = run(*ASK[:4], "linear", "--engine", "tgi", "--json")
    assert code == 1
    assert "no effect" in json.loads(out)["refused"]
    code, out, _ = run(*ASK[:4], "linear", "--engine", "tgi")
    assert code == 1
    assert out.startswith("tgi db931fcf cannot: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*ASK, "vllm==abc"], "cannot read the version"),
        ([*ASK, "vlm"], "did you mean 'vllm'?"),
        (["config.json"], "--target-length"),
        ([*ASK[:4], "yaarn", "--engine", "vllm"], "did you mean 'yarn'?"),
        ([*ASK[:2], "1024", "--repair", "yarn", "--engine", "vllm"], "nothing to repair"),
        (["--verify", "block.json"], "name the model too"),
        (["nothing.json", *ASK[1:], "vllm"], "nothing.json"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert not out


def test_verify_says_what_every_engine_makes_of_a_config(run):
    code, out, _ = run("--verify", "config.json", "--json")
    readings = json.loads(out)["readings"]
    assert code == 0
    assert [each["engine"] for each in readings] == list(ENGINES)
    _, out, _ = run("--verify", "config.json")
    assert len(out.splitlines()) == len(ENGINES)


def test_verify_reads_a_bare_block_with_a_model(run):
    code, out, _ = run(
        "config.json", "--verify", "block.json", "--engine", "transformers==4.55", "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert found["repair"]["options"]["factor"] == 1.25
    assert found["amplitude"] == pytest.approx(1.02231435513)
    code, out, _ = run("config.json", "--verify", "block.json", "--engine", "vllm")
    assert code == 1  # An override without a base.
    assert "rope_theta" in out


def test_a_bare_block_is_told_from_a_config():
    assert bare_block(QWEN3) is None
    assert bare_block(YARN4) == {"rope_scaling": YARN4}
    assert bare_block({"rope_parameters": YARN4}) == {"rope_parameters": YARN4}
    assert bare_block({"colour": "blue"}) is None


@pytest.mark.parametrize(
    ("version", "code"), [("0.29.0", "engine_option"), ("0.33.0", "ignored_key")]
)
def test_vllms_own_keys_of_yarn_count_up_to_0_29(version, code):
    block = {**YARN4, "rope_theta": 1e6, "extrapolation_factor": 0.5}
    config = {**QWEN3, "max_position_embeddings": 131072, "rope_parameters": block}
    found = verify(from_config(config), f"vllm=={version}")
    (problem,) = [each for each in found.problems if "extrapolation_factor" in each.message]
    assert problem.code == code
