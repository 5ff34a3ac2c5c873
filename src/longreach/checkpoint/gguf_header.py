"""What stands at the head of a GGUF file: its metadata, and where its tensors lie. Bounded.

The `gguf` package is the oracle of the tests, not the reader. For a vocabulary of 150,000 tokens
and as many merges it takes 16 s and 600 MB, as it makes an array of every string, and a length of
2**62 in a header keeps it busy for ever. Here what nobody asks for is passed over: 0.1 s, 30 MB.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import InputError
from ..spectrum import brief

MAGIC = b"GGUF"

STRING, ARRAY = 8, 9

SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""Value types by number, as `struct` writes them; little-endian."""

LONGEST_NAME = 1_024
"""Bytes of a key or of a tensor's name."""

LONGEST_STRING = 1_024
"""Bytes of a value that is kept; chat templates and licences are longer and passed over."""

LONGEST_ARRAY = 4_096
"""Elements of an array that is kept: one per layer. Vocabularies are longer and passed over."""

WORK = 6_000_000
"""How much is read before a file counts as broken; the largest vocabulary takes a million."""

MOST_DIMENSIONS = 8

FLOAT32, FLOAT16 = 0, 1
"""The tensor types that can be read here."""

MOST_ELEMENTS = 65_536
"""Elements of a tensor that can be read here."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies: its shape (fastest dimension first), type, and offset in the file."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class Header:
    """What a GGUF file says before its weights.

    metadata: scalars, short strings, and arrays of numbers with one entry per layer.
    """

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Tensor]

    def read(self, name: str) -> list[float] | None:
        """The numbers of a small tensor, or None if the file has none of that name.

        Raises InputError if it is not small, not of floats, or cut off.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            return None
        count = 1
        for size in tensor.shape:
            count *= size
        if tensor.kind not in (FLOAT32, FLOAT16) or not 0 < count <= MOST_ELEMENTS:
            raise _wrong(
                self.path,
                f"its tensor {name} should hold up to {MOST_ELEMENTS:,} floats, got {brief(count)} "
                f"elements of type {tensor.kind}",
            )
        dtype = np.dtype("<f4" if tensor.kind == FLOAT32 else "<f2")
        wanted, data = count * dtype.itemsize, b""
        with _opened(self.path) as file:
            # Not sought first: a broken offset may be past what can be sought.
            if tensor.offset + wanted <= os.fstat(file.fileno()).st_size:
                file.seek(tensor.offset)
                data = file.read(wanted)
        if len(data) < wanted:
            raise _cut(self.path, f"in its tensor {name}")
        return [_shortest(value) for value in np.frombuffer(data, dtype)]


def read_header(path: Path) -> Header:
    """Reads the head of a GGUF file of version 2 or 3.

    Raises InputError if that is not what it is, or if it is cut off or broken.
    """
    with _opened(path) as file:
        return _Reader(path, file).header()


class _Reader:
    """One file being read from its start."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file = path, file
        self.size = os.fstat(file.fileno()).st_size
        self.done = 0

    def header(self) -> Header:
        magic = self.file.read(4)
        if magic != MAGIC:
            raise self.no_gguf(magic)
        (version,) = self.unpack("I")
        if version not in (2, 3):
            raise _wrong(self.path, _version(version))
        tensors, keys = self.unpack("QQ")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            self.work(1_000)
            key = self.name("a key")
            if key in metadata:
                raise _wrong(self.path, f"its key {brief(key)} stands there twice")
            value = self.value(*self.unpack("I"))
            metadata[key] = None if key.startswith("tokenizer.") else value
        placed = self.tensors(tensors)
        if self.file.tell() > self.size:
            raise _cut(self.path, "in its metadata")
        start = self.aligned(metadata.get("general.alignment", 32))
        found = {
            name: Tensor(each.shape, each.kind, start + each.offset)
            for name, each in placed.items()
        }
        kept = {key: value for key, value in metadata.items() if value is not None}
        return Header(self.path, kept, found)

    def tensors(self, count: int) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for _ in range(count):
            self.work(50)
            name = self.name("a tensor's name")
            (dimensions,) = self.unpack("I")
            if dimensions > MOST_DIMENSIONS:
                raise _wrong(self.path, f"its tensor {brief(name)} has {dimensions:,} dimensions")
            shape = self.unpack("Q" * dimensions)
            kind, offset = self.unpack("IQ")
            if "blk." not in name:
                # Those of layers are many, and nothing here needs them.
                self.work(500)
                found[name] = Tensor(shape, kind, offset)
        return found

    def aligned(self, alignment: object) -> int:
        """Where the weights start."""
        if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment < 1:
            raise _wrong(self.path, f"its general.alignment is {brief(alignment)}")
        return -(-self.file.tell() // alignment) * alignment

    def value(self, kind: int) -> Any:
        """The value of a key, or None if it is passed over."""
        if kind == STRING:
            (length,) = self.unpack("Q")
            if length > LONGEST_STRING:
                return self.skip(length)
            return self.take(length).decode(errors="replace")
        if kind in SCALARS:
            return _number(self.unpack(SCALARS[kind])[0], kind)
        if kind != ARRAY:
            raise _wrong(self.path, f"it has a value of the unknown type {kind}")
        inner, count = self.unpack("IQ")
        if inner == STRING:
            return self.skip_strings(count)
        if inner not in SCALARS:
            what = "an array in an array" if inner == ARRAY else f"an array of type {inner}"
            raise _wrong(self.path, f"it has {what}, which no model has")
        width = struct.calcsize("<" + SCALARS[inner])
        if count > LONGEST_ARRAY:
            return self.skip(count * width)
        self.work(10 * count)
        return [_number(each, inner) for each in self.unpack(SCALARS[inner] * count)]

    def skip_strings(self, count: int) -> None:
        """Passes over strings. Most of the time goes here, so the loop is bare."""
        if count * 8 > self.size:
            raise _cut(self.path, f"in an array of {brief(count)} strings")
        self.work(count)
        read, seek, size, length = self.file.read, self.file.seek, self.size, struct.Struct("<Q")
        try:
            for _ in range(count):
                (bytes_,) = length.unpack(read(8))
                if bytes_ > size:
                    raise _cut(self.path, f"in a string of {brief(bytes_)} bytes")
                seek(bytes_, os.SEEK_CUR)
        except struct.error:
            raise _cut(self.path, f"in an array of {count:,} strings") from None

    def name(self, what: str) -> str:
        (length,) = self.unpack("Q")
        if length > LONGEST_NAME:
            raise _wrong(self.path, f"{what} has {brief(length)} bytes")
        return self.take(length).decode(errors="replace")

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def take(self, length: int) -> bytes:
        data = self.file.read(length)
        if len(data) < length:
            raise _cut(self.path, "in its metadata")
        return data

    def skip(self, length: int) -> None:
        if length > self.size - self.file.tell():
            raise _cut(self.path, f"in a value of {brief(length)} bytes")
        self.file.seek(length, os.SEEK_CUR)

    def work(self, amount: int) -> None:
        """Counts what was read, so that no header keeps us longer than seconds."""
        self.done += amount
        if self.done > WORK:
            raise _wrong(self.path, "its header has more entries than any model's")

    def no_gguf(self, magic: bytes) -> InputError:
        """What the file is instead, as far as its first bytes tell."""
        if not magic:
            return InputError(f"{self.path} is empty; give a GGUF file")
        if magic == b"vers":
            return InputError(
                f"{self.path} is a pointer of Git LFS, not the file itself; fetch that with "
                "`git lfs pull`"
            )
        if magic in (b"lmgg", b"fmgg", b"tjgg", b"algg"):
            return InputError(
                f"{self.path} is of the formats before GGUF; convert the model anew, or give its "
                "config.json"
            )
        return InputError(
            f"{self.path} is no GGUF file: it begins with {magic!r}, not {MAGIC!r}; give one that "
            "is, or the model's config.json"
        )


def _version(version: int) -> str:
    """Why a version cannot be read."""
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, 2, 3):
        return "it is big-endian; convert it with gguf-convert-endian, of the gguf package"
    if version == 1:
        return "it is of version 1, of August 2023; convert the model anew"
    return f"it is of version {version:,}; versions 2 and 3 can be read here"


def _number(value: Any, kind: int) -> Any:
    return _shortest(np.float32(value)) if SCALARS[kind] == "f" else value


def _shortest(value: np.floating[Any]) -> float:
    """The decimal number that was rounded to this one: 0.1, not 0.10000000149011612."""
    return float(str(value))


def _opened(path: Path) -> BinaryIO:
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no file" if path.exists() else "not there"
            raise InputError(f"cannot read {path}: it is {what}; give a GGUF file")
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason}") from None


def _cut(path: Path, where: str) -> InputError:
    return InputError(
        f"{path} is cut off or broken: it ends {where}; compare its size with the original's, or "
        "give the model's config.json"
    )


def _wrong(path: Path, what: str) -> InputError:
    return InputError(
        f"{path} cannot be read as GGUF: {what}. Give another file, or the model's config.json"
    )
