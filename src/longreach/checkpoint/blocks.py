"""A config's rope blocks, `rope_scaling` and `rope_parameters`: which counts, what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InputError
from ..repairs import Repair, growth, yarn_amplitude
from ..spectrum import LARGEST, Extension, Spectrum, brief
from ..table import nearest
from .families import Family
from .reading import Notes, as_float, mapping, real, whole

Dialect = Literal["transformers4", "transformers5"]

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")

OPTIONS = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": (
        "factor",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("long_factor", "short_factor", "factor", "attention_factor"),
}
"""What transformers reads in a block of each type: options of the repair of that name."""

LISTS = ("long_factor", "short_factor")
"""The options that hold a number for each pair."""

ALIASES = {"su": "longrope", "deepseek_yarn": "yarn", "llama3.1": "llama3", "mrope": "default"}
"""Other names of the same types, in released configs."""

COMMON = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "original_max_position_embeddings",
    "mrope_section",
    "mrope_interleaved",
    "finetuned",
    "alpha",
    "max_position_embeddings",
    "llama_4_scaling_beta",
}


@dataclass(frozen=True)
class Block:
    """A rope block: its content, and where in the config it stands."""

    where: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Blocks:
    """The blocks that count, by layer type or one for all, and who would have written them.

    dropped: rope_theta that transformers 5 loses, since another block replaces the one it is in.
    """

    dialect: Dialect
    flat: Block | None = None
    nested: Mapping[str, Block] | None = None
    dropped: float | None = None

    def of(self, layer_type: str) -> Block | None:
        """The block of a layer type."""
        if self.nested is None:
            return self.flat
        first = next(iter(self.nested.values()))
        return self.nested.get(layer_type) or self.nested.get("full_attention") or first


def find_blocks(config: Mapping[str, Any], notes: Notes) -> Blocks:
    """Which of the config's blocks count, as transformers reads them."""
    scaling = mapping(config, "rope_scaling", notes)
    parameters = mapping(config, "rope_parameters", notes)
    dialect: Dialect = "transformers4" if parameters is None else "transformers5"
    chosen = Block("rope_scaling", scaling) if scaling else None
    dropped = None
    if scaling and parameters:
        dropped = _replaced(config, scaling, parameters, notes)
    elif parameters:
        chosen = Block("rope_parameters", parameters)
    if chosen is None:
        return Blocks(dialect)
    nested = _nested(chosen, notes)
    if nested:
        return Blocks(dialect, nested=nested, dropped=dropped)
    return Blocks(dialect, flat=chosen, dropped=dropped)


def _nested(block: Block, notes: Notes) -> dict[str, Block] | None:
    inner = {
        key: Block(f"{block.where}.{key}", value)
        for key, value in block.content.items()
        if isinstance(value, Mapping)
    }
    if not inner:
        return None
    flat = sorted(set(block.content) - set(inner))
    if flat:
        notes.add(
            "mixed_block",
            f"{block.where} holds blocks by layer type ({', '.join(inner)}) and, beside them, "
            + ", ".join(flat),
            "what stands beside the blocks by layer type is not read",
        )
    return inner


def _replaced(
    config: Mapping[str, Any],
    scaling: Mapping[str, Any],
    parameters: Mapping[str, Any],
    notes: Notes,
) -> float | None:
    """Notes what is lost where both blocks stand; returns the base that transformers 5 loses."""
    theta = as_float(parameters.get("rope_theta"))
    elsewhere = as_float(scaling.get("rope_theta")) or as_float(config.get("rope_theta"))
    if theta is None or theta <= 1 or elsewhere is not None:
        notes.add(
            "alias_blocks",
            "both rope_scaling and rope_parameters are given",
            "transformers 5 takes rope_scaling in place of the whole of rope_parameters; 4.x does "
            "not "
            "know rope_parameters. Keep one",
        )
        return None
    return theta


def read_repair(
    block: Block, pairs: int, trained: int, stated: int | None, notes: Notes
) -> Repair | None:
    """The repair that a block asks for, or None: it asks for none, or it cannot work (then noted).

    pairs: that are turned. trained: tokens before the extension. stated: what the config states.
    """
    content = block.content
    kind = _type(block, notes)
    if kind == "default":
        factor = as_float(content.get("factor"))
        if factor is not None and factor != 1:
            notes.add(
                "factor_ignored",
                f"{block.where} has factor {factor:g}, and a type that has no factor",
                "positions are not scaled: the factor does nothing",
            )
        return None
    alpha = real(content, ["alpha"], notes) if kind == "dynamic" else None
    if alpha is not None and alpha[0] > 1:
        # Hunyuan's: a fixed change of base by alpha, whatever the length.
        return _made("ntk", {"factor": alpha[0]}, block, notes)
    if kind not in OPTIONS:
        return None
    _unknown_keys(block, kind, notes)
    options = {name: content[name] for name in OPTIONS[kind] if content.get(name) is not None}
    options = _factor(kind, options, block, trained, stated, notes)
    if kind == "longrope":
        options = _lists(options, pairs, block, notes)
    if kind == "llama3":
        _llama3_keys(block, notes)
    # At factor 1 a dynamic repair still follows the length, and lists are what they are.
    goes_on = kind == "longrope" or (kind == "dynamic" and alpha is None)
    if not options or ("factor" in OPTIONS[kind] and options.get("factor") == 1 and not goes_on):
        return None
    repair = _made(kind, options, block, notes)
    if repair is None:
        return None
    return _tried(repair, block, pairs, trained, notes)


def _type(block: Block, notes: Notes) -> str:
    """The block's type in transformers' present name; `default` where it is none that is known."""
    content = block.content
    new, old = content.get("rope_type"), content.get("type")
    for key, value in (("rope_type", new), ("type", old)):
        if value is not None and not isinstance(value, str):
            notes.add(
                "wrong_type",
                f"{block.where}.{key} is {brief(value)}",
                "a type's name belongs there; read as no repair",
            )
            return "default"
    if new and old and ALIASES.get(new, new) != ALIASES.get(old, old):
        notes.add(
            "conflicting_types",
            f"{block.where} has rope_type '{brief(new)}' and type '{brief(old)}'",
            "transformers 5 takes rope_type, 4.57 takes type; vLLM refuses to start. Read here by "
            "rope_type",
        )
    kind = new or old
    if kind is None:
        if content.get("factor") is not None:
            notes.add(
                "type_missing",
                f"{block.where} has a factor, but neither rope_type nor type",
                "transformers takes it as no repair: positions past the trained length are "
                "unscaled",
            )
        return "default"
    if kind == "su":
        notes.add(
            "type_su",
            f"{block.where} has type 'su', the old name of longrope",
            "transformers 4.57 takes it as longrope; 5.24 stops with a KeyError unless "
            "original_max_position_embeddings stands inside the block: write rope_type longrope, "
            "and "
            "the key in both places",
        )
    kind = ALIASES.get(kind, kind)
    if kind == "ntk":
        notes.add(
            "engine_type",
            f"{block.where} has the type 'ntk'",
            "only vLLM knows it, and by another formula than NTK-aware interpolation: it slows the "
            "first pair too. transformers stops with a KeyError; give the changed base as "
            "rope_theta. "
            "Here read as no repair",
        )
        return "default"
    if kind not in OPTIONS and kind not in ("default", "proportional"):
        known = [*OPTIONS, "default", "proportional"]
        notes.add(
            "unknown_type",
            f"{block.where} has the type {brief(kind)}; {nearest(kind, known)}",
            "transformers warns, then stops with a KeyError when the model is built; here read as "
            "no "
            "repair",
        )
        return "default"
    return "default" if kind == "proportional" else kind


def _unknown_keys(block: Block, kind: str, notes: Notes) -> None:
    known = COMMON | set(OPTIONS[kind])
    every = COMMON | {name for names in OPTIONS.values() for name in names}
    for key in block.content:
        if key in known:
            continue
        if key == "attn_factor":
            consequence = (
                "transformers does not read it, vLLM up to 0.29 and SGLang do (and multiply by "
                "it): "
                "the same file makes two models"
            )
        elif key in every:
            consequence = f"a block of type {kind} does not read it: it does nothing"
        else:
            consequence = "transformers warns and ignores it: what it was to set keeps its default"
        hint = "" if key in every or key == "attn_factor" else "; " + nearest(key, sorted(known))
        notes.add("unknown_key", f"{block.where} has the key {brief(key)}{hint}", consequence)


def _factor(
    kind: str,
    options: dict[str, Any],
    block: Block,
    trained: int,
    stated: int | None,
    notes: Notes,
) -> dict[str, Any]:
    """The options with a factor that can be used, or none at all."""
    given = block.content.get("factor")
    if given is None:
        return _implied_factor(kind, options, block, trained, stated, notes)
    factor = as_float(given)
    if factor is None or not 0 < factor <= LARGEST:
        notes.add(
            "factor_not_a_number",
            f"{block.where}.factor is {brief(given)}",
            "a number above 1 belongs there; the repair cannot be applied",
        )
        return {}
    if factor < 1:
        notes.add(
            "factor_below_one",
            f"{block.where}.factor is {factor:g}",
            f"a factor is target over trained length. Below 1 it makes pairs turn {1 / factor:g} "
            "times "
            f"faster, so that {int(trained * factor):,} tokens already ask for the angles of "
            f"{trained:,}; the inverse, {1 / factor:g}, was probably meant (llama.cpp's "
            "--rope-freq-scale is the inverse)",
        )
        return {}
    if kind == "yarn" and stated is not None:
        _disagreement(factor, block, trained, stated, notes)
    if kind == "llama3" and stated is not None and stated <= trained and factor > 1:
        notes.add(
            "length_not_raised",
            f"{block.where}.factor is {factor:g}, but max_position_embeddings, {stated:,}, is not "
            "above "
            f"the original length, {trained:,}",
            "slow pairs are slowed and nothing is gained: engines serve no more than the stated "
            "length",
        )
    return {**options, "factor": factor}


def _implied_factor(
    kind: str,
    options: dict[str, Any],
    block: Block,
    trained: int,
    stated: int | None,
    notes: Notes,
) -> dict[str, Any]:
    implied = 1.0 if stated is None else stated / trained
    if kind == "longrope":
        return {**options, "factor": implied} if implied > 1 else options
    if kind == "yarn" and implied > 1:
        notes.add(
            "factor_missing",
            f"{block.where} has no factor",
            f"transformers takes {stated:,} / {trained:,} = {implied:g}; vLLM and TGI stop",
        )
        return {**options, "factor": implied}
    notes.add(
        "factor_missing",
        f"{block.where} has no factor",
        f"a block of type {kind} needs one; the repair cannot be applied",
    )
    return {}


def _disagreement(factor: float, block: Block, trained: int, stated: int, notes: Notes) -> None:
    """YaRN's factor against the two lengths: up to 4.55, transformers took their ratio instead."""
    ratio = stated / trained
    if abs(ratio - factor) <= 1e-6 * factor:
        return
    if block.content.get("original_max_position_embeddings") is None:
        notes.add(
            "original_missing",
            f"{block.where} has no original_max_position_embeddings",
            f"transformers takes max_position_embeddings, {stated:,}, as the trained length (4.x "
            "warns, "
            "5.x does not); TGI and vLLM up to 0.11.0 stop with a KeyError",
        )
        return
    old = max(ratio, 1.0)
    notes.add(
        "factor_disagrees",
        f"{block.where}.factor is {factor:g}, but max_position_embeddings / "
        f"original_max_position_embeddings is {stated:,} / {trained:,} = {ratio:g}",
        f"transformers up to 4.55 applies {old:g} (amplitude {growth(old):.6f}), from 4.56 on "
        f"{factor:g} "
        f"(amplitude {yarn_amplitude(factor):.6f}); vLLM from 0.30 on serves no more than "
        f"{stated:,} "
        f"tokens. With max_position_embeddings {round(factor * trained):,} all agree",
    )


def _lists(options: dict[str, Any], pairs: int, block: Block, notes: Notes) -> dict[str, Any]:
    """LongRoPE's lists, one positive number per pair; no options if they are anything else."""
    for name in LISTS:
        value = options.get(name)
        if value is None:
            notes.add(
                "missing_key",
                f"{block.where} has no {name}",
                "longrope needs both lists; transformers stops with a KeyError",
            )
            return {}
        if not isinstance(value, list):
            notes.add(
                "wrong_type",
                f"{block.where}.{name} is {brief(value)}",
                f"a list of {pairs} numbers belongs there; the repair cannot be applied",
            )
            return {}
        if len(value) != pairs:
            notes.add(
                "list_length",
                f"{block.where}.{name} has {len(value)} numbers, and {pairs} pairs are turned",
                f"one number per pair belongs there, {pairs}; the model cannot be run",
            )
            return {}
        if not all((number := as_float(each)) is not None and number > 0 for each in value):
            notes.add(
                "list_values",
                f"{block.where}.{name} holds something else than finite numbers above 0",
                "the repair cannot be applied",
            )
            return {}
    lists = {name: [float(each) for each in options[name]] for name in LISTS}
    return {**options, **lists}


def _llama3_keys(block: Block, notes: Notes) -> None:
    needed = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    missing = [key for key in needed if block.content.get(key) is None]
    if missing:
        notes.add(
            "missing_key",
            f"{block.where} has no {', '.join(missing)}",
            "transformers 4.x stops with a KeyError; the defaults here are 1, 4 and the stated "
            "length",
        )


def _made(name: str, options: dict[str, Any], block: Block, notes: Notes) -> Repair | None:
    try:
        return Repair(name, options)
    except InputError as error:
        notes.add("bad_option", f"{block.where}: {error}", "the repair cannot be applied")
        return None


def _tried(repair: Repair, block: Block, pairs: int, trained: int, notes: Notes) -> Repair | None:
    """The repair if its options are usable; else their fault is noted."""
    plain = Spectrum.rope(2 * pairs)
    try:
        repair.apply(plain, Extension(trained, 2 * trained))
    except InputError as error:
        fast, slow = (block.content.get(key) for key in ("beta_fast", "beta_slow"))
        swapped = as_float(fast) and as_float(slow) and "beta_slow must be below" in str(error)
        notes.add(
            "betas_swapped" if swapped else "bad_option",
            f"{block.where}: {error}",
            "the repair cannot be applied as it stands"
            + (": the ramp would run backwards, fast pairs interpolated" if swapped else ""),
        )
        return None
    if repair.name == "yarn":
        _mscale(repair, block, notes)
        _nested_truncate(repair, block, pairs, trained, notes)
    return repair


def _nested_truncate(repair: Repair, block: Block, pairs: int, trained: int, notes: Notes) -> None:
    """Where blocks stand by layer type, transformers 5.24 looks for truncate in the outer one."""
    if repair.options.get("truncate") is not False or "." not in block.where:
        return
    plain, extension = Spectrum.rope(2 * pairs), Extension(trained, 2 * trained)
    rounded = Repair("yarn", {**repair.options, "truncate": True}).apply(plain, extension)
    exact = repair.apply(plain, extension)
    off = abs(rounded.inverse_frequencies / exact.inverse_frequencies - 1).max()
    notes.add(
        "nested_truncate",
        f"{block.where}.truncate is false",
        "transformers 5.24.0 ignores it in a block by layer type: corners are rounded, and pairs "
        "turn "
        f"up to {off:.1%} off what the file says",
    )


def _mscale(repair: Repair, block: Block, notes: Notes) -> None:
    mscale, whole_head = (repair.options.get(key) for key in ("mscale", "mscale_all_dim"))
    if repair.options.get("attention_factor") is None and bool(mscale) != bool(whole_head):
        name = "mscale" if mscale else "mscale_all_dim"
        notes.add(
            "mscale_alone",
            f"{block.where} has {name} without the other of mscale and mscale_all_dim",
            "transformers reads them for cos and sin only as a pair: the amplitude is "
            f"{yarn_amplitude(repair.options['factor']):.6f}, as without",
        )


def read_base(
    config: Mapping[str, Any], block: Block | None, family: Family, notes: Notes
) -> tuple[float, str]:
    """The base of RoPE and the key it stands under, or the family's own where there is none."""
    inner = real(block.content, ["rope_theta"], notes, above=1) if block else None
    outer = real(config, BASES, notes, above=1)
    if inner and outer and inner[0] != outer[0]:
        notes.add(
            "two_bases",
            f"{block.where if block else ''}.rope_theta is {inner[0]:g}, but {outer[1]} is "
            f"{outer[0]:g}",
            f"transformers 5 takes {inner[0]:g}, 4.x takes {outer[0]:g}: the same file makes two "
            "models",
        )
    if inner:
        return inner[0], f"{block.where if block else ''}.rope_theta"
    if outer:
        return outer
    ratio = real(config, ["rope_ratio"], notes)
    if ratio:
        return 10_000.0 * ratio[0], "rope_ratio"
    return family.base, ""


BASES = (
    "rope_theta",
    "rotary_emb_base",
    "rope_base",
    "rotary_base",
    "rope_embedding_base",
    "global_rope_theta",
)
"""Keys for the base, over the years."""


def original_length(
    config: Mapping[str, Any], block: Block | None, notes: Notes
) -> tuple[int, str] | None:
    """The length before an extension, if a block or the config says it."""
    key = "original_max_position_embeddings"
    inner = whole(block.content, [key], notes) if block else None
    outer = whole(config, [key], notes)
    if inner and outer and inner.value != outer.value:
        notes.add(
            "two_originals",
            f"{key} is {inner.value:,} in {block.where if block else ''} and {outer.value:,} "
            "beside it",
            "transformers 5 takes the one beside the block, 4.x the one inside, but for longrope",
        )
    if inner:
        return inner.value, f"{block.where if block else ''}.{key}"
    return (outer.value, key) if outer else None
