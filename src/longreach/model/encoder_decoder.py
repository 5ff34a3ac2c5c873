"""EncoderDecoder: one half reads a text, the other writes another, under any position scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import InputError
from ..schemes.base import Scheme
from .attention import Memory, Places
from .cache import Cache
from .decoder import Block, DecoderShape


@dataclass(frozen=True)
class Frame:
    """The tokens by which a whole sequence `<bos> prompt <sep> answer <eos>` is known.

    padding: fills rows up behind their end.
    """

    separator: int
    end: int
    padding: int


@dataclass(frozen=True)
class Halves:
    """Whole sequences, cut in two at their separators.

    The separator is in both halves: it ends the source, and it is what the decoder reads first.
    (fairseq gives its end token both parts.) The first token of a sequence says nothing and is left
    out, and so is the end, which is only ever predicted.

    source: prompt and separator. target: separator and answer. Both are filled up on the right with
        whatever stood there. source_lengths, target_lengths: what is no padding, row by row. Column
        c of a row's target stood in column source_lengths + c of the whole.
    """

    source: Int[Tensor, "batch source"]
    target: Int[Tensor, "batch target"]
    source_lengths: Int[Tensor, " batch"]
    target_lengths: Int[Tensor, " batch"]

    @classmethod
    def of(cls, tokens: Int[Tensor, "batch time"], frame: Frame) -> Halves:
        """Raises InputError if a row has no separator: an encoder must have read all its prompt."""
        separators = tokens == frame.separator
        if not separators.any(1).all():
            raise InputError(
                "an encoder-decoder reads whole prompts, and a sequence has no separator "
                f"(token {frame.separator})"
            )
        place = separators.int().argmax(1)
        read = ((tokens != frame.padding) & (tokens != frame.end)).sum(1)
        lengths = read - place
        columns = place[:, None] + torch.arange(int(lengths.max()), device=tokens.device)
        target = tokens.gather(1, columns.clamp(max=tokens.shape[1] - 1))
        return cls(tokens[:, 1 : int(place.max()) + 1], target, place, lengths)


class EncoderDecoder(nn.Module):
    """The Transformer of Vaswani et al. 2017, arXiv:1706.03762, from the decoder's own blocks.

    The encoder's tokens see each other; the decoder's see those before them, and all that the
    encoder made of the source. Rows may be padded on the right: padding is never seen.

    As in the paper, one table embeds source and target, and with the scheme `sinusoidal` positions
    are its positions. What differs is what differs in Decoder too, so that the two compare: GELU,
    attention without biases, an untied head, embeddings N(0, 1) instead of scaled by sqrt(width),
    no dropout; `norm` is "post" in the paper.

    Each half has the scheme to itself, with its own positions from 0 on and its own table, if it
    has one; the attention from target to source has none (see `Attention.across`).

    shape: its `layers` are those of each half. trained_lengths: tokens of the longest source and of
    the longest target in training. frame: how `logits` and `asked` find source and target in a
    whole sequence, and what `generate` begins with.

    Raises InputError for a scheme that is made for decoders alone.
    """

    def __init__(
        self,
        shape: DecoderShape,
        scheme: type[Scheme],
        trained_lengths: tuple[int, int],
        frame: Frame,
        **options: Any,
    ) -> None:
        super().__init__()
        if not scheme.bidirectional:
            raise InputError(
                f"{scheme.__name__} does not say what it tells of keys after their query, and an "
                "encoder sees those; a scheme that does sets bidirectional = True"
            )
        source, target = trained_lengths
        shapes = shape.told(source, causal=False), shape.told(target)
        self.shape = shape
        self.frame = frame
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.encoder = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.decoder = nn.ModuleList(Block(shape, cross=True) for _ in range(shape.layers))
        # Only a stream that no norm stands in needs one at its end.
        self.encoder_norm, self.norm = (
            nn.LayerNorm(shape.width) if shape.norm == "pre" else nn.Identity() for _ in range(2)
        )
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        # Last, so that under one seed all schemes start from the same weights elsewhere.
        self.source_scheme, self.target_scheme = (scheme(each, **options) for each in shapes)

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch source width"]:
        """What the encoder makes of each source token; of padding, anything.

        lengths: tokens of each row that are no padding; all of them unless given.
        Raises InputError for a row of no tokens, and past the scheme's limit, if it has one.
        """
        hidden = padding(source, lengths)
        positions = torch.arange(source.shape[1], device=source.device)
        x = self.source_scheme.embed(self.tokens(source), positions)
        places = Places.around(self.source_scheme, positions, hidden)
        for block in self.encoder:
            x = block(x, places, last=None, cache=None)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def remember(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> list[Memory]:
        """Reads a source once: what each layer of the decoder looks at, however much it writes."""
        encoded, hidden = self.encode(source, lengths), padding(source, lengths)
        return [block.cross.remember(encoded, hidden) for block in self.decoder]  # type: ignore[union-attr, operator]

    def decode(
        self,
        target: Int[Tensor, "batch time"],
        memories: list[Memory],
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """The target's tokens as the head reads them.

        memories: of the source. cache: of the target's tokens before these.
        Raises InputError for a position past the scheme's limit, if it has one.
        """
        start = 0 if cache is None else len(cache)
        positions = torch.arange(start, start + target.shape[1], device=target.device)
        x = self.target_scheme.embed(self.tokens(target), positions)  # First: it may refuse.
        keys = positions if cache is None else cache.advance(positions)
        places = Places.of(self.target_scheme, positions, keys)
        layers = [None] * len(memories) if cache is None else cache.layers
        for block, memory, layer in zip(self.decoder, memories, layers, strict=True):
            x = block(x, places, last=None, cache=layer, memory=memory)
        return self.norm(x)  # type: ignore[no-any-return]

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch time vocabulary"]:
        """Logits after every token of the target.

        lengths: tokens of each source that are no padding; all of them unless given. Padding behind
            a target needs no word: its tokens see only those before them.
        """
        return self.head(self.decode(target, self.remember(source, lengths)))  # type: ignore[no-any-return]

    def asked(
        self, tokens: Int[Tensor, "batch time"], scored: Bool[Tensor, "batch time"]
    ) -> tuple[Float[Tensor, "asked vocabulary"], Int[Tensor, " asked"]]:
        """From whole sequences: logits where a scored token comes next, and that token.

        Raises InputError if a scored token stands in a prompt, which no decoder writes.
        """
        halves = Halves.of(tokens[:, :-1], self.frame)
        rows, columns = scored[:, 1:].nonzero(as_tuple=True)
        columns = columns - halves.source_lengths[rows]
        if int(columns.min()) < 0:
            raise InputError("an encoder-decoder predicts no token of a prompt; one is scored")
        memories = self.remember(halves.source, halves.source_lengths)
        chosen = self.decode(halves.target, memories)[rows, columns]
        return self.head(chosen), tokens[:, 1:][scored[:, 1:]]

    @torch.inference_mode()
    def logits(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """Of whole sequences, after every token or the `last` so many, in float32.

        Nothing is predicted inside a prompt or after the end: NaN.
        """
        halves = Halves.of(tokens, self.frame)
        found = self(halves.source, halves.target, halves.source_lengths).float()
        first = 0 if last is None else tokens.shape[1] - last
        columns = torch.arange(first, tokens.shape[1], device=tokens.device)
        columns = columns - halves.source_lengths[:, None]
        said = (columns >= 0) & (columns < halves.target_lengths[:, None])
        places = columns.clamp(0, found.shape[1] - 1)[..., None].expand(-1, -1, found.shape[2])
        return found.gather(1, places).masked_fill(~said[..., None], torch.nan)  # type: ignore[no-any-return]

    @property
    def limit(self) -> int | None:
        """How many positions both halves can represent together, or None if there is no end."""
        source, target = self.source_scheme.limit, self.target_scheme.limit
        return None if source is None or target is None else source + target

    def holds(self, tokens: Int[Tensor, "batch time"]) -> bool:
        """Whether each half has a position for every token of these whole sequences."""
        halves = Halves.of(tokens, self.frame)
        return all(
            scheme.limit is None or half.shape[1] <= scheme.limit
            for scheme, half in (
                (self.source_scheme, halves.source),
                (self.target_scheme, halves.target),
            )
        )

    @torch.inference_mode()
    def generate(
        self,
        source: Int[Tensor, "batch source"],
        count: int,
        end: int | None = None,
        *,
        lengths: Int[Tensor, " batch"] | None = None,
        cached: bool = True,
    ) -> Int[Tensor, "batch written"]:
        """Answers each source greedily with at most `count` tokens.

        A row ends at its first end token, and is filled up with it; when all have ended, so does
        the writing. end: that of the frame unless given. lengths: tokens of each source that are no
        padding. cached=False reads everything again for each token: slow, and the same tokens.
        """
        if count < 1:
            raise InputError(f"generation needs count >= 1, got {count}")
        end = self.frame.end if end is None else end
        memories = self.remember(source, lengths)
        cache = Cache(self.shape.layers, count) if cached else None
        text = source.new_full((len(source), 1), self.frame.separator)
        ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
        while text.shape[1] <= count and not ended.all():
            if not cached:
                memories = self.remember(source, lengths)
            unread = text[:, -1:] if cached else text
            chosen = self.head(self.decode(unread, memories, cache)[:, -1]).argmax(-1)
            chosen = chosen.masked_fill(ended, end)
            ended = ended | (chosen == end)
            text = torch.cat([text, chosen[:, None]], dim=1)
        return text[:, 1:]


def padding(
    tokens: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"] | None
) -> Bool[Tensor, "batch time"] | None:
    """What is padding in rows of these lengths; None if nothing is.

    Raises InputError for a row of no tokens, or of more than there are.

    >>> padding(torch.zeros(2, 3).long(), torch.tensor([1, 3])).tolist()
    [[False, True, True], [False, False, False]]
    """
    time = tokens.shape[1]
    shortest = time if lengths is None else int(lengths.min())
    if shortest < 1 or (lengths is not None and int(lengths.max()) > time):
        raise InputError(f"each source needs from 1 to its {time} tokens; lengths are {lengths}")
    if lengths is None or shortest == time:
        return None
    return torch.arange(time, device=tokens.device) >= lengths[:, None]
