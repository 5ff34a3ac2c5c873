"""What a config comes to: its rope block as an engine takes it, and the spectrum that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..checkpoint.blocks import ALIASES, OPTIONS
from ..checkpoint.layout import Checkpoint, LayerGroup, Problem
from ..checkpoint.reading import as_float
from ..errors import InputError
from ..repairs import Repair, yarn_amplitude
from ..spectrum import LONGEST, Extension, Spectrum, brief
from .base import Reading, Release
from .block import FULL, ORIGINAL, Block, base_key, default_base

KNOWN_TYPES = ("default", *OPTIONS)

COUNTED = ("yarn", "llama3", "longrope")
"""Types that count from the length before the extension."""


NUMBERS = {
    *(option for options in OPTIONS.values() for option in options if "mscale" not in option),
    *("alpha", "attn_factor", "long_mscale", "short_mscale", ORIGINAL),
} - {"truncate", "short_factor", "long_factor"}
"""Keys that hold a number above 0."""


class Stop(Exception):
    """The engine stops with this error."""


@dataclass
class Taken:
    """A config's rope settings, as an engine takes them; filled and corrected by its file.

    base: None where it was lost. block: flat, for full attention. stated: max_position_embeddings.
    """

    base: float | None
    block: Block
    stated: int | None
    problems: list[Problem] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The block's type, in transformers' present name."""
        kind = self.block.get("rope_type") or self.block.get("type") or "default"
        return ALIASES.get(kind, kind) if isinstance(kind, str) else brief(kind)

    @property
    def factor(self) -> float:
        """The block's factor, 1 if it has none."""
        return as_float(self.block.get("factor")) or 1.0

    def add(self, code: str, message: str, consequence: str) -> None:
        """Notes a problem."""
        self.problems.append(Problem(code, message, consequence))

    def drop(self, engine: str, *keys: str) -> None:
        """Notes keys that the engine does not read, and takes them out."""
        for key in keys:
            if self.block.get(key) is not None:
                value = self.block.pop(key)
                self.add(
                    "ignored_key",
                    f"{key} is {brief(value)}",
                    f"{engine} does not read it: what it was to set keeps its default",
                )

    def clean(self) -> None:
        """Notes values that are of no use, and takes them out: what is left can be reckoned."""
        for key, value in list(self.block.items()):
            if value is None or _usable(key, value):
                continue
            del self.block[key]
            self.add(
                "wrong_type",
                f"{key} is {brief(value)}",
                "no engine can use it; it is read here as if it were not there",
            )

    def original(self) -> int | None:
        """The length before the extension, if the block says it."""
        found = as_float(self.block.get(ORIGINAL))
        return None if found is None else int(found)


def take4(checkpoint: Checkpoint) -> Taken:
    """As transformers 4 takes it: rope_theta and rope_scaling. It does not know rope_parameters."""
    config, family = checkpoint.config, checkpoint.model_type
    stated = checkpoint.stated_length
    block = config.get("rope_scaling")
    base = as_float(config.get(base_key(config, family)))
    taken = Taken(base or default_base(family), _flat(block), stated)
    if taken.block.get("type") and taken.block.get("rope_type"):
        taken.block["rope_type"] = taken.block.pop("type")  # The old key's value is taken.
    if isinstance(config.get("rope_parameters"), Mapping) and base is None:
        lost = _flat(config["rope_parameters"])
        was = as_float(lost.get("rope_theta"))
        other = was is not None and was != taken.base
        if other or lost.get("rope_type") not in (None, "default"):
            taken.add(
                "version5_config",
                "the config has rope_parameters, which transformers 5 writes",
                f"transformers 4.x does not read it, silently: the base is {taken.base:g}"
                + (f" instead of {was:g}" if was else "")
                + ", and no repair is applied. Write rope_theta and rope_scaling",
            )
    taken.clean()
    return taken


def take5(checkpoint: Checkpoint) -> Taken:
    """As transformers 5 takes it: rope_parameters, or rope_scaling in place of the whole of it."""
    config, family = checkpoint.config, checkpoint.model_type
    scaling, parameters = config.get("rope_scaling"), config.get("rope_parameters")
    block = _flat(scaling if isinstance(scaling, Mapping) and scaling else parameters)
    above = as_float(config.get(base_key(config, family)))
    base = as_float(block.get("rope_theta")) or above or default_base(family)
    taken = Taken(base, block, checkpoint.stated_length)
    lost = as_float(_flat(parameters).get("rope_theta"))
    if scaling and lost is not None and lost != base:
        taken.add(
            "theta_dropped",
            f"rope_theta {lost:g} stands in rope_parameters, and rope_scaling beside it has none",
            "transformers 5 takes rope_scaling in place of the whole of rope_parameters: the base "
            f"becomes {base:g}. Put rope_theta into the block, and keep one block",
        )
    # By the name as it is written: for the old name, su, it comes too early.
    if ORIGINAL in config and (block.get("rope_type") or block.get("type")) in COUNTED:
        taken.block[ORIGINAL] = config[ORIGINAL]
    taken.clean()
    return taken


def _usable(key: str, value: object) -> bool:
    """Whether the key can hold the value at all, in any engine."""
    if key in ("mscale", "mscale_all_dim"):
        return as_float(value) is not None and 0 <= float(str(value)) <= LONGEST
    if key in NUMBERS:
        number = as_float(value)
        return number is not None and 0 < number <= LONGEST and (key != ORIGINAL or number >= 1)
    if key in ("short_factor", "long_factor"):
        return isinstance(value, list) and all((as_float(each) or 0) > 0 for each in value)
    if key == "truncate":
        return isinstance(value, bool)
    return True


def outer_original(config: Mapping[str, object]) -> int | None:
    """The length before the extension that stands beside the block, as transformers 4 wants it."""
    found = config.get(ORIGINAL)
    return int(as_float(found) or 0) if _usable(ORIGINAL, found) else None


def taken_block(config: Mapping[str, object]) -> Block:
    """The rope block that a config has for full attention; empty if it has none."""
    return _flat(config.get("rope_scaling") or config.get("rope_parameters"))


def _flat(block: object) -> Block:
    """The block for full attention, a copy."""
    if not isinstance(block, Mapping):
        return {}
    inner = block.get(FULL)
    return dict(inner if isinstance(inner, Mapping) else block)


def fill_original(taken: Taken, engine: str, how: str) -> None:
    """Puts max_position_embeddings in for a missing length before the extension, as engines do."""
    if taken.kind not in COUNTED or taken.original() is not None or taken.stated is None:
        return
    taken.block[ORIGINAL] = taken.stated
    taken.add(
        "original_missing",
        f"{ORIGINAL} is missing",
        f"{engine} takes max_position_embeddings, {taken.stated:,}, as the window, {how}",
    )


def needed(taken: Taken, *keys: str) -> None:
    """Stops with the engine's KeyError if the block lacks a key."""
    for key in keys:
        if taken.block.get(key) is None:
            raise Stop(f"KeyError: '{key}'")


def repair_of(taken: Taken, pairs: int) -> tuple[Repair | None, int | None]:
    """The repair in effect and the window it counts from."""
    kind, block = taken.kind, taken.block
    window = taken.original() or taken.stated
    if kind not in OPTIONS:
        return None, window
    options = {key: block[key] for key in OPTIONS[kind] if block.get(key) is not None}
    if kind == "longrope":
        options.setdefault("short_factor", [1.0] * pairs)
        return Repair(kind, options), window
    if kind == "dynamic":
        return Repair(kind, options), taken.stated
    if as_float(options.get("factor")) == 1.0:
        return None, window
    return Repair(kind, options), window


def reading(
    engine: str,
    release: Release,
    group: LayerGroup,
    taken: Taken,
    *,
    max_length: int | None,
    length: int | None,
    repaired: tuple[Repair | None, int | None] | None = None,
) -> Reading:
    """The reading of what was taken: applies the repair to RoPE of the base in effect.

    length: at which a repair that depends on it is shown; the longest accepted unless given.
    repaired: the repair in effect, where it is not what the block's words say.
    """
    problems = tuple(taken.problems)
    if group.rotary_dim is None:
        return Reading(engine, release.text, max_length=max_length, problems=problems)
    try:
        if taken.base is None:
            raise Stop("TypeError: the base, rope_theta, is None")
        known = group.spectrum if group.base == taken.base else None
        plain = known or Spectrum.rope(group.rotary_dim, taken.base)
        repair, window = repaired or repair_of(taken, plain.pairs)
        _check_lists(repair, plain.pairs)
        shown = length or max_length or taken.stated
        used = _applied(plain, repair, window, shown)
    except Stop as stop:
        return fails(engine, release, taken, str(stop))
    except InputError as error:
        taken.add(
            "no_repair",
            str(error),
            f"{engine} may go on with such a block, but it makes no repair that is known here",
        )
        return Reading(
            engine,
            release.text,
            base=taken.base,
            max_length=max_length,
            problems=tuple(taken.problems),
        )
    return Reading(
        engine,
        release.text,
        repair=repair,
        base=taken.base,
        inverse_frequencies=tuple(used.inverse_frequencies.tolist()),
        amplitude=used.amplitude,
        max_length=max_length,
        problems=problems,
    )


def _check_lists(repair: Repair | None, pairs: int) -> None:
    for key in ("short_factor", "long_factor"):
        if repair is not None and key in repair.options and len(repair.options[key]) != pairs:
            raise Stop(
                f"{key} has {len(repair.options[key])} numbers, and {pairs} pairs are turned"
            )


def _applied(
    plain: Spectrum, repair: Repair | None, window: int | None, length: int | None
) -> Spectrum:
    if repair is None:
        return plain
    if window is None:
        raise InputError(f"nothing in the config says how long the model was trained for {repair}")
    return repair.apply(plain, Extension(window, length or window))


def fails(engine: str, release: Release, taken: Taken, error: str) -> Reading:
    """The engine stops."""
    return Reading(
        engine, release.text, base=taken.base, problems=tuple(taken.problems), fails=error
    )


def translated_amplitude(taken: Taken, key: str = "attn_factor") -> None:
    """Puts attention_factor for a key that multiplies YaRN's default amplitude instead."""
    multiplier = as_float(taken.block.pop(key, None))
    if multiplier is None or taken.kind != "yarn":
        return
    default = yarn_amplitude(taken.factor, None, *mscales(taken.block))
    taken.block["attention_factor"] = multiplier * default


def mscales(block: Block) -> tuple[float | None, float | None]:
    """The block's mscale and mscale_all_dim."""
    return as_float(block.get("mscale")), as_float(block.get("mscale_all_dim"))
