"""Where longreach keeps what it can make again: prepared corpora."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def home() -> Path:
    """The folder named by LONGREACH_HOME, or else the user's cache folder of this system."""
    given = os.environ.get("LONGREACH_HOME")
    return Path(given).expanduser() if given else user_cache_path("longreach")
