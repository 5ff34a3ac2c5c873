"""`longreach spectrum --json` (and `diagnose`) against importing numpy: a process each.

Run: python benchmarks/clinic.py

The aim is at most four times `import numpy`, and under 0.35 s on a laptop.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from interleave import ratios

SPECTRUM = (
    "spectrum --head-dim 64 --base 10000 --trained-length 2048 --target-length 8192 "
    "--repair linear --repair ntk --repair yarn --json"
)
LLAMA_2 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(LLAMA_2))
        commands = {
            "import numpy": ["-c", "import numpy"],
            "longreach spectrum": ["-m", "longreach", *SPECTRUM.split()],
            "longreach diagnose": ["-m", "longreach", "diagnose", str(config), "--json"],
        }
        runs = {
            name: lambda words=words: subprocess.run(
                [sys.executable, *words], check=True, stdout=subprocess.DEVNULL
            )
            for name, words in commands.items()
            if name != "longreach diagnose" or has("diagnose")
        }
        found = ratios(runs, rounds=15, repeats=1)
    for name, speed in list(found.items())[1:]:
        print(f"{name} takes {1 / speed:.1f} times as long as importing numpy")


def has(verb: str) -> bool:
    return not subprocess.run(
        [sys.executable, "-m", "longreach", verb, "--help"], capture_output=True
    ).returncode


if __name__ == "__main__":
    main()
