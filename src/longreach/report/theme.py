"""How charts look on light and on dark paper; nothing here depends on what is shown."""

from __future__ import annotations

from typing import Any

FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"

# Okabe and Ito's colours, which readers with any colour vision tell apart, strongest first. Dashes
# and shapes say the same again for print in grey. A purple stands in for their yellow, which cannot
# be seen on white.
LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#222222", "#E69F00", "#56B4E9", "#5B2C83"]
DARK = ["#4A9FE0", "#F07F32", "#1FC498", "#DD93BC", "#EEEEEE", "#F0B429", "#9AD6FA", "#8F6FE0"]
# Vega's own, then shapes drawn here: a study of repairs, worn and trained, has a dozen curves.
SHAPES = [
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right",
    "triangle-left",
    "M0,-1L0.26,-0.36L0.95,-0.31L0.42,0.14L0.59,0.81L0,0.44L-0.59,0.81L-0.42,0.14L-0.95,-0.31"
    "L-0.26,-0.36Z",  # star
    "M-0.9,-0.9L0.9,-0.9L-0.9,0.9L0.9,0.9Z",  # hourglass
    "M-0.9,-0.9L-0.9,0.9L0.9,-0.9L0.9,0.9Z",  # bow tie
    "M-1,0.45A1,1,0,0,1,1,0.45Z",  # the upper half of a disc
    "M-1,-0.45A1,1,0,0,0,1,-0.45Z",  # the lower half
]  # fmt: skip
# From the paper's colour on, ever darker (lighter on dark paper): in grey they keep their order.
LIGHT_SHADES = ["#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08214d"]
DARK_SHADES = ["#1b1e22", "#1d4569", "#2f7fb8", "#7dbbe6", "#f2f8fd"]
DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 3], [2, 4], [6, 2, 2, 2, 2, 2]]


def looks(count: int) -> tuple[list[str], list[list[int]]]:
    """The shape and the dash of so many curves.

    The shape alone differs for the first 13, with the dash for the first 104.
    """
    return (
        [SHAPES[index % len(SHAPES)] for index in range(count)],
        [DASHES[index % len(DASHES)] for index in range(count)],
    )


def theme(
    *, paper: str, ink: str, muted: str, grid: str, colours: list[str], shades: list[str]
) -> dict[str, Any]:
    """A Vega-Lite config. Specs hold none, so that one definition serves every paper."""
    return {
        "background": paper,
        "font": FONT,
        "view": {"stroke": None},
        "range": {"category": colours, "heatmap": shades},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "titleFontSize": 12.5,
            "titlePadding": 10,
            "gridColor": grid,
            "domainColor": muted,
            "tickColor": muted,
        },
        "axisX": {"grid": False},
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
        "title": {"color": ink, "subtitleColor": muted},
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 12,
            "symbolSize": 90,
            "labelLimit": 320,
        },
        "style": {
            "name": {"color": ink, "fontSize": 12.5},
            # Drawn under a name that stands among lines, in the colour of the paper.
            "halo": {
                "color": paper,
                "stroke": paper,
                "strokeWidth": 4,
                "strokeJoin": "round",
                "fontSize": 12.5,
            },
            "note": {"color": muted, "fontSize": 12},
            "reference": {"color": muted},
        },
    }


THEMES = {
    "light": theme(
        paper="#ffffff",
        ink="#222222",
        muted="#6a6a6a",
        grid="#e9e9e6",
        colours=LIGHT,
        shades=LIGHT_SHADES,
    ),
    "dark": theme(
        paper="#1b1e22",
        ink="#e6e6e3",
        muted="#a2a2a0",
        grid="#33373c",
        colours=DARK,
        shades=DARK_SHADES,
    ),
}
