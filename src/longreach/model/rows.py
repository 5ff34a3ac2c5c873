"""Packed: rows of unequal length, so that no time goes into places that hold no token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

GROUPS = 2
"""Parts that rows of unequal length are sorted into, each padded to its own longest."""


@dataclass(frozen=True)
class Group:
    """Rows of about the same length, as one padded batch: where its tokens stand, and in what.

    kept, asked: places in batch * time.
    """

    batch: int
    time: int
    kept: Int[Tensor, " kept"]
    asked: Int[Tensor, " asked"]

    def places(self, *, asked: bool) -> Int[Tensor, " places"]:
        """Of the tokens that are kept, or of those asked after."""
        return self.asked if asked else self.kept

    def spread(
        self, own: Float[Tensor, "own width"], *, asked: bool = False
    ) -> Float[Tensor, "batch time width"]:
        """The group's vectors at their places, zeros elsewhere."""
        empty = own.new_zeros(self.batch * self.time, own.shape[-1])
        spread = empty.index_copy(0, self.places(asked=asked), own)
        return spread.view(self.batch, self.time, -1)

    def collect(
        self, spread: Float[Tensor, "batch time width"], *, asked: bool = False
    ) -> Float[Tensor, "own width"]:
        """The vectors at the group's places."""
        return spread.flatten(0, 1).index_select(0, self.places(asked=asked))


@dataclass(frozen=True)
class Packed:
    """Only places that hold tokens are computed by layers that look at one token at a time.

    Vectors stand as [kept, width], those of all rows in one line; attention alone spreads them out,
    group by group. A token after the last scored one of its row is not kept: nothing depends on it.

    tokens, positions: those read. chosen: which of them logits are asked after; targets: what comes
        there.
    """

    tokens: Int[Tensor, " kept"]
    positions: Int[Tensor, " kept"]
    targets: Int[Tensor, " asked"]
    groups: Sequence[Group]
    chosen: Int[Tensor, " asked"]

    @classmethod
    def of(cls, tokens: Int[Tensor, "batch time"], scored: Bool[Tensor, "batch time"]) -> Packed:
        """From whole sequences, and which of their tokens to predict: at least one of each."""
        column = torch.arange(tokens.shape[1], device=tokens.device)
        lengths = (scored * column).amax(1)  # Tokens read: those before the last scored one.
        order = lengths.argsort(stable=True)
        groups: list[Group] = []
        read, positions, targets, chosen = [], [], [], []
        first_kept = 0
        for rows in order.chunk(GROUPS):
            time = int(lengths[rows].max())
            own, wanted = tokens[rows], scored[rows, 1 : time + 1]
            holds = (column[:time] < lengths[rows, None]).flatten()
            kept, asked = holds.nonzero()[:, 0], wanted.flatten().nonzero()[:, 0]
            groups.append(Group(len(rows), time, kept, asked))
            read.append(own[:, :time].flatten()[kept])
            positions.append(kept % time)
            targets.append(own[:, 1 : time + 1].flatten()[asked])
            chosen.append(wanted.flatten()[kept].nonzero()[:, 0] + first_kept)
            first_kept += len(kept)
        return cls(
            torch.cat(read), torch.cat(positions), torch.cat(targets), groups, torch.cat(chosen)
        )

    @property
    def time(self) -> int:
        """Places of the longest row."""
        return max(group.time for group in self.groups)

    def spread(
        self, vectors: Float[Tensor, "all width"], *, asked: bool = False
    ) -> list[Float[Tensor, "batch time width"]]:
        """The vectors of each group at their places."""
        cuts = vectors.split_with_sizes([len(group.places(asked=asked)) for group in self.groups])
        return [
            group.spread(own, asked=asked) for group, own in zip(self.groups, cuts, strict=True)
        ]
