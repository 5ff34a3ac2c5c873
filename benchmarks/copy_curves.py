"""`copy-reverse`: learning curves and exact match, ours against the straightforward program's.

Run: python benchmarks/copy_curves.py [FILE [SCHEME ...]]

Trains the straightforward program by the study's recipe (copy, its seeds, its learning rate at each
step) and sets it beside the runs recorded in results/copy-reverse, paired by seed. Each program
draws its own weights and batches. FILE keeps what was trained: the same command goes on after a
stop. Intervals are of the mean paired difference: Student's t, 95 %.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from scipy import stats

import straightforward_copy as straightforward
from longreach.files import write
from longreach.results import Results
from longreach.study import Study
from longreach.train import rate

RECORDED = Path(__file__).parents[1] / "results" / "copy-reverse"
LENGTHS = (8, 16, 17, 18)
SEQUENCES = 256
SHOWN = (100, 250, 500, 1000, 2000, 5000)


def trained(study: Study, scheme: str, seed: int, every: int) -> dict[str, list[float]]:
    """The mean loss of every so many steps, and exact match at LENGTHS."""
    torch.manual_seed(seed)
    model = straightforward.Model(scheme)
    optimizer = torch.optim.AdamW(model.parameters(), lr=study.training.learning_rate)
    batches = torch.Generator().manual_seed(1_000 + seed)
    losses = []
    for step in range(study.training.steps):
        optimizer.param_groups[0]["lr"] = rate(study.training, step)
        rows = straightforward.rows(study.training.batch, batches)
        losses.append(straightforward.step(model, optimizer, *rows))
    curve = np.reshape(losses, (-1, every)).mean(1).tolist()
    right = [straightforward.exact_match(model.eval(), n, SEQUENCES) for n in LENGTHS]
    return {"losses": curve, "right": right}


def difference(ours: list[float], theirs: list[float]) -> str:
    """Mean paired difference with its interval, and whether that holds 0."""
    gaps = np.subtract(ours, theirs)
    middle, error = gaps.mean(), gaps.std(ddof=1) / len(gaps) ** 0.5
    half = stats.t.ppf(0.975, len(gaps) - 1) * error
    same = "" if abs(middle) <= half else "  not the same"
    return f"{middle:+.4f} [{middle - half:+.4f}, {middle + half:+.4f}]{same}"


def main(file: Path, schemes: list[str]) -> None:
    torch.set_num_threads(1)
    study = Study.load("copy-reverse")
    runs = {
        (row.scheme, row.seed): run
        for run in Results.read(RECORDED).runs
        for row in run.rows[:1]
        if row.task == "copy"
    }
    kept = json.loads(file.read_text()) if file.exists() else {}
    for scheme in schemes:
        for seed in study.seeds:
            name = f"{scheme} {seed}"
            if name not in kept:
                every = runs[scheme, seed].log[0]["step"]
                kept[name] = trained(study, scheme, seed, every)
                file.parent.mkdir(exist_ok=True)
                write(file, json.dumps(kept) + "\n")
                print(name, *(f"{value:.3f}" for value in kept[name]["right"]), flush=True)
        ours = [runs[scheme, seed] for seed in study.seeds]
        theirs = [kept[f"{scheme} {seed}"] for seed in study.seeds]
        steps = [line["step"] for line in ours[0].log]
        print(f"{scheme}, {len(ours)} seeds; loss in nats: ours, theirs, ours - theirs")
        for step in SHOWN:
            place = steps.index(step)
            pair = [run.log[place]["loss"] for run in ours], [t["losses"][place] for t in theirs]
            print(f"  step {step:>5}: {np.mean(pair[0]):.4f} {np.mean(pair[1]):.4f} ", end="")
            print(difference(*pair))
        for place, length in enumerate(LENGTHS):
            pair = (
                [
                    row.value
                    for run in ours
                    for row in run.rows
                    if row.metric == "exact_match" and row.evaluation_length == length
                ],
                [found["right"][place] for found in theirs],
            )
            print(
                f"  exact match at {length:>2}: {np.mean(pair[0]):.4f} {np.mean(pair[1]):.4f} ",
                end="",
            )
            print(difference(*pair))


if __name__ == "__main__":
    file, *schemes = sys.argv[1:] or ["runs/copy_curves.json"]
    main(Path(file), schemes or list(straightforward.SCHEMES))
