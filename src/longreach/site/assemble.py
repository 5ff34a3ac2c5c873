"""Puts the site together: reports, cards, questions and positions, as files by their paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import longreach.explorer
from longreach.errors import InputError
from longreach.report import NUMBERS, SUMMARY, figures, markdown, numbers
from longreach.report.figures import Figure, slug, svg_of
from longreach.report.page import bundle, environment, text
from longreach.report.summarise import Summary, summarise
from longreach.report.theme import THEMES
from longreach.report.verdict import headlines
from longreach.report.wording import facts
from longreach.results import PLAN, Results

from . import folder as place
from .positions import Grid, first, scripts
from .questions import Answer, answers

RESULTS = Path("results")
EXPLORER = Path(longreach.explorer.__file__).parent
LOOKS = tuple(THEMES)


@dataclass(frozen=True)
class Recorded:
    """One study of the site. name: of its folder."""

    name: str
    summary: Summary
    figures: list[Figure]

    @property
    def study(self) -> dict[str, Any]:
        """As it was resolved."""
        found: dict[str, Any] = self.summary.results.plan["study"]
        return found


def build(
    folder: Path,
    runs: Sequence[Path],
    *,
    say: Callable[[str], None],
    grid: Grid | None = None,
) -> Path:
    """See `longreach.site.build`. grid: of the positions page."""
    folder = folder.absolute()
    place.check(folder)  # before minutes are spent
    studies = named([read(path, say) for path in runs or recorded()])
    say("positions")
    content = pages(studies, grid or Grid())
    place.put(folder, content)
    return folder / "index.html"


def recorded() -> list[Path]:
    """The runs folders under results/. Raises InputError if there is none."""
    found = sorted(path.parent for path in RESULTS.glob(f"*/{PLAN}"))
    if not found:
        raise InputError(
            f"no runs folder in {RESULTS}/ here; name folders that `longreach run` wrote, as in "
            "`longreach site site runs/quick`"
        )
    return found


def read(path: Path, say: Callable[[str], None]) -> Recorded:
    """A runs folder, summed up and drawn."""
    say(f"{path}")
    summary = summarise(Results.read(path))
    drawn = [replace(figure, svg=svg_of(figure)) for figure in figures.figures(summary)]
    name = slug(summary.results.name) or slug(path.name) or "study"
    return Recorded(name, summary, drawn)


def named(studies: Sequence[Recorded]) -> list[Recorded]:
    """The same, with names that differ."""
    taken: dict[str, int] = {}
    found = []
    for study in studies:
        taken[study.name] = count = taken.get(study.name, 0) + 1
        name = study.name if count == 1 else f"{study.name}-{count}"
        found.append(Recorded(name, study.summary, study.figures))
    return found


def pages(studies: Sequence[Recorded], grid: Grid) -> dict[str, bytes]:
    """Every file of the site, by its path within."""
    content: dict[str, bytes] = {}
    by_name = {str(each.study["name"]): each for each in reversed(studies)}
    asked = answers({name: (each.summary, each.figures) for name, each in by_name.items()})
    for each in studies:
        content |= study_pages(each)
    for answer in asked:
        content |= question_pages(answer, by_name[answer.study].name)
    content |= positions_pages(grid)
    content["index.html"] = rendered(
        "index.html",
        up="",
        title="longreach",
        studies=[card(each) for each in studies],
        answers=asked,
        runs=sum(len(each.summary.results.runs) for each in studies),
    )
    return content


def rendered(template: str, **values: Any) -> bytes:
    """A page of the site; every value is escaped."""
    found = environment(Path(__file__).parent / "templates")
    return found.get_template(template).render(**values).encode()


def study_pages(each: Recorded) -> dict[str, bytes]:
    """A study's report, its numbers, and the figure of its card on light and on dark paper."""
    at = f"studies/{each.name}"
    content = {
        f"{at}/index.html": text(each.summary, each.figures, home="../../index.html").encode(),
        f"{at}/{NUMBERS}": numbers.text(each.summary).encode(),
        f"{at}/{SUMMARY}": markdown.text(each.summary, each.figures, "figures").encode(),
    }
    for figure in each.figures:
        content[f"{at}/figures/{figure.name}.svg"] = figure.svg.encode()
    return content | papers(f"{at}/card", each.figures[0])


def papers(at: str, figure: Figure | None) -> dict[str, bytes]:
    """A figure as SVG on every paper."""
    if figure is None:
        return {}
    return {f"{at}-{look}.svg": svg_of(figure, look).encode() for look in LOOKS}


def card(each: Recorded) -> dict[str, Any]:
    """What the first page shows of a study."""
    return {
        "name": each.name,
        "title": each.summary.results.name,
        "question": each.study["question"],
        "verdict": headlines(each.summary),
        "facts": facts(each.summary),
        "alternative": each.figures[0].description,
    }


def question_pages(answer: Answer, study: str) -> dict[str, bytes]:
    """A question's page and its figure."""
    at = f"questions/{answer.slug}"
    page = rendered("question.html", up="../", title=answer.title, answer=answer, study=study)
    return {f"{at}.html": page} | papers(at, answer.figure)


def positions_pages(grid: Grid) -> dict[str, bytes]:
    """The positions page, the script that draws, and the views of every setting."""
    start, shown = first(grid)
    page = rendered(
        "positions.html",
        up="../",
        title="Positions",
        choices=grid.choices,
        start=start,
        shown=shown,
        themes=THEMES,
        css=(EXPLORER / "page.css").read_text(encoding="utf-8"),
    )
    content = {
        "positions/index.html": page,
        "positions/vega.js": bundle().encode(),
        "positions/draw.js": (EXPLORER / "page.js").read_bytes(),
        "positions/choose.js": (Path(__file__).parent / "templates/choose.js").read_bytes(),
        "positions/settings.json": (
            json.dumps([name for name, _ in grid.settings()]) + "\n"
        ).encode(),
    }
    return content | {f"positions/data/{name}": data for name, data in scripts(grid).items()}
