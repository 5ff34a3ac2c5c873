"""Position schemes: how attention is told where tokens are. One file each; SCHEMES lists them.

To add one: write a file with a class that overrides what it needs of `Scheme`, and add a line here.
The laws in tests/test_schemes.py then run over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..table import Table

if TYPE_CHECKING:
    from .base import Scheme

SCHEMES: Table[type[Scheme]] = Table(
    "scheme",
    __name__,
    {
        "nope": ".nope:NoPE",
        "learned": ".learned:Learned",
        "sinusoidal": ".sinusoidal:Sinusoidal",
        "rope": ".rope:Rope",
        "alibi": ".alibi:Alibi",
        "t5_bias": ".t5_bias:T5Bias",
    },
)
