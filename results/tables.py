"""Writes the tables of docs/results.md from the recorded results, so that no number there is typed.

Run from the repository's root: python results/tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"

PUBLISHED_LOSS = {
    "learned": {64: 4.431},
    "rope": {64: 4.363, 256: 4.702, 512: 5.141},
    "alibi": {64: 4.473, 256: 4.155, 512: 4.174},
    "nope": {64: 4.510, 512: 4.864},
}
"""Mean loss over positions as "Beyond the Training Length" gives it: nats per token, other text."""


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first to the right."""
    lines = [header, [":---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def recorded(study: str) -> dict[str, Any]:
    """study.json of a recorded study."""
    found: dict[str, Any] = json.loads((ROOT / "results" / study / "study.json").read_text())
    return found


def pick(study: dict[str, Any], part: str = "aggregates", **wanted: Any) -> list[dict[str, Any]]:
    """The entries with the wanted values, in their order."""
    return [
        entry for entry in study[part] if all(entry[key] == value for key, value in wanted.items())
    ]


def schemes(study: dict[str, Any]) -> list[str]:
    """In the study's order."""
    return list(dict.fromkeys(run["scheme"] for run in study["runs"]))


def plus_minus(entry: dict[str, Any], scale: float, digits: int) -> str:
    """Mean and sample deviation over seeds, or that there is none."""
    if entry["mean"] is None:
        return "past limit"
    return f"{scale * entry['mean']:.{digits}f} ± {scale * entry['sd']:.{digits}f}"


def interval(entry: dict[str, Any]) -> str:
    """Mean and 95 % interval, signed."""
    if entry["mean"] is None:
        return "past limit"
    return f"{entry['mean']:+.3f} [{entry['low']:+.3f}, {entry['high']:+.3f}]"


def per_length(
    study: dict[str, Any], part: str, metric: str, cell: Callable[[dict[str, Any]], str]
) -> str:
    """Schemes down, evaluation lengths across."""
    lengths = study["study"]["evaluation_lengths"]
    rows = []
    for scheme in schemes(study):
        entries = pick(study, part, scheme=scheme, metric=metric)
        by_length = {entry["evaluation_length"]: cell(entry) for entry in entries}
        rows.append([scheme, *[by_length[length] for length in lengths]])
    return markdown(["scheme", *map(str, lengths)], rows)


def mean_loss() -> str:
    """Our mean loss over positions, per length."""
    return per_length(
        recorded("length-curve"), "aggregates", "loss", lambda entry: plus_minus(entry, 1, 3)
    )


def change() -> str:
    """Change of the loss of the same last tokens against the trained length."""
    return per_length(recorded("length-curve"), "changes", "change", interval)


def against_published() -> str:
    """How far the mean loss moves from its value at the trained length: theirs and ours."""
    study = recorded("length-curve")
    rows = []
    for scheme, published in PUBLISHED_LOSS.items():
        ours = {
            entry["evaluation_length"]: entry["mean"]
            for entry in pick(study, scheme=scheme, metric="loss")
        }
        for length in (256, 512):
            if scheme == "learned":
                theirs = "no row"
            elif length in published:
                theirs = f"{published[length] - published[64]:+.3f}"
            else:
                theirs = "not given"
            moved = "past limit" if ours[length] is None else f"{ours[length] - ours[64]:+.3f}"
            agree = {True: "yes", False: "**no**"}
            same = (
                agree[theirs[0] == moved[0]]
                if theirs[0] in "+-"
                else ("yes" if theirs == "no row" and moved == "past limit" else "")
            )
            rows.append([scheme, str(length), theirs, moved, same])
    return markdown(["scheme", "length", "theirs", "ours", "same direction"], rows)


def by_position() -> str:
    """Loss over the positions just before the trained length and each doubling of it."""
    study = recorded("length-curve")
    ends = (64, 128, 256, 512)
    rows, header = [], ["scheme"]
    for scheme in schemes(study):
        entries = {
            entry["last_position"]: entry
            for entry in pick(study, scheme=scheme, metric="loss_by_position")
        }
        header = ["scheme", *[f"{entries[end]['first_position']} to {end}" for end in ends]]
        rows.append([scheme, *[plus_minus(entries[end], 1, 3) for end in ends]])
    return markdown(header, rows)


def recall(task: str) -> str:
    """Exact match per length in percent."""
    study = recorded("recall")
    lengths = study["study"]["evaluation_lengths"]
    rows = []
    for scheme in schemes(study):
        entries = {
            entry["evaluation_length"]: plus_minus(entry, 100, 1)
            for entry in pick(study, task=task, scheme=scheme, metric="exact_match")
        }
        rows.append([scheme, *[entries[length] for length in lengths]])
    return markdown(["scheme", *map(str, lengths)], rows)


def straightforward() -> str:
    """What the straightforward program printed, in percent."""
    found = json.loads((ROOT / "results" / "straightforward.json").read_text())["accuracies"]
    lengths = ("24", "32", "48")
    rows = [
        [scheme, *["past limit" if value is None else f"{100 * value:.1f}" for value in values]]
        for scheme, values in found.items()
    ]
    return markdown(["scheme", *lengths], rows)


TABLES: dict[str, Callable[[], str]] = {
    "mean-loss": mean_loss,
    "against-published": against_published,
    "by-position": by_position,
    "change": change,
    "recall": lambda: recall("recall"),
    "recall-ambiguous": lambda: recall("recall (ambiguous)"),
    "straightforward": straightforward,
}


def filled(page: str) -> str:
    """The page with every table between its markers made anew."""

    def table(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- ([a-z-]+) -->\n.*?<!-- end -->", table, page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
