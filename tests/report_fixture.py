"""Writes runs folders as `longreach run` leaves them, with made-up numbers."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from longreach.results import Row, dump_rows

LENGTHS = (32, 64, 128, 256, 512)
TRAINED = 64
LAST = 16
DATE = "2026-01-02T03:04:05+00:00"
PROVENANCE = {
    "command": "longreach run quick --out runs/quick",
    "longreach": "0.1.0",
    "python": "3.11.9",
    "torch": "2.13.0+cpu",
    "numpy": "2.4.6",
    "platform": "Linux-6.1-x86_64",
    "date": DATE,
}
STRINGS = ("copy", "reverse")
"""Tasks whose answers end with a token; lengths count their symbols."""
CLIFF = {"rope": 0.5, "nope": 3.0, "alibi": 1.5, "sinusoidal": 2.0, "t5_bias": 4.0}
"""How many symbols past the trained length half of the sequences are still right."""
EXCESS = {"alibi": 0.0, "rope": 0.45, "nope": 0.2, "t5_bias": 0.012, "sinusoidal": 0.6}
"""Loss gained per doubling past the trained length, in nats."""
DECLINE = {"alibi": 0.04, "rope": 0.33, "nope": 0.18, "t5_bias": 0.02, "sinusoidal": 0.5}
"""Share of sequences lost per doubling past the trained length."""


def write_runs(
    folder: Path,
    *,
    schemes: Iterable[str] = ("rope", "alibi", "learned"),
    tasks: Iterable[str] = ("recall", "text"),
    seeds: Iterable[int] = (0, 1, 2),
    lengths: tuple[int, ...] = LENGTHS,
    trained_length: int = TRAINED,
    unfinished: int = 0,
    name: str = "quick",
    question: str = "How far past 64 tokens does each scheme reach?",
    blow_up: str | None = None,
    weak: tuple[str, int] | None = None,
    repair: str | None = None,
    shortest: int | None = None,
    cliff: dict[str, float] | None = None,
    steps: int = 600,
) -> Path:
    """A folder with a plan and one run per scheme, task and seed.

    unfinished: so many runs, counted from the end, are planned and not there. blow_up: the loss of
    this scheme rises beyond all measure. weak: this (scheme, seed) misses the in-distribution bar.
    repair: measured too, and mends half of the harm. shortest: lengths are trained at from it on.
    cliff: for strings, in place of CLIFF. steps: of the training.
    """
    schemes, tasks, seeds = list(schemes), list(tasks), list(seeds)
    cells = [(task, scheme, seed) for task in tasks for scheme in schemes for seed in seeds]
    trainings = [
        {
            "digest": hashlib.sha256(repr((*cell, steps)).encode()).hexdigest()[:16],
            "scheme": cell[1],
            "task": cell[0],
            "seed": cell[2],
        }
        for cell in cells
    ]
    plan = {
        "format": 1,
        "study": {
            "name": name,
            "question": question,
            "schemes": [{"name": scheme, "options": {}} for scheme in schemes],
            "tasks": [{"name": task, "options": {}} for task in tasks],
            "seeds": seeds,
            "trained_length": trained_length,
            "evaluation_lengths": list(lengths),
            "model": dict(width=64, heads=4, layers=2, feed_forward=256, norm="rms"),
            "training": dict(
                steps=steps,
                batch=32,
                learning_rate=0.003,
                warmup=50,
                schedule="cosine",
                clip=1.0,
                weight_decay=0.01,
                **({} if shortest is None else {"shortest": shortest}),
            ),
            "evaluation": dict(sequences=128, documents=40, last=LAST),
        },
        "trainings": trainings,
        "provenance": PROVENANCE,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    for entry in trainings[: len(trainings) - unfinished]:
        write_run(
            folder / entry["digest"],
            entry,
            lengths=lengths,
            trained_length=trained_length,
            blow_up=blow_up,
            weak=weak,
            repair=repair,
            cliff=CLIFF | (cliff or {}),
        )
    return folder


def write_run(
    folder: Path,
    entry: dict[str, Any],
    *,
    lengths: tuple[int, ...],
    trained_length: int,
    blow_up: str | None,
    weak: tuple[str, int] | None,
    repair: str | None,
    cliff: dict[str, float],
) -> None:
    """One run folder."""
    folder.mkdir()
    rows: list[Row] = []
    items: dict[str, NDArray[np.float32]] = {}
    for worn in (None, repair) if repair else (None,):
        numbers = (
            ended(entry, lengths, trained_length, weak, cliff)
            if entry["task"] in STRINGS
            else measured(entry, lengths, trained_length, blow_up, weak, repaired=worn is not None)
        )
        for metric, length, first, last, values in numbers:
            mean = None if values is None else float(values.mean())
            rows.append(
                Row(
                    training=entry["digest"],
                    scheme=entry["scheme"],
                    task=entry["task"],
                    seed=entry["seed"],
                    repair=worn,
                    trained_length=trained_length,
                    evaluation_length=length,
                    metric=metric,
                    first_position=first,
                    last_position=last,
                    value=mean,
                    low=mean,
                    high=mean,
                    count=0 if values is None else len(values),
                    status="past_limit" if values is None else "measured",
                )
            )
            if values is not None:
                judged = values.dtype == np.bool_
                items[rows[-1].item_key] = values.astype(np.uint8 if judged else np.float32)
    (folder / "rows.jsonl").write_text(dump_rows(rows))
    save_file(items, folder / "items.safetensors")
    recall = entry["task"] != "text"
    write_json(
        folder / "evaluation.json",
        format=1,
        evaluation=dict(sequences=128, documents=40, last=LAST),
        task=dict(
            label=entry["task"],
            metric="exact_match" if recall else "loss",
            length_unit="symbols" if entry["task"] in STRINGS else "tokens",
            ceiling={
                str(n): 1.0
                if entry["task"] in STRINGS
                else ceiling(n, trained_length)
                if recall
                else 0.0
                for n in lengths
            },
            chance={str(n): 1 / 16 if recall else math.log(512) for n in lengths},
            note="Find the value that was shown with a key." if recall else "Held-out source code.",
        ),
        sha256={
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in ("rows.jsonl", "items.safetensors")
        },
    )
    steps = range(0, 600, 5)
    start = 2.8 if recall else 6.2
    rng = np.random.default_rng(entry["seed"])
    losses = [0.1 * start + 0.9 * start * math.exp(-s / 90) + 0.05 * rng.normal() for s in steps]
    (folder / "log.jsonl").write_text(
        "".join(
            json.dumps({"step": s, "loss": loss, "learning_rate": 0.003}) + "\n"
            for s, loss in zip(steps, losses, strict=True)
        )
    )
    write_json(
        folder / "training.json",
        format=1,
        digest=entry["digest"],
        training=dict(scheme=entry["scheme"], task=entry["task"], seed=entry["seed"]),
        provenance=PROVENANCE | {"seconds": 41.5 + entry["seed"]},
        summary=dict(parameters=123_456, final_loss=losses[-1], overlap=0 if recall else None),
    )


def measured(
    entry: dict[str, Any],
    lengths: tuple[int, ...],
    trained_length: int,
    blow_up: str | None,
    weak: tuple[str, int] | None,
    *,
    repaired: bool,
) -> Iterable[tuple[str, int, int, int, NDArray[np.float64] | None]]:
    """Metric, evaluation length, first and last position, values per item (None past the limit)."""
    scheme, seed = entry["scheme"], entry["seed"]
    family = scheme.split("(")[0]
    rng = np.random.default_rng(seed)
    shift = 0.03 * (seed - 1)
    half = 0.5 if repaired else 1.0

    def past(length: float) -> float:
        return max(0.0, math.log2(length / trained_length))

    def limited(length: int) -> bool:
        return family == "learned" and length > trained_length

    if entry["task"] != "text":
        for length in lengths:
            share = ceiling(length, trained_length) * 0.99
            share -= half * DECLINE.get(family, 0.3) * past(length) + shift * past(length)
            share *= 0.8 if weak == (scheme, seed) else 1.0
            right = rng.random(128) < max(0.06, share)
            values = None if limited(length) else right.astype(float)
            yield "exact_match", length, length, length, values
        return

    difficulty = np.random.default_rng(99).normal(0, 0.2, 40)  # the same documents for every run
    longest = max(lengths)

    def loss(length: float) -> NDArray[np.float64]:
        gained = half * EXCESS.get(family, 0.3) * past(length)
        if family == blow_up:
            gained = 40.0 * past(length)
        base = 2.6 - 0.08 * math.log2(length) + 0.5 / length
        return base + gained + shift + difficulty + rng.normal(0, 0.01, 40)

    for length in lengths:
        values = None if limited(length) else loss(length) + 0.2
        yield "loss", length, 1, length, values
        yield "bits_per_byte", length, 1, length, None if values is None else values / 2.2
    first = 1
    while first <= longest:
        last = min(longest, max(16, 2 * (first - 1)))
        values = None if limited(last) else loss(math.sqrt(first * last))
        yield "loss_by_position", longest, first, last, values
        first = last + 1
    for length in lengths:
        values = None if limited(length) else loss(length)
        yield "last_loss", length, length - LAST + 1, length, values


def ended(
    entry: dict[str, Any],
    lengths: tuple[int, ...],
    trained_length: int,
    weak: tuple[str, int] | None,
    cliff: dict[str, float],
) -> Iterable[tuple[str, int, int, int, NDArray[Any] | None]]:
    """Right, or wrong in one of three ways, sequence by sequence; the same ones for every run."""
    scheme, seed = entry["scheme"], entry["seed"]
    middle = trained_length + cliff.get(scheme.split("(")[0], 1.0) + 0.4 * (seed - 2)
    for length in lengths:
        last = 2 * length + 2
        if scheme == "learned" and length > trained_length:
            yield "exact_match", length, length + 2, last, None
            continue
        share = 1 / (1 + math.exp(3 * (length - middle)))
        share *= 0.9 if weak == (scheme, seed) else 1.0
        # Whether a sequence is hard is its own; how it is failed is the run's.
        hard = np.random.default_rng([length, 7]).random(256)
        way = np.random.default_rng([length, seed]).integers(0, 3, 256)
        right = hard < share
        for metric, values in (
            ("exact_match", right),
            ("exact_match_without_end", right | (way == 1)),
            ("end_too_early", ~right & (way == 0)),
            ("end_too_late", ~right & (way == 1)),
            ("token_accuracy", np.where(right, 1.0, 0.5 + 0.1 * way)),
        ):
            yield metric, length, length + 2, last, values


def ceiling(length: int, trained_length: int) -> float:
    """A task that gets ambiguous as it gets longer."""
    return 1.0 - 0.03 * max(0.0, math.log2(length / trained_length))


def write_json(path: Path, **content: Any) -> None:
    path.write_text(json.dumps(content))
