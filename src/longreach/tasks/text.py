"""Text: predict every next token of real documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Annotated, Literal
from zlib import crc32

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from ..corpora.prepare import Corpus, prepare
from ..errors import InputError
from .base import Batch, Task


@dataclass(frozen=True)
class Windows:
    """Stretches of held-out text.

    owners: for each window the number of its document, from 0 on and in order.
    """

    tokens: Int[Tensor, "windows length"]
    owners: Int[Tensor, " windows"]

    def per_document(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of a value per window over each document's windows."""
        owners = self.owners.numpy()
        means: NDArray[np.float64] = np.bincount(owners, values) / np.bincount(owners)
        return means


class Text(Task):
    """Predict every next token of held-out documents. Length counts tokens.

    corpus: `stdlib`, `text:FOLDER` or `hf:NAME[:config][@revision]`.
    vocabulary: size of the byte-pair vocabulary trained on the corpus, or "bytes".
    digest: of a corpus that is already prepared; spares reading its source again.
    say: is told what is being prepared.
    """

    metric = "loss"
    source = "language modelling; the text is the corpus's"
    counts = "tokens"

    def __init__(
        self,
        *,
        corpus: str = "stdlib",
        vocabulary: Annotated[int, Ge(257)] | Literal["bytes"] = 1024,
        digest: str | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.corpus: Corpus = prepare(corpus, vocabulary=vocabulary, digest=digest, say=say)
        self.vocabulary = self.corpus.vocabulary

    @property
    def data(self) -> str:
        """Digest of the prepared corpus: its text, split and tokenizer."""
        return self.corpus.digest

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Tokens as byte-level BPE spells them: a letter per byte, a space is `Ġ`."""
        known = self.corpus.tokenizer.get_vocab()
        return tuple(sorted(known, key=known.__getitem__))

    @cached_property
    def _train(self) -> Int[Tensor, " tokens"]:
        return torch.from_numpy(np.asarray(self.corpus.train).astype(np.int32))

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """Windows of length + 1 training tokens from anywhere; all but the first are scored."""
        self.fits(length)
        room = len(self._train) - length
        if room < 1:
            raise InputError(
                f"the corpus has {len(self._train):,} training tokens: too few for a window of "
                f"{length + 1}; give more text or a shorter trained_length"
            )
        starts = torch.randint(0, room, (count, 1), generator=generator)
        tokens = self._train[starts + torch.arange(length + 1)].long()
        scored = torch.ones_like(tokens, dtype=torch.bool)
        scored[:, 0] = False
        return Batch(tokens, scored)

    def windows(self, length: int, documents: int, each: int = 1) -> Windows:
        """Up to `each` windows from each of up to so many held-out documents that are long enough.

        Windows of a document do not overlap. Where they start depends on the document and the
        length alone, so every model is measured on the same text. Raises InputError if no document
        is long enough.
        """
        chosen: list[NDArray[np.int64]] = []
        owners: list[int] = []
        fitting = [text for text in self.corpus.held_out if len(text) >= length]
        for number, text in enumerate(fitting[:documents]):
            generator = np.random.default_rng([length, crc32(text.tobytes())])
            parts = min(each, len(text) // length)
            room = len(text) // parts
            for part in range(parts):
                start = part * room + generator.integers(0, room - length + 1)
                chosen.append(text[start : start + length].astype(np.int64))
                owners.append(number)
        if not chosen:
            longest = max(len(text) for text in self.corpus.held_out)
            raise InputError(
                f"no held-out document has {length} tokens (the longest has {longest}); "
                "give longer documents, or shorter evaluation_lengths"
            )
        return Windows(torch.from_numpy(np.stack(chosen)), torch.tensor(owners))

    @cached_property
    def token_bytes(self) -> Int[Tensor, " vocabulary"]:
        """How many bytes of text each token stands for."""
        return torch.from_numpy(np.asarray(self.corpus.token_bytes))

    def total(self, length: int) -> int:
        """A window, and the token before it, which is read but not scored."""
        return length + 1

    def ceiling(self, length: int) -> float:
        """0 nats: no loss is lower. The real floor, the entropy of the text, is unknown."""
        return 0.0

    def chance(self, length: int) -> float:
        """A uniform guess over the vocabulary, in nats per token."""
        return log(self.vocabulary)
