"""`rotate` against copying the tensor it turns.

Run: python benchmarks/rotate.py

Angles are worked out anew in each call: schemes keep no cache.
"""

from __future__ import annotations

import torch

from interleave import ratios
from longreach.schemes.base import Shape
from longreach.schemes.rope import Rope


def main() -> None:
    torch.set_num_threads(1)
    for batch, heads, time, head_dim in ((16, 4, 512, 48), (64, 4, 24, 16), (1, 32, 4096, 128)):
        rope = Rope(
            Shape(width=heads * head_dim, heads=heads, head_dim=head_dim, trained_length=64)
        )
        x, positions = torch.randn(batch, heads, time, head_dim), torch.arange(time)
        print(f"batch {batch}, heads {heads}, time {time}, head_dim {head_dim}")
        ratios({"copy": x.clone, "rotate": lambda x=x, p=positions, r=rope: r.rotate(x, p)})


if __name__ == "__main__":
    main()
