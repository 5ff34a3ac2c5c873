"""Skipped positions (PoSE): short sequences whose tokens stand as far apart as in long ones."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor


def skipped(
    count: int, length: int, target_length: int, generator: torch.Generator
) -> Int[Tensor, "count length"]:
    """Positions of `count` sequences of `length` tokens, below the target length.

    Positional skip-wise training (Zhu et al. 2023, arXiv:2309.10400): each window is cut in two;
    the first chunk stands at 0, 1, 2, ..., and the second is moved by a skip drawn uniformly from 0
    to target_length - length, so that distances between the two cover what a long text has. The
    skip and the place of the cut are drawn anew for each sequence. As in the authors' code
    (github.com/dwzhu-pku/PoSE, train_pose.py) there are two chunks; the first has from 1 to half
    of the tokens, rounded up.

    It differs in the text. The authors' code takes that of the second chunk from later in the same
    document (anywhere in the first five windows of it); here the text runs on over the skip: a skip
    in position alone, and the same tokens as without PoSE, so that both can be compared.

    >>> draw = torch.Generator().manual_seed(3)
    >>> skipped(2, 6, 100, draw).tolist()
    [[0, 1, 94, 95, 96, 97], [0, 1, 2, 15, 16, 17]]
    """
    firsts = torch.randint(1, (length + 1) // 2 + 1, (count, 1), generator=generator)
    skips = torch.randint(0, target_length - length + 1, (count, 1), generator=generator)
    positions = torch.arange(length).expand(count, length)
    return positions + (positions >= firsts) * skips
