"""Trains one model; stopped anywhere, it goes on from its checkpoint to the same weights."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from . import files
from .errors import InputError, RunError
from .held_out import HeldOut
from .model.decoder import Decoder, DecoderShape
from .model.encoder_decoder import EncoderDecoder, Frame
from .model.rows import Packed
from .repairs import Repair
from .schemes import SCHEMES
from .spectrum import Extension, Spectrum
from .study import Choice, Model, Recipe, Training, resolve
from .tasks import TASKS
from .tasks.base import Batch, Task
from .tasks.frame import EOS, PAD, SEP, Framed

Network = Decoder | EncoderDecoder
"""What is trained."""

CHECKPOINT_SECONDS = 20.0
"""A kill loses at most so much work."""

LOG_POINTS = 200
"""Lines of the training log."""


def seed_of(*parts: object) -> int:
    """A 63-bit seed from what it is for, the same on every machine."""
    text = json.dumps([str(part) for part in parts])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator_for(*parts: object) -> torch.Generator:
    """A generator of its own for each use, so that no use disturbs another."""
    return torch.Generator().manual_seed(seed_of(*parts))


def build_task(training: Training) -> Task:
    """The task of a training. Raises InputError for options it does not have."""
    kind: Any = TASKS[training.task.name]
    options = resolve("task", kind, training.task)
    task: Task = kind(**options, **({"digest": training.data} if training.data else {}))
    return task


def check_frame(model: Model, choice: Choice, kind: type[Task]) -> None:
    """Raises InputError if a task gives an encoder-decoder nothing to read before it writes."""
    if model.architecture == "encoder-decoder" and not issubclass(kind, Framed):
        raise InputError(
            f"model.architecture is 'encoder-decoder', which reads a prompt and then writes an "
            f"answer, but the task '{choice.name}' has no frame `<bos> prompt <sep> answer <eos>` "
            'to tell them apart by; take architecture = "decoder", or another task'
        )


def build_model(training: Training, task: Task) -> Network:
    """A model with fresh weights: under one seed the same for every scheme but for its own.

    Raises InputError for a scheme or a task that is not for this architecture.
    """
    check_frame(training.model, training.task, type(task))
    kind = SCHEMES[training.scheme.name]
    options = resolve("scheme", kind, training.scheme)
    sizes = training.model.model_dump(exclude={"architecture"})
    shape = DecoderShape(vocabulary=task.vocabulary, **sizes)
    torch.manual_seed(training.seed)
    if training.model.architecture == "encoder-decoder":
        assert isinstance(task, Framed)
        prompt, answer = task.parts(training.trained_length)
        frame = Frame(separator=SEP, end=EOS, padding=PAD)
        return EncoderDecoder(shape, kind, (prompt + 1, answer + 1), frame, **options)
    # The last token of a sequence is only ever predicted, so it needs no position.
    model = Decoder(shape, kind, task.total(training.trained_length) - 1, **options)
    extended = training.extended
    if extended is not None and extended.repair is not None:
        repair = Repair.parse(extended.repair)
        model.turn_by(repaired(model, repair, task, training.trained_length, extended.length))
    return model


def repaired(
    model: Decoder, repair: Repair, task: Task, trained_length: int, length: int
) -> Spectrum:
    """What a model turns by under a repair that is set for sequences of a length.

    Raises InputError if its scheme does not rotate.
    """
    if model.spectrum is None:
        raise InputError(
            f"{repair.name} changes how fast pairs turn, and the scheme "
            f"{type(model.scheme).__name__} turns none; leave it out of extension.schemes, or take "
            'the repair "none"'
        )
    reads = [task.total(n) - 1 for n in (trained_length, length)]
    return repair.apply(model.spectrum, Extension(*reads))


def rate(recipe: Recipe, step: int) -> float:
    """Learning rate of a step, counted from 0: linear warm-up, then constant or half a cosine."""
    if step < recipe.warmup:
        return recipe.learning_rate * (step + 1) / recipe.warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return recipe.learning_rate * 0.5 * (1 + cos(pi * done))


def batch_loss(model: Network, batch: Batch) -> Float[Tensor, ""]:
    """Mean loss over the scored tokens, nats per token; other places' logits are not computed."""
    if isinstance(model, EncoderDecoder):
        asked, targets = model.asked(batch.tokens, batch.scored)
        return F.cross_entropy(asked.float(), targets)
    if not batch.alike:
        rows = Packed.of(batch.tokens, batch.scored)
        return F.cross_entropy(model.packed(rows).float(), rows.targets)
    last = batch.last
    logits = model(batch.tokens[:, :-1], last=last)
    targets = batch.tokens[:, -last:].masked_fill(~batch.scored[:, -last:], -100)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def draw(task: Task, training: Training, data: torch.Generator) -> Batch:
    """A training batch: of the trained length, or of lengths drawn uniformly up to it."""
    recipe = training.recipe
    if recipe.shortest is None:
        return task.sample(training.length, recipe.batch, data)
    drawn = torch.randint(recipe.shortest, training.length + 1, (recipe.batch,), generator=data)
    lengths, counts = torch.unique(drawn, return_counts=True)
    return Batch.join(
        [
            task.sample(length, count, data)
            for length, count in zip(lengths.tolist(), counts.tolist(), strict=True)
        ]
    )


@dataclass
class Progress:
    """Where a training stands: what a checkpoint holds besides tensors.

    overlap: training sequences that are also evaluated at the trained length. seen: which of the
    evaluated ones training has met, by their places in HeldOut. seconds: spent so far.
    """

    step: int = 0
    overlap: int = 0
    seen: list[int] = field(default_factory=list)
    seconds: float = 0.0
    log: list[dict[str, int | float]] = field(default_factory=list)
    pending: list[float] = field(default_factory=list)


def train(
    training: Training,
    task: Task,
    *,
    begin: Network | None = None,
    held_out: HeldOut | None = None,
    checkpoint: Path | None = None,
    until: int | None = None,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Network, Progress]:
    """Trains a model; returns it with its log (step, loss, learning_rate) and overlap.

    begin: the model of its base, whose weights an extended training goes on from.
    held_out: the sequences that will be evaluated, so that those met in training are counted.
    checkpoint: a file kept up to date while training, and gone on from if it is there; the weights
        that come out are the same, bit for bit, as without an interruption.
    until: stop after so many steps in all, with a checkpoint, though the recipe has more.
    tell: called after each step with the number of steps done and the batch's loss.
    Raises RunError if the loss is no longer a number.
    """
    recipe = training.recipe
    model = build_model(training, task)
    # New text, and at one length the same under every repair.
    after = () if training.extended is None else ("extended", training.length)
    data = generator_for("train", training.task.label, training.seed, *after)
    if begin is not None:
        model.load_state_dict(begin.state_dict())
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    progress = Progress()
    if checkpoint is not None:
        progress = restore(checkpoint, model, optimizer, data) or progress
    every = max(1, recipe.steps // LOG_POINTS)
    seen = set(progress.seen)
    begun = time.monotonic() - progress.seconds
    saved = time.monotonic()

    def kept() -> Progress:
        progress.seen = sorted(seen)
        progress.seconds = time.monotonic() - begun
        return progress

    model.train()
    while progress.step < min(until or recipe.steps, recipe.steps):
        optimizer.param_groups[0]["lr"] = rate(recipe, progress.step)
        batch = draw(task, training, data)
        if held_out is not None:
            met = held_out.among(batch.tokens)
            progress.overlap += int(held_out.at_trained[met].sum())
            seen.update(met.tolist())
        loss = batch_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        value = loss.item()
        if not isfinite(value):
            raise RunError(
                f"{training.scheme.label} on {training.task.label}, seed {training.seed}: "
                f"the loss is {value} at step {progress.step}; "
                "lower training.learning_rate or set training.clip"
            )
        progress.step += 1
        progress.pending.append(value)
        if progress.step % every == 0 or progress.step == recipe.steps:
            note(progress, optimizer.param_groups[0]["lr"])
        if checkpoint is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            keep(checkpoint, model, optimizer, data, kept())
            saved = time.monotonic()
        tell(progress.step, value)
    if checkpoint is not None and progress.step < recipe.steps:
        keep(checkpoint, model, optimizer, data, kept())
    return model.eval(), kept()


def note(progress: Progress, learning_rate: float) -> None:
    """Adds a line to the log: the mean loss since the last one."""
    mean = sum(progress.pending) / len(progress.pending)
    progress.log.append({"step": progress.step, "loss": mean, "learning_rate": learning_rate})
    progress.pending.clear()


def keep(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: torch.Generator,
    progress: Progress,
) -> None:
    """Writes a checkpoint, whole or not at all."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    tensors["data"] = data.get_state()
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"progress": json.dumps(vars(progress))}
    files.write(path, save(tensors, metadata=about))


def restore(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Generator
) -> Progress | None:
    """Loads a checkpoint into model, optimizer and generator; None if there is none to read."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            progress = Progress(**json.loads(file.metadata()["progress"]))
    except (SafetensorError, KeyError, ValueError):
        # Checkpoints appear whole, so this one was damaged from outside. Nothing recorded hangs on
        # it: the training starts again.
        return None
    model.load_state_dict(
        {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    )
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".")
            state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    data.set_state(tensors["data"])
    return progress
