"""Attention: how far back every head looks, and how much at the token that is to come next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ..tasks.base import Batch, Task

CHUNK_WEIGHTS = 2**20
"""Weights of one head at a time: a model's number of heads times as many are held in memory."""

NEARLY = 1e-9
"""Shares that sum to 0.5 but for rounding do reach one half."""


@runtime_checkable
class Attending(Protocol):
    """What these measurements need of a model: how much each token looks at each other."""

    @property
    def limit(self) -> int | None:
        """Positions it can represent, or None if there is no end."""
        ...

    def attention(
        self, tokens: Int[Tensor, "batch time"]
    ) -> list[Float[Tensor, "batch heads time time"]]:
        """By layer, the weights of each query (third) on each key (last)."""
        ...


class Head(NamedTuple):
    """One head of a model; both count from 0."""

    layer: int
    head: int


@dataclass(frozen=True, kw_only=True)
class Example:
    """One sequence and what every head looked at while reading it.

    tokens: those read, and the one after. scored: which of them are to be predicted. sources: the
        place that each is taken from, if the task says.
    """

    tokens: Int[Tensor, " time"]
    scored: Bool[Tensor, " time"]
    sources: Int[Tensor, " time"] | None
    weights: Float[Tensor, "layers heads read read"]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Of every head, averaged over the sequences of one length.

    shares: how much of its attention lies so many tokens back, averaged over all tokens read.
    even_shares: the same of a head that looks at all tokens up to its own alike.
    on_target: for each sequence, how much a head looks at the place of the token to come next,
        averaged over the tokens that are taken from a place; None where the task names no place.
    even_on_target: the same of a head that looks at all tokens alike.
    """

    read: int
    sequences: int
    shares: NDArray[np.float64]  # [layers, heads, distances]
    even_shares: NDArray[np.float64]  # [distances]
    on_target: NDArray[np.float64] | None  # [layers, heads, sequences]
    even_on_target: float | None
    example: Example

    @property
    def heads(self) -> list[Head]:
        """All of them, layer by layer."""
        return [Head(*place) for place in np.ndindex(self.shares.shape[:2])]

    @property
    def best(self) -> Head | None:
        """The head that looks most at the token to come next, the first of equal ones."""
        if self.on_target is None:
            return None
        scores = self.on_target.mean(2)
        return Head(*map(int, np.unravel_index(scores.argmax(), scores.shape)))

    def score(self, head: Head) -> float | None:
        """How much a head looks at the token to come next, averaged over sequences."""
        return None if self.on_target is None else float(self.on_target[head].mean())


def mean_distance(shares: NDArray[np.float64]) -> float:
    """Tokens that attention lies back on average.

    >>> mean_distance(np.array([0.5, 0.0, 0.5]))
    1.0
    """
    return float(shares @ np.arange(len(shares)))


def distance_within(shares: NDArray[np.float64], share: float) -> int:
    """The least distance within which so much of the attention lies.

    >>> [distance_within(np.array([0.5, 0.1, 0.4]), share) for share in (0.5, 0.6, 0.9)]
    [0, 1, 2]
    """
    return int(np.searchsorted(shares.cumsum(), share - NEARLY))


def measure(model: Attending, task: Task, batch: Batch) -> Attention | None:
    """Attention while the true sequences are read; None if they are past the model's limit.

    What stands behind a row's last scored token is padding to it: it is neither read nor averaged.
    """
    column = torch.arange(batch.tokens.shape[1])
    lengths = (batch.scored * column).amax(1)  # Tokens read: those before the last scored one.
    read = int(lengths.max())
    if model.limit is not None and read > model.limit:
        return None
    reads = column[:read] < lengths[:, None]
    sources = task.sources(batch)
    # Of the token after each one: it is there that attention should go to predict it.
    wanted = None if sources is None else sources[:, 1 : read + 1]
    distances: list[Tensor] = []
    scores: list[Tensor] = []
    chunk = max(1, CHUNK_WEIGHTS // read**2)
    example = None
    for rows in torch.split(torch.arange(len(lengths)), chunk):
        layers = model.attention(batch.tokens[rows, :read])
        distances.append(torch.stack([by_distance(layer, reads[rows]) for layer in layers]))
        if wanted is not None:
            scores.append(torch.stack([on_target(layer, wanted[rows]) for layer in layers]))
        example = example or _example(layers, batch, sources, int(lengths[0]))
    assert example is not None  # there is at least one sequence
    even = torch.ones(read, read).tril() / torch.arange(1, read + 1)[:, None]
    even = even.expand(len(lengths), 1, read, read)
    return Attention(
        read=read,
        sequences=len(lengths),
        shares=(torch.stack(distances).sum(0) / reads.sum()).numpy(),
        even_shares=(by_distance(even, reads)[0] / reads.sum()).numpy(),
        on_target=torch.cat(scores, dim=2).numpy() if scores else None,
        even_on_target=None if wanted is None else float(on_target(even, wanted).mean()),
        example=example,
    )


def by_distance(
    weights: Float[Tensor, "batch heads time time"], reads: Bool[Tensor, "batch time"]
) -> Float[Tensor, "heads time"]:
    """The weights at each distance, summed over the tokens that are read."""
    time = weights.shape[-1]
    together = torch.einsum("bhqk,bq->hqk", weights, reads.to(weights)).double()
    place = torch.arange(time)
    distance = (place[:, None] - place).clamp(min=0)  # What is to come has no weight.
    sums = torch.zeros(len(together), time, dtype=torch.float64)
    return sums.index_add_(1, distance.flatten(), together.flatten(1))


def on_target(
    weights: Float[Tensor, "batch heads time time"], wanted: Int[Tensor, "batch time"]
) -> Float[Tensor, "heads batch"]:
    """The weight on the place wanted, averaged over the tokens of each sequence that want one."""
    wants = wanted >= 0
    there = weights.gather(3, wanted.clamp(min=0)[:, None, :, None].expand(*weights.shape[:3], 1))
    sums = (there[..., 0].double() * wants[:, None]).sum(2)
    return (sums / wants.sum(1, keepdim=True)).T


def _example(
    layers: list[Float[Tensor, "batch heads time time"]],
    batch: Batch,
    sources: Int[Tensor, "all time_and_one"] | None,
    read: int,
) -> Example:
    """The first sequence of a batch, without its padding."""
    return Example(
        tokens=batch.tokens[0, : read + 1],
        scored=batch.scored[0, : read + 1],
        sources=None if sources is None else sources[0, : read + 1],
        weights=torch.stack([layer[0, :, :read, :read] for layer in layers]),
    )
