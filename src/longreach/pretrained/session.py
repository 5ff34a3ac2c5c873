"""The devices that training is spread over: a process for each, as `accelerate` starts them."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..run import locked
from .recipe import Recipe


@dataclass(frozen=True)
class Session:
    """The devices that a training is spread over, as `accelerate` found them."""

    accelerator: Any

    @classmethod
    def begin(cls, recipe: Recipe, cpu: bool) -> Session:
        """Raises InputError if a batch cannot be shared out, or a model would be cut into parts."""
        # Precision is the recipe's to say, not that of a machine's `accelerate config`.
        found: Any = import_module("accelerate").Accelerator(cpu=cpu, mixed_precision="no")
        kind = str(found.distributed_type.value)
        if kind != "NO" and not kind.startswith("MULTI_"):
            raise InputError(
                f"accelerate is configured for {kind}, which cuts a model into parts; longreach "
                "adapts with a whole copy on each device: accelerate launch --multi_gpu"
            )
        if recipe.batch % found.num_processes:
            raise InputError(
                f"--batch {recipe.batch} cannot be shared among {found.num_processes} devices; "
                f"take a multiple of {found.num_processes}"
            )
        return cls(found)

    @property
    def writes(self) -> bool:
        """Whether this process writes files and talks."""
        return bool(self.accelerator.is_main_process)

    def alone(self, work: Path) -> AbstractContextManager[None]:
        """A lock on the folder of unfinished work, for the process that writes."""
        return locked(work) if self.writes else nullcontext()

    def any(self, mine: bool) -> bool:
        """Whether any process says so."""
        if self.accelerator.num_processes == 1:
            return mine
        said = torch.tensor(float(mine), device=self.accelerator.device)
        return bool(self.accelerator.reduce(said, reduction="sum").item() > 0)


def speaks() -> bool:
    """Whether this process is the first of those that `accelerate launch` started."""
    return os.environ.get("RANK", "0") == "0"
