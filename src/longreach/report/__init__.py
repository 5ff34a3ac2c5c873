"""report.write(folder): page, summary, figures and numbers of a runs folder, from rows alone."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

PAGE, SUMMARY, NUMBERS, FIGURES = "report.html", "summary.md", "study.json", "figures"


@dataclass(frozen=True)
class Written:
    """page: the path of report.html. brief: question, verdict and main tables for a terminal."""

    page: Path
    brief: str


def write(folder: Path) -> Written:
    """Writes report.html, summary.md, study.json and figures/ into a runs folder.

    Reads what `longreach run` left there and needs neither torch nor a network. Raises InputError
    if the folder is no runs folder or no run in it is finished.
    """
    # Imported here so that `import longreach.report` costs nothing.
    from longreach.results import Results

    from . import brief, figures, markdown, numbers, page
    from .summarise import summarise

    summary = summarise(Results.read(folder))
    drawn = [figures.draw(figure) for figure in figures.figures(summary)]
    for figure in drawn:
        put(folder / FIGURES / f"{figure.name}.svg", figure.svg.encode())
        put(folder / FIGURES / f"{figure.name}.png", figure.png)
    put(folder / NUMBERS, numbers.text(summary).encode())
    put(folder / SUMMARY, markdown.text(summary, drawn, FIGURES).encode())
    put(folder / PAGE, page.text(summary, drawn).encode())
    return Written(folder / PAGE, brief.text(summary))


def put(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: aside first, then moved into place."""
    path.parent.mkdir(exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(aside, 0o644)  # noqa: PTH101 - mkstemp makes files that only their owner can read
        os.replace(aside, path)  # noqa: PTH105
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
