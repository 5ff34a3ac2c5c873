"""Shown: objects that show themselves in a notebook; what draws them is imported only then."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOME = "longreach.show.notebook"
"""Holds HTML and TEXT, by name of class. A name, so that the lowest layers import nothing above
them, and `import longreach.spectrum` costs no chart library."""


class Shown:
    """Shows itself in Jupyter and its kin; in plain Python its repr stays what it was.

    Two methods and not one `_repr_mimebundle_`: IPython in a terminal asks for the text alone, and
    then draws no figure.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # IPython goes class by class, and would stop at the repr that a dataclass makes.
        cls._repr_pretty_ = cls._repr_pretty_  # type: ignore[method-assign]

    def _repr_html_(self) -> str:
        """A notebook's view: words, a figure as inline SVG, tables. Values are escaped."""
        return str(import_module(HOME).HTML[type(self).__name__](self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython's text view."""
        printer.text("..." if cycle else import_module(HOME).TEXT[type(self).__name__](self))
