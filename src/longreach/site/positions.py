"""The positions page: every view worked out beforehand on a grid; the page only chooses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from longreach.explorer.positions import Setting, alibi, t5, views
from longreach.explorer.view import View, html, page

BIASES = ("alibi", "t5")
"""Views that depend on the lengths alone, which many settings share."""


@dataclass(frozen=True)
class Grid:
    """The stops of each choice. steps: target over trained length."""

    head_dims: Sequence[int] = (64, 128)
    bases: Sequence[float] = (10_000.0, 500_000.0, 1_000_000.0)
    trained_lengths: Sequence[int] = (2048, 8192, 32_768)
    steps: Sequence[int] = (2, 4, 16)
    start: tuple[int, float, int, int] = field(default=(64, 10_000.0, 2048, 4))

    def settings(self) -> Iterable[tuple[str, Setting]]:
        """Each with the key that the page makes of its four choices."""
        for head_dim, base, trained, step in product(
            self.head_dims, self.bases, self.trained_lengths, self.steps
        ):
            yield key(head_dim, base, trained, step), setting(head_dim, base, trained, step)

    @property
    def choices(self) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
        """For the page: name, label, and of each stop its value, its words, and if it is first."""
        head_dim, base, trained, step = self.start
        return [
            (
                "head_dim",
                "Head dimension",
                [(str(n), f"{n}", n == head_dim) for n in self.head_dims],
            ),
            ("base", "Base", [(f"{b:.10g}", f"{b:,.0f}", b == base) for b in self.bases]),
            (
                "trained",
                "Trained length",
                [(str(n), f"{n:,} tokens", n == trained) for n in self.trained_lengths],
            ),
            (
                "step",
                "Target length",
                [(str(n), f"{n} times the trained length", n == step) for n in self.steps],
            ),
        ]


def key(head_dim: int, base: float, trained: int, step: int) -> str:
    """Of a setting, as file name and address have it.

    >>> key(64, 10_000.0, 2048, 4)
    '64-10000-2048-4'
    """
    return f"{head_dim}-{base:.10g}-{trained}-{step}"


def setting(head_dim: int, base: float, trained: int, step: int) -> Setting:
    """The numbers of a stop, under the repairs that the explorer begins with."""
    return Setting(
        head_dim=head_dim, base=base, trained_length=trained, target_length=trained * step
    )


def scripts(grid: Grid) -> dict[str, bytes]:
    """By file name: for each setting what it alone shows, and for each two lengths the biases."""
    found = {}
    shared: dict[str, Setting] = {}
    for name, each in grid.settings():
        own = [view for view in views(each) if view.name not in BIASES]
        found[f"{name}.js"] = script(name, own)
        shared[lengths_key(name)] = each
    for name, each in shared.items():
        found[f"{name}.js"] = script(name, [alibi(each), t5(each)])
    return found


def lengths_key(name: str) -> str:
    """The key of the biases of a setting: its last two choices.

    >>> lengths_key("64-10000-2048-4")
    '2048-4'
    """
    return name.split("-", 2)[2]


def script(name: str, shown: Iterable[View]) -> bytes:
    """A script that hands views to the page: a script, since a page on disk may not fetch files.

    Specs go beside the HTML and not in its attributes, where every quote would take six letters.
    """
    shown = list(shown)
    specs = [view.page_spec for view in shown if view.spec is not None]
    bare = [
        replace(view, spec={"height": view.spec.get("height", 300)}) if view.spec else view
        for view in shown
    ]
    content = json.dumps({"html": "".join(map(html, bare)), "specs": specs}, allow_nan=False)
    return f"longreachViews({json.dumps(name)}, {content});\n".encode()


def first(grid: Grid) -> tuple[str, str]:
    """Key and HTML of what the page shows before anything is chosen, words included."""
    start = setting(*grid.start)
    return key(*grid.start), page(views(start))
