"""View: one drawing with what it is, how to read it and what it shows; and its HTML, escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from ..report.theme import THEMES

SCRIPT = Path(__file__).with_name("page.js")
STYLE = Path(__file__).with_name("page.css")


@dataclass(frozen=True, kw_only=True)
class View:
    """One drawing and its words.

    name: of the element that holds it. title: what is drawn. seen: what one sees, written from the
        numbers. reading: how to read the drawing. description: the drawing in words, for who
        cannot see it; `seen` unless given.
    spec: Vega-Lite, without width and config; or markup: HTML of our own, with all values escaped.
    fixed: whether the chart has a width of its own.
    """

    name: str
    title: str
    seen: str
    reading: str = ""
    description: str = ""
    spec: dict[str, Any] | None = field(default=None, repr=False)
    markup: str = field(default="", repr=False)
    fixed: bool = False

    @property
    def words(self) -> str:
        """For who cannot see the drawing."""
        return self.description or self.seen

    @property
    def page_spec(self) -> dict[str, Any] | None:
        """The chart as wide as its place in a page, and labelled; None where there is no chart."""
        if self.spec is None:
            return None
        width = {} if self.fixed else {"width": "container"}
        return self.spec | width | {"description": self.words}


def html(view: View) -> str:
    """A figure: title, drawing, what one sees, how to read it.

    A chart is an empty `div.lr-chart` with its spec in `data-spec`; page.js draws it.
    """
    drawing = view.markup
    spec = view.page_spec
    if spec is not None:
        # Room for axis and legend, so that nothing jumps.
        height = 0 if view.fixed else spec.get("height", 300) + 90
        drawing = (
            f'<div class="lr-chart" role="img" aria-label="{escape(view.words)}" '
            f'style="min-height:{int(height)}px" data-spec="{escape(json.dumps(spec))}"></div>'
        )
    if view.fixed:
        drawing = (
            f'<div class="lr-wide" tabindex="0" role="region" aria-label="{escape(view.title)}">'
            f"{drawing}</div>"
        )
    return (
        f'<figure class="lr-view" id="view-{escape(view.name)}">'
        f"<h2>{escape(view.title)}</h2>{drawing}"
        "<figcaption>"
        + (f'<p class="lr-seen">{escape(view.seen)}</p>' if view.seen else "")
        + (f'<p class="lr-reading">{escape(view.reading)}</p>' if view.reading else "")
        + "</figcaption></figure>"
    )


def page(views: Iterable[View]) -> str:
    """Views one after the other; as many side by side as there is room for."""
    return f'<div class="lr-views">{"".join(map(html, views))}</div>'


def paragraph(text: str, kind: str = "lr-note") -> str:
    """A paragraph of plain text."""
    return f'<p class="{kind}">{escape(text)}</p>'


def table(head: Iterable[str], rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """A table that scrolls within its place where it is too wide; cells are plain text."""
    columns = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    named = f'<p class="lr-note">{escape(caption)}</p>' if caption else ""
    return (
        f'{named}<div class="lr-table" tabindex="0" role="region" '
        f'aria-label="{escape(caption or "table")}"><table><thead><tr>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def problem(text: str) -> str:
    """What is wrong with what was given."""
    return f'<p class="lr-problem" role="alert">{escape(text)}</p>'


def styles() -> str:
    """The style sheet of views, with the colours of the charts' themes."""
    return "".join(
        f"{place} {{ {'; '.join(f'{name}: {value}' for name, value in colours(look).items())} }}\n"
        for place, look in ((":root", "light"), (".dark, [data-theme=dark]", "dark"))
    ) + STYLE.read_text(encoding="utf-8")


def colours(look: str) -> dict[str, str]:
    """Names that page.css uses, and what they are on light or dark paper."""
    theme = THEMES[look]
    first, second, third = theme["range"]["category"][:3]
    return {
        "--lr-paper": theme["background"],
        "--lr-ink": theme["axis"]["labelColor"],
        "--lr-muted": theme["axis"]["domainColor"],
        "--lr-grid": theme["axis"]["gridColor"],
        "--lr-first": first,
        "--lr-second": second,
        "--lr-third": third,
    }


def script() -> str:
    """All that a page of views runs: the drawing library, the themes, and page.js."""
    from ..report.page import bundle

    own = SCRIPT.read_text(encoding="utf-8")
    return f"{bundle()}\nwindow.longreachThemes = {json.dumps(THEMES)};\n{own}"
