"""The training losses of a task's runs, thinned to what a figure can show."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .summarise import Task

STRETCHES = 60
"""So many points per line: the noise of single batches would hide the curve."""


def training_loss(task: Task) -> list[dict[str, Any]]:
    """Points of one line per scheme: mean over seeds, from the lowest seed to the highest."""
    by_scheme: dict[str, list[tuple[list[int], list[float]]]] = {}
    for done in task.finished:
        log = done.run.log
        steps, losses = [int(line["step"]) for line in log], [float(line["loss"]) for line in log]
        if steps:
            by_scheme.setdefault(done.scheme, []).append((steps, losses))
    points = []
    for scheme, logs in by_scheme.items():
        end = max(steps[-1] for steps, _ in logs) + 1
        edges = np.linspace(0, end, min(STRETCHES, len(logs[0][0])) + 1)
        for first, last in pairwise(edges):
            means = [
                float(np.mean(inside))
                for steps, losses in logs
                if (inside := [x for s, x in zip(steps, losses, strict=True) if first <= s < last])
            ]
            if means:
                points.append(
                    {
                        "curve": scheme,
                        "x": float((first + last) / 2),
                        "at": f"steps {first:.0f} to {last:.0f}",
                        "mean": float(np.mean(means)),
                        "sd": float(np.std(means, ddof=1)) if len(means) > 1 else None,
                        "low": min(means),
                        "high": max(means),
                        "seeds": len(means),
                    }
                )
    return points
