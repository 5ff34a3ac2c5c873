"""What a search for needles consists of: a NeedleRequest, and for each kind and text a Hunt."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from ..errors import InputError
from ..measure.measured import Measured, wilson
from ..repairs import Repair
from .answers import Pool
from .base import LanguageModel
from .haystack import Haystacks
from .needles import METRICS, NEEDLES, Answering, Prompt, judge, prompt, together
from .passes import Ledger
from .wear import BY_LENGTH


@dataclass(frozen=True, kw_only=True)
class NeedleRequest:
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

    def checked(self) -> NeedleRequest:
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

    asked: NeedleRequest
    model: LanguageModel
    kind: str
    hays: Haystacks
    pool: Pool
    ledger: Ledger
    done: int = 0
    prompts: dict[tuple[int, tuple[float, ...], int], Prompt] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Of the task."""
        return f"{self.kind} ({self.hays.label})"

    @property
    def together(self) -> list[tuple[float, ...]]:
        """Depths whose needles are in one text."""
        return together(self.kind, self.asked.depths)

    def prompt(self, length: int, depths: tuple[float, ...], number: int) -> Prompt:
        """One text with its needles; made once."""
        place = (length, depths, number)
        if place not in self.prompts:
            self.prompts[place] = prompt(self.kind, self.hays, self.pool, *place)
        return self.prompts[place]

    def answering(
        self, length: int, depths: tuple[float, ...], number: int, repair: Repair | None
    ) -> Answering:
        """One text under one repair, set for this length if it depends on it."""
        by_length = repair is not None and repair.name in BY_LENGTH
        target = length if by_length else self.asked.target_length or length
        return Answering(self.prompt(length, depths, number), repair, target)

    def batch(self, number: int) -> list[Answering]:
        """The trials of this number: one at each length and depth, under every repair."""
        cells = product(self.asked.lengths, self.together, self.asked.repairs)
        return [self.answering(length, depths, number, repair) for length, depths, repair in cells]

    def judged(self, length: int, repair: Repair | None) -> Bool[NDArray[np.bool_], "t d metrics"]:
        """Of every trial done and depth, whether it is right by each of METRICS."""
        return np.array(
            [
                [
                    judge(kept)
                    for depths in self.together
                    for kept in self.ledger.values(self.answering(length, depths, number, repair))
                ]
                for number in range(self.done)
            ]
        )


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
