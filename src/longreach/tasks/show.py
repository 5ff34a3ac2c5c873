"""One example of a task, and what the task says of itself: what `longreach tasks show` prints."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..errors import InputError
from . import TASKS


def example(
    name: str, length: int, seed: int, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The first sequence that a seed draws, and the task's length, total, ceiling and chance.

    options: of the task's constructor, already checked. Raises InputError for an unknown task, or
    a length it does not have.

    >>> found = example("copy", 3, 0, {"symbols": 5})
    >>> found["text"], found["scored_text"], found["total"]
    ('<bos> e e d <sep> e e d <eos>', 'e e d <eos>', 9)
    """
    if seed < 0:
        raise InputError(f"a seed must be at least 0, got {seed}")
    kind: Any = TASKS[name]
    task = kind(**(options or {}))
    batch = task.sample(length, 1, torch.Generator().manual_seed(seed))
    tokens, scored = batch.tokens[0].tolist(), batch.scored[0].tolist()
    return {
        "task": name,
        "options": dict(options or {}),
        "note": " ".join(task.note.split()),
        "source": task.source,
        "length": length,
        "counts": task.counts,
        "seed": seed,
        "tokens": tokens,
        "scored": scored,
        "text": task.render(tokens),
        "scored_text": task.render(t for t, s in zip(tokens, scored, strict=True) if s),
        "total": task.total(length),
        "vocabulary": task.vocabulary,
        "metric": task.metric,
        "ceiling": task.ceiling(length),
        "chance": task.chance(length),
    }


def describe(found: Mapping[str, Any]) -> list[str]:
    """What `example` found, as lines for a reader.

    >>> for line in describe(example("parity", 4, 0)):
    ...     print(line)
    parity: Say whether the number of ones among bits is even. Length counts the bits.
    source: Kazemnejad et al. 2023, arXiv:2305.19466
    length 4 (bits), seed 0: 8 tokens out of 8 different ones
    <BLANKLINE>
    <bos> 0 1 1 0 <sep> yes <eos>
    <BLANKLINE>
    scored: yes <eos>
    ceiling 1, chance 0.5 (exact match)
    """
    options = ", ".join(f"{key}={json.dumps(value)}" for key, value in found["options"].items())
    measure = "exact match" if found["metric"] == "exact_match" else "nats per token"
    used = len(found["tokens"])
    most = found["total"]
    return [
        f"{found['task']}{f' ({options})' if options else ''}: {found['note']}",
        f"source: {found['source']}",
        f"length {found['length']} ({found['counts']}), seed {found['seed']}: {used} tokens"
        + (f" (at most {most})" if used < most else "")
        + f" out of {found['vocabulary']} different ones",
        "",
        found["text"],
        "",
        f"scored: {found['scored_text']}",
        f"ceiling {found['ceiling']:.4g}, chance {found['chance']:.4g} ({measure})",
    ]


def options_from(pairs: Iterable[str]) -> dict[str, Any]:
    """Options as the command line gives them: `key=value` each, the value as in a study file.

    A value that is no TOML is taken for a word, so that quotes are not needed.

    >>> options_from(["form=doubled", "symbols=8", "ambiguous=true"])
    {'form': 'doubled', 'symbols': 8, 'ambiguous': True}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError(f"an option is given as key=value, got '{pair}'")
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
    return found
