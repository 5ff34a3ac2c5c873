"""`longreach compare`: intervals that cover, sentences that fit, and what cannot be compared."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from longreach import cli
from longreach.errors import InputError
from longreach.report.compare import (
    Side,
    compared,
    difference,
    discordant,
    folders,
    measured,
    reach_by_draw,
    repairs_in,
    schemes_in,
)
from longreach.results import Results, Row
from longreach.show.comparison import draw, table, text

from .report_fixture import write_runs

LENGTHS = tuple(range(1, 25))
SETTINGS = {"lengths": LENGTHS, "trained_length": 16, "shortest": 1, "tasks": ["copy"]}
ROW = Row(
    training="d", scheme="rope", task="copy", seed=0, repair=None, trained_length=2,
    evaluation_length=1, metric="exact_match", first_position=1, last_position=1, value=1.0,
    low=None, high=None, count=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    schemes = ["nope", "rope", "alibi", "learned"]
    place = tmp_path_factory.mktemp("compare") / "old"
    return write_runs(place, schemes=schemes, seeds=range(5), **SETTINGS)


@pytest.fixture(scope="module")
def newer(tmp_path_factory) -> Path:
    """Of the same study, trained for longer: nope goes further. One seed is not there."""
    place = tmp_path_factory.mktemp("compare") / "new"
    return write_runs(
        place, schemes=["nope", "rope"], seeds=range(4), steps=900, cliff={"nope": 5.0}, **SETTINGS
    )


@pytest.fixture
def call(capfd, monkeypatch):
    """Runs the command line in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longreach", "compare", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


# Intervals


@pytest.mark.parametrize(
    ("seed_sd", "item_sd"), [(0.5, 0.2), (0.03, 1.0), (0.2, 1.4)], ids=["seeds", "items", "both"]
)
def test_the_interval_covers_a_known_effect_as_often_as_it_says(seed_sd, item_sd):
    """Oracle: experiments drawn from a known effect; both models see the same hard sequences."""
    rng = np.random.default_rng(11)
    covered, sign = [], []
    for _ in range(300):
        shared = rng.normal(0, 3, (1, 60))  # hard or easy for both: it must cancel
        effect = 0.8 + rng.normal(0, seed_sd, (5, 1)) + rng.normal(0, item_sd, (1, 60))
        first = shared + effect + rng.normal(0, 0.3, (5, 60))
        second = shared + rng.normal(0, 0.3, (5, 60))
        items = first - second
        found = difference(items, float(items.mean()), fraction=False)
        covered.append(found.low <= 0.8 <= found.high)
        sign.append(found.mean > 0)
    assert 0.92 <= np.mean(covered) <= 0.99
    assert np.mean(sign) > 0.95


def test_equal_models_are_told_apart_as_rarely_as_it_says():
    rng = np.random.default_rng(5)
    apart = []
    for _ in range(300):
        right = rng.random((2, 5, 80)) < 0.7 + rng.normal(0, 0.05, (2, 5, 1))
        items = right[0].astype(float) - right[1]
        apart.append(difference(items, float(items.mean()), fraction=True).told_apart)
    assert np.mean(apart) <= 0.06


def test_the_interval_of_one_seed_is_the_paired_bootstrap_of_its_sequences():
    items = np.random.default_rng(2).gamma(2.0, size=(1, 50)) - 1.5
    found = difference(items, float(items.mean()), fraction=False)
    theirs = stats.bootstrap(
        (items[0],), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    np.testing.assert_allclose((found.low, found.high), theirs, atol=0.06 * width, rtol=0)


def test_few_seeds_are_held_to_students_t():
    items = np.repeat([[0.1], [0.2], [0.6]], 40, axis=1)
    found = difference(items, 0.3, fraction=False)
    theirs = stats.ttest_1samp([0.1, 0.2, 0.6], 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert not found.told_apart  # which the range of the three would have told


def test_pairs_that_are_all_alike_have_an_interval_with_width():
    """Oracle: Newcombe's method written out for no pair that differs, and for all."""
    z2 = stats.norm.ppf(0.975) ** 2
    edge = z2 / (100 + z2)
    assert discordant(np.zeros((3, 100))) == pytest.approx((-edge, edge))
    found = difference(np.ones((3, 100)), 1.0, fraction=True)
    assert (found.low, found.high) == pytest.approx((1 - np.hypot(edge, edge), 1.0))


def test_a_reach_drawn_again_is_that_of_the_drawn_sequences():
    """Oracle: sequences picked by index, their mean and reach read off by hand."""
    right = {1: [1, 1, 1, 1], 2: [1, 1, 1, 0], 3: [1, 0, 1, 1]}
    rows = [replace(ROW, evaluation_length=n, value=np.mean(v)) for n, v in right.items()]
    items = {
        row.item_key: np.array(v, dtype=np.uint8)
        for row, v in zip(rows, right.values(), strict=True)
    }
    picked = np.array([[0, 1, 2, 2], [0, 2, 2, 0], [3, 3, 1, 0]])
    draws = np.array([np.bincount(each, minlength=4) for each in picked], dtype=float)
    # Of the first, one in four is sequence 1, which fails 3; the second has neither 1 nor 3.
    assert reach_by_draw(rows, items, draws, {}).tolist() == [2, 3, 1]
    # Against a lower ceiling, three of four are enough.
    assert reach_by_draw(rows, items, draws, {3: 0.8}).tolist() == [3, 3, 1]


def test_a_reach_over_the_control_begins_at_the_trained_length_and_ends_at_the_tolerance():
    """Oracle: documents picked by index; a mean over 0.05 nats ends it, one of 0.05 does not."""
    over = {1: [9.0, 9.0], 2: [0.0, 0.02], 4: [0.05, 0.07], 8: [0.0, 0.0]}
    rows = [
        replace(ROW, metric="excess", evaluation_length=n, value=np.mean(v), count=2)
        for n, v in over.items()
    ]
    items = {row.item_key: np.array(v) for row, v in zip(rows, over.values(), strict=True)}
    draws = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    assert reach_by_draw(rows, items, draws, {}).tolist() == [8, 2, 2]


# Scheme against scheme


def test_one_scheme_reaches_further_and_the_sentence_says_by_how_much(folder):
    (found,) = schemes_in(folder, "nope", "rope")
    first, second = found.reach.first, found.reach.second
    assert (len(first), found.seeds) == (5, (0, 1, 2, 3, 4))
    assert found.reach.difference.mean == pytest.approx(np.subtract(first, second).mean())
    low, high = found.reach.difference.low, found.reach.difference.high
    assert found.sentences == [
        f"nope reaches {found.reach.difference.mean:.1f} symbols further than rope on copy, "
        f"95 % interval {low:.1f} to {high:.1f}, 5 seeds."
    ]
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert low <= theirs.low + 1e-9
    assert high >= theirs.high - 1e-9
    (mirrored,) = schemes_in(folder, "rope", "nope")
    assert mirrored.sentences[0].startswith(
        f"rope reaches {found.reach.difference.mean:.1f} symbols less far than nope on copy, "
    )
    assert mirrored.reach.difference.mean == -found.reach.difference.mean


def test_differences_are_those_of_the_rows_and_paired(folder):
    (found,) = schemes_in(folder, "nope", "rope")
    rows = {(r.scheme, r.seed): r for r in Results.read(folder).rows
            if (r.metric, r.evaluation_length) == ("exact_match", 17)}  # fmt: skip
    per_seed = [rows["nope", seed].value - rows["rope", seed].value for seed in range(5)]
    (at,) = (each for each in found.lengths if each.evaluation_length == 17)
    assert at.difference.mean == pytest.approx(np.mean(per_seed))
    assert at.first - at.second == pytest.approx(np.mean(per_seed))
    theirs = stats.ttest_1samp(per_seed, 0).confidence_interval(0.95)
    assert at.difference.low <= max(-1.0, theirs.low)
    assert at.difference.high >= min(1.0, theirs.high)
    assert at.difference.high <= 1


def test_equal_models_are_not_told_apart(folder):
    runs = {run.rows[0].seed: run for run in Results.read(folder).runs
            if run.rows[0].scheme == "alibi"}  # fmt: skip
    sides = [Side(name=name, runs=runs) for name in ("one", "other")]
    found = compared(*sides, task="copy", scheme=None, metric=None)
    assert found.sentences == [
        "The data do not tell one and other apart in how far they reach on copy: difference +0.0 "
        "symbols, 95 % interval +0.0 to +0.0, 5 seeds."
    ]
    z2 = stats.norm.ppf(0.975) ** 2
    edge = z2 / (256 + z2)  # no sequence tells them apart: Wilson's interval at 0, written out
    for at in found.lengths:
        assert (at.difference.low, at.difference.high) == pytest.approx((-edge, edge))


def test_another_metric_is_told_past_the_trained_length(folder):
    (found,) = schemes_in(folder, "nope", "rope", metric="token_accuracy")
    assert found.reach is None
    (sentence,) = found.sentences
    assert sentence.startswith(
        "Over the lengths past the trained one, 17 to 24 symbols, the token accuracy of nope is "
    )
    assert "percentage points higher than that of rope on copy, 95 % interval" in sentence


def test_a_scheme_is_compared_where_it_has_positions(folder):
    (found,) = schemes_in(folder, "nope", "learned")
    assert [at.evaluation_length for at in found.lengths] == list(range(1, 17))
    assert found.beyond is None
    assert max(found.reach.second) == 16
    assert "learned has no positions for lengths from 17 on." in found.notes


def test_runs_below_the_bar_are_named(tmp_path):
    place = write_runs(
        tmp_path / "runs", schemes=["nope", "alibi"], seeds=[0, 1], weak=("nope", 1), **SETTINGS
    )
    (found,) = schemes_in(place, "nope", "alibi")
    assert [note for note in found.notes if "not learned" in note] == [
        "Under seed 1, nope has not learned copy where it was trained, so what it does past that "
        "says little."
    ]


def test_text_is_compared_by_its_change_against_the_trained_length(tmp_path):
    """Oracle: 3 doublings, of 0.45 nats each for rope and none for alibi, in the made-up runs."""
    place = write_runs(tmp_path / "runs", schemes=["alibi", "rope"], tasks=["text"])
    (found,) = schemes_in(place, "alibi", "rope")
    assert found.metric == "change"
    assert found.lengths[-1].difference.mean == pytest.approx(-1.35, abs=0.01)
    assert found.lengths[1].difference.mean == 0  # at the trained length
    reach, change = found.sentences
    assert reach == (
        "alibi reaches 448 tokens further than rope on text, 95 % interval 448 to 448, 3 seeds; "
        "runs that still hold at the longest length measured are counted as that."
    )
    assert "128 to 512 tokens, the change against the trained length of alibi is 0.900" in change
    assert "nats per token lower than that of rope on text" in change


def test_one_seed_says_what_its_interval_is_of(tmp_path):
    place = write_runs(tmp_path / "runs", schemes=["nope", "rope"], seeds=[2], **SETTINGS)
    (found,) = schemes_in(place, "nope", "rope")
    assert "1 seed, over its sequences alone" in found.sentences[0]
    assert any(note.startswith("One seed: ") for note in found.notes)
    assert found.reach.difference.low <= found.reach.difference.mean


# Repair against repair


def test_repairs_are_compared_under_each_scheme(tmp_path):
    """Oracle: the made-up repair mends half of the harm, 0.45 nats a doubling for rope."""
    place = write_runs(
        tmp_path / "runs", schemes=["alibi", "rope"], tasks=["text"], repair="yarn:factor=2"
    )
    alibi, rope = repairs_in(place, "none", "yarn")
    assert (rope.first, rope.second, rope.scheme) == ("rope", "rope + yarn:factor=2", None)
    assert (alibi.first, alibi.second) == ("alibi", "alibi + yarn:factor=2")
    assert rope.lengths[-1].difference.mean == pytest.approx(1.35 / 2, abs=0.01)
    (only,) = repairs_in(place, "yarn:factor=2", "none", schemes=["rope"])
    assert only.lengths[-1].difference.mean == -rope.lengths[-1].difference.mean
    assert only.sentences[-1].startswith("Over the lengths past the trained one, ")
    assert "the change against the trained length of rope + yarn:factor=2 is " in only.sentences[-1]
    with pytest.raises(InputError, match="did you mean 'yarn:factor=2'"):
        repairs_in(place, "none", "yarn:factor=3")


def test_each_repair_has_its_own_reach(tmp_path):
    """Oracle: of each seed's rows, the last length up to which exact match is 90 % and more."""
    settings = SETTINGS | {"tasks": ["recall"]}
    place = write_runs(tmp_path / "runs", schemes=["rope"], seeds=[0, 1], repair="yarn", **settings)
    (found,) = repairs_in(place, "yarn", "none")

    def reached(repair: str | None) -> list[int]:
        lengths = []
        for seed in (0, 1):
            right = {r.evaluation_length: r.value for r in Results.read(place).rows
                     if (r.metric, r.repair, r.seed) == ("exact_match", repair, seed)}  # fmt: skip
            lengths.append(max(n for n in LENGTHS if all(right[m] >= 0.9 for m in range(1, n + 1))))
        return lengths

    assert list(found.reach.first) == reached("yarn")
    assert list(found.reach.second) == reached(None)
    assert found.reach.difference.mean > 0


def test_up_to_the_trained_length_a_repair_that_was_not_worn_there_is_the_plain_model():
    rows = [
        replace(ROW, metric="last_loss", evaluation_length=n, repair=repair)
        for n, repair in ((1, None), (2, None), (4, None), (4, "yarn"), (1, "linear"))
    ]
    run = SimpleNamespace(rows=rows, folder="runs/x")
    found = {
        repair: [(row.evaluation_length, row.repair) for row in measured(run, "change", repair)]
        for repair in (None, "yarn", "linear")
    }
    assert found == {
        None: [(1, None), (2, None), (4, None)],
        "yarn": [(1, None), (2, None), (4, "yarn")],
        "linear": [(1, "linear")],
    }


def test_two_folders_are_compared_under_a_repair_that_both_wear(tmp_path):
    one, other = (
        write_runs(tmp_path / name, schemes=["rope"], tasks=["text"], repair=repair)
        for name, repair in (("one", "yarn"), ("other", "yarn"))
    )
    plan = json.loads((other / "plan.json").read_text())
    plan["study"]["evaluation"]["repairs"] = ["none", "linear", "yarn"]
    (other / "plan.json").write_text(json.dumps(plan))
    (found,) = folders(one, other, repair="yarn")
    assert found.scheme == "rope + yarn"
    assert all(at.difference.mean == 0 for at in found.lengths)
    assert "do not tell rope + yarn in one and in other apart" in found.sentences[0]
    plain = write_runs(tmp_path / "plain", schemes=["rope"], tasks=["text"])
    for sides in ((one, plain), (plain, one)):
        with pytest.raises(InputError, match="was not measured under yarn"):
            folders(*sides, repair="yarn")


# Folder against folder


def test_two_folders_are_compared_cell_by_cell(folder, newer):
    nope, rope = folders(newer, folder)
    assert (nope.scheme, rope.scheme, nope.first, nope.second) == ("nope", "rope", "new", "old")
    assert nope.seeds == (0, 1, 2, 3)
    assert nope.sentences[0].startswith("nope in new reaches 2.0 symbols further than in old on ")
    assert rope.sentences[0].startswith("The data do not tell rope in new and in old apart")
    notes = " ".join(nope.notes)
    assert "The studies differ in training.steps 900 in new, 600 in old." in notes
    assert "Left out, as one folder alone has them: alibi and learned." in notes
    assert "over the seeds that both have, 0, 1, 2, 3; without seed 4, which one of them" in notes


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lengths": (1, 16, 17)}, r"evaluation_lengths \(24 .* to 24|evaluation_lengths \("),
        ({"trained_length": 8}, r"trained_length \(16 and 8\)"),
        ({"tasks": ["reverse"]}, r"tasks \(copy and reverse; --task"),
    ],
)
def test_what_was_measured_otherwise_is_refused_and_said(folder, tmp_path, changed, said):
    other = write_runs(
        tmp_path / "other", schemes=["nope"], seeds=[0], name="mine", **{**SETTINGS, **changed}
    )
    with pytest.raises(InputError, match=said) as raised:
        folders(folder, other)
    assert "(study quick)" in str(raised.value)
    assert "(study mine)" in str(raised.value)


def test_no_seed_in_common_is_refused(folder, tmp_path):
    other = write_runs(tmp_path / "other", schemes=["nope"], seeds=[7], **SETTINGS)
    with pytest.raises(InputError, match=r"no seed in common on copy: 0, 1, 2, 3, 4 and 7"):
        folders(folder, other)


# The command line


def test_the_table_and_the_sentence(call, folder):
    code, out, err = call(folder, "--schemes", "nope,rope")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 88
    assert lines[0].startswith("nope reaches ")
    head = lines.index("copy: nope minus rope: exact match (%); 6 of 24 lengths")
    assert lines[head + 1].split()[:4] == ["symbols", "nope", "rope", "difference"]
    shown = [line.split()[0] for line in lines[head + 2 : head + 9]]
    assert shown == ["1", "16", "17", "18", "20", "24", "reach"]
    assert "Student's t" in " ".join(out.split())


def test_json_is_one_object_with_every_length(call, folder):
    code, out, err = call(folder, "--schemes", "nope,rope", "--task", "copy", "--json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["comparisons"]
    assert (found["task"], found["first"], found["second"]) == ("copy", "nope", "rope")
    assert [at["evaluation_length"] for at in found["lengths"]] == list(LENGTHS)
    assert set(found["lengths"][0]["difference"]) == {"mean", "low", "high"}
    assert found["reach"]["told_apart"] is True
    assert found["sentences"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "two runs folders, or one and two schemes in it: --schemes a,b"),
        (("--schemes", "nope"), "--schemes a,b"),
        (("--repair", "none"), "--repair none --repair yarn"),
        (("--repair", "none", "--repair", "yarn"), "no finished run of repair 'yarn'"),
        (("--repair", "none", "--repair", "none"), "names 'none' twice"),
        (("--schemes", "nope,nope"), "names 'nope' twice"),
        (("--schemes", "nope,alibii"), "did you mean 'alibi'?"),
        (("--schemes", "nope,rope", "--task", "cope"), "did you mean 'copy'?"),
        (("--schemes", "nope,rope", "--metric", "token_acuracy"), "did you mean 'token_accuracy'?"),
        (("--schemes", "nope,rope", "--plot", "x.gif"), "must end in .svg, .png or .html"),
        (("nowhere",), "no folder nowhere"),
    ],
)
def test_what_it_does_not_understand_it_says(call, folder, arguments, said):
    code, out, err = call(folder, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_plots_in_three_forms(folder, newer, tmp_path):
    one, two = schemes_in(folder, "nope", "rope"), folders(newer, folder)
    for suffix, start in ((".svg", b"<svg"), (".png", b"\x89PNG"), (".html", b"<!DOCTYPE html>")):
        draw(one, tmp_path / f"plot{suffix}")
        assert (tmp_path / f"plot{suffix}").read_bytes().startswith(start)
    drawing = (tmp_path / "plot.svg").read_text()
    assert "Line chart of the difference, nope minus rope. copy: " in drawing
    assert ">trained length 16<" in drawing
    page = (tmp_path / "plot.html").read_text()
    assert one[0].sentences[0] in page
    draw([*one, *two], tmp_path / "both.svg")
    assert (tmp_path / "both.svg").read_text().count("<svg ") == 3


def test_many_comparisons_have_a_line_each(folder, newer):
    found = folders(newer, folder)
    assert table(found[0]).columns[1:3] == ("new", "old")
    many = text([*found, *found])
    assert "new minus old: reach (symbols); length by length with --task" in many
    assert many.count("copy  nope") == 2


def test_no_torch(folder):
    code = (
        "import sys; from pathlib import Path; from longreach.report.compare import schemes_in\n"
        f"schemes_in(Path({str(folder)!r}), 'nope', 'rope')\n"
        "assert not {'torch', 'altair'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
