"""The sequences that will be evaluated, and which of them training has met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Int
from torch import Tensor


class HeldOut:
    """The sequences that will be evaluated, to recognise them in training.

    sequences: by length, up to the trained one. Those that are alike share a place.
    """

    def __init__(self, sequences: Mapping[int, Int[Tensor, "sequences time"]]) -> None:
        prints = [fingerprints(tokens) for tokens in sequences.values()]
        self.lengths = [
            length for length, some in zip(sequences, prints, strict=True) for _ in some
        ]
        self.known, self.places = torch.unique(torch.cat(prints), return_inverse=True)
        self.trained_length = max(sequences)
        at_trained = torch.tensor([n == self.trained_length for n in self.lengths])
        self.at_trained = torch.zeros(len(self.known), dtype=torch.bool)
        self.at_trained[self.places[at_trained]] = True

    def among(self, tokens: Int[Tensor, "batch time"]) -> Int[Tensor, " found"]:
        """The places in `known` of the sequences of a batch that are there."""
        asked = fingerprints(tokens)
        places = torch.searchsorted(self.known, asked).clamp(max=len(self.known) - 1)
        return places[self.known[places] == asked]

    def seen(self, places: Iterable[int]) -> dict[int, float]:
        """The share of the evaluated sequences of each length that have such a place."""
        met = set(places)
        found: dict[int, list[bool]] = {}
        for length, place in zip(self.lengths, self.places.tolist(), strict=True):
            found.setdefault(length, []).append(place in met)
        return {length: sum(some) / len(some) for length, some in found.items()}


def fingerprints(tokens: Int[Tensor, "batch time"]) -> Int[Tensor, " batch"]:
    """A 64-bit number for each sequence (a polynomial in its tokens, overflow wanted).

    Token 0 behind a sequence, with which shorter ones are filled up, leaves it what it is.
    """
    powers = torch.full((tokens.shape[1],), 6364136223846793005).cumprod(0)
    return (tokens * powers).sum(1)
