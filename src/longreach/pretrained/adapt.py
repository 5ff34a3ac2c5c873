"""Adapts a model to a longer context: its config gets a repair, and it is trained briefly there."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ..cell import provenance
from ..corpora.prepare import SPLIT_RULE
from ..errors import RunError
from ..results import FORMAT
from ..train import generator_for, seed_of
from .batches import Batches
from .loading import Pretrained
from .memory import check_training
from .pose import skipped
from .recipe import Recipe
from .rescale import Rescaled, rescaled
from .saves import Parameters, Progress, finished, keep, restore, work_of, write_folder
from .scored import Scored
from .session import Session
from .wear import Worn

CHECKPOINT_SECONDS = 60.0
"""Between two checkpoints, at least; more where writing one takes long."""

WRITING = 20
"""Checkpoints are so many times as far apart as it takes to write one: 5 % of the time at most."""

BETAS = (0.9, 0.95)
"""Of AdamW, without weight decay."""

CLIP = 1.0
"""Largest norm of a gradient."""


class Display(Protocol):
    """Shows how training advances. One run; `steps` are steps of the optimizer."""

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        """Once, before the first step."""

    def advance(self, steps: int) -> None:
        """So many steps more are done."""

    def finish(self, label: str) -> None:
        """The folder is written."""


@dataclass(frozen=True)
class Adapted:
    """What an adaptation came to.

    folder: the model's, there only if finished. about: what its adapt.json says, or would.
    """

    folder: Path
    finished: bool
    about: Mapping[str, Any]


def adapt(
    loaded: Pretrained,
    recipe: Recipe,
    out: Path,
    *,
    display: Display,
    command: str,
    cpu: bool = False,
    max_seconds: float | None = None,
    force: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Adapted:
    """Trains a model at a new length and writes it as a folder that `transformers` loads unaided.

    The repair is in the config before the first step, and what is trained is what `transformers`
    makes of it. Killed anywhere, the same call goes on from the last checkpoint; on a CPU to the
    same weights, bit for bit. Where `accelerate launch` started several processes, each takes its
    share of every batch, and the first one writes.

    loaded: on the CPU; it is used up, and holds the adapted model afterwards. cpu: train there,
    whatever other devices there are. max_seconds: stop with a checkpoint before a step that would
    end later; at least one step is made. force: begin though memory seems to be too little.

    Raises InputError for a mistake in the recipe, text that is too short, a repair that
    `transformers` cannot apply, a folder that holds something else, or too little memory; RunError
    if the loss is no longer a number.
    """
    began = time.monotonic()
    recipe = recipe.of(loaded, cpu=cpu)
    text = Batches(loaded, recipe.text, recipe.window)
    request = {
        "model": loaded.digest,
        **recipe.as_json(),
        "text": text.label,
        "documents": text.digest,
    }
    there = finished(out, request)
    if there is not None:
        return Adapted(out, True, there)
    # After the refusals, which need none: it starts what spreads the work over devices.
    session = Session.begin(recipe, cpu)
    if not force:
        check_training(loaded, recipe, session.accelerator.device)
    stored = loaded.model.dtype
    say(f"configuring {loaded.name} for {recipe.target_length:,} tokens")
    changed = rescaled(loaded, recipe.repair, recipe.target_length, recipe.held)
    loaded.adapter = changed.adapter
    about = {
        "format": FORMAT,
        "request": request,
        "model": loaded.name,
        "trained_length": loaded.trained_length,
        "block": dict(changed.block),
        "notes": list(changed.notes),
        "proof": [proof_of(each) for each in changed.proof],
        "text": {"given": recipe.text, "held_out": list(text.held_out), "split": SPLIT_RULE},
    }
    work = work_of(out)
    with session.alone(work):
        made = train(changed, recipe, text, session, work, request, display, began, max_seconds)
        about |= {
            "steps": made.step,
            "tokens": made.step * recipe.batch * recipe.window,
            "losses": made.losses,
            "devices": session.accelerator.num_processes,
            "provenance": {**made_with(command), "seconds": round(made.seconds, 1)},
        }
        done = made.step == recipe.steps
        if done and session.writes:
            tokenizer = loaded.tokenizer
            if tokenizer.model_max_length < recipe.target_length:
                tokenizer.model_max_length = recipe.target_length
            for weight in loaded.model.parameters():
                weight.data = weight.data.to(stored)
            write_folder(out, loaded.model, tokenizer, about)
            shutil.rmtree(work, ignore_errors=True)
            display.finish(str(out))
        session.accelerator.wait_for_everyone()
    session.accelerator.free_memory()
    return Adapted(out, done, about)


def train(
    changed: Rescaled,
    recipe: Recipe,
    text: Batches,
    session: Session,
    work: Path,
    request: Mapping[str, Any],
    display: Display,
    began: float,
    max_seconds: float | None,
) -> Progress:
    """All steps that are left and that the time allows; the adapter's model is trained in place."""
    accelerator = session.accelerator
    merge = prepared(changed, recipe)
    scored = Scored(changed.adapter)
    trained: Parameters = {n: p for n, p in scored.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(
        trained.values(), lr=recipe.rate(0), betas=BETAS, weight_decay=0.0, fused=True
    )
    model, stepped = accelerator.prepare(scored, optimizer)
    accelerator.wait_for_everyone()
    progress = restore(work, trained, optimizer, request) or Progress()
    if session.writes:
        display.start(runs=1, finished=0, steps=recipe.steps - progress.step)
    saved, writing, longest = time.monotonic(), 0.0, 0.0
    model.train()
    while progress.step < recipe.steps:
        started = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(progress.step)
        loss = one_step(model, stepped, trained, recipe, text, accelerator, progress.step)
        if not isfinite(loss):
            raise RunError(
                f"the loss is {loss} at step {progress.step}; lower --learning-rate"
                + (", or take --dtype float32" if recipe.passes == torch.bfloat16 else "")
            )
        progress.step += 1
        progress.losses.append(loss)
        now = time.monotonic()
        progress.seconds += now - started
        longest = max(longest, now - started)
        late = max_seconds is not None and now - began + longest > max_seconds
        stop = session.any(late) and progress.step < recipe.steps
        due = now - saved > max(CHECKPOINT_SECONDS, WRITING * writing)
        if session.writes:
            if stop or (due and progress.step < recipe.steps):
                keep(work, trained, optimizer, progress, request)
                saved = time.monotonic()
                writing = saved - now
            display.advance(1)
        if stop:
            break
    if progress.step == recipe.steps:
        merge()
    return progress


def prepared(changed: Rescaled, recipe: Recipe) -> Callable[[], None]:
    """Makes a model ready to be trained; returns what makes a plain model of it again."""
    adapter = changed.adapter
    if recipe.checkpointing:
        # Called otherwise since transformers 5.24.
        enable = getattr(adapter.model, "activation_checkpointing_enable", None)
        (enable or adapter.model.gradient_checkpointing_enable)({"use_reentrant": False})
    if recipe.lora is None:
        adapter.model.requires_grad_(True)
        return lambda: None
    peft: Any = import_module("peft")
    torch.manual_seed(seed_of("lora", recipe.seed))
    config = peft.LoraConfig(
        r=recipe.lora,
        lora_alpha=2 * recipe.lora,
        target_modules=list(adapter.projections),
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        # It asks transformers 5.24 a question under a name that will go.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        beside: Any = peft.get_peft_model(adapter.model, config)

    def merge() -> None:
        adapter.model = beside.merge_and_unload()

    return merge


def one_step(
    model: nn.Module,
    optimizer: Any,
    trained: Parameters,
    recipe: Recipe,
    text: Batches,
    accelerator: Any,
    step: int,
) -> float:
    """One step of the optimizer; the mean loss of the batch before it."""
    rank, share = accelerator.process_index, accelerator.num_processes
    tokens = text.batch(step, recipe.batch, recipe.seed)
    positions = None
    if recipe.pose:
        draw = generator_for("pose", recipe.seed, step)
        positions = skipped(recipe.batch, recipe.window, recipe.target_length, draw)
        positions = positions[rank::share].to(accelerator.device)
    # Where a family has dropout, it depends on the step alone, too.
    torch.manual_seed(seed_of("dropout", recipe.seed, step, rank))
    mixed = recipe.lora is None and recipe.passes != torch.float32
    with torch.autocast(accelerator.device.type, dtype=torch.bfloat16, enabled=mixed):
        loss = model(tokens[rank::share].to(accelerator.device), positions)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(list(trained.values()), CLIP)
    optimizer.step()
    optimizer.zero_grad()
    found: float = accelerator.reduce(loss.detach().float(), reduction="mean").item()
    return found


def proof_of(worn: Worn) -> dict[str, Any]:
    """For programs."""
    found = asdict(worn)
    return {**found, "inverse_frequencies": worn.inverse_frequencies.tolist()}


def made_with(command: str) -> dict[str, Any]:
    """What made a folder."""
    also = {name: version(name) for name in ("transformers", "accelerate", "peft")}
    return {**provenance(command), **also}
