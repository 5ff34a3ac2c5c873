"""Greedy generation: no cache, all cached keys rotated at each step, new keys rotated alone.

Run: python benchmarks/cache.py

The cache keeps keys unrotated and rotated. Here that is compared with keeping them unrotated only
and rotating all of them at every step; tokens are compared before anything is timed.
"""

from __future__ import annotations

import torch

from interleave import ratios
from longreach.model.decoder import Decoder, DecoderShape
from longreach.schemes.base import Shape
from longreach.schemes.rope import Rope


class Forgetful(Rope):
    """RoPE that a cache cannot trust to rotate as before: all keys are rotated at every step."""

    @property
    def stamp(self) -> object:
        return object()


def model(scheme: type[Rope]) -> Decoder:
    torch.manual_seed(0)
    shape = DecoderShape(vocabulary=24, width=64, heads=4, layers=3, feed_forward=256)
    return Decoder(shape, scheme, 64).eval()


def main() -> None:
    torch.set_num_threads(1)
    assert Forgetful(Shape(width=8, heads=1, head_dim=8, trained_length=8)).limit is None
    kept, forgetful = model(Rope), model(Forgetful)
    for batch, count in ((1, 128), (64, 128)):
        prompt = torch.randint(0, 24, (batch, 16), generator=torch.Generator().manual_seed(0))
        ways = {
            "no cache": lambda p=prompt, n=count: kept.generate(p, n, cached=False),
            "cache, all keys rotated": lambda p=prompt, n=count: forgetful.generate(p, n),
            "cache, new keys rotated": lambda p=prompt, n=count: kept.generate(p, n),
        }
        tokens = [way() for way in ways.values()]
        assert all(torch.equal(tokens[0], other) for other in tokens[1:])
        print(f"batch {batch}, {count} new tokens after 16: the same tokens each way")
        ratios(ways, rounds=3, repeats=1)


if __name__ == "__main__":
    main()
