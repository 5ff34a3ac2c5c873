"""Adapting a model to a longer context: what is trained, on what, and the folder that is left."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from longreach.cli.app import app
from longreach.errors import InputError, RunError
from longreach.pretrained import adapt as adapting, load
from longreach.pretrained.adapt import adapt
from longreach.pretrained.adapters import ADAPTERS
from longreach.pretrained.batches import Batches
from longreach.pretrained.memory import check_training, needed_to_train
from longreach.pretrained.pose import skipped
from longreach.pretrained.recipe import Recipe
from longreach.pretrained.rescale import rescaled
from longreach.pretrained.saves import CHECKPOINT, work_of
from longreach.pretrained.scored import Scored, chunked_loss
from longreach.pretrained.windows import sources
from longreach.repairs import Repair
from longreach.spectrum import Extension, Spectrum

from . import tiny_models
from .tiny_models import TRAINED

TARGET = 4 * TRAINED
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and"]


class Killed(Exception):
    pass


class Shown:
    """A display; dies after so many steps."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.dies_after, self.steps, self.done, self.labels = dies_after, 0, 0, []

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        self.steps = steps

    def advance(self, steps: int) -> None:
        self.done += steps
        if self.done == self.dies_after:
            raise Killed

    def finish(self, label: str) -> None:
        self.labels.append(label)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Forty documents, from a few words to some hundred, on both sides of the split."""
    folder = tmp_path_factory.mktemp("text")
    draw = np.random.default_rng(0)
    for number in range(40):
        chosen = draw.choice(WORDS, int(draw.integers(5, 200)))
        (folder / f"{number}.txt").write_text(" ".join(chosen))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    configs = tiny_models.configs()
    configs["llama"].attention_dropout = 0.1  # So that resuming has its random numbers to keep.
    wanted = ("llama", "gemma3_text", "gpt_neox", "phi3", "gpt2", "bloom", "smollm3", "t5")
    return {name: tiny_models.write(root / name, configs[name]) for name in wanted}


def recipe(text: Path, **changes) -> Recipe:
    usual = dict(repair=Repair("yarn"), target_length=TARGET, steps=3, text=str(text))
    return Recipe(**{**usual, "learning_rate": 1e-3, "warmup": 2, **changes})


def run(folder: Path, asked: Recipe, out: Path, shown: Shown | None = None, **more):
    return adapt(
        load(str(folder), device="cpu"),
        asked,
        out,
        display=shown or Shown(),
        command="longreach adapt",
        cpu=True,
        **more,
    )


def plain(folder: Path):
    """As anyone loads it."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(plain(folder).named_parameters())


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def adapted(folders, text, tmp_path_factory) -> Path:
    """Llama, with YaRN, in three steps that nothing interrupted."""
    out = tmp_path_factory.mktemp("out") / "model"
    shown = Shown()
    found = run(folders["llama"], recipe(text), out, shown)
    assert found.finished
    assert (shown.steps, shown.done, shown.labels) == (3, 3, [str(out)])
    return out


def test_plain_transformers_loads_the_folder_with_the_repair_and_new_weights(adapted, folders):
    model = plain(adapted)
    spectrum = Spectrum.rope(8, 500_000.0)
    wanted = Repair("yarn").apply(spectrum, Extension(TRAINED, TARGET))
    rotary = model.model.rotary_emb
    np.testing.assert_allclose(rotary.inv_freq.numpy(), wanted.inverse_frequencies, rtol=1e-6)
    assert rotary.attention_scaling == pytest.approx(wanted.amplitude, rel=1e-6)
    assert model.config.max_position_embeddings == TARGET
    before, after = weights(folders["llama"]), weights(adapted)
    assert not any(torch.equal(before[name], after[name]) for name in before)
    assert not work_of(adapted).exists()
    # And longreach reads of it what it was trained at before, and the repair.
    loaded = load(str(adapted), device="cpu")
    assert loaded.trained_length == TRAINED
    assert loaded.checkpoint.unbounded[0].repair.name == "yarn"
    assert loaded.tokenizer.model_max_length >= TARGET


def test_the_folder_says_how_it_was_made(adapted):
    about = json.loads((adapted / "adapt.json").read_text())
    assert (about["steps"], about["tokens"], len(about["losses"])) == (3, 3 * TARGET, 3)
    assert about["request"]["repair"] == "yarn"
    assert about["proof"][0]["layers"] == [0, 1, 2, 3]
    assert about["provenance"]["command"] == "longreach adapt"
    assert {"peft", "transformers", "accelerate", "torch", "date"} <= about["provenance"].keys()
    assert about["text"]["held_out"]


def test_steps_are_adamw_on_the_loss_that_transformers_itself_computes(text, tmp_path):
    """In another form: plain PyTorch, labels, all logits, nothing kept small."""
    folder = tiny_models.write(tmp_path / "llama", tiny_models.configs()["llama"])
    asked = recipe(text, batch=2, length=100)
    batches = Batches(load(str(folder), device="cpu"), str(text), 100)
    run(folder, asked, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    from transformers import AutoModelForCausalLM, LlamaConfig

    model = AutoModelForCausalLM.from_pretrained(folder, config=LlamaConfig.from_dict(config))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1, betas=(0.9, 0.95), weight_decay=0)
    losses = []
    for step, rate in enumerate((5e-4, 1e-3, 1e-3)):
        optimizer.param_groups[0]["lr"] = rate
        tokens = batches.batch(step, 2, 0)
        assert tokens.shape == (2, 101)
        logits = model(input_ids=tokens[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    about = json.loads((tmp_path / "out" / "adapt.json").read_text())
    assert about["losses"] == pytest.approx(losses, rel=1e-5)
    trained = weights(tmp_path / "out")
    for name, each in model.named_parameters():
        torch.testing.assert_close(trained[name], each, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"lora": 4, "pose": True, "batch": 2}], ids=["full", "lora"])
def test_killed_and_resumed_is_bit_for_bit_what_a_whole_run_gives(
    folders, text, adapted, tmp_path, monkeypatch, more
):
    asked = recipe(text, **more)
    whole = adapted
    if more:
        whole = tmp_path / "whole"
        run(folders["llama"], asked, whole)
    monkeypatch.setattr(adapting, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(adapting, "WRITING", 0)
    out = tmp_path / "model"
    with pytest.raises(Killed):
        run(folders["llama"], asked, out, Shown(dies_after=2))
    assert not out.exists()
    torch.manual_seed(99)
    shown = Shown()
    assert run(folders["llama"], asked, out, shown).finished
    assert shown.steps == 1
    assert same(weights(out), weights(whole))
    one, other = (json.loads((each / "adapt.json").read_text()) for each in (out, whole))
    assert one["losses"] == other["losses"]
    # What is there already is not made again.
    again = Shown()
    assert run(folders["llama"], asked, out, again).about["losses"] == one["losses"]
    assert again.done == 0


def test_when_time_is_short_it_stops_with_a_checkpoint_and_goes_on(
    folders, text, adapted, tmp_path
):
    out = tmp_path / "model"
    for steps in (1, 2):
        found = run(folders["llama"], recipe(text), out, max_seconds=1e-9)
        assert (found.finished, found.about["steps"], out.exists()) == (False, steps, False)
    assert run(folders["llama"], recipe(text), out, max_seconds=1e9).finished
    assert same(weights(out), weights(adapted))


def test_gradient_checkpointing_changes_nothing_but_memory(text, tmp_path):
    folder = tiny_models.write(tmp_path / "llama", tiny_models.configs()["llama"])
    for name, checkpointing in (("with", True), ("without", False)):
        run(folder, recipe(text, checkpointing=checkpointing), tmp_path / name)
    assert same(weights(tmp_path / "with"), weights(tmp_path / "without"))


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "phi3", "bloom"])
def test_lora_changes_attention_alone_and_is_merged_into_a_plain_folder(
    folders, text, tmp_path, name
):
    out = tmp_path / "model"
    run(folders[name], recipe(text, repair=None, lora=2), out)
    assert not list(out.glob("adapter*"))
    before, after = weights(folders[name]), weights(out)
    assert before.keys() == after.keys()
    ends = ADAPTERS[name].projections
    changed = {n for n in before if not torch.equal(before[n], after[n])}
    asked = {n for n in before if n.removesuffix(".weight").rpartition(".")[2] in ends}
    assert changed == {n for n in asked if n.endswith("weight")}
    assert len(changed) == 4 * len(ends)


def test_without_a_repair_the_same_tokens_are_trained_on(folders, text, tmp_path, monkeypatch):
    seen: list[torch.Tensor] = []
    forward = Scored.forward
    monkeypatch.setattr(
        Scored, "forward", lambda self, t, p: (seen.append(t), forward(self, t, p))[1]
    )
    run(folders["llama"], recipe(text, batch=2, length=80), tmp_path / "repaired")
    run(folders["llama"], recipe(text, batch=2, length=80, repair=None), tmp_path / "none")
    repaired, none = seen[:3], seen[3:]
    assert len(none) == 3
    assert all(torch.equal(*pair) for pair in zip(repaired, none, strict=True))
    assert not torch.equal(none[0], none[1])
    assert load(str(tmp_path / "none"), device="cpu").trained_length == TRAINED
    config = json.loads((tmp_path / "none" / "config.json").read_text())
    assert config["max_position_embeddings"] == TARGET
    assert config["rope_parameters"]["rope_type"] == "default"
    plain_spectrum = Spectrum.rope(8, 500_000.0).inverse_frequencies
    speeds = plain(tmp_path / "none").model.rotary_emb.inv_freq.numpy()
    np.testing.assert_allclose(speeds, plain_spectrum, rtol=1e-6)


def test_training_learns(folders, text, tmp_path):
    asked = recipe(text, steps=20, learning_rate=1e-2, length=64)
    losses = run(folders["llama"], asked, tmp_path / "model").about["losses"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5


@pytest.mark.parametrize("lora", [None, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_of_t5_the_decoder_is_trained_and_a_head_of_its_own_stays_one(text, tmp_path, tied, lora):
    """The configs of all T5s say that both ends are tied, and those of v1.1 are not."""
    from transformers import AutoModelForSeq2SeqLM, T5Config

    config = T5Config(**tiny_models.halves(), n_positions=TRAINED, tie_word_embeddings=tied)
    folder = tiny_models.write(tmp_path / "t5", config)
    before = AutoModelForSeq2SeqLM.from_pretrained(folder)
    if not tied:
        draw = torch.Generator().manual_seed(1)
        head = torch.randn(before.lm_head.weight.shape, generator=draw)
        before.lm_head.weight = torch.nn.Parameter(head)
        before.save_pretrained(folder)
    state = before.state_dict()
    asked = recipe(text, repair=None, lora=lora, steps=8, learning_rate=1e-2, length=64)
    losses = run(folder, asked, tmp_path / "out").about["losses"]
    after = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert after.config.n_positions == TARGET
    assert after.config.scale_decoder_outputs == tied
    assert torch.equal(after.lm_head.weight, after.shared.weight) == tied
    changed = {n for n, each in after.state_dict().items() if not torch.equal(each, state[n])}
    looks = {
        f"decoder.block.{n}.layer.0.SelfAttention.{m}.weight" for n in range(4) for m in "qkvo"
    }
    assert looks <= changed
    assert lora is None or all("Attention" in name for name in changed)
    assert np.mean(losses[-2:]) < losses[0]


@pytest.mark.parametrize("repair", ["linear", "ntk", "dynamic", "llama3", "ntk_by_parts", "yarn"])
@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma3_text", "smollm3"])
def test_a_model_is_configured_for_every_repair_and_proven(folders, name, repair):
    loaded = load(str(folders[name]), device="cpu")
    group = loaded.checkpoint.unbounded[0]
    found = rescaled(loaded, Repair(repair), TARGET, torch.float32)
    wanted = Repair(repair).apply(group.spectrum, Extension(TRAINED, TARGET))
    (worn,) = found.proof
    np.testing.assert_allclose(worn.inverse_frequencies, wanted.inverse_frequencies, rtol=1e-5)
    assert worn.amplitude == pytest.approx(wanted.amplitude, rel=1e-5)
    assert len(worn.layers) == {"gemma3_text": 2, "smollm3": 3}.get(name, 4)


def test_a_block_that_does_nothing_is_found_out(folders, monkeypatch):
    """Else a model would be trained plain and called repaired."""
    loaded = load(str(folders["llama"]), device="cpu")
    nothing = {"max_position_embeddings": TARGET}
    monkeypatch.setattr("longreach.pretrained.rescale.block_of", lambda *given: (nothing, ()))
    with pytest.raises(RunError, match="does not apply what its config asks for"):
        rescaled(loaded, Repair("yarn"), TARGET, torch.float32)


def test_weights_are_written_as_they_were_stored(text, tmp_path):
    config = tiny_models.configs()["llama"]
    tiny_models.write(tmp_path / "wide", config)
    model = plain(tmp_path / "wide").to(torch.bfloat16)
    folder = shutil.copytree(tmp_path / "wide", tmp_path / "narrow")
    model.save_pretrained(folder)
    run(folder, recipe(text), tmp_path / "out")
    assert plain(tmp_path / "out").dtype == torch.bfloat16
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_a_gguf_file_becomes_a_plain_folder(text, tmp_path):
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf")
    before = {n: w.clone() for n, w in load(str(path), device="cpu").model.named_parameters()}
    out = tmp_path / "model"
    run(path, recipe(text, steps=1), out)
    config = json.loads((out / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["rope_parameters"]["rope_type"] == "yarn"
    after = weights(out)
    assert before.keys() == after.keys()
    for name in before:
        assert not torch.equal(before[name], after[name])
        torch.testing.assert_close(before[name], after[name], rtol=0.02, atol=2e-3)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.decode(tokenizer.encode("the quick fox")).endswith("the quick fox")


def test_a_repair_in_the_config_is_replaced_and_none_keeps_it(text, tmp_path):
    config = tiny_models.configs()["llama"]
    block = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": TRAINED}
    config.rope_parameters = {**block, "rope_theta": 500_000.0}
    config.max_position_embeddings = 2 * TRAINED
    folder = tiny_models.write(tmp_path / "yarn", config)
    spectrum = Spectrum.rope(8, 500_000.0)
    for repair, had in ((Repair("linear"), "linear"), (None, "yarn")):
        found = rescaled(load(str(folder), device="cpu"), repair, TARGET, torch.float32)
        length = TARGET if repair else 2 * TRAINED
        wanted = Repair(had).apply(spectrum, Extension(TRAINED, length))
        speeds = found.proof[0].inverse_frequencies
        np.testing.assert_allclose(speeds, wanted.inverse_frequencies, rtol=1e-5)
        assert found.adapter.model.config.max_position_embeddings == TARGET
    config.rope_parameters = {"rope_type": "dynamic", "factor": 1.0, "rope_theta": 500_000.0}
    config.max_position_embeddings = TRAINED
    folder = tiny_models.write(tmp_path / "dynamic", config)
    kept = rescaled(load(str(folder), device="cpu"), None, TARGET, torch.float32)
    assert (kept.block, kept.adapter.model.config.max_position_embeddings) == ({}, TRAINED)
    assert "counts from it" in kept.notes[0]


# Loss


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
@pytest.mark.parametrize("chunk", [1, 7, 64, 500])
def test_the_chunked_loss_is_the_plain_one_with_its_gradients(name, chunk):
    model = tiny_models.model_of(tiny_models.configs()[name]).train()
    adapter = ADAPTERS[name](model)
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 250, (2, 65), generator=draw)
    logits = model(input_ids=tokens[:, :-1]).logits.float()
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    wanted = {name: each.grad.clone() for name, each in model.named_parameters()}
    model.zero_grad()
    hidden = adapter.hidden(tokens[:, :-1]).flatten(0, 1)
    mine = chunked_loss(adapter.logits, hidden, tokens[:, 1:].flatten(), chunk)
    mine.backward()
    torch.testing.assert_close(mine, loss, rtol=1e-6, atol=1e-6)
    for name, each in model.named_parameters():
        torch.testing.assert_close(each.grad, wanted[name], rtol=1e-4, atol=1e-6)


def test_no_more_than_a_chunk_of_logits_is_ever_there():
    tokens, width, vocabulary, chunk = 64, 8, 1000, 4
    draw = torch.Generator().manual_seed(0)
    head = torch.randn(vocabulary, width, generator=draw, requires_grad=True)
    hidden = torch.randn(tokens, width, generator=draw, requires_grad=True)
    made: list[int] = []

    def logits(states):
        found = states @ head.T
        made.append(len(states))
        return found

    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: (kept.append(each.numel()), each)[1], lambda each: each
    ):
        loss = chunked_loss(logits, hidden, torch.arange(tokens), chunk)
    loss.backward()
    assert max(made) == chunk
    assert len(made) == 2 * tokens // chunk  # Once in each pass.
    assert sum(kept) < chunk * vocabulary  # Of no chunk are logits kept for the backward pass.


# Skipped positions


@pytest.mark.parametrize(("length", "target"), [(2, 3), (7, 40), (64, 256), (64, 65)])
def test_skipped_positions_rise_stay_below_the_target_and_cover_it(length, target):
    draw = torch.Generator().manual_seed(3)
    positions = skipped(4000, length, target, draw)
    assert positions.shape == (4000, length)
    assert (positions[:, 0] == 0).all()
    steps = positions.diff()
    assert (steps >= 1).all()
    assert ((steps != 1).sum(1) <= 1).all()  # One skip at most.
    assert positions.max() == target - 1
    skips = positions[:, -1] - (length - 1)
    assert set(skips.tolist()) == set(range(target - length + 1))
    # From 1 to half of the tokens come before the skip.
    moved = skips > 0
    firsts = (steps[moved] != 1).int().argmax(1) + 1
    assert set(firsts.tolist()) == set(range(1, (length + 1) // 2 + 1))
    assert torch.bincount(skips).float().std() < 3 * (4000 / (target - length + 1)) ** 0.5
    again = skipped(4000, length, target, torch.Generator().manual_seed(3))
    assert torch.equal(again, positions)
    assert not torch.equal(skipped(4000, length, target, draw), positions)


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "phi3", "smollm3", "qwen3"])
def test_what_follows_a_skip_sees_what_came_before_it(name):
    """Where positions skip, transformers takes two texts to be packed, unless a mask is given."""
    model = tiny_models.model_of(tiny_models.configs()[name])
    adapter = ADAPTERS[name](model)
    tokens = torch.randint(3, 250, (2, 20), generator=torch.Generator().manual_seed(0))
    positions = torch.arange(20) + 30 * (torch.arange(20) >= 8)
    positions = positions.expand(2, 20)
    bias = torch.full((20, 20), float("-inf")).triu(1).expand(2, 1, 20, 20)
    with torch.inference_mode():
        mine = adapter.hidden(tokens, positions)
        wanted = model.base_model(
            input_ids=tokens, position_ids=positions, attention_mask=bias, use_cache=False
        ).last_hidden_state
        plain_ones = adapter.hidden(tokens)
    torch.testing.assert_close(mine, wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(mine[:, :8], plain_ones[:, :8], rtol=0, atol=1e-5)
    assert not torch.allclose(mine[:, 8:], plain_ones[:, 8:], atol=1e-3)


def test_pose_trains_short_windows_at_long_positions(folders, text, tmp_path, monkeypatch):
    seen: list[tuple[torch.Size, int]] = []
    forward = Scored.forward
    monkeypatch.setattr(
        Scored,
        "forward",
        lambda self, t, p: (seen.append((t.shape, int(p.max()))), forward(self, t, p))[1],
    )
    found = run(folders["llama"], recipe(text, pose=True, steps=6), tmp_path / "model")
    assert found.about["tokens"] == 6 * TRAINED
    assert {shape for shape, _ in seen} == {(1, TRAINED + 1)}
    assert max(last for _, last in seen) >= 2 * TRAINED
    assert all(last < TARGET for _, last in seen)


# Text


def test_documents_that_are_held_out_never_occur_and_others_do(folders, tmp_path):
    """Each document says its own number over and over, and nothing else."""
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text(f"<{number}>" * (10 + 2 * (number % 9)))
    loaded = load(str(folders["llama"]), device="cpu")
    batches = Batches(loaded, str(tmp_path), 50)
    out = {int(name.removesuffix(".txt")) for name in batches.held_out}
    label, measured = sources(f"held-out:{tmp_path}")
    assert label == f"held-out:{tmp_path.name}"
    assert out == {int(each.name.removesuffix(".txt")) for each in measured}
    assert 0 < len(out) < 30
    met: set[int] = set()
    for step in range(800):
        decoded = loaded.decode(batches.batch(step, 1, 0)[0].tolist())
        met |= {int(number) for number in re.findall(r"<(\d+)>", decoded)}
    assert met == set(range(60)) - out


@pytest.mark.parametrize("length", [60, 1000])
def test_short_documents_are_packed_with_an_end_between_and_long_ones_are_cut(
    folders, text, length
):
    loaded = load(str(folders["llama"]), device="cpu")
    batches = Batches(loaded, str(text), length)
    rows = {number: batches.of(number).tolist() for number in range(len(batches.documents))}
    end = loaded.tokenizer.eos_token_id
    counts = []
    for step in range(40):
        window = batches.batch(step, 1, 7)[0].tolist()
        assert len(window) == length + 1
        pieces: list[list[int]] = [[]]
        for token in window:
            if token == end:
                pieces.append([])
            else:
                pieces[-1].append(token)
        counts.append(len(pieces))
        if len(pieces) == 1:
            assert any(contains(row, window) for row in rows.values())
            continue
        *whole, last = pieces
        assert all(piece in rows.values() for piece in whole)
        assert any(row[: len(last)] == last for row in rows.values())
    if length == 60:
        assert min(counts) == 1 < max(counts)
    else:
        assert max(counts) > 3  # So that there are ends between all of several.


def contains(row: list[int], part: list[int]) -> bool:
    return any(row[k : k + len(part)] == part for k in range(len(row) - len(part) + 1))


def test_documents_are_drawn_by_their_size(folders, tmp_path):
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text(f"{number} " * (100 + 40 * number))
    batches = Batches(load(str(folders["llama"]), device="cpu"), str(tmp_path), 20)
    draw = torch.Generator().manual_seed(0)
    drawn = np.bincount([batches.drawn(draw) for _ in range(20_000)])
    sizes = np.array([len(each.text) for each in batches.documents])
    np.testing.assert_allclose(drawn / 20_000, sizes / sizes.sum(), atol=0.006)


# Refusals


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("llama", {"steps": 0}, "--steps must be at least 1"),
        ("llama", {"batch": 0}, "--batch must be at least 1"),
        ("llama", {"warmup": -1}, "--warmup"),
        ("llama", {"learning_rate": 0.0}, "--learning-rate must be above 0"),
        ("llama", {"dtype": "float16"}, "--dtype must be float32 or bfloat16"),
        ("llama", {"lora": 0}, "a rank of at least 1"),
        ("llama", {"target_length": TRAINED}, "not above what .* was trained at, 64 tokens"),
        ("llama", {"length": TARGET + 1}, "--length must be from 2 to the target length"),
        ("llama", {"length": 0}, "--length must be from 2 to the target length"),
        ("llama", {"pose": True, "repair": Repair("dynamic")}, "--pose cannot go with dynamic"),
        ("llama", {"pose": True, "length": TARGET}, "no room to skip"),
        ("llama", {"repair": Repair("dynamic_yarn")}, "transformers cannot apply dynamic_yarn"),
        ("llama", {"target_length": 20_000}, "tokens to train on .* fewer than one window"),
        ("llama", {"text": "nowhere"}, "nowhere"),
        ("gemma3_text", {"pose": True}, "some of its layers see a window"),
        ("bloom", {"pose": True, "repair": None}, "not told any that could be moved"),
        ("bloom", {}, "nothing here to scale"),
        ("gpt2", {"repair": None}, "has a table of 64 positions"),
        ("t5", {"pose": True, "repair": None}, "not told any that could be moved"),
        ("t5", {}, "nothing here to scale"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    folders, text, tmp_path, name, given, said
):
    with pytest.raises(InputError, match=said):
        run(folders[name], recipe(**{"text": text, **given}), tmp_path / "out" / "model")
    assert not (tmp_path / "out").exists()


def test_peft_is_asked_for_only_with_lora(text, monkeypatch):
    monkeypatch.setattr("longreach.pretrained.recipe.find_spec", lambda name: None)
    recipe(text)
    with pytest.raises(InputError, match="needs the package peft"):
        recipe(text, lora=4)


def test_a_quantized_model_is_refused(folders, text, tmp_path):
    loaded = load(str(folders["llama"]), device="cpu")
    quantized = {**loaded.checkpoint.config, "quantization_config": {"quant_method": "gptq"}}
    object.__setattr__(loaded.checkpoint, "config", quantized)
    with pytest.raises(InputError, match="are quantized"):
        rescaled(loaded, Repair("yarn"), TARGET, torch.float32)


def test_a_folder_of_something_else_is_left_alone(folders, text, adapted, tmp_path, monkeypatch):
    (tmp_path / "note").mkdir()
    (tmp_path / "note" / "note.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        run(folders["llama"], recipe(text), tmp_path / "note")
    with pytest.raises(InputError, match=r"another adaptation \(seed is 0, not 1\)"):
        run(folders["llama"], recipe(text, seed=1), adapted)
    monkeypatch.setattr(adapting, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(adapting, "WRITING", 0)
    out = tmp_path / "model"
    with pytest.raises(Killed):
        run(folders["llama"], recipe(text), out, Shown(dies_after=1))
    with pytest.raises(InputError, match=r"another adaptation \(repair is yarn, not ntk\)"):
        run(folders["llama"], recipe(text, repair=Repair("ntk")), out)
    path = work_of(out) / CHECKPOINT
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="is damaged"):
        run(folders["llama"], recipe(text), out)


def test_an_empty_folder_is_taken(folders, text, tmp_path):
    (tmp_path / "model").mkdir()
    assert run(folders["llama"], recipe(text, steps=1), tmp_path / "model").finished
    assert (tmp_path / "model" / "config.json").is_file()


def test_a_loss_that_is_no_number_ends_it(folders, text, tmp_path, monkeypatch):
    forward = Scored.forward
    monkeypatch.setattr(Scored, "forward", lambda *given: forward(*given) * float("nan"))
    with pytest.raises(RunError, match="the loss is nan at step 0"):
        run(folders["llama"], recipe(text), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_memory_is_estimated_before_anything_is_trained(folders, text, tmp_path, monkeypatch):
    loaded = load(str(folders["llama"]), device="cpu")
    asked = recipe(text).of(loaded, cpu=True)
    more = recipe(text, checkpointing=False).of(loaded, cpu=True)
    less = recipe(text, lora=2).of(loaded, cpu=True)
    needed, most, least = (needed_to_train(loaded, each) for each in (asked, more, less))
    assert least < needed < most
    assert needed > 16 * sum(each.numel() for each in loaded.model.parameters())
    monkeypatch.setattr("longreach.pretrained.memory.available", lambda device: 100_000)
    with pytest.raises(InputError, match=r"would take 0\.0 GB at the least"):
        check_training(loaded, asked, torch.device("cpu"))
    with pytest.raises(InputError, match="--force"):
        run(folders["llama"], recipe(text, steps=1), tmp_path / "model")
    assert run(folders["llama"], recipe(text, steps=1), tmp_path / "model", force=True).finished


def test_the_command_writes_the_folder_and_tells_about_it(folders, text, tmp_path):
    out = tmp_path / "model"
    asked = ["adapt", str(folders["llama"]), "--repair", "linear:factor=4", "--target-length"]
    asked += ["256", "--steps", "2", "--text", str(text), "--out", str(out), "--cpu", "--lora", "2"]
    result = CliRunner().invoke(app, [*asked, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["folder"], found["finished"], found["steps"]) == (str(out), True, 2)
    assert found["request"]["options"] == {"factor": 4}
    np.testing.assert_allclose(
        plain(out).model.rotary_emb.inv_freq.numpy(),
        Spectrum.rope(8, 500_000.0).inverse_frequencies / 4,
        rtol=1e-6,
    )
    assert load(str(out), device="cpu").trained_length == TRAINED  # The config does not say so.
    result = CliRunner().invoke(app, asked)
    assert "in 2 of 2 steps" in result.stdout
    assert "--repair none" in result.stdout


@pytest.mark.slow
def test_two_processes_share_every_batch_and_come_to_the_same_weights(folders, text, tmp_path):
    asked = ["-m", "longreach", "adapt", str(folders["gpt_neox"]), "--repair", "yarn", "--cpu"]
    asked += ["--target-length", "256", "--steps", "4", "--batch", "4", "--pose", "--text"]
    asked += [str(text), "--learning-rate", "1e-3", "--out"]
    spread = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run([sys.executable, *asked, str(tmp_path / "one")], check=True)
    subprocess.run([sys.executable, *spread, *asked, str(tmp_path / "two")], check=True)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert json.loads((tmp_path / "two" / "adapt.json").read_text())["devices"] == 2
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=1e-5)


def test_one_of_our_own_runs_is_not_adapted(tmp_path, monkeypatch, text):
    monkeypatch.setattr("longreach.pretrained.load", lambda *given, **named: object())
    asked = ["adapt", "run:ab", "--repair", "none", "--target-length", "256", "--steps", "2"]
    asked += ["--text", str(text), "--out", str(tmp_path / "model")]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, InputError)
    assert "is a run of our own" in str(result.exception)
