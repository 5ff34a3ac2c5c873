"""The runs folder of a trained model: a plan, and a run for each text or kind of needle in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.numpy

from .. import files
from ..cell import provenance
from ..errors import InputError
from ..measure.measured import Measured
from ..results import EVALUATION, FORMAT, LOG, PLAN, TRAINING, dump_rows, read_json
from .base import LanguageModel
from .wear import Proof


@dataclass(frozen=True, kw_only=True)
class Study:
    """What was done with a model, as its plan has it.

    name: of the study, which tells its folder from others. evaluation: settings. proofs: by repair.
    """

    model: LanguageModel
    name: str
    question: str
    lengths: tuple[int, ...]
    evaluation: Mapping[str, Any]
    command: str
    proofs: Mapping[str, Proof]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One run of it: a text, or a kind of needle in a text.

    label: of the task. digest: names the run's folder. task: its name and options, for the plan.
    evaluation: settings as they were met. told: what a report says of the task (metric, ceiling,
    chance, note). documents: that were read.
    """

    label: str
    digest: str
    task: Mapping[str, Any]
    measured: Measured
    evaluation: Mapping[str, Any]
    told: Mapping[str, Any]
    documents: Sequence[str]


def check_folder(out: Path, model: LanguageModel, name: str) -> None:
    """Raises InputError if the folder holds another study than `name`, or another model."""
    if not (out / PLAN).exists():
        return
    study = read_json(out / PLAN)["study"]
    held = study.get("model", {}).get("digest")
    if study["name"] != name or held != model.digest:
        what = f"the study '{study['name']}'" if study["name"] != name else "another model"
        raise InputError(f"{out} holds {what}; use another --out folder")


def digest(model: LanguageModel, about: str) -> str:
    """Names the folder of a model's run."""
    return hashlib.sha256(f"{model.digest} {about}".encode()).hexdigest()[:16]


def scheme_of(model: LanguageModel) -> str:
    """How it is told positions, in one word."""
    checkpoint = getattr(model, "checkpoint", None)
    if checkpoint is None:
        decoder = getattr(model, "decoder", None)
        return type(decoder.scheme).__name__.lower() if decoder is not None else "model"
    groups = [*checkpoint.unbounded, *checkpoint.rope, *checkpoint.groups]
    return str(groups[0].kind)


def write(out: Path, study: Study, parts: Sequence[Part], seconds: float) -> None:
    """Writes plan.json and all runs. seconds: of this session, for all of them."""
    made = provenance(study.command)
    scheme = scheme_of(study.model)
    plan = {
        "format": FORMAT,
        "study": {
            "name": study.name,
            "question": study.question,
            "schemes": [{"name": scheme, "options": {}}],
            "tasks": [dict(part.task) for part in parts],
            "seeds": [0],
            "trained_length": study.model.trained_length,
            "evaluation_lengths": list(study.lengths),
            "model": model_of(study.model),
            "training": {},
            "evaluation": dict(study.evaluation),
        },
        "trainings": [
            {"digest": part.digest, "scheme": scheme, "task": part.label, "seed": 0}
            for part in parts
        ],
        "provenance": made,
    }
    files.write(out / PLAN, json.dumps(plan, indent=1) + "\n")
    for part in parts:
        write_run(out / part.digest, study, part, {**made, "seconds": round(seconds, 1)})


def model_of(model: LanguageModel) -> dict[str, str]:
    """What a plan says of a model."""
    found = {"name": model.name, "digest": model.digest}
    for key in ("start", "source"):
        token = getattr(model, key, None)
        if token is not None:
            found[key] = model.decode([token])
    return found


def write_run(folder: Path, study: Study, part: Part, made: Mapping[str, Any]) -> None:
    """One run folder, whole or as it was.

    Rows and items have names of their own for each content, and count once evaluation.json, which
    is written last, names them.
    """
    folder.mkdir(exist_ok=True)
    content = {
        "rows": (dump_rows(part.measured.rows).encode(), "jsonl"),
        "items": (safetensors.numpy.save(part.measured.items), "safetensors"),
    }
    sums = {kind: hashlib.sha256(data).hexdigest() for kind, (data, _) in content.items()}
    names = {kind: f"{kind}-{sums[kind][:12]}.{end}" for kind, (_, end) in content.items()}
    for kind, (data, _) in content.items():
        files.write(folder / names[kind], data)
    files.write(folder / LOG, "")
    training = {
        "format": FORMAT,
        "digest": part.digest,
        "training": {"model": study.model.name, "task": part.label},
        "provenance": dict(made),
        "summary": {"parameters": parameters(study.model), "final_loss": None, "overlap": None},
        "sha256": {},
    }
    evaluation = {
        "format": FORMAT,
        "evaluation": dict(part.evaluation),
        "provenance": {key: value for key, value in made.items() if key != "seconds"},
        "task": {"label": part.label, "length_unit": "tokens", **part.told},
        "documents": list(part.documents),
        "proofs": [proof.as_json() for proof in study.proofs.values()],
        **names,
        "sha256": {names[kind]: sums[kind] for kind in content},
    }
    files.write(folder / EVALUATION, json.dumps(evaluation, indent=1) + "\n")
    files.write(folder / TRAINING, json.dumps(training, indent=1) + "\n")
    for kind in content:
        for old in folder.glob(f"{kind}-*"):
            if old.name != names[kind]:
                old.unlink()


def parameters(model: LanguageModel) -> int:
    """How many numbers the weights are."""
    inner: Any = getattr(model, "model", None) or getattr(model, "decoder", None)
    return 0 if inner is None else sum(p.numel() for p in inner.parameters())
