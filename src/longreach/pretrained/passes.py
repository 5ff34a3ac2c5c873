"""Passes: one reading of some tokens by the model, worn or not; each is kept, so none is lost."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from .. import files
from ..repairs import Repair
from .base import LanguageModel


class Reading(Protocol):
    """What a Ledger can do once and keep.

    repair: worn for target_length; None for the model as it is.
    """

    @property
    def repair(self) -> Repair | None:
        """Worn while it is read."""
        ...

    @property
    def target_length(self) -> int:
        """That the repair is set for."""
        ...

    @property
    def read(self) -> int:
        """Tokens that the model reads."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the numbers that come of it."""
        ...

    def key(self, model: LanguageModel) -> str:
        """Names the file that keeps them: everything that they depend on."""
        ...

    def make(self, model: LanguageModel) -> Tensor:
        """The numbers, from a model that wears the repair already."""
        ...


AnyReading = TypeVar("AnyReading", bound=Reading)


def key_of(about: str, tokens: Int[Tensor, " time"]) -> str:
    """24 hexadecimal digits that cover a description and tokens."""
    content = hashlib.sha256(about.encode())
    content.update(tokens.numpy().astype(np.int64).tobytes())
    return content.hexdigest()[:24]


def worn_key(repair: Repair | None, target_length: int) -> str:
    """What a file's name says of the repair that was worn."""
    return " 0" if repair is None else f"{repair.name} {repair.options!r} {target_length}"


@dataclass(frozen=True, eq=False)
class Pass:
    """Losses of the last `scored` tokens of a stretch of text.

    tokens: those read, and one more. repair: worn for target_length; None for the model as it is.
    """

    tokens: Int[Tensor, " time"]
    scored: int
    repair: Repair | None = None
    target_length: int = 0

    def key(self, model: LanguageModel) -> str:
        """Names the file that keeps it: everything that the losses depend on."""
        worn = worn_key(self.repair, self.target_length)
        return key_of(f"{model.digest} {self.scored} {worn}", self.tokens)

    @property
    def read(self) -> int:
        """Tokens that the model reads."""
        return len(self.tokens) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """One loss for each scored token."""
        return (self.scored,)

    def make(self, model: LanguageModel) -> Float[Tensor, " scored"]:
        """The losses, in nats."""
        return model.losses(self.tokens[None], last=self.scored)[0]


@dataclass
class Ledger:
    """Passes done, in a folder; and what they cost, so that the rest can be estimated.

    seconds: spent on passes of so many tokens, in this session.
    """

    folder: Path
    model: LanguageModel
    seconds: list[tuple[int, float]] = field(default_factory=list)

    @property
    def spent(self) -> float:
        """Seconds, in this session."""
        return sum(spent for _, spent in self.seconds)

    def there(self, one: Reading) -> bool:
        """Whether a pass is done."""
        return self.path(one).is_file()

    def path(self, one: Reading) -> Path:
        """Where its numbers are kept."""
        return self.folder / f"{one.key(self.model)}.npy"

    def losses(self, one: Pass) -> NDArray[np.float32]:
        """Those of a pass, in nats."""
        return self.values(one)

    def values(self, one: Reading) -> NDArray[np.float32]:
        """The numbers of a reading; read if they are there, else made now and kept."""
        path = self.path(one)
        if path.is_file():
            try:
                found: NDArray[np.float32] = np.load(path, allow_pickle=False)
                if found.shape == one.shape and found.dtype == np.float32:
                    return found
            except (ValueError, OSError, EOFError):
                pass  # Kept whole, so damaged from outside: made again, and put in its place.
        began = time.monotonic()
        with self.model.wearing(one.repair, one.target_length):
            values = one.make(self.model)
        made: NDArray[np.float32] = values.to("cpu", torch.float32).numpy()
        self.seconds.append((one.read, time.monotonic() - began))
        buffer = io.BytesIO()
        np.save(buffer, made, allow_pickle=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write(path, buffer.getvalue())
        return made

    def estimate(self, passes: Sequence[Reading]) -> float | None:
        """Seconds that passes will take; None if nothing was timed yet.

        By what a token cost in the longest pass so far, and more for longer ones, since attention
        grows with the square of the length.
        """
        if not self.seconds:
            return None
        read, spent = max(self.seconds)
        missing = [each.read for each in passes if not self.there(each)]
        return float(sum(spent * (length / read) ** 1.5 for length in missing))


def within(
    ledger: Ledger,
    batches: Sequence[Sequence[AnyReading]],
    seconds: float | None,
    *,
    always: int = 1,
) -> Iterator[Sequence[AnyReading]]:
    """Batches of passes in order, as long as the time allows; the first ones always.

    A batch that is already there costs nothing. Others are begun only if, by what has been timed,
    they end in time.
    """
    began = time.monotonic()
    for number, batch in enumerate(batches):
        left = None if seconds is None else seconds - (time.monotonic() - began)
        expected = ledger.estimate(batch)
        if number >= always and left is not None and expected is not None and expected > left:
            return
        yield batch
