"""study.json: every number of a report, for those who would compute with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from longreach.results import FORMAT

from .ranking import past_trained, ranked_tasks, ranking
from .summarise import Finished, Summary


def text(summary: Summary) -> str:
    """The text of study.json; plain JSON, so no NaN."""
    plan = summary.results.plan
    tasks = ranked_tasks(summary)
    content = {
        "format": FORMAT,
        "study": plan["study"],
        "provenance": plan["provenance"],
        "missing": list(summary.results.missing),
        "runs": [run(done) for done in summary.finished],
        "aggregates": [asdict(found) for task in summary.tasks for found in task.aggregates],
        "over_trained": [asdict(found) for task in summary.tasks for found in task.over_trained],
        "changes": [asdict(found) for task in summary.tasks for found in task.changes],
        "ranking": [asdict(found) for found in ranking(tasks, summary.curves)],
        "past_trained_length": [asdict(found) for found in past_trained(tasks)],
        "differences": [asdict(found) for task in summary.tasks for found in task.differences],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def run(done: Finished) -> dict[str, Any]:
    """One run; `repaired_reach` by the repair that was worn."""
    return {
        "digest": done.run.digest,
        "scheme": done.scheme,
        "task": done.task,
        "seed": done.seed,
        "parameters": done.run.training["summary"]["parameters"],
        "seconds": done.run.training["provenance"]["seconds"],
        "flagged": done.flagged,
        "at_trained_length": done.at_trained_length,
        "in_distribution": done.in_distribution,
        "reach": done.reach.get(None),
        "repaired_reach": {repair: length for repair, length in done.reach.items() if repair},
    }
