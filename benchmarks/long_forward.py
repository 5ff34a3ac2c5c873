"""A measured pass over long text, beside the bare forward pass of `transformers`: time and memory.

Run: python benchmarks/long_forward.py MODEL [LENGTH ...]

MODEL as `longreach measure` takes it; 8192 and 12288 tokens unless given. What is measured are the
losses of all tokens, logits made for some hundreds at a time. Beside it: the model's own forward
pass, which makes the logits of all tokens at once and no loss, and the same without its head.
Times are medians of interleaved rounds. The peak of each way is of a process of its own, above what
it held when the model was loaded (Linux).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from longreach.pretrained.loading import Pretrained, load

ROUNDS = 3
LENGTHS = (8192, 12288)


def ways(model: Pretrained, length: int) -> dict[str, Callable[[], object]]:
    """By name, what is compared; all read the same tokens."""
    tokens = torch.randint(0, 1000, (1, length + 1), generator=torch.Generator().manual_seed(0))
    read = tokens[:, :-1]
    return {
        "bare": lambda: model.model(input_ids=read, use_cache=False),
        "bare, no head": lambda: model.model.base_model(input_ids=read, use_cache=False),
        "measured": lambda: model.losses(tokens),
    }


def peak() -> float:
    """Megabytes held at most since the counter was set back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1000


def one_way(name: str, way: str, length: int) -> None:
    """In a process of its own: prints how much one pass adds to the peak, in megabytes."""
    model = load(name)
    assert isinstance(model, Pretrained)
    with torch.inference_mode():
        ways(model, 256)[way]()
        Path("/proc/self/clear_refs").write_text("5")
        before = peak()
        ways(model, length)[way]()
    print(json.dumps(peak() - before))


def main(name: str, lengths: list[int]) -> None:
    model = load(name)
    assert isinstance(model, Pretrained)
    print(f"{name}, {model.model.dtype}, {torch.get_num_threads()} threads")
    print(f"{'tokens':>7}  {'way':<14}{'seconds':>9}{'of bare':>9}{'of no head':>12}{'peak':>10}")
    for length in lengths:
        seconds: dict[str, list[float]] = {}
        with torch.inference_mode():
            for way in ways(model, 256).values():
                way()
            for _ in range(ROUNDS):
                for way, call in ways(model, length).items():
                    began = time.perf_counter()
                    call()
                    seconds.setdefault(way, []).append(time.perf_counter() - began)
        found = {way: statistics.median(times) for way, times in seconds.items()}
        for way, median in found.items():
            command = [sys.executable, __file__, name, "--one", way, str(length)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            megabytes = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{length:>7}  {way:<14}{median:>8.1f}s{median / found['bare']:>8.2f}x"
                f"{median / found['bare, no head']:>11.2f}x{megabytes:>7.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[2] == "--one":
        one_way(sys.argv[1], sys.argv[3], int(sys.argv[4]))
    elif len(sys.argv) < 2:
        raise SystemExit(__doc__)
    else:
        main(sys.argv[1], [int(word) for word in sys.argv[2:]] or list(LENGTHS))
