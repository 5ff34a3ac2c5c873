"""What page and summary say in the same words: how much is done, how it was measured, by what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    if measured_model(summary):
        needles = any(task.depths for task in summary.tasks)
        return methods_of_needles(study) if needles else methods_of_a_model(study)
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
    said += methods_of_extension(study)
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


def methods_of_extension(study: Mapping[str, Any]) -> list[str]:
    """How models were made to serve further lengths, where a study tries that."""
    extension = study.get("extension")
    if not extension:
        return []
    said = (
        f"Past the trained length, {listed(extension['schemes'])} was also measured under repairs, "
        "each set for the evaluation length in question: worn, which changes no weight"
    )
    if tuned := extension["training"]:
        said += (
            f"; and with a fine-tune of {tuned['steps']:,} steps at that length, which begins from "
            f"the trained weights ({tuned['steps'] / study['training']['steps']:.0%} of the steps "
            "that made them, on text or sequences of its own, the same for every repair)"
        )
    if extension["from_scratch"]:
        said += (
            "; and beside models that were trained at that length from the start, in as many steps "
            "and tokens as those of the trained length"
        )
    return [
        f"{said}. Up to the trained length an extended model is the one it extends, and is counted "
        "as that."
    ]


def measured_model(summary: Summary) -> bool:
    """Whether this is about one trained model, and not about models trained for it."""
    return "digest" in summary.results.plan["study"]["model"]


def how_repairs_are_worn(study: Mapping[str, Any]) -> str:
    """What a repair does to the model that was measured, and what its windows begin with."""
    said = (
        f"{study['model']['name']} was read as it is, and under each repair. A repair replaces the "
        "function that makes cos and sin while it is worn; no weight is changed, and afterwards "
        "the model is bit for bit what it was. What was applied was read back from the running "
        "model: see the settings."
    )
    start, source = (study["model"].get(key) for key in ("start", "source"))
    if source:
        said += (
            " It is an encoder-decoder, and was read as a language model: every window is the "
            f"decoder's, and begins with {start}, which it starts from, in place of the window's "
            f"first token; its encoder has {source} alone, whatever the text and its length."
        )
    elif start:
        said += (
            f" Every window begins with {start}, which its tokenizer puts before any text, in "
            "place of the window's first token."
        )
    return said


def methods_of_needles(study: Mapping[str, Any]) -> list[str]:
    """How every number about needles was made."""
    return [
        how_repairs_are_worn(study),
        "A prompt is a stretch of a real document with a statement put between two of its lines or "
        "sentences, and a question at the end whose last words are those of the statement: a model "
        "that was only trained to go on with text can answer. The whole of it, question included, "
        "has exactly as many tokens as the evaluation length says. Documents, wordings, words and "
        "places depend on kind, length, depths and trial alone, so that repairs meet the same "
        "prompts.",
        "Where a kind tells of several needles, those of different depths stand in one text, which "
        "is read once: every question is then read behind it on its own, and none sees another.",
        "The logits at the answer judge both: exact match, if every token of the answer "
        "has the highest logit of all (what greedy decoding would write); choice, if it has a "
        "higher one than the tokens that the other answers have in its place. A tie is wrong.",
        "Depth is a share of the text around the needle. A needle stands at most some dozens of "
        "tokens from it, where a line or sentence ends.",
        f"Intervals are 95% percentile intervals of a bootstrap over trials ({RESAMPLES:,} "
        "resamples, fixed random numbers), widened to Wilson's, since a bootstrap of answers that "
        "are all right has no width. Differences are paired by trial. Where trials outnumber "
        "documents, some share one; needles of one text are counted as if they were independent.",
        f"Reach is the longest length with every length up to it at {REACH_SHARE:.0%} of the "
        "ceiling or more in exact match, over all depths; it is 0 if the shortest fails.",
    ]


def methods_of_a_model(study: Mapping[str, Any]) -> list[str]:
    """How every number about a trained model was made."""
    trained, last = study["trained_length"], study["evaluation"]["last_tokens"]
    return [
        how_repairs_are_worn(study),
        f"The control is the model as it is, reading the same tokens with no more than {trained:,} "
        "tokens before them. Without it a hard passage would look like harm done by the length. "
        f"Loss over the control is that of the last {last} tokens up to a length, minus the "
        "control's of the same tokens.",
        "A causal model's loss on a prefix does not depend on what follows: one pass over a window "
        "serves every length. A repair that depends on the length is measured at each length in a "
        "pass of its own.",
        "Intervals are 95% percentile intervals of a bootstrap over documents "
        f"({RESAMPLES:,} resamples, fixed random numbers), paired by document. With few documents "
        "they are too narrow.",
        "Reach is the longest length with every length from the trained one up to it at most "
        f"{REACH_NATS} nats over the control. The mean loss over positions has no say.",
    ]


def worn(summary: Summary) -> list[tuple[str, str]]:
    """What repairs came to in the running model, as read back from it."""
    found: dict[str, str] = {}
    for done in summary.finished:
        for proof in done.run.evaluation.get("proofs", ()):
            parts = [
                f"amplitude {kind['amplitude']:.6g}, inverse frequencies "
                f"{kind['inverse_frequencies'][0]:.6g} to {kind['inverse_frequencies'][-1]:.6g} "
                f"in {len(kind['layers'])} layers"
                + ("" if kind["base"] is None else f" of base {kind['base']:g}")
                for kind in proof["worn"]
            ]
            untouched = proof["layers_untouched"]
            left = f"; {untouched} layers untouched" if untouched else ""
            found[proof["repair"]] = (
                f"for {proof['target_length']:,} tokens: {'; '.join(parts)}{left}"
            )
    return list(found.items())


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


def facts(summary: Summary) -> str:
    """In a line: seeds, versions, date; the rest is under provenance."""
    study = summary.results.plan["study"]
    pairs = dict(provenance(summary))
    seeds = study["seeds"]
    said = [
        f"seed{'s' if len(seeds) > 1 else ''} {spoken(seeds)}",
        f"{pairs['parameters']} parameters",
        f"longreach {pairs['longreach']}",
        f"PyTorch {pairs['torch']}",
        pairs["date"][:10],
    ]
    return " · ".join(said)


def settings(summary: Summary) -> list[tuple[str, str]]:
    """The study as it was resolved."""
    study = summary.results.plan["study"]
    pairs = [("trained length", str(study["trained_length"]))]
    pairs.append(("evaluation lengths", spoken(study["evaluation_lengths"])))
    pairs.append(("seeds", spoken(study["seeds"])))
    for part in ("model", "training", "evaluation", "extension"):
        if study.get(part):
            pairs.append((part, ", ".join(f"{key} {told(x)}" for key, x in study[part].items())))
    return pairs + worn(summary)


def told(value: Any) -> str:
    """A setting, briefly."""
    if isinstance(value, list):
        return " ".join(map(told, value))
    if isinstance(value, dict):
        return f"({', '.join(f'{key} {told(one)}' for key, one in value.items())})"
    return f"{value:g}" if isinstance(value, float) else str(value)
