"""The runs folder of a measurement: a plan and one run for each text, as `report` reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.numpy

from .. import files
from ..cell import provenance
from ..errors import InputError
from ..results import (
    EVALUATION,
    FORMAT,
    ITEMS,
    LOG,
    PLAN,
    ROWS,
    TRAINING,
    dump_rows,
    read_json,
    sha256,
)
from .base import LanguageModel
from .rows import rows_of
from .wear import Proof
from .windows import Passages
from .work import Request, Work

STUDY = "measure"


def check_folder(out: Path, model: LanguageModel, name: str = STUDY) -> None:
    """Raises InputError if the folder holds another study than `name`, or another model."""
    if not (out / PLAN).exists():
        return
    study = read_json(out / PLAN)["study"]
    held = study.get("model", {}).get("digest")
    if study["name"] != name or held != model.digest:
        what = f"the study '{study['name']}'" if study["name"] != name else "another model"
        raise InputError(f"{out} holds {what}; use another --out folder")


def digest_of(model: LanguageModel, text: Passages) -> str:
    """Names the folder of a model's rows on a text."""
    return hashlib.sha256(f"{model.digest} {text.label}".encode()).hexdigest()[:16]


def scheme_of(model: LanguageModel) -> str:
    """How it is told positions, in one word."""
    checkpoint = getattr(model, "checkpoint", None)
    if checkpoint is None:
        decoder = getattr(model, "decoder", None)
        return type(decoder.scheme).__name__.lower() if decoder is not None else "model"
    groups = [*checkpoint.unbounded, *checkpoint.rope, *checkpoint.groups]
    return str(groups[0].kind)


def write_plan(
    out: Path,
    works: Sequence[Work],
    asked: Request,
    model: LanguageModel,
    command: str,
    question: str,
) -> None:
    """plan.json, as a study of one model."""
    scheme = scheme_of(model)
    plan = {
        "format": FORMAT,
        "study": {
            "name": STUDY,
            "question": question
            or f"How far past {model.trained_length:,} tokens does {model.name} reach, and what "
            "does each repair do?",
            "schemes": [{"name": scheme, "options": {}}],
            "tasks": [{"name": "text", "options": {"text": w.text.label}} for w in works],
            "seeds": [0],
            "trained_length": model.trained_length,
            "evaluation_lengths": list(asked.lengths),
            "model": {"name": model.name, "digest": model.digest},
            "training": {},
            "evaluation": {
                "windows": asked.windows,
                "last_tokens": asked.last_tokens,
                "target_length": asked.target_length,
                "repairs": ["none" if r is None else str(r) for r in asked.repairs],
            },
        },
        "trainings": [
            {
                "digest": digest_of(model, work.text),
                "scheme": scheme,
                "task": f"text ({work.text.label})",
                "seed": 0,
            }
            for work in works
        ],
        "provenance": provenance(command),
    }
    files.write(out / PLAN, json.dumps(plan, indent=1) + "\n")


def write_run(out: Path, work: Work, command: str, proofs: Mapping[str, Proof]) -> None:
    """The run folder of one text: rows, items, and what made them; whole, or as it was."""
    model, digest = work.model, digest_of(work.model, work.text)
    folder = out / digest
    folder.mkdir(exist_ok=True)
    measured = rows_of(work, digest, scheme_of(model))
    made = provenance(command)
    files.write(folder / ROWS, dump_rows(measured.rows))
    files.write(folder / ITEMS, safetensors.numpy.save(measured.items))
    files.write(folder / LOG, "")
    label = f"text ({work.text.label})"
    evaluation = {
        "format": FORMAT,
        "evaluation": {
            "lengths": list(work.asked.lengths),
            "windows": work.done,
            "last_tokens": work.asked.last_tokens,
        },
        "provenance": made,
        "task": {
            "label": label,
            "metric": "loss",
            "length_unit": "tokens",
            "ceiling": {},
            "chance": {},
            "note": note(work),
        },
        "documents": list(work.text.names),
        "proofs": [proof.as_json() for proof in proofs.values()],
        "rows": ROWS,
        "items": ITEMS,
        "sha256": {ROWS: sha256(folder / ROWS), ITEMS: sha256(folder / ITEMS)},
    }
    files.write(folder / EVALUATION, json.dumps(evaluation, indent=1) + "\n")
    seconds = sum(spent for _, spent in work.ledger.seconds)
    training = {
        "format": FORMAT,
        "digest": digest,
        "training": {"model": model.name, "text": work.text.label},
        "provenance": {**made, "seconds": round(seconds, 1)},
        "summary": {"parameters": parameters(model), "final_loss": None, "overlap": None},
        "sha256": {},
    }
    files.write(folder / TRAINING, json.dumps(training, indent=1) + "\n")


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


def parameters(model: LanguageModel) -> int:
    """How many numbers the weights are."""
    inner: Any = getattr(model, "model", None) or getattr(model, "decoder", None)
    return 0 if inner is None else sum(p.numel() for p in inner.parameters())
