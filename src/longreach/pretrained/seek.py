"""Measures whether a trained model finds needles: by depth and length, under repairs, in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from ..results import Results
from ..run import locked
from .answers import pool_of
from .base import LanguageModel
from .folder import check_folder
from .haystack import haystacks
from .hunt import Hunt, Search
from .measure import WORK, Display, Found, prove_all
from .needles import trial
from .passes import Ledger, within
from .seek_folder import STUDY, write_plan, write_run


def seek(
    model: LanguageModel,
    search: Search,
    out: Path,
    *,
    display: Display,
    command: str,
    say: Callable[[str], None] = lambda line: None,
    max_seconds: float | None = None,
    question: str = "",
) -> Found:
    """Does what is missing in `out` and writes rows, as a runs folder that `report` reads.

    First trial 0 of every kind, text, length and depth under every repair; then trial 1: stopped
    anywhere, what there is compares like with like. Every pass is kept.

    max_seconds: begin no round of trials that would end later; the first is always done.
    Raises InputError for a mistake in the search, text that is too short or holds the words that
    would be hidden, or a folder that is not its own.
    """
    asked = search.checked()
    longest, pool = asked.lengths[-1], pool_of(model)
    read = longest + pool.width - 1
    if model.limit is not None and read > model.limit:
        raise InputError(
            f"{model.name} has a table of {model.limit:,} positions, and {longest:,} tokens with "
            f"an answer take {read:,}; its --lengths go up to {model.limit - pool.width + 1:,}"
        )
    with locked(out):
        check_folder(out, model, STUDY)
        proofs = prove_all(model, asked.repairs, asked.target_length or longest)
        ledger = Ledger(out / WORK / model.digest, model)
        texts = [haystacks(model, text, say) for text in asked.texts]
        hunts = [
            Hunt(asked, model, kind, hays, pool, ledger) for hays in texts for kind in asked.kinds
        ]
        left_out = read_all(hunts, display, max_seconds)
        write_plan(out, hunts, command, question)
        for hunt in hunts:
            write_run(out, hunt, command, proofs)
        problems = tuple(getattr(model, "problems", ()))
        return Found(Results.read(out), proofs, tuple(left_out), problems)


def fits(model: LanguageModel, asked: Search) -> None:
    """Makes one trial of every kind, text, length and depth, and reads none of them.

    Raises InputError if one cannot be made: text too short, or a needle too long for a length.
    """
    pool = pool_of(model)
    for text in asked.texts:
        hays = haystacks(model, text, lambda line: None)
        for kind in asked.kinds:
            for length in asked.lengths:
                for depth in asked.depths:
                    trial(kind, hays, pool, length, depth, 0)


def read_all(hunts: Sequence[Hunt], display: Display, max_seconds: float | None) -> list[str]:
    """Does all passes that are missing and that the time allows; says what was left out."""
    asked, ledger = hunts[0].asked, hunts[0].ledger
    batches = [
        [each for hunt in hunts for each in hunt.batch(number)] for number in range(asked.trials)
    ]
    ready = [all(ledger.there(each) for each in batch) for batch in batches]
    missing = [each.read for batch in batches for each in batch if not ledger.there(each)]
    display.start(runs=len(batches), finished=sum(ready), steps=sum(missing))
    done = 0
    for number, batch in enumerate(within(ledger, batches, max_seconds)):
        for each in batch:
            new = not ledger.there(each)
            ledger.values(each)
            if new:
                display.advance(each.read)
        done = number + 1
        if not ready[number]:
            display.finish(f"trial {done} everywhere")
    for hunt in hunts:
        hunt.done = done
    if done == asked.trials:
        return []
    return [
        f"{done} of {asked.trials} trials at each length and depth were done: the time did not "
        "allow more. The same command continues"
    ]
