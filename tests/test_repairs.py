"""Repairs: laws for every listed one, oracles in another form, published numbers, parity.

A repair that is added to REPAIRS comes under the laws by being listed (and, if it has options that
must be given, by an example in `options_of`).
"""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from math import ceil, cos, floor, log, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st

from longreach.errors import InputError
from longreach.repairs import (
    REPAIRS,
    Repair,
    effect,
    growth,
    longrope_amplitude,
    ntk_factor,
    option_names,
    softmax_factor,
    yarn_amplitude,
    yarn_corners,
)
from longreach.spectrum import Extension, Spectrum

LAW = pytest.mark.parametrize("name", REPAIRS)
MODEL = pytest.mark.parametrize(
    ("head_dim", "base", "trained", "target"),
    [
        (64, 1e4, 2048, 8192),
        (128, 5e5, 8192, 131_072),
        (16, 1e4, 64, 160),
        (96, 1e6, 131_072, 524_288),
        (32, 1e4, 5, 40),  # Not even the fastest pair turned.
        (16, 1e4, 10**7, 4 * 10**7),  # All pairs turned.
    ],
)
DYNAMIC = {"dynamic", "dynamic_yarn"}
"""Repairs whose spectrum is another at each length."""


BY_TURNS = {"ntk_by_parts", "yarn", "dynamic_yarn", "llama3"}
"""Repairs that leave pairs alone which turned often in training."""


def options_of(name: str, spectrum: Spectrum, factor: float) -> dict:
    """Options that a repair cannot do without."""
    if name == "longrope":
        return {"long_factor": np.linspace(1, factor, spectrum.pairs).tolist()}
    if name == "base":
        return {"base": spectrum.original.base * factor}
    return {}


def apply(name: str, spectrum: Spectrum, extension: Extension, **options) -> Spectrum:
    options = options_of(name, spectrum, extension.factor) | options
    return REPAIRS[name](spectrum, extension, **options)


# Laws over every listed repair


@LAW
@MODEL
def test_no_pair_turns_faster_than_before_and_their_order_is_kept(
    name, head_dim, base, trained, target
):
    plain = Spectrum.rope(head_dim, base)
    used = apply(name, plain, Extension(trained, target))
    assert (used.inverse_frequencies <= plain.inverse_frequencies * (1 + 1e-12)).all()
    assert (np.diff(used.inverse_frequencies) < 0).all()
    slower = used.inverse_frequencies < plain.inverse_frequencies * 0.999
    if name in BY_TURNS and plain.turns(trained)[-1] > 32:
        assert not slower.any()  # Each pair met all angles, and often: there is nothing to repair.
    else:
        assert slower.any()
    assert used.amplitude >= 1


@LAW
@pytest.mark.parametrize("head_dim", [4, 64])
def test_a_factor_near_one_changes_next_to_nothing(name, head_dim):
    plain, extension = Spectrum.rope(head_dim), Extension(10**6, 10**6 + 1)
    used = apply(name, plain, extension)
    np.testing.assert_allclose(used.inverse_frequencies, plain.inverse_frequencies, rtol=2e-6)
    assert used.amplitude == pytest.approx(1, abs=1e-6)


@LAW
@MODEL
def test_inputs_stay_as_they_were_and_the_original_is_remembered(
    name, head_dim, base, trained, target
):
    plain, extension = Spectrum.rope(head_dim, base), Extension(trained, target)
    before = plain.inverse_frequencies.copy()
    first = apply(name, plain, extension)
    again = apply(name, plain, extension)
    assert np.array_equal(plain.inverse_frequencies, before)
    assert plain.amplitude == 1.0
    assert first.original is plain
    assert first.inverse_frequencies is not plain.inverse_frequencies
    assert first.inverse_frequencies.dtype == np.float64
    assert np.array_equal(first.inverse_frequencies, again.inverse_frequencies)
    assert first.amplitude == again.amplitude


@LAW
@MODEL
def test_unseen_counts_angles_against_training_however_often_one_repairs(
    name, head_dim, base, trained, target
):
    """Oracle: an explicit loop over pairs; a repaired spectrum's own training is of no account."""
    plain, extension = Spectrum.rope(head_dim, base), Extension(trained, target)
    once = apply("linear", plain, extension, factor=1.5)
    twice = (
        once.repaired(once.inverse_frequencies / 1.25)
        if name == "base"  # which forgets what was before it
        else apply(name, once, extension, **({"ramp": "turns"} if "yarn" in name else {}))
    )
    assert twice.original is plain
    for used in (apply(name, plain, extension), once, twice):
        expected = []
        for pair in range(head_dim // 2):
            met = base ** (-2 * pair / head_dim) * trained
            asked = float(used.inverse_frequencies[pair]) * target
            expected.append(met < 2 * pi and asked > met * (1 + 1e-9))
        assert used.unseen(extension).tolist() == expected
        # Compared with itself, each would look safe or as unsafe as ever, repaired or not.
        assert used.never_completed(trained).tolist() == plain.never_completed(trained).tolist()


@LAW
@MODEL
def test_the_effective_length_is_the_last_without_an_unseen_angle(
    name, head_dim, base, trained, target
):
    plain = Spectrum.rope(head_dim, base)
    used = apply(name, plain, Extension(trained, target))
    reach = used.effective_length(trained)
    if not plain.never_completed(trained).any():
        assert reach is None
        assert not used.unseen(Extension(trained, 10**12)).any()
        return
    assert reach is not None
    if name in DYNAMIC:  # The spectrum of one length says nothing about another.
        assert reach >= trained
        return
    assert not used.unseen(Extension(trained, reach)).any()
    assert used.unseen(Extension(trained, reach + 2)).any()


@LAW
@MODEL
def test_effect_says_of_each_pair_what_became_of_it(name, head_dim, base, trained, target):
    plain, extension = Spectrum.rope(head_dim, base), Extension(trained, target)
    repair = Repair(name, options_of(name, plain, extension.factor))
    found = effect(repair, plain, extension)
    used = repair.apply(plain, extension)
    assert found.untouched + found.ramped + found.interpolated == plain.pairs
    kept = used.inverse_frequencies / plain.inverse_frequencies
    assert found.untouched == sum(abs(k - 1) < 1e-8 for k in kept)
    assert found.interpolated == sum(abs(k * target / trained - 1) < 1e-8 for k in kept)
    assert found.local_resolution == pytest.approx(kept[0], rel=1e-12)
    assert found.unseen == used.unseen(extension).sum()
    told = found.as_json()
    assert json.loads(json.dumps(told)) == told
    assert ("base" in told) == (name in {"ntk", "dynamic", "base"})
    assert ("ramped" in told) == ("base" not in told)
    assert told["options"] == repair.options


@LAW
def test_a_target_within_training_is_refused_or_changes_nothing(name):
    plain = Spectrum.rope(64)
    for target in (100, 2048):
        extension = Extension(2048, target)
        if name in DYNAMIC:
            assert apply(name, plain, extension) is plain
        elif name in {"longrope", "base"}:
            used = apply(name, plain, extension, **options_of(name, plain, 4))
            assert np.array_equal(used.inverse_frequencies, plain.inverse_frequencies) == (
                name == "longrope"
            )
            assert used.amplitude == 1
        else:
            with pytest.raises(InputError, match=f"nothing to repair: .* {target:,}, is not above"):
                apply(name, plain, extension)


@LAW
def test_a_given_factor_takes_the_place_of_the_lengths(name):
    plain = Spectrum.rope(64)
    if "factor" not in option_names(name):
        assert name in {"dynamic_yarn", "base"}
        return
    if name in {"dynamic", "longrope"}:  # Each has a meaning of its own for it, tested below.
        few, many = (apply(name, plain, Extension(2048, 8192), factor=f) for f in (2, 8))
        assert (few.amplitude, few.base) != (many.amplitude, many.base)
        return
    given_one = apply(name, plain, Extension(2048, 3000), factor=4)
    by_length = apply(name, plain, Extension(2048, 8192))
    np.testing.assert_allclose(
        given_one.inverse_frequencies, by_length.inverse_frequencies, rtol=1e-14
    )
    assert given_one.amplitude == by_length.amplitude


@LAW
def test_amplitudes_multiply(name):
    plain, extension = Spectrum.rope(32), Extension(512, 2048)
    louder = Spectrum(plain.inverse_frequencies, amplitude=1.25)
    assert apply(name, louder, extension).amplitude == pytest.approx(
        1.25 * apply(name, plain, extension).amplitude, rel=1e-15
    )


# What is refused

NUMBERS_REFUSED = [0.5, 0, -4, float("nan"), float("inf"), True, "4", [4], 10**400, 1e16]


@pytest.mark.parametrize("value", NUMBERS_REFUSED, ids=repr)
@pytest.mark.parametrize("name", ["linear", "ntk", "ntk_by_parts", "yarn", "llama3", "dynamic"])
def test_factors_that_are_none_are_refused_by_name(name, value):
    with pytest.raises(InputError, match=r"^factor must be "):
        REPAIRS[name](Spectrum.rope(64), Extension(2048, 8192), factor=value)


def test_a_factor_of_one_is_refused_but_by_the_dynamic_form():
    plain, extension = Spectrum.rope(64), Extension(2048, 8192)
    for name in ("linear", "ntk", "ntk_by_parts", "yarn", "llama3"):
        with pytest.raises(InputError, match="factor must be a finite number above 1, got 1"):
            REPAIRS[name](plain, extension, factor=1)
    assert REPAIRS["dynamic"](plain, extension, factor=1) is not plain


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("yarn", {"beta_fast": 1, "beta_slow": 32}, "beta_slow .* beta_fast, .*32.*1"),
        ("ntk_by_parts", {"beta_fast": 1, "beta_slow": 2}, "beta_slow .* beta_fast"),
        ("dynamic_yarn", {"beta_fast": 1, "beta_slow": 2}, "beta_slow .* beta_fast"),
        ("yarn", {"beta_fast": float("nan")}, "beta_fast must be a finite number above 0, got nan"),
        ("yarn", {"beta_slow": 0}, "beta_slow must be a finite number above 0, got 0"),
        ("yarn", {"beta_slow": 1e-300}, "beta_slow must be at least 1e-15, got 1e-300"),
        ("yarn", {"truncate": "no"}, "truncate must be true or false, got 'no'"),
        ("yarn", {"truncate": 1}, "truncate must be true or false, got 1"),
        ("yarn", {"ramp": "linear"}, "ramp must be 'index' .* or 'turns' .*, got 'linear'"),
        ("yarn", {"attention_factor": -1}, "attention_factor must be a finite number above 0"),
        ("yarn", {"mscale": "x", "mscale_all_dim": 1}, "mscale must be a finite number"),
        ("yarn", {"mscale": 1, "mscale_all_dim": -1}, "mscale_all_dim must be a finite number"),
        ("llama3", {"low_freq_factor": 4, "high_freq_factor": 1}, "low_freq_factor must .* 4 and"),
        ("llama3", {"low_freq_factor": True}, "low_freq_factor must be a finite number above 0"),
        ("llama3", {"high_freq_factor": float("inf")}, "high_freq_factor must be a finite number"),
        ("longrope", {"long_factor": [1.0] * 31}, "long_factor must have one .* 32, got 31"),
        ("longrope", {"long_factor": [1.0] * 31 + [0]}, r"long_factor\[31\] must be .* above 0"),
        ("longrope", {"long_factor": [1.0] * 31 + ["x"]}, r"long_factor\[31\] must be "),
        ("longrope", {"long_factor": 4}, "long_factor must be a list of 32 numbers, got 4"),
        ("longrope", {"long_factor": "1,2"}, "long_factor must be a list of 32 numbers"),
        (
            "longrope",
            {"long_factor": [1.0] * 32, "short_factor": [1.0]},
            "short_factor must have one number per pair, 32, got 1",
        ),
        (
            "longrope",
            {"long_factor": [1.0] * 32, "attention_factor": float("nan")},
            "attention_factor must be a finite number above 0",
        ),
        ("base", {"base": 1.0}, "base must be a finite number above 1, got 1.0"),
        ("base", {"base": "1e6"}, "base must be a finite number above 1, got '1e6'"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(name, options, message):
    with pytest.raises(InputError, match=message):
        REPAIRS[name](Spectrum.rope(64), Extension(2048, 8192), **options)


@pytest.mark.parametrize("name", ["dynamic", "dynamic_yarn"])
def test_dynamic_repairs_check_their_options_at_short_lengths_too(name):
    wrong = {"dynamic": {"factor": 0.5}, "dynamic_yarn": {"ramp": "linear"}}[name]
    with pytest.raises(InputError):
        REPAIRS[name](Spectrum.rope(64), Extension(2048, 100), **wrong)


@pytest.mark.parametrize("name", ["ntk", "dynamic", "yarn", "dynamic_yarn"])
def test_one_pair_has_no_neighbour_to_be_compared_with(name):
    with pytest.raises(InputError, match="at least two pairs"):
        REPAIRS[name](Spectrum.rope(2), Extension(2, 8))


@pytest.mark.parametrize("name", ["linear", "ntk_by_parts", "llama3"])
def test_one_pair_is_enough_for_repairs_of_each_pair_by_itself(name):
    used = REPAIRS[name](Spectrum.rope(2), Extension(6, 24))
    np.testing.assert_allclose(used.inverse_frequencies, [0.25], rtol=1e-15)


def test_the_ramp_over_indices_is_refused_where_pairs_have_no_constant_ratio():
    plain, extension = Spectrum.rope(64), Extension(2048, 8192)
    changed = REPAIRS["llama3"](plain, extension)
    with pytest.raises(InputError, match="constant ratio"):
        REPAIRS["yarn"](changed, extension)
    assert REPAIRS["yarn"](changed, extension, ramp="turns").original is plain


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("yarm", {}, "unknown repair 'yarm'; did you mean 'yarn'"),
        ("xyz", {}, "unknown repair 'xyz'; known: linear, ntk"),
        ("yarn", {"beta_fats": 3}, "'yarn' has no option 'beta_fats'; did you mean 'beta_fast'"),
        ("linear", {"truncate": True}, "'linear' has no option 'truncate'; known: factor"),
        ("longrope", {}, "'longrope' needs the option 'long_factor'"),
        ("base", {}, "'base' needs the option 'base'"),
    ],
)
def test_a_repair_is_refused_when_made_not_when_used(name, options, message):
    with pytest.raises(InputError, match=message):
        Repair(name, options)


# How repairs are written


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("linear", "linear", {}),
        (" ntk-by-parts ", "ntk_by_parts", {}),
        ("yarn:factor=4,truncate=false", "yarn", {"factor": 4, "truncate": False}),
        ("yarn: beta-fast = 16 , ramp=turns", "yarn", {"beta_fast": 16, "ramp": "turns"}),
        ("base:base=5e5", "base", {"base": 5e5}),
        ("longrope:long_factor=[1, 2.5]", "longrope", {"long_factor": [1, 2.5]}),
        ("longrope:factor=4,long_factor=[1]", "longrope", {"long_factor": [1], "factor": 4}),
    ],
)  # fmt: skip
def test_a_repair_is_read_as_written(text, name, options):
    assert Repair.parse(text) == Repair(name, options)
    assert Repair.parse(str(Repair.parse(text))) == Repair(name, options)


@given(
    factor=st.floats(1, 1e15, exclude_min=True),
    beta=st.integers(2, 99),
    truncate=st.booleans(),
    ramp=st.sampled_from(["index", "turns"]),
)
def test_what_is_shown_is_read_back_as_the_same(factor, beta, truncate, ramp):
    repair = Repair(
        "yarn", {"factor": factor, "beta_fast": beta, "truncate": truncate, "ramp": ramp}
    )
    assert Repair.parse(str(repair)) == repair


def test_of_long_lists_the_extent_is_shown_and_what_tells_them_apart():
    factors = [1.0] * 40 + [1.5] * 24
    shown = str(Repair("longrope", {"long_factor": factors}))
    assert shown.startswith("longrope:long_factor=[64 from 1 to 1.5 #")
    assert len(shown) < 70
    # Measurements go by this name: two lists that begin and end alike must not share it.
    other = [1.0] * 41 + [1.5] * 23
    assert str(Repair("longrope", {"long_factor": other})) != shown
    assert str(Repair("longrope", {"long_factor": list(factors)})) == shown


def test_options_may_stand_in_a_file(tmp_path):
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"long_factor": [1.5] * 32, "attention_factor": 1.25}))
    used = Repair.parse(f"longrope:@{path}").apply(Spectrum.rope(64), Extension(2048, 8192))
    np.testing.assert_allclose(used.speed_kept, 1 / 1.5, rtol=1e-15)
    assert used.amplitude == 1.25


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read .*none.json: No such file"),
        ("{", "is not JSON"),
        ("[1, 2]", "should hold one JSON object of options"),
        ("[" * 100_000, "is not JSON"),
        ('{"long_factors": []}', "did you mean 'long_factor'"),
    ],
)
def test_a_file_that_holds_no_options_is_refused(content, message, tmp_path):
    path = tmp_path / "none.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message):
        Repair.parse(f"longrope:@{path}")


@pytest.mark.parametrize(
    "text",
    ["yarn:4", "yarn:factor", "yarn:=4", "yarn:ramp=x,", "yarn:ramp=x,ramp=y", "yarn:,"],
)
def test_what_cannot_be_read_is_quoted(text):
    with pytest.raises(InputError, match=r"cannot read '.*' in 'yarn:.*; write NAME:option=value"):
        Repair.parse(text)


@pytest.mark.parametrize("text", ["", ":", "[", "nope:factor=2", "yarn:x=" + "[" * 100_000])
def test_anything_else_is_refused_too(text):
    with pytest.raises(InputError):
        Repair.parse(text)


# Oracles in another form


GRID = [
    (head_dim, base, trained, factor)
    for head_dim in (4, 16, 64, 128)
    for base in (100.0, 1e4, 5e5)
    for trained in (16, 64, 2048, 131_072, 10**7)  # Both ends clamp somewhere in here.
    for factor in (1.25, 4, 32)
]


def speeds(head_dim: int, base: float) -> list[float]:
    """By repeated division."""
    found = [1.0]
    while len(found) < head_dim // 2:
        found.append(found[-1] / base ** (2 / head_dim))
    return found


def corner(head_dim: int, base: float, trained: int, turns: float) -> float:
    """The pair, as a real number, that turns so often in training: by bisection."""
    low, high = -1e4, 1e4
    for _ in range(120):
        middle = (low + high) / 2
        exponent = -2 * middle / head_dim * log(base)
        if log(trained) + exponent > log(turns * 2 * pi):
            low = middle
        else:
            high = middle
    return low


def blended(speed: float, factor: float, kept: float) -> float:
    return speed * kept + speed / factor * (1 - kept)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(("fast", "slow"), [(32, 1), (8, 0.5)])
def test_yarn_ramps_between_the_corners_of_its_code(truncate, fast, slow):
    crossed = 0
    for head_dim, base, trained, factor in GRID:
        first = corner(head_dim, base, trained, fast)
        last = corner(head_dim, base, trained, slow)
        if truncate:
            first, last = floor(first), ceil(last)
        first, last = max(first, 0), min(last, head_dim - 1)
        expected = []
        for pair, speed in enumerate(speeds(head_dim, base)):
            if pair <= first:
                kept = 1.0
            elif pair >= last:
                kept = 0.0
            else:
                kept = (last - pair) / (last - first)
            expected.append(blended(speed, factor, kept))
        crossed += first >= last
        used = REPAIRS["yarn"](
            Spectrum.rope(head_dim, base),
            Extension(trained, 2 * trained),
            factor=factor,
            beta_fast=fast,
            beta_slow=slow,
            truncate=truncate,
        )
        np.testing.assert_allclose(used.inverse_frequencies, expected, rtol=1e-9)
        found = yarn_corners(
            Spectrum.rope(head_dim, base), Extension(trained, trained), fast, slow, truncate
        )
        assert found == pytest.approx((first, last), abs=1e-9)
    assert 0 < crossed < len(GRID) / 2


def test_yarn_whose_corners_meet_has_a_step_there():
    """Trained at 4 tokens, the fastest pair is left alone and all others are interpolated."""
    used = REPAIRS["yarn"](Spectrum.rope(16, 1e4), Extension(4, 16))
    np.testing.assert_allclose(used.speed_kept, [1, *[0.25] * 7], rtol=1e-12)


@pytest.mark.parametrize("name", ["ntk_by_parts", "yarn"])
@pytest.mark.parametrize(("fast", "slow"), [(32, 1), (4, 0.5)])
def test_the_papers_ramp_is_linear_in_turns(name, fast, slow):
    for head_dim, base, trained, factor in GRID:
        expected = []
        for speed in speeds(head_dim, base):
            turns = trained * speed / (2 * pi)
            if turns < slow:
                expected.append(speed / factor)
            elif turns > fast:
                expected.append(speed)
            else:
                expected.append(blended(speed, factor, (turns - slow) / (fast - slow)))
        options = {"factor": factor, "beta_fast": fast, "beta_slow": slow}
        used = REPAIRS[name](
            Spectrum.rope(head_dim, base),
            Extension(trained, 2 * trained),
            **options,
            **({"ramp": "turns"} if name == "yarn" else {}),
        )
        np.testing.assert_allclose(used.inverse_frequencies, expected, rtol=1e-9)
        amplitude = 1 if name == "ntk_by_parts" else 0.1 * log(factor) + 1
        assert used.amplitude == pytest.approx(amplitude, rel=1e-12)


@pytest.mark.parametrize(("low", "high"), [(1, 4), (0.5, 8)])
def test_llama3_is_the_released_codes_three_cases(low, high):
    for head_dim, base, trained, factor in GRID:
        expected = []
        for speed in speeds(head_dim, base):
            wavelength = 2 * pi / speed
            if wavelength < trained / high:
                expected.append(speed)
            elif wavelength > trained / low:
                expected.append(speed / factor)
            else:
                smooth = (trained / wavelength - low) / (high - low)
                expected.append((1 - smooth) * speed / factor + smooth * speed)
        used = REPAIRS["llama3"](
            Spectrum.rope(head_dim, base),
            Extension(trained, 2 * trained),
            factor=factor,
            low_freq_factor=low,
            high_freq_factor=high,
        )
        np.testing.assert_allclose(used.inverse_frequencies, expected, rtol=1e-9)
        assert used.amplitude == 1


def of_base(head_dim: int, base: Decimal) -> list[float]:
    return [float(base ** (Decimal(-2 * pair) / head_dim)) for pair in range(head_dim // 2)]


@pytest.mark.parametrize("name", ["ntk", "dynamic", "dynamic of transformers"])
def test_ntk_is_a_change_of_base(name):
    """In decimals, through the base, which the code never forms."""
    with localcontext() as context:
        context.prec = 40
        for head_dim, base, trained, factor in GRID:
            length = int(factor * trained)
            plain, extension = Spectrum.rope(head_dim, base), Extension(trained, length)
            growth_of = {
                "ntk": Decimal(length) / trained,
                "dynamic": Decimal(length) / trained,
                "dynamic of transformers": 3 * Decimal(length) / trained - 2,
            }[name]
            new = Decimal(base) * growth_of ** (Decimal(head_dim) / (head_dim - 2))
            options = {"factor": 3} if name == "dynamic of transformers" else {}
            used = REPAIRS[name.split()[0]](plain, extension, **options)
            np.testing.assert_allclose(used.inverse_frequencies, of_base(head_dim, new), rtol=1e-11)
            assert used.base == pytest.approx(float(new), rel=1e-9)
            assert used.amplitude == 1


@pytest.mark.parametrize("head_dim", [4, 64, 96])
def test_a_new_base_is_that_bases_plain_rope(head_dim):
    used = REPAIRS["base"](Spectrum.rope(head_dim, 1e4), Extension(64, 128), base=5e6)
    np.testing.assert_allclose(
        used.inverse_frequencies, of_base(head_dim, Decimal(5_000_000)), rtol=1e-12
    )
    assert used.base == 5e6
    assert used.amplitude == 1


@pytest.mark.parametrize("target", [1000, 2048, 2049, 8192, 65_536])
def test_longrope_takes_the_long_list_past_the_trained_length_alone(target):
    plain = Spectrum.rope(64)
    short = [1 + i / 100 for i in range(32)]
    long = [1 + i for i in range(32)]
    used = REPAIRS["longrope"](
        plain, Extension(2048, target), long_factor=long, short_factor=short, factor=32
    )
    for pair, speed in enumerate(speeds(64, 1e4)):
        expected = speed / (long if target > 2048 else short)[pair]
        assert used.inverse_frequencies[pair] == pytest.approx(expected, rel=1e-12)
    # One amplitude for both lists, so that a cache may be kept.
    assert used.amplitude == pytest.approx(sqrt(1 + log(32) / log(2048)), rel=1e-12)


def test_longrope_without_a_short_list_leaves_short_texts_alone():
    used = REPAIRS["longrope"](Spectrum.rope(64), Extension(2048, 2048), long_factor=[4.0] * 32)
    np.testing.assert_allclose(used.speed_kept, 1)
    louder = REPAIRS["longrope"](
        Spectrum.rope(64), Extension(2048, 4096), long_factor=[4.0] * 32, attention_factor=1.5
    )
    assert louder.amplitude == 1.5


@pytest.mark.parametrize("ramp", ["index", "turns"])
def test_dynamic_yarn_is_yarn_for_the_length_at_hand(ramp):
    plain = Spectrum.rope(64)
    for length in (2049, 3000, 8192, 100_000):
        extension = Extension(2048, length)
        found = REPAIRS["dynamic_yarn"](plain, extension, ramp=ramp, beta_fast=16)
        expected = REPAIRS["yarn"](plain, extension, factor=length / 2048, ramp=ramp, beta_fast=16)
        assert np.array_equal(found.inverse_frequencies, expected.inverse_frequencies)
        assert found.amplitude == expected.amplitude == pytest.approx(
            0.1 * log(length / 2048) + 1, rel=1e-12
        )  # fmt: skip


# Published numbers


def test_the_published_example_of_64_dimensions():
    plain, extension = Spectrum.rope(64), Extension(2048, 8192)
    assert plain.wavelengths[-1] == pytest.approx(47_117.2428, abs=5e-5)
    assert plain.never_completed(2048).sum() == 11
    found = {name: effect(Repair(name), plain, extension) for name in ("linear", "ntk", "yarn")}
    assert found["linear"].local_resolution == 0.25
    assert (found["linear"].unseen, found["linear"].effective_length) == (0, 8192)
    assert found["ntk"].base == pytest.approx(41_829.3659, abs=5e-5)
    assert found["ntk"].local_resolution == 1.0
    assert (found["ntk"].unseen, found["ntk"].effective_length) == (10, 5238)
    yarn = found["yarn"]
    assert (yarn.untouched, yarn.ramped, yarn.interpolated) == (9, 12, 11)
    assert (yarn.unseen, yarn.local_resolution, yarn.effective_length) == (0, 1.0, 8192)
    assert yarn_corners(plain, extension) == (8, 21)
    assert yarn_corners(plain, extension, truncate=False) == pytest.approx(
        (8.064, 20.105), abs=5e-4
    )
    assert yarn_corners(Spectrum.rope(128), Extension(4096, 8192), truncate=False) == pytest.approx(
        (20.944, 45.027), abs=5e-4
    )


NTK_BASES = [
    (64, 2, 20_452.23), (64, 4, 41_829.37), (64, 8, 85_550.38),
    (128, 2, 20_221.26), (128, 4, 40_889.94), (128, 8, 82_684.62),
    (32, 4, 43_873.0), (16, 4, 48_760.55),
]  # fmt: skip


@pytest.mark.parametrize(("head_dim", "factor", "base"), NTK_BASES)
def test_ntk_has_the_published_bases(head_dim, factor, base):
    used = REPAIRS["ntk"](Spectrum.rope(head_dim), Extension(2048, 4096), factor=factor)
    assert used.base == pytest.approx(base, abs=6e-3)


def test_ntk_slows_pairs_by_the_published_ratios():
    used = REPAIRS["ntk"](Spectrum.rope(64), Extension(2048, 8192))
    ratios = 1 / used.speed_kept
    np.testing.assert_allclose(ratios[[0, 1, 16, 30]], [1, 1.0457, 2.0452, 3.8251], atol=5e-5)
    assert ratios[31] == pytest.approx(4, rel=1e-14)


def test_ntk_is_bloc97s_and_not_vllms_of_the_same_name():
    used = REPAIRS["ntk"](Spectrum.rope(128), Extension(4096, 16_384))
    assert used.base == pytest.approx(40_889.9424325, rel=1e-11)
    assert used.inverse_frequencies[0] == 1.0
    assert used.inverse_frequencies[-1] == pytest.approx(2.88695496e-05, rel=1e-8)
    linear = REPAIRS["linear"](Spectrum.rope(128), Extension(4096, 16_384))
    assert used.inverse_frequencies[-1] == pytest.approx(linear.inverse_frequencies[-1], rel=1e-13)


@pytest.mark.parametrize(
    ("head_dim", "trained", "length", "factor", "base"),
    [
        (64, 2048, 8192, 1, 41_829.4),
        (64, 2048, 8192, 2, 74_534.8),
        (64, 2048, 8192, 4, 141_213.8),
        (64, 2048, 8192, 8, 277_354.3),
        (128, 4096, 4096, 4, 10_000.0),
        (128, 4096, 8192, 4, 51_293.7872682),
        (128, 4096, 16_384, 4, 135_401.973042),
        (128, 4096, 16_384, 1, 40_889.9424325),
        (128, 4096, 4095, 4, 10_000.0),
    ],
)
def test_dynamic_ntk_has_the_published_bases(head_dim, trained, length, factor, base):
    used = REPAIRS["dynamic"](Spectrum.rope(head_dim), Extension(trained, length), factor=factor)
    assert used.base == pytest.approx(base, rel=2e-6)


LEFT_ALONE = {
    "paper": ({"ramp": "turns"}, [0.7562, 0.5590, 0.3002, 0.1080, 0.0269, 0.0010]),
    "code": ({}, [0.9231, 0.8462, 0.6923, 0.4615, 0.2308, 0.0769]),
    "not truncated": ({"truncate": False}, [0.9223, 0.8392, 0.6731, 0.4240, 0.1748, 0.0087]),
}


@pytest.mark.parametrize("form", LEFT_ALONE)
def test_yarn_leaves_pairs_alone_as_published(form):
    options, expected = LEFT_ALONE[form]
    used = REPAIRS["yarn"](Spectrum.rope(64), Extension(2048, 8192), **options)
    gamma = (used.speed_kept - 0.25) / 0.75
    np.testing.assert_allclose(gamma[[9, 10, 12, 15, 18, 20]], expected, atol=6e-5)


def test_yarn_has_the_published_inverse_frequencies():
    plain, extension = Spectrum.rope(64), Extension(2048, 8192)
    pairs = [10, 15, 20]
    code = REPAIRS["yarn"](plain, extension)
    paper = REPAIRS["yarn"](plain, extension, ramp="turns")
    for used, expected in (
        (plain, [0.05623413, 0.01333521, 0.00316228]),
        (paper, [0.03763534, 0.00441351, 0.00079292]),
        (code, [0.04974558, 0.00794984, 0.00097301]),
    ):
        np.testing.assert_allclose(used.inverse_frequencies[pairs], expected, atol=6e-9)


@pytest.mark.parametrize(
    ("head_dim", "trained", "factor", "paper", "code"),
    [
        (64, 2048, 4, (9, 12, 11), (9, 12, 11)),
        (128, 4096, 4, (21, 25, 18), (21, 25, 18)),
        (64, 64, 4, (0, 9, 23), (1, 8, 23)),
        (16, 16, 2, (0, 1, 7), (1, 0, 7)),
        (16, 64, 4, (0, 3, 5), (1, 2, 5)),
        (32, 128, 4, (0, 6, 10), (1, 5, 10)),
    ],
)
def test_yarn_at_small_lengths_is_nearly_interpolation(head_dim, trained, factor, paper, code):
    for options, expected in (({"ramp": "turns"}, paper), ({}, code)):
        found = effect(
            Repair("yarn", options), Spectrum.rope(head_dim), Extension(trained, factor * trained)
        )
        assert (found.untouched, found.ramped, found.interpolated) == expected


@pytest.mark.parametrize(
    ("head_dim", "base", "trained", "factor", "truncate", "corners", "split", "last"),
    [
        (128, 1e6, 32_768, 4, True, (23, 40), (24, 16, 24), 3.1023444e-07),  # Qwen2.5
        (64, 1.5e5, 4096, 32, False, (8.09277911551, 17.3980245016), (9, 9, 14), 3.02351143e-07),
        (64, 1e4, 4096, 40, True, (10, 23), (11, 12, 9), 3.33380358e-06),  # DeepSeek-V3
    ],
    ids=["Qwen2.5", "gpt-oss", "DeepSeek-V3"],
)
def test_yarn_of_known_checkpoints(head_dim, base, trained, factor, truncate, corners, split, last):
    plain, extension = Spectrum.rope(head_dim, base), Extension(trained, factor * trained)
    options = {"factor": factor, "truncate": truncate}
    found = effect(Repair("yarn", options), plain, extension)
    assert yarn_corners(plain, extension, truncate=truncate) == pytest.approx(corners, rel=1e-11)
    assert (found.untouched, found.ramped, found.interpolated) == split
    assert found.spectrum.inverse_frequencies[0] == 1.0
    assert found.spectrum.inverse_frequencies[-1] == pytest.approx(last, rel=1e-8)
    assert 1 / found.spectrum.speed_kept[-1] == pytest.approx(factor, rel=1e-12)


def test_gpt_oss_without_rounding_differs_from_rounded_in_the_published_digits():
    plain, extension = Spectrum.rope(64, 1.5e5), Extension(4096, 131_072)
    exact = REPAIRS["yarn"](plain, extension, truncate=False).inverse_frequencies
    rounded = REPAIRS["yarn"](plain, extension, truncate=True).inverse_frequencies
    np.testing.assert_allclose(exact[8:11], [0.0508132748, 0.0317056962, 0.0193350011], rtol=1e-8)
    np.testing.assert_allclose(rounded[8:11], [0.0508132748, 0.0316207523, 0.0194509675], rtol=1e-8)
    assert yarn_corners(plain, extension) == (8, 18)


@pytest.mark.parametrize(
    ("factor", "amplitude", "logits"),
    [
        (2, 1.069315, 1.143434),
        (4, 1.138629, 1.296477),
        (8, 1.207944, 1.459129),
        (16, 1.277259, 1.631390),
        (32, 1.346574, 1.813260),
    ],
)
def test_yarn_multiplies_logits_by_the_published_square(factor, amplitude, logits):
    used = REPAIRS["yarn"](Spectrum.rope(64), Extension(2048, 4096), factor=factor)
    assert used.amplitude == pytest.approx(amplitude, abs=6e-7)
    assert used.amplitude**2 == pytest.approx(logits, abs=6e-7)


@pytest.mark.parametrize(
    ("factor", "options", "amplitude", "softmax"),
    [
        (40, {"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0, 1.87385420709),  # DeepSeek-V3
        (40, {"mscale": 0.707, "mscale_all_dim": 0.707}, 1.0, 1.58962616512),  # DeepSeek-V2
        (16, {"mscale": 1, "mscale_all_dim": 1}, 1.0, None),  # Ministral 3
        (40, {"mscale": 1, "mscale_all_dim": 0}, 1.36888794541, 1.0),
        (40, {"mscale": 1}, 1.36888794541, 1.0),
        (40, {"mscale": 0.5}, 1.36888794541, 1.0),
        (64, {"attention_factor": 1.0}, 1.0, None),  # Laguna
        (4, {}, 1.13862943611, 1.0),  # Qwen
        (64, {"mscale": 1, "mscale_all_dim": 1}, 1.0, 2.00473970168),  # Kimi K2
        (4, {"mscale": 1, "mscale_all_dim": 0.5}, 1.13862943611 / 1.0693147180, None),
    ],
)
def test_amplitude_and_softmax_factor_are_two_numbers(factor, options, amplitude, softmax):
    assert yarn_amplitude(factor, **options) == pytest.approx(amplitude, rel=1e-10)
    used = REPAIRS["yarn"](Spectrum.rope(64), Extension(2048, 4096), factor=factor, **options)
    assert used.amplitude == pytest.approx(amplitude, rel=1e-10)
    if softmax is not None:
        found = softmax_factor(factor, options.get("mscale_all_dim"))
        assert found == pytest.approx(softmax, rel=1e-10)


def test_telechats_smaller_growth_and_deepseeks_softmax_scale():
    assert growth(4, 0.7) == pytest.approx(1.09704060528, rel=1e-11)
    assert softmax_factor(40, 1.0) / sqrt(192) == pytest.approx(0.135233778861, rel=1e-11)
    assert softmax_factor(40, 0.707) / sqrt(192) == pytest.approx(0.1147213867929261, rel=1e-12)
    assert growth(1) == growth(0.5) == 1.0


@pytest.mark.parametrize(
    ("trained", "factor", "amplitude"),
    [
        (4096, 4, 1.080123),
        (4096, 8, 1.118034),
        (4096, 16, 1.154701),
        (4096, 32, 1.190238),
        (2048, 4, 1.087115),
        (4096, 1, 1.0),
        (4096, 0.5, 1.0),
    ],
)
def test_longrope_has_the_published_amplitudes(trained, factor, amplitude):
    assert longrope_amplitude(factor, trained) == pytest.approx(amplitude, abs=6e-7)


def test_longrope_as_in_phi_3():
    """3,072 dimensions in 32 heads: 48 pairs, and so lists of 48."""
    plain = Spectrum.rope(96)
    long = np.linspace(1.08, 64.84, 48).tolist()
    short = np.linspace(1.0, 2.84, 48).tolist()
    repair = Repair("longrope", {"long_factor": long, "short_factor": short, "factor": 32})
    at = {n: repair.apply(plain, Extension(4096, n)) for n in (4096, 4097, 131_072)}
    for used in at.values():
        assert used.amplitude == pytest.approx(1.19023807142, rel=1e-11)
    np.testing.assert_allclose(1 / at[4096].speed_kept, short, rtol=1e-12)
    np.testing.assert_allclose(1 / at[4097].speed_kept, long, rtol=1e-12)
    np.testing.assert_allclose(1 / at[131_072].speed_kept, long, rtol=1e-12)
    with pytest.raises(InputError, match="one number per pair, 48, got 32"):
        Repair("longrope", {"long_factor": long[:32]}).apply(plain, Extension(4096, 8192))


def test_llama3_regions_of_8b_and_1b():
    eight, one = Spectrum.rope(128, 5e5), Spectrum.rope(64, 5e5)
    found = effect(Repair("llama3", {"factor": 8}), eight, Extension(8192, 65_536))
    assert (found.untouched, found.ramped, found.interpolated) == (29, 6, 29)
    assert found.spectrum.amplitude == 1.0
    known = {
        **{0: 1.0, 28: 0.00321144599, 29: 0.00216657076, 30: 0.00137189357},
        **{34: 0.000178507813, 35: 9.55621235e-05, 63: 3.06892599e-07},
    }
    for pair, expected in known.items():
        assert found.spectrum.inverse_frequencies[pair] == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(
        found.spectrum.speed_kept[29:35],
        [0.82817, 0.64374, 0.49351, 0.37112, 0.27143, 0.19021],
        atol=6e-6,
    )
    found = effect(Repair("llama3", {"factor": 32}), one, Extension(8192, 131_072))
    assert (found.untouched, found.ramped, found.interpolated) == (15, 3, 14)


def test_llama3_of_64_dimensions():
    found = effect(Repair("llama3"), Spectrum.rope(64), Extension(2048, 8192))
    assert (found.untouched, found.ramped, found.interpolated) == (16, 5, 11)
    np.testing.assert_allclose(
        found.spectrum.speed_kept[16:21], [0.81487, 0.61107, 0.45824, 0.34363, 0.25769], atol=6e-6
    )


# Worn by the scheme


def rotated(spectrum: Spectrum, x, position: int):
    import torch

    from longreach.schemes.base import Shape
    from longreach.schemes.rope import Rope

    size = 2 * spectrum.pairs
    rope = Rope(Shape(width=size, heads=1, head_dim=size, trained_length=64))
    rope.spectrum = spectrum
    found = rope.rotate(torch.tensor(x).float()[None, None, None], torch.tensor([position]))
    return found.flatten().double().numpy()


def test_yarn_is_no_clamp_of_positions():
    """rasbt/LLMs-from-scratch issue 939: the fastest pair must turn as if nothing were scaled."""
    plain, extension = Spectrum.rope(128, 5e5), Extension(8192, 65_536)
    used = REPAIRS["yarn"](plain, extension)
    assert 60_000 * used.inverse_frequencies[0] % (2 * pi) == pytest.approx(1.86350174, abs=5e-9)
    found = rotated(used, [1.0] + [0.0] * 127, 60_000) / used.amplitude
    np.testing.assert_allclose(found[:2], [cos(1.86350174), sin(1.86350174)], atol=1e-6)
    assert abs(found[0] - cos(4.15992853)) > 0.2


def test_the_amplitude_is_in_cos_and_sin_alone():
    """Put into the softmax too, it would scale logits by 1.68 rather than 1.30."""
    extension = Extension(2048, 8192)
    used = REPAIRS["yarn"](Spectrum.rope(64), extension)
    quiet = used.repaired(used.inverse_frequencies, amplitude=1.0)
    q, k = np.random.default_rng(0).standard_normal((2, 64))
    logit = rotated(used, q, 900) @ rotated(used, k, 30) * softmax_factor(4, None)
    plain = rotated(quiet, q, 900) @ rotated(quiet, k, 30)
    assert logit / plain == pytest.approx(1.29647699278, rel=1e-4)
    twice = logit / plain * growth(4) ** 2
    assert twice == pytest.approx(1.68085259281, rel=1e-4)


# The factor with which NTK reaches


@MODEL
def test_ntk_reaches_with_the_factor_that_is_named_and_with_none_below(
    head_dim, base, trained, target
):
    plain, extension = Spectrum.rope(head_dim, base), Extension(trained, target)
    slow = plain.never_completed(trained)
    if slow[0]:
        with pytest.raises(InputError, match="the fastest pair"):
            ntk_factor(plain, extension)
        return
    factor = ntk_factor(plain, extension)
    if not slow.any():
        assert factor == 1.0
        return
    assert factor >= target / trained
    enough = REPAIRS["ntk"](plain, extension, factor=factor * (1 + 1e-9))
    assert not enough.unseen(extension).any()
    assert enough.effective_length(trained) >= target
    less = REPAIRS["ntk"](plain, extension, factor=factor * (1 - 1e-6))
    assert less.unseen(extension).any()


def test_a_factor_beyond_any_number_is_refused():
    with pytest.raises(InputError, match=r"no factor of NTK up to 1e\+15 reaches 10,000,000"):
        ntk_factor(Spectrum.rope(128), Extension(7, 10**7))


# Parity with transformers 5.24

HEAD_DIMS = [16, 64, 96, 128, 256]
BASES = [1e4, 5e5, 1e6]
TRAINED = [64, 2048, 8192, 131_072]
FACTORS = [2, 4, 32]
PARITY = pytest.mark.parametrize("head_dim", HEAD_DIMS)


def theirs(kind: str, head_dim: int, base: float, stated: int, length: int | None = None, **keys):
    """Inverse frequencies and amplitude of transformers."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        num_key_value_heads=1,
        num_hidden_layers=1,
        head_dim=head_dim,
        max_position_embeddings=stated,
        rope_parameters={"rope_type": kind, "rope_theta": base, **keys},
    )
    found, amplitude = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    return found.double().numpy(), float(amplitude)


def assert_same(used: Spectrum, expected) -> None:
    np.testing.assert_allclose(used.inverse_frequencies, expected[0], rtol=1e-5)
    assert used.amplitude == pytest.approx(expected[1], rel=1e-12)


def settings():
    return ((base, n, factor) for base in BASES for n in TRAINED for factor in FACTORS)


@PARITY
def test_linear_is_that_of_transformers(head_dim):
    for base, trained, factor in settings():
        used = REPAIRS["linear"](
            Spectrum.rope(head_dim, base), Extension(trained, factor * trained)
        )
        assert_same(used, theirs("linear", head_dim, base, trained, factor=float(factor)))


@PARITY
def test_dynamic_is_that_of_transformers(head_dim):
    for base, trained, factor in settings():
        for length in (trained // 2, trained, trained + 1, 3 * trained):
            used = REPAIRS["dynamic"](
                Spectrum.rope(head_dim, base), Extension(trained, length), factor=factor
            )
            expected = theirs("dynamic", head_dim, base, trained, length, factor=float(factor))
            assert_same(used, expected)


@PARITY
@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_is_that_of_transformers(head_dim, truncate):
    for base, trained, factor in settings():
        used = REPAIRS["yarn"](
            Spectrum.rope(head_dim, base), Extension(trained, factor * trained), truncate=truncate
        )
        expected = theirs(
            "yarn",
            head_dim,
            base,
            factor * trained,
            factor=float(factor),
            original_max_position_embeddings=trained,
            truncate=truncate,
        )
        assert_same(used, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"mscale": 1.0, "mscale_all_dim": 1.0},
        {"mscale": 1.0, "mscale_all_dim": 0.5},
        {"mscale": 0.707, "mscale_all_dim": 1.0},
        {"mscale": 1.0, "mscale_all_dim": 0.0},
        {"mscale": 0.5},
        {"mscale_all_dim": 1.0},
        {"attention_factor": 1.0},
        {"attention_factor": 0.8, "mscale": 1.0, "mscale_all_dim": 0.5},
        {"beta_fast": 16.0, "beta_slow": 2.0},
        {"beta_fast": 4.0, "beta_slow": 0.25},
    ],
    ids=str,
)
def test_yarns_options_are_those_of_transformers(options):
    for trained in TRAINED:
        used = REPAIRS["yarn"](Spectrum.rope(64), Extension(trained, 40 * trained), **options)
        expected = theirs(
            "yarn",
            64,
            1e4,
            40 * trained,
            factor=40.0,
            original_max_position_embeddings=trained,
            **options,
        )
        assert_same(used, expected)


@PARITY
def test_llama3_is_that_of_transformers(head_dim):
    for base, trained, factor in settings():
        for low, high in ((1.0, 4.0), (0.5, 16.0)):
            used = REPAIRS["llama3"](
                Spectrum.rope(head_dim, base),
                Extension(trained, factor * trained),
                low_freq_factor=low,
                high_freq_factor=high,
            )
            expected = theirs(
                "llama3",
                head_dim,
                base,
                factor * trained,
                factor=float(factor),
                low_freq_factor=low,
                high_freq_factor=high,
                original_max_position_embeddings=trained,
            )
            assert_same(used, expected)


@PARITY
def test_longrope_is_that_of_transformers(head_dim):
    pairs = head_dim // 2
    lists = {
        "long_factor": np.linspace(1, 60, pairs).tolist(),
        "short_factor": np.linspace(1, 3, pairs).tolist(),
    }
    for base, trained, factor in settings():
        for length in (trained, trained + 1):
            used = REPAIRS["longrope"](
                Spectrum.rope(head_dim, base), Extension(trained, length), factor=factor, **lists
            )
            expected = theirs(
                "longrope",
                head_dim,
                base,
                factor * trained,
                length,
                factor=float(factor),
                original_max_position_embeddings=trained,
                **lists,
            )
            assert_same(used, expected)


def test_exception_transformers_turns_yarns_ramp_round_where_corners_cross():
    """Trained at fewer tokens than one turn of the fastest pair, its upper corner is below 0.

    transformers' ramp then falls instead of rising, and *no* pair is slowed, though none was ever
    seen to turn. Here the ramp becomes a step, and all but the first pair are interpolated.
    """
    plain = Spectrum.rope(16, 1e4)
    assert plain.never_completed(3).all()
    keys = {"factor": 4.0, "original_max_position_embeddings": 3}
    expected, _ = theirs("yarn", 16, 1e4, 12, truncate=False, **keys)
    np.testing.assert_allclose(expected, plain.inverse_frequencies, rtol=1e-5)
    used = REPAIRS["yarn"](plain, Extension(3, 12), truncate=False)
    np.testing.assert_allclose(used.speed_kept, [1, *[0.25] * 7], rtol=1e-12)


def test_exception_transformers_reads_truncate_beside_the_layers_block():
    """In 5.24 a `truncate` inside the block of a layer type is ignored; ours is what it says."""
    from transformers import Gemma3TextConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    block = {
        "rope_type": "yarn",
        "rope_theta": 150_000.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    }
    config = Gemma3TextConfig(
        head_dim=64,
        max_position_embeddings=131_072,
        rope_parameters={
            "full_attention": block,
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    found, _ = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu", layer_type="full_attention")
    assert float(found[9]) == pytest.approx(0.0316207523, rel=1e-6)
    plain, extension = Spectrum.rope(64, 150_000.0), Extension(4096, 131_072)
    ours = REPAIRS["yarn"](plain, extension, truncate=False)
    assert ours.inverse_frequencies[9] == pytest.approx(0.0317056962, rel=1e-8)
    rounded = REPAIRS["yarn"](plain, extension, truncate=True)
    assert float(found[9]) == pytest.approx(rounded.inverse_frequencies[9], rel=1e-6)


def test_dynamic_ntk_has_no_history():
    """transformers keeps a long call's base for the next (huggingface/transformers#46624)."""
    plain = Spectrum.rope(128)
    fresh = {16384: 1.649688601901289e-05, 100: 0.00011547819303814322, 8192: 3.849273343803361e-05}
    for order in ([16384, 100, 8192], [8192, 16384, 100], [100, 8192, 16384, 8192]):
        for length in order:
            found = REPAIRS["dynamic"](plain, Extension(4096, length), factor=2.0)
            assert found.inverse_frequencies[-1] == pytest.approx(fresh[length], rel=1e-6)
