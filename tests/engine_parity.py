"""What a version of transformers makes of configs, asked in an environment of its own.

Run as a script it is the other side: it reads configs as JSON and builds their rotary modules.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).parent.parent

MODULES = {
    "llama": ("llama", "LlamaRotaryEmbedding"),
    "qwen3": ("qwen3", "Qwen3RotaryEmbedding"),
    "gemma3_text": ("gemma3", "Gemma3RotaryEmbedding"),
    "phi3": ("phi3", "Phi3RotaryEmbedding"),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3RotaryEmbedding"),
    "gpt_neox": ("gpt_neox", "GPTNeoXRotaryEmbedding"),
    "gpt_oss": ("gpt_oss", "GptOssRotaryEmbedding"),
    "mistral": ("mistral", "MistralRotaryEmbedding"),
    "mixtral": ("mixtral", "MixtralRotaryEmbedding"),
}


def python(version: str) -> str:
    """The interpreter of an environment with that version of transformers.

    The project's own if it has it. Else a virtual environment that is made once and kept beside the
    project's (or in the temporary folder, if that cannot be written), and borrows all packages but
    transformers and what it pins from the project's: torch above all.
    """
    from importlib.metadata import version as installed

    if installed("transformers") == version:
        return sys.executable
    for parent in (ROOT, Path(tempfile.gettempdir())):
        if os.access(parent, os.W_OK):
            folder = parent / f".venv-transformers-{version}"
            with FileLock(Path(tempfile.gettempdir()) / f"{folder.name}.lock"):
                if not _is_ready(folder):
                    _make(folder, version)
            return str(folder / "bin" / "python")
    pytest.skip("no folder to make an environment in can be written")


def _borrowed() -> str:
    """The folder of packages that is borrowed from, and the Python that they are for."""
    import torch

    return f"{Path(torch.__file__).parent.parent}\n{sys.version}"


def _is_ready(folder: Path) -> bool:
    mark = folder / "ready"
    return mark.exists() and mark.read_text() == _borrowed()


def _make(folder: Path, version: str) -> None:
    """Makes the environment; half a one, from a run that was killed, is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    # Its own packages come first: a .pth line is added at the end of the path.
    (site / "project.pth").write_text(_borrowed().partition("\n")[0] + "\n")
    there = str(folder / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", there, "install", "--quiet"]
    done = subprocess.run(
        [*install, "--disable-pip-version-check", f"transformers=={version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        message = f"cannot install transformers {version}: {done.stderr[-500:]}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    (folder / "ready").write_text(_borrowed())


def built(version: str, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each config becomes there: inverse frequencies and amplitude, or the error.

    cases: config, and the length of a call after which the numbers are read (None: before any).
    """
    done = subprocess.run(
        [python(version), __file__],
        input=json.dumps(list(cases)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["version"] == version
    found: list[dict[str, Any]] = answer["found"]
    return found


def _build(config: dict[str, Any], length: int | None) -> dict[str, Any]:
    from importlib import import_module

    import torch
    from transformers import AutoConfig

    kind = config.pop("model_type")
    folder, name = MODULES[kind]
    made = AutoConfig.for_model(kind, **config)
    module = getattr(import_module(f"transformers.models.{folder}.modeling_{folder}"), name)(made)
    prefix = "full_attention_" if hasattr(module, "full_attention_inv_freq") else ""
    if length is not None:
        layer = ["full_attention"] if prefix else []
        module(torch.zeros(1, 1, 1), torch.tensor([[length - 1]]), *layer)
    return {
        "inverse_frequencies": getattr(module, f"{prefix}inv_freq").double().tolist(),
        "amplitude": float(getattr(module, f"{prefix}attention_scaling")),
    }


def main() -> None:
    """Answers the configs on standard input."""
    import transformers

    found = []
    for case in json.load(sys.stdin):
        try:
            found.append(_build(case["config"], case["length"]))
        except Exception as error:  # Whatever it stops with is the answer.
            found.append({"error": f"{type(error).__name__}: {error}"})
    sys.stdout.write(json.dumps({"version": transformers.__version__, "found": found}) + "\n")


if __name__ == "__main__":
    main()
