"""What a measurement consists of: a Request, and for each text the passes that answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError
from ..repairs import Repair
from ..spectrum import Extension, Spectrum
from .base import LanguageModel
from .passes import Ledger, Pass
from .wear import BY_LENGTH
from .windows import Passages

LAST_TOKENS = 256
"""Compared with the control's, unless asked otherwise."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be measured.

    lengths: evaluation lengths, ascending; the trained length is added, as everything is compared
    with it. repairs: worn one after another; None is the model as it is, which is always there.
    texts: corpora or paths. windows: stretches of each text, at most. last_tokens: the tokens up to
    each length whose loss is compared with the control's. target_length: that repairs are set for;
    the longest length unless given.
    """

    lengths: tuple[int, ...]
    repairs: tuple[Repair | None, ...] = (None,)
    texts: tuple[str, ...] = ("stdlib",)
    windows: int = 8
    last_tokens: int = LAST_TOKENS
    target_length: int | None = None

    def of(self, trained_length: int) -> Request:
        """The same with everything that goes without saying. Raises InputError for a mistake."""
        if not self.lengths or min(self.lengths) < 2:
            raise InputError("--lengths must be numbers of tokens, 2 or more")
        lengths = tuple(sorted({*self.lengths, trained_length}))
        if min(lengths) < self.last_tokens:
            raise InputError(
                f"--last-tokens is {self.last_tokens}, more than the shortest length, "
                f"{min(lengths)}: the same last tokens must fit every length"
            )
        if self.windows < 1 or self.last_tokens < 1:
            raise InputError("--windows and --last-tokens must be at least 1")
        # By what they are called, since options may be lists.
        repairs = tuple({str(repair): repair for repair in (None, *self.repairs)}.values())
        target = self.target_length or lengths[-1]
        if target < lengths[-1] and any(repairs):
            raise InputError(
                f"--target-length is {target:,}, less than the longest length, {lengths[-1]:,}"
            )
        return Request(
            lengths=lengths,
            repairs=repairs,
            texts=tuple(dict.fromkeys(self.texts)),
            windows=self.windows,
            last_tokens=self.last_tokens,
            target_length=target,
        )


@dataclass
class Work:
    """One text, planned: its passes by window."""

    asked: Request
    model: LanguageModel
    text: Passages
    ledger: Ledger
    done: int = 0

    def readings(self, window: int, repair: Repair | None) -> dict[int, Pass]:
        """By evaluation length, the pass whose first losses are those of that length.

        A prefix's losses do not depend on what follows, so one pass serves every length; but a
        model or a repair that depends on the length takes one for each, in a spectrum of its own.
        Where such a repair changes nothing (dynamic ones, up to the trained length), the model as
        it is serves.
        """
        tokens = self.text.windows.tokens[window]
        lengths = self.asked.lengths
        target = self.asked.target_length or lengths[-1]
        whole = Pass(tokens[: lengths[-1] + 1], lengths[-1], repair, target)
        plain = dict.fromkeys(lengths, replace(whole, repair=None))
        if self.model.by_length:
            plain = {n: Pass(tokens[: n + 1], n) for n in lengths}
        if repair is None:
            return plain
        if repair.name not in BY_LENGTH:
            return dict.fromkeys(lengths, whole)
        changed = changed_at(repair, self.model.trained_length, lengths)
        return {n: Pass(tokens[: n + 1], n, repair, n) if changed[n] else plain[n] for n in lengths}

    def controls(self, window: int) -> dict[int, Pass]:
        """By where they end, the passes of the model as it is, over windows of the trained length.

        They end at every evaluation length past the trained one, and close enough together that
        each token past it is scored with at least half of the trained length before it.
        """
        trained, tokens = self.model.trained_length, self.text.windows.tokens[window]
        longest = self.asked.lengths[-1]
        ends = {length for length in self.asked.lengths if length > trained}
        half = max(1, trained // 2)
        ends |= set(range(trained + half, longest, half))
        scored = min(trained, max(half, self.asked.last_tokens))
        return {end: Pass(tokens[end - trained : end + 1], scored) for end in sorted(ends)}

    def window(self, number: int) -> list[Pass]:
        """All passes of a window."""
        found = list(self.controls(number).values())
        for repair in self.asked.repairs:
            found += self.readings(number, repair).values()
        return list({each.key(self.model): each for each in found}.values())


def changed_at(repair: Repair, trained_length: int, lengths: Sequence[int]) -> dict[int, bool]:
    """By length, whether a repair that depends on it changes a spectrum at all.

    Asked of a plain spectrum that stands for the model's: what a repair depends on is its own.
    """
    lists = [value for value in repair.options.values() if isinstance(value, (list, tuple))]
    plain = Spectrum.rope(2 * (len(lists[0]) if lists else 32))
    found = {}
    for length in lengths:
        used = repair.apply(plain, Extension(trained_length, length))
        same = np.array_equal(used.inverse_frequencies, plain.inverse_frequencies)
        found[length] = not same or used.amplitude != plain.amplitude
    return found


def lengths_for(trained: int, target: int) -> tuple[int, ...]:
    """Evaluation lengths of a visit: short text, the trained length, half-way, and the target.

    >>> lengths_for(8192, 12288)
    (2048, 8192, 10240, 12288)
    """
    return tuple(sorted({max(2, trained // 4), trained, (trained + target) // 2, target}))
