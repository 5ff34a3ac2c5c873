"""Measured, what every measurement returns; and the intervals over one run's sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from ..results import Items, Row


@runtime_checkable
class Measurable(Protocol):
    """What a measurement needs of a model: logits, and which positions it can represent."""

    @property
    def limit(self) -> int | None:
        """Positions it can represent, or None if there is no end."""
        ...

    def holds(self, tokens: Int[Tensor, "batch time"]) -> bool:
        """Whether it can represent the positions of these sequences: past `limit`, it cannot."""
        ...

    def logits(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """After every token or the `last` so many, in float32, without gradients."""
        ...


@dataclass
class Measured:
    """Rows, and under each row's item_key the values of its sequences or documents.

    about: the fields that all rows share.
    """

    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    items: dict[str, Items] = field(default_factory=dict)

    def add(
        self,
        metric: str,
        length: int,
        positions: tuple[int, int],
        values: NDArray[np.floating[Any]] | NDArray[np.bool_],
        *,
        value: float | None = None,
        interval: tuple[float, float] | None = None,
    ) -> None:
        """One row: the mean of `values`, unless `value` and `interval` say otherwise.

        values: numbers, or for each sequence whether it is right.
        """
        low, high = interval or mean_interval(values)
        row = Row(
            **self.about,
            evaluation_length=length,
            metric=metric,
            first_position=positions[0],
            last_position=positions[1],
            value=float(values.mean(dtype=np.float64)) if value is None else value,
            low=low,
            high=high,
            count=len(values),
        )
        self.rows.append(row)
        # What is right or wrong takes a byte, not four: a file holds thousands of them.
        judged = values.dtype == np.bool_
        kept: Items = values.astype(np.uint8) if judged else values.astype(np.float32)
        self.items[row.item_key] = kept

    def past_limit(self, metric: str, length: int, positions: tuple[int, int]) -> None:
        """A row that says: the scheme has no such position."""
        self.rows.append(
            Row(
                **self.about,
                evaluation_length=length,
                metric=metric,
                first_position=positions[0],
                last_position=positions[1],
                value=None,
                low=None,
                high=None,
                count=0,
                status="past_limit",
            )
        )


def wilson(right: int, count: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a fraction.

    >>> [round(bound, 4) for bound in wilson(10, 10)]
    [0.7225, 1.0]
    """
    found = stats.binomtest(right, count).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def newcombe(one: tuple[int, int], other: tuple[int, int]) -> tuple[float, float]:
    """The 95 % interval of one fraction less another, from their Wilson intervals.

    Newcombe 1998, Statistics in Medicine 17:873, method 10. one, other: how many are right, of how
    many; drawn independently.

    >>> [round(bound, 4) for bound in newcombe((56, 70), (48, 80))]
    [0.0524, 0.3339]
    """
    (p, q), (low, high), (least, most) = (
        (one[0] / one[1], other[0] / other[1]),
        wilson(*one),
        wilson(*other),
    )
    below = ((p - low) ** 2 + (most - q) ** 2) ** 0.5
    above = ((high - p) ** 2 + (q - least) ** 2) ** 0.5
    return p - q - below, p - q + above


def mean_interval(values: NDArray[np.floating[Any]] | NDArray[np.bool_]) -> tuple[float, float]:
    """The 95 % t interval of a mean; of one value, that value."""
    values = values.astype(np.float64)
    mean = float(values.mean())
    if len(values) < 2:
        return mean, mean
    error = float(values.std(ddof=1)) / len(values) ** 0.5
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return mean - reach, mean + reach
