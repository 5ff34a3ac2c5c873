"""Recipe: how a model is to be adapted, checked before anything is loaded and against the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import torch

from ..errors import InputError
from ..repairs import Repair
from .loading import DTYPES, Pretrained

FULL_RATE, LORA_RATE = 2e-5, 2e-4
"""Learning rates unless given, chosen and not tuned; LoRA's few weights start from nothing, and are
usually given ten times as much."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is to be adapted. Lengths are in tokens.

    repair: None to train at the new length without one, to compare with. text: a corpus or a path.
    length: of the windows that are read; the target length unless given, with PoSE the trained one.
    pose: skipped positions, so that short windows cover long distances (see `pose.skipped`). lora:
    rank of the matrices that are trained beside attention's and merged in the end; None trains all
    weights. batch: windows per step, over all devices. learning_rate: after `warmup` steps that
    lead up to it; constant then. dtype: of passes, float32 or bfloat16, which is what they are in
    on a GPU unless said otherwise; weights that are trained are in float32 all the same.
    checkpointing: layers compute anew in the backward pass what they would have to keep.

    Raises InputError for what no model could be adapted by.
    """

    repair: Repair | None
    target_length: int
    steps: int
    text: str
    length: int | None = None
    pose: bool = False
    lora: int | None = None
    batch: int = 1
    learning_rate: float | None = None
    warmup: int = 20
    seed: int = 0
    dtype: str | None = None
    checkpointing: bool = True

    def __post_init__(self) -> None:
        least = {"steps": self.steps, "batch": self.batch, "target-length": self.target_length}
        for option, value in least.items():
            if value < 1:
                raise InputError(f"--{option} must be at least 1, got {value}")
        if self.warmup < 0:
            raise InputError(f"--warmup must be at least 0, got {self.warmup}")
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise InputError(
                f"--learning-rate must be above 0 and below 1, got {self.learning_rate:g}"
            )
        if self.dtype not in (None, "float32", "bfloat16"):
            raise InputError(f"--dtype must be float32 or bfloat16, got '{self.dtype}'")
        if self.pose and self.repair is not None and self.repair.name.startswith("dynamic"):
            raise InputError(
                f"--pose cannot go with {self.repair.name}: the repair follows the longest "
                "position met so far, which skips make jump from step to step; take a static one, "
                "such as yarn"
            )
        if self.lora is not None:
            if self.lora < 1:
                raise InputError(f"--lora takes a rank of at least 1, got {self.lora}")
            if find_spec("peft") is None:
                raise InputError(
                    "--lora needs the package peft: pip install 'longreach[pretrained]'"
                )

    @property
    def window(self) -> int:
        """Tokens that are read at once, once `of` a model."""
        assert self.length is not None
        return self.length

    @property
    def passes(self) -> torch.dtype:
        """Of passes, once `of` a model."""
        assert self.dtype is not None
        return DTYPES[self.dtype]

    @property
    def held(self) -> torch.dtype:
        """Of weights: in bfloat16 most steps of training would be lost to rounding."""
        return torch.float32 if self.lora is None else self.passes

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        full = self.learning_rate or (FULL_RATE if self.lora is None else LORA_RATE)
        return full * min(1.0, (step + 1) / max(1, self.warmup))

    def of(self, loaded: Pretrained, *, cpu: bool = False) -> Recipe:
        """For a model, with everything that goes without saying.

        cpu: where it will be trained, whatever other devices there are.

        Raises InputError if it cannot be adapted so.
        """
        trained, target = loaded.trained_length, self.target_length
        if target <= trained:
            raise InputError(
                f"--target-length is {target:,}, not above what {loaded.name} was trained at, "
                f"{trained:,} tokens"
            )
        if loaded.limit is not None and loaded.limit < target:
            raise InputError(
                f"{loaded.name} has a table of {loaded.limit:,} positions, and none for "
                f"{target:,} tokens: longer ones need a longer table, which is not made here"
            )
        length = (trained if self.pose else target) if self.length is None else self.length
        if not 2 <= length <= target:
            raise InputError(f"--length must be from 2 to the target length, got {length:,}")
        if self.pose:
            self._check_pose(loaded, length)
        wide = cpu or not (torch.cuda.is_available() and torch.cuda.is_bf16_supported())
        dtype = self.dtype or ("float32" if wide else "bfloat16")
        return replace(self, length=length, dtype=dtype)

    def _check_pose(self, loaded: Pretrained, length: int) -> None:
        if not loaded.adapter.rotaries:
            raise InputError(
                f"--pose moves positions, and {loaded.name} is not told any that could be moved"
            )
        if any(group.window is not None for group in loaded.checkpoint.groups):
            raise InputError(
                f"--pose cannot go with {loaded.name}: some of its layers see a window of tokens, "
                "and a skip would show them distances that they never meet; leave --pose out"
            )
        if length == self.target_length:
            raise InputError(
                "--pose has no room to skip: --length is the target length; give a shorter one"
            )

    def as_json(self) -> dict[str, Any]:
        """All that the weights depend on, but for the model and the text."""
        repair = self.repair
        return {
            "repair": None if repair is None else repair.name,
            "options": {} if repair is None else dict(repair.options),
            "target_length": self.target_length,
            "length": self.length,
            "steps": self.steps,
            "pose": self.pose,
            "lora": self.lora,
            "batch": self.batch,
            "learning_rate": self.rate(self.warmup),
            "warmup": self.warmup,
            "seed": self.seed,
            "dtype": self.dtype,
        }
