"""summary.md: the verdict and the tables, to be pasted where a page cannot go."""

from __future__ import annotations

from collections.abc import Iterable

from .figures import ACROSS, Figure
from .ranking import RANKS, SCORES, ranked_tasks
from .summarise import Summary
from .tables import (
    Table,
    difference_table,
    escape,
    markdown,
    past_trained_table,
    ranking_table,
    run_table,
    table_of,
)
from .verdict import headlines, verdict
from .wording import methods, progress, provenance, seen_in_training, settings


def text(summary: Summary, figures: Iterable[Figure], folder: str) -> str:
    """The text of summary.md; figures are linked as files in the folder beside it."""
    study = summary.results.plan["study"]
    drawn = {(figure.task, figure.metric): figure for figure in figures}
    parts = [f"# {escape(study['name'])}", escape(study["question"])]
    parts += [escape(said) for said in headlines(summary)]
    parts += [
        f"**{escape(task.label)}**: {escape(' '.join(verdict(task)))}" for task in summary.tasks
    ]
    parts += [escape(line) for line in progress(summary)]
    if tasks := ranked_tasks(summary):
        parts += ["## Across tasks"]
        tables = (ranking_table(tasks, summary.curves), past_trained_table(tasks, summary.curves))
        for name, table in zip((RANKS, SCORES), tables, strict=True):
            if figure := drawn.get((ACROSS, name)):
                parts += [image(figure, folder), escape(figure.caption)]
            if table:
                parts += titled(table)
    for task in summary.tasks:
        parts += [f"## {escape(task.label)}", escape(task.note), escape(seen_in_training(task))]
        for metric in task.metrics:
            if figure := drawn.get((task.label, metric)):
                parts += [image(figure, folder), escape(figure.caption)]
            if table := table_of(task, metric):
                parts += titled(table)
        if table := difference_table(task):
            parts += titled(table)
    parts += ["## Training"]
    for task in summary.tasks:
        if figure := drawn.get((task.label, "training_loss")):
            parts += [image(figure, folder)]
    parts += titled(run_table(summary))
    parts += ["## Methods", *map(escape, methods(summary))]
    parts += ["## Provenance"]
    pairs = [*provenance(summary), *settings(summary)]
    parts += ["\n".join(f"- {key}: {escape(value)}" for key, value in pairs)]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def image(figure: Figure, folder: str) -> str:
    """A link that shows the figure."""
    return f"![{escape(figure.title)}]({folder}/{figure.name}.svg)"


def titled(table: Table) -> list[str]:
    """A table under its title."""
    return [f"{escape(table.title)}:", markdown(table)]
