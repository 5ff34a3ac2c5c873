"""Real models: every family is reached into, repairs are worn and come off, bad folders refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from longreach.checkpoint import from_config
from longreach.engines import prescribe
from longreach.errors import InputError
from longreach.pretrained import LanguageModel, Proof, load
from longreach.pretrained.adapters import ADAPTERS, base
from longreach.pretrained.base import one_by_one
from longreach.pretrained.loading import Pretrained, placed
from longreach.pretrained.memory import kept
from longreach.pretrained.wear import wearing
from longreach.repairs import REPAIRS, Repair
from longreach.spectrum import Extension

from . import tiny_models
from .tiny_models import TRAINED

TARGET = 4 * TRAINED
OPTIONS = {
    "longrope": {"short_factor": [1.0], "long_factor": [1.0]},
    "base": {"base": 3e6},
}
T5S = ("t5", "mt5", "umt5")
STILL = ("gpt2", "bloom", "mpt", *T5S)
TURNED = [name for name in ADAPTERS if name not in STILL]


@pytest.fixture(scope="module")
def built() -> dict:
    """By model type: config, model and tokens that reach past the trained length."""
    found = {}
    for name, config in tiny_models.configs().items():
        longest = TRAINED if name == "gpt2" else TARGET
        tokens = torch.randint(3, 250, (2, longest), generator=torch.Generator().manual_seed(1))
        found[name] = (config, tiny_models.model_of(config), tokens)
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    wanted = ("llama", "gemma3_text", "gpt2", "mpt", "t5")
    configs = tiny_models.configs()
    return {name: tiny_models.write(root / name, configs[name]) for name in wanted}


def checkpoint_of(config):
    return from_config(json.loads(config.to_json_string()), config.model_type)


def logits_of(model, tokens: torch.Tensor) -> torch.Tensor:
    """As anyone asks `transformers` for them; an encoder is given the end of a text and no text."""
    given = {"input_ids": tokens}
    if model.config.is_encoder_decoder:
        source = torch.full((len(tokens), 1), model.config.eos_token_id)
        given = {"input_ids": source, "decoder_input_ids": tokens}
    return model(**given, use_cache=False).logits.float()


def repair_named(name: str, pairs: int) -> Repair:
    options = dict(OPTIONS.get(name, {}))
    if name == "longrope":
        rising = np.linspace(1.0, 4.0, pairs).tolist()
        options = {"short_factor": rising, "long_factor": rising}
    return Repair(name, options)


def test_every_family_has_a_tiny_model(built):
    assert set(built) == set(ADAPTERS)


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_an_adapter_gives_the_logits_of_the_model_itself(built, name):
    _, model, tokens = built[name]
    adapter = ADAPTERS[name](model)
    short = tokens[:, :TRAINED]  # MPT itself refuses more.
    with torch.inference_mode():
        whole = logits_of(model, short)
        mine = adapter.logits(adapter.hidden(short))
    torch.testing.assert_close(mine, whole, rtol=0, atol=1e-6)
    assert len(adapter.blocks) == 4
    assert all(layer < 4 for rotary in adapter.rotaries for layer in rotary.layers)


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize("name", list(ADAPTERS))
def test_endings_are_read_behind_a_text_as_each_with_all_of_it(built, name, repaired):
    config, model, tokens = built[name]
    checkpoint = checkpoint_of(config)
    loaded = Pretrained(name, "", checkpoint, ADAPTERS[name](model), None)
    text = tokens[0, :-9]  # Longer than any window, and than MPT states.
    endings = [tokens[1, :size] for size in (3, 9, 4)]
    repair = Repair("yarn") if repaired and name in TURNED else None
    with loaded.wearing(repair, TARGET):
        found = loaded.continued(text, endings, 2)
        wanted = one_by_one(loaded, text, endings, 2)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == (2, config.vocab_size)
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert not torch.allclose(found[0], found[1], atol=1e-3)


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_what_is_kept_for_endings_is_counted_before(built, name):
    config, model, tokens = built[name]
    loaded = Pretrained(name, "", checkpoint_of(config), ADAPTERS[name](model), None)
    cache = loaded.adapter.cache()
    with torch.inference_mode():
        loaded.adapter.read(tokens[:1, :TRAINED], cache)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    windowed = any(group.window is not None for group in loaded.checkpoint.groups)
    assert 2 * held <= kept(loaded, TRAINED)
    assert 2 * held == kept(loaded, TRAINED) or windowed


def test_what_turns_by_the_length_of_a_text_reads_each_ending_with_all_of_it(built):
    config, _, tokens = built["llama"]
    block = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    changed = type(config).from_dict({**config.to_dict(), "rope_parameters": block})
    model, checkpoint = tiny_models.model_of(changed), checkpoint_of(changed)
    loaded = Pretrained("llama", "", checkpoint, ADAPTERS["llama"](model), None)
    assert loaded.by_length
    endings = [tokens[1, :3], tokens[1, :9]]
    found = loaded.continued(tokens[0, :-9], endings, 2)
    for one, other in zip(found, one_by_one(loaded, tokens[0, :-9], endings, 2), strict=True):
        assert torch.equal(one, other)


def test_a_dynamic_model_reads_every_text_as_if_it_were_the_first(built):
    """That of transformers stays stretched after a long text, for every one that is not short."""
    config, _, tokens = built["llama"]
    block = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    changed = type(config).from_dict({**config.to_dict(), "rope_parameters": block})

    def anew() -> Pretrained:
        model = tiny_models.model_of(changed)
        return Pretrained("llama", "", checkpoint_of(changed), ADAPTERS["llama"](model), None)

    loaded = anew()
    assert loaded.by_length
    lengths = (TARGET, TRAINED, 2 * TRAINED, TRAINED // 2, TRAINED)
    found = [loaded.losses(tokens[:1, :n]) for n in lengths]
    for length, losses in zip(lengths, found, strict=True):
        assert torch.equal(losses, anew().losses(tokens[:1, :length]))
    # And it is not that all lengths are alike.
    assert not torch.allclose(found[0][:, :8], found[1][:, :8], atol=1e-3)


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_likely_tokens_are_told_apart_where_bfloat16_ties_them(built, name, monkeypatch):
    config, _, tokens = built[name]
    adapter = ADAPTERS[name](tiny_models.model_of(config).to(torch.bfloat16))
    monkeypatch.setattr(base, "ROWS", 64)
    with torch.inference_mode():
        hidden = adapter.hidden(tokens[:, :TRAINED])
        found, rounded = adapter.precise_logits(hidden), adapter.logits(hidden)
    head = adapter.model.get_output_embeddings()
    wanted = hidden.double() @ head.weight.double().T
    if head.bias is not None:
        wanted = wanted + head.bias.double()
    wanted = adapter.after_head(wanted)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    distinct = [len(one.unique()) for one in (found, rounded)]
    assert distinct[0] > 10 * distinct[1]


def test_mpt_goes_on_past_its_stated_length_as_the_model_with_a_longer_one(built):
    config, model, tokens = built["mpt"]
    adapter = ADAPTERS["mpt"](model)
    with torch.inference_mode():
        mine = adapter.hidden(tokens)
    assert config.max_seq_len == TRAINED
    longer = type(config).from_dict({**config.to_dict(), "max_seq_len": TARGET})
    other = type(model)(longer).eval()
    other.load_state_dict(model.state_dict())
    with torch.inference_mode():
        theirs = ADAPTERS["mpt"](other).hidden(tokens)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", T5S)
def test_a_head_of_its_own_is_given_what_it_was_trained_with(built, name):
    """Of T5 v1.1 and its like, whose ends are not tied, hidden states are not scaled either."""
    config, _, tokens = built[name]
    untied = type(config)(**tiny_models.halves(), tie_word_embeddings=False)
    model = tiny_models.model_of(untied)
    adapter = ADAPTERS[name](model)
    assert adapter.scale == 1
    with torch.inference_mode():
        mine = adapter.logits(adapter.hidden(tokens))
        torch.testing.assert_close(mine, logits_of(model, tokens), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", T5S)
def test_a_decoder_reads_text_behind_its_start_token_as_it_was_trained_to(built, name):
    """`transformers` itself puts the start token before what is to be predicted."""
    config, model, tokens = built[name]
    changed = type(config).from_dict({**config.to_dict(), "decoder_start_token_id": 7})
    other = type(model)(changed).eval()
    other.load_state_dict(model.state_dict())
    loaded = Pretrained(name, "", checkpoint_of(changed), ADAPTERS[name](other), None)
    assert (loaded.start, loaded.source) == (7, 2)
    source = torch.full((len(tokens), 1), changed.eos_token_id)
    with torch.inference_mode():
        labels = tokens[:, 1:].contiguous()
        logits = other(input_ids=source, labels=labels).logits.float()
    wanted = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), tokens[:, 1:], reduction="none"
    )
    torch.testing.assert_close(loaded.losses(tokens), wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(loaded.losses(tokens, last=9), wanted[:, -9:], rtol=0, atol=1e-5)
    torch.testing.assert_close(loaded.logits(tokens[:, :-1]), logits, rtol=0, atol=1e-5)


def test_a_t5_cannot_be_told_positions_nor_be_read_without_its_own_tokens(built):
    config, model, tokens = built["t5"]
    positions = torch.arange(9).expand(2, 9)
    with pytest.raises(InputError, match="cannot be told other positions"):
        ADAPTERS["t5"](model).hidden(tokens[:, :9], positions)
    said = config.to_dict()
    for lacking, wanted in (
        ({"decoder_start_token_id": None, "pad_token_id": 5}, (5, 2)),
        ({"eos_token_id": [4, 2]}, (0, 4)),
        ({"decoder_start_token_id": None, "pad_token_id": None}, "no decoder_start_token_id and"),
        ({"eos_token_id": None}, "names no eos_token_id"),
    ):
        bare = type(model)(type(config).from_dict({**said, **lacking}))
        if isinstance(wanted, str):
            with pytest.raises(InputError, match=wanted):
                ADAPTERS["t5"](bare)
        else:
            adapter = ADAPTERS["t5"](bare)
            assert (adapter.start, adapter.source) == wanted


def test_a_folder_of_t5_is_loaded_and_says_what_its_encoder_has(folders):
    said: list[str] = []
    model = load(str(folders["t5"]), say=said.append)
    assert isinstance(model, LanguageModel)
    assert (model.trained_length, model.limit, model.start) == (TRAINED, None, 0)
    assert said[-1].endswith("its decoder reads the text, and its encoder has </s> alone")
    tokens = torch.tensor([model.encode("the lazy dog jumps over the quick fox " * 9)])
    seen = tokens[:, :-1].clone()
    seen[:, 0] = 0
    logits = logits_of(model.model, seen)[0]
    wanted = torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="none")
    torch.testing.assert_close(model.losses(tokens)[0], wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("repair_name", list(REPAIRS))
@pytest.mark.parametrize("name", TURNED)
def test_worn_is_as_prescribed_and_off_is_as_before(built, name, repair_name):
    config, model, tokens = built[name]
    adapter, checkpoint = ADAPTERS[name](model), checkpoint_of(config)
    group = checkpoint.unbounded[0]
    repair = repair_named(repair_name, group.spectrum.pairs)

    def logits():
        with torch.inference_mode():
            return adapter.logits(adapter.hidden(tokens))

    before = logits()
    with wearing(adapter, checkpoint, repair, TARGET) as proof:
        worn = logits()
    assert torch.equal(logits(), before)
    assert not torch.allclose(worn, before, atol=1e-3), "the repair changed nothing"

    # What was read back from the running model is what the repair says.
    wanted = repair.apply(group.spectrum, Extension(group.original_length, TARGET))
    (seen,) = proof.worn
    np.testing.assert_allclose(seen.inverse_frequencies, wanted.inverse_frequencies, rtol=1e-6)
    assert seen.amplitude == pytest.approx(wanted.amplitude, rel=1e-6)
    kept = {"gemma3_text": (0, 2), "smollm3": (3,)}.get(name, ())
    assert proof.untouched == kept
    assert proof.layers == 4 - len(kept)

    # And the model that transformers makes of the prescribed block gives the same logits.
    prescribed = prescribe(checkpoint, repair, Extension(TRAINED, TARGET), "transformers")
    if prescribed.refused is not None:
        assert repair_name == "dynamic_yarn" or name == "phi3", prescribed.refused
        return
    changed = {**json.loads(config.to_json_string()), **prescribed.block}
    configured = type(model)(type(config).from_dict(changed)).eval()
    configured.load_state_dict(model.state_dict())
    with torch.inference_mode():
        theirs = configured(input_ids=tokens, use_cache=False).logits.float()
    torch.testing.assert_close(worn, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", STILL)
def test_what_is_not_turned_has_nothing_to_repair(built, name):
    config, model, _ = built[name]
    adapter, checkpoint = ADAPTERS[name](model), checkpoint_of(config)
    with (
        pytest.raises(InputError, match="turns none"),
        wearing(adapter, checkpoint, Repair("yarn"), TARGET),
    ):
        pass


def test_a_model_whose_layers_all_have_windows_has_nothing_to_repair(built):
    from transformers import MistralConfig

    config = MistralConfig(**tiny_models.SIZES, head_dim=8, sliding_window=16)
    model = tiny_models.model_of(config)
    with (
        pytest.raises(InputError, match="nothing to repair"),
        wearing(ADAPTERS["mistral"](model), checkpoint_of(config), Repair("yarn"), TARGET),
    ):
        pass


def test_a_repair_comes_off_when_something_fails_and_leaves_what_others_put_on(built):
    _, model, tokens = built["llama"]
    config = built["llama"][0]
    adapter, checkpoint = ADAPTERS["llama"](model), checkpoint_of(config)
    module = adapter.rotaries[0].module
    calls = []
    original = module.forward

    def counted(*given, **named):
        calls.append(len(given))
        return original(*given, **named)

    module.forward = counted  # As accelerate does with hooks.
    try:
        with (
            pytest.raises(ZeroDivisionError),
            wearing(adapter, checkpoint, Repair("linear"), TARGET),
        ):
            1 / 0  # noqa: B018
        assert module.forward is counted
        calls.clear()
        with torch.inference_mode():
            adapter.hidden(tokens)
        assert calls
    finally:
        del module.forward


def test_a_repair_starts_from_pre_training_not_from_the_repair_in_the_config(built):
    """Else a model whose config asks for YaRN already would be repaired twice."""
    config, model, tokens = built["llama"]
    block = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": TRAINED}
    changed = json.loads(config.to_json_string())
    changed["rope_parameters"] = {**block, "rope_theta": 500_000.0}
    changed["max_position_embeddings"] = 2 * TRAINED
    scaled = type(model)(type(config).from_dict(changed)).eval()
    scaled.load_state_dict(model.state_dict())
    found = []
    for one in (model, scaled):
        adapter = ADAPTERS["llama"](one)
        checkpoint = checkpoint_of(one.config)
        with wearing(adapter, checkpoint, Repair("yarn"), TARGET), torch.inference_mode():
            found.append(adapter.logits(adapter.hidden(tokens)))
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


def test_a_layer_that_is_not_given_the_spectrum_is_found_out(built):
    """A fault of an adapter must not pass for an applied repair."""
    config, model, _ = built["llama"]

    class Wrong(ADAPTERS["llama"]):
        @property
        def rotaries(self):
            (rotary,) = super().rotaries
            return (type(rotary)(torch.nn.Identity(), None, rotary.layers),)

    with (
        pytest.raises(RuntimeError, match="were not given"),
        wearing(Wrong(model), checkpoint_of(config), Repair("linear"), TARGET),
    ):
        pass


def test_a_folder_is_loaded_and_never_written_to(folders):
    folder = folders["llama"]
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    model = load(str(folder))
    assert isinstance(model, LanguageModel)
    assert (model.trained_length, model.limit) == (TRAINED, None)
    tokens = torch.tensor([model.encode("the lazy dog jumps over the quick fox " * 9)])
    assert model.decode(tokens[0].tolist()).startswith("the lazy dog")
    losses = model.losses(tokens)
    logits = model.logits(tokens[:, :-1])
    wanted = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:], reduction="none")
    torch.testing.assert_close(losses[0], wanted)
    torch.testing.assert_close(model.losses(tokens, last=5), losses[:, -5:])
    with model.wearing(Repair("yarn"), TARGET) as proof:
        assert isinstance(proof, Proof)
        assert proof.as_json()["layers_touched"] == 4
        assert not torch.equal(model.losses(tokens), losses)
    with model.wearing(None, TARGET) as proof:
        assert proof is None
    assert torch.equal(model.losses(tokens), losses)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_window_begins_with_the_token_that_the_tokenizer_puts_before_every_text(
    folders, tmp_path
):
    from tokenizers.processors import TemplateProcessing

    plain = load(str(folders["llama"]))
    assert plain.start is None
    folder = tmp_path / "begins"
    shutil.copytree(folders["llama"], folder)
    plain.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", plain.tokenizer.bos_token_id)]
    )
    plain.tokenizer.save_pretrained(folder)
    begins = load(str(folder))
    assert begins.start == begins.tokenizer.bos_token_id
    assert begins.encode("the fox") == plain.encode("the fox")  # Asked for text, it gives text.
    assert begins.digest != load(str(folders["llama"])).digest
    tokens = torch.randint(3, 250, (2, 41), generator=torch.Generator().manual_seed(1))
    swapped = tokens.clone()
    swapped[:, 0] = begins.start
    before = tokens.clone()
    for one, other in (
        (begins.losses(tokens), plain.losses(swapped)),
        (begins.losses(tokens, last=7), plain.losses(swapped, last=7)),
        (begins.logits(tokens, last=3), plain.logits(swapped, last=3)),
        *zip(
            begins.continued(tokens[0], [tokens[1, :3], tokens[1, :5]], 2),
            plain.continued(swapped[0], [tokens[1, :3], tokens[1, :5]], 2),
            strict=True,
        ),
    ):
        assert torch.equal(one, other)
    assert torch.equal(tokens, before)
    assert not torch.equal(begins.losses(tokens), plain.losses(tokens))


def test_losses_do_not_depend_on_how_many_logits_are_made_at_a_time(folders, monkeypatch):
    model = load(str(folders["gemma3_text"]))
    tokens = torch.randint(3, 250, (2, 50), generator=torch.Generator().manual_seed(0))
    whole = model.losses(tokens)
    monkeypatch.setattr("longreach.pretrained.loading.CHUNK", 7)
    torch.testing.assert_close(model.losses(tokens), whole)


def test_dtype_and_learned_positions(folders):
    model = load(str(folders["gpt2"]), dtype="bfloat16", device="cpu")
    assert model.model.dtype == torch.bfloat16
    assert model.limit == TRAINED
    assert model.holds(torch.zeros(1, TRAINED, dtype=torch.long))
    assert not model.holds(torch.zeros(1, TRAINED + 1, dtype=torch.long))
    assert model.logits(torch.zeros(1, 3, dtype=torch.long)).dtype == torch.float32


def test_the_digest_covers_weights_and_config(folders, tmp_path):
    original = load(str(folders["llama"])).digest
    other = shutil.copytree(folders["llama"], tmp_path / "copy")
    assert load(str(other)).digest == original
    path = other / "model.safetensors"
    data = bytearray(path.read_bytes())
    for place in (len(data) // 2, len(data) - 1):
        changed = data.copy()
        changed[place] ^= 1
        path.write_bytes(changed)
        assert load(str(other)).digest != original
    assert load(str(folders["llama"]), dtype="bfloat16").digest != original
    assert load(str(folders["llama"]), trained_length=80).digest != original


def spoilt(kind: str, folder: Path) -> None:
    """Makes a folder one that cannot be loaded."""
    weights, config = folder / "model.safetensors", folder / "config.json"
    settings = json.loads(config.read_text())
    if kind == "no weights":
        weights.unlink()
    elif kind == "pickle":
        weights.rename(folder / "pytorch_model.bin")
    elif kind == "shards":
        index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        weights.rename(folder / "model-1.safetensors")
    elif kind == "index":
        (folder / "model.safetensors.index.json").write_text("{}")
    elif kind == "cut short":
        weights.write_bytes(weights.read_bytes()[:2000])
    elif kind == "deeper":
        config.write_text(json.dumps({**settings, "num_hidden_layers": 6}))
    elif kind == "code":
        config.write_text(json.dumps({**settings, "auto_map": {"AutoModel": "m.M"}}))
    elif kind == "family":
        config.write_text(json.dumps({**settings, "model_type": "olmo2"}))
    elif kind == "encoder":
        import transformers

        weights.unlink()
        halves = transformers.T5Config(**tiny_models.halves())
        transformers.T5EncoderModel(halves).save_pretrained(folder)
    elif kind == "tokenizer":
        import transformers

        small = dict(json.loads(config.read_text()), vocab_size=100)
        shutil.rmtree(folder)
        folder.mkdir()
        tiny_models.write(folder, transformers.LlamaConfig.from_dict(small))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no weights", "has a config and no weights"),
        ("pickle", "convert them to safetensors"),
        ("shards", "lacks 1 of 2 files of weights: model-2.safetensors"),
        ("index", "is damaged"),
        ("cut short", "cannot load"),
        ("deeper", "lack 18 tensors"),
        ("code", "code of its own"),
        ("family", "no adapter for the model type 'olmo2'"),
        ("encoder", "such as decoder.block.0"),
        ("tokenizer", "do not belong together"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_sentence(folders, tmp_path, kind, said):
    folder = shutil.copytree(folders["llama"], tmp_path / "spoilt")
    spoilt(kind, folder)
    with pytest.raises(InputError, match=said) as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"device": "tpu"}, "device must be"),
        ({"device": "cuda:9"}, "cuda"),
    ],
)
def test_a_dtype_or_device_that_there_is_not(folders, given, said):
    with pytest.raises(InputError, match=said):
        load(str(folders["llama"]), **given)
    assert placed("cpu") == "cpu"
