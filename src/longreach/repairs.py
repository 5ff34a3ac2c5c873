"""Repairs: changes to the spectrum of a trained model, so that it reaches further. NumPy only.

Each is one pure function (Spectrum, Extension, **options) -> Spectrum, with the arithmetic of one
formula, that needs no base: pairs tell their own speed. Options have the names that transformers
gives them in a `rope_type` block. To add one: write the function, and add a line to REPAIRS. The
laws in tests/test_repairs.py then run over it.

A docstring's Formula is typeset in the documentation, and a test runs it beside the function: the
share of its speed that pair i of n keeps, where it turned theta[i] radians per token and r[i] times
in training, for a trained length T, a target length L and a factor s.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .spectrum import LARGEST, ROUNDING, Extension, Spectrum, brief
from .table import nearest

RepairFunction = Callable[..., Spectrum]


def linear(spectrum: Spectrum, extension: Extension, *, factor: float | None = None) -> Spectrum:
    """Position interpolation: every pair turns `factor` times slower.

    No angle is new, but neighbouring tokens are `factor` times harder to tell apart.
    Chen et al. 2023, arXiv:2306.15595.

    Formula:
        kept = 1 / s

    factor: target over trained length unless given; above 1.
    """
    return spectrum.repaired(spectrum.inverse_frequencies / _factor(extension, factor))


def ntk(spectrum: Spectrum, extension: Extension, *, factor: float | None = None) -> Spectrum:
    """NTK-aware: raise the base: the fastest pair keeps its speed, the slowest loses the factor.

    Pair i is slowed by factor ** (i / (pairs - 1)): a base of base * factor ** (d / (d - 2)) for d
    turned dimensions. Only the last pair is slowed by the whole factor: others that never
    completed a turn still pass their trained range, so the effective length is *below* factor
    times the trained length (`ntk_factor` gives the factor that does reach). bloc97 2023, in
    arXiv:2309.00071, section 3.1.

    Formula:
        kept = s ** (-i / (n - 1))

    factor: target over trained length unless given; above 1.
    """
    return _ntk(spectrum, _factor(extension, factor))


def dynamic(spectrum: Spectrum, extension: Extension, *, factor: float = 1.0) -> Spectrum:
    """Dynamic NTK: NTK-aware for the length that is being read, and nothing up to the trained one.

    The target length of `extension` is the evaluation length. Each length has a spectrum of its
    own, so a cache must hold unrotated keys. emozilla 2023, in arXiv:2309.00071, section 3.3.

    Formula:
        kept = (factor * L / T - (factor - 1)) ** (-i / (n - 1))

    factor: 1 is the paper's form, where the base grows with evaluation over trained length.
        transformers multiplies: factor * length / trained - (factor - 1), which at factor 4 and
        four times the length is 13, not 4. At least 1.
    """
    number("factor", factor, least=1)
    if extension.target_length <= extension.trained_length:
        return spectrum
    return _ntk(spectrum, factor * extension.factor - (factor - 1))


def ntk_by_parts(
    spectrum: Spectrum,
    extension: Extension,
    *,
    factor: float | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> Spectrum:
    """NTK-by-parts: pairs that turn often are left alone, those that never wrap are interpolated.

    Between, the blend is linear in turns. Peng et al. 2023, arXiv:2309.00071, section 3.2: YaRN
    without its amplitude, as the paper has it.

    Formula:
        left = clip((r[i] - beta_slow) / (beta_fast - beta_slow), 0, 1)
        kept = left + (1 - left) / s

    factor: target over trained length unless given; above 1.
    beta_fast, beta_slow: turns in training from which a pair is left alone, and up to which it is
        interpolated whole. **At toy lengths nothing turns 32 times** (that takes 201 tokens for the
        fastest pair), and all is interpolated: lower beta_fast there.
    """
    _betas(beta_fast, beta_slow)
    left_alone = _left_alone_by_turns(spectrum, extension, beta_fast, beta_slow)
    return spectrum.repaired(_blend(spectrum, left_alone, _factor(extension, factor)))


def yarn(
    spectrum: Spectrum,
    extension: Extension,
    *,
    factor: float | None = None,
    attention_factor: float | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
    ramp: str = "index",
) -> Spectrum:
    """YaRN: by parts, and queries and keys a little longer, so that logits grow with the context.

    Peng et al. 2023, arXiv:2309.00071. **Paper and code differ**: the paper blends linearly in
    turns, the authors' code (and transformers, vLLM, llama.cpp) in the pair's index, between
    corners rounded outward and clamped to 0 and d - 1 for d turned dimensions. Deployed checkpoints
    were made with the code, so that is the default.

    Formula:
        fast = max(floor(ln(r[0] / beta_fast) / ln(theta[0] / theta[1])), 0)
        slow = min(ceil(ln(r[0] / beta_slow) / ln(theta[0] / theta[1])), 2 * n - 1)
        left = 1 - clip((i - fast) / (slow - fast), 0, 1)
        kept = left + (1 - left) / s
        amplitude = 0.1 * ln(s) + 1

    factor: target over trained length unless given; above 1.
    attention_factor, mscale, mscale_all_dim: see `yarn_amplitude`.
    beta_fast, beta_slow: turns in training at the corners of the ramp.
    truncate: whether corners are rounded outward to whole pairs (gpt-oss does not).
    ramp: "index" as deployed, "turns" as in the paper.
    """
    scale = _factor(extension, factor)
    flag("truncate", truncate)
    _betas(beta_fast, beta_slow)
    if ramp == "turns":
        left_alone = _left_alone_by_turns(spectrum, extension, beta_fast, beta_slow)
    elif ramp == "index":
        left_alone = _left_alone_by_index(spectrum, extension, beta_fast, beta_slow, truncate)
    else:
        raise InputError(
            f"ramp must be 'index' (as deployed) or 'turns' (paper), got {brief(ramp)}"
        )
    amplitude = yarn_amplitude(scale, attention_factor, mscale, mscale_all_dim)
    return spectrum.repaired(
        _blend(spectrum, left_alone, scale), amplitude=spectrum.amplitude * amplitude
    )


def dynamic_yarn(
    spectrum: Spectrum,
    extension: Extension,
    *,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
    ramp: str = "index",
) -> Spectrum:
    """YaRN for the length that is being read, and nothing up to the trained one.

    The target length of `extension` is the evaluation length. Peng et al. 2023, arXiv:2309.00071,
    section 3.3.

    Formula:
        s = L / T
        fast = max(floor(ln(r[0] / beta_fast) / ln(theta[0] / theta[1])), 0)
        slow = min(ceil(ln(r[0] / beta_slow) / ln(theta[0] / theta[1])), 2 * n - 1)
        left = 1 - clip((i - fast) / (slow - fast), 0, 1)
        kept = left + (1 - left) / s
        amplitude = 0.1 * ln(s) + 1
    """
    options = {"beta_fast": beta_fast, "beta_slow": beta_slow, "truncate": truncate, "ramp": ramp}
    if extension.target_length <= extension.trained_length:
        yarn(spectrum, extension, factor=2.0, **options)  # type: ignore[arg-type]  # Checks them.
        return spectrum
    return yarn(spectrum, extension, **options)  # type: ignore[arg-type]


def llama3(
    spectrum: Spectrum,
    extension: Extension,
    *,
    factor: float | None = None,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
) -> Spectrum:
    """Llama 3.1's: as by parts, between 1 and 4 turns, and no change of amplitude.

    Grattafiori et al. 2024, arXiv:2407.21783; the formula is the released code's. Here the trained
    length is the one *before* the extension (`original_max_position_embeddings`, 8,192).

    Formula:
        left = clip((r[i] - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
        kept = left + (1 - left) / s

    factor: target over trained length unless given; above 1.
    low_freq_factor, high_freq_factor: turns in training up to which a pair is interpolated whole,
        and from which it is left alone. Alike (Llama 4), there is a step and no blend.
    """
    number("low_freq_factor", low_freq_factor, above=0)
    number("high_freq_factor", high_freq_factor, above=0)
    if low_freq_factor > high_freq_factor:
        raise InputError(
            f"low_freq_factor must not be above high_freq_factor, got {low_freq_factor} and "
            f"{high_freq_factor}"
        )
    left_alone = _left_alone_by_turns(spectrum, extension, high_freq_factor, low_freq_factor)
    return spectrum.repaired(_blend(spectrum, left_alone, _factor(extension, factor)))


def longrope(
    spectrum: Spectrum,
    extension: Extension,
    *,
    long_factor: Sequence[float],
    short_factor: Sequence[float] | None = None,
    factor: float | None = None,
    attention_factor: float | None = None,
) -> Spectrum:
    """LongRoPE: every pair has a factor of its own, found by search.

    Ding et al. 2024, arXiv:2402.13753; in the form of Phi-3: one list up to the trained length, one
    past it, and an amplitude that is the same for both. The search's unscaled first tokens are left
    out, as in transformers.

    Formula:
        kept = 1 / long_factor[i]
        amplitude = sqrt(1 + ln(s) / ln(T))

    long_factor: one per pair, for a target past the trained length.
    short_factor: one per pair, for a target within it; no change unless given.
    factor: what the amplitude is for; target over trained length unless given.
    attention_factor: the amplitude; sqrt(1 + ln factor / ln trained) unless given.
    """
    longer = _list("long_factor", long_factor, spectrum.pairs)
    shorter = np.ones(spectrum.pairs)
    if short_factor is not None:
        shorter = _list("short_factor", short_factor, spectrum.pairs)
    used = longer if extension.target_length > extension.trained_length else shorter
    if attention_factor is None:
        scale = extension.factor if factor is None else number("factor", factor, above=0)
        amplitude = longrope_amplitude(scale, extension.trained_length)
    else:
        amplitude = number("attention_factor", attention_factor, above=0)
    return spectrum.repaired(
        spectrum.inverse_frequencies / used, amplitude=spectrum.amplitude * amplitude
    )


def base(spectrum: Spectrum, extension: Extension, *, base: float) -> Spectrum:
    """A change of base, to a number of one's own ("adjusted base frequency", arXiv:2309.16039).

    Formula:
        kept = theta[0] * base ** (-i / n) / theta[i]

    base: the new one; above 1. Some are changed in training, which is not a repair but a new model.
    """
    number("base", base, above=1)
    index = np.arange(spectrum.pairs) / spectrum.pairs
    return spectrum.repaired(spectrum.inverse_frequencies[0] * float(base) ** -index)


REPAIRS: dict[str, RepairFunction] = {
    "linear": linear,
    "ntk": ntk,
    "dynamic": dynamic,
    "ntk_by_parts": ntk_by_parts,
    "yarn": yarn,
    "dynamic_yarn": dynamic_yarn,
    "llama3": llama3,
    "longrope": longrope,
    "base": base,
}
"""Every repair by name, as `longreach spectrum --repair` takes it."""


def yarn_amplitude(
    factor: float,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
) -> float:
    """What YaRN multiplies cos and sin by; logits grow by its square.

    attention_factor if given; else, where both are given and not 0, growth(mscale) over
    growth(mscale_all_dim), which is DeepSeek's form and 1 where they are equal; else growth(1),
    with growth(m) = 0.1 m ln(factor) + 1. **Not** what multi-head latent attention multiplies its
    softmax by: that is `softmax_factor`.

    >>> round(yarn_amplitude(4), 6), yarn_amplitude(40, mscale=1, mscale_all_dim=1)
    (1.138629, 1.0)
    """
    if attention_factor is not None:
        return number("attention_factor", attention_factor, above=0)
    for name, value in (("mscale", mscale), ("mscale_all_dim", mscale_all_dim)):
        if value is not None:
            number(name, value, least=0)
    if mscale and mscale_all_dim:
        return growth(factor, mscale) / growth(factor, mscale_all_dim)
    return growth(factor)


def softmax_factor(factor: float, mscale_all_dim: float | None) -> float:
    """What multi-head latent attention (DeepSeek) multiplies 1 / sqrt(head_dim) by under YaRN.

    growth(mscale_all_dim) squared, or 1 without mscale_all_dim. Other kinds of attention have no
    such factor: there YaRN is in cos and sin alone, and adding it would scale logits twice.

    >>> round(softmax_factor(40, 1), 6), softmax_factor(40, None)
    (1.873854, 1.0)
    """
    return growth(factor, mscale_all_dim) ** 2 if mscale_all_dim else 1.0


def growth(factor: float, mscale: float = 1.0) -> float:
    """0.1 mscale ln(factor) + 1, and 1 for a factor up to 1. Peng et al. 2023, equation 22."""
    return 0.1 * mscale * log(factor) + 1 if factor > 1 else 1.0


def longrope_amplitude(factor: float, trained_length: int) -> float:
    """What LongRoPE multiplies cos and sin by: sqrt(1 + ln factor / ln trained_length).

    >>> round(longrope_amplitude(32, 4096), 6)
    1.190238
    """
    if factor <= 1 or trained_length < 2:
        return 1.0
    return sqrt(1 + log(factor) / log(trained_length))


def ntk_factor(spectrum: Spectrum, extension: Extension) -> float:
    """The factor with which NTK keeps every never-completed pair in its range at the target length.

    That is, extension.factor ** ((pairs - 1) / first), where `first` is the first pair that never
    completed a turn in training: it is slowed least. At most 1 where there is nothing to reach for.

    >>> round(ntk_factor(Spectrum.rope(64), Extension(2048, 8192)), 4)
    7.7403
    """
    slow = np.flatnonzero(spectrum.never_completed(extension.trained_length))
    if not len(slow):
        return 1.0
    if slow[0] == 0:
        raise InputError(
            f"no factor of NTK reaches {extension.target_length:,} tokens: the fastest pair, which "
            f"it leaves alone, did not complete a turn in {extension.trained_length:,}"
        )
    exponent = (spectrum.pairs - 1) / int(slow[0])
    if exponent * log(extension.factor) > log(LARGEST):
        raise InputError(
            f"no factor of NTK up to {LARGEST:g} reaches {extension.target_length:,} tokens"
        )
    return float(extension.factor**exponent)


@dataclass(frozen=True)
class Repair:
    """A repair by name, with its options, checked when made.

    Raises InputError for a name that is not in REPAIRS, an option it has not, or one it lacks.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in REPAIRS:
            raise InputError(f"unknown repair '{self.name}'; {nearest(self.name, REPAIRS)}")
        known = option_names(self.name)
        for option in self.options:
            if option not in known:
                raise InputError(
                    f"repair '{self.name}' has no option '{option}'; {nearest(option, known)}"
                )
        for option, needed in known.items():
            if needed and option not in self.options:
                raise InputError(
                    f"repair '{self.name}' needs the option '{option}': {self.name}:{option}=..."
                )

    @classmethod
    def parse(cls, text: str) -> Repair:
        """A repair as written on a command line.

        NAME, NAME:option=value,... with values as in JSON, or NAME:@FILE, options in a JSON file.

        >>> Repair.parse("yarn:factor=4,truncate=false")
        Repair(name='yarn', options={'factor': 4, 'truncate': False})
        """
        name, _, written = text.partition(":")
        name = name.strip().replace("-", "_")
        if written.startswith("@"):
            return cls(name, _options_file(Path(written[1:])))
        options: dict[str, Any] = {}
        # A comma inside brackets belongs to a list.
        for part in re.split(r",(?![^\[]*\])", written) if written else []:
            option, equals, value = (word.strip() for word in part.partition("="))
            if not equals or not option or option in options:
                raise InputError(
                    f"cannot read '{part}' in '{text}'; write NAME:option=value,option=value, each "
                    "option once"
                )
            options[option.replace("-", "_")] = _value(value)
        return cls(name, options)

    def apply(self, spectrum: Spectrum, extension: Extension) -> Spectrum:
        """The repaired spectrum."""
        return REPAIRS[self.name](spectrum, extension, **self.options)

    def __str__(self) -> str:
        """As `parse` reads it; of what is long, its extent and a digest, which tells two apart."""
        options = ",".join(f"{name}={_shown(value)}" for name, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


@dataclass(frozen=True)
class Effect:
    """What a repair does to a spectrum, in numbers that can be compared. See `effect`."""

    repair: Repair
    spectrum: Spectrum
    base: float | None
    untouched: int
    ramped: int
    interpolated: int
    unseen: int
    local_resolution: float
    effective_length: int | None

    def as_json(self) -> dict[str, Any]:
        """For programs. Either `base`, or how many pairs fall in which class."""
        classes = {
            "untouched": self.untouched,
            "ramped": self.ramped,
            "interpolated": self.interpolated,
        }
        options = dict(self.repair.options)
        return {
            "name": self.repair.name,
            "options": options,
            "inverse_frequencies": self.spectrum.inverse_frequencies.tolist(),
            "amplitude": self.spectrum.amplitude,
            **({"base": self.base} if self.base is not None else classes),
            "unseen": self.unseen,
            "local_resolution": self.local_resolution,
            "effective_length": self.effective_length,
        }


def effect(repair: Repair, spectrum: Spectrum, extension: Extension) -> Effect:
    """Applies a repair and says what became of the pairs.

    untouched, interpolated: pairs that kept their speed, and that lost the whole factor; ramped:
        all between. base: the new one, where the repair is a change of base.
    unseen: pairs that the target length still drives past what they met in training.
    """
    used = repair.apply(spectrum, extension)
    kept = used.speed_kept
    untouched = int((kept > 1 - ROUNDING).sum())
    factor = repair.options.get("factor")
    slowest = 1 / (extension.factor if factor is None else factor)
    interpolated = int((np.abs(kept / slowest - 1) < ROUNDING).sum())
    return Effect(
        repair=repair,
        spectrum=used,
        base=None if used.base == spectrum.base else used.base,
        untouched=untouched,
        ramped=spectrum.pairs - untouched - interpolated,
        interpolated=interpolated,
        unseen=int(used.unseen(extension).sum()),
        local_resolution=used.local_resolution,
        effective_length=used.effective_length(extension.trained_length),
    )


def option_names(name: str) -> dict[str, bool]:
    """The options of a repair, and whether each must be given."""
    parameters = inspect.signature(REPAIRS[name]).parameters.values()
    return {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def number(name: str, value: object, *, above: float | None = None, least: float = 0) -> float:
    """The value as a float, which must be finite and in range. Raises InputError, naming it."""
    wanted = f"above {above:g}" if above is not None else f"of at least {least:g}"
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
            raise ValueError
        found = float(value)
        if not isfinite(found) or (found <= above if above is not None else found < least):
            raise ValueError
    except (ValueError, OverflowError):
        raise InputError(f"{name} must be a finite number {wanted}, got {brief(value)}") from None
    if found > LARGEST:
        raise InputError(f"{name} must be at most {LARGEST:g}, got {brief(value)}")
    if above == 0 and found < 1 / LARGEST:
        raise InputError(f"{name} must be at least {1 / LARGEST:g}, got {brief(value)}")
    return found


def flag(name: str, value: object) -> bool:
    """The value, which must be true or false. Raises InputError, naming it."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {brief(value)}")
    return value


def _factor(extension: Extension, factor: float | None) -> float:
    if factor is not None:
        return number("factor", factor, above=1)
    if extension.factor <= 1:
        raise InputError(
            f"nothing to repair: the target length, {extension.target_length:,}, is not above the "
            f"trained length, {extension.trained_length:,}"
        )
    return extension.factor


def _ntk(spectrum: Spectrum, factor: float) -> Spectrum:
    if spectrum.pairs < 2:
        raise InputError("a change of base needs at least two pairs (head_dim 4)")
    index = np.arange(spectrum.pairs)
    return spectrum.repaired(
        spectrum.inverse_frequencies * factor ** (-index / (spectrum.pairs - 1))
    )


def _blend(
    spectrum: Spectrum, left_alone: NDArray[np.float64], factor: float
) -> NDArray[np.float64]:
    """Plain where left_alone is 1, a factor slower where it is 0."""
    plain = spectrum.inverse_frequencies
    return plain / factor * (1 - left_alone) + plain * left_alone


def _betas(beta_fast: float, beta_slow: float) -> None:
    number("beta_fast", beta_fast, above=0)
    number("beta_slow", beta_slow, above=0)
    if beta_slow >= beta_fast:
        raise InputError(
            f"beta_slow must be below beta_fast, got beta_slow={beta_slow}, beta_fast={beta_fast}"
        )


def _left_alone_by_turns(
    spectrum: Spectrum, extension: Extension, beta_fast: float, beta_slow: float
) -> NDArray[np.float64]:
    turns = spectrum.turns(extension.trained_length)
    if beta_fast == beta_slow:
        return (turns > beta_slow).astype(np.float64)
    return np.clip((turns - beta_slow) / (beta_fast - beta_slow), 0, 1)


def _left_alone_by_index(
    spectrum: Spectrum, extension: Extension, beta_fast: float, beta_slow: float, truncate: bool
) -> NDArray[np.float64]:
    if spectrum.pairs < 2 or not spectrum.geometric:
        raise InputError(
            "YaRN's ramp over the pair's index needs at least two pairs in a constant ratio, as "
            "plain "
            "RoPE has them; start from the spectrum before other repairs, or give ramp=turns"
        )
    fast, slow = yarn_corners(spectrum, extension, beta_fast, beta_slow, truncate)
    # One corner on the other would divide by 0; the step is then there.
    ramp = (np.arange(spectrum.pairs, dtype=np.float64) - fast) / max(slow - fast, 1e-3)
    return np.asarray(1 - np.clip(ramp, 0, 1))


def yarn_corners(
    spectrum: Spectrum,
    extension: Extension,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> tuple[float, float]:
    """The pairs between which YaRN's deployed ramp lies: up to the first, pairs are left alone.

    >>> yarn_corners(Spectrum.rope(64), Extension(2048, 8192))
    (8, 21)
    """
    logs = np.log(spectrum.inverse_frequencies)
    step = float(logs[0] - logs[-1]) / (spectrum.pairs - 1)

    def index(turns: float) -> float:
        return log(float(spectrum.turns(extension.trained_length)[0]) / turns) / step

    fast, slow = index(beta_fast), index(beta_slow)
    if truncate:
        fast, slow = floor(fast), ceil(slow)
    # Clamped to 2 * pairs - 1, not to the last pair, as in the authors' code.
    return max(fast, 0), min(slow, 2 * spectrum.pairs - 1)


def _list(name: str, value: object, pairs: int) -> NDArray[np.float64]:
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise InputError(f"{name} must be a list of {pairs} numbers, got {brief(value)}")
    if len(value) != pairs:
        raise InputError(f"{name} must have one number per pair, {pairs}, got {len(value)}")
    return np.array([number(f"{name}[{i}]", each, above=0) for i, each in enumerate(value)])


def _value(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        return written
    except RecursionError:
        raise InputError("an option's value is nested too deeply") from None


def _shown(value: Any) -> str:
    text = json.dumps(value)
    if len(text) <= 40:
        return text
    told = hashlib.sha256(text.encode()).hexdigest()[:6]
    if isinstance(value, list) and all(isinstance(each, int | float) for each in value):
        return f"[{len(value)} from {min(value):.4g} to {max(value):.4g} #{told}]"
    return f"{text[:28]}... #{told}"


def _options_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; it should hold the options of a repair") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} should hold one JSON object of options")
    return found
