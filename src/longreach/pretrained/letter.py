"""The verdict in plain words, and as a page that can be sent on."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..report.summarise import REACH_NATS
from .prove import Visit
from .verdict import RULE, Trial

TEMPLATE = Path(__file__).with_name("letter.html")


def sentences(visit: Visit) -> list[str]:
    """What to do and why, the answer first."""
    verdict = visit.verdict
    if verdict is None:
        return [f"{visit.model}: {visit.reason}."]
    target, trained = verdict.target_length, verdict.trained_length
    plain = verdict.trials[0]
    said = []
    if verdict.outcome == "no repair needed":
        said.append(
            f"{visit.model} reaches {target:,} tokens as it is: raise its maximum length, and "
            "change nothing else."
        )
    elif verdict.chosen is not None:
        said.append(
            f"To run {visit.model} at {target:,} tokens, {target / trained:.3g} times its trained "
            f"length of {trained:,}, repair it with {verdict.chosen.name}."
        )
    else:
        lost = (
            f"No repair that was tried takes {visit.model} to {target:,} tokens by being worn alone"
            if len(verdict.trials) > 1
            else f"{visit.model} does not reach {target:,} tokens, and has no repair that could be "
            "worn"
        )
        said.append(
            f"{lost}. Its trained length is {trained:,}: keep to it, ask for less, or adapt the "
            "weights at the new length."
        )
    said += [told(trial) for trial in order(verdict.trials, verdict.chosen)]
    if verdict.at_trained:
        shares = verdict.at_trained.items()
        parts = [f"{value:.0%} of {kind}" for kind, (value, _, _) in shares]
        line = f"At its trained length, as it is, it finds {', '.join(parts)}"
        if all(value == 0 for _, (value, _, _) in shares):
            line += ": none, so needles say nothing about this model"
        said.append(f"{line}.")
    chosen = verdict.chosen
    if chosen is not None and chosen.repair is not None and not chosen.changes:
        said += [
            f"{trial.name} costs less on short text and is passed over: its spectrum changes with "
            "the length, so that a text that grows while it is written is read by several."
            for trial in verdict.trials
            if trial.changes and trial.loss_holds and trial.cost[0] < chosen.cost[0]
        ]
    if verdict.chosen is plain and len(verdict.trials) > 1:
        said.append("What the repairs that were tried would do is in the table.")
    return said


def order(trials: tuple[Trial, ...], chosen: Trial | None) -> Iterator[Trial]:
    """The model as it is, what was chosen, the others."""
    yield trials[0]
    if chosen is not None and chosen is not trials[0]:
        yield chosen
    for trial in trials[1:]:
        if trial is not chosen:
            yield trial


def told(trial: Trial) -> str:
    """One trial in a sentence."""
    name = "As it is, it" if trial.repair is None else trial.name
    length, past = max(trial.past.items())
    keeps = (
        f"keeps to within {REACH_NATS} nats of the control"
        if trial.loss_holds
        else f"loses more than {REACH_NATS} nats over the control"
    )
    said = f"{name} {keeps} ({spread(past, 3)} nats per token at {length:,})"
    if trial.repair is not None:
        said += f", and adds {spread(trial.cost, 4)} on short text"
    if trial.needles:
        parts = [f"{value:.0%} of {kind}" for kind, (value, _, _) in trial.needles.items()]
        said += f"; at the target it finds {', '.join(parts)}"
        said += (
            "" if trial.needles_hold else ", fewer than the model as it is at its trained length"
        )
    elif trial.needles_asked and trial.loss_holds:
        said += "; needles were not looked for"
    return said + "."


def spread(found: tuple[float, float, float], digits: int) -> str:
    """A mean with its interval; of a single document it has none.

    >>> spread((0.25, 0.25, 0.25), 3), spread((0.25, 0.1, 0.4), 2)
    ('+0.250', '+0.25 [+0.10, +0.40]')
    """
    mean, low, high = found
    if low == high:
        return f"{mean:+.{digits}f}"
    return f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def table(visit: Visit) -> tuple[list[str], list[list[str]]]:
    """Head and rows: every trial in numbers."""
    assert visit.verdict is not None
    trials = visit.verdict.trials
    lengths = list(trials[0].past)
    kinds = list(dict.fromkeys(kind for trial in trials for kind in trial.needles))
    head = [
        "repair",
        *(f"over the control at {n:,}" for n in lengths),
        "cost on short text",
        *kinds,
    ]
    rows = []
    for trial in trials:
        cells = [spread(found, 3) for found in trial.past.values()]
        cells.append("" if trial.repair is None else spread(trial.cost, 4))
        for kind in kinds:
            share = trial.needles.get(kind)
            cells.append(
                "" if share is None else f"{share[0]:.0%} [{share[1]:.0%}, {share[2]:.0%}]"
            )
        rows.append([trial.name, *cells, held(trial)])
    return [*head, "holds"], rows


def held(trial: Trial) -> str:
    """Whether it holds, in a word; its loss alone proves nothing where needles are asked for."""
    if trial.loss_holds and trial.needles_asked and trial.needles_hold is None:
        return "not proven"
    return "yes" if trial.holds else "no"


def deploy(visit: Visit) -> str:
    """The block, flags or command of the prescription; or why there is none."""
    found = visit.prescription
    if found is None:
        return ""
    if found.refused is not None:
        return found.refused
    parts = []
    if found.block is not None:
        parts.append(json.dumps(dict(found.block), indent=2))
    parts += [text for text in (found.flags, found.command) if text]
    return "\n".join(parts)


def text(visit: Visit) -> str:
    """For a terminal."""
    parts = [
        textwrap.fill(line, 88, break_on_hyphens=False, break_long_words=False)
        for line in sentences(visit)
    ]
    if visit.prescription is not None:
        found = visit.prescription
        where = f" ({found.where})" if found.where else ""
        parts.append(f"{found.engine} {found.version}{where}:\n{deploy(visit)}")
        parts += [textwrap.fill(f"Note: {note}", 88) for note in found.notes]
    parts += [textwrap.fill(line, 88) for line in visit.left_out]
    return "\n\n".join(parts) + "\n"


def page(visit: Visit, folder: Path) -> str:
    """verdict.html: sentences, figures, table, what to deploy, the rule, how it was measured."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    first, *rest = sentences(visit)
    head, rows = table(visit) if visit.verdict is not None else ([], [])
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        model=Path(visit.model).name,
        first=first,
        rest=rest,
        head=head,
        rows=rows,
        chosen=visit.verdict.chosen.name if visit.verdict and visit.verdict.chosen else None,
        figures=list(figures(folder)),
        prescription=visit.prescription,
        deploy=deploy(visit),
        rule=RULE,
        left_out=visit.left_out,
        diagnosis=visit.diagnosis.advice.reason,
        reports=[
            (name, f"{part}/report.html")
            for name, part in (("losses", "losses"), ("needles", "needles"))
            if (folder / part / "report.html").is_file()
        ],
    )


CAPTIONS = {
    "excess": "Loss of the last tokens up to each length, minus that of the same tokens in the "
    "control: the model as it is, with no more than its trained length before them.",
    "loss-by-position": "Loss by position in the longest window; the grey line is the control.",
    "choice-by-depth": "Needles chosen among ten, by where they stand and how long the text is.",
    "exact-match-by-depth": "Needles that greedy decoding writes out.",
}
"""What is under each drawing that a verdict rests on, by the end of its file's name."""


def figures(folder: Path) -> Iterator[dict[str, Any]]:
    """The drawings that the verdict rests on, from the reports beside it."""
    drawn = [
        path
        for part in ("losses", "needles")
        for path in sorted((folder / part / "figures").glob("*.svg"))
    ]
    for ending, caption in CAPTIONS.items():
        for path in drawn:
            if path.stem.endswith(ending):
                svg = path.read_text(encoding="utf-8")
                yield {"name": path.stem, "svg": svg, "caption": caption}
