"""Measures whether a trained model finds needles: by depth and length, under repairs, in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from ..results import Results
from ..run import locked
from .answers import CHOICES, DIGITS, pool_of
from .base import LanguageModel
from .folder import Part, Study, check_folder, digest, scheme_of, write
from .haystack import haystacks
from .hunt import Hunt, NeedleRequest, rows_of
from .measure import WORK, Display, Found, prove_all
from .needles import NEEDLES, prompt, together
from .passes import Ledger, within

STUDY = "needles"


def seek(
    model: LanguageModel,
    search: NeedleRequest,
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
        about = Study(
            model=model,
            name=STUDY,
            question=question
            or f"At which depth and length does {model.name}, trained at {model.trained_length:,} "
            "tokens, find what it was told, and what does each repair do?",
            lengths=asked.lengths,
            evaluation={
                "depths": list(asked.depths),
                "trials": asked.trials,
                "target_length": asked.target_length,
                "repairs": ["none" if r is None else str(r) for r in asked.repairs],
            },
            command=command,
            proofs=proofs,
        )
        write(out, about, [part(hunt) for hunt in hunts], ledger.spent)
        problems = tuple(getattr(model, "problems", ()))
        return Found(Results.read(out), proofs, tuple(left_out), problems)


def part(hunt: Hunt) -> Part:
    """What is to be written of one kind in one text."""
    asked = hunt.asked
    name = digest(hunt.model, f"needles {hunt.label}")

    def everywhere(value: float) -> dict[int, float]:
        return dict.fromkeys(asked.lengths, value)

    return Part(
        label=hunt.label,
        digest=name,
        task={"name": hunt.kind, "options": {"text": hunt.hays.label}},
        measured=rows_of(hunt, name, scheme_of(hunt.model)),
        evaluation={
            "lengths": list(asked.lengths),
            "depths": list(asked.depths),
            "trials": hunt.done,
        },
        told={
            "metric": "exact_match",
            "ceiling": everywhere(1.0),
            # Of all that a model might write, nobody hits the answer by chance.
            "chance": everywhere(0.0),
            "others": {
                "choice": {"ceiling": everywhere(1.0), "chance": everywhere(hunt.pool.chance)}
            },
            "depths": list(asked.depths),
            "note": note(hunt),
        },
        documents=documents(hunt),
    )


def documents(hunt: Hunt) -> list[str]:
    """Names of those that needles were hidden in, each once."""
    made = hunt.prompts.items()
    done = [one.trials[0].document for (_, _, number), one in made if number < hunt.done]
    return list(dict.fromkeys(done))


def note(hunt: Hunt) -> str:
    """What was asked, of what, and how, in sentences."""
    asked, kind = hunt.asked, NEEDLES[hunt.kind]
    count = len(documents(hunt))
    trials = f"{hunt.done} trial{'s' if hunt.done > 1 else ''}"
    text = f"{count} document{'s' if count > 1 else ''} of {hunt.hays.label}"
    answers = (
        f"Answers are words; a choice is among {CHOICES}."
        if hunt.pool.words
        else f"Answers are numbers of {DIGITS} digits, since the tokenizer has too few words of "
        "one token; a choice is among the digits at every place."
    )
    wordings = "" if kind.each_its_own else f", in one of {len(kind.templates)} wordings"
    said = (
        f"Needles ({kind.source}): {kind.about}{wordings}. "
        f"{trials} at each length and depth, the same for every repair, within text from {text} "
        f"that does not hold the answer. {answers}"
    )
    trained = hunt.model.trained_length
    if asked.lengths[0] > trained:
        said += (
            f" No length within the {trained:,} tokens of training was measured, so nothing here "
            "says what the model can do where nothing is in its way."
        )
    return said


def fits(model: LanguageModel, asked: NeedleRequest) -> None:
    """Makes the first texts of every kind, length and depth, and reads none of them.

    Raises InputError if one cannot be made: text too short, or a needle too long for a length.
    """
    pool = pool_of(model)
    for text in asked.texts:
        hays = haystacks(model, text, lambda line: None)
        for kind in asked.kinds:
            for length in asked.lengths:
                for depths in together(kind, asked.depths):
                    prompt(kind, hays, pool, length, depths, 0)


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
