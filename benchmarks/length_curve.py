"""The length curve for 16 lengths: one pass at the longest against one pass per length.

Run: python benchmarks/length_curve.py

A causal model's loss on a prefix does not depend on what follows, so one pass gives every length.
The losses are compared before the two ways are timed.
"""

from __future__ import annotations

import torch

from interleave import ratios
from longreach.measure.text_loss import token_losses
from longreach.model.decoder import Decoder, DecoderShape
from longreach.schemes import SCHEMES

LENGTHS = range(32, 513, 32)
DOCUMENTS = 16


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = DecoderShape(vocabulary=1024, width=192, heads=4, layers=3, feed_forward=768)
    model = Decoder(shape, SCHEMES["rope"], 64).eval()
    windows = torch.randint(0, 1024, (DOCUMENTS, LENGTHS[-1] + 1))

    def one_pass() -> list[float]:
        losses = token_losses(model, windows)
        return [losses[:, :length].mean().item() for length in LENGTHS]

    def pass_per_length() -> list[float]:
        return [token_losses(model, windows[:, : length + 1]).mean().item() for length in LENGTHS]

    gap = max(abs(a - b) for a, b in zip(one_pass(), pass_per_length(), strict=True))
    print(f"{len(LENGTHS)} lengths, {DOCUMENTS} documents: losses differ by at most {gap:.1e} nats")
    assert gap < 1e-4
    ratios({"one pass per length": pass_per_length, "one pass": one_pass}, rounds=5, repeats=1)


if __name__ == "__main__":
    main()
