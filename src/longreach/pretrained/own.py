"""One of our own runs, as a LanguageModel: what is measured on real models is measured on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from ..cell import stored_model, stored_training
from ..errors import InputError
from ..model.decoder import Decoder
from ..repairs import Repair
from ..spectrum import Extension
from ..train import build_task
from .base import one_by_one
from .wear import Proof, Worn

RUNS = Path("runs")


@dataclass
class OwnRun:
    """A trained Decoder."""

    name: str
    digest: str
    decoder: Decoder
    tokenizer: Tokenizer
    trained_length: int
    repaired: str | None = None
    """The repair that it was trained under, if any."""

    @property
    def limit(self) -> int | None:
        """Positions its scheme can represent, or None if there is no end."""
        return self.decoder.limit

    @property
    def by_length(self) -> bool:
        """Its spectrum is one for every length."""
        return False

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self.tokenizer.encode(text).ids)

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens."""
        return str(self.tokenizer.decode(tokens))

    def holds(self, tokens: Int[Tensor, "batch time"]) -> bool:
        """Whether the scheme has a position for every token."""
        return self.decoder.holds(tokens)

    def logits(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """After every token or the `last` so many, in float32, without gradients."""
        return self.decoder.logits(tokens, last=last)

    def continued(
        self, tokens: Int[Tensor, " time"], endings: Sequence[Int[Tensor, " some"]], last: int
    ) -> list[Float[Tensor, "last vocabulary"]]:
        """Logits after the last so many tokens of each ending, each read behind the same tokens."""
        return one_by_one(self, tokens, endings, last)

    def losses(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch scored"]:
        """Of every token but the first, or of the `last` so many, in nats."""
        last = last or tokens.shape[1] - 1
        logits = self.logits(tokens[:, :-1], last=last)
        truth = tokens[:, -last:]
        losses = F.cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="none")
        return losses.view(truth.shape)

    @contextmanager
    def wearing(self, repair: Repair | None, target_length: int) -> Iterator[Proof | None]:
        """Repaired for a while, for the target length; None wears nothing.

        Raises InputError if its scheme does not rotate.
        """
        if repair is None:
            yield None
            return
        plain = self.decoder.spectrum
        if plain is None:
            raise InputError(
                f"{repair.name} changes how fast pairs turn, and {self.name} turns none (its "
                f"scheme: {type(self.decoder.scheme).__name__}); measure it with --repair none"
            )
        if self.repaired is not None:
            raise InputError(
                f"{self.name} was trained under {self.repaired}, and a repair starts from the "
                "spectrum before any; measure it with --repair none, or the run that it came from"
            )
        spectrum = repair.apply(plain, Extension(self.trained_length, target_length))
        layers = tuple(range(self.decoder.shape.layers))
        with self.decoder.using(spectrum):
            read = self.decoder.spectrum
            assert read is spectrum
            worn = Worn(layers, np.array(read.inverse_frequencies), read.amplitude, plain.base)
            yield Proof(repair, target_length, (worn,), ())


def load_run(name: str) -> OwnRun:
    """From a run folder, or run:DIGEST (its first digits will do) under runs/.

    Raises InputError if there is none, if it was not trained on text, or is damaged.
    """
    folder = found_run(name) if name.startswith("run:") else Path(name)
    training = stored_training(folder)
    task = build_task(training)
    if training.task.name != "text":
        raise InputError(
            f"{folder} was trained on {training.task.label}, not on text: `longreach run` measures "
            "it on its own task"
        )
    decoder = stored_model(folder, training, task)
    if not isinstance(decoder, Decoder):
        raise InputError(f"{folder} holds an encoder-decoder, which continues no text")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    after = training.extended
    return OwnRun(
        name,
        training.digest,
        decoder,
        tokenizer,
        training.trained_length,
        None if after is None else after.repair,
    )


def found_run(name: str) -> Path:
    """The one run folder under runs/ whose digest begins so."""
    digest = name.removeprefix("run:")
    found = sorted(p.parent for p in RUNS.glob(f"*/{digest}*/training.json")) if digest else []
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"'{name}' fits {len(found)} runs: {', '.join(map(str, found[:4]))}; give more digits, "
            "or the folder"
        )
    raise InputError(
        f"there is no run '{digest}' under {RUNS}/; give the run's folder, as `longreach run` "
        "made it"
    )
