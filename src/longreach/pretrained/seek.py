"""Measures whether a trained model finds needles: by depth and length, under repairs, in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from ..errors import InputError
from ..measure.measured import Measured, wilson
from ..repairs import Repair
from ..results import Results
from ..run import locked
from .answers import Pool, pool_of
from .base import LanguageModel
from .folder import check_folder
from .haystack import Haystacks, haystacks
from .measure import WORK, Display, Found, prove_all
from .needles import METRICS, NEEDLES, Answering, Trial, judge, trial
from .passes import Ledger, within
from .work import Request, changes_with_length

STUDY = "needles"


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is to be looked for.

    lengths: of prompts, in tokens. depths: of the needle, from 0 (before all text) to 1 (right
    before the question). kinds: of NEEDLES. repairs: worn one after another; None is the model as
    it is, which is always there. texts: corpora or paths. trials: at each length and depth.
    target_length: that repairs are set for; the longest length unless given. A repair that depends
    on the length of text is set for that of each prompt instead.
    """

    lengths: tuple[int, ...]
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    kinds: tuple[str, ...] = tuple(NEEDLES)
    repairs: tuple[Repair | None, ...] = (None,)
    texts: tuple[str, ...] = ("stdlib",)
    trials: int = 10
    target_length: int | None = None

    def checked(self) -> Search:
        """The same in order, each thing once. Raises InputError for a mistake."""
        if not self.lengths or min(self.lengths) < 1:
            raise InputError("--lengths must be numbers of tokens, 1 or more")
        if not self.depths or not all(0 <= depth <= 1 for depth in self.depths):
            raise InputError("--depths must be numbers from 0 to 1, at least one")
        if unknown := [kind for kind in self.kinds if kind not in NEEDLES]:
            raise InputError(f"there is no --kind '{unknown[0]}'; there are {', '.join(NEEDLES)}")
        if not self.kinds or not self.texts:
            raise InputError("give at least one --kind and one --text")
        if self.trials < 1:
            raise InputError(f"--trials must be at least 1, got {self.trials}")
        lengths, depths = tuple(sorted({*self.lengths})), tuple(sorted({*self.depths}))
        if len({nominal(depth, lengths[0]) for depth in depths}) < len(depths):
            raise InputError(
                f"some --depths are the same place in {lengths[0]:,} tokens; give fewer, or longer "
                "--lengths"
            )
        # By what they are called, since options may be lists.
        repairs = tuple({str(repair): repair for repair in (None, *self.repairs)}.values())
        target = self.target_length or lengths[-1]
        if target < lengths[-1] and any(repairs):
            raise InputError(
                f"--target-length is {target:,}, less than the longest length, {lengths[-1]:,}"
            )
        return replace(
            self,
            lengths=lengths,
            depths=depths,
            kinds=tuple(dict.fromkeys(self.kinds)),
            repairs=repairs,
            texts=tuple(dict.fromkeys(self.texts)),
            target_length=target,
        )


def nominal(depth: float, length: int) -> int:
    """The 1-based position that rows of a depth name: where the needle would be, had it no size.

    >>> nominal(0, 2048), nominal(0.25, 2048), nominal(1, 2048)
    (1, 512, 2048)
    """
    return max(1, round(depth * length))


@dataclass
class Hunt:
    """One kind of needle in one text, planned; `done` trials of it are read."""

    asked: Search
    model: LanguageModel
    kind: str
    hays: Haystacks
    pool: Pool
    ledger: Ledger
    done: int = 0
    trials: dict[tuple[int, float, int], Trial] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Of the task."""
        return f"{self.kind} ({self.hays.label})"

    def trial(self, length: int, depth: float, number: int) -> Trial:
        """One trial; made once."""
        place = (length, depth, number)
        if place not in self.trials:
            self.trials[place] = trial(self.kind, self.hays, self.pool, *place)
        return self.trials[place]

    def answering(self, length: int, depth: float, number: int, repair: Repair | None) -> Answering:
        """One trial under one repair, set for this length if it depends on it."""
        target = self.asked.target_length or length
        if repair is not None and changes_with_length(
            repair, self.model.trained_length, Request(lengths=self.asked.lengths)
        ):
            target = length
        return Answering(self.trial(length, depth, number), repair, target)

    def round(self, number: int) -> list[Answering]:
        """The trials of this number: one at each length and depth, under every repair."""
        cells = product(self.asked.lengths, self.asked.depths, self.asked.repairs)
        return [self.answering(length, depth, number, repair) for length, depth, repair in cells]

    def judged(self, length: int, repair: Repair | None) -> Bool[NDArray[np.bool_], "t d metrics"]:
        """Of every trial done and depth, whether it is right by each of METRICS."""
        return np.array(
            [
                [
                    judge(self.ledger.values(self.answering(length, depth, number, repair)))
                    for depth in self.asked.depths
                ]
                for number in range(self.done)
            ]
        )


def seek(
    model: LanguageModel,
    search: Search,
    out: Path,
    *,
    display: Display,
    command: str,
    say: Callable[[str], None] = lambda line: None,
    max_seconds: float | None = None,
    question: str = "",
) -> Found:
    """Does what is missing in `out` and writes rows, as a runs folder that `report` reads.

    First trial 0 of every length and depth under every repair, of each kind and text in turn; then
    trial 1: stopped anywhere, what there is compares like with like. Every pass is kept.

    max_seconds: begin no round of trials that would end later; the first is always done.
    Raises InputError for a mistake in the search, text that is too short or holds the words that
    would be hidden, or a folder that is not its own.
    """
    from .seek_folder import write_plan, write_run

    asked = search.checked()
    longest, pool = asked.lengths[-1], pool_of(model)
    read = longest + pool.width - 1
    if model.limit is not None and read > model.limit:
        raise InputError(
            f"{model.name} has a table of {model.limit:,} positions, and {longest:,} tokens with "
            f"an answer take {read:,}; its --lengths go up to {model.limit - pool.width + 1:,}"
        )
    with locked(out):
        check_folder(out, model, STUDY)
        proofs = prove_all(model, asked.repairs, asked.target_length or longest)
        ledger = Ledger(out / WORK / model.digest, model)
        texts = [haystacks(model, text, say) for text in asked.texts]
        hunts = [
            Hunt(asked, model, kind, hays, pool, ledger) for hays in texts for kind in asked.kinds
        ]
        left_out = read_all(hunts, display, max_seconds)
        write_plan(out, hunts, command, question)
        for hunt in hunts:
            write_run(out, hunt, command, proofs)
        problems = tuple(getattr(model, "problems", ()))
        return Found(Results.read(out), proofs, tuple(left_out), problems)


def read_all(hunts: Sequence[Hunt], display: Display, max_seconds: float | None) -> list[str]:
    """Does all passes that are missing and that the time allows; says what was left out."""
    asked, ledger = hunts[0].asked, hunts[0].ledger
    rounds = [(hunt, number) for number in range(asked.trials) for hunt in hunts]
    batches = [hunt.round(number) for hunt, number in rounds]
    ready = [all(ledger.there(each) for each in batch) for batch in batches]
    missing = [each.read for batch in batches for each in batch if not ledger.there(each)]
    display.start(runs=len(rounds), finished=sum(ready), steps=sum(missing))
    allowed = within(ledger, batches, max_seconds)
    for (hunt, number), batch, was_there in zip(rounds, allowed, ready, strict=False):
        for each in batch:
            new = not ledger.there(each)
            ledger.values(each)
            if new:
                display.advance(each.read)
        hunt.done = number + 1
        if not was_there:
            display.finish(f"trial {number + 1} of {hunt.label}")
    return [
        f"{hunt.done} of {asked.trials} trials of {hunt.label} were done at each length and depth: "
        "the time did not allow more. The same command continues"
        for hunt in hunts
        if hunt.done < asked.trials
    ]


def rows_of(hunt: Hunt, digest: str, scheme: str) -> Measured:
    """All rows of a kind and text: of each length, and of each length and depth.

    Of a length, `exact_match` and `choice` over the trials of all depths (trial by trial, the
    depths in order); of a length and depth, `exact_match_by_depth` and `choice_by_depth`, whose
    positions are both `nominal`. Intervals are Wilson's.
    """
    asked = hunt.asked
    out = Measured(
        {
            "training": digest,
            "scheme": scheme,
            "task": hunt.label,
            "seed": 0,
            "repair": None,
            "trained_length": hunt.model.trained_length,
        }
    )

    def add(metric: str, length: int, positions: tuple[int, int], right: NDArray[np.bool_]) -> None:
        interval = wilson(int(right.sum()), right.size)
        out.add(metric, length, positions, right.reshape(-1), interval=interval)

    for repair in asked.repairs:
        out.about["repair"] = None if repair is None else str(repair)
        for length in asked.lengths:
            judged = hunt.judged(length, repair)
            for number, metric in enumerate(METRICS):
                add(metric, length, (1, length), judged[..., number])
                for place, depth in enumerate(asked.depths):
                    position = nominal(depth, length)
                    column = judged[:, place, number]
                    add(f"{metric}_by_depth", length, (position, position), column)
    return out
