"""prepare(): documents to tokens on disk, split into train and held-out; Corpus, the result."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, RunError
from ..home import home
from ..results import FORMAT
from . import documents
from .base import Document

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SEPARATOR = "<|document|>"
"""Token 0. Stands after each document of the train side, and nowhere in text: a document that
happens to spell it is encoded as the letters it is."""

BYTES = 257
"""The smallest vocabulary: the separator and one token per byte."""

HELD_OUT_PERCENT = 15
SPLIT_RULE = f"sha256 of text, first 8 bytes, % 100 < {HELD_OUT_PERCENT}"

TRAIN, HELD_OUT, OFFSETS = "train.npy", "held_out.npy", "offsets.npy"
TOKENIZER, MANIFEST = "tokenizer.json", "manifest.json"

PIECE, BATCH = 20_000, 64
"""Characters and pieces encoded at a time: the library holds some 250 bytes per token meanwhile."""

CUT = re.compile(r"(?<=\w)(?=[ \n])")
"""Where byte-level BPE always has a border between two words, so that text encodes the same whole
or cut. (Inside white space it has not: what "\\n\\n" becomes depends on what comes after.)"""

Tokens: TypeAlias = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Corpus:
    """A prepared corpus. Arrays are mapped from disk, so that many workers share one copy.

    digest: names the folder; covers the documents and all that their tokens depend on.
    manifest: as in manifest.json. `documents`, `bytes` (of text) and `tokens` (with separators) are
        counted per side; `held_out` names those documents in the order of `Corpus.held_out`.
    """

    folder: Path
    digest: str
    manifest: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Corpus:
        """Opens a prepared folder. Raises InputError if a file is missing or cut short."""
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            for name, expected in manifest["files"].items():
                found = (folder / name).stat().st_size
                if found != expected:
                    raise ValueError(f"{name} has {found} bytes, expected {expected}")
            return cls(folder, manifest["digest"], manifest)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"the prepared corpus in {folder} is damaged ({error}); "
                "delete that folder, and it is made anew"
            ) from None

    @property
    def train(self) -> Tokens:
        """All train documents in one row, each followed by the separator."""
        return np.load(self.folder / TRAIN, mmap_mode="r")  # type: ignore[no-any-return]

    @property
    def held_out(self) -> list[Tokens]:
        """One row per held-out document, without separators, in the order of their fingerprints.

        That order says nothing about content, so the first few are as good a sample as any.
        """
        tokens = np.load(self.folder / HELD_OUT, mmap_mode="r")
        offsets = np.load(self.folder / OFFSETS)
        return [tokens[start:stop] for start, stop in pairwise(offsets)]

    @property
    def vocabulary(self) -> int:
        """How many tokens there are; fewer than asked for where the text has no more to merge."""
        return int(self.manifest["vocabulary"])

    @property
    def tokenizer(self) -> Tokenizer:
        """Turns any UTF-8 text into tokens and back without loss."""
        return opened((self.folder / TOKENIZER).read_text(encoding="utf-8"))

    @property
    def token_bytes(self) -> NDArray[np.int64]:
        """How many bytes of text each token stands for; 0 for the separator."""
        lengths = np.zeros(self.vocabulary, dtype=np.int64)
        for token, number in self.tokenizer.get_vocab().items():
            # The byte-level alphabet writes each byte as one character.
            lengths[number] = 0 if token == SEPARATOR else len(token)
        return lengths


def prepare(
    spec: str,
    *,
    vocabulary: int | Literal["bytes"] = 1024,
    digest: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Corpus:
    """Reads, splits, tokenises and stores a corpus, or opens it if that was done before.

    spec: as for `documents`. vocabulary: tokens, the separator among them; "bytes" is one token per
    byte. digest: of the corpus expected; if it is already prepared, its source is not looked at.
    say: is told when there is work to do.

    Documents are split, never cut: no text is on both sides, and the tokeniser has not seen the
    held-out side.

    Raises InputError if the text cannot be read or split, or is not that of `digest`; RunError if
    the disk is full.
    """
    if digest and (home() / "corpora" / digest).is_dir():
        return Corpus.read(home() / "corpora" / digest)
    size = BYTES if vocabulary == "bytes" else vocabulary
    if size < BYTES:
        raise InputError(
            f"a vocabulary needs at least {BYTES} tokens, one per byte and one between documents; "
            f"got {vocabulary}. Give more, or 'bytes'"
        )
    given = documents(spec)
    content = fingerprint([[document.name, document.fingerprint.hex()] for document in given])
    found = fingerprint([FORMAT, SPLIT_RULE, size, version("tokenizers"), content])[:16]
    if digest and digest != found:
        raise InputError(
            f"the corpus '{spec}' is not what it was: its digest is {found}, expected {digest}. "
            f"Its text, the vocabulary ({vocabulary}) or the version of `tokenizers` has changed; "
            "bring that back, or begin a new study"
        )
    folder = home() / "corpora" / found
    if folder.is_dir():
        return Corpus.read(folder)
    kept = distinct(given, spec)
    blank = sum(not document.text.strip() for document in given)
    say(f"preparing corpus {spec}: {len(kept)} documents, {text_bytes(kept) / 1e6:.1f} MB")
    facts = {
        "format": FORMAT,
        "digest": found,
        "spec": spec,
        "content_sha256": content,
        "python": platform.python_version() if spec == "stdlib" else None,
        "tokenizers": version("tokenizers"),
        "split": SPLIT_RULE,
        "dropped": {"blank": blank, "duplicates": len(given) - blank - len(kept)},
    }
    store(folder, tokenised(kept, size, facts))
    return Corpus.read(folder)


def fingerprint(value: object) -> str:
    """sha256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def text_bytes(kept: Iterable[Document]) -> int:
    """Their size in UTF-8."""
    return sum(len(document.text.encode()) for document in kept)


def distinct(given: Sequence[Document], spec: str) -> list[Document]:
    """The first document of each text that is not blank. Raises InputError for fewer than two."""
    first: dict[str, Document] = {}
    for document in given:
        if document.text.strip():
            first.setdefault(document.text, document)
    if len(first) < 2:
        raise InputError(
            f"corpus '{spec}' has {len(given)} documents, {len(first)} of them neither blank nor a "
            "copy; expected at least 2, one to train on and one to hold out. Give more documents, "
            "such as the chapters of a book as files of their own"
        )
    return list(first.values())


def split(kept: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Train and held-out documents. Where a text falls depends on that text alone.

    Unless all fall on one side: then the first (or last) by fingerprint goes to the other.
    """
    ranked = sorted(kept, key=lambda document: document.fingerprint)
    held_out = [
        document
        for document in ranked
        if int.from_bytes(document.fingerprint[:8], "big") % 100 < HELD_OUT_PERCENT
    ]
    if not held_out:
        held_out = ranked[:1]
    elif len(held_out) == len(ranked):
        held_out = ranked[:-1]
    chosen = set(held_out)
    return [document for document in kept if document not in chosen], held_out


def trained(texts: Iterable[str], size: int) -> str:
    """A byte-level BPE tokeniser of at most `size` tokens, as JSON. At 257 it merges nothing."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The result does not depend on the number of threads (a test holds it to that), so the user's
    # TOKENIZERS_PARALLELISM is left as it is.
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str())


def opened(text: str) -> Tokenizer:
    """A tokeniser from its JSON."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(text)
    # Text that spells the separator is text. The JSON cannot hold this setting.
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(tokenizer: Tokenizer, kept: Sequence[Document]) -> list[Tokens]:
    """The tokens of each document."""
    dtype = np.uint32 if tokenizer.get_vocab_size() > 65_535 else np.uint16
    cut = [list(pieces(document.text)) for document in kept]
    flat = [piece for parts in cut for piece in parts]
    encoded = (
        np.array(encoding.ids, dtype=dtype)
        for start in range(0, len(flat), BATCH)
        for encoding in tokenizer.encode_batch_fast(flat[start : start + BATCH])
    )
    return [np.concatenate([next(encoded) for _ in parts]) for parts in cut]


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """Cuts a text into pieces of `size` characters or more that encode as the whole would."""
    start = 0
    while found := CUT.search(text, start + size):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def tokenised(kept: Sequence[Document], size: int, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a prepared corpus. `facts` open the manifest."""
    train, held_out = split(kept)
    written = trained((piece for document in train for piece in pieces(document.text)), size)
    tokenizer = opened(written)
    # The padding is one 0 at the end: the separator.
    train_tokens = np.concatenate([np.pad(row, (0, 1)) for row in encode(tokenizer, train)])
    rows = encode(tokenizer, held_out)
    held_out_tokens = np.concatenate(rows)
    files = {
        TRAIN: npy(train_tokens),
        HELD_OUT: npy(held_out_tokens),
        OFFSETS: npy(np.cumsum([0, *map(len, rows)], dtype=np.int64)),
        TOKENIZER: written.encode(),
    }
    manifest = {
        **facts,
        "vocabulary": tokenizer.get_vocab_size(),
        "documents": {"train": len(train), "held_out": len(held_out)},
        "bytes": {"train": text_bytes(train), "held_out": text_bytes(held_out)},
        "tokens": {"train": len(train_tokens), "held_out": len(held_out_tokens)},
        "held_out": [document.name for document in held_out],
        "files": {name: len(data) for name, data in files.items()},
    }
    return {**files, MANIFEST: json.dumps(manifest, indent=1).encode()}


def npy(array: NDArray[Any]) -> bytes:
    """An array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def store(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes a folder that appears whole or not at all. If one is there by then, it stays."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as aside:
            made = Path(aside) / folder.name
            made.mkdir()
            for name, data in files.items():
                write(made / name, data)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    except OSError as error:
        raise RunError(
            f"cannot write the prepared corpus {folder}: {error.strerror}; make room, "
            "or set LONGREACH_HOME to a folder on another disk"
        ) from error


def write(path: Path, data: bytes) -> None:
    """Writes a file down to the disk, past the system's buffers."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
