"""Key/value cache with preallocated storage that stays right when the rotation changes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import InputError
from ..schemes.base import Scheme


class LayerCache:
    """Keys and values of one layer, in storage allocated once.

    Keys are kept both unrotated and as the scheme last rotated them. A step then rotates its own
    keys alone; when the scheme's `stamp` changes (another spectrum), all keys are rotated anew
    from the unrotated ones, so that old and new keys are turned alike. (What deeper layers made of
    the text under the old spectrum stays as it was: only reading it again changes that.) Rotating
    everything at every step gives the same numbers more slowly (benchmarks/cache.py).
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._stamp: object = None
        self._turned: Tensor | None = None

    def extend(
        self,
        scheme: Scheme,
        keys: Float[Tensor, "batch heads new head_dim"],
        turned: Float[Tensor, "batch heads new head_dim"],
        values: Float[Tensor, "batch heads new head_dim"],
        positions: Int[Tensor, " all"],
    ) -> tuple[
        Float[Tensor, "batch heads all head_dim"], Float[Tensor, "batch heads all head_dim"]
    ]:
        """Appends keys and values; returns all rotated keys and all values.

        keys, turned: unrotated, and as the scheme rotates them now. Where it rotates nothing they
            are the same, and are stored once.
        positions: of everything cached, the new keys included.
        """
        start, end = self.length, self.length + keys.shape[2]
        rotates = scheme.stamp is not None
        if self._turned is None:
            shape = (*keys.shape[:2], self.capacity, keys.shape[3])
            self._turned, self._values = keys.new_empty(shape), keys.new_empty(shape)
            self._keys = keys.new_empty(shape) if rotates else self._turned
        self._turned[:, :, start:end] = turned
        self._values[:, :, start:end] = values
        if rotates:
            self._keys[:, :, start:end] = keys
            if start and scheme.stamp is not self._stamp:
                before = self._keys[:, :, :start]
                self._turned[:, :, :start] = scheme.rotate(before, positions[:start])
        self.length, self._stamp = end, scheme.stamp
        return self._turned[:, :, :end], self._values[:, :, :end]


class Cache:
    """What a decoder remembers of the tokens it has read: one LayerCache per layer, and positions.

    capacity: tokens in all; storage is allocated at the first use.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.layers = [LayerCache(capacity) for _ in range(layers)]
        self.positions: Int[Tensor, " all"] = torch.empty(0, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.positions)

    def advance(self, positions: Int[Tensor, " new"]) -> Int[Tensor, " all"]:
        """Notes the positions of the tokens about to be read; returns those of all.

        Raises InputError, and notes nothing, if there is no room for them.
        """
        end = len(self) + len(positions)
        if end > self.capacity:
            raise InputError(f"the cache holds {self.capacity} tokens; {end} were asked for")
        self.positions = torch.cat([self.positions.to(positions.device), positions])
        return self.positions
