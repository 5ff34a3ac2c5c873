"""Measures a trained model past its window, under repairs, always beside a control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import InputError
from ..repairs import Repair
from ..results import Results
from ..run import locked
from .base import LanguageModel
from .folder import Part, Study, check_folder, digest, scheme_of, write
from .passes import Ledger, within
from .rows import rows_of
from .wear import Proof
from .windows import passages
from .work import Request, Work

STUDY = "measure"
WORK = ".work"


class Display(Protocol):
    """Shows how measuring advances. `steps` are tokens read."""

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        """Once, before anything runs."""

    def advance(self, steps: int) -> None:
        """So many tokens more are read."""

    def finish(self, label: str) -> None:
        """One more window is done, under every repair."""


@dataclass(frozen=True)
class Found:
    """What a measurement came to.

    proofs: by repair as it was asked for. left_out: in sentences, what the time did not allow.
    """

    results: Results
    proofs: Mapping[str, Proof]
    left_out: tuple[str, ...]
    problems: tuple[str, ...] = ()


def measure(
    model: LanguageModel,
    request: Request,
    out: Path,
    *,
    display: Display,
    command: str,
    say: Callable[[str], None] = lambda line: None,
    max_seconds: float | None = None,
    question: str = "",
) -> Found:
    """Measures what is missing in `out` and writes rows, as a runs folder that `report` reads.

    Each window is read by the model as it is from the beginning; in windows of the trained length
    (the control); and under every repair. Then the next window: stopped anywhere, what there is
    compares like with like.

    max_seconds: begin no window that would end later; the first of each text is always measured.
    Raises InputError for a mistake in the request, text that is too short, or a folder that is not
    its own.
    """
    asked = request.of(model.trained_length)
    limit = model.limit
    if limit is not None and asked.lengths[-1] > limit:
        known = [n for n in asked.lengths if n <= limit]
        raise InputError(
            f"{model.name} has a table of {limit:,} positions, and none for {asked.lengths[-1]:,} "
            f"tokens: it cannot be run there. Its lengths go up to {max([*known, limit]):,}"
        )
    with locked(out):
        check_folder(out, model, STUDY)
        proofs = prove_all(model, asked.repairs, asked.target_length or asked.lengths[-1])
        ledger = Ledger(out / WORK / model.digest, model)
        works = [
            Work(asked, model, passages(model, text, asked.lengths[-1], asked.windows, say), ledger)
            for text in asked.texts
        ]
        left_out = read_all(works, display, max_seconds)
        about = Study(
            model=model,
            name=STUDY,
            question=question
            or f"How far past {model.trained_length:,} tokens does {model.name} reach, and what "
            "does each repair do?",
            lengths=asked.lengths,
            evaluation={
                "windows": asked.windows,
                "last_tokens": asked.last_tokens,
                "target_length": asked.target_length,
                "repairs": ["none" if r is None else str(r) for r in asked.repairs],
            },
            command=command,
            proofs=proofs,
        )
        write(out, about, [part(work) for work in works], ledger.spent)
        return Found(
            Results.read(out), proofs, tuple(left_out), tuple(getattr(model, "problems", ()))
        )


def part(work: Work) -> Part:
    """What is to be written of one text."""
    model = work.model
    label = f"text ({work.text.label})"
    return Part(
        label=label,
        digest=digest(model, work.text.label),
        task={"name": "text", "options": {"text": work.text.label}},
        measured=rows_of(work, digest(model, work.text.label), scheme_of(model), label),
        evaluation={
            "lengths": list(work.asked.lengths),
            "windows": work.done,
            "last_tokens": work.asked.last_tokens,
        },
        told={"metric": "loss", "ceiling": {}, "chance": {}, "note": note(work)},
        documents=work.text.names,
    )


def note(work: Work) -> str:
    """What was read, in a sentence."""
    count = len({*work.text.windows.owners[: work.done].tolist()})
    windows = f"{work.done} window{'s' if work.done > 1 else ''}"
    documents = f"{count} document{'s' if count > 1 else ''}"
    return (
        f"{windows} of {work.asked.lengths[-1]:,} tokens from {documents} of {work.text.label}, "
        "the same for every repair and length."
        + (" Intervals are over the windows of one document." if count == 1 else "")
    )


def prove_all(
    model: LanguageModel, repairs: Iterable[Repair | None], target_length: int
) -> dict[str, Proof]:
    """Puts every repair on once, for the target length. Raises InputError if one does not fit."""
    found = {}
    for repair in repairs:
        if repair is not None:
            with model.wearing(repair, target_length) as proof:
                assert proof is not None
                found[str(repair)] = proof
    return found


def read_all(works: Sequence[Work], display: Display, max_seconds: float | None) -> list[str]:
    """Does all passes that are missing and that the time allows; says what was left out."""
    batches = [
        (work, number, work.window(number))
        for number in range(max(len(work.text.windows.tokens) for work in works))
        for work in works
        if number < len(work.text.windows.tokens)
    ]
    missing = [each for work, _, batch in batches for each in batch if not work.ledger.there(each)]
    ready = sum(all(work.ledger.there(each) for each in batch) for work, _, batch in batches)
    display.start(runs=len(batches), finished=ready, steps=sum(each.read for each in missing))
    every = [batch for _, _, batch in batches]
    allowed = within(works[0].ledger, every, max_seconds, always=len(works))
    for (work, number, _), batch in zip(batches, allowed, strict=False):
        was_there = all(work.ledger.there(each) for each in batch)
        for each in batch:
            new = not work.ledger.there(each)
            work.ledger.losses(each)
            if new:
                display.advance(each.read)
        work.done = number + 1
        if not was_there:
            display.finish(f"window {number + 1} of {work.text.label}")
    return [
        f"{work.done} of {len(work.text.windows.tokens)} windows of {work.text.label} were "
        "measured: the time did not allow more. The same command continues"
        for work in works
        if work.done < len(work.text.windows.tokens)
    ]
