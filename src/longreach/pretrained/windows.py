"""Windows of text for a model's own tokenizer: the same for every repair and every length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ..corpora import Document, documents
from ..corpora.folder import load as load_folder
from ..corpora.prepare import distinct, split
from ..errors import InputError
from ..tasks.text import Windows
from .base import LanguageModel

LEAST_BYTES = 1.5
"""A text with fewer bytes than this for each token asked for is too short: it is not tokenized."""


@dataclass(frozen=True)
class Passages:
    """Stretches of text, one token longer than the longest evaluation length.

    label: of the text. windows: their tokens, and which document each is of. sizes: bytes that each
    token after the first stands for. names: of the documents.
    """

    label: str
    windows: Windows
    sizes: Int[Tensor, "windows longest"]
    names: tuple[str, ...]


def passages(
    model: LanguageModel,
    text: str,
    longest: int,
    count: int,
    say: Callable[[str], None] = lambda line: None,
    *,
    skip: int = 0,
) -> Passages:
    """Up to `count` windows of longest + 1 tokens, from as many documents as there are.

    text: a corpus (`stdlib`, `text:FOLDER`, `hf:NAME`), or the path of a file or folder; with
    `held-out:` before it, the part that no adaptation is trained on.
    Documents come in the order of their fingerprints, one window of each, which begins where the
    document and the length say; if they are too few, further windows of the same ones, without
    overlap.
    skip: documents that are long enough and passed over, so that what is chosen on some text is
    measured on other.

    Raises InputError if no document has so many tokens, or none is left.
    """
    label, found = sources(text)
    rows: list[list[int]] = []
    names: list[str] = []
    most, tried = 0, 0
    fitting = sorted(found, key=lambda document: document.fingerprint)
    fitting = [d for d in fitting if len(d.text.encode()) >= LEAST_BYTES * (longest + 1)]
    say(f"reading {label} with the tokenizer of {model.name}")
    for document in fitting:
        tokens = model.encode(document.text)
        tried += 1
        most = max(most, len(tokens))
        if len(tokens) > longest:
            rows.append(tokens)
            names.append(document.name)
        if len(rows) == skip + count:
            break
    if rows and len(rows) <= skip:
        raise InputError(
            f"{label} has {len(rows)} documents of {longest + 1:,} tokens, and {skip} are kept for "
            "measuring: none is left. Give more text, or fewer --windows"
        )
    rows, names = rows[skip:], names[skip:]
    if not rows:
        longest_text = max((len(document.text.encode()) for document in found), default=0)
        has = f"{most:,} tokens" if tried else f"{longest_text:,} bytes"
        raise InputError(
            f"no document of {label} has {longest + 1:,} tokens (the longest has {has}); give "
            "longer text, or shorter --lengths"
        )
    chosen, owners = cut(rows, longest + 1, count)
    sizes = [byte_sizes(model, window) for window in chosen]
    return Passages(
        label,
        Windows(torch.tensor(chosen), torch.tensor(owners)),
        torch.tensor(sizes),
        tuple(names[: max(owners) + 1]),
    )


def sources(text: str) -> tuple[str, list[Document]]:
    """What to call a text, and its documents.

    held-out:TEXT are the documents of a text that no adaptation is trained on (see `Batches`).
    """
    kind, _, rest = text.partition(":")
    if kind == "held-out":
        label, found = sources(rest)
        return f"held-out:{label}", split(distinct(found, label))[1]
    if kind in ("stdlib", "text", "hf"):
        return text, documents(text)
    if Path(text).expanduser().exists():
        return Path(text).name, load_folder(text)
    return text, documents(text)  # Says what there is.


def cut(rows: list[list[int]], size: int, count: int) -> tuple[list[list[int]], list[int]]:
    """Windows of tokens and the number of the document of each.

    As many from each document as it takes to come to `count`, if it is long enough.
    """
    each = -(-count // len(rows))
    chosen: list[list[int]] = []
    owners: list[int] = []
    for number, tokens in enumerate(rows):
        parts = min(each, len(tokens) // size, count - len(chosen))
        draw = np.random.default_rng([size, crc32(np.array(tokens).tobytes())])
        room = len(tokens) // max(parts, 1)
        for part in range(parts):
            start = part * room + int(draw.integers(0, room - size + 1))
            chosen.append(tokens[start : start + size])
            owners.append(number)
    return chosen, owners


def byte_sizes(model: LanguageModel, tokens: list[int]) -> list[int]:
    """Bytes of text that each token after the first stands for.

    A token may be a part of a character, so tokens are decoded in short runs, and a run's bytes are
    shared out evenly: sums over many tokens are right, and nothing else is asked of them.
    """
    found: list[int] = []
    for run in runs_of(tokens[1:]):
        size = len(model.decode(run).encode())
        share, left = divmod(size, len(run))
        found += [share + (place < left) for place in range(len(run))]
    return found


def runs_of(tokens: list[int], size: int = 64) -> Iterator[list[int]]:
    """Tokens in runs."""
    for start in range(0, len(tokens), size):
        yield tokens[start : start + size]
