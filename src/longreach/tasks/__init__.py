"""Tasks: what a model is trained and measured on. One file each; TASKS lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..table import Table

if TYPE_CHECKING:
    from .base import Task

TASKS: Table[type[Task]] = Table(
    "task",
    __name__,
    {
        "recall": ".recall:Recall",
        "copy": ".copy:Copy",
        "reverse": ".reverse:Reverse",
        "addition": ".addition:Addition",
        "summation": ".summation:Summation",
        "polynomial": ".polynomial:Polynomial",
        "parity": ".parity:Parity",
        "sort": ".sort:Sort",
        "lego": ".lego:Lego",
        "scan": ".scan:Scan",
        "pcfg": ".pcfg:Pcfg",
        "mqar": ".mqar:Mqar",
        "needle": ".needle:Needle",
        "text": ".text:Text",
    },
)
