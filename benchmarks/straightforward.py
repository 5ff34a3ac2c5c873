"""Recall written the straightforward way, as the program that the study reproduces does it.

Explicit softmax attention, separate projections, the rotation by slices, every position computed,
AdamW with its defaults. Used as the yardstick, and to check that ours has the same losses.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, LAYERS, TRAINED_LENGTH = 24, 64, 4, 2, 24
SCHEMES = ("learned", "sinusoidal", "rope", "alibi", "nope")


def sample(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The ambiguous form: sequences and their answers."""
    rows = torch.arange(count)
    tokens = torch.randint(2, VOCABULARY, (count, length), generator=generator)
    source = torch.randint(1, length // 2, (count,), generator=generator)
    tokens[rows, -1] = tokens[rows, source]
    return tokens, tokens[rows, source + 1]


def frequencies(dimensions: int) -> Tensor:
    return 10_000.0 ** -(torch.arange(0, dimensions, 2).float() / dimensions)


def turned(x: Tensor) -> Tensor:
    angles = torch.arange(x.shape[-2]).float()[:, None] * frequencies(x.shape[-1])
    even, odd = x[..., 0::2], x[..., 1::2]
    first, second = (
        even * angles.cos() - odd * angles.sin(),
        even * angles.sin() + odd * angles.cos(),
    )
    return torch.stack([first, second], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = nn.Linear(WIDTH, WIDTH, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, _ = x.shape
        normed = self.norm1(x)
        q, k, v = (
            layer(normed).view(batch, time, HEADS, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        if self.scheme == "rope":
            q, k = turned(q), turned(k)
        logits = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        if self.scheme == "alibi":
            position = torch.arange(time).float()
            slopes = 2.0 ** (-8 / HEADS * torch.arange(1, HEADS + 1))
            logits = logits + slopes[:, None, None] * (position[None, :] - position[:, None])
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        seen = logits.masked_fill(future, -torch.inf).softmax(-1) @ v
        x = x + self.o(seen.transpose(1, 2).reshape(batch, time, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        if scheme == "learned":
            self.rows = nn.Embedding(TRAINED_LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(scheme) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        time = tokens.shape[1]
        if self.scheme == "learned":
            x = x + self.rows(torch.arange(time))
        if self.scheme == "sinusoidal":
            angles = torch.arange(time).float()[:, None] * frequencies(WIDTH)
            x = x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))[:, -1]


def step(model: Model, optimizer: torch.optim.Optimizer, tokens: Tensor, answers: Tensor) -> float:
    loss = F.cross_entropy(model(tokens), answers)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def accuracies(scheme: str, steps: int) -> list[float | None]:
    """Trains one model and measures it at 24, 32 and 48, all as that program does."""
    torch.manual_seed(0)
    model = Model(scheme)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        step(model, optimizer, *sample(64, TRAINED_LENGTH, generator))
    found: list[float | None] = []
    with torch.no_grad():
        for length in (24, 32, 48):
            if scheme == "learned" and length > TRAINED_LENGTH:
                found.append(None)
                continue
            tokens, answers = sample(512, length, torch.Generator().manual_seed(99))
            found.append((model(tokens).argmax(-1) == answers).float().mean().item())
    return found
