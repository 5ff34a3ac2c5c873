"""The report: its statistics against other oracles, what it must not hide, and the page itself."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy import stats

from longreach import report
from longreach.errors import InputError
from longreach.report import brief, endings, theme
from longreach.report.aggregate import interval
from longreach.report.charts import end_words
from longreach.report.figures import figures
from longreach.report.intervals import bootstrap, fraction_interval
from longreach.report.picture import Picture, spread
from longreach.report.sheet import as_csv
from longreach.report.summarise import Summary, finish, reach_of, summarise
from longreach.report.tables import Entry, difference_table, markdown, score_table
from longreach.report.verdict import headline, verdict
from longreach.report.wording import flags, methods, seen_in_training
from longreach.results import Results, Row

from .browser import opened
from .report_fixture import write_runs

JUST_APART = 11.0
"""Of colours in L*a*b*: several times what can be told side by side, for lines apart."""

ROW = Row(
    training="d",
    scheme="rope",
    task="recall",
    seed=0,
    repair=None,
    trained_length=64,
    evaluation_length=64,
    metric="exact_match",
    first_position=64,
    last_position=64,
    value=1.0,
    low=None,
    high=None,
    count=128,
)


def summary_of(folder: Path, **options) -> Summary:
    return summarise(Results.read(write_runs(folder, **options)))


def task_of(summary: Summary, label: str):
    return next(task for task in summary.tasks if task.label == label)


def aggregate(task, curve: str, metric: str, length: int):
    (found,) = (
        row
        for row in task.aggregates
        if (row.curve, row.metric, row.evaluation_length) == (curve, metric, length)
    )
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = write_runs(tmp_path_factory.mktemp("report") / "quick", weak=("rope", 1))
    assert report.write(folder).page == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(folder) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def markdown_text(folder) -> str:
    return (folder / "summary.md").read_text(encoding="utf-8")


# Statistics


@pytest.mark.parametrize("items", [30, 200])
def test_bootstrap_of_one_seed_is_scipys(items):
    values = np.random.default_rng(items).gamma(2.0, size=items)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    np.testing.assert_allclose(bootstrap(values[None]), theirs, atol=0.06 * width, rtol=0)


def test_bootstrap_draws_seeds_and_items_at_once():
    """Oracle: resampled one by one with index arrays, never with weights."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(5, 1)) + rng.normal(size=(1, 40)) + rng.normal(size=(5, 40))
    means = [
        values[rng.integers(5, size=5)][:, rng.integers(40, size=40)].mean() for _ in range(9999)
    ]
    theirs = np.quantile(means, [0.025, 0.975])
    np.testing.assert_allclose(bootstrap(values), theirs, atol=0.06 * np.ptp(theirs), rtol=0)


@pytest.mark.parametrize(
    ("seeds", "seed_sd", "least", "most"),
    [
        (5, 0.0, 0.92, 1.0),  # nothing but sequences: as good as its name, or cautious
        (3, 1.0, 0.66, 0.84),  # three seeds that differ: their [lowest, highest], 3 in 4
    ],
)
def test_coverage_is_what_the_docstring_says(seeds, seed_sd, least, most):
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(300):
        values = rng.normal(0, seed_sd, (seeds, 1)) + rng.normal(0, 0.3, (1, 60))
        values += rng.normal(0, 0.1, (seeds, 60))
        low, high = bootstrap(values)
        covered.append(low <= 0 <= high)
    assert least <= np.mean(covered) <= most


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_interval_of_all_right_or_all_wrong_has_width(value):
    low, high = fraction_interval(np.full((3, 100), value))
    z = stats.norm.ppf(0.975)
    edge = z**2 / (100 + z**2)  # Wilson's interval at 0, written out
    assert high - low == pytest.approx(edge, rel=1e-9)
    assert low <= value <= high


def test_a_fraction_is_as_uncertain_as_the_wider_of_the_two_says():
    apart = np.repeat([[0.0], [1.0], [1.0]], 100, axis=1)  # seeds differ, sequences do not
    assert fraction_interval(apart) == (0.0, 1.0)
    alike = np.tile(np.arange(100) < 30, (3, 1)).astype(float)
    low, high = fraction_interval(alike)
    theirs = stats.binomtest(30, 100).proportion_ci(method="wilson")
    assert low <= theirs.low
    assert high >= theirs.high


def test_the_interval_is_about_the_reported_value_where_that_is_a_ratio():
    documents = np.array([[1.0, 2.0, 3.0]])
    low, high = interval("bits_per_byte", 2.5, documents)
    assert (low, high) == pytest.approx(np.array(bootstrap(documents)) + 0.5)


def test_aggregates_are_over_seeds(tmp_path):
    summary = summary_of(tmp_path / "runs")
    task = task_of(summary, "text")
    values = [
        row.value
        for row in summary.results.rows
        if (row.scheme, row.metric, row.evaluation_length) == ("rope", "last_loss", 256)
    ]
    found = aggregate(task, "rope", "last_loss", 256)
    assert len(values) == found.seeds == 3
    assert found.mean == pytest.approx(np.mean(values))
    assert found.sd == pytest.approx(np.std(values, ddof=1))
    assert (found.least, found.most) == (min(values), max(values))
    assert found.low < found.mean < found.high
    assert found.count == 40


def test_differences_are_paired(tmp_path):
    """Schemes share seeds and documents; the spread that they share must cancel."""
    task = task_of(summary_of(tmp_path / "runs"), "text")
    (found,) = (
        row
        for row in task.differences
        if (row.curve, row.metric, row.evaluation_length) == ("alibi", "last_loss", 512)
    )
    assert found.reference == "rope"
    assert found.mean == pytest.approx(-1.35, abs=0.01)  # 3 doublings of 0.45 nats
    alone = aggregate(task, "alibi", "last_loss", 512)
    assert found.high - found.low < 0.1 * (alone.high - alone.low)


def test_changes_are_paired_by_seed_and_document(tmp_path):
    """Oracle: the items as files hold them, resampled one by one with index arrays."""
    folder = write_runs(tmp_path / "runs", schemes=["learned", "alibi"], tasks=["text"])
    results = Results.read(folder)
    task = summarise(results).tasks[0]
    (found,) = (
        row for row in task.changes if (row.scheme, row.evaluation_length) == ("alibi", 512)
    )
    items = [load_file(run.folder / "items.safetensors") for run in results.runs]
    items = [stored for stored in items if "last_loss@512:497-512" in stored]
    assert len(items) == 3
    values = np.array([i["last_loss@512:497-512"] - i["last_loss@64:49-64"] for i in items])
    assert found.mean == pytest.approx(values.mean(), abs=1e-6)
    assert found.sd == pytest.approx(values.mean(axis=1).std(ddof=1), abs=1e-6)
    assert (found.seeds, found.count) == values.shape == (3, 40)
    rng = np.random.default_rng(5)
    means = [
        values[rng.integers(3, size=3)][:, rng.integers(40, size=40)].mean() for _ in range(4999)
    ]
    theirs = np.quantile(means, [0.025, 0.975])
    np.testing.assert_allclose((found.low, found.high), theirs, atol=0.06 * np.ptp(theirs), rtol=0)
    level = aggregate(task, "alibi", "last_loss", 512)
    assert found.high - found.low < 0.1 * (level.high - level.low)
    (trained,) = (r for r in task.changes if (r.scheme, r.evaluation_length) == ("alibi", 64))
    assert (trained.mean, trained.low, trained.high) == (0, 0, 0)


def test_without_the_trained_length_there_is_no_change_to_report(tmp_path):
    task = summary_of(tmp_path / "runs", tasks=["text"], lengths=(32, 128)).tasks[0]
    assert task.changes == ()
    assert "Change" not in " ".join(verdict(task))
    assert score_table(task, task.main_metric).columns[-1] == "reach"


@pytest.mark.parametrize(
    ("schemes", "reference", "why"),
    [
        (["learned", "rope", "alibi"], "rope", "the first scheme measured at every length"),
        (["alibi", "rope"], "alibi", "the first scheme measured at every length"),
        (["learned", "learned(a=1)"], "learned", "the first scheme"),
    ],
)
def test_the_reference_is_measured_everywhere_if_one_is(tmp_path, schemes, reference, why):
    task = summary_of(tmp_path / "runs", schemes=schemes, tasks=["text"], lengths=(64, 128)).tasks[
        0
    ]
    assert {row.reference for row in task.differences} == {reference}
    table = difference_table(task)
    assert table.title.endswith(f"{reference} is {why}")
    assert [row[0].text for row in table.rows] == [s for s in schemes if s != reference]


# Reach and the bar


@pytest.mark.parametrize(
    ("scores", "ceiling", "reached"),
    [
        ({32: 1.0, 64: 0.95, 128: 0.5}, {}, 64),
        ({32: 0.5, 64: 1.0, 128: 1.0}, {}, 0),  # the shortest fails
        ({32: 1.0, 64: 0.62, 128: 0.55}, {64: 0.65, 128: 0.6}, 128),  # near a falling ceiling
        ({32: 1.0, 64: 0.55}, {64: 0.65}, 32),
        ({32: 1.0, 64: None}, {}, 32),  # past the limit
        ({32: 0.9}, {32: 1.0}, 32),  # at the bar is enough
    ],
)
def test_reach_of_a_fraction_is_held_to_the_ceiling(scores, ceiling, reached):
    rows = [replace(ROW, evaluation_length=n, value=value) for n, value in scores.items()]
    assert reach_of(rows, metric="exact_match", ceiling=ceiling) == reached


@pytest.mark.parametrize(
    ("losses", "reached"),
    [
        ({32: 9.0, 64: 2.0, 128: 2.04, 256: 2.06}, 128),  # below the trained length: not asked
        ({64: 2.0, 128: 1.5, 256: 2.04}, 256),  # held to the trained length, not to the best
        ({64: 2.0, 128: 2.2, 256: 2.0}, 64),  # a hole ends it
        ({64: 2.0, 128: None}, 64),
        ({32: 2.0, 128: 2.0}, None),  # nothing to start from
        ({64: None, 128: None}, None),
    ],
)
def test_reach_of_a_loss_is_held_to_the_trained_length(losses, reached):
    rows = [
        replace(ROW, metric="last_loss", evaluation_length=n, value=value)
        for n, value in losses.items()
    ]
    rows += [replace(row, metric="loss", value=0.0) for row in rows]  # the mean has no say
    assert reach_of(rows, metric="loss", ceiling={64: 0.0}) == reached


def test_flagged_runs_are_named_by_scheme_with_their_seeds():
    class Done(NamedTuple):
        scheme: str
        task: str
        seed: int
        in_distribution: float

    runs = [Done("nope", "recall", 0, 0.711), Done("alibi", "recall", 0, 0.949)]
    runs += [Done("nope", "recall", 2, 0.746)]
    assert flags(runs) == [
        "nope on recall, seeds 0, 2 (71.1% to 74.6%)",
        "alibi on recall, seed 0 (94.9%)",
    ]


def test_a_run_below_the_bar_is_flagged_and_kept(tmp_path):
    summary = summary_of(tmp_path / "runs", weak=("rope", 1))
    assert [(done.scheme, done.task, done.seed) for done in summary.flagged] == [
        ("rope", "recall", 1)
    ]
    task = task_of(summary, "recall")
    assert aggregate(task, "rope", "exact_match", 64).seeds == 3
    assert "3 (1 flagged)" in markdown(score_table(task, "exact_match"))


def test_the_bar_is_a_share_of_the_ceiling(tmp_path):
    run = Results.read(write_runs(tmp_path / "runs", schemes=["rope"], seeds=[0])).runs[0]
    run = replace(run, rows=(replace(ROW, value=0.78),))
    assert not finish(run, metric="exact_match", ceiling={64: 0.8}).flagged
    assert finish(run, metric="exact_match", ceiling={64: 0.9}).flagged


# Words and tables


def test_summary_says_what_was_found(markdown_text):
    for line in (
        "# quick",
        "How far past 64 tokens does each scheme reach?",
        "**text**: Keeping the loss of the same last 16 tokens within 0.05 nats of what it is at "
        "the trained length of 64, alibi reached 512 (8x), the longest length measured; rope "
        "reached 64 and failed by 128; learned reached 64 and had no positions further on. Change "
        "from the trained length, in nats per token with 95% intervals: alibi -0.246 [-0.249, "
        "-0.242] at 512; rope +1.104 [1.101, 1.108] at 512. At 512 tokens, alibi is 1.350 nats "
        "below rope (95% interval 1.350 to 1.350, paired by seed and document).",
        "18 of 18 runs complete.",
        "Flagged, and kept in every number: rope on recall, seed 1",
        "| scheme | seeds | 32 | 64 (trained) | 128 | 256 | 512 | reach |",
        "| learned | 3 | **99.2 ± 0.8** | **99.2 ± 0.8** | past limit | past limit | past limit |",
        "| ceiling |  | 100.0 | 100.0 | 97.0 | 94.0 | 91.0 |  |",
        "| chance |  | 6.2 | 6.2 | 6.2 | 6.2 | 6.2 |  |",
        "![Change against the trained length: text](figures/text-change.svg)",
        "| scheme | seeds | 32 | 128 | 256 | 512 | reach |",
        "| past limit | past limit | past limit | 64 |",
        "![Loss of the same last tokens: text](figures/text-last-loss.svg)",
        "![Loss by position: text](figures/text-loss-by-position.svg)",
        "Read with care: the mean over all positions of a window falls with length even for a "
        "model that ignores long context",
        "- command: longreach run quick --out runs/quick",
        "With 3 seeds these intervals are too narrow",
    ):
        assert line in markdown_text
    assert "Loss by position (" not in markdown_text  # a table of some 30 ranges helps nobody


def test_the_order_of_a_text_task(page, markdown_text):
    titles = ["Change against the trained length", "Loss of the same last tokens"]
    titles += ["Loss by position", "Mean loss over positions", "Bits per byte"]
    titles += ["Differences between schemes"]
    headings = re.findall("<h3>(.*?)</h3>", page)
    assert headings[headings.index(titles[0]) :][: len(titles)] == titles
    assert re.findall(r"!\[(.*?): text\]", markdown_text)[:4] == titles[:4]
    assert page.split("<script>")[0].count("<table") == 2 + 5 + 1  # of recall, of text, of the runs


def test_the_verdict_quotes_each_change_where_it_was_last_measured(tmp_path):
    task = summary_of(tmp_path / "runs", schemes=["learned", "rope", "alibi"]).tasks[1]
    wide = [
        replace(row, mean=0.0151, low=-0.003, high=0.028)
        for row in task.changes
        if (row.scheme, row.evaluation_length) in (("alibi", 512), ("rope", 256))
    ]
    sentence = verdict(replace(task, changes=tuple(wide)))[1]
    assert "alibi +0.015 [-0.003, 0.028] at 512; rope +0.015 [-0.003, 0.028] at 256." in sentence
    assert "learned" not in sentence


def test_the_brief_fits_a_terminal(folder):
    lines = brief.text(summarise(Results.read(folder))).splitlines()
    assert max(map(len, lines)) <= 88
    assert len(lines) <= 2 * 25
    said = " ".join(" ".join(lines).split())
    assert said.startswith("quick: How far past 64 tokens does each scheme reach?")
    for words in (
        "recall: Scoring at least 90% of the ceiling",
        "alibi -0.246 [-0.249, -0.242] at 512",
        "18 of 18 runs complete.",
        "Flagged, and kept in every number: rope on recall, seed 1",
    ):
        assert words in said
    start = lines.index("Change against the trained length (nats per token), mean over seeds")
    table = lines[start + 1 : start + 5]
    assert [line.split()[0] for line in table] == ["scheme", "rope", "alibi", "learned"]
    assert len({len(line) for line in table}) == 1
    assert table[2].split() == ["alibi", "3", "+0.088", "-0.084", "-0.167", "-0.246", "≥", "512"]
    assert "ceiling" in said


def test_past_limit_is_seen_in_every_table_and_figure(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["alibi", "learned"])
    for task in summary.tasks:
        for metric in set(task.metrics) - {"loss_by_position"}:  # which has no table
            learned = score_table(task, metric).rows[1]
            assert learned[0] == Entry("learned")
            assert learned.count(Entry("past limit")) == 3
    for figure in figures(summary):
        if figure.metric != "training_loss":
            assert '"learned ends"' in json.dumps(figure.spec)
            assert "learned ends at the cross" in figure.caption
            assert "where it ends" in figure.description
            assert figure.data.count("past_limit") == 3


def test_the_best_of_a_column_is_bold_in_the_metrics_own_direction(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["rope", "alibi"])
    for label, metric in (("recall", "exact_match"), ("text", "last_loss"), ("text", "loss")):
        rope, alibi = score_table(task_of(summary, label), metric).rows[:2]
        assert (rope[-2].best, alibi[-2].best) == (False, True)


def test_a_mean_over_one_seed_has_no_spread(tmp_path):
    task = task_of(summary_of(tmp_path / "runs", schemes=["alibi"], seeds=[4]), "text")
    (row,) = score_table(task, "last_loss").rows
    assert "±" not in row[2].text
    assert aggregate(task, "alibi", "last_loss", 64).sd is None
    assert difference_table(task) is None
    assert "below" not in " ".join(verdict(task))


def test_markup_in_a_label_stays_text(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["a|b<i>", "alibi"], tasks=["text"])
    text = markdown(score_table(summary.tasks[0], "loss"))
    assert "| a\\|b&lt;i> | 3 |" in text
    rows = text.splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_a_difference_that_may_be_none_is_called_so(tmp_path):
    task = task_of(summary_of(tmp_path / "runs", schemes=["rope", "foo"]), "text")
    level = [replace(row, low=-0.1, high=0.1, mean=0.01) for row in task.differences]
    text = " ".join(verdict(replace(task, differences=tuple(level))))
    assert "foo cannot be told from rope: the difference is +0.010 nats" in text


# Many lengths, trained at a range


DENSE = {
    "tasks": ["copy"],
    "schemes": ["rope", "t5_bias", "learned"],
    "lengths": tuple(range(1, 49)),
    "trained_length": 16,
    "shortest": 1,
}


@pytest.fixture(scope="module")
def strings(tmp_path_factory) -> Summary:
    return summary_of(tmp_path_factory.mktemp("strings") / "runs", **DENSE)


def test_of_many_lengths_a_table_shows_the_mean_trained_at_and_some_past_it(strings):
    (task,) = strings.tasks
    table = score_table(task, "exact_match")
    lengths = ("16", "17", "18", "20", "24", "32", "48")
    assert table.columns == ("scheme", "seeds", "mean 1 to 16", *lengths, "reach")
    assert table.title.endswith("; 7 of 48 lengths, all are in the numbers of the figure")
    values = [
        row.value
        for row in strings.results.rows
        if (row.scheme, row.metric) == ("rope", "exact_match") and row.evaluation_length <= 16
    ]
    per_seed = 100 * np.reshape(values, (3, 16)).mean(axis=1)
    assert table.rows[0][2].text == f"{per_seed.mean():.1f} ± {per_seed.std(ddof=1):.1f}"
    assert table.rows[3][0].text == "ceiling"
    assert difference_table(task).columns[1:] == lengths
    assert [len(row) for row in table.rows] == [len(table.columns)] * 5


def test_only_what_has_a_ceiling_shows_one(strings):
    (task,) = strings.tasks
    for metric in ("exact_match_without_end", "end_too_early", "token_accuracy"):
        assert [row[0].text for row in score_table(task, metric).rows] == list(task.curves)
    drawn = {figure.metric: json.dumps(figure.spec) for figure in figures(strings)}
    assert '"text": "ceiling"' in drawn["exact_match"]
    assert '"text": "ceiling"' not in drawn["token_accuracy"]


def test_past_the_limit_every_metric_of_the_task_says_so(strings):
    (task,) = strings.tasks
    for metric in ("exact_match", "exact_match_without_end", "end_too_late", "token_accuracy"):
        learned = score_table(task, metric).rows[2]
        assert learned[0] == Entry("learned")
        assert learned.count(Entry("past limit")) == 6


def test_a_dense_axis_is_linear_with_the_trained_length_among_its_ticks(strings):
    for figure in figures(strings):
        if figure.metric in ("exact_match", "token_accuracy", "endings"):
            axes = [
                layer["encoding"]["x"]
                for layer in figure.spec["layer"]
                if "axis" in layer["encoding"].get("x", {})
            ]
            assert axes
            assert all(x["axis"]["values"] == [8, 16, 24, 32, 40, 48] for x in axes)
            assert all("type" not in x["scale"] for x in axes)
            assert "powers of two" not in figure.caption
            assert axes[0]["axis"]["title"] == "evaluation length (symbols)"


def test_what_becomes_of_answers_adds_up(strings):
    (figure,) = (f for f in figures(strings) if f.metric == "endings")
    rows = [row for data in figure.spec["datasets"].values() for row in data if "fate" in row]
    rope = [row for row in rows if row["curve"] == "rope" and row["x"] == 20]
    assert [row["fate"] for row in rope] == [
        "right", "goes on too long", "ends too early", "a wrong symbol first",
    ]  # fmt: skip
    heights = np.array([row["high"] - row["low"] for row in rope])
    task = strings.tasks[0]
    parts = [
        aggregate(task, "rope", metric, 20).mean
        for metric in ("exact_match", "end_too_late", "end_too_early")
    ]
    np.testing.assert_allclose(heights / heights.sum(), [*parts, 1 - sum(parts)], atol=1e-4)
    assert max(row["x"] for row in rows if row["curve"] == "learned") == 16
    assert "learned has no such positions at 48" in figure.description
    assert figure.data.startswith("metric,scheme,repair,evaluation_length")


def test_a_run_trained_at_a_range_is_judged_by_its_mean_over_it(tmp_path):
    """rope fails at 16 itself, and has learned the rest; at a single length it would be flagged."""
    folder = write_runs(
        tmp_path / "runs", **(DENSE | {"schemes": ["rope"]}), seeds=[0, 1, 2], cliff={"rope": 0.2}
    )
    results = Results.read(folder)
    for done in summarise(results).finished:
        values = {
            row.evaluation_length: row.value
            for row in done.run.rows
            if row.metric == "exact_match" and row.evaluation_length <= 16
        }
        assert done.in_distribution == pytest.approx(np.mean(list(values.values())))
        assert done.at_trained_length == values[16] < 0.9
        assert done.flagged == (done.in_distribution < 0.95)
    said = " ".join(methods(summarise(results)))
    assert "on average over the lengths trained at, 1 to 16" in said


def test_schemes_are_compared_where_one_still_scores(strings):
    (task,) = strings.tasks
    half = max(row.evaluation_length for row in task.of("exact_match") if (row.mean or 0) >= 0.5)
    assert 16 < half < 48
    assert (
        f"At {half} symbols, the longest length at which a scheme still scores half of the "
        "ceiling, t5_bias is " in " ".join(verdict(task))
    )


# Figures


def test_names_at_line_ends_keep_apart():
    placed = spread([10.0, 11.0, 12.0, 300.0, 319.0, 320.0], gap=16, end=320)
    assert sorted(placed) == placed
    assert min(np.diff(placed)) >= 16
    assert max(placed) <= 320


def test_the_change_is_drawn_with_its_tolerance(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["alibi", "learned"], tasks=["text"])
    figure = figures(summary)[0]
    assert figure.metric == "change"
    rules = [
        figure.spec["datasets"][layer["data"]["name"]][0]["value"]
        for layer in figure.spec["layer"]
        if layer["mark"]["type"] == "rule" and "y" in layer["encoding"]
    ]
    assert rules == [0.0, 0.05]  # although no curve comes near it
    ((low, high),) = {
        tuple(layer["encoding"]["y"]["scale"]["domain"])
        for layer in figure.spec["layer"]
        if "scale" in layer["encoding"].get("y", {})
    }
    assert low < 0 < 0.05 < high
    words = json.dumps(figure.spec)
    assert '"tolerance"' in words
    assert '"change of loss of the same last 16 tokens", "(nats per token)"' in words
    assert "+0.05 nats" in figure.caption
    assert figure.data.startswith("scheme,repair,evaluation_length")


def test_a_word_has_room_below_the_cross():
    lines = [
        {"curve": curve, "x": x, "mean": mean, "low": mean, "high": mean}
        for curve, x, mean in (("a", 64, 0.0), ("b", 64, 0.0), ("b", 128, 0.8))
    ]
    picture = Picture(curves="ab", lines=lines, x="", y="", ends={"a": 64}, rules={"zero": 0.0})
    (word,) = end_words(picture, [dict(picture.last("a"))])
    assert word["mean"] < 0


def test_ticks_of_positions_are_powers_of_two(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["alibi"], tasks=["text"], lengths=(64, 400))
    (figure,) = (f for f in figures(summary) if f.metric == "loss_by_position")
    ticks = [
        layer["encoding"]["x"]["axis"]["values"]
        for layer in figure.spec["layer"]
        if "axis" in layer["encoding"].get("x", {})
    ]
    assert all(values == [1, 4, 16, 64, 256] for values in ticks)


def test_a_scheme_that_blows_up_leaves_the_picture_and_the_caption_says_so(tmp_path):
    summary = summary_of(
        tmp_path / "runs", schemes=["nope", "rope", "alibi"], tasks=["text"], blow_up="nope"
    )
    (figure,) = (f for f in figures(summary) if f.metric == "last_loss")
    assert "nope rises past it, to 121.9" in figure.caption
    tops = [
        layer["encoding"]["y"]["scale"]["domain"][1]
        for layer in figure.spec["layer"]
        if "scale" in layer["encoding"].get("y", {})
    ]
    assert tops
    assert max(tops) < 4
    assert '"nope \\u2191"' in json.dumps(figure.spec)


@pytest.mark.parametrize(
    ("highest", "cut"),
    [([2.2, 2.3, 90.0], {"c"}), ([2.2, 2.3, 3.0], set()), ([2.2, 90.0], set()), ([90.0], set())],
)
def test_only_an_outlier_among_several_is_cut(highest, cut):
    curves = "abc"[: len(highest)]
    lines = [
        {"curve": curve, "x": x, "mean": mean, "low": None, "high": None}
        for curve, high in zip(curves, highest, strict=True)
        for x, mean in ((64, 2.0), (128, high))
    ]
    assert set(Picture(curves=curves, lines=lines, x="x", y="y").cut) == cut


def test_curves_keep_their_look_from_figure_to_figure(tmp_path):
    summary = summary_of(tmp_path / "runs")
    domains = {
        tuple(layer["encoding"]["color"]["scale"]["domain"])
        for figure in figures(summary)
        for layer in figure.spec["layer"]
        if "color" in layer["encoding"]
    }
    assert domains == {("rope", "alibi", "learned")}


def test_files_of_figures(folder):
    names = {path.name for path in (folder / "figures").iterdir()}
    stems = {
        "recall-exact-match",
        "text-change",
        "text-loss",
        "text-loss-by-position",
        "text-last-loss",
    }
    stems |= {"recall-training-loss", "text-training-loss"}
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")}
    for stem in stems:
        assert (folder / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "Line chart of" in (folder / "figures" / f"{stem}.svg").read_text()


# study.json


def test_study_json_holds_every_number(folder):
    content = json.loads(
        (folder / "study.json").read_text(), parse_constant=lambda name: pytest.fail(name)
    )
    assert content["format"] == 1
    assert content["study"]["name"] == "quick"
    assert len(content["runs"]) == 18
    assert {"digest", "scheme", "task", "seed", "parameters", "seconds", "flagged", "reach"} <= set(
        content["runs"][0]
    )
    past = [row for row in content["aggregates"] if row["status"] == "past_limit"]
    assert len(past) == 3 * 5
    assert all(row["mean"] is None and row["scheme"] == "learned" for row in past)
    assert {row["metric"] for row in content["changes"]} == {"change"}
    assert [row["status"] for row in content["changes"]].count("past_limit") == 3
    assert len(content["changes"]) == 3 * 5
    assert "change" not in {row["metric"] for row in content["aggregates"]}
    measured = [
        row for row in content["aggregates"] + content["changes"] if row["status"] == "measured"
    ]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in measured)


# Runs that are not all there


def test_missing_runs_are_counted_and_strangers_named(tmp_path):
    folder = write_runs(tmp_path / "runs", tasks=["text"], unfinished=4)
    stranger = folder / "stranger"
    stranger.mkdir()
    (stranger / "training.json").write_text("{}")
    report.write(folder)
    for name in ("summary.md", "report.html"):
        text = (folder / name).read_text(encoding="utf-8")
        assert "5 of 9 runs complete" in text
        assert "Left alone, as they belong to no run of this plan: stranger." in text
    assert list(stranger.iterdir()) == [stranger / "training.json"]


def test_no_finished_run_is_an_error_that_says_so(tmp_path):
    folder = write_runs(tmp_path / "runs", unfinished=18)
    with pytest.raises(InputError, match=r"no finished run in .*runs yet"):
        report.write(folder)
    assert [path.name for path in folder.iterdir()] == ["plan.json"]


def test_a_scheme_with_nothing_within_its_limit(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["alibi", "learned"], lengths=(128, 256))
    text = " ".join(verdict(task_of(summary, "recall")))
    assert "learned had no positions at any of these lengths" in text
    (figure,) = (f for f in figures(summary) if f.metric == "exact_match")
    assert "learned has no line" in figure.caption


def test_runs_measured_on_other_sequences_are_refused(tmp_path, monkeypatch):
    results = Results.read(write_runs(tmp_path / "runs", schemes=["alibi"], tasks=["recall"]))
    whole = type(results.runs[0]).items.fget
    monkeypatch.setattr(
        type(results.runs[0]),
        "items",
        property(lambda run: {k: v[: 100 + run.rows[0].seed] for k, v in whole(run).items()}),
    )
    with pytest.raises(InputError, match="101 and 100 sequences"):
        summarise(results)


def test_a_report_made_twice_is_the_same(folder, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(folder, again, ignore=shutil.ignore_patterns("figures", "report.html"))
    (again / "summary.md").unlink()
    report.write(again)
    for name in ("report.html", "summary.md", "study.json"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()
    assert not [path for path in again.rglob(".*")]  # nothing left aside


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page"
    report.put(path, b"old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        report.put(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_no_torch_and_a_light_import(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    code = (
        "import sys; from pathlib import Path; import longreach.report as report\n"
        "assert not {'altair', 'vl_convert', 'scipy', 'jinja2'} & set(sys.modules)\n"
        f"report.write(Path({str(tmp_path / 'copy')!r}))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The page


class Outline(HTMLParser):
    """Headings, links and open elements of a page."""

    void = {"meta", "br", "img", "link", "input", "hr"}

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.void:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            if name in ("src", "href", "data", "action", "srcset", "poster"):
                self.links.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def test_the_page_is_whole_and_asks_for_nothing(page):
    found = outline(page)
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert max(np.diff(found.headings)) <= 1
    assert all(link.startswith(("data:text/csv", "data:,", "#")) for link in found.links)
    assert len([link for link in found.links if link.startswith("data:text/csv")]) == 7
    anchors = {link[1:] for link in found.links if link.startswith("#")}
    assert anchors <= set(re.findall(r'\bid="([^"]+)"', page.split("<script>")[0]))
    addresses = set(re.findall(r"https?://[^\s\"'`)<\\]+", page))
    assert {address.split("/")[2] for address in addresses} <= {
        "www.w3.org",  # names of XML
        "vega.github.io",  # schema names and the editor, which the menu does not offer
        "github.com",  # an issue, in a warning
    }
    assert {target[0] for target in re.findall(r"url\((.)", page.split("<script>")[0])} == {"#"}
    ids = re.findall(r'\bid="([^"]+)"', page.split("<script>")[0])
    assert len(ids) == len(set(ids))
    assert "default-src 'none'" in page
    assert len(page.encode()) < 2_500_000


def test_markup_in_names_is_shown_and_not_run(tmp_path):
    folder = write_runs(
        tmp_path / "runs",
        tasks=["text"],
        seeds=[0],
        schemes=["<script>alert(3)</script>", "alibi"],
        name="<script>alert(1)</script>",
        question="</title><img src=x onerror=alert(2)> & more?",
    )
    page = report.write(folder).page.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert outline(page).tags.count("script") == 2


@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(folder, width, scheme):
    with opened(folder / "report.html", width=width, scheme=scheme) as visit:
        tab = visit.tab
        tab.wait_for_function("document.querySelectorAll('svg.marks').length === 7")
        sizes = tab.evaluate(
            "[...document.querySelectorAll('svg.marks')].map(s => s.getBoundingClientRect())"
            ".map(r => [r.left, r.right, r.height])"
        )
        overflow = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        labels = tab.evaluate(
            "[...document.querySelectorAll('.chart[aria-roledescription=visualization]')]"
            ".map(e => e.getAttribute('aria-label'))"
        )
        faults = visit.faults(opened_first="details")
    assert visit.said == []
    assert visit.asked_outside == []
    assert faults == []
    assert len(sizes) == 7
    for left, right, height in sizes:
        assert 0 <= left < right <= width
        assert right - left > 0.7 * min(width, 1024)
        assert height > 300
    assert overflow <= 0
    assert len(labels) == 7
    assert all(label.startswith("Line chart of") for label in labels)


@pytest.mark.browser
@pytest.mark.parametrize(
    "page",
    sorted((Path(__file__).parents[1] / "results").glob("*/report.html")),
    ids=lambda page: page.parent.name,
)
def test_a_recorded_page_fits_a_phone_whatever_its_names(page):
    with opened(page, width=390) as visit:
        visit.tab.wait_for_selector("svg.marks")
        assert visit.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert visit.said == []


@pytest.mark.browser
def test_figures_are_downloaded_and_their_numbers_listed_by_keyboard_alone(folder):
    """What is saved is what lies beside the page; what a pointer is told stands in a table too."""
    with opened(folder / "report.html", width=390) as visit:
        tab = visit.tab
        tab.wait_for_function("document.querySelectorAll('svg.marks').length === 7")
        figure = tab.locator("figure#text-change")
        saved = {}
        for name in ("SVG", "PNG", "CSV"):
            figure.locator(".downloads > *", has_text=name).focus()
            with tab.expect_download() as download:
                tab.keyboard.press("Enter")
            saved[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
        figure.locator(".numbers summary").focus()
        tab.keyboard.press("Enter")
        figure.locator(".numbers table").wait_for()
        cells = figure.locator(".numbers tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.className") == "scroll"  # else no one scrolls
    assert set(saved) == {"text-change.svg", "text-change.png", "text-change.csv"}
    svg = (folder / "figures" / "text-change.svg").read_text(encoding="utf-8")
    assert saved["text-change.svg"].decode() == svg.strip()
    width, height = struct.unpack(">II", saved["text-change.png"][16:24])
    drawn = re.search(r'<svg [^>]*width="([\d.]+)" height="([\d.]+)"', svg)
    assert (width, height) == pytest.approx((2 * float(drawn[1]), 2 * float(drawn[2])), abs=3)
    rows = list(csv.reader(saved["text-change.csv"].decode().splitlines()))
    assert [cell.replace(" ", "_") for cell in cells[0]] == rows[0]
    assert cells[1:] == rows[1:]
    assert len(rows) == 1 + 3 * 5


@pytest.mark.browser
def test_without_scripts_the_drawings_and_numbers_are_there(folder):
    with opened(folder / "report.html", width=1440, scripts=False) as visit:
        assert visit.tab.locator("noscript svg").count() == 7
        assert visit.tab.locator("noscript svg").first.is_visible()
        assert visit.tab.get_by_text("SVG", exact=True).first.is_hidden()
        assert visit.tab.get_by_text("CSV", exact=True).first.is_visible()


# What comes out of names and numbers


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum(a)", "\tx", "\rx", " =1", "\uff1da"])
def test_no_cell_of_a_csv_becomes_a_formula(name):
    (_, (text, number)) = cells_of(as_csv(["scheme", "mean"], [[name, -0.25]]))
    assert text == f"'{name}"
    assert float(number) == -0.25  # as a number that a program reads
    (_, (hidden, _)) = cells_of(as_csv(["scheme", "mean"], [[f'a";{name}', 1]]))
    assert hidden == f'a";{name}'  # quoted, so no other separator begins a cell within it
    assert as_csv(["a"], [[f"b;{name}"]]).splitlines()[1].startswith('"b;')


def test_names_of_a_study_reach_no_spreadsheet_as_formulas(tmp_path):
    """Markup, quotes and formulas in the names of scheme and study; negative numbers stay."""
    scheme = '=HYPERLINK("http://x","<b>a</b>")'
    folder = write_runs(
        tmp_path / "runs",
        tasks=["text"],
        seeds=[0],
        schemes=[scheme, "alibi"],
        name="=cmd|' /C calc'!A0",
        question="@sum(1)",
    )
    numbers = 0
    for figure in figures(summarise(Results.read(folder))):
        for row in cells_of(figure.data)[1:]:
            for cell in row:
                try:
                    numbers += float(cell) < 0
                except ValueError:
                    assert not cell.lstrip().startswith(tuple("=+-@"))
            assert row[0] in (f"'{scheme}", "alibi")
    assert numbers > 3  # alibi's change is below 0
    page = report.write(folder).page.read_text(encoding="utf-8")
    assert "<b>a</b>" not in page
    assert "=HYPERLINK(&#34;http://x&#34;,&#34;&lt;b&gt;a&lt;/b&gt;&#34;)" in page


# Looks


def simulated(colour: str, sight: str) -> NDArray[np.float64]:
    """A colour as CIE L*a*b* after what a kind of colour blindness makes of it.

    Machado, Oliveira and Fernandes 2009, severity 1, in linear RGB.
    """
    matrix = {
        "all": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                   [-0.011820, 0.042940, 0.968881]],
        "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
    }[sight]  # fmt: skip
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = xyz @ np.clip(np.array(matrix) @ linear, 0, 1) / [0.9505, 1.0, 1.089]
    root = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


@pytest.mark.parametrize("sight", ["all", "protan", "deutan", "tritan"])
@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_colours_differ_to_every_colour_vision(colours, sight):
    seen = [simulated(colour, sight) for colour in colours]
    nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert nearest > JUST_APART


def test_a_dozen_curves_differ_without_colour():
    shapes, dashes = theme.looks(12)
    assert len(set(shapes)) == 12
    pairs = zip(*theme.looks(104), strict=True)
    assert len({(shape, tuple(dash)) for shape, dash in pairs}) == 104
    assert len({tuple(dash) for dash in dashes}) == 8


def test_what_becomes_of_answers_can_be_told_in_grey():
    lightness = [simulated(colour, "all")[0] for colour in endings.FATES.values()]
    assert min(np.diff(lightness)) > 10


# The verdict in a sentence


def test_the_headline_names_who_reached_furthest_with_an_interval(folder, page, markdown_text):
    said = (
        "text: alibi reached furthest of 3: 512 tokens, 8 times the 64 trained at, the longest "
        "length measured; at 512, its loss of the last 16 tokens against that at 64 is -0.246 "
        "nats (95% interval -0.249 to -0.242)."
    )
    assert said in markdown_text
    box = page[page.index('<div class="verdict">') :]
    assert said in box[: box.index("</div>")]
    task = summarise(Results.read(folder)).tasks[0]
    score = aggregate(task, "alibi", "exact_match", 512)
    assert headline(task).endswith(
        f"its exact match is {100 * score.mean:.1f}% "
        f"(95% interval {100 * score.low:.1f} to {100 * score.high:.1f})."
    )


def test_the_headline_does_not_call_a_failure_a_reach(tmp_path):
    summary = summary_of(tmp_path / "runs", schemes=["rope", "learned"], tasks=["text"])
    assert headline(summary.tasks[0]).startswith(
        "None of 2 reached past the 64 tokens trained at; at 512, rope's loss of the last 16 "
        "tokens against that at 64 is +1.1"
    )


def test_one_page_says_what_it_was_made_by(page):
    box = page[page.index('class="facts"') :].split("</p>")[0]
    assert "seeds 0, 1, 2" in box
    assert "123,456 parameters" in box
    assert "longreach 0.1.0" in box
    assert "<dt>seeds</dt><dd>0, 1, 2</dd>" in page


def test_it_says_which_evaluated_sequences_training_had_met(tmp_path):
    options = dict(schemes=("rope",), tasks=("copy",), seeds=(0, 1), lengths=(63, 64, 65))
    folder = write_runs(tmp_path / "runs", **options)
    assert seen_in_training(summarise(Results.read(folder)).tasks[0]) == ""  # not counted then
    for share, path in zip((1.0, 0.5), sorted(folder.glob("*/training.json")), strict=True):
        about = json.loads(path.read_text())
        about["summary"]["seen"] = {"1": 1.0, "2": 1.0, "3": share, "4": 0.0, "5": 0.0}
        path.write_text(json.dumps(about))
    report.write(folder)
    said = (
        "Of the evaluated sequences, training had met: all at 1 to 2, 75.0% at 3, none at 4 to 5; "
        "where it had, a score says nothing of new ones."
    )
    assert seen_in_training(summarise(Results.read(folder)).tasks[0]) == said
    for name in (report.PAGE, report.SUMMARY):
        assert said in (folder / name).read_text(encoding="utf-8")
