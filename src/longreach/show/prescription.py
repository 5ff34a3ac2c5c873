"""What an engine is to be told, and what it makes of what it was told: for people to read."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checkpoint import Checkpoint, read
from ..engines import ENGINES, Prescription, Reading, bare_block, prescribe, verify
from ..errors import InputError
from ..repairs import Repair
from ..spectrum import Extension

WIDTH = 96


def prescribed(
    model: str,
    repair: str,
    target_length: int,
    engine: str,
    trained_length: int | None = None,
) -> Prescription:
    """The prescription for a model, a repair and an engine as written on a command line.

    Raises InputError for a model that cannot be read, or one whose trained length nothing says.
    """
    checkpoint = read(model, trained_length=trained_length)
    asked = Repair.parse(repair)
    return prescribe(checkpoint, asked, extension_of(checkpoint, target_length), engine)


def extension_of(checkpoint: Checkpoint, target_length: int) -> Extension:
    """From the length that a model was trained at to the target. InputError if nothing says it."""
    groups = checkpoint.unbounded or checkpoint.groups
    trained = groups[0].trained_length if groups else None
    if trained is None:
        if not checkpoint.unbounded:
            return Extension(target_length, target_length)  # There is nothing to extend.
        raise InputError(
            f"nothing in {checkpoint.source} says how long the model was trained for; give "
            "--trained-length"
        )
    return Extension(trained, target_length)


def verified(
    config: str, model: str | None, engine: str | None, length: int | None
) -> list[Reading]:
    """What one engine, or every engine, makes of a config, or of a model with a bare block.

    Raises InputError for a bare block without a model: it has neither a base nor a window.
    """
    block = _block_file(config)
    if block is not None and model is None:
        raise InputError(
            f"{config} holds a block alone, which says neither the base it counts from nor the "
            f"window: name the model too, longreach prescribe MODEL --verify {config}"
        )
    checkpoint = read(config if block is None or model is None else model)
    if block is not None and checkpoint.dialect == "gguf":
        raise InputError(f"a block goes into config.json, and {model} is a GGUF file")
    engines = list(ENGINES) if engine is None else [engine]
    return [verify(checkpoint, each, length=length, override=block) for each in engines]


def _block_file(path: str) -> dict[str, Any] | None:
    """The overrides in a file that holds a block and no config; None for anything else."""
    file = Path(path)
    try:
        found = json.loads(file.read_bytes()) if file.suffix == ".json" else None
    except (OSError, ValueError, RecursionError):
        return None  # What is wrong with it is told by whoever reads the config.
    return bare_block(found) if isinstance(found, dict) else None


def text(prescription: Prescription) -> str:
    """A prescription for people: what to paste, then what to know. Never wrapped where pasted."""
    return "\n".join(_lines(prescription))


def _lines(prescription: Prescription) -> Iterator[str]:
    """A prescription, line by line."""
    head = f"{prescription.engine} {prescription.version}"
    if prescription.refused is not None:
        yield from wrapped(f"{head} cannot: {prescription.refused}", "")
        yield from notes(prescription.notes)
        return
    for title, pasted in ways(prescription):
        yield f"{head}: {title}"
        yield ""
        yield from _indented(pasted)
        yield ""
    yield from notes(prescription.notes)
    for versions, spelling in prescription.spellings.items():
        yield ""
        yield f"{prescription.engine} {versions}, the same:"
        yield ""
        if isinstance(spelling, str):
            yield from _indented(spelling)
        else:
            yield from _indented(block_text(spelling, prescription.where))


def ways(prescription: Prescription) -> Iterator[tuple[str, str]]:
    """Each way there is to tell the engine: where it goes, and what to paste there."""
    if prescription.block is not None:
        yield prescription.where, block_text(prescription.block, prescription.where)
    if prescription.flags is not None:
        yield "flags", prescription.flags
    if prescription.command is not None:
        yield "command", prescription.command


def notes(found: Sequence[str]) -> Iterator[str]:
    """Notes, one bullet each, wrapped."""
    for note in found:
        yield from wrapped(note, "- ")


def wrapped(text: str, bullet: str) -> list[str]:
    """The text in lines that end before the edge; long words, such as paths, stay whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"    {line}"


def block_text(block: Mapping[str, Any], where: str) -> str:
    """A block as it is pasted there: YAML or JSON."""
    return as_yaml(block) if "YAML" in where else as_json(block)


def as_json(value: Any, indent: int = 0) -> str:
    """JSON to paste, with lists of numbers in lines and not in columns.

    >>> print(as_json({"rope_type": "yarn", "factor": 4.0}))
    {
      "rope_type": "yarn",
      "factor": 4.0
    }
    """
    inner = " " * (indent + 2)
    if isinstance(value, Mapping):
        entries = [f"{inner}{json.dumps(k)}: {as_json(v, indent + 2)}" for k, v in value.items()]
        return "{\n" + ",\n".join(entries) + "\n" + " " * indent + "}"
    if isinstance(value, list):
        text = ", ".join(json.dumps(each) for each in value)
        rows = textwrap.wrap(text, WIDTH - indent, break_long_words=False)
        if len(rows) < 2:
            return f"[{text}]"
        return "[\n" + "\n".join(f"{inner}{row}" for row in rows) + "\n" + " " * indent + "]"
    return json.dumps(value)


def as_yaml(block: Mapping[str, Any], indent: int = 0) -> str:
    """YAML to paste.

    >>> print(as_yaml({"sequence_len": 8, "overrides_of_model_config": {"rope_theta": 1e4}}))
    sequence_len: 8
    overrides_of_model_config:
      rope_theta: 10000.0
    """
    rows = []
    for key, value in block.items():
        if isinstance(value, Mapping):
            rows += [f"{' ' * indent}{key}:", as_yaml(value, indent + 2)]
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            rows.append(f"{' ' * indent}{key}: {text}")
    return "\n".join(rows)


def readings_text(readings: Sequence[Reading]) -> str:
    """What engines make of a config, for people: a line each, and the problems of one alone."""
    if len(readings) == 1:
        return "\n".join(details(readings[0]))
    return "\n".join(summary(found) for found in readings)


def summary(found: Reading) -> str:
    """One line: what is in effect, or that it fails, and which problems there are.

    >>> summary(Reading("vllm", "0.33.0", base=1e4, amplitude=1.0, max_length=4096))
    'vllm 0.33.0: no repair, base 10000, amplitude 1, up to 4,096 tokens'
    """
    head = f"{found.engine} {found.version}: "
    codes = ", ".join(each.code for each in found.problems)
    tail = f" [{codes}]" if codes else ""
    if found.fails is not None:
        return f"{head}fails: {found.fails}{tail}"
    parts = [str(found.repair) if found.repair is not None else "no repair"]
    if found.base is not None:
        parts.append(f"base {found.base:.8g}")
    if found.amplitude is not None:
        parts.append(f"amplitude {found.amplitude:.6g}")
    if found.max_length is not None:
        parts.append(f"up to {found.max_length:,} tokens")
    return head + ", ".join(parts) + tail


def details(found: Reading) -> Iterator[str]:
    """The line, and every problem in full."""
    yield from wrapped(summary(replace(found, problems=())), "")
    for problem in found.problems:
        text = (
            f"{problem.message}: {problem.consequence}" if problem.consequence else problem.message
        )
        yield from wrapped(text, "- ")
