"""Files of plots: what every verb that draws has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from .. import files
from ..errors import InputError
from ..report.page import bundle
from ..report.theme import THEMES

SUFFIXES = (".svg", ".png", ".html")
TEMPLATE = Path(__file__).with_name("chart.html")


def check(path: Path) -> None:
    """Raises InputError for a suffix other than .svg, .png, .html, or a folder that is missing."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a plot's file must end in .svg, .png or .html, got '{path}'")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder '{path.absolute().parent}' to write the plot to")


def write(path: Path, svg: Callable[[], str], page: Callable[[], str]) -> None:
    """Writes the plot, whole or not at all, in the form that the suffix names.

    Raises InputError as `check` does.
    """
    check(path)
    suffix = path.suffix.lower()
    if suffix == ".html":
        files.write(path, page())
    elif suffix == ".svg":
        files.write(path, svg())
    else:
        files.write(path, vl_convert.svg_to_png(svg(), scale=2))


def paged(title: str, specs: Sequence[dict[str, Any]], captions: Sequence[str], svg: str) -> str:
    """One HTML file that holds all it shows, and asks nothing of any network.

    specs: one for each caption, as wide as the page. svg: all of them, for who runs no scripts.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=title,
        captions=captions,
        specs=[spec | {"width": "container"} for spec in specs],
        svg=svg,
        themes=THEMES,
        bundle=bundle(),
    )
