"""The runs folder of a search for needles: a plan, and a run for each kind and text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import safetensors.numpy

from .. import files
from ..cell import provenance
from ..results import EVALUATION, FORMAT, ITEMS, LOG, PLAN, ROWS, TRAINING, dump_rows, sha256
from .answers import CHOICES, DIGITS
from .folder import parameters, scheme_of
from .hunt import Hunt, rows_of
from .needles import NEEDLES
from .wear import Proof

STUDY = "needles"


def digest_of(hunt: Hunt) -> str:
    """Names the folder of a model's rows on a kind and text."""
    return hashlib.sha256(f"{hunt.model.digest} needles {hunt.label}".encode()).hexdigest()[:16]


def write_plan(out: Path, hunts: Sequence[Hunt], command: str, question: str) -> None:
    """plan.json, as a study of one model."""
    asked, model = hunts[0].asked, hunts[0].model
    scheme = scheme_of(model)
    plan = {
        "format": FORMAT,
        "study": {
            "name": STUDY,
            "question": question
            or f"At which depth and length does {model.name}, trained at {model.trained_length:,} "
            "tokens, find what it was told, and what does each repair do?",
            "schemes": [{"name": scheme, "options": {}}],
            "tasks": [{"name": h.kind, "options": {"text": h.hays.label}} for h in hunts],
            "seeds": [0],
            "trained_length": model.trained_length,
            "evaluation_lengths": list(asked.lengths),
            "model": {"name": model.name, "digest": model.digest},
            "training": {},
            "evaluation": {
                "depths": list(asked.depths),
                "trials": asked.trials,
                "target_length": asked.target_length,
                "repairs": ["none" if r is None else str(r) for r in asked.repairs],
            },
        },
        "trainings": [
            {"digest": digest_of(hunt), "scheme": scheme, "task": hunt.label, "seed": 0}
            for hunt in hunts
        ],
        "provenance": provenance(command),
    }
    files.write(out / PLAN, json.dumps(plan, indent=1) + "\n")


def write_run(out: Path, hunt: Hunt, command: str, proofs: Mapping[str, Proof]) -> None:
    """The run folder of one kind and text: rows, items, and what made them; whole, or as it was."""
    digest, asked, model = digest_of(hunt), hunt.asked, hunt.model
    folder = out / digest
    folder.mkdir(exist_ok=True)
    measured = rows_of(hunt, digest, scheme_of(model))
    made = provenance(command)
    files.write(folder / ROWS, dump_rows(measured.rows))
    files.write(folder / ITEMS, safetensors.numpy.save(measured.items))
    files.write(folder / LOG, "")

    def everywhere(value: float) -> dict[int, float]:
        return dict.fromkeys(asked.lengths, value)

    evaluation = {
        "format": FORMAT,
        "evaluation": {
            "lengths": list(asked.lengths),
            "depths": list(asked.depths),
            "trials": hunt.done,
        },
        "provenance": made,
        "task": {
            "label": hunt.label,
            "metric": "exact_match",
            "length_unit": "tokens",
            "ceiling": everywhere(1.0),
            # Of all that a model might write, nobody hits the answer by chance.
            "chance": everywhere(0.0),
            "others": {
                "choice": {"ceiling": everywhere(1.0), "chance": everywhere(hunt.pool.chance)}
            },
            "depths": list(asked.depths),
            "note": note(hunt),
        },
        "documents": documents(hunt),
        "proofs": [proof.as_json() for proof in proofs.values()],
        "rows": ROWS,
        "items": ITEMS,
        "sha256": {ROWS: sha256(folder / ROWS), ITEMS: sha256(folder / ITEMS)},
    }
    files.write(folder / EVALUATION, json.dumps(evaluation, indent=1) + "\n")
    seconds = sum(spent for _, spent in hunt.ledger.seconds)
    training = {
        "format": FORMAT,
        "digest": digest,
        "training": {"model": model.name, "needle": hunt.kind, "text": hunt.hays.label},
        "provenance": {**made, "seconds": round(seconds, 1)},
        "summary": {"parameters": parameters(model), "final_loss": None, "overlap": None},
        "sha256": {},
    }
    files.write(folder / TRAINING, json.dumps(training, indent=1) + "\n")


def documents(hunt: Hunt) -> list[str]:
    """Names of those that needles were hidden in, each once."""
    done = [made.document for (_, _, number), made in hunt.trials.items() if number < hunt.done]
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
    said = (
        f"Needles ({kind.source}): {kind.about}, in one of {len(kind.templates)} wordings. "
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
