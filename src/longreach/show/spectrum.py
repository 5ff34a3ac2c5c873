"""A spectrum and what repairs do to it: the numbers for programs, and the table for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..repairs import Effect, Repair, effect, ntk_factor
from ..spectrum import Extension, Spectrum, whole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True)
class Sheet:
    """What `longreach spectrum` was asked, worked out. Lengths in tokens."""

    spectrum: Spectrum
    base: float
    trained_length: int
    extension: Extension | None
    effects: Sequence[Effect]

    @classmethod
    def of(
        cls,
        head_dim: int,
        base: float,
        trained_length: int,
        target_length: int | None = None,
        repairs: Iterable[str] = (),
    ) -> Sheet:
        """Plain RoPE under repairs as written on a command line.

        Raises InputError for numbers out of range, repairs that are none, or repairs without a
        target length.
        """
        spectrum = Spectrum.rope(head_dim, base)
        whole("trained_length", trained_length)
        extension = None if target_length is None else Extension(trained_length, target_length)
        asked = [Repair.parse(text) for text in repairs]
        if asked and extension is None:
            raise InputError(
                f"repair '{asked[0].name}' needs a target length: give --target-length, in tokens"
            )
        effects = [effect(repair, spectrum, extension) for repair in asked if extension]
        return cls(spectrum, base, trained_length, extension, effects)

    @property
    def slow(self) -> list[int]:
        """The pairs that never completed a turn in training, by index."""
        return np.flatnonzero(self.spectrum.never_completed(self.trained_length)).tolist()

    @property
    def names(self) -> list[str]:
        """The repairs' names; from the second on, those that stand again are numbered."""
        return numbered([each.repair.name for each in self.effects])

    def as_json(self) -> dict[str, Any]:
        """For programs; null where no target length was given."""
        return {
            "pairs": self.spectrum.pairs,
            "base": self.base,
            "trained_length": self.trained_length,
            "target_length": self.extension.target_length if self.extension else None,
            "factor": self.extension.factor if self.extension else None,
            "slowest_wavelength": float(self.spectrum.wavelengths[-1]),
            "never_completed": len(self.slow),
            "first_never_completed": self.slow[0] if self.slow else None,
            "inverse_frequencies": self.spectrum.inverse_frequencies.tolist(),
            "repairs": [each.as_json() for each in self.effects],
        }


def show(sheet: Sheet, console: Console | None = None) -> None:
    """Prints the table, pair by pair, and the summary."""
    from rich.console import Console

    console = console or Console(highlight=False)
    # A pipe has no width: what is printed there must not be cut.
    piped = not console.is_terminal
    for number, table in enumerate(pair_tables(sheet, None if piped else console.width)):
        if number:
            console.print()
        lay(console, table)
    console.print()
    for line in opening(sheet):
        console.print(line, markup=False, soft_wrap=piped)
    if sheet.effects:
        console.print()
        lay(console, effect_table(sheet))
        for line in closing(sheet):
            console.print()
            console.print(line, markup=False, soft_wrap=piped)


def lay(console: Console, table: Table) -> None:
    """Prints a table in its full width: a number that is cut would be another number."""
    width = console.width
    console.width = max(width, breadth(table))
    console.print(table)
    console.width = width


def breadth(table: Table) -> int:
    """Columns that a table takes if nothing of it is cut."""
    from rich.console import Console

    return Console(width=10_000).measure(table).maximum


def pair_tables(sheet: Sheet, width: int | None) -> list[Table]:
    """One row per pair; as few tables, with some repairs each, as fit into a width."""
    found: list[Table] = []
    start, count = 0, len(sheet.effects)
    while not found or start < count:
        end = count
        while width and end > start + 1 and breadth(pair_table(sheet, start, end)) > width:
            end -= 1
        found.append(pair_table(sheet, start, end))
        start = end
    return found


def pair_table(sheet: Sheet, start: int, end: int) -> Table:
    """One row per pair, with the repairs from `start` up to `end`."""
    table = lean_table()
    for title in ("pair", "wavelength\n(tokens)", "turns in\ntraining"):
        table.add_column(title, justify="right")
    plain_unseen = None
    if sheet.extension:
        plain_unseen = sheet.spectrum.unseen(sheet.extension)
        table.add_column(f"at {sheet.extension.target_length:,}\ntokens")
    for name in sheet.names[start:end]:
        table.add_column(heading(name) + "\nkeeps", justify="right")
    wavelengths = sheet.spectrum.wavelengths
    turns = sheet.spectrum.turns(sheet.trained_length)
    columns = [
        (each.spectrum.speed_kept, each.spectrum.unseen(sheet.extension))
        for each in sheet.effects[start:end]
        if sheet.extension
    ]
    for pair in range(sheet.spectrum.pairs):
        row = [str(pair), f"{wavelengths[pair]:,.2f}", significant(turns[pair])]
        style = None
        if plain_unseen is not None:
            row.append("[yellow]unseen[/]" if plain_unseen[pair] else "")
            style = "bold" if plain_unseen[pair] else None
        row += [
            percent(kept[pair]) + ("[yellow]*[/]" if still[pair] else " " if still.any() else "")
            for kept, still in columns
        ]
        table.add_row(*row, style=style)
    return table


def effect_table(sheet: Sheet) -> Table:
    """One row per repair."""
    assert sheet.extension is not None  # as `of` sees to
    table = lean_table()
    table.add_column("repair")
    table.add_column("amplitude", justify="right")
    table.add_column("pairs untouched,\nramped, slowed whole;\nor new base")
    table.add_column(f"unseen at\n{sheet.extension.target_length:,}", justify="right")
    table.add_column("local\nresolution", justify="right")
    table.add_column("effective\nlength", justify="right")
    for name, each in zip(sheet.names, sheet.effects, strict=True):
        changed = f"{each.untouched}, {each.ramped}, {each.interpolated}"
        table.add_row(
            name,
            f"{each.spectrum.amplitude:.5g}",
            changed if each.base is None else f"base {amount(each.base)}",
            str(each.unseen),
            percent(each.local_resolution),
            "any" if each.effective_length is None else f"{each.effective_length:,}",
            style="bold" if each.unseen else None,
        )
    return table


def opening(sheet: Sheet) -> list[str]:
    """What holds before any repair."""
    pairs, slow = sheet.spectrum.pairs, sheet.slow
    trained = f"{sheet.trained_length:,} {'token' if sheet.trained_length == 1 else 'tokens'}"
    slowest = f"The slowest pair takes {sheet.spectrum.wavelengths[-1]:,.2f} tokens for a turn."
    if not slow:
        lines = [f"All {pairs} pairs complete a turn within {trained}: no angle is new later."]
        return [*lines, slowest]
    which = f"pair {slow[0]}" if len(slow) == 1 else f"pairs {slow[0]} to {slow[-1]}"
    lines = [f"{len(slow)} of {pairs} pairs never complete a turn in {trained} ({which}).", slowest]
    if sheet.extension and sheet.extension.factor > 1:
        lines.append(
            f"At {sheet.extension.target_length:,} tokens ({sheet.extension.factor:.4g} times as "
            "many) they meet angles unseen in training, unless repaired."
        )
    return lines


def closing(sheet: Sheet) -> list[str]:
    """Notes on the repairs: options, marks, and what NTK would take."""
    lines = [
        f"{name} is {each.repair}"
        for name, each in zip(sheet.names, sheet.effects, strict=True)
        if each.repair.options
    ]
    lines = ["\n".join(lines)] if lines else []
    if any(each.unseen for each in sheet.effects):
        lines.append("* still past the largest angle that the pair met in training")
    lines += ntk_note(sheet)
    return lines


def ntk_note(sheet: Sheet) -> list[str]:
    """What factor NTK would take, where it was asked for and falls short."""
    if sheet.extension is None:
        return []
    short = [each for each in sheet.effects if each.repair.name == "ntk" and each.unseen]
    if not short:
        return []
    target = f"{sheet.extension.target_length:,}"
    try:
        # Rounded up, so that what is printed does reach.
        factor = ceil(ntk_factor(sheet.spectrum, sheet.extension) * 1000) / 1000
    except InputError as error:
        return [f"ntk falls short: {error}"]
    return [
        f"ntk falls short of {target} tokens; the smallest factor that reaches them is "
        f"{factor:.12g} (ntk:factor={factor:.12g})."
    ]


def lean_table() -> Table:
    """No lines; room between columns alone."""
    from rich.table import Table

    return Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)


def amount(value: float) -> str:
    """A number with two decimals, or as a power of ten where nobody would count digits.

    >>> amount(41829.3659), amount(3.0469e19)
    ('41,829.37', '3.0469e+19')
    """
    return f"{value:,.2f}" if value < 1e12 else f"{value:.6g}"


def numbered(names: Sequence[str]) -> list[str]:
    """Each name once.

    >>> numbered(["yarn", "ntk", "yarn"])
    ['yarn', 'ntk', 'yarn (2)']
    """
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return [
        f"{name} ({count + 1})" if count else name
        for name, count in zip(names, before, strict=True)
    ]


def heading(name: str) -> str:
    r"""A repair's name over a narrow column.

    >>> heading("ntk_by_parts")
    'ntk by\nparts'
    """
    return "\n".join(textwrap.wrap(name.replace("_", " "), 8))


def percent(share: float) -> str:
    """A share of 1.

    >>> percent(1.0), percent(0.0312), percent(0.00002)
    ('100.0%', '3.1%', '0.002%')
    """
    return f"{share:.1%}" if share >= 0.001 else f"{share * 100:.2g}%"


def significant(value: float) -> str:
    """Three digits that count, and never a power of ten for large ones.

    >>> significant(325.9493), significant(20860.9), significant(0.04346), significant(1.002)
    ('326', '20,861', '0.0435', '1.00')
    """
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"
