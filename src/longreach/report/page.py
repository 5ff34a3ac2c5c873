"""report.html: one file that holds all it shows, and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .figures import ACROSS, Figure, slug
from .metrics import metric_of
from .ranking import RANKS, SCORES, ranked_tasks
from .summarise import Summary, Task
from .tables import (
    difference_table,
    past_trained_table,
    ranking_table,
    run_table,
    table_of,
)
from .theme import THEMES
from .verdict import headlines, verdict
from .wording import facts, methods, progress, provenance, seen_in_training, settings

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATE = "page.html"


def text(summary: Summary, figures: Iterable[Figure], home: str = "") -> str:
    """The text of report.html; every value is escaped, apart from the figures we drew.

    home: a relative address to go back to, if the page is one of several.
    """
    drawn = {(figure.task, figure.metric): figure for figure in figures}
    study = summary.results.plan["study"]
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            home=home,
            name=study["name"],
            question=study["question"],
            headlines=headlines(summary),
            facts=facts(summary),
            contents=contents(summary),
            across=across_section(summary, drawn),
            progress=progress(summary),
            tasks=[task_section(task, drawn) for task in summary.tasks],
            training=[
                f for task in summary.tasks if (f := drawn.get((task.label, "training_loss")))
            ],
            runs=run_table(summary),
            methods=methods(summary),
            provenance=provenance(summary),
            settings=settings(summary),
            specs={f"chart-{figure.name}": page_spec(figure) for figure in drawn.values()},
            themes=THEMES,
            bundle=bundle(),
        )
    )


def environment(*folders: Path) -> Environment:
    """Where templates are found (here, and in other folders), and values come into them escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader([Path(__file__).parent, *folders]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["csv_link"] = csv_link
    return found


def section_id(task: Task) -> str:
    """The anchor of a task's section."""
    return slug(f"task-{task.label}")


def contents(summary: Summary) -> list[tuple[str, str]]:
    """Anchor and title of each section."""
    across = [("across-tasks", "Across tasks")] if ranked_tasks(summary) else []
    tasks = [(section_id(task), task.label) for task in summary.tasks]
    return [*across, *tasks, ("training", "Training and runs"), ("methods", "Methods, versions")]


def across_section(summary: Summary, drawn: dict[tuple[str, str], Figure]) -> list[dict[str, Any]]:
    """What the page shows across tasks: figures with their tables."""
    tasks = ranked_tasks(summary)
    if not tasks:
        return []
    tables = (ranking_table(tasks, summary.curves), past_trained_table(tasks, summary.curves))
    return [
        {"title": figure.title, "figure": figure, "table": table}
        for name, table in zip((RANKS, SCORES), tables, strict=True)
        if (figure := drawn.get((ACROSS, name)))
    ]


def task_section(task: Task, drawn: dict[tuple[str, str], Figure]) -> dict[str, Any]:
    """What the page shows of one task."""
    return {
        "label": task.label,
        "id": section_id(task),
        "note": task.note,
        "verdict": verdict(task),
        "seen": seen_in_training(task),
        "parts": [
            {
                "title": metric_of(metric).title,
                "reading": metric_of(metric).reading,
                "figure": drawn.get((task.label, metric)),
                "table": table_of(task, metric),
            }
            for metric in task.metrics
            if metric_of(metric).figure or metric_of(metric).table
        ],
        "differences": difference_table(task),
    }


def page_spec(figure: Figure) -> dict[str, Any]:
    """The chart as wide as its place in the page, and with words for who cannot see it."""
    return figure.described | {"width": "container"}


def csv_link(data: str) -> str:
    """A link that carries the data itself."""
    return "data:text/csv;charset=utf-8," + quote(data, safe=",:()=+/")


@lru_cache(maxsize=1)
def bundle() -> str:
    """Vega, Vega-Lite and vega-embed in one script, once for all charts."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    if "</script" in script.lower() or "<!--" in script:  # either would end or garble the element
        raise RuntimeError("this version of vl-convert makes a script that no page can hold")
    return script
