"""What a model says about its positions, read from its config alone. No torch, no weights."""

from __future__ import annotations

from .config import from_config as from_config
from .layout import Checkpoint as Checkpoint, LayerGroup as LayerGroup, Problem as Problem


def read(model: str, *, trained_length: int | None = None) -> Checkpoint:
    """The checkpoint that a user names: config.json, model folder, GGUF file or Hugging Face id.

    trained_length: tokens, where the config is wrong or silent about it.

    Raises InputError if nothing can be read there, naming what was looked for.
    """
    from .gguf import read_gguf
    from .sources import Gguf, load

    found = load(model)
    if isinstance(found, Gguf):
        return read_gguf(found.path, trained_length=trained_length)
    return from_config(found.config, found.source, trained_length=trained_length)


def read_text(
    text: str, source: str, *, trained_length: int | None = None, deepest: int | None = None
) -> Checkpoint:
    """The checkpoint of a config that is at hand as text, such as one pasted into a form.

    source: what to call it. deepest: objects and lists within one another, at most.
    No file is opened and nothing fetched, whatever the text says.

    Raises InputError for what is no config, or is too large or too deep to be one.
    """
    from .sources import parsed

    return from_config(
        parsed(text.encode(errors="replace"), source, deepest=deepest),
        source,
        trained_length=trained_length,
    )
