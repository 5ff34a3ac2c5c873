"""Decoder: a causal language model under any position scheme, with greedy generation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import InputError
from ..schemes.base import Scheme, Shape
from ..spectrum import Spectrum
from .attention import Attention, Memory, Places
from .cache import Cache, LayerCache
from .rows import Packed


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """Sizes of a decoder, or of each half of an encoder-decoder.

    width must be a multiple of heads; norm says where LayerNorm stands.
    """

    vocabulary: int
    width: int
    heads: int
    layers: int
    feed_forward: int
    norm: Literal["pre", "post"] = "pre"

    def told(self, trained_length: int, *, causal: bool = True) -> Shape:
        """What a scheme is told of the model. Raises InputError if heads do not divide width."""
        if self.width % self.heads:
            raise InputError(f"width {self.width} is not a multiple of heads {self.heads}")
        return Shape(
            width=self.width,
            heads=self.heads,
            head_dim=self.width // self.heads,
            trained_length=trained_length,
            causal=causal,
        )


class Block(nn.Module):
    """Attention, then a two-layer feed-forward network, each added to the residual stream.

    cross: whether there is attention to another text between them, as in the decoder half of an
        encoder-decoder.
    """

    def __init__(self, shape: DecoderShape, *, cross: bool = False) -> None:
        super().__init__()
        self.pre = shape.norm == "pre"
        self.attention = Attention(shape.width, shape.heads)
        self.attention_norm = nn.LayerNorm(shape.width)
        self.feed_forward = nn.Sequential(
            nn.Linear(shape.width, shape.feed_forward),
            nn.GELU(),
            nn.Linear(shape.feed_forward, shape.width),
        )
        self.feed_forward_norm = nn.LayerNorm(shape.width)
        if cross:
            self.cross = Attention(shape.width, shape.heads)
            self.cross_norm = nn.LayerNorm(shape.width)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        places: Places,
        *,
        last: int | None,
        cache: LayerCache | None,
        memory: Memory | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Of every token, or of the `last` so many.

        memory: the other text, for a block with attention across.
        """
        seen = self.attention(self._read(x, self.attention_norm), places, last=last, cache=cache)
        x = self._add(seen, x if last is None else x[:, -last:], self.attention_norm)
        if memory is not None:
            seen = self.cross.across(self._read(x, self.cross_norm), memory)
            x = self._add(seen, x, self.cross_norm)
        return self._feed(x)

    def packed(
        self, x: Float[Tensor, "kept width"], places: Places, rows: Packed, *, asked: bool
    ) -> Float[Tensor, "queries width"]:
        """The same for rows of unequal length: of every token, or of those asked after."""
        seen = self.attention.packed(self._read(x, self.attention_norm), places, rows, asked=asked)
        return self._feed(self._add(seen, x[rows.chosen] if asked else x, self.attention_norm))

    def weights(
        self, x: Float[Tensor, "batch time width"], places: Places
    ) -> Float[Tensor, "batch heads time time"]:
        """How much every token looks at every other, by head."""
        return self.attention.weights(self._read(x, self.attention_norm), places)

    def _read(self, x: Float[Tensor, "*any width"], norm: nn.Module) -> Float[Tensor, "*any width"]:
        return norm(x) if self.pre else x

    def _add(
        self,
        seen: Float[Tensor, "*any width"],
        x: Float[Tensor, "*any width"],
        norm: nn.Module,
    ) -> Float[Tensor, "*any width"]:
        x = seen + x
        return x if self.pre else norm(x)

    def _feed(self, x: Float[Tensor, "*any width"]) -> Float[Tensor, "*any width"]:
        if self.pre:
            return x + self.feed_forward(self.feed_forward_norm(x))  # type: ignore[no-any-return]
        return self.feed_forward_norm(x + self.feed_forward(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Token embeddings, blocks, and a linear head of its own (not tied to the embeddings).

    Initialised as PyTorch does by default: embeddings N(0, 1), linear layers uniform.
    """

    def __init__(
        self, shape: DecoderShape, scheme: type[Scheme], trained_length: int, **options: Any
    ):
        super().__init__()
        told = shape.told(trained_length)
        self.shape = shape
        self.trained_length = trained_length
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width) if shape.norm == "pre" else nn.Identity()
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        # Last, so that under one seed all schemes start from the same weights elsewhere.
        self.scheme = scheme(told, **options)

    def forward(
        self,
        tokens: Int[Tensor, "batch time"],
        positions: Int[Tensor, " time"] | None = None,
        *,
        last: int | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """Logits after every token, or after the `last` so many.

        The last block then computes nothing else.

        positions: from 0 on, or from where the cache ends, unless given.
        Raises InputError for a position past the scheme's limit, if it has one.
        """
        if positions is None:
            start = 0 if cache is None or not len(cache) else int(cache.positions[-1]) + 1
            positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.scheme.embed(self.tokens(tokens), positions)  # First: it may refuse a position.
        keys = positions if cache is None else cache.advance(positions)
        places = Places.of(self.scheme, positions, keys)
        for number, block in enumerate(self.blocks):
            x = block(
                x,
                places,
                last=last if number == len(self.blocks) - 1 else None,
                cache=None if cache is None else cache.layers[number],
            )
        return self.head(self.norm(x))  # type: ignore[no-any-return]

    def packed(self, rows: Packed) -> Float[Tensor, "asked vocabulary"]:
        """Logits wherever they are asked for, of rows of unequal length.

        The same numbers as from the padded rows, without the time for places that hold no token.

        Raises InputError for a position past the scheme's limit, if it has one.
        """
        x = self.scheme.embed(self.tokens(rows.tokens)[None], rows.positions)[0]
        places = Places.packed(self.scheme, rows)
        for number, block in enumerate(self.blocks):
            x = block.packed(x, places, rows, asked=number == len(self.blocks) - 1)  # type: ignore[operator]
        return self.head(self.norm(x))  # type: ignore[no-any-return]

    @torch.inference_mode()
    def logits(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """After every token or the `last` so many, in float32, without gradients."""
        return self(tokens, last=last).float()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def attention(
        self, tokens: Int[Tensor, "batch time"]
    ) -> list[Float[Tensor, "batch heads time time"]]:
        """How much every token looks at every other, by layer and head, in float32.

        Raises InputError for a position past the scheme's limit, if it has one.
        """
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.scheme.embed(self.tokens(tokens), positions)
        places = Places.of(self.scheme, positions, positions)
        found = []
        for block in self.blocks:
            found.append(block.weights(x, places))  # type: ignore[operator]
            x = block(x, places, last=None, cache=None)
        return found

    @property
    def limit(self) -> int | None:
        """How many positions the scheme can represent, or None if there is no end."""
        return self.scheme.limit

    def holds(self, tokens: Int[Tensor, "batch time"]) -> bool:
        """Whether the scheme has a position for every token of these sequences."""
        return self.limit is None or tokens.shape[1] <= self.limit

    @property
    def spectrum(self) -> Spectrum | None:
        """How fast the pairs turn, if the scheme rotates."""
        return self.scheme.spectrum if self._rotates else None  # type: ignore[return-value]

    @property
    def _rotates(self) -> bool:
        return isinstance(self.scheme.stamp, Spectrum)

    def turn_by(self, spectrum: Spectrum) -> None:
        """Changes how fast the pairs turn; the weights are not touched.

        Raises InputError if the scheme does not rotate, or has another number of pairs.
        """
        if not self._rotates:
            raise InputError(f"{type(self.scheme).__name__} does not rotate: no spectrum to change")
        pairs, given = self.shape.width // self.shape.heads // 2, len(spectrum.inverse_frequencies)
        if given != pairs:
            raise InputError(f"the spectrum has {given} pairs; each head of this model has {pairs}")
        self.scheme.spectrum = spectrum  # type: ignore[assignment]

    @contextmanager
    def using(self, spectrum: Spectrum) -> Iterator[None]:
        """Wears another spectrum for a while. Raises InputError as `turn_by`."""
        before = self.spectrum
        self.turn_by(spectrum)
        try:
            yield
        finally:
            self.scheme.spectrum = before  # type: ignore[assignment]

    @torch.inference_mode()
    def generate(
        self, prompt: Int[Tensor, "batch time"], count: int, *, cached: bool = True
    ) -> Int[Tensor, "batch count"]:
        """Continues each prompt greedily by `count` tokens.

        cached=False reads everything again for each token: slow, and the same tokens.
        """
        if prompt.shape[1] < 1 or count < 1:
            raise InputError("generation needs a prompt of at least one token, and count >= 1")
        cache = Cache(self.shape.layers, prompt.shape[1] + count - 1) if cached else None
        unread, written = prompt, []
        for _ in range(count):
            token = self(unread, last=1, cache=cache)[:, -1].argmax(-1, keepdim=True)
            unread = token if cached else torch.cat([unread, token], dim=1)
            written.append(token)
        return torch.cat(written, dim=1)
