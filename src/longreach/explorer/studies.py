"""Recorded studies: their figures and sentences, small enough to ship, or made from a runs folder.

`python -m longreach.explorer.studies OUT RUNS...` writes what ships with the package.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from .. import files
from ..errors import InputError
from ..results import EVALUATION, PLAN, WEIGHTS, Results
from ..table import nearest
from .view import View, page, paragraph

SHIPPED = Path(__file__).with_name("recorded")
ENDING = ".json.gz"
EVERY = "all tasks"
"""Stands for no one task, where a study has several."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a page shows of one study.

    verdicts: for each task its name and sentences. across: sentences about all tasks.
    figures: as dicts of name, task, metric, title, caption, description, spec.
    origin: digest of the measurements that it was made from.
    """

    name: str
    question: str
    across: str
    verdicts: Sequence[tuple[str, Sequence[str]]]
    progress: Sequence[str]
    methods: Sequence[str]
    provenance: Sequence[tuple[str, str]]
    figures: Sequence[Mapping[str, Any]]
    origin: str

    @property
    def tasks(self) -> list[str]:
        """Names, in the study's order."""
        return [name for name, _ in self.verdicts]

    @classmethod
    def of(cls, results: Results) -> Recorded:
        """Works it out. Takes seconds: intervals are bootstraps."""
        from ..report.figures import figures
        from ..report.summarise import summarise
        from ..report.verdict import overall, verdict
        from ..report.wording import methods, progress, provenance

        summary = summarise(results)
        study = results.plan["study"]
        kept = ("name", "task", "metric", "title", "caption", "description", "spec")
        return cls(
            name=results.name,
            question=study["question"],
            across=overall(summary),
            verdicts=[(task.label, verdict(task)) for task in summary.tasks],
            progress=progress(summary),
            methods=methods(summary),
            provenance=provenance(summary),
            figures=[{key: getattr(one, key) for key in kept} for one in figures(summary)],
            origin=origin(results.folder),
        )

    @classmethod
    def load(cls, path: Path) -> Recorded:
        """What `save` wrote."""
        return cls(**json.loads(gzip.decompress(path.read_bytes())))

    def save(self, path: Path) -> None:
        """Writes it, the same bytes for the same study."""
        text = json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)
        files.write(path, gzip.compress(text.encode(), mtime=0))


def origin(folder: Path) -> str:
    """Digest of the plan and of all that was measured: whether a record is still of these runs."""
    found = hashlib.sha256((folder / PLAN).read_bytes())
    for path in sorted(folder.glob(f"*/{EVALUATION}")):
        found.update(path.read_bytes())  # It holds the sums of the rows and items.
    return found.hexdigest()[:16]


class Library:
    """The studies that may be chosen, by name: those shipped, and the folders that were named.

    A name is looked up here and nowhere else: what a page sends never becomes a path.
    Raises InputError for a folder that is no runs folder.
    """

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._sources: dict[str, Path] = {}
        self._tasks: dict[str, None] = {EVERY: None}
        for folder in folders:
            results = Results.read(folder)
            if not results.runs:
                raise InputError(f"no run in {folder} is finished; `longreach run` finishes them")
            self._add(f"{results.name} ({folder.name})", folder)
            self._tasks |= dict.fromkeys(row.task for row in results.rows)
        for path in sorted(SHIPPED.glob(f"*{ENDING}")):
            self._add(path.name.removesuffix(ENDING), path)
            self._tasks |= dict.fromkeys(found(path).tasks)

    def _add(self, name: str, path: Path) -> None:
        while name in self._sources:
            name += "'"
        self._sources[name] = path

    @property
    def names(self) -> list[str]:
        """In the order of the list: folders that were named first."""
        return list(self._sources)

    @property
    def tasks(self) -> list[str]:
        """Of all studies."""
        return list(self._tasks)

    def source(self, name: str) -> Path:
        """Where a study comes from. Raises InputError for a name that is not in the list."""
        if name not in self._sources:
            shown = name if len(name) <= 60 else name[:57] + "..."
            raise InputError(f"there is no study {shown!r} here; {nearest(shown, self.names)}")
        return self._sources[name]

    def get(self, name: str) -> Recorded:
        """The study of a name; remembered. Raises InputError for a name that is not in the list."""
        return found(self.source(name))

    def weights(self, name: str) -> Path | None:
        """The runs folder of a study that has its models' weights, for what needs them."""
        path = self.source(name)
        return path if path.is_dir() and any(path.glob(f"*/{WEIGHTS}")) else None


@lru_cache(maxsize=16)
def found(path: Path) -> Recorded:
    """From a file of ours, or a runs folder."""
    return Recorded.of(Results.read(path)) if path.is_dir() else Recorded.load(path)


def words_html(study: Recorded, task: str) -> str:
    """The question, what one sees, and what to know of it."""
    said = [f"<h2>{escape(study.question)}</h2>"]
    chosen = [(name, lines) for name, lines in study.verdicts if task in (name, EVERY)]
    if study.across and task == EVERY:
        said.append(paragraph(study.across, "lr-seen"))
    for name, lines in chosen:
        label = f"<b>{escape(name)}.</b> " if len(study.verdicts) > 1 else ""
        said.append(f'<p class="lr-seen">{label}{escape(" ".join(lines))}</p>')
    said += [paragraph(line) for line in study.progress]
    return f'<div class="lr-model">{"".join(said)}</div>'


def figures_html(study: Recorded, task: str) -> str:
    """The figures of a task, or those across tasks; then how numbers were made."""
    tasks = {task} if task != EVERY else {one["task"] for one in study.figures} - {*study.tasks}
    views = [
        View(
            name=one["name"],
            title=one["title"],
            seen="",  # The verdict above says it.
            reading=one["caption"],
            description=one["description"],
            spec=dict(one["spec"]),
        )
        for one in study.figures
        if one["task"] in tasks
    ]
    made = "".join(f"<p>{escape(line)}</p>" for line in study.methods)
    by = "".join(
        f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in study.provenance
    )
    return (
        page(views) + f'<details class="lr-more"><summary>How it was measured</summary>{made}'
        f"<dl>{by}</dl></details>"
    )


def choices(study: Recorded) -> list[str]:
    """What the list of tasks offers: all together, where figures or sentences are about that."""
    across = {one["task"] for one in study.figures} - {*study.tasks}
    return [*([EVERY] if across else []), *study.tasks]


def record(out: Path, folders: Iterable[Path]) -> list[Path]:
    """Writes what ships: a file for each runs folder."""
    written = []
    for folder in folders:
        study = Recorded.of(Results.read(folder))
        path = out / f"{study.name}{ENDING}"
        study.save(path)
        written.append(path)
    return written


if __name__ == "__main__":
    for path in record(Path(sys.argv[1]), map(Path, sys.argv[2:])):
        sys.stdout.write(f"{path} {path.stat().st_size:,} bytes\n")
