"""Try it: small trained models that ship with longreach answer, and one watches where they fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..results import PLAN, Results, Row, reach
from ..spectrum import whole
from ..table import nearest
from .view import View

if TYPE_CHECKING:
    from ..model.decoder import Decoder
    from ..tasks.base import Task

MODELS = Path(__file__).with_name("models")
"""A runs folder with the models' weights; its plan says how they were made."""

LONGEST = 30
"""Symbols of a prompt; as far as the models were measured."""

STRINGS = 999
"""Numbered strings to choose from."""

SHARE = 0.9
"""Of sequences answered right, from which on a length counts as held."""

LONGEST_TEXT = 400
"""Characters of a prompt that is typed."""


@dataclass(frozen=True)
class Model:
    """A trained model with its task and what was measured of it.

    scores: the rows of exact match, by length: which share of strings comes out whole.
    reach: the longest length with every length up to it at SHARE or more.
    """

    scheme: str
    trained_length: int
    task: Task
    decoder: Decoder
    scores: dict[int, Row]
    reach: int


@dataclass(frozen=True)
class Answer:
    """What a model wrote after a prompt, beside what was due. Printed forms of tokens.

    due, written: the end token included.
    """

    scheme: str
    due: tuple[str, ...]
    written: tuple[str, ...]

    @property
    def right(self) -> int:
        """How many tokens agree before the first that does not."""
        pairs = enumerate(zip(self.due, self.written, strict=False))
        return next((at for at, (due, told) in pairs if due != told), len(self.due))

    @property
    def whole(self) -> bool:
        """Whether everything is right, the end included."""
        return self.due == self.written


@lru_cache(maxsize=1)
def models() -> dict[str, Model]:
    """By scheme. Loads torch, which takes a moment the first time."""
    import torch

    from ..cell import stored_model, stored_training
    from ..model.decoder import Decoder
    from ..train import build_task

    made = {}
    for run in Results.read(MODELS).runs:
        training = stored_training(run.folder)
        task = build_task(training)
        decoder = stored_model(run.folder, training, task)
        assert isinstance(decoder, Decoder)
        rows = [row for row in run.rows if row.metric == "exact_match"]
        made[training.scheme.label] = Model(
            scheme=training.scheme.label,
            trained_length=training.trained_length,
            task=task,
            decoder=decoder,
            scores={row.evaluation_length: row for row in rows if row.value is not None},
            reach=reach(rows, at_least=SHARE),
        )
    torch.set_num_threads(1)  # One small model gains nothing from more.
    return made


def schemes() -> list[str]:
    """The models' schemes, without loading any of them."""
    plan = json.loads((MODELS / PLAN).read_text(encoding="utf-8"))
    return [entry["name"] for entry in plan["study"]["schemes"]]


def model(scheme: str) -> Model:
    """Raises InputError for a scheme that no shipped model has."""
    known = models()
    if scheme not in known:
        raise InputError(f"there is no model of {scheme[:40]!r} here; {nearest(scheme, known)}")
    return known[scheme]


def prompt(number: int, length: int) -> str:
    """The first so many symbols of a numbered string, so that a longer prompt goes on with it."""
    from ..train import generator_for

    whole("the number of a string", number, least=0, most=STRINGS)
    whole("the length of a prompt", length, most=LONGEST)
    task = next(iter(models().values())).task
    drawn = task.sample(LONGEST, 1, generator_for("try-it", number)).tokens[0]
    return task.render(drawn[1 : 1 + length])


def answers(text: str, schemes: Sequence[str]) -> list[Answer]:
    """What each model writes after a prompt, greedily, until it ends or is twice as long as due.

    Raises InputError for words that are not the task's, or a prompt that is empty or too long.
    """
    if len(text) > LONGEST_TEXT:
        raise InputError(f"the prompt has more than {LONGEST_TEXT} characters; give fewer symbols")
    words = text.split()
    if not 1 <= len(words) <= LONGEST:
        raise InputError(f"give 1 to {LONGEST} symbols with spaces between, got {len(words)}")
    return [answer(model(scheme), words) for scheme in schemes]


def answer(one: Model, words: Sequence[str]) -> Answer:
    """One model's."""
    import torch

    from ..tasks.frame import BOS, EOS, FIRST, SEP

    task = one.task
    symbols = task.parse(" ".join(words))
    for word, token in zip(words, symbols, strict=True):
        if token < FIRST:
            raise InputError(f"'{word}' frames a sequence and is no symbol of it; leave it out")
    read = torch.tensor([[BOS, *symbols, SEP]])
    tokens = one.decoder.generate(read, 2 * (len(symbols) + 1))[0].tolist()
    # One that goes on and on is cut: what was due says enough.
    tokens = tokens[: tokens.index(EOS) + 1 if EOS in tokens else len(symbols) + 1]
    due = [*symbols, EOS]  # The task is to copy.
    return Answer(one.scheme, printed(task, due), printed(task, tokens))


def printed(task: Task, tokens: Sequence[int]) -> tuple[str, ...]:
    """Tokens' printed forms."""
    return tuple(task.words[token] for token in tokens)


def told(one: Model, length: int) -> str:
    """The share of strings of a length that come out whole."""
    return f"{one.scores[length].value or 0.0:.0%}"


def seen(text: str, found: Sequence[Answer]) -> str:
    """What became of a prompt, in sentences."""
    length = len(text.split())
    said = []
    for each in found:
        one = model(each.scheme)
        often = f" ({told(one, length)} of {one.scores[length].count} such strings come out whole)"
        if each.whole:
            what = "copies it whole"
        elif each.right < min(len(each.due), len(each.written)):
            wrote, due = each.written[each.right], each.due[each.right]
            what = f"is right for {each.right} symbols, then writes {wrote} where {due} is due"
        else:
            what = f"stops after {each.right} symbols"
        said.append(f"{each.scheme} {what}{often}.")
    trained = next(iter(models().values())).trained_length
    where = (
        f"{length} symbols, {length - trained} past the {trained} of training"
        if length > trained
        else f"{length} symbols, within the {trained} of training"
    )
    return f"{where[:1].upper()}{where[1:]}: " + " ".join(said)


def answers_html(text: str, found: Sequence[Answer]) -> str:
    """The prompt's symbols with each model's below them, wrong ones marked by sign and line."""
    said = [f'<p class="lr-seen" aria-live="polite">{escape(seen(text, found))}</p>']
    for each in found:
        held = model(each.scheme).reach
        cells = []
        for at in range(max(len(each.due), len(each.written))):
            due = each.due[at] if at < len(each.due) else ""
            told = each.written[at] if at < len(each.written) else ""
            right = due == told
            label = (
                f"{told or 'nothing'}: right"
                if right
                else (f"{told or 'nothing'}: wrong, {due or 'nothing'} is due")
            )
            cells.append(
                f'<li class="{"lr-right" if right else "lr-wrong"}" title="{escape(label)}">'
                f'<span aria-hidden="true">{escape(told or "∅")}</span>'
                f'<small aria-hidden="true">{"✓" if right else "✗"}</small>'
                f'<span class="lr-hidden">{escape(label)}</span></li>'
            )
        verdict = "whole" if each.whole else f"{each.right} right, then wrong"
        said.append(
            f'<section class="lr-answer"><h2>{escape(each.scheme)} <span>{escape(verdict)}; holds '
            f"up to {held}</span></h2><ol>{''.join(cells)}</ol></section>"
        )
    return f'<div class="lr-model">{"".join(said)}</div>'


def chart(length: int, schemes: Sequence[str]) -> View:
    """The share of strings copied whole against their length, with the prompt's own marked."""
    from ..report.charts import chart as drawn
    from ..report.picture import Picture

    chosen = [model(scheme) for scheme in schemes]
    everyone = list(models())
    lines = [
        {
            "curve": one.scheme,
            "x": at,
            "at": str(at),
            "mean": row.value,
            "low": row.low,
            "high": row.high,
            "sd": None,
            "seeds": 1,
        }
        for one in chosen
        for at, row in one.scores.items()
    ]
    trained = chosen[0].trained_length
    here = "; ".join(f"{one.scheme} {told(one, length)}" for one in chosen)
    held = "; ".join(f"{one.scheme} up to {one.reach}" for one in chosen)
    spec = drawn(
        Picture(
            curves=everyone,
            lines=lines,
            x="length of the string (symbols)",
            y="strings copied whole (fraction)",
            ticks=[5, 10, 15, 20, 25, 30],
            linear=True,
            trained_length=trained,
            bounds=(0.0, 1.0),
        )
    )
    return View(
        name="trial",
        title="How often a string of a length is copied whole",
        seen=f"At {length} symbols: {here}. At least {SHARE:.0%} of strings: {held}.",
        reading=f"Each point is {chosen[0].scores[length].count} strings, measured when the model "
        "was trained, with Wilson's 95% interval; the dashed rule is the longest length "
        "of training. One model each: see the recorded study of copying for what other seeds do.",
        spec=spec,
    )
