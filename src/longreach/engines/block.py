"""The rope block, the form in which most engines take a repair: made, and put in its place.

Names are those of transformers; an engine that reads others translates them in its own file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..checkpoint.blocks import BASES
from ..checkpoint.families import FAMILIES, PLAIN
from ..checkpoint.layout import Checkpoint, LayerGroup
from ..checkpoint.reading import as_float
from ..repairs import Repair
from ..spectrum import Extension, Spectrum

Block = dict[str, Any]

ORIGINAL = "original_max_position_embeddings"
STATED = "max_position_embeddings"

YARN_OPTIONS = (
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
)

# transformers 5 keeps a block per layer type for these even where the config has one for all: the
# repair is for full attention alone. Read in 5.24.0.
LOCAL = "sliding_attention"
FULL = "full_attention"


@dataclass(frozen=True)
class Asked:
    """What is to be expressed, in numbers: a repair of a model's full-attention layers.

    repair: with the options that the model's own block fixes (see `completed`).
    """

    checkpoint: Checkpoint
    group: LayerGroup
    repair: Repair
    extension: Extension

    @classmethod
    def of(cls, checkpoint: Checkpoint, repair: Repair, extension: Extension) -> Asked:
        """For the first group of layers whose distances grow with the context."""
        group = checkpoint.unbounded[0]
        return cls(checkpoint, group, completed(repair, group), extension)

    @property
    def config(self) -> Mapping[str, Any]:
        """The model's config; empty for a GGUF file, which has other keys."""
        return {} if self.checkpoint.dialect == "gguf" else self.checkpoint.config

    @property
    def plain(self) -> Spectrum:
        """As in pre-training."""
        assert self.group.spectrum is not None
        return self.group.spectrum

    @cached_property
    def used(self) -> Spectrum:
        """As the repair makes it, at the target length."""
        return self.repair.apply(self.plain, self.extension)

    @property
    def window(self) -> int:
        """Tokens in pre-training."""
        return self.extension.trained_length

    @property
    def factor(self) -> float:
        """Target over trained length, unless the repair has a factor of its own."""
        given = self.repair.options.get("factor")
        return float(self.extension.factor if given is None else given)

    @property
    def reach(self) -> int:
        """The max-length setting that goes with the repair, in tokens.

        Where lengths are divided again to find the factor, it must be factor * window.
        """
        if self.repair.name in ("linear", "yarn", "llama3", "ntk_by_parts"):
            return round(self.factor * self.window)
        return self.extension.target_length

    @property
    def base(self) -> float:
        """The base to write down: that of the repaired spectrum if it has one, else the model's."""
        if self.repair.name in ("ntk", "base") and self.used.base is not None:
            return self.used.base
        return float(self.plain.base or self.group.base or 10_000.0)

    @property
    def changes_base(self) -> bool:
        """Whether the repair is a change of base and nothing else."""
        return self.repair.name in ("ntk", "base")

    @property
    def latent(self) -> bool:
        """Whether attention is multi-head latent, whose softmax has a factor of its own."""
        checkpoint = self.checkpoint
        return "qk_rope_head_dim" in checkpoint.config or checkpoint.model_type == "deepseek2"

    @property
    def share(self) -> float | None:
        """The turned part of a head, where it is not the whole: `partial_rotary_factor`."""
        head, turned = self.checkpoint.head_dim, self.group.rotary_dim
        if self.latent or not head or turned is None or turned >= head:
            return None
        return turned / head

    @property
    def per_pair(self) -> list[float]:
        """By how much each pair is slowed. Nine digits: more than float32 holds."""
        slowed = self.plain.inverse_frequencies / self.used.inverse_frequencies
        return [float(f"{each:.9g}") for each in slowed]

    @property
    def amplitude(self) -> float:
        """What the repair multiplies cos and sin by."""
        return self.used.amplitude / self.plain.amplitude

    def option(self, name: str, default: Any = None) -> Any:
        """An option of the repair."""
        found = self.repair.options.get(name)
        return default if found is None else found

    @property
    def static(self) -> bool:
        """Whether one spectrum serves every length."""
        return self.repair.name not in ("dynamic", "dynamic_yarn")

    @property
    def native(self) -> Block | None:
        """A block with transformers' own `rope_type`, without its base; None if there is none."""
        name, factor = self.repair.name, self.factor
        if self.changes_base:
            return {"rope_type": "default"}
        if name == "linear":
            return {"rope_type": name, "factor": factor}
        if name == "dynamic":
            return {"rope_type": name, "factor": float(self.option("factor", 1.0))}
        if name == "yarn" and self.option("ramp", "index") == "index":
            given = {key: self.option(key) for key in YARN_OPTIONS if self.option(key) is not None}
            return {"rope_type": name, "factor": factor, ORIGINAL: self.window, **given}
        if name == "llama3":
            return {
                "rope_type": name,
                "factor": factor,
                "low_freq_factor": float(self.option("low_freq_factor", 1.0)),
                "high_freq_factor": float(self.option("high_freq_factor", 4.0)),
                ORIGINAL: self.window,
            }
        if name == "longrope":
            short = self.option("short_factor", [1.0] * self.plain.pairs)
            return self._lists(list(short), list(self.option("long_factor")))
        return None

    @property
    def pairwise(self) -> Block | None:
        """A `longrope` block with the repair's factor of every pair, the same at every length.

        Exactly the repair, where one spectrum serves all lengths. None where it does not.
        """
        if not self.static or self.repair.name == "longrope":
            return None
        return self._lists(self.per_pair, self.per_pair)

    def _lists(self, short: list[float], long: list[float]) -> Block:
        return {
            "rope_type": "longrope",
            "factor": self.factor,
            ORIGINAL: self.window,
            "attention_factor": self.amplitude,
            "short_factor": short,
            "long_factor": long,
        }


def completed(repair: Repair, group: LayerGroup) -> Repair:
    """The repair with mscale and mscale_all_dim of the model's own YaRN, unless it says otherwise.

    DeepSeek's weights were trained with them, and its softmax reads them too.
    """
    had = group.repair
    if repair.name != "yarn" or had is None or had.name != "yarn":
        return repair
    kept = {key: had.options[key] for key in ("mscale", "mscale_all_dim") if key in had.options}
    if any(repair.options.get(key) is not None for key in (*kept, "attention_factor")):
        return repair
    return replace(repair, options={**repair.options, **kept})


def base_key(config: Mapping[str, Any], model_type: str) -> str:
    """The top-level key that transformers 4 reads a base from."""
    if model_type == "gpt_neox":
        return "rotary_emb_base"
    return next((key for key in BASES if key in config), "rope_theta")


def default_base(model_type: str) -> float:
    """The base that transformers assumes for a family whose config says none."""
    return FAMILIES.get(model_type, PLAIN).base


def by_layer_type(asked: Asked) -> bool:
    """Whether transformers 5 keeps a block per layer type for this model."""
    block = asked.config.get("rope_parameters")
    if isinstance(block, Mapping) and any(isinstance(each, Mapping) for each in block.values()):
        return True
    return not FAMILIES.get(asked.checkpoint.model_type, PLAIN).local_repair


def version4(asked: Asked, block: Block, stated: int | None) -> Block:
    """In the places where transformers 4 looks: base and block beside each other."""
    config, checkpoint = asked.config, asked.checkpoint
    placed: Block = {} if stated is None else {STATED: stated}
    placed.update(_head_dim(asked))
    key = base_key(config, checkpoint.model_type)
    if asked.changes_base or config.get(key) is None:
        placed[key] = asked.base
    if asked.share is not None and checkpoint.dialect != "transformers4":
        placed["partial_rotary_factor"] = asked.share
    if block["rope_type"] == "longrope":
        placed[ORIGINAL] = asked.window
    block = {**block, **_kept(asked)}
    if set(block) != {"rope_type"} or block["rope_type"] != "default":
        placed["rope_scaling"] = block
    elif config.get("rope_scaling"):
        placed["rope_scaling"] = None
    return placed


def version5(asked: Asked, block: Block, stated: int | None) -> Block:
    """In the place where transformers 5 looks: base and block in one, by layer type if it is."""
    config = asked.config
    placed: Block = {} if stated is None else {STATED: stated}
    placed.update(_head_dim(asked))
    if ORIGINAL in config and ORIGINAL in block:
        placed[ORIGINAL] = asked.window  # It is taken before the one in the block.
    if config.get("rope_scaling"):
        placed["rope_scaling"] = None  # It would replace the whole block.
    placed["rope_parameters"] = parameters(asked, block)
    return placed


def parameters(asked: Asked, block: Block) -> Block:
    """The block with its base and turned part; nested where other layers keep theirs."""
    share = {} if asked.share is None else {"partial_rotary_factor": asked.share}
    flat = {**block, **_kept(asked), "rope_theta": asked.base, **share}
    if not by_layer_type(asked):
        return flat
    found = asked.config.get("rope_parameters")
    had = found if isinstance(found, Mapping) else {}
    others = {key: dict(each) for key, each in had.items() if isinstance(each, Mapping)}
    if LOCAL not in others:
        family = FAMILIES.get(asked.checkpoint.model_type, PLAIN)
        local = asked.config.get("rope_local_base_freq") or asked.config.get("local_rope_theta")
        base = float(as_float(local) or family.local_base or asked.plain.base or family.base)
        others[LOCAL] = {"rope_type": "default", "rope_theta": base}
    return {**others, FULL: flat}


def _kept(asked: Asked) -> Block:
    """What the model's own block says besides a repair, and a new one must go on saying."""
    had = asked.config.get("rope_scaling") or asked.config.get("rope_parameters")
    if not isinstance(had, Mapping):
        return {}
    return {key: had[key] for key in ("mrope_section", "mrope_interleaved") if key in had}


def _head_dim(asked: Asked) -> Block:
    """head_dim, where a config without one stops transformers (Mistral and Mixtral: TypeError)."""
    if asked.checkpoint.model_type not in ("mistral", "mixtral"):
        return {}
    if asked.config.get("head_dim") is not None or asked.checkpoint.head_dim is None:
        return {}
    return {"head_dim": asked.checkpoint.head_dim}


def merged(config: Mapping[str, Any], block: Mapping[str, Any]) -> Block:
    """The config with the block in it: keys of the block replace the config's."""
    return {**config, **block}
