"""A transformers config (v4 or v5 form, any family) as a Checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..biases import alibi_slopes, mpt_slopes, t5_bucket_starts
from ..errors import InputError
from ..repairs import Repair, softmax_factor
from ..spectrum import WIDEST, Spectrum, brief
from .blocks import BASES, Block, Blocks, find_blocks, original_length, read_base, read_repair
from .families import FAMILIES, PLAIN, Family
from .layers import Layer, Sees, read_layers
from .layout import Checkpoint, Kind, LayerGroup, WindowKind
from .reading import Found, Notes, as_float, real, whole

WINDOWS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "model_max_length",
    "n_ctx",
)
"""Keys for how many tokens a model takes, over the years."""

TEXT_PARTS = ("text_config", "llm_config", "language_config", "language_model", "thinker_config")
"""Where a model of text and images keeps the text model's config."""

HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
HEAD_DIMS = ("head_dim", "kv_channels", "attention_head_dim", "d_kv", "attention_key_length")
SHARES = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rotary_percent",
    "rope_percent",
    "rotary_percentage",
    "rope_percentage",
    "rotary_emb_fraction",
)
"""Keys for the part of the head that is turned."""

ROTARY_DIMS = ("rotary_dim", "rotary_emb_dim", "rope_dim", "n_rot")

ROPE_KEYS = (
    *BASES,
    *SHARES,
    *ROTARY_DIMS,
    "rope_scaling",
    "rope_parameters",
    "rope_ratio",
    "qk_rope_head_dim",
)
"""Any of these in a config of an unknown family says that it is turned."""

POSITION_TYPES: dict[str, Kind] = {
    "rope": "rope",
    "rotary": "rope",
    "nope": "nope",
    "none": "nope",
    "alibi": "alibi",
    "learned": "learned",
    "learned_absolute": "learned",
    "absolute": "learned",
    "sinusoidal": "sinusoidal",
}
"""Values of position_embedding_type."""


def from_config(
    config: Mapping[str, Any], source: str = "the config", *, trained_length: int | None = None
) -> Checkpoint:
    """What a config says about positions.

    source: what to call it. trained_length: tokens, where the config is wrong or silent about it.

    Raises InputError if the config is not of a model whose positions can be told, naming the keys
    that were looked for.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"{source} should be one JSON object, got {brief(config)}")
    notes = Notes()
    text = _text_part(config, notes)
    model_type = text.get("model_type")
    family = FAMILIES.get(model_type, PLAIN) if isinstance(model_type, str) else PLAIN
    stated = _stated(text, family, notes)
    blocks = find_blocks(text, notes)
    reader = _Reader(text, family, blocks, stated, notes, source, trained_length)
    groups = reader.groups()
    return Checkpoint(
        source=source,
        model_type=model_type if isinstance(model_type, str) else "unknown",
        groups=groups,
        stated_length=stated.value if stated else None,
        stated_key=stated.key if stated else "",
        head_dim=reader.head_dim(required=False),
        dialect=blocks.dialect,
        config=text,
        problems=tuple(notes.found),
    )


def _text_part(config: Mapping[str, Any], notes: Notes) -> Mapping[str, Any]:
    """The text model's own config, out of one for text and images."""
    for _ in range(3):
        inner = next((key for key in TEXT_PARTS if isinstance(config.get(key), Mapping)), None)
        if inner is None:
            break
        config = config[inner]
    attention = config.get("attn_config")
    if isinstance(attention, Mapping):
        # MPT and DBRX keep keys of attention apart.
        return {**attention, **config}
    return config


def _stated(config: Mapping[str, Any], family: Family, notes: Notes) -> Found | None:
    found = [each for key in WINDOWS if (each := whole(config, [key], notes))]
    if not found:
        return (
            Found(family.stated, f"the family's default ({family.stated:,})")
            if family.stated
            else None
        )
    others = [each for each in found if each.value != found[0].value]
    # A model_max_length of 10**30 is a tokenizer's way to say nothing.
    if others:
        listing = ", ".join(f"{each.key} {each.value:,}" for each in [found[0], *others])
        least = min(found, key=lambda each: each.value)
        notes.add(
            "two_windows",
            f"the config states more than one window: {listing}",
            f"the smaller, {least.value:,}, is taken as trained, and engines differ in which they "
            "read; give --trained-length if you know better",
        )
    return found[0]


@dataclass
class _Reader:
    """One config being read; made by `from_config`."""

    config: Mapping[str, Any]
    family: Family
    blocks: Blocks
    stated: Found | None
    notes: Notes
    source: str
    given: int | None

    def groups(self) -> tuple[LayerGroup, ...]:
        kind = self.kind()
        if kind == "rope":
            return self.rope()
        flat = self.blocks.flat
        if flat and flat.content.get("factor") is not None:
            self.notes.add(
                "nothing_to_turn",
                f"{flat.where} asks for a repair, but the model has no RoPE",
                f"its positions are '{kind}': the block does nothing",
            )
        group = LayerGroup(layers=None, kind=kind, **self.window())
        if kind == "alibi":
            return (replace(group, slopes=self.slopes()),)
        if kind == "learned":
            return (replace(group, limit=group.trained_length),)
        if kind == "t5":
            return (self.t5(group),)
        return (group,)

    def kind(self) -> Kind:
        """How the model is told positions."""
        config = self.config
        alibi = config.get("alibi") is True or config.get("use_alibi") is True
        if alibi or (self.family.alibi and self.family.alibi(config)):
            return "alibi"
        named = config.get("position_embedding_type")
        if isinstance(named, str) and named in POSITION_TYPES:
            return POSITION_TYPES[named]
        if self.family.kind == "alibi" and config.get("alibi") is False:
            # MPT with its attn_config's alibi off: RoPE or a learned table.
            return "rope" if config.get("rope") is True else "learned"
        if self.family.kind:
            return self.family.kind
        if "relative_attention_num_buckets" in config:
            return "t5"
        if any(config.get(key) is not None for key in ROPE_KEYS):
            return "rope"
        looked = ", ".join([*ROPE_KEYS, "alibi", "position_embedding_type"])
        raise InputError(
            f"cannot tell how {self.source} is told positions: its model_type, "
            f"{brief(config.get('model_type'))}, is not a known one, and none of these keys is "
            "there: "
            f"{looked}"
        )

    def window(self) -> dict[str, Any]:
        """Trained length and its source, for kinds that have no rope block."""
        if self.given:
            return {"trained_length": self.given, "trained_length_source": "given"}
        stated = self.least_stated()
        if stated is None:
            return {}
        return {"trained_length": stated.value, "trained_length_source": stated.key}

    def least_stated(self) -> Found | None:
        """The smallest window that the config states."""
        quiet = Notes()
        found = [each for key in WINDOWS if (each := whole(self.config, [key], quiet))]
        return min(found, key=lambda each: each.value) if found else self.stated

    def slopes(self) -> tuple[float, ...] | None:
        heads = whole(self.config, HEADS, self.notes, most=WIDEST)
        if heads is None:
            return None
        if self.config.get("model_type") == "mpt":
            most = real(self.config, ["alibi_bias_max"], self.notes)
            return tuple(mpt_slopes(heads.value, most[0] if most else 8))
        return tuple(alibi_slopes(heads.value))

    def t5(self, group: LayerGroup) -> LayerGroup:
        buckets = whole(
            self.config, ["relative_attention_num_buckets"], self.notes, least=4, most=WIDEST
        )
        distance = whole(self.config, ["relative_attention_max_distance"], self.notes)
        count, most = buckets.value if buckets else 32, distance.value if distance else 128
        try:
            t5_bucket_starts(count, most)
        except InputError as error:
            self.notes.add("t5_buckets", str(error), "the defaults, 32 and 128, are shown")
            count, most = 32, 128
        return replace(group, buckets=count, max_distance=most)

    def rope(self) -> tuple[LayerGroup, ...]:
        """One group per way of being told positions."""
        layers = read_layers(self.config, self.family, self.notes)
        alike: dict[Layer, list[int]] = {}
        for index, layer in enumerate(layers):
            alike.setdefault(self.plainest(layer), []).append(index)
        if len(alike) == 1:
            return (self.group(next(iter(alike))),)
        return tuple(
            replace(self.group(layer), layers=tuple(indices)) for layer, indices in alike.items()
        )

    def plainest(self, layer: Layer) -> Layer:
        """The layer, with a window only where it is one."""
        if layer.sees == "all" and layer.turned and self.family.chunk:
            return Layer("chunked", True)
        same = self.family.local_base is None and self.blocks.nested is None
        if layer.sees in ("sliding", "chunked") and self.reach(layer.sees)[0] is None and same:
            return Layer("all", layer.turned)
        return layer

    def group(self, layer: Layer) -> LayerGroup:
        window, kind = self.reach(layer.sees)
        if not layer.turned:
            notes = ("not attention: no positions",) if layer.sees == "nothing" else ()
            return LayerGroup(
                None,
                "nope",
                **self.window(),
                window=window,
                window_kind=kind,
                temperature=self.temperature(),
                notes=notes,
            )
        local = layer.sees == "sliding"
        block = self.blocks.of("sliding_attention" if local else "full_attention")
        base = self.base(block, local)
        length, source = self.trained(block)
        spectrum = self.spectrum(block, base, local)
        repair = None
        if block and (self.family.local_repair or self.blocks.nested or not local):
            repair = self.repair(block, spectrum.pairs, length)
        factor = 1.0
        if repair and repair.name == "yarn" and self.latent():
            factor = softmax_factor(repair.options["factor"], repair.options.get("mscale_all_dim"))
        narrow = window is not None and (length is None or window < length)
        return LayerGroup(
            layers=None,
            kind="rope",
            trained_length=window if narrow else length,
            trained_length_source=self.window_key(kind) if narrow else source,
            original_length=self.starts_from(repair, length),
            rotary_dim=2 * spectrum.pairs,
            base=base,
            spectrum=spectrum,
            misread=self.misread(block, base, spectrum),
            repair=repair,
            softmax_factor=factor,
            temperature=self.scaled_queries(block),
            notes=self.own_dynamic(),
            window=window,
            window_kind=kind,
        )

    def reach(self, sees: Sees) -> tuple[int | None, WindowKind | None]:
        """The window of a layer, if it has one that is smaller than what the config states."""
        if sees == "chunked":
            chunk = whole(self.config, ["attention_chunk_size"], self.notes)
            size = chunk.value if chunk else self.family.chunk
            return (size, "chunked") if size else (None, None)
        if sees != "sliding":
            return None, None
        found = whole(self.config, ["sliding_window", "sliding_window_size"], self.notes)
        if found is None or (self.stated and found.value >= self.stated.value):
            return None, None
        return found.value, "sliding"

    def base(self, block: Block | None, local: bool) -> float:
        """The base that the model was trained with."""
        if local and self.blocks.nested is None:
            own = real(
                self.config, ["rope_local_base_freq", "local_rope_theta"], self.notes, above=1
            )
            if own:
                return own[0]
            if self.family.local_base:
                return self.family.local_base
        if self.blocks.dropped:
            return self.blocks.dropped
        base, key = read_base(self.config, block, self.family, self.notes)
        if not key and self.blocks.dialect == "transformers5":
            self.notes.add(
                "theta_missing",
                f"{block.where if block else 'rope_parameters'} has no rope_theta",
                f"transformers 5 takes the family's default, {base:g}; vLLM from 0.30 on fails",
            )
        return base

    def misread(self, block: Block | None, base: float, spectrum: Spectrum) -> Spectrum | None:
        """What transformers 5 makes of the base where one block replaces the other that has it."""
        if self.blocks.dropped is None or self.family.base == base:
            return None
        lost = self.family.base
        other = Spectrum.rope(2 * spectrum.pairs, lost)
        self.notes.add(
            "theta_dropped",
            f"rope_theta {base:g} stands in rope_parameters, and rope_scaling beside it has none",
            "transformers 5 takes rope_scaling in place of the whole of rope_parameters: the base "
            f"becomes {lost:g}, and the slowest wavelength {other.wavelengths[-1]:,.0f} tokens "
            "instead "
            f"of {spectrum.wavelengths[-1]:,.0f}: the model reads every position wrongly. Put "
            "rope_theta "
            "into the block, and keep one block",
        )
        return other

    def spectrum(self, block: Block | None, base: float, local: bool) -> Spectrum:
        """The plain spectrum: as many pairs as are turned."""
        inner = block.content if block else {}
        if inner.get("rope_type") == "proportional" or inner.get("type") == "proportional":
            head = self.head_dim(local=local)
            share = real(inner, ["partial_rotary_factor"], self.notes)
            kept = max(1, int((share[0] if share else 1.0) * head) // 2)
            return Spectrum(Spectrum.rope(head, base).inverse_frequencies[:kept])
        return Spectrum.rope(self.rotary_dim(inner, local), base)

    def rotary_dim(self, inner: Mapping[str, Any], local: bool) -> int:
        """Dimensions per head that are turned."""
        latent = whole(self.config, ["qk_rope_head_dim"], self.notes, most=WIDEST)
        if latent:
            return self.even(latent.value, latent.key)
        told = whole(self.config, ROTARY_DIMS, self.notes, most=WIDEST)
        shares = real(inner, SHARES, self.notes) or real(self.config, SHARES, self.notes)
        if told and not shares:
            return self.even(told.value, told.key)
        if self.family.rotary_dim and not shares:
            return self.family.rotary_dim
        share = shares[0] if shares else self.family.share
        if share > 1:
            self.notes.add(
                "share_above_one",
                f"{shares[1] if shares else ''} is {share:g}",
                "it is the part of the head that is turned, at most 1; read as 1",
            )
            share = 1.0
        return self.even(int(self.head_dim(local=local) * share), "the turned part of head_dim")

    def even(self, value: int, key: str) -> int:
        """The value, which must form pairs."""
        if value < 2 or value % 2:
            raise InputError(
                f"{self.source}: {key} is {value}; pairs of dimensions are turned, so it must be "
                "even "
                "and at least 2"
            )
        return value

    def head_dim(self, *, local: bool = True, required: bool = True) -> int:
        """Dimensions per head."""
        if not local:
            wide = whole(self.wider(), ["global_head_dim", "head_dim"], self.notes, most=WIDEST)
            if wide:
                return wide.value
        parts = [
            whole(self.config, [key], self.notes, most=WIDEST)
            for key in ("qk_rope_head_dim", "qk_nope_head_dim")
        ]
        if parts[0] and parts[1]:
            return parts[0].value + parts[1].value
        found = whole(self.config, HEAD_DIMS, self.notes, most=WIDEST)
        if found:
            return found.value
        hidden = whole(self.config, HIDDEN, self.notes)
        heads = whole(self.config, HEADS, self.notes, most=WIDEST)
        if hidden and heads and heads.value <= hidden.value <= heads.value * WIDEST:
            return hidden.value // heads.value
        if not required:
            return 0
        raise InputError(
            f"cannot tell the head dimension of {self.source}: looked for {', '.join(HEAD_DIMS)}, "
            "and "
            f"for one of {', '.join(HIDDEN)} over one of {', '.join(HEADS)}"
        )

    def wider(self) -> Mapping[str, Any]:
        """Where Gemma 4 says how wide heads are on layers that see all."""
        by_layer = self.config.get("per_layer_config")
        if isinstance(by_layer, Mapping):
            return next((each for each in by_layer.values() if isinstance(each, Mapping)), {})
        return {"global_head_dim": self.config.get("global_head_dim")}

    def latent(self) -> bool:
        """Whether attention is multi-head latent attention."""
        return self.family.latent or "kv_lora_rank" in self.config

    def temperature(self) -> str | None:
        """Llama 4's scaling of queries by position, on layers that are not turned."""
        if self.family.chunk is None or self.config.get("attn_temperature_tuning") in (False, 0):
            return None
        scale, floor = (as_float(self.config.get(key)) for key in ("attn_scale", "floor_scale"))
        return (
            f"queries are multiplied by 1 + {scale or 0.1:g} ln(1 + floor((position + 1) / "
            f"{floor or 8192:g})): a repair of Llama 4's own, of no rope type"
        )

    def own_dynamic(self) -> tuple[str, ...]:
        """What Qwen 1 does in its own code, past seq_length."""
        notes = []
        if self.config.get("use_dynamic_ntk") is True:
            notes.append(
                "use_dynamic_ntk: past the trained length NTK-aware by 2 ** ceil(log2(length / "
                "trained) + 1) - 1, which is 3 at twice and 7 at four times the length"
            )
        if self.config.get("use_logn_attn") is True:
            notes.append("use_logn_attn: queries are multiplied by log(position) / log(trained)")
        return tuple(notes)

    def scaled_queries(self, block: Block | None) -> str | None:
        """Mistral's scaling of queries by position, on top of YaRN."""
        beta = as_float(block.content.get("llama_4_scaling_beta")) if block else None
        if not beta:
            return None
        return (
            f"queries are multiplied by 1 + {beta:g} ln(1 + floor(position / original length)) "
            "besides"
        )

    def repair(self, block: Block, pairs: int, length: int | None) -> Repair | None:
        """The repair that the block asks for."""
        if length is None:
            self.notes.add(
                "length_unknown",
                f"{block.where} is there, but no key says how many tokens the model takes",
                f"a repair starts from the trained length; looked for {', '.join(WINDOWS)}; give "
                "--trained-length",
            )
            return None
        stated = self.stated.value if self.stated else None
        repair = read_repair(block, pairs, length, stated, self.notes)
        divides = self.config.get("model_type") in ("mistral", "mixtral")
        if repair and divides and repair.name in ("yarn", "dynamic", "longrope"):
            self.head_dim_given(repair)
        return repair

    def head_dim_given(self, repair: Repair) -> None:
        """Mistral's config classes leave head_dim empty, and the repair's arithmetic needs it."""
        if self.config.get("head_dim") is None:
            self.notes.add(
                "head_dim_null",
                f"head_dim is not given, beside a {repair.name} block",
                "transformers stops with a TypeError (Mixtral in 4.57.6 and 5.24.0, Mistral in "
                f"4.57.6); write head_dim {self.head_dim()}",
            )

    def starts_from(self, repair: Repair | None, length: int | None) -> int | None:
        """The repair's trained length; a dynamic one of transformers takes the stated."""
        if repair is None or repair.name != "dynamic" or self.stated is None or length is None:
            return length
        if self.stated.value > length:
            self.notes.add(
                "dynamic_window",
                f"a dynamic repair, {self.stated.key} {self.stated.value:,}, and a trained length "
                "of "
                f"{length:,}",
                f"transformers takes {self.stated.value:,} as the trained length of a dynamic "
                "repair: up "
                f"to there nothing is scaled, though the model was trained at {length:,}",
            )
        return self.stated.value

    def window_key(self, kind: WindowKind | None) -> str:
        """The key that a window's size stands under."""
        return "attention_chunk_size" if kind == "chunked" else "sliding_window"

    def trained(self, block: Block | None) -> tuple[int | None, str]:
        """Tokens of pre-training, before any extension, and what says so."""
        return (self.given, "given") if self.given else self._trained(block)

    def _trained(self, block: Block | None) -> tuple[int | None, str]:
        original = original_length(self.config, block, self.notes)
        stated = self.least_stated()
        if original:
            if stated and original[0] > stated.value:
                self.notes.add(
                    "original_above_stated",
                    f"{original[1]} is {original[0]:,}, above {stated.key}, {stated.value:,}",
                    "the length before an extension cannot be above the length after it",
                )
            return original
        if stated is None:
            return None, ""
        for known in self.family.windows:
            if known.stated == stated.value:
                return known.trained, known.source
        return self._before_interpolation(block, stated)

    def _before_interpolation(self, block: Block | None, stated: Found) -> tuple[int, str]:
        """The window of a model that is interpolated already, and whose config has one number.

        max_position_embeddings may be the length before (Vicuna 16k) or after (LongChat,
        DeepSeek-Coder). Models were hardly ever trained below 2,048 tokens, which tells most apart.
        """
        inner = block.content if block else {}
        kind = inner.get("rope_type") or inner.get("type")
        factor = as_float(inner.get("factor"))
        if kind != "linear" or factor is None or factor <= 1:
            return stated.value, stated.key
        before = stated.value / factor
        taken = int(before) if before.is_integer() and before >= 2048 else stated.value
        self.notes.add(
            "window_unclear",
            f"a linear repair by {factor:g}, and one window, {stated.key} {stated.value:,}",
            f"that is the length after the repair (trained at {before:,.0f}), or before it "
            "(reaching "
            f"{stated.value * factor:,.0f}; so vLLM reads it). Taken as trained: {taken:,}; give "
            "--trained-length if you know better",
        )
        return taken, stated.key if taken == stated.value else f"{stated.key} / factor"
