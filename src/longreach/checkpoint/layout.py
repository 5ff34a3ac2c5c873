"""What a checkpoint says about its positions: a Checkpoint of LayerGroups, and Problems found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..repairs import Repair
from ..spectrum import Extension, Spectrum

WindowKind = Literal["sliding", "chunked"]

Kind = Literal["rope", "nope", "alibi", "learned", "sinusoidal", "t5"]


@dataclass(frozen=True)
class Problem:
    """Something wrong, or dangerous, in a config.

    code: one word for programs, such as `factor_disagrees`.
    message: what is there, quoted. consequence: what it does, in numbers where there are any.
    """

    code: str
    message: str
    consequence: str


@dataclass(frozen=True)
class LayerGroup:
    """Layers that are told positions in the same way.

    layers: their indices, or None for all layers (also where the config does not say how many).
    trained_length: tokens over which these layers' positions were trained *before* any extension:
        with a window, no distance is larger than the window. None where nothing says.
    trained_length_source: the key, or the knowledge, that trained_length comes from.
    original_length: tokens before any extension, whatever the window: what a repair starts from.
    rotary_dim: dimensions per head that are turned. base: that of `spectrum`.
    spectrum: as in pre-training. misread: the plain spectrum that transformers makes of the config
        instead, where a mistake in it loses the base.
    repair: the repair that the config already asks for.
    softmax_factor: what multi-head latent attention multiplies its logits' scale by.
    window: tokens that a query sees at most. window_kind: whether they slide or come in chunks.
    slopes: ALiBi's, nats per token, one per head. limit: rows of a table of learned positions.
    buckets, max_distance: T5's.
    temperature: length-dependent scaling of queries that is no repair (Llama 4), in words.
    """

    layers: tuple[int, ...] | None
    kind: Kind
    trained_length: int | None = None
    trained_length_source: str = ""
    original_length: int | None = None
    rotary_dim: int | None = None
    base: float | None = None
    spectrum: Spectrum | None = None
    misread: Spectrum | None = None
    repair: Repair | None = None
    softmax_factor: float = 1.0
    window: int | None = None
    window_kind: WindowKind | None = None
    slopes: tuple[float, ...] | None = None
    limit: int | None = None
    buckets: int | None = None
    max_distance: int | None = None
    temperature: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def never_completed(self) -> int:
        """Pairs that did not finish one turn over the trained length."""
        if self.spectrum is None or self.trained_length is None:
            return 0
        return int(self.spectrum.never_completed(self.trained_length).sum())

    def used(self, length: int | None = None) -> Spectrum | None:
        """The spectrum as the config makes it for a context of so many tokens, repair included.

        length matters to repairs that depend on it (dynamic, longrope); the original length unless
        given.
        """
        if self.spectrum is None:
            return None
        plain = self.spectrum
        if self.misread is not None:
            plain = plain.repaired(self.misread.inverse_frequencies)
        if self.repair is None or self.original_length is None:
            return plain
        extension = Extension(self.original_length, length or self.original_length)
        return self.repair.apply(plain, extension)


@dataclass(frozen=True)
class Checkpoint:
    """A model's config, read.

    source: what the user named (a path, a hub id). model_type: as the config says.
    stated_length: how many tokens the config says the model takes; stated_key: which key says so.
        After an extension that is more than the trained length.
    head_dim: dimensions per head, turned or not.
    dialect: who would have written the config: `transformers4` (rope_theta, rope_scaling),
        `transformers5` (rope_parameters) or `gguf`.
    config: the text model's part of the config, as it stands.
    """

    source: str
    model_type: str
    groups: tuple[LayerGroup, ...]
    stated_length: int | None = None
    stated_key: str = ""
    head_dim: int | None = None
    dialect: Literal["transformers4", "transformers5", "gguf"] = "transformers4"
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problems: tuple[Problem, ...] = ()

    @property
    def rope(self) -> tuple[LayerGroup, ...]:
        """The groups that are turned."""
        return tuple(group for group in self.groups if group.kind == "rope")

    @property
    def unbounded(self) -> tuple[LayerGroup, ...]:
        """The turned groups whose distances grow with the context: those a repair is for."""
        return tuple(group for group in self.rope if group.window is None)
