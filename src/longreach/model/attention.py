"""Multi-head attention: one straight path, whatever the position scheme."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..schemes.base import Scheme
from .cache import LayerCache
from .rows import Packed


@dataclass(frozen=True)
class Places:
    """Where the tokens of one forward pass stand; made once and shared by all layers.

    positions: of the tokens being read. keys: of everything they may look at (cached tokens too).
    rotation: how the scheme turns queries and keys of the tokens being read. bias: what it adds to
    the logits, if anything. causal: whether a token sees those before it alone. padding: keys that
    hold no token, row by row; only where not causal, since whatever follows a row's last token is
    never seen by its tokens otherwise.
    """

    scheme: Scheme
    positions: Int[Tensor, " time"]
    keys: Int[Tensor, " key"]
    rotation: Callable[[Tensor], Tensor]
    bias: Float[Tensor, "heads time key"] | None
    causal: bool = True
    padding: Bool[Tensor, "batch key"] | None = None

    @classmethod
    def of(
        cls, scheme: Scheme, positions: Int[Tensor, " time"], keys: Int[Tensor, " key"]
    ) -> Places:
        """Asks the scheme for rotation and bias, once for all layers."""
        bias = scheme.bias(positions, keys)
        return cls(scheme, positions, keys, scheme.rotation(positions), bias)

    @classmethod
    def packed(cls, scheme: Scheme, rows: Packed) -> Places:
        """Those of the longest of unequal rows, whose tokens are turned all in one line."""
        positions = torch.arange(rows.time, device=rows.tokens.device)
        bias = scheme.bias(positions, positions)
        return cls(scheme, positions, positions, scheme.rotation(rows.positions), bias)

    @classmethod
    def around(
        cls,
        scheme: Scheme,
        positions: Int[Tensor, " time"],
        padding: Bool[Tensor, "batch time"] | None,
    ) -> Places:
        """Those of tokens that all see each other, as in an encoder."""
        bias = scheme.bias(positions, positions)
        rotation = scheme.rotation(positions)
        return cls(scheme, positions, positions, rotation, bias, causal=False, padding=padding)

    def mask(
        self, queries: int, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "rows heads queries key"] | None, bool]:
        """What is added to the logits of the last so many tokens, and whether plain causality is.

        A token sees those before it in the sequence, whatever their positions' values; or, where
        not causal, all that are no padding.
        """
        if not self.causal:
            return unpadded(self.bias, self.padding, dtype), False
        known = self.keys.shape[0]
        if self.bias is None and (queries == known or queries == 1):
            return None, queries > 1  # A single query is the last token, which sees all.
        if self.bias is not None and queries == 1:
            return self.bias[:, -1:].to(dtype)[None], False
        future = torch.ones(queries, known, dtype=torch.bool, device=self.keys.device)
        future = future.triu(known - queries + 1)
        if self.bias is None:
            bias = torch.zeros(1, queries, known, device=self.keys.device)
        else:
            bias = self.bias[:, -queries:]
        # Four dimensions: with three, attention falls back to a slow path on the CPU.
        return bias.masked_fill(future, -torch.inf).to(dtype)[None], False

    def mask_of_first(
        self, time: int, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "rows heads time time"] | None, bool]:
        """`mask` for a shorter row that begins alike."""
        bias = None if self.bias is None else self.bias[:, :time, :time]
        shorter = replace(self, positions=self.positions[:time], keys=self.keys[:time], bias=bias)
        return shorter.mask(time, dtype)


def unpadded(
    bias: Float[Tensor, "heads query key"] | None,
    padding: Bool[Tensor, "batch key"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "rows _ _ key"] | None:
    """What is added to logits so that no token sees padding; None if there is nothing to add."""
    if padding is None:
        return None if bias is None else bias.to(dtype)[None]
    hidden = padding[:, None, None]
    if bias is None:
        return torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, -torch.inf)
    return bias.to(dtype)[None].masked_fill(hidden, -torch.inf)


@dataclass(frozen=True)
class Memory:
    """What one layer of a decoder looks at of an encoder's output: made once for each sequence.

    mask: what is added to the logits so that padding is not seen, if there is any.
    """

    keys: Float[Tensor, "batch heads source head_dim"]
    values: Float[Tensor, "batch heads source head_dim"]
    mask: Float[Tensor, "batch 1 1 source"] | None


class Turned(NamedTuple):
    """What one layer makes of the tokens it reads, before it looks at any.

    queries, keys: as the scheme rotates them. others: keys before that and values, side by side as
        heads of one, which is how a cache takes them.
    """

    queries: Float[Tensor, "batch heads queries head_dim"]
    keys: Float[Tensor, "batch heads time head_dim"]
    values: Float[Tensor, "batch heads time head_dim"]
    others: Float[Tensor, "batch two_heads time head_dim"]


class Sight(NamedTuple):
    """What one layer's attention is computed from; made in one place, whatever is asked of it.

    queries, keys: rotated. mask: added to the logits. causal: whether later tokens are hidden from
        each query, without a mask that says so.
    """

    queries: Float[Tensor, "batch heads queries head_dim"]
    keys: Float[Tensor, "batch heads known head_dim"]
    values: Float[Tensor, "batch heads known head_dim"]
    mask: Float[Tensor, "mask_batch mask_heads mask_queries known"] | None
    causal: bool

    def seen(self) -> Float[Tensor, "batch heads queries head_dim"]:
        """Values, averaged by the weights, which are never formed."""
        return F.scaled_dot_product_attention(
            self.queries, self.keys, self.values, attn_mask=self.mask, is_causal=self.causal
        )

    def weights(self) -> Float[Tensor, "batch heads queries known"]:
        """How much each query looks at each key, in float32; the weights of a query sum to 1."""
        logits = self.queries.float() @ self.keys.float().mT / sqrt(self.queries.shape[-1])
        if self.mask is not None:
            logits = logits + self.mask
        if self.causal:
            future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
            logits = logits.masked_fill(future, -torch.inf)
        return logits.softmax(-1)


class Attention(nn.Module):
    """Attention with fused projections and no biases in them: to one's own text, or to another.

    width: of a token's vector. heads: must divide it.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        places: Places,
        *,
        last: int | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Every token, or the `last` so many, look at what `places` lets them see.

        That is the tokens up to themselves, in a decoder.
        """
        if last is None or last == x.shape[1]:
            turned = self._turned(self.project(x), places)
        elif last == 1 and cache is None and places.scheme.stamp is None:
            return self.out(self._folded(x, places))  # type: ignore[no-any-return]
        else:
            width = x.shape[-1]
            queries = F.linear(x[:, -last:], self.project.weight[:width])
            others = F.linear(x, self.project.weight[width:])
            turned = self._turned_apart(queries, others, places)
        return self.out(self._attend(turned, places, cache))  # type: ignore[no-any-return]

    def remember(
        self,
        x: Float[Tensor, "batch source width"],
        padding: Bool[Tensor, "batch source"] | None,
    ) -> Memory:
        """Keys and values of another text, for `across`."""
        keys, values = self._split(F.linear(x, self.project.weight[x.shape[-1] :]), 2)
        return Memory(keys, values, unpadded(None, padding, x.dtype))

    def across(
        self, x: Float[Tensor, "batch time width"], memory: Memory
    ) -> Float[Tensor, "batch time width"]:
        """Every token looks at another text, all of it that is no padding.

        No scheme has a say: positions in two texts count from two beginnings, so the distance
        between them means nothing.
        """
        queries = self._split(F.linear(x, self.project.weight[: x.shape[-1]]), 1)[0]
        seen = F.scaled_dot_product_attention(
            queries, memory.keys, memory.values, attn_mask=memory.mask
        )
        return self.out(seen.transpose(1, 2).flatten(-2))  # type: ignore[no-any-return]

    def weights(
        self, x: Float[Tensor, "batch time width"], places: Places
    ) -> Float[Tensor, "batch heads time time"]:
        """How much every token looks at every other: of each head, what `forward` averages by."""
        return self._sight(self._turned(self.project(x), places), places, None).weights()

    def packed(
        self, x: Float[Tensor, "kept width"], places: Places, rows: Packed, *, asked: bool
    ) -> Float[Tensor, "queries width"]:
        """The same for rows of unequal length: every token, or those asked after."""
        width = x.shape[-1]
        if asked:
            at = rows.positions[rows.chosen]
            queries = self._heads(F.linear(x[rows.chosen], self.project.weight[:width]))
            keys, values = F.linear(x, self.project.weight[width:]).chunk(2, dim=-1)
            queries = places.scheme.rotate(queries, at)
        else:
            queries, keys, values = self.project(x).chunk(3, dim=-1)
            queries = places.rotation(self._heads(queries))
        keys = places.rotation(self._heads(keys))
        spread = zip(
            rows.groups,
            rows.spread(self._line(queries), asked=asked),
            rows.spread(self._line(keys)),
            rows.spread(values),
            strict=True,
        )
        seen = []
        for group, *parts in spread:
            queries, keys, values = (self._split(part, 1)[0] for part in parts)
            sight = Sight(queries, keys, values, *places.mask_of_first(group.time, x.dtype))
            seen.append(group.collect(sight.seen().transpose(1, 2).flatten(-2), asked=asked))
        return self.out(torch.cat(seen))  # type: ignore[no-any-return]

    def _folded(
        self, x: Float[Tensor, "batch time width"], places: Places
    ) -> Float[Tensor, "batch 1 width"]:
        """What the last token sees, of keys and values that are never made.

        Where nothing turns them, q . (K x) = (K' q) . x, and values may be averaged before they are
        projected: the heads of the query then look at the tokens themselves, as queries of one.
        (Multi-head latent attention folds its projections likewise, arXiv:2405.04434.)
        """
        split = torch.unflatten(self.project.weight, 0, (3, self.heads, -1))
        of_queries, of_keys, of_values = split  # Each [heads, head_dim, width].
        queries = torch.einsum("hdw,bw->hbd", of_queries, x[:, -1])
        mask, _ = places.mask(1, x.dtype)
        seen = F.scaled_dot_product_attention(
            torch.bmm(queries, of_keys).transpose(0, 1)[:, None],
            x[:, None],
            x[:, None],
            attn_mask=None if mask is None else mask.transpose(1, 2),
            scale=of_keys.shape[1] ** -0.5,
        )
        values = torch.bmm(seen[:, 0].transpose(0, 1), of_values.mT)
        return values.transpose(0, 1).flatten(1)[:, None]

    def _turned(
        self, projected: Float[Tensor, "batch time three_widths"], places: Places
    ) -> Turned:
        """Of as many queries as keys."""
        parts = torch.unflatten(projected, -1, (3 * self.heads, -1)).transpose(1, 2)
        queries, keys, values = parts.chunk(3, dim=1)
        return Turned(
            places.rotation(queries),
            places.rotation(keys),
            values,
            parts.narrow(1, self.heads, 2 * self.heads),
        )

    def _turned_apart(
        self,
        queries: Float[Tensor, "batch queries width"],
        others: Float[Tensor, "batch time two_widths"],
        places: Places,
    ) -> Turned:
        """Of the last so many queries alone, and all keys and values."""
        asked = torch.unflatten(queries, -1, (self.heads, -1)).transpose(1, 2)
        parts = torch.unflatten(others, -1, (2 * self.heads, -1)).transpose(1, 2)
        keys, values = parts.chunk(2, dim=1)
        rotate = places.scheme.rotate
        return Turned(
            rotate(asked, places.positions[-asked.shape[2] :]),
            rotate(keys, places.positions),
            values,
            parts,
        )

    def _attend(
        self, turned: Turned, places: Places, cache: LayerCache | None
    ) -> Float[Tensor, "batch queries width"]:
        return self._sight(turned, places, cache).seen().transpose(1, 2).flatten(-2)

    def _sight(self, turned: Turned, places: Places, cache: LayerCache | None) -> Sight:
        if cache is None:
            keys, values = turned.keys, turned.values
        else:
            keys, values = cache.extend(places.scheme, turned.keys, turned.others, places.keys)
        mask, causal = places.mask(turned.queries.shape[2], turned.queries.dtype)
        return Sight(turned.queries, keys, values, mask, causal)

    def _heads(self, line: Float[Tensor, "kept width"]) -> Float[Tensor, "1 heads kept head_dim"]:
        """Tokens of all rows as if of one."""
        return torch.unflatten(line, -1, (self.heads, -1)).transpose(0, 1)[None]

    def _line(self, heads: Float[Tensor, "1 heads kept head_dim"]) -> Float[Tensor, "kept width"]:
        return heads[0].transpose(0, 1).flatten(1)

    def _split(
        self, projected: Float[Tensor, "batch time parts_width"], parts: int
    ) -> tuple[Tensor, ...]:
        """Views [batch, heads, time, head_dim], one per part."""
        split = torch.unflatten(projected, -1, (parts, self.heads, -1))
        return torch.unbind(split.permute(2, 0, 3, 1, 4))
