"""What a model is adapted on: windows of the training side of a text, the same for every repair."""

from __future__ import annotations

import hashlib
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from ..corpora.prepare import distinct, split
from ..errors import InputError
from ..train import generator_for
from .loading import Pretrained
from .windows import sources


class Batches:
    """Draws batches from the documents of a text that are not held out.

    Documents are split by their fingerprints, as prepared corpora are: the same text falls on the
    same side everywhere. A document is drawn with a chance proportional to its bytes. If it has the
    length, a stretch of it is taken; if not, further ones follow it, with the tokenizer's
    end-of-text token after each, and attention reaches over it. No other tokens are added, since
    measuring adds none.

    A batch depends on the text, the tokenizer, the length, the seed and the step, and on nothing
    else: another repair sees the same tokens, and a training that goes on where it was killed needs
    no state of a generator.

    label: of the text. documents: to train on. held_out: names of those that are not.
    """

    def __init__(self, model: Pretrained, text: str, length: int) -> None:
        self.model, self.length = model, length
        self.label, found = sources(text)
        self.documents, others = split(distinct(found, self.label))
        self.held_out = tuple(document.name for document in others)
        self.ends = list(accumulate(len(each.text.encode()) for each in self.documents))
        self.tokens: dict[int, NDArray[np.int32]] = {}
        self.end = end_of_text(model)
        self._check_size()

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that cover the documents, in their order."""
        found = hashlib.sha256()
        for document in self.documents:
            found.update(document.fingerprint)
        return found.hexdigest()[:16]

    def batch(self, step: int, size: int, seed: int) -> Int[Tensor, "size window"]:
        """Windows of length + 1 tokens: all but the last are read, all but the first predicted."""
        draw = generator_for("adapt", seed, step)
        return self.model.begun(torch.stack([self.window(draw) for _ in range(size)]))

    def window(self, draw: torch.Generator) -> Int[Tensor, " window"]:
        """One window."""
        row = self.of(self.drawn(draw))
        if len(row) > self.length:
            start = int(torch.randint(0, len(row) - self.length, (), generator=draw))
            return torch.from_numpy(row[start : start + self.length + 1].astype(np.int64))
        parts, count = [row, self._ending()], len(row) + 1
        while count <= self.length:
            row = self.of(self.drawn(draw))
            parts += [row, self._ending()]
            count += len(row) + 1
        packed = np.concatenate(parts)[: self.length + 1]
        return torch.from_numpy(packed.astype(np.int64))

    def drawn(self, draw: torch.Generator) -> int:
        """The number of a document, by its share of all bytes."""
        place = int(torch.randint(0, self.ends[-1], (), generator=draw))
        return int(np.searchsorted(self.ends, place, side="right"))

    def of(self, number: int) -> NDArray[np.int32]:
        """The tokens of a document, made when it is drawn first."""
        if number not in self.tokens:
            encoded = self.model.encode(self.documents[number].text)
            self.tokens[number] = np.array(encoded, dtype=np.int32)
        return self.tokens[number]

    def _ending(self) -> NDArray[np.int32]:
        if self.end is None:
            raise InputError(
                f"the tokenizer of {self.model.name} has no end-of-text token to put between "
                f"documents, and some of {self.label} are shorter than {self.length:,} tokens; "
                "give longer documents, or a shorter --length"
            )
        return np.array([self.end], dtype=np.int32)

    def _check_size(self) -> None:
        """Raises InputError if all documents together are shorter than one window."""
        known = 0
        largest = sorted(self.documents, key=lambda each: len(each.text), reverse=True)
        numbers = {id(document): number for number, document in enumerate(self.documents)}
        for document in largest:
            known += len(self.of(numbers[id(document)]))
            if known > self.length:
                return
        raise InputError(
            f"{self.label} has {known:,} tokens to train on ({len(self.held_out)} documents are "
            f"held out), fewer than one window of {self.length:,}; give more text, or a shorter "
            "--length"
        )


def end_of_text(model: Pretrained) -> int | None:
    """The token that stands between documents."""
    found = model.tokenizer.eos_token_id
    return None if found is None else int(found)
