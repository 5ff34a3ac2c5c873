"""Scheme, the three hooks through which attention is told where tokens are; and Shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a scheme needs to know of the model it serves.

    width: dimensions of a token's vector. heads, head_dim: of attention.
    trained_length: tokens per training sequence.
    causal: whether a token sees earlier ones alone; in an encoder, it sees later ones too.
    """

    width: int
    heads: int
    head_dim: int
    trained_length: int
    causal: bool = True


class Scheme(nn.Module):
    """Tells attention where tokens are. This class, unchanged, tells it nothing: it is NoPE.

    A scheme overrides the hooks it needs. Positions always come from the caller, are absolute,
    count from 0, and need not start at 0 or be consecutive; a scheme builds no `arange` of its own
    and keeps no cache. Angles and biases are computed in float32 or wider whatever the activations'
    dtype (bfloat16 cannot count past 256).
    """

    bidirectional: ClassVar[bool] = False
    """Whether it serves an encoder too, where keys stand on both sides of their query.

    A bias made for a decoder alone would be anything there (ALiBi's would reward the distance of
    later keys), so a scheme has to say so.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @property
    def limit(self) -> int | None:
        """How many positions the scheme can represent, or None if there is no end."""
        return None

    @property
    def stamp(self) -> object:
        """Changes whenever `rotate` would turn the same keys differently (a cache looks at it)."""
        return None

    def embed(
        self, x: Float[Tensor, "batch time width"], positions: Int[Tensor, " time"]
    ) -> Float[Tensor, "batch time width"]:
        """Adds to the token embeddings."""
        return x

    def rotate(
        self, x: Float[Tensor, "batch heads time head_dim"], positions: Int[Tensor, " time"]
    ) -> Float[Tensor, "batch heads time head_dim"]:
        """Turns queries or keys, of any number of heads."""
        return x

    def rotation(self, positions: Int[Tensor, " time"]) -> Callable[[Tensor], Tensor]:
        """`rotate` at these positions, as every layer of one pass applies it.

        A scheme may make here, once, what `rotate` would make anew in each of them.
        """
        return lambda x: self.rotate(x, positions)

    def bias(
        self, queries: Int[Tensor, " query"], keys: Int[Tensor, " key"]
    ) -> Float[Tensor, "heads query key"] | None:
        """Adds to the attention logits, after their division by sqrt(head_dim), before the mask."""
        return None


def angles(
    positions: Int[Tensor, " time"], inverse_frequencies: Float[Tensor, " pairs"]
) -> Float[Tensor, "time pairs"]:
    """Radians in [-pi, pi], in float32: whole turns are taken off in float64.

    Near position 100,000, float32 angles would come in steps of 0.008; and sines of large angles in
    float64 take ten times as long as those of small ones in float32.
    """
    turns = positions[:, None].double() * (inverse_frequencies.to(positions.device) / (2 * pi))
    return (turns - turns.round()).mul_(2 * pi).float()
