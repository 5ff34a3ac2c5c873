"""Passes: one reading of one window by the model, worn or not; each is kept, so none is lost."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from .. import files
from ..repairs import Repair
from .base import LanguageModel


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
        worn = "" if self.repair is None else f"{self.repair.name} {self.repair.options!r}"
        about = f"{model.digest} {self.scored} {worn} {self.target_length if worn else 0}"
        content = hashlib.sha256(about.encode())
        content.update(self.tokens.numpy().astype(np.int64).tobytes())
        return content.hexdigest()[:24]

    @property
    def read(self) -> int:
        """Tokens that the model reads."""
        return len(self.tokens) - 1


@dataclass
class Ledger:
    """Passes done, in a folder; and what they cost, so that the rest can be estimated.

    seconds: spent on passes of so many tokens, in this session.
    """

    folder: Path
    model: LanguageModel
    seconds: list[tuple[int, float]] = field(default_factory=list)

    def there(self, one: Pass) -> bool:
        """Whether a pass is done."""
        return self.path(one).is_file()

    def path(self, one: Pass) -> Path:
        """Where its losses are kept."""
        return self.folder / f"{one.key(self.model)}.npy"

    def losses(self, one: Pass) -> NDArray[np.float32]:
        """Those of a pass, in nats; read if they are there, else made now and kept."""
        path = self.path(one)
        if path.is_file():
            try:
                found: NDArray[np.float32] = np.load(path, allow_pickle=False)
                if found.shape == (one.scored,) and found.dtype == np.float32:
                    return found
            except (ValueError, OSError, EOFError):
                pass  # Kept whole, so damaged from outside: made again, and put in its place.
        began = time.monotonic()
        with self.model.wearing(one.repair, one.target_length):
            losses = self.model.losses(one.tokens[None], last=one.scored)[0]
        made: NDArray[np.float32] = losses.to(torch.float32).numpy()
        self.seconds.append((one.read, time.monotonic() - began))
        buffer = io.BytesIO()
        np.save(buffer, made, allow_pickle=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write(path, buffer.getvalue())
        return made

    def estimate(self, passes: Sequence[Pass]) -> float | None:
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
    ledger: Ledger, batches: Sequence[Sequence[Pass]], seconds: float | None
) -> Iterator[Sequence[Pass]]:
    """Batches of passes in order, as long as the time allows; the first one always.

    A batch that is already there costs nothing. Others are begun only if, by what has been timed,
    they end in time.
    """
    began = time.monotonic()
    for number, batch in enumerate(batches):
        left = None if seconds is None else seconds - (time.monotonic() - began)
        expected = ledger.estimate(batch)
        if number and left is not None and expected is not None and expected > left:
            return
        yield batch
