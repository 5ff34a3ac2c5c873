"""report.html: one file that holds all it shows, and asks nothing of any network."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .figures import ACROSS, Figure
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
from .verdict import overall, verdict
from .wording import methods, progress, provenance, seen_in_training, settings

TEMPLATE = Path(__file__).with_name("page.html")


def text(summary: Summary, figures: Iterable[Figure]) -> str:
    """The text of report.html; every value is escaped, apart from the figures we drew."""
    from jinja2 import Environment, StrictUndefined

    drawn = {(figure.task, figure.metric): figure for figure in figures}
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["csv_link"] = csv_link
    study = summary.results.plan["study"]
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=study["name"],
        question=study["question"],
        overall=overall(summary),
        across=across_section(summary, drawn),
        verdicts=[(task.label, verdict(task)) for task in summary.tasks],
        progress=progress(summary),
        tasks=[task_section(task, drawn) for task in summary.tasks],
        training=[f for task in summary.tasks if (f := drawn.get((task.label, "training_loss")))],
        runs=run_table(summary),
        methods=methods(summary),
        provenance=provenance(summary),
        settings=settings(summary),
        specs={f"chart-{figure.name}": page_spec(figure) for figure in drawn.values()},
        themes=THEMES,
        bundle=bundle(),
    )


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
        "note": task.note,
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
