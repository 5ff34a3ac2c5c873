"""What model families do that their configs do not say: defaults, layer patterns, windows. A table.

A family that is not listed is read by its keys alone. To add one: a line in FAMILIES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .layout import Kind


@dataclass(frozen=True)
class Window:
    """A pre-training window that the config does not tell.

    stated: what the config states instead. trained: tokens in pre-training. source: who says so.
    """

    stated: int
    trained: int
    source: str


@dataclass(frozen=True)
class Family:
    """What is true of a model family unless its config says otherwise.

    kind: how positions are told, unless position_embedding_type says; None: as the keys say.
    base, local_base: of RoPE, for full and for sliding layers. share: the part of head_dim turned.
    period: every period-th layer sees all, the others a window. nope: which layers are not turned:
        "full" for those that see all, "interval" for every `no_rope_layer_interval`-th, "all".
    slides: whether `sliding_window` counts without `use_sliding_window: true`.
    chunk: tokens per chunk of attention on turned layers (Llama 4).
    latent: multi-head latent attention, whose softmax has a factor of its own under YaRN.
    stated: the window where the config has no key for it. windows: see Window.
    local_repair: whether a flat repair applies to sliding layers too.
    """

    kind: Kind | None = "rope"
    base: float = 10_000.0
    local_base: float | None = None
    share: float = 1.0
    rotary_dim: int | None = None
    period: int | None = None
    nope: str | None = None
    slides: bool = True
    chunk: int | None = None
    latent: bool = False
    stated: int | None = None
    windows: tuple[Window, ...] = ()
    local_repair: bool = True
    alibi: Callable[[Mapping[str, Any]], bool] | None = None


QWEN2 = "Qwen2.5 report, arXiv:2412.15115: pre-trained to 32,768, further by YaRN"
QWEN3 = "Qwen3 report, arXiv:2505.09388: pre-trained to 32,768; 40,960 leaves room for the answer"
DEEPSEEK = "DeepSeek-V3 report, arXiv:2412.19437: pre-trained at 4,096, then YaRN"
GEMMA3 = "Gemma 3 report, arXiv:2503.19786: pre-trained at 32,768, then interpolated by 8"

_QWEN2 = Family(slides=False, windows=(Window(131_072, 32_768, QWEN2),))
_QWEN3 = Family(slides=False, windows=(Window(40_960, 32_768, QWEN3),))
_QWEN_VL = Family(base=1_000_000.0, slides=False)
_DEEPSEEK = Family(latent=True, windows=(Window(163_840, 4_096, DEEPSEEK),))
_LATENT = Family(latent=True)
_GEMMA3 = Family(
    base=1_000_000.0,
    local_base=10_000.0,
    period=6,
    local_repair=False,
    windows=(Window(131_072, 32_768, GEMMA3),),
)
_HALF = Family(share=0.5)
_QUARTER = Family(share=0.25)
_LEARNED = Family(kind="learned")
_T5 = Family(kind="t5")
_LLAMA4 = Family(base=500_000.0, nope="interval", chunk=8_192)


def _falcon_alibi(config: Mapping[str, Any]) -> bool:
    return config.get("alibi") is True


def _baichuan_alibi(config: Mapping[str, Any]) -> bool:
    """The 13B of Baichuan has ALiBi and no key for it; the 7B has RoPE."""
    return config.get("hidden_size") == 5120 or config.get("num_attention_heads") == 40


FAMILIES: dict[str, Family] = {
    # Plain RoPE on every layer, over the whole head.
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(base=1_000_000.0),
    "gemma": Family(),
    "olmo": Family(),
    "olmo2": Family(),
    "starcoder2": Family(),
    "internlm2": Family(),
    "deepseek": Family(),
    "granite": Family(),
    "ernie4_5": Family(base=500_000.0),
    "cohere": Family(base=500_000.0),
    "apertus": Family(base=12_000_000.0),
    "helium": Family(base=100_000.0),
    "bitnet": Family(base=500_000.0),
    "exaone": Family(base=500_000.0),
    "seed_oss": Family(),
    "hunyuan_v1_dense": Family(),
    "phi3": Family(),
    "phimoe": Family(base=1_000_000.0),
    "lfm2": Family(base=1_000_000.0),
    "jais2": Family(),
    "qwen": Family(stated=8_192),
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen2_vl": _QWEN_VL,
    "qwen2_vl_text": _QWEN_VL,
    "qwen2_5_vl": _QWEN_VL,
    "qwen2_5_vl_text": _QWEN_VL,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": Family(base=500_000.0, slides=False),
    # A part of the head.
    "gpt_neox": _QUARTER,
    "gptj": Family(rotary_dim=64),
    "codegen": Family(rotary_dim=64),
    "phi": _HALF,
    "phi-msft": Family(rotary_dim=32),
    "stablelm": _QUARTER,
    "stablelm_epoch": _QUARTER,
    "persimmon": _HALF,
    "nemotron": _HALF,
    "glm": _HALF,
    "glm4": _HALF,
    "glm4_moe": _HALF,
    "chatglm": _HALF,
    "bamba": _HALF,
    "minimax": Family(base=1_000_000.0),
    "minimax_m2": Family(base=5_000_000.0),
    "qwen3_next": Family(share=0.25, slides=False),
    "qwen3_5_text": Family(share=0.25, slides=False),
    "qwen3_5_moe_text": Family(share=0.25, slides=False),
    # A slice beside the head: multi-head latent attention.
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "kimi_k2": _LATENT,
    "minicpm3": _LATENT,
    "glm4_moe_lite": _LATENT,
    "longcat_flash": Family(base=10_000_000.0, latent=True),
    "mistral4": _LATENT,
    # Some layers see a window only.
    "gemma2": Family(period=2),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n": Family(base=1_000_000.0, local_base=10_000.0, period=5, local_repair=False),
    "gemma3n_text": Family(base=1_000_000.0, local_base=10_000.0, period=5, local_repair=False),
    "gemma4_text": Family(base=1_000_000.0, local_base=10_000.0, period=6, local_repair=False),
    "gpt_oss": Family(base=150_000.0, period=2),
    "olmo3": Family(base=500_000.0, period=4, local_repair=False),
    "modernbert": Family(base=160_000.0, local_base=10_000.0, local_repair=False),
    # Some layers are not turned.
    "cohere2": Family(period=4, nope="full"),
    "exaone4": Family(period=4, nope="full"),
    "afmoe": Family(period=4, nope="full"),
    "smollm3": Family(base=2_000_000.0, nope="interval", slides=False),
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "jamba": Family(kind="nope"),
    "granitemoehybrid": Family(kind="nope"),
    # No RoPE at all, or not always.
    "bloom": Family(kind="alibi", stated=2_048),
    "mpt": Family(kind="alibi", stated=2_048),
    "falcon": Family(alibi=_falcon_alibi, stated=2_048),
    "RefinedWeb": Family(alibi=_falcon_alibi, stated=2_048),
    "RefinedWebModel": Family(alibi=_falcon_alibi, stated=2_048),
    "baichuan": Family(alibi=_baichuan_alibi),
    "jais": Family(kind="alibi"),
    "gpt_refact": Family(kind="alibi"),
    "gpt2": _LEARNED,
    "gpt_neo": _LEARNED,
    "gpt_bigcode": _LEARNED,
    "openai-gpt": _LEARNED,
    "opt": _LEARNED,
    "biogpt": _LEARNED,
    "bert": _LEARNED,
    "roberta": _LEARNED,
    "ctrl": Family(kind="sinusoidal"),
    "xglm": Family(kind="sinusoidal"),
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "longt5": _T5,
    "switch_transformers": _T5,
}
"""Facts of each `model_type`, as of its released configs and of transformers 5.24."""

PLAIN = Family(kind=None)
"""A family that is not listed: its keys decide."""
