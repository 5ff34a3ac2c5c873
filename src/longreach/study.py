"""Study, what a TOML file asks for; Training, one model of it; and their digests. Data only."""

from __future__ import annotations

import hashlib
import inspect
import json
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

from annotated_types import Ge, Gt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from .errors import InputError
from .repairs import Repair
from .schemes import SCHEMES
from .table import nearest
from .tasks import TASKS

RECIPE = 1
"""Counted up whenever the same Training would come out with other weights."""

ADDED = (("training", "shortest", None), ("model", "architecture", "decoder"))
"""Keys that came later: at the value that they had unsaid, they leave a digest what it was."""

UNREPAIRED = "none"
"""The name, where repairs are listed, of leaving the model as it is."""

NO_OPTIONS = {"digest", "say"}
"""Constructor arguments that the program gives, not the study file."""

Length = Annotated[int, Ge(1)]


class Data(BaseModel):
    """Frozen, strict about types, and with no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Choice(Data):
    """A scheme or task by name, with options for its constructor.

    In TOML: `"rope"`, or `{ name = "rope", base = 500000.0 }`.
    """

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"name": given}
        if isinstance(given, dict) and set(given) != {"name", "options"}:
            return {
                "name": given.get("name", ""),
                "options": {key: value for key, value in given.items() if key != "name"},
            }
        return given

    @property
    def label(self) -> str:
        """The name, with what was asked for besides the defaults in brackets.

        >>> Choice(name="rope", options={"base": 5e5}).label
        'rope (base=500000.0)'
        >>> Choice(name="recall", options={"ambiguous": True}).label
        'recall (ambiguous)'
        """
        said = [key if value is True else f"{key}={value}" for key, value in self.options.items()]
        return f"{self.name} ({', '.join(said)})" if said else self.name


class Model(Data):
    """Kind and sizes of the model. `heads` must divide `width`.

    architecture: in an encoder-decoder, one half reads the prompt and the other writes the answer;
        it needs tasks whose sequences say where the prompt ends.
    layers: of the decoder, or of each half.
    """

    architecture: Literal["decoder", "encoder-decoder"] = "decoder"
    width: Length
    heads: Length
    layers: Length
    feed_forward: Length
    norm: Literal["pre", "post"] = "pre"

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class Recipe(Data):
    """How a model is trained: AdamW, with linear warm-up and then a constant or cosine rate.

    clip: largest norm of the gradient; 0 leaves it alone.
    shortest: training sequences have lengths drawn uniformly from it to the trained length; all
        have the trained length unless given.
    """

    steps: Length
    batch: Length
    learning_rate: Annotated[float, Gt(0)]
    warmup: Annotated[int, Ge(0)] = 0
    schedule: Literal["constant", "cosine"] = "constant"
    clip: Annotated[float, Ge(0)] = 0.0
    weight_decay: Annotated[float, Ge(0)] = 0.01
    shortest: Length | None = None


class Evaluation(Data):
    """How a model is measured.

    sequences: per evaluation length, for tasks scored by exact match.
    documents: held-out ones, for tasks scored by loss. windows: from each of them, at most.
    last_tokens: the tokens at the end of each window whose loss is followed as their context grows.
    """

    sequences: Length = 512
    documents: Length = 64
    windows: Length = 4
    last_tokens: Length = 32


class Extending(Data):
    """What is tried so that models of a study serve the evaluation lengths past the trained one.

    schemes: those of the study it is tried on. repairs: as on a command line, each set for the
        length in question; "none" leaves the model as it is. Every one is worn without training.
    training: a brief fine-tune at each length, from the trained weights and under each repair. Its
        batch is in sequences of the trained length: at a longer one there are as many fewer, so
        that every step reads as many tokens.
    from_scratch: whether models are also trained at each length from the start, in as many steps
        and tokens as those of the study.
    """

    schemes: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    repairs: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    training: Recipe | None = None
    from_scratch: bool = False

    @model_validator(mode="after")
    def _repairs_are_known(self) -> Self:
        try:
            if at := [name for name in self.repairs if "@" in name]:
                raise InputError(
                    f"'{at[0]}' takes its options from a file, which a run's digest would not "
                    "cover; write them into the study"
                )
            read = [None if name == UNREPAIRED else Repair.parse(name) for name in self.repairs]
        except InputError as error:
            raise ValueError(str(error)) from None
        for noun, entries in (("repairs", [*map(str, read)]), ("schemes", self.schemes)):
            if len({*entries}) != len(entries):
                raise ValueError(f"{noun} names the same one twice")
        if self.training is not None and self.training.shortest is not None:
            raise ValueError("training.shortest cannot be given: each model is for one length")
        return self

    @property
    def worn(self) -> tuple[str, ...]:
        """The repairs without "none"."""
        return tuple(name for name in self.repairs if name != UNREPAIRED)


class Extended(Data):
    """How a model goes on from another's weights: for another length, perhaps under a repair."""

    repair: str | None
    length: Length
    training: Recipe


class Training(Data):
    """One model: everything that its weights depend on.

    data: digest of the text it is trained on, if its task draws on any.
    extended: what comes after all that, from the weights that it gives.
    """

    scheme: Choice
    task: Choice
    data: str | None
    seed: Annotated[int, Ge(0)]
    trained_length: Length
    model: Model
    training: Recipe
    extended: Extended | None = None

    @property
    def base(self) -> Training:
        """The training whose weights it begins from; itself, unless it is extended."""
        return self.model_copy(update={"extended": None})

    @property
    def recipe(self) -> Recipe:
        """Of the steps that are its own."""
        return self.training if self.extended is None else self.extended.training

    @property
    def length(self) -> int:
        """Of the sequences in these steps, the longest if they are drawn from a range."""
        return self.trained_length if self.extended is None else self.extended.length

    @property
    def digest(self) -> str:
        """16 hexadecimal digits; names the run's folder."""
        whole = {"recipe": RECIPE, **self.model_dump(mode="json")}
        if self.extended is None:
            del whole["extended"]
        for part, key, unsaid in ADDED:
            if whole[part][key] == unsaid:
                del whole[part][key]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


class Study(Data):
    """Schemes x tasks x seeds, trained alike and measured at the same lengths."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    question: str
    schemes: Annotated[tuple[Choice, ...], Field(min_length=1, strict=False)]
    tasks: Annotated[tuple[Choice, ...], Field(min_length=1, strict=False)]
    seeds: Annotated[tuple[Annotated[int, Ge(0)], ...], Field(min_length=1, strict=False)]
    trained_length: Length
    evaluation_lengths: Annotated[tuple[Length, ...], Field(min_length=1, strict=False)]
    model: Model
    training: Recipe
    evaluation: Evaluation = Evaluation()
    extension: Extending | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        lengths = self.evaluation_lengths
        if list(lengths) != sorted(set(lengths)):
            raise ValueError(f"evaluation_lengths must grow, each named once; got {list(lengths)}")
        if self.trained_length not in lengths:
            raise ValueError(
                f"evaluation_lengths {list(lengths)} must contain trained_length "
                f"{self.trained_length}: what happens past it is compared with what happens at it"
            )
        shortest = self.training.shortest
        if shortest is not None and shortest > self.trained_length:
            raise ValueError(
                f"training.shortest, {shortest}, is above trained_length, {self.trained_length}"
            )
        for noun in ("schemes", "tasks", "seeds"):
            entries = [repr(entry) for entry in getattr(self, noun)]
            if len(set(entries)) != len(entries):
                raise ValueError(f"{noun} names the same one twice")
        self._check_extension()
        return self

    def _check_extension(self) -> None:
        if self.extension is None:
            return
        if self.model.architecture != "decoder":
            raise ValueError("extension is for decoders; leave it out, or model.architecture")
        if not self.past:
            raise ValueError(
                f"extension has no length to extend to: evaluation_lengths end at trained_length, "
                f"{self.trained_length}"
            )
        known = {scheme.label for scheme in self.schemes}
        for label in self.extension.schemes:
            if label not in known:
                raise ValueError(
                    f"extension.schemes: the study has no '{label}'; {nearest(label, known)}"
                )

    @property
    def runs(self) -> int:
        """How many models it consists of."""
        each = len(self.tasks) * len(self.seeds)
        found = each * len(self.schemes)
        if (after := self.extension) is not None:
            kinds = after.from_scratch + (len(after.repairs) if after.training is not None else 0)
            found += each * len(after.schemes) * len(self.past) * kinds
        return found

    @property
    def past(self) -> tuple[int, ...]:
        """The evaluation lengths past the trained one."""
        return tuple(n for n in self.evaluation_lengths if n > self.trained_length)

    def limited(self, steps: int) -> Study:
        """The same study with at most so many training steps. Raises InputError below 1."""
        if steps < 1:
            raise InputError(f"--limit-steps must be at least 1, got {steps}")

        def fewer(recipe: Recipe) -> Recipe:
            warmup = min(recipe.warmup, steps // 2)
            return recipe.model_copy(update={"steps": min(steps, recipe.steps), "warmup": warmup})

        changed: dict[str, Any] = {"training": fewer(self.training)}
        if self.extension is not None and self.extension.training is not None:
            after = {"training": fewer(self.extension.training)}
            changed["extension"] = self.extension.model_copy(update=after)
        return self.model_copy(update=changed)

    @classmethod
    def parse(cls, text: str, where: str) -> Study:
        """A study from TOML. Raises InputError that says what is wrong in `where`."""
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{where} is no TOML: {error}") from None
        try:
            study = cls.model_validate(given)
        except ValidationError as error:
            raise InputError(f"{where}: {explain(error, cls)}") from None
        for noun, table, entries in (
            ("schemes", SCHEMES, study.schemes),
            ("tasks", TASKS, study.tasks),
        ):
            for entry in entries:
                if entry.name not in table:
                    known = nearest(entry.name, table)
                    raise InputError(
                        f"{where}: {noun}: unknown {noun[:-1]} '{entry.name}'; {known}"
                    )
        return study

    @classmethod
    def load(cls, name_or_path: str) -> Study:
        """A built-in study by name, or one from a path (anything with a slash or .toml)."""
        if name_or_path.endswith(".toml") or "/" in name_or_path:
            path = Path(name_or_path)
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path} is not UTF-8: {error.reason} at byte {error.start}"
                ) from None
            except OSError as error:
                raise InputError(f"cannot read the study {path}: {error.strerror}") from None
            return cls.parse(text, str(path))
        known = built_in_studies()
        if name_or_path not in known:
            raise InputError(
                f"unknown study '{name_or_path}'; {nearest(name_or_path, known)} "
                "(or give the path of a .toml file)"
            )
        return cls.parse(known[name_or_path], f"study {name_or_path}")


def built_in_studies() -> dict[str, str]:
    """Name -> TOML text of the studies that come with the package."""
    folder = resources.files(__package__) / "studies"
    files = sorted((entry for entry in folder.iterdir()), key=lambda entry: entry.name)
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in files
        if entry.name.endswith(".toml")
    }


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Pydantic's findings in one line each, the nearest key named where one is unknown."""
    found = error.errors(include_url=False)
    # A misspelt key is why another is missing: say it first.
    found.sort(key=lambda entry: entry["type"] != "extra_forbidden")
    return "; ".join(_finding(entry, model) for entry in found)


def _finding(found: Any, model: type[BaseModel]) -> str:
    path, given = found["loc"], found["input"]
    where = ".".join(str(part) for part in path)
    if found["type"] == "extra_forbidden":
        keys = _keys_beside(path, model)
        return f"unknown key '{where}'; {nearest(str(path[-1]), keys)}"
    if found["type"] == "missing":
        return f"key '{where}' is missing"
    message = found["msg"].removeprefix("Value error, ")
    if found["type"] == "value_error":
        return f"{where}: {message}" if where else message
    return f"{where}: {message[0].lower()}{message[1:]}, got {given!r}"


def _keys_beside(path: tuple[Any, ...], model: type[BaseModel]) -> list[str]:
    """The keys that would have been right at the last step of `path`."""
    for part in path[:-1]:
        found = model.model_fields[part].annotation if part in model.model_fields else None
        kinds = [kind for kind in (found, *get_args(found)) if isinstance(kind, type)]
        inner = next((kind for kind in kinds if issubclass(kind, BaseModel)), None)
        if inner is None:
            break
        model = inner
    return list(model.model_fields)


@cache
def _options_model(kind: type) -> type[BaseModel]:
    """A strict model of the keyword options of a scheme's or task's constructor."""
    hints = get_type_hints(kind.__init__, include_extras=True)  # type: ignore[misc]
    fields: dict[str, Any] = {
        name: (hints[name], parameter.default)
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in NO_OPTIONS
    }
    return create_model(kind.__name__, __base__=Data, **fields)


def resolve(noun: str, kind: type, choice: Choice) -> dict[str, Any]:
    """All options of a choice, defaults filled in. Imports the scheme or task.

    Raises InputError for an unknown option (naming the nearest) or a value of the wrong type.
    """
    model = _options_model(kind)
    try:
        return model.model_validate(choice.options).model_dump()
    except ValidationError as error:
        raise InputError(f"{noun} '{choice.name}': {explain(error, model)}") from None
