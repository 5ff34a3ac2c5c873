"""The files of a plot: one definition, and the form that the file's suffix names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from .. import files
from ..errors import InputError
from ..report.figures import labelled
from ..report.page import bundle
from ..report.theme import THEMES

TEMPLATE = Path(__file__).with_name("plot.html")


def check(path: Path) -> None:
    """Raises InputError for a suffix other than .svg, .png, .html, or a folder not there."""
    if path.suffix.lower() not in (".svg", ".png", ".html"):
        raise InputError(f"a plot's file must end in .svg, .png or .html, got '{path}'")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder '{path.absolute().parent}' to write the plot to")


def write(path: Path, svg: Callable[[], str], page: Callable[[], str]) -> None:
    """Writes a plot, whole or not at all. Raises InputError where `check` does."""
    check(path)
    suffix = path.suffix.lower()
    if suffix == ".html":
        files.write(path, page())
    elif suffix == ".svg":
        files.write(path, svg())
    else:
        files.write(path, vl_convert.svg_to_png(svg(), scale=2))


def drawn(spec: dict[str, Any], name: str, description: str) -> str:
    """The SVG of a Vega-Lite spec, on light paper."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    svg = vl_convert.vegalite_to_svg(spec, vl_version=version, config=THEMES["light"])
    return labelled(svg, name, description)


def page(
    *,
    title: str,
    description: str,
    captions: Sequence[str],
    specs: Sequence[dict[str, Any]],
    svg: str,
    lead: str = "",
) -> str:
    """One HTML file that holds all it shows, and asks nothing of any network.

    specs: one chart for each caption. lead: what to know before all of them. svg: all of them, for
        who runs no scripts.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=title,
        description=description,
        lead=lead,
        captions=captions,
        specs=specs,
        svg=svg,
        themes=THEMES,
        bundle=bundle(),
    )
