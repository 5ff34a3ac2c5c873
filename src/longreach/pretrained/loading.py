"""Loads a model that a user names: a folder, a Hugging Face id, a GGUF file, or one of our runs."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..checkpoint import Checkpoint, read
from ..checkpoint.sources import Gguf, load as named
from ..errors import InputError
from ..repairs import Repair
from .adapters import ADAPTERS, Adapter
from .base import LanguageModel, one_by_one
from .wear import BY_LENGTH, Proof, wearing

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

CHUNK = 512
"""Tokens whose logits are held at a time: at a vocabulary of 50,000, 0.1 GB."""

ADAPTED = "adapt.json"
"""What `longreach adapt` leaves beside a model's config, to say how it was made."""

PICKLED = (".bin", ".pt", ".pth", ".ckpt")


@dataclass
class Pretrained:
    """A model of `transformers`, as a LanguageModel.

    checkpoint: what its config says of positions. problems: what is amiss, in sentences.
    """

    name: str
    digest: str
    checkpoint: Checkpoint
    adapter: Adapter
    tokenizer: Any
    problems: tuple[str, ...] = ()

    @property
    def model(self) -> Any:
        """That of `transformers`."""
        return self.adapter.model

    @cached_property
    def trained_length(self) -> int:
        """Of the layers that see all tokens, before any extension."""
        groups = [*self.checkpoint.unbounded, *self.checkpoint.rope, *self.checkpoint.groups]
        for group in groups:
            found = group.original_length or group.trained_length or group.limit
            if found is not None:
                return found
        if self.checkpoint.stated_length is not None:
            return self.checkpoint.stated_length
        raise InputError(
            f"the config of {self.name} does not say how many tokens it was trained with; give "
            "--trained-length"
        )

    @property
    def limit(self) -> int | None:
        """Rows of its table of positions, if it has one."""
        limits = [group.limit for group in self.checkpoint.groups if group.limit is not None]
        return min(limits, default=None)

    @property
    def device(self) -> torch.device:
        """Where tokens go in."""
        found: torch.device = self.model.get_input_embeddings().weight.device
        return found

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with no others added."""
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return found

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens."""
        found: str = self.tokenizer.decode(tokens)
        return found

    def holds(self, tokens: Int[Tensor, "batch time"]) -> bool:
        """Whether its table of positions, if it has one, is long enough."""
        return self.limit is None or tokens.shape[1] <= self.limit

    @torch.inference_mode()
    def logits(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch queries vocabulary"]:
        """After every token or the `last` so many, in float32, without gradients."""
        hidden = self.hidden(tokens)
        return self.adapter.precise_logits(hidden if last is None else hidden[:, -last:])

    @torch.inference_mode()
    def continued(
        self, tokens: Int[Tensor, " time"], endings: Sequence[Int[Tensor, " some"]], last: int
    ) -> list[Float[Tensor, "last vocabulary"]]:
        """Logits after the last so many tokens of each ending, each read behind the same tokens.

        These are read once, and their keys and values kept for every ending.
        """
        if len(endings) == 1 or self.by_length:
            return one_by_one(self, tokens, endings, last)
        cache = self.adapter.cache()
        self.adapter.read(self.begun(tokens[None]).to(self.device), cache)
        found = []
        for ending in endings:
            # A copy: layers that see a window have let go of what a shorter text would need.
            hidden = self.adapter.read(ending[None].to(self.device), copy.deepcopy(cache))
            found.append(self.adapter.precise_logits(hidden[0, -last:]))
        return found

    def hidden(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        """What the head reads, of every token, whatever was read before."""
        if self.by_length:
            self.adapter.fresh()
        return self.adapter.hidden(self.begun(tokens).to(self.device))

    @cached_property
    def start(self) -> int | None:
        """The token that its tokenizer, or else its decoder, puts before every text, if any does.

        Some models (Gemma's) make little of a text that does not begin with it.
        """
        if self.adapter.start is not None:
            return self.adapter.start
        found = None if self.tokenizer is None else self.tokenizer.bos_token_id
        if found is None or self.tokenizer.encode("a")[:1] != [found]:
            return None
        return int(found)

    @property
    def source(self) -> int | None:
        """The token that its encoder reads, whatever the text is; None if it has no encoder."""
        return self.adapter.source

    def begun(self, tokens: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
        """Windows of text as the model is to read them: the first token gives way to `start`.

        So a window keeps its length, and nobody is asked to predict what it begins with.
        """
        if self.start is None:
            return tokens
        tokens = tokens.clone()
        tokens[:, 0] = self.start
        return tokens

    @cached_property
    def by_length(self) -> bool:
        """Whether, as it is, it turns by what the length of the text says: a prefix is no guide."""
        return any(
            group.repair is not None and group.repair.name in BY_LENGTH
            for group in self.checkpoint.rope
        )

    @torch.inference_mode()
    def losses(
        self, tokens: Int[Tensor, "batch time"], *, last: int | None = None
    ) -> Float[Tensor, "batch scored"]:
        """Of every token but the first, or of the `last` so many, in nats, on the CPU.

        Logits are made for a few hundred tokens at a time: at 12,288 tokens and a vocabulary of
        49,152, those of all would take 2.4 GB.
        """
        scored = last or tokens.shape[1] - 1
        hidden = self.hidden(tokens[:, :-1])[:, -scored:]
        truth = tokens[:, -scored:]
        found = []
        parts = zip(torch.split(hidden, CHUNK, 1), torch.split(truth, CHUNK, 1), strict=True)
        for states, wanted in parts:
            logits = self.adapter.logits(states)
            wanted = wanted.to(logits.device)
            losses = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
            found.append(losses.view(wanted.shape).cpu())
        return torch.cat(found, dim=1)

    @contextmanager
    def wearing(self, repair: Repair | None, target_length: int) -> Iterator[Proof | None]:
        """Repaired for a while, for the target length; None wears nothing."""
        if repair is None:
            yield None
            return
        with wearing(self.adapter, self.checkpoint, repair, target_length) as proof:
            yield proof


def load(
    name: str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    trained_length: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> LanguageModel:
    """The model that `name` names, ready to be measured.

    name: a folder in the form of `transformers`, a Hugging Face id (org/name[@revision]), a GGUF
        file (also gguf:PATH), or a run folder of ours (also run:DIGEST, looked for under runs/).
    dtype: float32, bfloat16 or float16; as the weights are stored unless given, and for GGUF
        bfloat16. device: cpu, cuda, cuda:1, mps, or auto, which spreads a model over all devices;
        cuda or mps where there is one, unless given.
    trained_length: tokens, where the config is wrong or silent about it. Of a folder that
        `longreach adapt` wrote, that of the model it was made from.

    Raises InputError if it cannot be loaded: no weights, weights in pickle, shards that are
    missing, code of its own, a family without an adapter, a tokenizer that does not fit, no such
    device.
    """
    if dtype is not None and dtype not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(DTYPES)}, got '{dtype}'")
    if name.startswith("run:") or (Path(name) / "training.json").is_file():
        from .own import load_run

        return load_run(name)
    source = named(name)
    checkpoint = read(name, trained_length=trained_length or before_adapting(name))
    where = placed(device)
    if isinstance(source, Gguf):
        found = load_gguf(name, source.path, checkpoint, dtype, where, say)
    else:
        found = load_folder(name, source.config, checkpoint, dtype, where, say)
    if found.source is not None:
        say(
            f"{name} is an encoder-decoder: its decoder reads the text, and its encoder has "
            f"{found.decode([found.source])} alone"
        )
    return found


def before_adapting(name: str) -> int | None:
    """The trained length of the model that an adapted folder was made from; None for any other.

    Most configs do not say it: where a block holds no original length, the new one stands there.
    """
    path = Path(name) / ADAPTED
    try:
        found = json.loads(path.read_bytes())["trained_length"] if path.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # A file of that name that is not ours.
    return found if isinstance(found, int) and found > 0 else None


def for_engines(model: LanguageModel) -> Pretrained:
    """The same model. Raises InputError for one of our own runs, which no engine serves."""
    if not isinstance(model, Pretrained):
        raise InputError(
            f"{model.name} is one of our own runs, which no engine serves; `longreach measure` "
            "measures it under repairs"
        )
    return model


def library() -> Any:
    """`transformers`, kept from speaking. Raises InputError where something of it is missing."""
    try:
        for name in ("accelerate", "gguf"):
            import_module(name)
        found = import_module("transformers")
    except ImportError as error:
        raise InputError(
            f"this needs the extra 'pretrained' ({error}): pip install 'longreach[pretrained]'"
        ) from None
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


def placed(device: str | None) -> str:
    """The device that is meant. Raises InputError if there is none such."""
    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind = device.partition(":")[0]
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "auto": True,
    }
    if kind not in there:
        raise InputError(f"device must be cpu, cuda, cuda:N, mps or auto, got '{device}'")
    if not there[kind]:
        raise InputError(f"there is no {kind} device here, got '{device}'; take cpu")
    if kind == "cuda" and ":" in device:
        number = device.partition(":")[2]
        if not number.isdigit() or int(number) >= torch.cuda.device_count():
            raise InputError(f"there are {torch.cuda.device_count()} cuda devices, got '{device}'")
    return device


def load_folder(
    name: str,
    config: dict[str, Any],
    checkpoint: Checkpoint,
    dtype: str | None,
    device: str,
    say: Callable[[str], None],
) -> Pretrained:
    """From a folder or the hub."""
    kind = adapter_of(name, checkpoint, config)
    here = Path(name).expanduser()
    path, _, revision = (str(here), "", "") if here.exists() else name.partition("@")
    more: dict[str, Any] = {"revision": revision} if revision else {}
    folder = None
    if here.exists():
        folder = here if here.is_dir() else here.parent
        path = str(folder)
        check_weights(folder)
    transformers = library()
    more["trust_remote_code"] = False
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, **more)
        say(f"loading {name}")
        model, report = getattr(transformers, kind.auto).from_pretrained(
            path,
            dtype=DTYPES[dtype] if dtype else "auto",
            device_map=device,
            use_safetensors=True,
            output_loading_info=True,
            **more,
        )
    except Exception as error:
        raise InputError(f"cannot load {name}: {first_line(error)}") from error
    check_loaded(name, model, tokenizer, report)
    weights = sorted(folder.glob("*.safetensors")) if folder else []
    found = Pretrained(name, "", checkpoint, kind(model.eval()), tokenizer)
    found.digest = digest_of(model, checkpoint, weights, name, found.start)
    return found


def load_gguf(
    name: str,
    path: Path,
    checkpoint: Checkpoint,
    dtype: str | None,
    device: str,
    say: Callable[[str], None],
) -> Pretrained:
    """From a GGUF file, whose weights `transformers` turns into numbers of full width."""
    kind = adapter_of(name, checkpoint, {})
    transformers = library()
    where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        say(f"loading {name}: a GGUF file takes a while to unpack")
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
        model = getattr(transformers, kind.auto).from_pretrained(
            **where, dtype=DTYPES[dtype or "bfloat16"], device_map=device
        )
    except Exception as error:
        raise InputError(f"cannot load {name}: {first_line(error)}") from error
    check_loaded(name, model, tokenizer, {})
    found = Pretrained(name, "", checkpoint, kind(model.eval()), tokenizer)
    found.digest = digest_of(model, checkpoint, [path], name, found.start)
    found.problems = tuple(turned_otherwise(found))
    return found


def turned_otherwise(loaded: Pretrained) -> Iterator[str]:
    """Where `transformers` turns a model from GGUF otherwise than its file says."""
    from .wear import read_back

    for rotary in loaded.adapter.rotaries:
        for group in loaded.checkpoint.rope:
            if group.layers is not None and not set(group.layers) & {*rotary.layers}:
                continue
            used = group.used()
            if used is None:
                continue
            speeds, amplitude = read_back(rotary, used)
            off = abs(speeds / used.inverse_frequencies - 1).max()
            if off > 1e-4 or abs(amplitude / used.amplitude - 1) > 1e-4:
                yield (
                    f"transformers does not apply what {loaded.name} says of positions: a pair "
                    f"turns {off:.1%} otherwise than the file says. Repairs start from the file"
                )
            return


def adapter_of(name: str, checkpoint: Checkpoint, config: dict[str, Any]) -> type[Adapter]:
    """The family's adapter. Raises InputError if there is none, or the model brings code."""
    if config.get("auto_map"):
        raise InputError(
            f"{name} brings code of its own (auto_map in its config), which is not run here; take "
            "a copy of the model that transformers knows"
        )
    kind = str(checkpoint.config.get("model_type") or checkpoint.model_type)
    if kind in ADAPTERS:
        return ADAPTERS[kind]
    raise InputError(
        f"no adapter for the model type '{kind}' of {name}; there are: {', '.join(ADAPTERS)}. "
        "`longreach diagnose` and `prescribe` need none"
    )


def check_weights(folder: Path) -> None:
    """Raises InputError if a folder has no safetensors, or not all that its index names."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            shards = sorted({*json.loads(index.read_bytes())["weight_map"].values()})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{index} is damaged: it should map weights to files") from None
        missing = [shard for shard in shards if not (folder / shard).is_file()]
        if missing:
            raise InputError(
                f"{folder} lacks {len(missing)} of {len(shards)} files of weights: "
                f"{', '.join(missing[:4])}{' and more' if len(missing) > 4 else ''}; download them "
                "again"
            )
        return
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED)
    if pickled:
        raise InputError(
            f"{folder} has its weights in pickle alone ({', '.join(pickled[:3])}), which can run "
            "code and is not read; convert them to safetensors"
        )
    raise InputError(f"{folder} has a config and no weights; expected *.safetensors")


def check_loaded(name: str, model: Any, tokenizer: Any, report: dict[str, Any]) -> None:
    """Raises InputError if weights were left at random, or the tokenizer is another model's."""
    missing = sorted(report.get("missing_keys") or ())
    if missing:
        raise InputError(
            f"the weights of {name} lack {len(missing)} tensors of the model that its config "
            f"describes, such as {missing[0]}: they are of another model, or incomplete"
        )
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise InputError(
            f"the tokenizer of {name} has {len(tokenizer):,} tokens, and the model has rows for "
            f"{rows:,}: they do not belong together"
        )


def digest_of(
    model: Any, checkpoint: Checkpoint, weights: list[Path], name: str, start: int | None
) -> str:
    """16 hexadecimal digits that cover everything but text and repair that a loss depends on.

    The config with what it is taken to say of the trained length, what the weights are held in, the
    token that windows begin with if there is one, and all bytes of the weights' files. Of a model
    of the hub, the commit stands for the files.
    """
    lengths = [(group.trained_length, group.original_length) for group in checkpoint.groups]
    about: list[object] = [dict(checkpoint.config), lengths, str(model.dtype)]
    about += [] if start is None else [start]
    found = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode())
    for path in weights:
        with path.open("rb") as file:
            found.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    if not weights:
        found.update(f"{name} {getattr(model.config, '_commit_hash', None)}".encode())
    return found.hexdigest()[:16]


def first_line(error: Exception) -> str:
    """What an exception of a library says, in one line."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
