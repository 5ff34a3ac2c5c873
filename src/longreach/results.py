"""Rows, the unit of everything that is measured; Results, the rows of a runs folder; reach()."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from .errors import InputError
from .views import Shown

FORMAT = 1
"""Version of the files in a run folder. One of another version is reported, never guessed at."""

FINE_TUNE, LONG_TRAINING = "fine-tune", "long training"
"""What was done to a model for one evaluation length, besides wearing a repair. See `done_for`."""

Status = Literal["measured", "past_limit"]
Items = NDArray[np.float32] | NDArray[np.uint8]
"""The value of each sequence or document; of what is right or wrong, 1 or 0."""

PLAN, TRAINING, EVALUATION = "plan.json", "training.json", "evaluation.json"
ROWS, ITEMS, WEIGHTS, LOG = "rows.jsonl", "items.safetensors", "weights.safetensors", "log.jsonl"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number. Length is a column, never part of a metric's name.

    training: digest of the training whose weights were measured.
    scheme, task: labels; options that differ from the defaults stand in brackets.
    seed: of the training. repair: worn while measuring, or None; where a study extends its models,
        what was done to reach the evaluation length: see `done_for`.
    trained_length, evaluation_length: tokens (or symbols; the task says which).
    metric: `exact_match` (fraction of sequences wholly right), `exact_match_without_end` (the same
        but for the end token), `end_too_early`, `end_too_late` (fraction whose first mistake is an
        end token before its time, or another token in its place), `token_accuracy` (mean share of
        tokens right, under the true prefix), `loss` (mean over positions, nats per token),
        `loss_by_position` (the same, over a range of positions of the longest window), `last_loss`
        (loss of the same last tokens, seen with evaluation_length tokens of context),
        `bits_per_byte` (loss over the bytes that the scored tokens stand for), `choice` (fraction
        of answers held more likely than the other answers that they could have been),
        `short_loss`, `short_exact_match` (`last_loss` and `exact_match` at the trained length, by a
        model that was made or set for the evaluation length), `exact_match_by_depth`,
        `choice_by_depth` (the same, of needles at one depth).
    first_position, last_position: the targets behind the value, counted by how many tokens come
        before them in the window; both 1-based and inclusive. Of needles: 1 and the length, or by
        depth, twice the position that the depth comes to.
    value: None unless status is "measured"; low, high: its 95 % interval over this run's sequences.
    count: sequences (or held-out documents) behind the value.
    status: "past_limit" where the scheme has no such position.
    """

    training: str
    scheme: str
    task: str
    seed: int
    repair: str | None
    trained_length: int
    evaluation_length: int
    metric: str
    first_position: int
    last_position: int
    value: float | None
    low: float | None
    high: float | None
    count: int
    status: Status = "measured"

    @property
    def item_key(self) -> str:
        """Under this name, items.safetensors holds the value of each sequence or document."""
        worn = f"+{self.repair}" if self.repair else ""
        positions = f"{self.first_position}-{self.last_position}"
        return f"{self.metric}@{self.evaluation_length}:{positions}{worn}"


def done_for(repair: str | None, *, tuned: bool = False) -> str | None:
    """What was done to a model for a length, as a row's `repair` has it.

    >>> done_for("yarn"), done_for("yarn", tuned=True), done_for(None, tuned=True)
    ('yarn', 'yarn + fine-tune', 'fine-tune')
    """
    parts = [part for part in (repair, FINE_TUNE if tuned else None) if part]
    return " + ".join(parts) or None


def trained_for(repair: str | None) -> bool:
    """Whether a model was trained for the length that its row is of."""
    return repair is not None and repair.split(" + ")[-1] in (FINE_TUNE, LONG_TRAINING)


ROW_FIELDS = tuple(field.name for field in fields(Row))


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run folder holds.

    training: as in training.json: `digest`, `training` (the spec), `provenance`, `summary`.
    evaluation: the settings that the rows were measured with, what measured them, and the task's
        ceiling and chance.
    items: per row key, the value of each sequence or held-out document, in the same order for every
        run of the same task, so that schemes can be compared in pairs.
    """

    folder: Path
    training: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def digest(self) -> str:
        """Names the folder; covers what the weights depend on."""
        return str(self.training["digest"])

    @property
    def aim(self) -> Mapping[str, Any] | None:
        """What it was made for, if not trained as its study's models are: `done` and `length`."""
        found: Mapping[str, Any] | None = self.evaluation["evaluation"].get("aim")
        return found

    @property
    def items(self) -> dict[str, Items]:
        """Read when asked for: most uses need the rows alone."""
        return dict(load_file(self.folder / str(self.evaluation.get("items", ITEMS))))

    @property
    def log(self) -> list[dict[str, Any]]:
        """Training loss (nats) by step, thinned: one object per line of log.jsonl."""
        text = (self.folder / LOG).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@dataclass(frozen=True, kw_only=True)
class Results(Shown):
    """The runs of one study in one folder.

    plan: as in plan.json: the study as it was resolved, and the trainings it consists of.
    missing: digests that are planned and not there yet. strangers: names found that belong to no
        planned run; they are reported and left alone.
    """

    folder: Path
    plan: Mapping[str, Any]
    runs: tuple[Run, ...]
    missing: tuple[str, ...]
    strangers: tuple[str, ...]

    @property
    def name(self) -> str:
        """The study's; of what was measured of a trained model, the folder's.

        All measurements of such a kind have one study's name.
        """
        study = self.plan["study"]
        of_a_model = "digest" in study.get("model", {})
        return self.folder.resolve().name if of_a_model else str(study["name"])

    @property
    def rows(self) -> list[Row]:
        """All rows, run by run in the plan's order."""
        return [row for run in self.runs for row in run.rows]

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Reads a runs folder. Raises InputError if it is none, of another version, or damaged."""
        if not folder.is_dir():
            raise InputError(f"no folder {folder}; give the folder that `longreach run` wrote")
        if not (folder / PLAN).is_file():
            raise InputError(f"{folder} holds no {PLAN}, so it is no runs folder of longreach")
        plan = read_json(folder / PLAN)
        planned = [str(entry["digest"]) for entry in plan["trainings"]]
        there = {path.name for path in folder.iterdir() if (path / TRAINING).exists()}
        return cls(
            folder=folder,
            plan=plan,
            runs=tuple(read_run(folder / digest) for digest in planned if digest in there),
            missing=tuple(digest for digest in planned if digest not in there),
            strangers=tuple(sorted(there - set(planned))),
        )


def read_json(path: Path) -> dict[str, Any]:
    """One of our JSON files. Raises InputError if damaged or of another version."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(damaged(path, "no file")) from None
    except (ValueError, OSError) as error:
        raise InputError(damaged(path, f"it is no JSON ({error})")) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        given = found.get("format") if isinstance(found, dict) else type(found).__name__
        raise InputError(
            f"{path} was written by another version: format {given}, expected {FORMAT}. "
            "It is left as it is; use the version that wrote it, or another --out folder"
        )
    return found


def read_run(folder: Path) -> Run:
    """One run folder. Raises InputError if a file is missing, damaged or of another version."""
    training = read_json(folder / TRAINING)
    evaluation = read_json(folder / EVALUATION)
    for name, expected in evaluation["sha256"].items():
        path = folder / name
        found = sha256(path) if path.is_file() else "no file"
        if found != expected:
            raise InputError(damaged(path, f"sha256 {found[:12]}, expected {expected[:12]}"))
    path = folder / evaluation.get("rows", ROWS)
    rows = tuple(parse_row(line, path) for line in path.read_text(encoding="utf-8").splitlines())
    return Run(folder=folder, training=training, evaluation=evaluation, rows=rows)


def parse_row(line: str, path: Path) -> Row:
    """One line of rows.jsonl, with exactly the fields of Row."""
    values = json.loads(line)
    if set(values) != set(ROW_FIELDS):
        raise InputError(damaged(path, f"a row has the fields {sorted(values)}"))
    return Row(**values)


def dump_rows(rows: Iterable[Row]) -> str:
    """The text of rows.jsonl: one row per line, fields in their order."""
    return "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows)


def damaged(path: Path, why: str) -> str:
    """The message for a file that is not as it was written."""
    if path.name == PLAN:
        return f"{path} is damaged: {why}. Move it away; `longreach run STUDY` writes it anew"
    return (
        f"{path} is damaged: {why}. It is left as it is; `longreach run STUDY --again "
        f"{path.parent.name}` keeps its folder aside and makes that run anew"
    )


def sha256(path: Path) -> str:
    """Of a whole file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def reach(
    rows: Iterable[Row], *, at_least: float | None = None, at_most: float | None = None
) -> int:
    """The longest evaluation length with every length up to it within the bound.

    0 if the shortest already fails; a length past the scheme's limit fails. Rows must come from one
    run, repair and metric. Give `at_least` for fractions, `at_most` for losses.

    >>> row = dict(training="", scheme="rope", task="copy", seed=0, repair=None, trained_length=16,
    ...     metric="exact_match", first_position=1, last_position=1, low=None, high=None, count=256)
    >>> scores = {15: 1.0, 16: 0.99, 17: 0.25, 18: 0.95}
    >>> made = [Row(**row, evaluation_length=n, value=v) for n, v in scores.items()]
    >>> reach(made, at_least=0.9)
    16
    """
    if (at_least is None) == (at_most is None):
        raise ValueError("give either at_least or at_most")
    longest = 0
    for row in sorted(rows, key=lambda row: row.evaluation_length):
        if row.value is None:
            break
        if at_least is not None and row.value < at_least:
            break
        if at_most is not None and row.value > at_most:
            break
        longest = row.evaluation_length
    return longest


def grouped(rows: Iterable[Row], *keys: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Rows by the values of some fields, groups in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, key) for key in keys), []).append(row)
    yield from groups.items()
