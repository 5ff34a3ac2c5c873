"""Configs of any quality: a diagnosis or one message, soon, in little memory, as valid JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from longreach import cli
from longreach.checkpoint import Checkpoint, from_config
from longreach.checkpoint.config import ROPE_KEYS, WINDOWS
from longreach.checkpoint.gguf import read_gguf
from longreach.diagnose import diagnose
from longreach.errors import InputError
from longreach.repairs import REPAIRS, option_names

from .test_gguf import MODELS, YARN, write

SECONDS = 2.0
"""For one config; a diagnosis takes milliseconds."""

CONFIGS = [model.config for model in MODELS.values()] + [
    {"model_type": "llava", "text_config": MODELS["llama 3.1"].config, "vision_config": {}},
    {"model_type": "gemma3", "text_config": MODELS["gemma 3"].config},
    {
        "model_type": "dbrx",
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 40,
        "max_seq_len": 32768,
        "attn_config": {"rope_theta": 500000},
    },
    {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048, "rotary_dim": 64},
    {"model_type": "opt", "hidden_size": 768, "max_position_embeddings": 2048},
    {"model_type": "xglm", "d_model": 1024, "max_position_embeddings": 2048},
    {**MODELS["qwen 3"].config, "rope_parameters": {"rope_theta": 1e6, **YARN}},
]

KEYS = sorted(
    {key for config in CONFIGS for key in config}
    | {*ROPE_KEYS, *WINDOWS}
    | {
        "alibi",
        "alibi_bias_max",
        "attention_chunk_size",
        "full_attention_interval",
        "kv_lora_rank",
        "layer_types",
        "layers_block_type",
        "max_window_layers",
        "no_rope_layer_interval",
        "no_rope_layers",
        "original_max_position_embeddings",
        "position_embedding_type",
        "qk_rope_head_dim",
        "sliding_window_pattern",
        "text_config",
        "use_sliding_window",
    }
)

OPTIONS = sorted(
    {option for name in REPAIRS for option in option_names(name)}
    | {
        "alpha",
        "full_attention",
        "original_max_position_embeddings",
        "partial_rotary_factor",
        "rope_theta",
        "rope_type",
        "sliding_attention",
        "type",
    }
)

TYPES = ["default", "linear", "dynamic", "yarn", "longrope", "su", "llama3", "proportional", "ntk"]


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": found, "rope_type": [found]} if levels < 12 else [found]
    return found


ODD = st.sampled_from(
    [
        *(None, True, False, "", "4096", "yarn", "\ud800", "x" * 3000, [], {}, [[]], [None] * 3),
        *(0, -1, 1, 2, 3, 7, 64, 127, 4096, 131072, 65536, 65537, 10**9, 10**12, 10**13, 2**63),
        *(-(2**63), 10**30, 10**320, 0.0, -0.0, 0.5, 1.0, 1.5, 4.0, 4096.0, 1e-320, 1e-12, 1e300),
        *(float("nan"), float("inf"), float("-inf"), [1.0] * 48, [1.0] * 64, [0] * 10_001),
        *([10**400] * 64, ["full_attention"] * 7, ["sliding_attention", "full_attention"] * 18),
        *([float("nan")] * 64, deep(9), deep(400), {"rope_type": "yarn"}, {"factor": 4}),
    ]
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS + OPTIONS) | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=12,
)

NUMBERS = st.integers(-2, 2**34) | st.floats(-1, 1e7)

BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        option: ODD
        | NUMBERS
        | (st.sampled_from(TYPES) if option in ("type", "rope_type") else NUMBERS)
        for option in OPTIONS
    },
)


@st.composite
def configs(draw: Callable[..., Any]) -> dict[str, Any]:
    """A config of a real family, and what a hand, a script or a merge may have done to it."""
    config = deepcopy(draw(st.sampled_from(CONFIGS)))
    for _ in range(draw(st.integers(1, 4))):
        harm = draw(st.sampled_from(["set", "drop", "block", "inner", "number", "both", "nest"]))
        if harm == "set":
            config[draw(st.sampled_from(KEYS))] = draw(ODD | JSON)
        elif harm == "number":
            config[draw(st.sampled_from(KEYS))] = draw(NUMBERS)
        elif harm == "drop" and config:
            del config[draw(st.sampled_from(sorted(config)))]
        elif harm == "block":
            config[draw(st.sampled_from(["rope_scaling", "rope_parameters"]))] = draw(BLOCKS)
        elif harm == "both":
            config["rope_scaling"], config["rope_parameters"] = draw(BLOCKS), draw(BLOCKS)
        elif harm == "inner":
            block = config.get("rope_scaling") or config.get("rope_parameters")
            if isinstance(block, dict):
                block[draw(st.sampled_from(OPTIONS))] = draw(ODD | NUMBERS | st.sampled_from(TYPES))
        elif harm == "nest":
            config = {"text_config": config, **draw(st.dictionaries(st.sampled_from(KEYS), ODD))}
    return config


TARGETS = st.none() | st.sampled_from([1, 2048, 131072, 10**9, 10**12]) | st.integers(1, 10**6)


def examined(make: Callable[[], Checkpoint], target: int | None) -> None:
    """Diagnoses what is made, or takes the one message that says why it cannot be."""
    start = time.perf_counter()
    try:
        found = json.dumps(diagnose(make(), target).as_json(), allow_nan=False)
    except InputError as error:
        said = str(error)
        problem = None if said and "\n" not in said and len(said) < 2000 else f"a message: {said!r}"
    else:
        problem = None if len(found) < 2_000_000 else f"JSON of {len(found)} characters"
    assert problem is None, problem
    assert time.perf_counter() - start < SECONDS


few = settings(max_examples=300, suppress_health_check=list(HealthCheck))
many = settings(max_examples=5_000, suppress_health_check=list(HealthCheck))


@few
@given(configs(), TARGETS)
def test_a_harmed_config_is_diagnosed_or_refused(config, target):
    examined(lambda: from_config(config, "the config"), target)


@pytest.mark.slow
@many
@given(configs(), TARGETS)
def test_many_harmed_configs_are_diagnosed_or_refused(config, target):
    examined(lambda: from_config(config, "the config"), target)


@few
@given(JSON, TARGETS)
def test_any_json_is_diagnosed_or_refused(config, target):
    examined(lambda: from_config(config, "the config"), target)


@pytest.mark.slow
@many
@given(JSON, TARGETS)
def test_much_json_is_diagnosed_or_refused(config, target):
    examined(lambda: from_config(config, "the config"), target)


FITTING = st.one_of(
    st.booleans(),
    st.sampled_from([0, 1, 2, 3, 7, 64, 4096, 10**9, 2**32 - 1]),
    st.sampled_from([0.0, -1.0, 0.25, 1.0, 4.0, 1e38, 1e-38, float("nan"), float("inf")]),
    st.sampled_from(["", "yarn", "linear", "longrope", "none", "x" * 2000, "\u4e2d"]),
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.booleans(), min_size=1, max_size=40),
)

GGUF_KEYS = sorted({key for model in MODELS.values() for key in model.keys})


@st.composite
def files(draw: Callable[..., Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    model = draw(st.sampled_from(list(MODELS.values())))
    keys, tensors = dict(model.keys), dict(model.tensors)
    for _ in range(draw(st.integers(1, 4))):
        key = draw(st.sampled_from(GGUF_KEYS))
        if draw(st.booleans()):
            keys[key] = draw(FITTING)
        else:
            keys.pop(key, None)
    if draw(st.booleans()):
        name = draw(st.sampled_from(["rope_freqs", "rope_factors_long", "rope_factors_short"]))
        numbers = st.sampled_from([0.0, 1.0, 8.0, -1.0, float("inf"), float("nan"), 1e30, 1e-30])
        tensors[f"{name}.weight"] = draw(st.lists(numbers, min_size=1, max_size=64))
    return model.architecture, keys, tensors


def file_examined(folder: Path, file: Any, target: int | None) -> None:
    folder.mkdir(exist_ok=True)
    path = write(folder / "a.gguf", *file)
    examined(lambda: read_gguf(path), target)


@few
@given(files(), TARGETS)
def test_a_harmed_gguf_file_is_diagnosed_or_refused(tmp_path_factory, file, target):
    file_examined(tmp_path_factory.getbasetemp() / "files", file, target)


@pytest.mark.slow
@many
@given(files(), TARGETS)
def test_many_harmed_gguf_files_are_diagnosed_or_refused(tmp_path_factory, file, target):
    file_examined(tmp_path_factory.getbasetemp() / "files", file, target)


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The command line, in this process."""
    code: Any = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["longreach", *arguments])
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def command_examined(path: Path, target: int | None, as_json: bool, capsys: Any) -> None:
    arguments = ["diagnose", str(path)]
    arguments += ["--target-length", str(target)] if target else []
    code, out, err = run(arguments + ["--json"] * as_json, capsys)
    if code == 2:
        assert (out, err[:7], err.count("\n")) == ("", "error: ", 1)
        return
    assert code == 0
    assert out
    assert err == ""
    if as_json:
        json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(config=configs(), target=TARGETS, as_json=st.booleans())
def test_the_command_diagnoses_or_refuses(tmp_path_factory, capsys, config, target, as_json):
    path = tmp_path_factory.getbasetemp() / "command.json"
    path.write_text(json.dumps(config))
    command_examined(path, target, as_json, capsys)


@pytest.mark.slow
@settings(max_examples=1_000, suppress_health_check=list(HealthCheck))
@given(config=configs(), target=TARGETS, as_json=st.booleans())
def test_the_command_diagnoses_or_refuses_many(tmp_path_factory, capsys, config, target, as_json):
    path = tmp_path_factory.getbasetemp() / "commands.json"
    path.write_text(json.dumps(config))
    command_examined(path, target, as_json, capsys)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=300), start=st.sampled_from([b"", b"GGUF", b"{", b"GGUF\3\0\0\0"]))
def test_the_command_refuses_bytes(tmp_path_factory, capsys, data, start):
    path = tmp_path_factory.getbasetemp() / "command.bytes"
    path.write_bytes(start + data)
    command_examined(path, 8192, False, capsys)


LARGE = [
    {**MODELS["gemma 2"].config, "num_hidden_layers": 10_000},
    {**MODELS["llama 2"].config, "num_hidden_layers": 10**9},
    {**MODELS["llama 2"].config, "head_dim": 65_536},
    {**MODELS["llama 2"].config, "head_dim": 2**40},
    {**MODELS["bloom"].config, "num_attention_heads": 65_536},
    {
        **MODELS["t5"].config,
        "relative_attention_num_buckets": 65_536,
        "relative_attention_max_distance": 10**12,
    },
    {**MODELS["olmo 3"].config, "layer_types": ["sliding_attention"] * 150_000},
    {
        **MODELS["phi 3, longrope"].config,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0] * 400_000,
            "long_factor": [2.0] * 200_000,
        },
    },
    {
        "rope_parameters": {str(i): {"rope_type": "yarn", "x": i} for i in range(60_000)},
        **MODELS["llama 2"].config,
    },
    {"rope_scaling": {f"key {i}": i for i in range(120_000)}, **MODELS["llama 2"].config},
]


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_memory_stays_small(tmp_path):
    """A batch of ordinary and of large configs, in a process that may not have more than 200 MB."""
    paths = []
    for number, config in enumerate([*CONFIGS, *LARGE]):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(config))
    code = """
import json, pathlib, re, resource, sys, time
from longreach.checkpoint import read
from longreach.diagnose import diagnose
from longreach.errors import InputError
from longreach.show.diagnosis import show

def status(name):
    return int(re.search(name + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

# Address space that imports took without using it does not count.
room = 1024 * (status("VmSize") - status("VmRSS") + 200_000)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
slowest = 0
for path in sys.argv[1:]:
    start = time.perf_counter()
    try:
        found = diagnose(read(path), 131_072)
        json.dumps(found.as_json(), allow_nan=False)
        show(found)
    except InputError:
        pass
    took = time.perf_counter() - start
    if took > slowest:
        slowest, which = took, path
print(status("VmHWM"), slowest, which, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)],
        capture_output=True,
        text=True,
        env={"PATH": "", "OPENBLAS_NUM_THREADS": "1", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    peak, slowest, which = done.stderr.split()
    assert int(peak) < 200_000
    assert float(slowest) < SECONDS, which
