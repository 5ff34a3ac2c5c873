"""Diagnosis: what leaves the trained range, which repairs reach, when there is nothing to do."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from longreach.checkpoint import from_config
from longreach.cli import app
from longreach.diagnose import Diagnosis, diagnose
from longreach.errors import InputError
from longreach.repairs import Repair
from longreach.spectrum import Extension, Spectrum

from .configs import LLAMA, PHI3, QWEN3, REAL, YARN, gemma3_form

run = CliRunner().invoke


def examined(config: dict[str, Any], target: int | None = None) -> Diagnosis:
    return diagnose(from_config(config), target)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("times", [2, 5])
def test_every_candidate_reaches_the_target_and_none_with_a_smaller_factor_would(name, times):
    """What "smallest sufficient" claims, for every repair that is offered."""
    config, *_ = REAL[name]
    trained = from_config(config).groups[0].trained_length
    found = examined(config, trained * times)
    if not found.advice.needed:
        assert found.checkpoint.groups[0].window == trained  # Mistral 0.1: nothing grows.
        return
    assert found.advice.smallest_factor == times
    plain = found.checkpoint.groups[0].spectrum
    assert {each.effect.repair.name for each in found.advice.candidates} >= {
        "yarn",
        "ntk",
        "linear",
    }
    for each in found.advice.candidates:
        repair = each.effect.repair
        asked = Extension(trained, trained * times)
        assert each.effect.unseen == 0, repair
        assert each.effect.effective_length >= asked.target_length, repair
        less = {**repair.options, "factor": 1 + (repair.options["factor"] - 1) * 0.98}
        weaker = Repair(repair.name, less).apply(plain, asked)
        assert weaker.unseen(asked).any(), f"{repair.name} would have reached with less"


def test_what_a_candidate_costs_is_counted_from_its_spectrum():
    """Qwen3 at factor 4: 40 pairs changed even on short text, logits times 1.2965."""
    yarn = examined(QWEN3, 131072).advice.candidates[0]
    assert yarn.effect.repair.name == "yarn"
    assert yarn.changed == 40
    assert yarn.logits == pytest.approx(1.29647699278, rel=1e-10)
    assert "40 of 64 pairs" in yarn.short_text
    linear = examined(QWEN3, 131072).advice.candidates[-1]
    assert (linear.changed, linear.effect.local_resolution) == (64, 0.25)
    assert "4 times harder" in linear.short_text


def test_a_latent_model_keeps_what_its_own_yarn_says_about_amplitudes():
    block = {
        "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0,
        "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
    }  # fmt: skip
    config = {
        "model_type": "deepseek_v3", "qk_rope_head_dim": 64, "max_position_embeddings": 163840,
        "rope_theta": 10000, "rope_scaling": block,
    }  # fmt: skip
    yarn = examined(config, 4096 * 64).advice.candidates[0]
    assert yarn.effect.repair.options["mscale_all_dim"] == 1.0
    assert yarn.effect.spectrum.amplitude == 1.0
    assert yarn.softmax_factor == pytest.approx(2.00473970168, rel=1e-10)


NOTHING = {
    "alibi": ({"model_type": "bloom", "n_head": 16, "seq_length": 2048}, "raise seq_length only"),
    "nope": ({"model_type": "jamba", "max_position_embeddings": 262144}, "no positions are told"),
    "t5": ({"model_type": "t5", "n_positions": 512}, "from 113 on"),
    "sliding": (REAL["mistral-7b-v0.1"][0], "see 4,096 tokens at most"),
    "covered": ({**LLAMA, "max_position_embeddings": 131072}, "131,072 tokens, covers"),
    "repaired": ({**QWEN3, "max_position_embeddings": 131072, "rope_scaling": YARN}, "own repair"),
    "gemma3": (gemma3_form("v4"), "own repair, linear"),
}
"""Models that need nothing to reach 100,000 tokens, and what they are told."""


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_to_repair_is_an_answer(name):
    config, words = NOTHING[name]
    advice = examined(config, 100_000).advice
    assert advice.needed is False
    assert words in advice.reason
    assert advice.candidates == ()


def test_raising_the_stated_length_is_asked_for_where_the_repair_reaches_past_it():
    advice = examined({**QWEN3, "rope_scaling": YARN}, 100_000).advice
    assert advice.needed is False
    assert "raise the maximum length, now 40,960" in advice.reason


def test_a_learned_table_cannot_be_repaired_by_arithmetic():
    advice = examined({"model_type": "gpt2", "n_positions": 1024}, 2048).advice
    assert advice.needed is True
    assert advice.candidates == ()
    assert "position 1,024 has none" in advice.reason
    assert examined({"model_type": "gpt2", "n_positions": 1024}, 1024).advice.needed is False


def test_a_repair_that_falls_short_is_told_where_it_ends():
    advice = examined({**QWEN3, "rope_scaling": YARN}, 262144).advice
    assert advice.needed is True
    assert "at 131,072 tokens even with the config's own repair" in advice.reason
    assert advice.smallest_factor == 8  # From the pre-training window, not from the repaired one.


def test_layers_with_a_window_are_never_driven_out_of_range():
    found = examined(gemma3_form("v4"), 10_000_000).as_json()
    local, full = found["groups"]
    assert (local["unseen"], full["unseen"]) == (0, 48)
    assert (local["never_completed"], local["first_never_completed"]) == (57, 71)


def test_mistral_is_told_both_counts():
    """4 pairs over the 32,768 stated, 18 over the window of 4,096 that decides."""
    (group,) = examined(REAL["mistral-7b-v0.1"][0]).as_json()["groups"]
    assert (group["never_completed"], group["never_completed_at_stated"]) == (18, 4)


def test_lengths_decide_which_list_of_longrope_is_shown():
    long, short = [2.0] * 48, [1.0] * 48
    block = {
        "rope_type": "longrope",
        "long_factor": long,
        "short_factor": short,
        "original_max_position_embeddings": 4096,
    }
    config = {**PHI3, "rope_scaling": block}
    first = [
        examined(config, target).as_json()["groups"][0]["inverse_frequencies"][0]
        for target in (None, 4096, 4097)
    ]
    assert first == [1.0, 1.0, 0.5]


def test_the_json_of_a_healthy_config_has_what_programs_look_for():
    found = examined({**LLAMA, "rope_scaling": None}, 16384).as_json()
    (group,) = found["groups"]
    assert group["layers"] == "all"
    assert (group["kind"], group["rotary_dim"], group["pairs"]) == ("rope", 128, 64)
    assert (group["trained_length"], group["trained_length_source"]) == (
        4096,
        "max_position_embeddings",
    )
    assert group["existing_repair"] is None
    np.testing.assert_allclose(group["inverse_frequencies"], Spectrum.rope(128).inverse_frequencies)
    assert found["problems"] == []
    advice = found["advice"]
    assert (advice["needed"], advice["smallest_factor"]) == (True, 4.0)
    assert len(advice["unknown_without_measuring"]) >= 3
    names = [each["name"] for each in advice["candidates"]]
    assert names == ["yarn", "llama3", "ntk", "dynamic", "linear"]


def test_slopes_of_alibi_say_where_the_flattest_head_stops_hearing():
    config = {
        "model_type": "mpt",
        "n_heads": 32,
        "max_seq_len": 2048,
        "attn_config": {"alibi": True},
    }
    (group,) = examined(config).as_json()["groups"]
    assert group["distance_of_bias_10"] == 2560
    config["attn_config"]["alibi_bias_max"] = 16
    (group,) = examined(config).as_json()["groups"]
    assert group["distance_of_bias_10"] == 655360


def test_without_a_known_window_nothing_is_advised_and_the_way_out_is_named():
    config = {key: value for key, value in LLAMA.items() if key != "max_position_embeddings"}
    advice = examined(config, 8192).advice
    assert advice.needed is None
    assert "--trained-length" in advice.reason


def test_a_target_that_is_no_length_is_refused():
    with pytest.raises(InputError, match="target length must be a whole number from 1 to"):
        examined(LLAMA, 0)


# ---- the verb -----------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    def save(config: dict[str, Any]) -> str:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        return str(path)

    return save


def test_the_verb_prints_the_same_object(saved):
    path = saved({**QWEN3, "rope_scaling": YARN})
    result = run(app, ["diagnose", path, "--target-length", "131072", "--json"])
    assert result.exit_code == 0
    assert (
        json.loads(result.stdout)
        == diagnose(from_config({**QWEN3, "rope_scaling": YARN}), 131072).as_json()
    )


def test_the_verb_says_the_same_to_people(saved):
    path = saved({**gemma3_form("v4"), "model_max_length": 8192})
    result = run(app, ["diagnose", path, "--target-length", "300000"])
    text = " ".join(result.stdout.split())
    for words in (
        "layers: 0-4, 6-10, 12-16, 18-22, 24-28, 30-33, told positions by RoPE",
        "57 of 128 pairs never completed a turn in training, from pair 71 on",
        "repaired already: linear:factor=8.0",
        "two_windows: the config states more than one window",
        "to reach 300,000 tokens",
        "not known without measuring",
    ):
        assert words in text


def test_a_given_trained_length_is_used_by_the_verb(saved):
    path = saved(LLAMA)
    result = run(app, ["diagnose", path, "--trained-length", "2048", "--json"])
    assert json.loads(result.stdout)["groups"][0]["trained_length"] == 2048


def test_diagnosing_imports_no_torch(saved):
    program = (
        "import sys; from longreach.cli import main; sys.argv = ['longreach', 'diagnose', "
        f"{saved(LLAMA)!r}, '--target-length', '9000', '--json']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'altair', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["diagnose", "nowhere.json"], "nowhere.json"),
        (["diagnose", "--target-length", "0", "config.json"], "--target-length"),
        (["diagnose", "--target-length", "ten", "config.json"], "--target-length"),
    ],
)
def test_bad_input_ends_with_2_and_one_message(arguments, words):
    done = subprocess.run(
        [sys.executable, "-m", "longreach", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
