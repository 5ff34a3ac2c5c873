"""What a terminal shows of a report: question, verdict and main table, in plain text."""

from __future__ import annotations

import textwrap

from .aggregate import AFTER_TRAINING
from .ranking import ranked_tasks
from .summarise import Summary
from .tables import past_trained_table, plain, ranking_table, score_table
from .verdict import overall, verdict
from .wording import progress

WIDTH = 88


def text(summary: Summary) -> str:
    """The text of it: page and summary.md have the rest."""
    study = summary.results.plan["study"]
    parts = [wrapped(f"{study['name']}: {study['question']}")]
    if tasks := ranked_tasks(summary):
        parts.append(wrapped(overall(summary)))
        for table in (
            ranking_table(tasks, summary.curves),
            past_trained_table(tasks, summary.curves),
        ):
            if table:
                parts.append(f"{wrapped(table.title)}\n{plain(table)}")
    for task in summary.tasks:
        first, *rest = verdict(task) or [""]
        parts.append("\n".join(map(wrapped, (f"{task.label}: {first}", *rest))))
        for name in (task.main_metric, f"{task.main_metric}{AFTER_TRAINING}"):
            if task.of(name):
                table = score_table(task, name, short=True)
                parts.append(f"{wrapped(table.title)}\n{plain(table)}")
    parts += map(wrapped, progress(summary))
    return "\n\n".join(parts) + "\n"


def wrapped(line: str) -> str:
    """A sentence in lines that a terminal need not break."""
    return textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
