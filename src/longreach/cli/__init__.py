"""The command line: one function per verb, no logic of its own. Each module adds its verbs."""

from __future__ import annotations

import sys

from ..errors import InputError, RunError
from . import (
    adapt as adapt,
    attention as attention,
    compare as compare,
    diagnose as diagnose,
    explore as explore,
    lab as lab,
    measure as measure,
    needles as needles,
    prescribe as prescribe,
    prove as prove,
    search as search,
    site as site,
    spectrum as spectrum,
    tasks as tasks,
)
from .app import app, say


def main() -> None:
    """Runs the command line. Exit 0: done; 1: a run failed; 2: wrong input; 130: interrupted."""
    try:
        app()
    except InputError as error:
        say(f"error: {error}")
        sys.exit(2)
    except (RunError, OSError) as error:
        say(f"failed: {error}")
        sys.exit(1)
