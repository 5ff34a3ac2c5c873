"""What a user names as a model, as what is to be read: a config's JSON, or a GGUF file's path."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InputError
from ..spectrum import brief

FORMS = (
    "give a config.json (or - for one on standard input), a model's folder, a .gguf file, or a "
    "Hugging Face id (org/name[@revision])"
)

LARGEST = 3_000_000
"""Bytes of a config. Few have more than 0.1 MB, and 3 MB of nothing but `{}` take 100 MB here."""

LONGEST_NUMBER = 1_000
"""Digits of a whole number."""

CONFIG = "config.json"

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".npz", ".onnx", ".msgpack")

HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w][\w./+-]*))?")

TELLTALES = {
    "adapter_config.json": "it holds an adapter: name the model that it was made for",
    "params.json": "params.json is not of the transformers form; look for the model's config.json",
    "model_index.json": "it holds a pipeline: name the folder of its text model",
    "snapshots": "it is of the Hugging Face cache: name the folder inside snapshots/, or org/name",
}
"""What a folder without config.json may hold, and what to do then."""


@dataclass(frozen=True)
class Config:
    """A config, read. source: what to call it. config: its JSON object, as it stands."""

    source: str
    config: dict[str, Any]


@dataclass(frozen=True)
class Gguf:
    """The path of a GGUF file, not read yet."""

    path: Path


def load(model: str) -> Config | Gguf:
    """What `model` names: a path, a Hugging Face id, or `-` for JSON on standard input.

    A path is a JSON file of any name, a GGUF file (also as gguf:PATH), or a folder with config.json
    or a single .gguf. What exists here goes before what the hub may have. From the hub comes
    config.json and nothing else; a cached copy serves where the hub cannot be reached.

    NaN and Infinity pass: some released configs hold them (`time_step_limit` of Mamba 2), 1e999
    means the same, and keys that are read are checked one by one.

    Raises InputError if nothing can be read, naming what was looked for.
    """
    if model == "-":
        return Config("standard input", parsed(_bytes(sys.stdin.buffer), "standard input"))
    if model.startswith("gguf:"):
        named = model.removeprefix("gguf:")
        path = _path(named)
        if not named or not _exists(path):
            raise _missing(named, path)
        return Gguf(path)
    path = _path(model)
    if model and _exists(path):
        return _of_folder(path) if path.is_dir() else _of_file(path)
    match = HUB_ID.fullmatch(model)
    if match and not model.lower().endswith((".json", ".gguf", *WEIGHTS)):
        return _of_hub(model, match[1], match[2])
    raise _missing(model, path)


def parsed(data: bytes, source: str, *, deepest: int | None = None) -> dict[str, Any]:
    """The JSON object that a config is: UTF-8 without a byte-order mark, no key twice.

    deepest: objects and lists within one another, at most.
    """
    if len(data) > LARGEST:
        raise InputError(
            f"{source} has more than {LARGEST:,} bytes, and no config is that large; {FORMS}"
        )
    _no_other_format(data, source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}; a config is "
            "a JSON object in UTF-8. Convert it (iconv -t UTF-8)"
        ) from None
    try:
        found = json.loads(
            text,
            parse_int=lambda digits: _whole(digits, source),
            object_pairs_hook=lambda pairs: _object(pairs, source),
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; a "
            "config is one JSON object"
        ) from None
    except RecursionError:
        raise InputError(f"{source} is nested too deeply to be a config") from None
    if not isinstance(found, dict):
        raise InputError(f"{source} should hold one JSON object, got {brief(found)}")
    if deepest is not None and deeper(found, deepest):
        raise InputError(
            f"{source} is nested more than {deepest} levels deep, and no config is; {FORMS}"
        )
    return found


def deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists lie more than so many levels within one another.

    >>> deeper({"a": [1]}, 2), deeper({"a": [1]}, 1)
    (False, True)
    """
    layer = [value]
    for _ in range(levels):
        inner = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [one for some in inner for one in some if isinstance(one, (dict, list))]
    return bool(layer)


def _no_other_format(data: bytes, source: str) -> None:
    """Says what the bytes are, where their start tells that they are something else than JSON."""
    start = data[:64].lstrip()
    if not start and not data.strip():
        raise InputError(f"{source} is empty; {FORMS}")
    if start.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            f"{source} begins with a byte-order mark, which transformers cannot read either; save "
            "it as UTF-8 without one"
        )
    if start.startswith(b"version https://git-lfs"):
        raise InputError(
            f"{source} is a pointer of Git LFS, not the file itself; fetch that with `git lfs pull`"
        )
    if start.startswith(b"<"):
        raise InputError(
            f"{source} is a web page or XML, not JSON; of a file on a web page, save the raw form"
        )


def _whole(digits: str, source: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise InputError(f"{source} holds a whole number of {len(digits):,} digits; no config does")
    return int(digits)


def _object(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise InputError(
            f"{source} has the key {brief(twice)} twice in one object, and programs differ in "
            "which they take; remove one"
        )
    return made


def _of_file(path: Path) -> Config | Gguf:
    if path.suffix.lower() in WEIGHTS:
        beside = path.with_name(CONFIG)
        hint = f"give {beside}" if _exists(beside) else f"give the model's {CONFIG}"
        raise InputError(f"{path} holds weights, which are not read here; {hint}")
    try:
        if path.suffix.lower() == ".gguf":
            return Gguf(path)
        with path.open("rb") as file:
            # A pipe cannot be looked at twice, and is a config.
            if path.is_file():
                if file.read(4) == b"GGUF":
                    return Gguf(path)
                file.seek(0)
            return Config(str(path), parsed(_bytes(file), str(path)))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _of_folder(folder: Path) -> Config | Gguf:
    config = folder / CONFIG
    if _exists(config):
        if config.is_dir():
            raise InputError(f"{config} is a folder; a config is a file")
        return _of_file(config)
    names = _names(folder)
    found = [
        name
        for name in names
        if name.lower().endswith(".gguf") and not name.lower().startswith("mmproj")
    ]
    first = [name for name in found if "-00001-of-" in name]
    if len(found) == 1 or (len(first) == 1 and all("-of-" in name for name in found)):
        return Gguf(folder / (first or found)[0])
    if found:
        raise InputError(
            f"{folder} has no {CONFIG} and {len(found)} .gguf files; name one: {_listing(found)}"
        )
    hints = [hint for name, hint in TELLTALES.items() if name in names]
    raise InputError(
        f"{folder} has no {CONFIG} and no .gguf file, and these were looked for; "
        + (hints[0] if hints else f"it has {_listing(names)}")
    )


def _of_hub(model: str, name: str, revision: str | None) -> Config:
    """config.json of a model on the hub."""
    try:
        with Path(_fetched(model, name, revision)).open("rb") as file:
            return Config(model, parsed(_bytes(file), f"{CONFIG} of {model}"))
    except OSError as error:
        raise InputError(f"cannot read {CONFIG} of {model}: {error.strerror or error}") from None


def _fetched(model: str, name: str, revision: str | None) -> str:
    """Where config.json of a model on the hub lies here, now that it does."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    try:
        # Asked for first: it says the size, and unlike a download it does not try again for half
        # a minute where there is no network.
        size = get_hf_file_metadata(hf_hub_url(name, CONFIG, revision=revision)).size or 0
        if size <= LARGEST:
            return hf_hub_download(name, CONFIG, revision=revision)
    except Exception as error:
        # Whatever it was (no network, a gated model fetched before), a copy is as good.
        found = _cached(name, revision)
        if found:
            return found
        raise _hub_error(model, name, revision, error) from error
    raise InputError(f"{CONFIG} of {model} has {size:,} bytes, and no config is that large")


def _cached(name: str, revision: str | None) -> str | None:
    from huggingface_hub import hf_hub_download

    try:
        return hf_hub_download(name, CONFIG, revision=revision, local_files_only=True)
    except Exception:
        return None


def _hub_error(model: str, name: str, revision: str | None, error: Exception) -> InputError:
    """One message for what four libraries raise."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        what = f"'{name}' is gated: accept its terms on its page, and log in with `hf auth login`"
    elif isinstance(error, errors.RevisionNotFoundError):
        what = f"'{name}' has no revision '{revision}'"
    elif isinstance(error, errors.RepositoryNotFoundError):
        what = (
            f"there is no model '{name}' on the Hugging Face hub, or it is private (then log in "
            "with `hf auth login`)"
        )
    elif isinstance(error, errors.EntryNotFoundError) and not isinstance(
        error, errors.LocalEntryNotFoundError
    ):
        what = f"'{name}' has no {CONFIG}; where it has .gguf files, download one and give its path"
    elif isinstance(error, errors.OfflineModeIsEnabled):
        what = f"HF_HUB_OFFLINE is set, and there is no copy of {CONFIG} of '{model}' in the cache"
    elif isinstance(error, errors.HFValidationError):
        what = f"'{name}' cannot be the id of a model on the Hugging Face hub"
    else:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"cannot fetch {CONFIG} of '{model}' from the Hugging Face hub ({reason})"
    near = _nearest(_path(model))
    here = f"; nor is there such a path here, the nearest is {near}" if near else ""
    return InputError(f"{what}{here}. A local {CONFIG} serves as well")


def _missing(model: str, path: Path) -> InputError:
    """Nothing is there, and the text is no id."""
    if not model:
        return InputError(f"the model is empty; {FORMS}")
    near = _nearest(path)
    hint = f"did you mean {near}? Else " if near else ""
    if re.fullmatch(r"[\w-]+", model) and not near:
        hint = "an id of the hub has its organisation before a slash; "
    return InputError(f"there is no file or folder {brief(model)}; {hint}{FORMS}")


def _nearest(path: Path) -> Path | None:
    """The existing file or folder whose name is nearest, in the folder where the path would be."""
    close = difflib.get_close_matches(path.name, _names(path.parent), n=1)
    return path.parent / close[0] if close else None


def _names(folder: Path) -> list[str]:
    """What is in a folder, up to a number; nothing if it cannot be read."""
    try:
        return sorted(entry.name for entry in islice(os.scandir(folder), 10_000))
    except (OSError, ValueError):
        return []


def _listing(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "nothing"
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        # ~ of a user there is not.
        return Path(text)


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        raise InputError(f"cannot read {path}: no permission to its folder") from None
    except (OSError, ValueError):
        # Not there, or no possible name (too long, a zero byte).
        return False
    return True


def _bytes(file: BinaryIO) -> bytes:
    """The content of a file, and of a too large one enough to say so."""
    return file.read(LARGEST + 1)
