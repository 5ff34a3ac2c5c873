"""Ranks across tasks: against counting by hand, and what a report shows of them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longreach import report
from longreach.report import brief
from longreach.report.figures import figures
from longreach.report.ranking import past_trained, ranked_tasks, ranking, scores, sentence
from longreach.report.summarise import Summary, summarise
from longreach.report.verdict import overall
from longreach.results import Results

from .report_fixture import write_runs

SCHEMES = ("rope", "alibi", "nope", "learned")
TASKS = ("copy", "reverse", "recall")
OPTIONS = dict(
    schemes=SCHEMES, tasks=TASKS, seeds=(0, 1), trained_length=64, lengths=(32, 64, 66, 68, 200)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_runs(tmp_path_factory.mktemp("ranking") / "runs", **OPTIONS)


@pytest.fixture(scope="module")
def summary(folder) -> Summary:
    return summarise(Results.read(folder))


def by_hand(folder: Path) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Per task and scheme, mean over seeds of 1 / rank: ties shared, lost, won; from the files."""
    values: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in folder.glob("*/rows.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["metric"] == "exact_match" and row["evaluation_length"] > 64:
                values[row["task"], row["seed"]][row["scheme"]].append(row["value"] or 0.0)
    found: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for (task, _), schemes in values.items():
        means = {scheme: np.mean(mine) for scheme, mine in schemes.items()}
        for scheme, mine in means.items():
            above = sum(other > mine for other in means.values())
            alike = sum(other == mine for other in means.values())
            ranks = (1 + above + (alike - 1) / 2, above + alike, 1 + above)
            found[task][scheme].append([1 / rank for rank in ranks])
    return {
        task: {scheme: tuple(np.mean(each, axis=0)) for scheme, each in schemes.items()}
        for task, schemes in found.items()
    }


def test_ranks_are_those_counted_by_hand(folder, summary):
    wanted = by_hand(folder)
    tasks = ranked_tasks(summary)
    assert [task.label for task in tasks] == list(TASKS)
    found = ranking(tasks, SCHEMES)
    assert [each.mean for each in found] == sorted((each.mean for each in found), reverse=True)
    for each in found:
        mean = np.mean([wanted[task][each.curve] for task in TASKS], axis=0)
        assert (each.mean, each.slighted, each.favoured) == pytest.approx(tuple(mean))
        per_task = [wanted[task][each.curve][0] for task in TASKS]
        assert min(per_task) <= each.low <= each.mean <= each.high <= max(per_task)
        assert each.queries == 6
    assert {each.curve for each in found} == set(SCHEMES)


def test_schemes_that_score_alike_share_their_ranks(summary):
    """Where all fail, all are third and a half of six: none is first by its place in a list."""
    task = ranked_tasks(summary)[0]
    rows = {
        done.scheme: tuple(replace(row, value=0.0) for row in done.run.rows)
        for done in task.finished
        if done.seed == 0
    }
    failed = replace(
        task,
        finished=tuple(
            replace(done, run=replace(done.run, rows=rows[done.scheme]))
            for done in task.finished
            if done.seed == 0
        ),
    )
    for order in (SCHEMES, SCHEMES[::-1]):
        for each in ranking([failed], order):
            assert (each.mean, each.slighted, each.favoured) == (1 / 2.5, 1 / 4, 1.0)


def test_a_scheme_without_positions_has_no_right_answer(summary):
    for task in ranked_tasks(summary):
        assert set(scores(task)["learned"].values()) == {0.0}


def test_only_pairs_that_every_scheme_has_are_ranked(tmp_path):
    folder = write_runs(tmp_path / "runs", **OPTIONS, unfinished=1)  # the last: recall, learned, 1
    summary = summarise(Results.read(folder))
    found = ranking(ranked_tasks(summary), SCHEMES)
    assert {each.queries for each in found} == {5}
    assert {each.queries for each in ranking(ranked_tasks(summary), SCHEMES[:3])} == {6}


def test_scores_past_the_trained_length_are_means_of_rows(folder, summary):
    means = defaultdict(list)
    for path in folder.glob("*/rows.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["metric"] == "exact_match" and row["evaluation_length"] > 64:
                means[row["task"], row["scheme"]].append(row["value"] or 0.0)
    found = past_trained(ranked_tasks(summary))
    assert len(found) == len(TASKS) * len(SCHEMES)
    for each in found:
        assert each.mean == pytest.approx(np.mean(means[each.task, each.curve]))
        assert each.least <= each.mean <= each.most
        assert each.chance == pytest.approx(1 / 16)


@pytest.mark.parametrize(
    "options",
    [
        {"tasks": ("copy", "reverse")},
        {"tasks": ("copy", "reverse", "text")},
        {"schemes": ("rope",)},
        {"lengths": (32, 64)},
    ],
    ids=["two tasks", "a task scored by loss", "one scheme", "nothing past the trained length"],
)
def test_nothing_is_ranked_where_there_is_nothing_to_rank(tmp_path, options):
    folder = write_runs(tmp_path / "runs", **OPTIONS | options)
    summary = summarise(Results.read(folder))
    assert ranked_tasks(summary) == []
    assert overall(summary) == ""
    assert not any(figure.task == "across tasks" for figure in figures(summary))


def test_the_sentence_says_whether_the_first_is_settled(summary):
    first, second, *_ = ranking(ranked_tasks(summary), SCHEMES)
    settled = sentence([replace(first, mean=0.9, low=0.8, high=0.95), replace(second, mean=0.5)], 3)
    assert "not settled" not in settled
    assert "0.80 to 0.95" in settled
    open_ = sentence([replace(first, mean=0.9, low=0.4, high=0.95), replace(second, mean=0.5)], 3)
    assert "which of them is first is not settled" in open_


def test_a_report_shows_ranks_with_the_scores_behind_them(folder, summary):
    report.write(folder)
    page = (folder / report.PAGE).read_text(encoding="utf-8")
    said = (folder / report.SUMMARY).read_text(encoding="utf-8")
    numbers = json.loads((folder / report.NUMBERS).read_text())
    for text in (page, said, brief.text(summary)):
        assert "Mean reciprocal rank past the trained length, over 3 tasks" in text
        assert "Exact match past the trained length (%), mean over lengths and seeds" in text
    assert overall(summary) in page
    assert overall(summary) in said
    for name in ("across-tasks-reciprocal-rank", "across-tasks-past-trained-length"):
        assert (folder / "figures" / f"{name}.svg").is_file()
        assert f'id="chart-{name}"' in page
        assert f"figures/{name}.svg" in said
    assert [each["curve"] for each in numbers["ranking"]] == [
        each.curve for each in ranking(ranked_tasks(summary), SCHEMES)
    ]
    assert len(numbers["past_trained_length"]) == len(TASKS) * len(SCHEMES)
