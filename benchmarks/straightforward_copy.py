"""Copy written the straightforward way, as the program that `copy-reverse` reproduces describes it.

Explicit softmax attention, separate projections, rows made one by one in Python and padded to the
longest, every position computed, AdamW with its defaults; generation with a cache that grows by
concatenation. Used as the yardstick, and to check that ours has the same losses and writes the
same tokens.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, SEP, EOS, FIRST = range(5)
VOCABULARY, WIDTH, HEADS, LAYERS, FEED_FORWARD, LONGEST = 24, 64, 4, 3, 256, 16
SCHEMES = ("nope", "sinusoidal", "rope", "alibi")

Cache = list[tuple[Tensor, Tensor]]


def rows(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Padded sequences, and which of their tokens are scored."""
    made, lengths = [], []
    for _ in range(count):
        n = int(torch.randint(1, LONGEST + 1, (1,), generator=generator))
        string = torch.randint(FIRST, VOCABULARY, (n,), generator=generator).tolist()
        made.append([BOS, *string, SEP, *string, EOS])
        lengths.append(n)
    return padded(made, lengths)


def padded(made: list[list[int]], lengths: list[int]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, made))
    tokens = torch.zeros(len(made), longest, dtype=torch.long)
    scored = torch.zeros(len(made), longest, dtype=torch.bool)
    for number, (row, n) in enumerate(zip(made, lengths, strict=True)):
        tokens[number, : len(row)] = torch.tensor(row)
        scored[number, n + 2 : len(row)] = True
    return tokens, scored


def frequencies(dimensions: int) -> Tensor:
    return 10_000.0 ** -(torch.arange(0, dimensions, 2).float() / dimensions)


def turned(x: Tensor, first: int) -> Tensor:
    positions = torch.arange(first, first + x.shape[-2]).float()
    angles = positions[:, None] * frequencies(x.shape[-1])
    even, odd = x[..., 0::2], x[..., 1::2]
    a, b = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return torch.stack([a, b], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, FEED_FORWARD), nn.Linear(FEED_FORWARD, WIDTH)

    def forward(self, x: Tensor, cached: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple]:
        batch, time, _ = x.shape
        q, k, v = (
            layer(x).view(batch, time, HEADS, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        past = 0 if cached is None else cached[0].shape[2]
        if self.scheme == "rope":
            q, k = turned(q, past), turned(k, past)
        if cached is not None:
            k, v = torch.cat([cached[0], k], 2), torch.cat([cached[1], v], 2)
        logits = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        query, key = torch.arange(past, past + time), torch.arange(past + time)
        if self.scheme == "alibi":
            slopes = 2.0 ** (-8 / HEADS * torch.arange(1, HEADS + 1))
            logits = logits + slopes[:, None, None] * (key[None, :] - query[:, None])
        future = key[None, :] > query[:, None]
        seen = logits.masked_fill(future, -torch.inf).softmax(-1) @ v
        x = self.norm1(x + self.o(seen.transpose(1, 2).reshape(batch, time, WIDTH)))
        return self.norm2(x + self.down(F.gelu(self.up(x)))), (k, v)


class Model(nn.Module):
    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(scheme) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        past = cache[0][0].shape[2] if cache else 0
        x = self.tokens(tokens)
        if self.scheme == "sinusoidal":
            positions = torch.arange(past, past + tokens.shape[1]).float()
            angles = positions[:, None] * frequencies(WIDTH)
            x = x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
        kept = []
        for number, block in enumerate(self.blocks):
            x, grown = block(x, cache[number] if cache else None)
            kept.append(grown)
        if cache is not None:
            cache[:] = kept
        return self.head(x)

    @torch.no_grad()
    def generate(self, prompt: Tensor, count: int, *, cached: bool = True) -> Tensor:
        """Greedily, with a cache that grows by concatenation, or reading all anew each time."""
        if not cached:
            text = prompt
            for _ in range(count):
                text = torch.cat([text, self(text)[:, -1].argmax(-1, keepdim=True)], 1)
            return text[:, prompt.shape[1] :]
        cache: Cache = []
        unread, written = prompt, []
        for _ in range(count):
            unread = self(unread, cache)[:, -1].argmax(-1, keepdim=True)
            written.append(unread)
        return torch.cat(written, 1)


def loss_of(model: Model, tokens: Tensor, scored: Tensor) -> Tensor:
    targets = tokens[:, 1:].masked_fill(~scored[:, 1:], -100)
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets.flatten())


def step(model: Model, optimizer: torch.optim.Optimizer, tokens: Tensor, scored: Tensor) -> float:
    loss = loss_of(model, tokens, scored)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@torch.no_grad()
def exact_match(model: Model, length: int, count: int) -> float:
    """Sequences of one length, every position computed, all at once."""
    generator = torch.Generator().manual_seed(length)
    made = []
    for _ in range(count):
        string = torch.randint(FIRST, VOCABULARY, (length,), generator=generator).tolist()
        made.append([BOS, *string, SEP, *string, EOS])
    tokens, scored = padded(made, [length] * count)
    guessed = model(tokens[:, :-1]).argmax(-1)
    return ((guessed == tokens[:, 1:]) | ~scored[:, 1:]).all(1).float().mean().item()
