"""`copy-reverse`: training steps and evaluation, longreach against the straightforward program.

Run: python benchmarks/copy_step.py

One thread each. Both start from the same weights; on the same batches their losses are compared
before anything is timed. What is timed includes making the batches, each program in its own way.
"""

from __future__ import annotations

import torch

import straightforward_copy as straightforward
from interleave import allocate_as_workers, ratios
from longreach.measure import exact_match
from longreach.measure.measured import Measured
from longreach.model.decoder import Decoder, DecoderShape
from longreach.schemes import SCHEMES
from longreach.study import Study
from longreach.tasks.base import Batch
from longreach.tasks.copy import Copy
from longreach.train import batch_loss, draw, generator_for

STEPS_COMPARED = 20
SEQUENCES = 256
LENGTHS = range(1, 49)


def ours(model: straightforward.Model, rows: int = 35) -> Decoder:
    """The same model with the same weights, as longreach builds it."""
    shape = DecoderShape(vocabulary=24, width=64, heads=4, layers=3, feed_forward=256, norm="post")
    built = Decoder(shape, SCHEMES[model.scheme], rows)
    theirs = model.state_dict()
    renamed = {"tokens.weight": theirs["tokens.weight"], "head.weight": theirs["head.weight"]}
    names = {"norm1": "attention_norm", "norm2": "feed_forward_norm"}
    names |= {"up": "feed_forward.0", "down": "feed_forward.2"}
    for number in range(3):
        block = f"blocks.{number}."
        projections = [theirs[f"{block}{part}.weight"] for part in "qkv"]
        renamed[f"{block}attention.project.weight"] = torch.cat(projections)
        renamed[f"{block}attention.out.weight"] = theirs[f"{block}o.weight"]
        for old, new in names.items():
            for kind in ("weight", "bias"):
                renamed[f"{block}{new}.{kind}"] = theirs[f"{block}{old}.{kind}"]
    built.load_state_dict(renamed)
    return built


def steps() -> None:
    """Per scheme, and for all together."""
    study = Study.load("copy-reverse")
    total = {}
    for scheme in straightforward.SCHEMES:
        torch.manual_seed(0)
        model = straightforward.Model(scheme)
        built = ours(model)
        theirs = torch.optim.AdamW(model.parameters(), lr=1e-3)
        optimizer = torch.optim.AdamW(built.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
        training = training_of(study, scheme)
        task, data = Copy(), generator_for("benchmark")
        batches = torch.Generator().manual_seed(1)

        def straight(model=model, theirs=theirs, batches=batches) -> float:
            return straightforward.step(model, theirs, *straightforward.rows(64, batches))

        def longreach(
            batch=None, built=built, optimizer=optimizer, training=training, data=data, task=task
        ):
            batch = draw(task, training, data) if batch is None else batch
            loss = batch_loss(built, batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(built.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        same = torch.Generator().manual_seed(2)
        gap = 0.0
        for _ in range(STEPS_COMPARED):
            tokens, scored = straightforward.rows(64, same)
            found = longreach(Batch(tokens, scored))
            gap = max(gap, abs(found - straightforward.step(model, theirs, tokens, scored)))
        print(f"{scheme}: losses of {STEPS_COMPARED} steps differ by at most {gap:.1e}")
        assert gap < 1e-3
        found = ratios({"straightforward": straight, "longreach": longreach})
        for name, ratio in found.items():
            total[name] = total.get(name, 0.0) + 1 / ratio
    slow, fast = total.values()
    print(f"all schemes: a step takes {fast / slow:.2f} of the straightforward one's time")


def training_of(study: Study, scheme: str):
    """A training of the study, as `longreach run` makes it."""
    from longreach.study import Choice, Training

    return Training(
        scheme=Choice(name=scheme),
        task=Choice(name="copy"),
        data=None,
        seed=0,
        trained_length=study.trained_length,
        model=study.model,
        training=study.training,
    )


def evaluation() -> None:
    """All lengths of the study, 256 sequences of each."""
    model = straightforward.Model("rope")
    built = ours(model).eval()
    task = Copy()
    about = {"training": "", "scheme": "rope", "task": "copy", "seed": 0, "repair": None}

    def longreach() -> None:
        samples = [task.sample(n, SEQUENCES, generator_for("evaluate", n)) for n in LENGTHS]
        out = Measured({**about, "trained_length": 16})
        exact_match.measure(built, task, list(LENGTHS), samples, out)

    print(f"evaluation at {len(LENGTHS)} lengths, {SEQUENCES} sequences of each")
    ratios(
        {
            "straightforward": lambda: [
                straightforward.exact_match(model, n, SEQUENCES) for n in LENGTHS
            ],
            "longreach": longreach,
        },
        rounds=3,
        repeats=1,
    )


if __name__ == "__main__":
    allocate_as_workers()
    torch.set_num_threads(1)
    steps()
    evaluation()
