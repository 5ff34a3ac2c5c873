"""CSV that a spreadsheet may open: numbers stay numbers, and no text becomes a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""What begins a formula, in narrow and in wide letters (OWASP, "CSV Injection")."""
CONTROL = ("\t", "\r", "\n")
"""Skipped by some spreadsheets, which then see what comes after as the beginning."""
OTHER_SEPARATORS = ";|\t\r"
"""What separates cells where a comma is a decimal point."""


def as_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A CSV text, numbers to six digits; empty where there is none.

    Names of studies, schemes and tasks come from whoever wrote them. A text that would begin a
    formula gets an apostrophe before it, as OWASP recommends; a number never does, whatever its
    sign, since it is told by its type and not by its looks. A row with a separator of another
    country's in it is quoted throughout, or a spreadsheet there would begin a cell behind it.

    >>> print(as_csv(["scheme", "mean"], [["=1+1", -0.25], ["a;=b", None]]), end="")
    scheme,mean
    '=1+1,-0.25
    "a;=b",""
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in (columns, *rows):
        cells = [harmless(cell) if isinstance(cell, str) else rounded(cell) for cell in row]
        split = any(
            sign in cell for cell in cells if isinstance(cell, str) for sign in OTHER_SEPARATORS
        )
        (quoted if split else plain).writerow(cells)
    return out.getvalue()


def harmless(text: str) -> str:
    r"""The text, as one that no spreadsheet calculates.

    >>> harmless("rope + yarn"), harmless("-2"), harmless(" @sum"), harmless("\t=a")
    ('rope + yarn', "'-2", "' @sum", "'\t=a")
    """
    risky = text.startswith(CONTROL) or text.lstrip().startswith(FORMULA)
    return f"'{text}" if risky else text


def rounded(value: Any) -> Any:
    """A number to six digits that count; anything else as it is.

    >>> rounded(0.1 + 0.2), rounded("0.30000000000000004"), rounded(48)
    (0.3, '0.30000000000000004', 48)
    """
    return float(f"{value:.6g}") if isinstance(value, float) else value
