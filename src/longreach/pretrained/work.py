"""What a measurement consists of: a Request, and for each text the passes that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import InputError
from ..repairs import Repair
from ..spectrum import Extension, Spectrum
from .base import LanguageModel
from .passes import Ledger, Pass
from .windows import Passages


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
    last_tokens: int = 256
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
    by_length: dict[str, bool] = field(default_factory=dict)

    def depends_on_length(self, repair: Repair | None) -> bool:
        """Whether a repair has another spectrum for another length of text (dynamic, longrope)."""
        if repair is None:
            return False
        known = self.by_length.get(str(repair))
        if known is None:
            known = changes_with_length(repair, self.model.trained_length, self.asked)
            self.by_length[str(repair)] = known
        return known

    def full(self, window: int, repair: Repair | None) -> list[Pass]:
        """The passes that give a window's losses from its beginning, the longest last.

        A prefix's losses do not depend on what follows, so one pass serves every length; but for a
        repair that depends on the length there is one for each, in a spectrum of its own.
        """
        tokens = self.text.windows.tokens[window]
        lengths = self.asked.lengths
        if not self.depends_on_length(repair):
            target = self.asked.target_length or lengths[-1]
            return [Pass(tokens[: lengths[-1] + 1], lengths[-1], repair, target)]
        return [Pass(tokens[: n + 1], n, repair, n) for n in lengths]

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
        return {
            end: Pass(
                tokens[end - trained : end + 1], min(trained, max(half, self.asked.last_tokens))
            )
            for end in sorted(ends)
        }

    def window(self, number: int) -> list[Pass]:
        """All passes of a window."""
        found = list(self.controls(number).values())
        for repair in self.asked.repairs:
            found += self.full(number, repair)
        return found


def changes_with_length(repair: Repair, trained_length: int, asked: Request) -> bool:
    """Whether a repair's spectrum differs between the lengths that are measured.

    Asked of a plain spectrum that stands for the model's: what a repair depends on is its own.
    """
    options = dict(repair.options)
    pairs = next((len(v) for v in options.values() if isinstance(v, (list, tuple))), 32)
    plain = Spectrum.rope(2 * pairs)
    if repair.name in ("dynamic", "dynamic_yarn", "longrope"):
        found = [repair.apply(plain, Extension(trained_length, n)) for n in asked.lengths]
        first = found[0]
        return any(
            not np.array_equal(first.inverse_frequencies, each.inverse_frequencies)
            or first.amplitude != each.amplitude
            for each in found
        )
    return False
