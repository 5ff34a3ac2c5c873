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
        self._seen: Tensor | None = None  # Rotated keys, then values.
        self._keys: Tensor | None = None  # Unrotated keys, where there is another kind.

    def extend(
        self,
        scheme: Scheme,
        turned: Float[Tensor, "batch heads new head_dim"],
        others: Float[Tensor, "batch two_heads new head_dim"],
        positions: Int[Tensor, " all"],
    ) -> tuple[
        Float[Tensor, "batch heads all head_dim"], Float[Tensor, "batch heads all head_dim"]
    ]:
        """Appends keys and values; returns all rotated keys and all values.

        turned: keys as the scheme rotates them now. others: keys unrotated, then values. Where
            nothing is rotated they are stored as they come, at once.
        positions: of everything cached, the new keys included.
        """
        start, new, heads = self.length, turned.shape[2], turned.shape[1]
        if self._seen is None:
            shape = (others.shape[0], 2 * heads, self.capacity, others.shape[3])
            self._seen = others.new_empty(shape)
        self._seen.narrow(2, start, new).copy_(others)
        keys, values = self._seen.narrow(2, 0, start + new).chunk(2, dim=1)
        if scheme.stamp is not None:
            self._turn(keys, scheme, turned, positions)
        self.length, self._stamp = start + new, scheme.stamp
        return keys, values

    def _turn(
        self,
        keys: Float[Tensor, "batch heads all head_dim"],
        scheme: Scheme,
        turned: Float[Tensor, "batch heads new head_dim"],
        positions: Int[Tensor, " all"],
    ) -> None:
        """Puts rotated keys where the unrotated ones were stored, and keeps those elsewhere."""
        start, new = self.length, turned.shape[2]
        if self._keys is None:
            self._keys = keys.new_empty(*keys.shape[:2], self.capacity, keys.shape[3])
        fresh = keys.narrow(2, start, new)
        self._keys.narrow(2, start, new).copy_(fresh)
        fresh.copy_(turned)
        if start and scheme.stamp is not self._stamp:
            before = scheme.rotate(self._keys.narrow(2, 0, start), positions[:start])
            keys.narrow(2, 0, start).copy_(before)


class Cache:
    """What a decoder remembers of the tokens it has read: one LayerCache per layer, and positions.

    capacity: tokens in all; storage is allocated at the first use.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.layers = [LayerCache(capacity) for _ in range(layers)]
        self.positions: Int[Tensor, " all"] = torch.empty(0, dtype=torch.long)

    def __len__(self) -> int:
        return self.positions.shape[0]

    def advance(self, positions: Int[Tensor, " new"]) -> Int[Tensor, " all"]:
        """Notes the positions of the tokens about to be read; returns those of all.

        Raises InputError, and notes nothing, if there is no room for them.
        """
        end = len(self) + positions.shape[0]
        if end > self.capacity:
            raise InputError(f"the cache holds {self.capacity} tokens; {end} were asked for")
        self.positions = torch.cat([self.positions.to(positions.device), positions])
        return self.positions
