"""Formulas of docstrings: found, run and typeset. They are Python, so a test can hold them to it.

`formulas` finds the lines under "Formula:" in a docstring, `run` computes them one after another,
and `mathml` typesets one, for browsers that need no script for it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ln": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "clip": np.clip,
    "max": np.maximum,
    "min": np.minimum,
    "dot": np.dot,
}
BRACKETS = {"floor": "⌊⌋", "ceil": "⌈⌉"}
LETTERS = {"theta": "θ", "beta": "β"}
SIGNS = {ast.Add: "+", ast.Sub: "−", ast.Mult: "·"}  # noqa: RUF001 - a minus sign
TIGHTNESS = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 4, ast.Pow: 3}
"""What binds more tightly needs no brackets inside what binds less; a fraction never does."""

Part = tuple[str, str, list[str]]


def formulas(docstring: str | None) -> tuple[str, list[str]]:
    r"""What a docstring says of when its formula holds, and its lines.

    >>> formulas("Title.\n\nFormula, for all i:\n    kept = 1 / s\n\nMore.")
    (', for all i', ['kept = 1 / s'])
    """
    text = inspect.cleandoc(docstring or "")
    found = re.search(r"^Formula(.*):\n((?:    .+\n?)+)", text, re.M)
    if found is None:
        return "", []
    return found[1], [line.strip() for line in found[2].splitlines()]


def without_formula(docstring: str | None) -> str:
    """The rest of a docstring."""
    text = inspect.cleandoc(docstring or "")
    return re.sub(r"^Formula.*:\n(?:    .+\n?)+\n?", "", text, flags=re.M).strip()


def run(lines: list[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The names that the lines give values to, and those that were given."""
    names = dict(given)
    for line in lines:
        target, _, value = line.partition(" = ")
        names[target] = eval(value, {"__builtins__": {}}, {**FUNCTIONS, **names})
    return names


def mathml(line: str) -> str:
    """One formula as a block of MathML.

    >>> mathml("kept = ln(s)")[22:]
    '<mi>kept</mi><mo>=</mo><mrow><mi>ln</mi><mo>(</mo><mi>s</mi><mo>)</mo></mrow></math>'
    """
    left, _, right = line.partition(" = ")
    sides = (set_in_type(ast.parse(side, mode="eval").body) for side in (left, right))
    return f'<math display="block">{"<mo>=</mo>".join(sides)}</math>'


def set_in_type(node: ast.expr, *, small: bool = False) -> str:
    """An expression in MathML; whoever adds a construct to a docstring adds it here.

    small: within an exponent or a fraction, where another fraction could not be read.
    """
    match node:
        case ast.Constant(value=value):
            return f"<mn>{escape(str(value))}</mn>"
        case ast.Name(id=name):
            return named(name)
        case ast.Subscript(value=value, slice=index):
            below = set_in_type(index, small=True)
            return f"<msub>{set_in_type(value, small=small)}{row(below)}</msub>"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return row(f"<mo>−</mo>{within(operand, 2, small=small)}")  # noqa: RUF001
        case ast.BinOp(left=left, op=ast.Div(), right=right) if small:
            return row(f"{first(left, 2)}<mo>/</mo>{within(right, 3, small=True)}")
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            over, under = (row(set_in_type(each, small=True)) for each in (left, right))
            return f"<mfrac>{over}{under}</mfrac>"
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            above = row(set_in_type(right, small=True))
            return f"<msup>{within(left, 5, small=small)}{above}</msup>"
        case ast.BinOp(left=left, op=op, right=right):
            tight, sign = TIGHTNESS[type(op)], f"<mo>{SIGNS[type(op)]}</mo>"
            # What is taken away needs brackets of its own where a sum does.
            second = within(right, tight + isinstance(op, ast.Sub), small=small)
            return row(f"{first(left, tight, small=small)}{sign}{second}")
        case ast.Call(func=ast.Name(id="sqrt"), args=[value]):
            return f"<msqrt>{set_in_type(value, small=small)}</msqrt>"
        case ast.Call(func=ast.Name(id=name), args=[value]) if name in BRACKETS:
            before, after = BRACKETS[name]
            return row(f"<mo>{before}</mo>{set_in_type(value, small=small)}<mo>{after}</mo>")
        case ast.Call(func=ast.Name(id=name), args=values):
            listed = "<mo>,</mo>".join(set_in_type(each, small=small) for each in values)
            return row(f"<mi>{escape(name)}</mi><mo>(</mo>{listed}<mo>)</mo>")
    raise ValueError(f"nothing here typesets {ast.unparse(node)}")


def first(node: ast.expr, tight: int, *, small: bool = True) -> str:
    """An operand that stands first, where a sign before it cannot be misread."""
    if isinstance(node, ast.UnaryOp):
        return set_in_type(node, small=small)
    return within(node, tight, small=small)


def within(node: ast.expr, tight: int, *, small: bool) -> str:
    """An operand, in brackets where it binds less tightly than what it is an operand of."""
    binds = 5
    if isinstance(node, ast.BinOp):
        # A fraction holds its parts together; a slash does not.
        binds = 2 if small and isinstance(node.op, ast.Div) else TIGHTNESS[type(node.op)]
    elif isinstance(node, ast.UnaryOp):
        binds = 1
    typeset = set_in_type(node, small=small)
    return typeset if binds >= tight else row(f"<mo>(</mo>{typeset}<mo>)</mo>")


def row(typeset: str) -> str:
    """One thing, as fractions and powers want it."""
    return f"<mrow>{typeset}</mrow>"


def named(name: str) -> str:
    """A letter, Greek where it is named so, with what follows a dash below it.

    >>> named("beta_fast")
    '<msub><mi>β</mi><mi>fast</mi></msub>'
    """
    first, _, rest = name.partition("_")
    letter = LETTERS.get(first, first)
    if rest and first in LETTERS:
        return f"<msub><mi>{letter}</mi><mi>{escape(rest)}</mi></msub>"
    return f"<mi>{escape(letter if not rest else name.replace('_', ' '))}</mi>"
