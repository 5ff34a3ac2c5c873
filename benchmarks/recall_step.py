"""Training steps of `recall`: longreach against the straightforward loop, at the same losses.

Run: python benchmarks/recall_step.py [--whole]

Both start from the same weights and see the same batches; the losses of the first steps are
compared before anything is timed. One thread each, as `longreach run` uses them; and the
straightforward loop with as many threads as cores, as PyTorch does unless told otherwise, since
there a step also occupies all cores. --whole also times the whole study (five schemes, one seed)
through `longreach run` against the straightforward program with four threads: some ten minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import straightforward
from interleave import allocate_as_workers, ratios
from longreach.model.decoder import Decoder, DecoderShape
from longreach.schemes import SCHEMES
from longreach.tasks.base import Batch
from longreach.train import batch_loss
from longreach.where.base import ALLOCATOR

STEPS_COMPARED = 20


def ours(scheme: str, model: straightforward.Model) -> Decoder:
    """The same model with the same weights, as longreach builds it."""
    shape = DecoderShape(vocabulary=24, width=64, heads=4, layers=2, feed_forward=256)
    built = Decoder(shape, SCHEMES[scheme], straightforward.TRAINED_LENGTH)
    theirs = model.state_dict()
    renamed = {"tokens.weight": theirs["tokens.weight"], "head.weight": theirs["head.weight"]}
    renamed |= {f"norm.{kind}": theirs[f"norm.{kind}"] for kind in ("weight", "bias")}
    if scheme == "learned":
        renamed["scheme.table.weight"] = theirs["rows.weight"]
    names = {"norm1": "attention_norm", "norm2": "feed_forward_norm"}
    names |= {"up": "feed_forward.0", "down": "feed_forward.2"}
    for number in range(2):
        block = f"blocks.{number}."
        projections = [theirs[f"{block}{part}.weight"] for part in "qkv"]
        renamed[f"{block}attention.project.weight"] = torch.cat(projections)
        renamed[f"{block}attention.out.weight"] = theirs[f"{block}o.weight"]
        for old, new in names.items():
            for kind in ("weight", "bias"):
                renamed[f"{block}{new}.{kind}"] = theirs[f"{block}{old}.{kind}"]
    built.load_state_dict(renamed)
    return built


def pair(scheme: str):
    """A step of each program, over the same batches; each returns its loss."""
    torch.manual_seed(0)
    model = straightforward.Model(scheme)
    built = ours(scheme, model)
    theirs = torch.optim.AdamW(model.parameters(), lr=3e-3)
    optimizer = torch.optim.AdamW(built.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    scored = torch.zeros(64, 25, dtype=torch.bool)
    scored[:, -1] = True
    batches = [torch.Generator().manual_seed(1) for _ in range(2)]

    def straight() -> float:
        return straightforward.step(model, theirs, *straightforward.sample(64, 24, batches[0]))

    def longreach() -> float:
        tokens, answers = straightforward.sample(64, 24, batches[1])
        batch = Batch(torch.cat([tokens, answers[:, None]], dim=1), scored)
        loss = batch_loss(built, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return straight, longreach


def steps() -> None:
    """Per scheme, and for all schemes together."""
    cores = os.cpu_count() or 1

    def threads(count: int, step):
        def run() -> None:
            torch.set_num_threads(count)
            step()

        return run

    total = {}
    for scheme in straightforward.SCHEMES:
        torch.set_num_threads(1)
        straight, longreach = pair(scheme)
        gap = max(abs(straight() - longreach()) for _ in range(STEPS_COMPARED))
        print(f"{scheme}: losses of {STEPS_COMPARED} steps differ by at most {gap:.1e}")
        assert gap < 1e-3
        found = ratios(
            {
                "straightforward, 1 thread": threads(1, straight),
                f"straightforward, {cores} threads": threads(cores, straight),
                "longreach, 1 thread": threads(1, longreach),
            }
        )
        for name, ratio in found.items():
            total[name] = total.get(name, 0.0) + 1 / ratio
    alone, spread, fast = total.values()
    print(f"all schemes, one thread each: {alone / fast:.2f}x per core")
    print(f"all schemes, against {cores} threads: {cores * spread / fast:.2f}x per core")


def whole() -> None:
    """The study of five schemes, one seed, ambiguous form: `longreach run` against four threads."""
    program = (
        "import sys, torch; torch.set_num_threads(4)\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import straightforward as s\n"
        "for scheme in s.SCHEMES: print(scheme, s.accuracies(scheme, 2000), flush=True)\n"
    )
    study = Path(__file__).parent / "recall_one_seed.toml"
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        command = ["longreach", "run", str(study), "--out", out, "--json"]
        subprocess.run([sys.executable, "-m", *command], check=True)
        fast = time.perf_counter() - start
    start = time.perf_counter()
    plain = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
    subprocess.run([sys.executable, "-c", program], env=plain, check=True)
    straight = time.perf_counter() - start
    print(f"straightforward program, 4 threads: {straight:.0f} s")
    print(f"longreach run, {os.cpu_count()} processes, report included: {fast:.0f} s")
    print(f"{straight / fast:.1f}x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    allocate_as_workers()
    steps()
    if asked.whole:
        whole()
