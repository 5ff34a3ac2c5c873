"""Tiny random models of every adapter's family, in folders as `transformers` writes them."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TRAINED = 64
VOCABULARY = 300
SIZES = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=VOCABULARY,
    max_position_embeddings=TRAINED,
)


def configs() -> dict[str, Any]:
    """One config for each model type of ADAPTERS."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers as t

    tokens = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return {
        "llama": t.LlamaConfig(**SIZES, rope_parameters=rope(500_000.0)),
        "mistral": t.MistralConfig(**SIZES, head_dim=8, sliding_window=None),
        "qwen2": t.Qwen2Config(**SIZES),
        "qwen3": t.Qwen3Config(**SIZES, head_dim=16),
        "smollm3": t.SmolLM3Config(**SIZES, **tokens),
        "gpt_neox": t.GPTNeoXConfig(
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=4,
            num_attention_heads=2,
            vocab_size=VOCABULARY,
            max_position_embeddings=TRAINED,
            rotary_pct=0.25,
        ),
        "gemma3_text": t.Gemma3TextConfig(
            **SIZES,
            head_dim=16,
            sliding_window=16,
            layer_types=["sliding_attention", "full_attention"] * 2,
            final_logit_softcapping=3.0,
        ),
        "phi3": t.Phi3Config(**SIZES, **tokens, original_max_position_embeddings=TRAINED),
        "gpt2": t.GPT2Config(
            n_embd=32, n_layer=4, n_head=4, vocab_size=VOCABULARY, n_positions=TRAINED
        ),
        "bloom": t.BloomConfig(
            hidden_size=32, n_layer=4, n_head=4, vocab_size=VOCABULARY, seq_length=TRAINED
        ),
        "mpt": t.MptConfig(
            d_model=32, n_heads=4, n_layers=4, vocab_size=VOCABULARY, max_seq_len=TRAINED
        ),
        "t5": t.T5Config(**halves(), n_positions=TRAINED),
        "mt5": t.MT5Config(**{**halves(), "initializer_factor": 0.4}, n_positions=TRAINED),
        "umt5": t.UMT5Config(**halves(), n_positions=TRAINED),
    }


def halves() -> dict[str, Any]:
    """Sizes of an encoder-decoder whose two halves differ, and its tokens."""
    return dict(
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_heads=4,
        num_layers=2,
        num_decoder_layers=4,
        vocab_size=VOCABULARY,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=48,
        initializer_factor=0.5,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
    )


def longer() -> Any:
    """One with a window of 1,024 tokens, and words that pass for text."""
    from transformers import LlamaConfig

    return LlamaConfig(**{**SIZES, "max_position_embeddings": 1024, "num_hidden_layers": 2})


def rope(base: float) -> dict[str, Any]:
    """Rotary settings as `transformers` 5 writes them."""
    return {"rope_type": "default", "rope_theta": base}


def model_of(config: Any) -> Any:
    """A model with random weights, large enough that positions matter to its logits."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    torch.manual_seed(0)
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = auto.from_config(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embed" not in name:
                weight.mul_(4)
    return model


@lru_cache
def tokenizer() -> Tokenizer:
    """Byte pairs of a few words."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 8,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(["the quick brown fox jumps over the lazy dog "] * 9, trainer)
    return found


def write(folder: Path, config: Any, **changes: Any) -> Path:
    """Config, weights and tokenizer in a folder."""
    from transformers import PreTrainedTokenizerFast

    for key, value in changes.items():
        setattr(config, key, value)
    model_of(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(), bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(folder)
    return folder


def write_gguf(path: Path) -> Path:
    """A Llama of two layers as llama.cpp's converter writes it, with the tokenizer."""
    import gguf

    width, heads, groups, layers = 32, 4, 2, 2
    narrow = width // heads * groups
    shapes = {"token_embd": (VOCABULARY, width), "output": (VOCABULARY, width)}
    shapes["output_norm"] = (width,)
    for layer in range(layers):
        for name, shape in {
            "attn_norm": (width,),
            "attn_q": (width, width),
            "attn_k": (narrow, width),
            "attn_v": (narrow, width),
            "attn_output": (width, width),
            "ffn_norm": (width,),
            "ffn_gate": (2 * width, width),
            "ffn_up": (2 * width, width),
            "ffn_down": (width, 2 * width),
        }.items():
            shapes[f"blk.{layer}.{name}"] = shape
    said = json.loads(tokenizer().to_str())["model"]
    words = sorted(said["vocab"], key=said["vocab"].get)
    words.append("<|endoftext|>")  # Else transformers adds it, past the end of the embeddings.
    words += [f"<unused{number}>" for number in range(VOCABULARY - len(words))]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(TRAINED)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(2 * width)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types([1] * VOCABULARY)
    writer.add_token_merges([" ".join(pair) for pair in said["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    draw = np.random.default_rng(0)
    for name, shape in shapes.items():
        numbers = 0.3 * draw.standard_normal(shape)
        writer.add_tensor(f"{name}.weight", numbers.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
