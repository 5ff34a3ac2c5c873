"""What page and summary say in the same words: how much is done, how it was measured, by what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .intervals import RESAMPLES
from .lengths import spoken
from .summarise import (
    BAR,
    REACH_NATS,
    REACH_SHARE,
    Finished,
    Summary,
    Task,
    shortest_trained,
)
from .verdict import listed

FEW_SEEDS = 5


def progress(summary: Summary) -> list[str]:
    """What is missing, what does not belong here, what did not learn its task."""
    results = summary.results
    done, planned = len(results.runs), len(results.runs) + len(results.missing)
    said = [f"{done} of {planned} runs complete."]
    if results.missing:
        said[0] += " What follows is over the finished ones; run the study again to add the rest."
    if results.strangers:
        said.append(
            f"Left alone, as they belong to no run of this plan: {listed(results.strangers)}."
        )
    if flagged := summary.flagged:
        said.append(
            f"Flagged, and kept in every number: {listed(flags(flagged))} scored below "
            f"{BAR:.0%} of the ceiling {trained_at(summary)}, so what they do past "
            f"{'it' if shortest_trained(results) is None else 'them'} says little."
        )
    return said


def trained_at(summary: Summary) -> str:
    """Where a run must have learned its task, as the end of a sentence."""
    first = shortest_trained(summary.results)
    if first is None:
        return "at the trained length"
    last = summary.results.plan["study"]["trained_length"]
    return f"on average over the lengths trained at, {first} to {last}"


def flags(flagged: Iterable[Finished]) -> list[str]:
    """Flagged runs by scheme and task: their seeds, and the least and the most they scored."""
    groups: dict[tuple[str, str], list[Finished]] = {}
    for done in flagged:
        groups.setdefault((done.scheme, done.task), []).append(done)
    said = []
    for (scheme, task), runs in groups.items():
        seeds = ", ".join(str(done.seed) for done in runs)
        shares = [done.in_distribution or 0.0 for done in runs]
        least, most = f"{min(shares):.1%}", f"{max(shares):.1%}"
        scored = least if least == most else f"{least} to {most}"
        said.append(f"{scheme} on {task}, seed{'s' if len(runs) > 1 else ''} {seeds} ({scored})")
    return said


def seen_in_training(task: Task) -> str:
    """How many of the evaluated sequences training had met, length by length."""
    if not task.seen:
        return ""
    groups: list[tuple[str, list[int]]] = []
    for length, share in task.seen.items():
        text = "none" if share == 0 else "all" if share == 1 else f"{share:.1%}"
        if groups and groups[-1][0] == text:
            groups[-1][1].append(length)
        else:
            groups.append((text, [length]))
    clauses = [
        f"{text} at {lengths[0]}" + (f" to {lengths[-1]}" if len(lengths) > 1 else "")
        for text, lengths in groups
    ]
    met = [length for length, share in task.seen.items() if share > 0]
    beyond = "; where it had, a score says nothing of new ones" if met else ""
    return f"Of the evaluated sequences, training had met: {', '.join(clauses)}{beyond}."


def methods(summary: Summary) -> list[str]:
    """How every number was made."""
    study = summary.results.plan["study"]
    seeds = study["seeds"]
    said = []
    if study["model"].get("architecture", "decoder") != "decoder":
        said.append(
            f"Every model is an {study['model']['architecture']}: one half (layers "
            f"{study['model']['layers']}) reads the prompt up to its separator, and the other, as "
            "deep, writes the answer. The tokens scored are those of a decoder's study."
        )
    said += [
        f"Every scheme was trained from {len(seeds)} seed{'s' if len(seeds) > 1 else ''} "
        f"({listed(map(str, seeds))}) and measured on the same sequences as every other.",
        "Intervals are 95% percentile intervals of a bootstrap that draws seeds and sequences "
        f"independently ({RESAMPLES:,} resamples, fixed random numbers). For fractions they are "
        "widened to Wilson's interval over the distinct sequences, since a bootstrap of answers "
        "that are all right has no width. Differences between schemes, and changes against the "
        "trained length, are paired by seed and by sequence or document: what these differ by "
        "cancels.",
    ]
    if 1 < len(seeds) < FEW_SEEDS:
        said.append(
            f"With {len(seeds)} seeds these intervals are too narrow in what they say about other "
            f"seeds; take at least {FEW_SEEDS} for a claim."
        )
    elif len(seeds) == 1:
        said.append(
            "With one seed the intervals say nothing about other seeds, only about other sequences."
        )
    measures = {task.metric for task in summary.tasks}
    if measures - {"loss"}:
        said.append(
            "Reach is the longest evaluation length with every length up to it at "
            f"{REACH_SHARE:.0%} of the ceiling or more; it is 0 if the shortest fails. A run is "
            f"flagged, never dropped, if it scores below {BAR:.0%} of the ceiling "
            f"{trained_at(summary)}."
        )
    if "loss" in measures:
        said.append(
            "Where loss is measured, reach is the longest evaluation length with every length "
            f"from the trained one up to it at most {REACH_NATS} nats above the loss at the "
            "trained length, for the same last tokens. The mean loss over positions has no say."
        )
    said.append(
        "Reach is taken run by run; tables show its mean over seeds [least..most], with ≥ where a "
        "seed still held at the longest length measured. Bold is the best mean of a column, not a "
        "claim that it differs from the next."
    )
    return said


def provenance(summary: Summary) -> list[tuple[str, str]]:
    """Who ran what, where and with which versions."""
    origin = summary.results.plan["provenance"]
    trained = [done.run.training for done in summary.finished]
    seconds = [float(training["provenance"]["seconds"]) for training in trained]
    parameters = sorted({int(training["summary"]["parameters"]) for training in trained})
    counts = f"{parameters[0]:,}"
    if len(parameters) > 1:
        counts += f" to {parameters[-1]:,}"
    pairs = [(key, str(origin[key])) for key in ("command", "date")]
    for key in ("longreach", "python", "torch", "numpy", "platform"):
        found = dict.fromkeys(str(training["provenance"][key]) for training in trained)
        pairs.append((key, "; ".join(found)))
    pairs.append(("parameters", counts))
    pairs.append(
        ("seconds per run", f"{min(seconds):.0f} to {max(seconds):.0f}, {sum(seconds):.0f} in all")
    )
    return pairs


def settings(summary: Summary) -> list[tuple[str, str]]:
    """The study as it was resolved."""
    study = summary.results.plan["study"]
    pairs = [("trained length", str(study["trained_length"]))]
    pairs.append(("evaluation lengths", spoken(study["evaluation_lengths"])))
    for part in ("model", "training", "evaluation"):
        pairs.append((part, ", ".join(f"{key} {told(x)}" for key, x in study[part].items())))
    return pairs


def told(value: Any) -> str:
    """A setting, briefly."""
    return f"{value:g}" if isinstance(value, float) else str(value)
