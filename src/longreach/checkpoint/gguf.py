"""A GGUF file, as llama.cpp reads it, as a Checkpoint: from its metadata, never from its weights.

Facts that the file leaves to the program (which layers see a window, which are not turned) are
those of the model's family, in FAMILIES.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..biases import STEEPEST, alibi_slopes, mpt_slopes, t5_bucket_starts
from ..errors import InputError
from ..repairs import Repair, growth, longrope_amplitude, softmax_factor, yarn_amplitude
from ..spectrum import WIDEST, Extension, Spectrum, brief
from .families import FAMILIES, PLAIN, Family
from .gguf_header import Header, read_header
from .layers import DEEPEST, Layer, Sees
from .layout import Checkpoint, Kind, LayerGroup, WindowKind
from .reading import Found, Notes, as_float, real, whole

ARCHITECTURES = {
    "gptneox": "gpt_neox",
    "starcoder": "gpt_bigcode",
    "refact": "gpt_refact",
    "phi2": "phi",
    "command-r": "cohere",
    "gpt-oss": "gpt_oss",
    "deepseek2": "deepseek_v3",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "qwen2vl": "qwen2_vl",
    "qwen3next": "qwen3_next",
    "glm4moe": "glm4_moe",
    "exaone-moe": "exaone4",
    "mistral3": "mistral",
    "gemma4": "gemma4_text",
    "gemma-embedding": "gemma3",
    "hunyuan-dense": "hunyuan_v1_dense",
    "t5encoder": "t5",
    "seed_oss": "seed_oss",
}
"""llama.cpp's names of families that transformers calls otherwise."""

OTHERS = {
    "smallthinker": Family(period=4, nope="full"),
    "jina-bert-v2": Family(kind="alibi"),
    "granitehybrid": Family(kind=None),
}
"""Families of llama.cpp that FAMILIES does not list."""

SLIDES_LAST = frozenset({"smallthinker"})
"""Families whose period begins with the layer that sees all, not ends."""

ROPE_KEYS = (
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.dimension_sections",
)
"""Any of these, of an unknown architecture, says that it is turned."""

BASE = 10_000.0
"""What llama.cpp takes where a file has no base."""

INTERVAL = 4
"""Every so many layers one is not turned, in the families that do that; no file says how many."""

NOT_TURNED = 1e20
"""A divisor from which a pair counts as not turned: p-RoPE is written with divisors of 1e30."""


SAME_DIVISORS = 1e-4
"""A relative difference that comes from divisors of 32 bits, and from angles computed in them."""


def read_gguf(path: Path, *, trained_length: int | None = None) -> Checkpoint:
    """What a GGUF file says about positions.

    trained_length: tokens, where the file is wrong or silent about it.

    Raises InputError if the file cannot be read, or if it does not say how the model is told
    positions, naming the keys that were looked for.
    """
    header = read_header(path)
    architecture = header.metadata.get("general.architecture")
    part = header.metadata.get("split.no")
    if isinstance(part, int) and part > 0:
        raise InputError(
            f"{path} is part {part + 1} of {brief(header.metadata.get('split.count'))}, and what "
            "is looked for stands in part 1: give that"
        )
    if not isinstance(architecture, str) or not architecture:
        raise InputError(
            f"{path} has no general.architecture, so its other keys cannot be found; give another "
            "file, or the model's config.json"
        )
    reader = _Reader(header, architecture, Notes(), trained_length)
    groups = reader.groups()
    stated = reader.stated
    return Checkpoint(
        source=str(path),
        model_type=architecture,
        groups=groups,
        stated_length=stated.value if stated else None,
        stated_key=stated.key if stated else "",
        head_dim=reader.head_dim(required=False),
        dialect="gguf",
        config=header.metadata,
        problems=tuple(reader.notes.found),
    )


@dataclass
class _Reader:
    """One file being interpreted; made by `read_gguf`."""

    header: Header
    architecture: str
    notes: Notes
    given: int | None

    def __post_init__(self) -> None:
        name = self.architecture
        # OLMo 3 is written as OLMo 2 with a window.
        if name == "olmo2" and self.has("attention.sliding_window"):
            name = "olmo3"
        known = OTHERS.get(name) or FAMILIES.get(ARCHITECTURES.get(name, name))
        self.family = known or PLAIN
        self.stated = self.whole("context_length")
        self.latent = self.family.latent or self.has("attention.kv_lora_rank")

    def key(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def get(self, name: str) -> Any:
        return self.header.metadata.get(self.key(name))

    def has(self, name: str) -> bool:
        return self.key(name) in self.header.metadata

    def whole(self, name: str, *, least: int = 1, most: int | None = None) -> Found | None:
        """A whole number; zeros are how llama.cpp writes that there is none."""
        if self.get(name) == 0 and least > 0:
            return None
        bounds = {} if most is None else {"most": most}
        return whole(self.header.metadata, [self.key(name)], self.notes, least=least, **bounds)

    def real(self, name: str, *, above: float = 0.0) -> float | None:
        found = real(self.header.metadata, [self.key(name)], self.notes, above=above)
        return found[0] if found else None

    def groups(self) -> tuple[LayerGroup, ...]:
        kind = self.kind()
        if kind == "rope":
            return self.rope()
        group = LayerGroup(layers=None, kind=kind, **self.window())
        if kind == "alibi":
            return (replace(group, slopes=self.slopes()),)
        if kind == "learned":
            return (replace(group, limit=self.rows() or group.trained_length),)
        if kind == "t5":
            return (self.t5(group),)
        return (group,)

    def kind(self) -> Kind:
        """How the model is told positions."""
        if self.rows():
            return "learned"
        if self.has("attention.relative_buckets_count") or self.family.kind == "t5":
            return "t5"
        if self.alibi():
            return "alibi"
        if self.architecture == "granitehybrid":
            # Rotary only if this flag says so.
            return "rope" if self.get("rope.scaling.finetuned") is True else "nope"
        if self.family.kind and self.family.kind != "alibi":
            return self.family.kind
        if any(self.has(name) for name in ROPE_KEYS):
            return "rope"
        looked = ", ".join(
            self.key(name)
            for name in (
                *ROPE_KEYS,
                "attention.max_alibi_bias",
                "attention.relative_buckets_count",
            )
        )
        raise InputError(
            f"cannot tell how {self.header.path} is told positions: its general.architecture, "
            f"{brief(self.architecture)}, is not a known one, and there is none of {looked}, "
            "nor a tensor position_embd.weight"
        )

    def alibi(self) -> bool:
        if self.has("attention.max_alibi_bias"):
            return self.real("attention.max_alibi_bias", above=-1.0) not in (None, 0.0)
        if self.family.alibi:
            # Baichuan's 13B has it, and no key that says so.
            width, heads = self.get("embedding_length"), self.get("attention.head_count")
            return self.family.alibi({"hidden_size": width, "num_attention_heads": heads})
        return self.family.kind == "alibi"

    def rows(self) -> int | None:
        """Rows of the table of learned positions, if there is one."""
        table = self.header.tensors.get("position_embd.weight")
        if table is None or len(table.shape) != 2 or not 0 < table.shape[1] < 2**40:
            return None
        return table.shape[1]

    def window(self) -> dict[str, Any]:
        """Trained length and its source, for kinds that have no rope keys."""
        if self.given:
            return {"trained_length": self.given, "trained_length_source": "given"}
        if self.stated:
            return {"trained_length": self.stated.value, "trained_length_source": self.stated.key}
        rows = self.rows()
        if rows:
            return {"trained_length": rows, "trained_length_source": "position_embd.weight"}
        return {}

    def heads(self) -> int | None:
        """Heads of attention; the most of any layer where layers differ."""
        value = self.get("attention.head_count")
        if isinstance(value, list):
            counts = [each for each in value if type(each) is int and 0 < each <= WIDEST]
            return max(counts, default=None)
        found = self.whole("attention.head_count", most=WIDEST)
        return found.value if found else None

    def slopes(self) -> tuple[float, ...] | None:
        heads = self.heads()
        if heads is None:
            return None
        steepest = self.real("attention.max_alibi_bias") or 8.0
        if steepest > STEEPEST:
            self.notes.add(
                "wrong_type",
                f"{self.key('attention.max_alibi_bias')} is {steepest:g}",
                f"a number of at most {STEEPEST} belongs there; the slopes shown are those of 8",
            )
            steepest = 8.0
        if self.architecture == "mpt":
            return tuple(mpt_slopes(heads, steepest))
        return tuple(slope ** (steepest / 8) for slope in alibi_slopes(heads))

    def t5(self, group: LayerGroup) -> LayerGroup:
        found = self.whole("attention.relative_buckets_count", least=4, most=WIDEST)
        buckets, farthest = found.value if found else 32, 128
        try:
            t5_bucket_starts(buckets, farthest)
        except InputError as error:
            self.notes.add("t5_buckets", str(error), "the default, 32, is shown")
            buckets = 32
        note = "a GGUF file has no key for max_distance; llama.cpp takes 128, as T5 does"
        return replace(group, buckets=buckets, max_distance=farthest, notes=(note,))

    def head_dim(self, *, local: bool = False, required: bool = True) -> int | None:
        """Dimensions per head."""
        names = ["attention.key_length_mla", "attention.key_length"]
        for name in ["attention.key_length_swa", *names] if local else names:
            found = self.whole(name, most=WIDEST)
            if found:
                return found.value
        width, heads = self.whole("embedding_length"), self.heads()
        if width and heads and heads <= width.value <= heads * WIDEST:
            return width.value // heads
        if not required:
            return None
        raise InputError(
            f"cannot tell the head dimension of {self.header.path}: looked for "
            f"{', '.join(self.key(name) for name in names)}, and for "
            f"{self.key('embedding_length')} over {self.key('attention.head_count')}"
        )

    def rope(self) -> tuple[LayerGroup, ...]:
        """One group per way of being told positions."""
        members: dict[Layer, list[int]] = {}
        for index, layer in enumerate(self.layers()):
            members.setdefault(self.plainest(layer), []).append(index)
        made = {layer: self.group(layer) for layer in members}
        if len(made) == 1:
            return tuple(made.values())
        return tuple(replace(made[layer], layers=tuple(members[layer])) for layer in members)

    def plainest(self, layer: Layer) -> Layer:
        """The layer, with a window only where that is one, or where more than that is different."""
        own = self.family.local_base or self.has("rope.freq_base_swa")
        if layer.sees != "sliding" or self.sliding() or own or not self.family.local_repair:
            return layer
        return Layer("all", layer.turned)

    def layers(self) -> list[Layer]:
        """Every layer in order; one that stands for all where the file does not say how many."""
        blocks = self.get("block_count")
        if isinstance(blocks, int) and blocks > DEEPEST:
            raise InputError(f"{self.header.path} has more than {DEEPEST:,} layers; no model has")
        found = self.whole("block_count", most=DEEPEST)
        sees = self.sees(found.value if found else 1)
        if self.family.nope == "interval" and self.get("attention.sliding_window") != 0:
            turned = [(index + 1) % INTERVAL != 0 for index in range(len(sees))]
        elif self.family.nope == "full" and "sliding" in sees:
            turned = [each == "sliding" for each in sees]
        else:
            turned = [each != "nothing" for each in sees]
        return [Layer(*each) for each in zip(sees, turned, strict=True)]

    def sees(self, count: int) -> list[Sees]:
        """What each layer's attention reaches."""
        kv_heads = self.get("attention.head_count_kv")
        if isinstance(kv_heads, list) and len(kv_heads) == count and 0 in kv_heads:
            # Hybrids: a layer without heads is no attention.
            return ["nothing" if heads == 0 else "all" for heads in kv_heads]
        interval = self.whole("full_attention_interval", most=DEEPEST)
        if interval or self.architecture == "qwen3next":
            period = interval.value if interval else 4
            return ["nothing" if (i + 1) % period else "all" for i in range(count)]
        if self.family.chunk and self.family.nope == "interval":
            chunked = self.get("attention.sliding_window") != 0
            return ["chunked" if chunked and (i + 1) % INTERVAL else "all" for i in range(count)]
        if self.whole("attention.sliding_window") is None:
            return ["all"] * count
        pattern = self.get("attention.sliding_window_pattern")
        if isinstance(pattern, list):
            if len(pattern) != count:
                raise InputError(
                    f"{self.header.path}: {self.key('attention.sliding_window_pattern')} has "
                    f"{len(pattern)} entries, and {self.key('block_count')} is {count}; one per "
                    "layer belongs there"
                )
            return ["sliding" if each else "all" for each in pattern]
        found = self.whole("attention.sliding_window_pattern", most=DEEPEST)
        period = found.value if found else self.family.period or 0
        if not period:
            return ["sliding"] * count
        full = 0 if self.architecture in SLIDES_LAST else period - 1
        return ["all" if i % period == full else "sliding" for i in range(count)]

    def sliding(self) -> int | None:
        """The window of sliding layers, if there is one below what the file states."""
        found = self.whole("attention.sliding_window")
        if found is None or (self.stated and found.value >= self.stated.value):
            return None
        if self.architecture == "phi3":
            self.notes.add(
                "window_ignored",
                f"{found.key} is {found.value:,}",
                "the model was trained with that window; llama.cpp does not apply it to phi3, and "
                "lets every layer see all",
            )
        return found.value

    def group(self, layer: Layer) -> LayerGroup:
        window, kind = self.reach(layer.sees)
        if not layer.turned:
            return LayerGroup(
                layers=None,
                kind="nope",
                **self.window(),
                window=window,
                window_kind=kind,
                temperature=self.temperature(),
                notes=("not attention: no positions",) if layer.sees == "nothing" else (),
            )
        local = layer.sees == "sliding"
        base = self.base(local)
        spectrum = self.spectrum(base, local)
        original, source = self.trained(spectrum)
        trained, repair = original, None
        if self.family.local_repair or not local:
            repair = self.repair(spectrum, original)
        if window and (original is None or window < original):
            trained, source = window, self.key("attention.sliding_window")
            if kind == "chunked":
                source = "attention in chunks, as in all of the family"
        factor = 1.0
        if repair and repair.name == "yarn" and self.latent:
            factor = softmax_factor(repair.options["factor"], repair.options.get("mscale_all_dim"))
        return LayerGroup(
            layers=None,
            kind="rope",
            trained_length=trained,
            trained_length_source=source,
            original_length=original,
            rotary_dim=2 * spectrum.pairs,
            base=base,
            spectrum=spectrum,
            repair=repair,
            softmax_factor=factor,
            window=window,
            window_kind=kind,
        )

    def reach(self, sees: Sees) -> tuple[int | None, WindowKind | None]:
        """The window of a layer, if it has one."""
        if sees == "chunked":
            return self.family.chunk, "chunked"
        return (self.sliding(), "sliding") if sees == "sliding" else (None, None)

    def temperature(self) -> str | None:
        """Llama 4's scaling of queries by position, on layers that are not turned."""
        if self.family.chunk is None:
            return None
        return (
            "queries are multiplied by 1 + 0.1 ln(1 + floor((position + 1) / 8192)): a repair of "
            "Llama 4's own, of no rope type"
        )

    def base(self, local: bool) -> float:
        own = self.real("rope.freq_base_swa", above=1) if local else None
        if local and own is None:
            own = self.family.local_base
        return own or self.real("rope.freq_base", above=1) or BASE

    def spectrum(self, base: float, local: bool) -> Spectrum:
        """The plain spectrum: as many pairs as are turned."""
        found = self.whole("rope.dimension_count_swa", most=WIDEST) if local else None
        found = found or self.whole("rope.dimension_count", most=WIDEST)
        turned = found.value if found else self.head_dim(local=local) or 0
        key = found.key if found else "the head dimension"
        if turned < 2 or turned % 2:
            raise InputError(
                f"{self.header.path}: {key} is {turned}; pairs of dimensions are turned, so it "
                "must be even and at least 2"
            )
        plain = Spectrum.rope(turned, base)
        divisors = None if local else self.divisors
        if divisors is not None and len(divisors) == plain.pairs:
            kept = int((divisors < NOT_TURNED).sum())
            if 0 < kept < plain.pairs and (divisors[:kept] < NOT_TURNED).all():
                return Spectrum(plain.inverse_frequencies[:kept])
        return plain

    @cached_property
    def divisors(self) -> NDArray[np.float64] | None:
        """What each pair's speed is divided by, if the file says so."""
        found = self.header.read("rope_freqs.weight")
        return None if found is None else np.array(found)

    def trained(self, plain: Spectrum) -> tuple[int | None, str]:
        """Tokens of pre-training, whatever window a layer has, and what says so."""
        if self.given:
            return self.given, "given"
        original = self.whole("rope.scaling.original_context_length")
        if original:
            if self.stated and original.value > self.stated.value:
                self.notes.add(
                    "original_above_stated",
                    f"{original.key} is {original.value:,}, above {self.stated.key}, "
                    f"{self.stated.value:,}",
                    "the length before an extension cannot be above the length after it",
                )
            return original.value, original.key
        recovered = self.llama3(plain)
        if recovered:
            return recovered[1], "rope_freqs.weight: Llama 3's divisors for that length"
        if self.stated is None:
            return None, ""
        for known in self.family.windows:
            if known.stated == self.stated.value:
                return known.trained, known.source
        return self.before_interpolation(self.stated)

    def before_interpolation(self, stated: Found) -> tuple[int, str]:
        """The window of a model that is interpolated already: the same guess as for a config."""
        factor = self.factor()
        if self.scaling_type() != "linear" or factor is None or factor <= 1:
            return stated.value, stated.key
        before = stated.value / factor
        taken = int(before) if before.is_integer() and before >= 2048 else stated.value
        self.notes.add(
            "window_unclear",
            f"a linear repair by {factor:g}, and one window, {stated.key} {stated.value:,}",
            f"that is the length after the repair (trained at {before:,.0f}), or before it "
            f"(reaching {stated.value * factor:,.0f}). Taken as trained: {taken:,}; give "
            "--trained-length if you know better",
        )
        return taken, stated.key if taken == stated.value else f"{stated.key} / factor"

    def scaling_type(self) -> str:
        """llama.cpp takes a factor without a type as linear."""
        value = self.get("rope.scaling.type")
        if value in (None, "linear", "yarn", "none", "longrope"):
            return value or "linear"
        self.notes.add(
            "unknown_type",
            f"{self.key('rope.scaling.type')} is {brief(value)}",
            "llama.cpp knows none, linear, yarn and longrope, and stops; here read as no repair",
        )
        return "none"

    def factor(self) -> float | None:
        name = "rope.scaling.factor" if self.has("rope.scaling.factor") else "rope.scale_linear"
        return None if self.get(name) == 0 else self.real(name)

    def repair(self, plain: Spectrum, trained: int | None) -> Repair | None:
        """The repair that the file asks for; None if it asks for none, or for a broken one."""
        try:
            found = self.asked(plain, trained)
            if found:
                length = trained or 1
                found.apply(plain, Extension(length, 2 * length))
            return found
        except InputError as error:
            where = self.key("rope.scaling")
            self.notes.add("bad_option", f"{where}: {error}", "the repair cannot be applied")
            return None

    def asked(self, plain: Spectrum, trained: int | None) -> Repair | None:
        divisors = self.divisors
        if divisors is not None:
            return self.divided(plain, divisors)
        kind, factor = self.scaling_type(), self.factor()
        longer = self.header.read("rope_factors_long.weight")
        if longer is not None:
            return self.longrope(longer, trained)
        if kind == "longrope":
            self.notes.add(
                "missing_tensor",
                f"{self.key('rope.scaling.type')} is longrope, and there is no tensor "
                "rope_factors_long.weight",
                "llama.cpp turns every pair as without a repair",
            )
            return None
        if kind == "none":
            if factor not in (None, 1.0) and self.get("rope.scaling.type") == "none":
                self.notes.add(
                    "factor_ignored",
                    f"{self.key('rope.scaling.factor')} is {factor:g}, of the type none",
                    "positions are not scaled: the factor does nothing",
                )
            return None
        if factor is None or factor == 1:
            return None
        if factor < 1:
            self.notes.add(
                "factor_below_one",
                f"{self.key('rope.scaling.factor')} is {factor:g}",
                "a factor is target over trained length. Below 1 it makes pairs turn "
                f"{1 / factor:g} times faster; the inverse, {1 / factor:g}, was probably meant "
                "(--rope-freq-scale is the inverse)",
            )
            return None
        return (
            Repair("linear", {"factor": factor})
            if kind == "linear"
            else self.yarn(factor, plain, trained)
        )

    def divided(self, plain: Spectrum, divisors: NDArray[np.float64]) -> Repair | None:
        """A repair written as one divisor per pair."""
        turned = divisors[divisors < NOT_TURNED]
        if len(turned) != plain.pairs:
            raise InputError(
                f"rope_freqs.weight has {len(divisors)} divisors, and {plain.pairs} pairs are "
                "turned"
            )
        if (turned == 1).all():
            return None
        recovered = self.llama3(plain)
        if recovered:
            return recovered[0]
        both = turned.tolist()
        return Repair(
            "longrope", {"long_factor": both, "short_factor": both, "attention_factor": 1.0}
        )

    def llama3(self, plain: Spectrum) -> tuple[Repair, int] | None:
        """Llama 3's repair and the length it is for, if the divisors are exactly its.

        The file has the divisors alone. Between its two corners, Llama 3 keeps a part of a pair's
        speed that is linear in the pair's turns, so two pairs give both corners over the length.
        With the lower corner at one turn, as in all releases, that gives the length. Whether it is
        Llama 3's at all, the other pairs tell.
        """
        divisors = self.divisors
        if divisors is None or len(divisors) != plain.pairs or not (divisors >= 1).all():
            return None
        factor = float(divisors.max())
        if not 1 < factor < NOT_TURNED:
            return None
        kept = (1 / divisors - 1 / factor) / (1 - 1 / factor)
        between = np.flatnonzero((kept > 1e-3) & (kept < 1 - 1e-3))
        if len(between) < 2:
            return None
        # kept = rise * turns per token - start, where start = low / (high - low).
        per_token = plain.turns(1)
        steep, flat = between[0], between[-1]
        rise = (kept[steep] - kept[flat]) / (per_token[steep] - per_token[flat])
        start = rise * per_token[flat] - kept[flat]
        if not (np.isfinite(rise) and rise > 0 and start > 0):
            return None
        high = float(f"{1 + 1 / start:.4g}")
        length = round(rise * (high - 1))
        options = {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": high}
        try:
            found = Repair("llama3", options)
            made = found.apply(plain, Extension(length, 2 * length))
        except InputError:
            return None
        alike = np.abs(made.speed_kept * divisors - 1).max() < SAME_DIVISORS
        return (found, length) if alike else None

    def longrope(self, longer: list[float], trained: int | None) -> Repair:
        """LongRoPE, whose lists stand in two tensors, and its amplitude in a key."""
        options: dict[str, Any] = {"long_factor": longer}
        shorter = self.header.read("rope_factors_short.weight")
        if shorter is not None:
            options["short_factor"] = shorter
        amplitude = self.real("rope.scaling.attn_factor") or 1.0
        implied = self.stated.value / trained if self.stated and trained else 1.0
        if implied > 1 and _same(amplitude, longrope_amplitude(implied, trained or 1)):
            # Said as a config says it.
            return Repair("longrope", {**options, "factor": implied})
        return Repair("longrope", {**options, "attention_factor": amplitude})

    def yarn(self, factor: float, plain: Spectrum, trained: int | None) -> Repair:
        """YaRN; llama.cpp has an amplitude of its own for each of the ways it is written."""
        options: dict[str, Any] = {"factor": factor}
        extrapolated = as_float(self.get("rope.scaling.yarn_ext_factor"))
        if extrapolated == 0:
            return Repair("linear", options)
        if extrapolated is not None and extrapolated not in (1.0, -1.0):
            self.notes.add(
                "ext_factor",
                f"{self.key('rope.scaling.yarn_ext_factor')} is {extrapolated:g}",
                "llama.cpp blends by that much; here read as 1, the whole ramp",
            )
        for name in ("beta_fast", "beta_slow"):
            value = self.real(f"rope.scaling.yarn_{name}")
            if value is not None:
                options[name] = value
        written = self.real("rope.scaling.yarn_log_multiplier")
        if written:
            # DeepSeek's converter writes a tenth of mscale_all_dim, Mistral 3's the whole.
            share = float(f"{written * 10:.6g}") if self.latent else written
            options["mscale"] = share if self.latent else 1.0
            options["mscale_all_dim"] = share
        kept = self.real("rope.scaling.attn_factor") or 1.0
        if kept != 1:
            options["attention_factor"] = kept * yarn_amplitude(
                factor, None, options.pop("mscale", None), options.get("mscale_all_dim")
            )
        amplitude = self.real("rope.scaling.yarn_attn_factor")
        if amplitude and not _same(amplitude, growth(factor)):
            options["attention_factor"] = amplitude
            self.notes.add(
                "amplitude_recomputed",
                f"{self.key('rope.scaling.yarn_attn_factor')} is {amplitude:g}",
                "that is what the model was trained with; llama.cpp computes "
                f"{growth(factor):.6f} from the factor, and takes that",
            )
        if self.architecture == "gpt-oss":
            self.unrounded(options, plain, trained)
        return Repair("yarn", options)

    def unrounded(self, options: dict[str, Any], plain: Spectrum, trained: int | None) -> None:
        """Notes what rounding does to a model that was trained without."""
        extension = Extension(trained or 1, 2 * (trained or 1))
        rounded = Repair("yarn", options).apply(plain, extension)
        exact = Repair("yarn", {**options, "truncate": False}).apply(plain, extension)
        change = np.abs(rounded.inverse_frequencies / exact.inverse_frequencies - 1).max()
        self.notes.add(
            "corners_rounded",
            "the model was trained with a ramp whose corners are not rounded (truncate: false), "
            "which a GGUF file has no key for",
            "llama.cpp rounds them outward to whole pairs, as here, and turns a pair by up to "
            f"{change:.0%} otherwise than in training",
        )


def _same(one: float, other: float) -> bool:
    """Whether two numbers are one, but for what a float of 32 bits cannot hold."""
    return abs(one - other) <= 1e-6 * abs(other)
