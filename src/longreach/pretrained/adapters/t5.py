"""T5, mT5 and umT5: the decoder read as a language model, its encoder given an empty source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ...errors import InputError
from .base import Adapter


class T5(Adapter):
    """Nothing turns, and nothing ends: each distance has a bias, and all far ones share the last.

    The decoder reads the text, behind the token that it starts from. The encoder has the
    end-of-sequence token alone, which is what is left of a source without text: so what the decoder
    looks at there is the same for every text and length, and only the context grows.
    """

    auto = "AutoModelForSeq2SeqLM"
    materialised = True
    projections = ("q", "k", "v", "o")

    start: int
    source: int

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        config = model.config
        self.start = token(config, "decoder_start_token_id", "pad_token_id")
        self.source = token(config, "eos_token_id")

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """Those of the decoder."""
        found: Sequence[nn.Module] = self.model.decoder.block
        return found

    @property
    def scale(self) -> float:
        """What the last hidden state is multiplied by before the head, where both ends are tied."""
        config = self.model.config
        # Since transformers 5.17 all are tied in name, and this says which were trained so.
        scaled = getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)
        return float(config.d_model**-0.5) if scaled else 1.0

    def hidden(
        self, tokens: Int[Tensor, "batch time"], positions: Int[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """What the head reads. Raises InputError for positions, which it cannot be told."""
        if positions is not None:
            raise InputError(
                "a model of T5's kind counts the distance between tokens as they stand, and cannot "
                "be told other positions"
            )
        return self.decoded(tokens, use_cache=False)

    def cache(self) -> Any:
        """An empty one for the decoder, which may have another number of layers."""
        from transformers import DynamicCache

        return DynamicCache(config=self.model.decoder.config)

    def read(
        self, tokens: Int[Tensor, "batch time"], cache: Any
    ) -> Float[Tensor, "batch time width"]:
        """The same of tokens that stand behind those in a cache."""
        from transformers import DynamicCache, EncoderDecoderCache

        # What is made of the source is one token for each layer: made anew, and not kept.
        both = EncoderDecoderCache(cache, DynamicCache())
        return self.decoded(tokens, use_cache=True, **self.named(both))

    def decoded(
        self, tokens: Int[Tensor, "batch time"], **given: Any
    ) -> Float[Tensor, "batch time width"]:
        """Through encoder and decoder, up to the head."""
        source = torch.full_like(tokens[:, :1], self.source)
        seen = self.model.encoder(input_ids=source, return_dict=True).last_hidden_state
        found: Tensor = self.model.decoder(
            input_ids=tokens, encoder_hidden_states=seen, return_dict=True, **given
        ).last_hidden_state
        return found * self.scale


class MT5(T5):
    """mT5, whose hidden states go to the head as they are."""

    @property
    def scale(self) -> float:
        """None of those released was trained with tied ends, and `transformers` scales nothing."""
        return 1.0


def token(config: Any, *keys: str) -> int:
    """The first of these tokens that a config names. Raises InputError if it names none."""
    for key in keys:
        found = getattr(config, key, None)
        if isinstance(found, list):
            found = next(iter(found), None)
        if found is not None:
            return int(found)
    raise InputError(
        f"the config names no {' and no '.join(keys)}, and without one a model of T5's kind cannot "
        "be read as a language model"
    )
