"""Greedy generation of the study's model: without a cache, with one that concatenates, and ours.

Without a cache it is the straightforward program; ours without its cache stands beside it.

Run: python benchmarks/kv_cache.py [FILE]

A 16-token prompt, one thread, medians of interleaved rounds, in seconds of processor time. Nothing
is masked but the future, so all ways write the same tokens: asserted for every scheme before
anything is timed. With FILE, the figures are also written there as JSON.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

import straightforward_copy as straightforward
from copy_step import ours

PROMPT = 16
BATCHES, COUNTS = (1, 64), (32, 64, 128)


def timed(ways, rounds: int) -> dict[str, float]:
    """Median seconds of processor time of each way, rounds interleaved."""
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            way()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    torch.set_num_threads(1)
    measured = []
    print(
        f"{'scheme':<11}{'batch':>6}{'new':>5}  {'no cache':>9}{'our no c.':>10}{'concat':>9}"
        f"{'ours':>9}  faster by"
    )
    for scheme in straightforward.SCHEMES:
        torch.manual_seed(0)
        theirs = straightforward.Model(scheme).eval()
        built = ours(theirs).eval()
        for batch in BATCHES:
            prompt = torch.randint(
                straightforward.FIRST,
                24,
                (batch, PROMPT),
                generator=torch.Generator().manual_seed(0),
            )
            for count in COUNTS:
                ways = {
                    "no cache": lambda p=prompt, n=count, m=theirs: m.generate(p, n, cached=False),
                    "our no c.": lambda p=prompt, n=count, m=built: m.generate(p, n, cached=False),
                    "concat": lambda p=prompt, n=count, m=theirs: m.generate(p, n),
                    "ours": lambda p=prompt, n=count, m=built: m.generate(p, n),
                }
                written = [way() for way in ways.values()]
                assert all(torch.equal(written[0], other) for other in written[1:]), scheme
                found = timed(ways, 7 if batch == 1 else 3)
                gains = [
                    found[name] / found["ours"] for name in ("no cache", "our no c.", "concat")
                ]
                measured.append({"scheme": scheme, "batch": batch, "new": count, "seconds": found})
                print(
                    f"{scheme:<11}{batch:>6}{count:>5}  "
                    + "".join(f"{seconds:>8.3f}s" for seconds in found.values())
                    + "".join(f"{gain:6.1f}x" for gain in gains)
                )
    if len(sys.argv) > 1:
        about = {
            "command": "python benchmarks/kv_cache.py",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": 1,
            "prompt": PROMPT,
            "measured": measured,
        }
        Path(sys.argv[1]).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
