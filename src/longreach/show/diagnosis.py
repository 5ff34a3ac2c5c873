"""A diagnosis for people: what the model is, what is wrong in its config, what a target takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..checkpoint.layout import Checkpoint, LayerGroup
from ..diagnose import Candidate, Diagnosis, group_json

SHOWN_RANGES = 6


def show(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Prints it."""
    console = console or Console(highlight=False)
    checkpoint = diagnosis.checkpoint
    heading = Text(checkpoint.source, style="bold")
    heading.append(f"  {checkpoint.model_type}", style="")
    if checkpoint.stated_length is not None:
        heading.append(
            f", states {checkpoint.stated_length:,} tokens ({checkpoint.stated_key})", ""
        )
    console.print(heading)
    for group in checkpoint.groups:
        console.print()
        for line in describe(group, checkpoint, diagnosis.target_length):
            console.print(
                Padding(line, (0, 0, 0, 0 if line.startswith("layers") else 2), expand=False)
            )
    if checkpoint.problems:
        console.print()
        console.print(Text(f"problems in the config ({len(checkpoint.problems)})", style="bold"))
    for problem in checkpoint.problems:
        console.print(
            Padding(
                Text(f"{problem.code}: {problem.message}", style="yellow"),
                (0, 0, 0, 2),
                expand=False,
            )
        )
        console.print(Padding(Text(problem.consequence), (0, 0, 0, 4), expand=False))
    _advice(diagnosis, console)


def describe(group: LayerGroup, checkpoint: Checkpoint, target: int | None) -> Iterator[str]:
    """A group of layers, a sentence a line."""
    layers = "all layers" if group.layers is None else f"layers {ranges(group.layers)}"
    yield f"layers: {layers.removeprefix('layers ')}, told positions by {WORDS[group.kind]}"
    if group.trained_length is not None:
        yield f"trained at {group.trained_length:,} tokens ({group.trained_length_source})"
    if group.window is not None:
        how = "in chunks of" if group.window_kind == "chunked" else "in a sliding window of"
        yield f"attention {how} {group.window:,} tokens: no distance is larger"
    found = group_json(group, checkpoint, target)
    spectrum = group.spectrum
    if spectrum is not None and group.base is not None:
        head = checkpoint.head_dim
        of = f" of {head}" if head and head != group.rotary_dim else ""
        turned = f"{group.rotary_dim}{of} dimensions turned ({spectrum.pairs} pairs)"
        yield f"{turned}, base {group.base:,.10g}"
        if found["never_completed"] is not None:
            first = found["first_never_completed"]
            since = "" if first is None else f", from pair {first} on"
            yield (
                f"{found['never_completed']} of {spectrum.pairs} pairs never completed a turn in "
                f"training{since}; the slowest takes {spectrum.wavelengths[-1]:,.0f} tokens"
            )
    if group.repair is not None:
        amplitude = (
            "" if found["amplitude"] in (1, None) else f", amplitude {found['amplitude']:.6g}"
        )
        yield f"repaired already: {group.repair}{amplitude}"
    if group.softmax_factor != 1:
        yield f"softmax scale multiplied by {group.softmax_factor:.6g} besides (latent attention)"
    if found["unseen"] is not None and target is not None:
        yield f"at {target:,} tokens: {found['unseen']} pairs past what they met in training"
    if group.slopes:
        yield (
            f"{len(group.slopes)} slopes from {max(group.slopes):.4g} to {min(group.slopes):.4g} "
            "nats per "
            f"token; the flattest takes 10 nats off at {10 / min(group.slopes):,.0f} tokens"
        )
    if group.limit is not None:
        yield f"a table of {group.limit:,} rows: no position past it exists"
    if group.kind == "t5":
        yield f"{found['buckets']} buckets; distances from {found['last_bucket_from']} on share one"
    if group.temperature:
        yield group.temperature
    yield from group.notes


WORDS = {
    "rope": "RoPE",
    "nope": "nothing (NoPE)",
    "alibi": "ALiBi",
    "learned": "a learned table",
    "sinusoidal": "sinusoids added to the embeddings",
    "t5": "T5's relative bias",
}


def ranges(layers: Sequence[int]) -> str:
    """Layer indices, with runs joined.

    >>> ranges([0, 1, 2, 4, 5, 7])
    '0-2, 4-5, 7'
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    if len(words) > SHOWN_RANGES:
        return ", ".join(words[: SHOWN_RANGES - 1]) + f", ... {words[-1]} ({len(layers)} layers)"
    return ", ".join(words)


def _advice(diagnosis: Diagnosis, console: Console) -> None:
    advice = diagnosis.advice
    if diagnosis.target_length is None:
        console.print("\nGive --target-length to see what reaching it takes.")
        return
    console.print()
    console.print(Text(f"to reach {diagnosis.target_length:,} tokens", style="bold"))
    console.print(Padding(advice.reason + ".", (0, 0, 0, 2), expand=False))
    if advice.candidates:
        console.print(f"  smallest sufficient factor: {advice.smallest_factor:.6g}\n")
        console.print(Padding(_table(advice.candidates), (0, 0, 0, 2), expand=False))
        for candidate in advice.candidates:
            line = Text(f"{candidate.effect.repair.name}: ", style="bold")
            line.append(candidate.short_text, style="")
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
    console.print("\n  not known without measuring:")
    for unknown in advice.unknown:
        console.print(Padding(f"- {unknown}", (0, 0, 0, 2), expand=False))


def _table(candidates: Sequence[Candidate]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1), pad_edge=False)
    table.add_column(CANDIDATE_HEAD[0], no_wrap=True)
    for heading in CANDIDATE_HEAD[1:]:
        table.add_column(heading, justify="right")
    for candidate in candidates:
        table.add_row(*cells(candidate))
    return table


CANDIDATE_HEAD = ("repair", "pairs changed", "logits x", "local resolution", "reaches (tokens)")
"""Of the table of candidates."""


def cells(candidate: Candidate) -> tuple[str, ...]:
    """A candidate's row, under CANDIDATE_HEAD."""
    made = candidate.effect
    reach = "any" if made.effective_length is None else f"{made.effective_length:,}"
    return (
        _short(candidate),
        f"{candidate.changed}",
        f"{candidate.logits:.4f}",
        f"{made.local_resolution:.0%}",
        reach,
    )


def _short(candidate: Candidate) -> str:
    """The repair with its factor alone; a longrope list would fill the screen."""
    factor = candidate.effect.repair.options.get("factor")
    name = candidate.effect.repair.name
    return name if factor is None else f"{name}:factor={factor:.6g}"
