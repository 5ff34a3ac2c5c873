"""The recorded results are complete, and the tables of docs/results.md are made from them."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from longreach import report
from longreach.report.compare import folders, repairs_in
from longreach.results import Results
from longreach.study import Study

from .report_fixture import write_runs

ROOT = Path(__file__).parents[1]
RECORDED = ["recall", "length-curve", "copy-reverse", "extension"]
RECORDED_IN_PART = {"ten-tasks": ["copy", "reverse", "addition", "sort", "parity", "summation"]}

OF_A_REAL_MODEL = {
    "smollm2-stdlib": "measure",
    "smollm2-sotu": "measure",
    "smollm2-needles": "needles",
}
TRAINED_BRIEFLY = {
    "smollm2-untrained": "gguf:SmolLM2-135M",
    "smollm2-trained-none": "adapted/none",
    "smollm2-trained-yarn": "adapted/yarn",
}


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "results" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", RECORDED)
def test_every_run_of_the_built_in_study_is_recorded(name):
    results = Results.read(ROOT / "results" / name)
    study = Study.load(name)
    assert results.missing == results.strangers == ()
    assert len(results.runs) == study.runs
    assert Study.model_validate_json(json.dumps(results.plan["study"])) == study
    for run in results.runs:
        provenance = run.training["provenance"]
        assert provenance["command"] == f"longreach run {name}"
        assert {"longreach", "python", "torch", "numpy", "platform", "date"} <= set(provenance)
        assert run.items


@pytest.mark.parametrize("name", RECORDED_IN_PART)
def test_every_run_of_the_tasks_that_are_recorded_is_there(name):
    results = Results.read(ROOT / "results" / name)
    study = Study.load(name)
    assert results.strangers == ()
    assert Study.model_validate_json(json.dumps(results.plan["study"])) == study
    counted = Counter(run.training["training"]["task"]["name"] for run in results.runs)
    each = len(study.schemes) * len(study.seeds)
    assert {task: counted[task] for task in RECORDED_IN_PART[name]} == dict.fromkeys(
        RECORDED_IN_PART[name], each
    )
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert (sum(counted.values()) == study.runs) or ("of the ten tasks are recorded" in page)


@pytest.mark.parametrize(("name", "verb"), OF_A_REAL_MODEL.items())
def test_what_is_recorded_of_a_real_model_is_whole_and_says_what_made_it(name, verb):
    results = Results.read(ROOT / "results" / name)
    assert results.missing == results.strangers == ()
    for run in results.runs:
        provenance = run.training["provenance"]
        assert provenance["command"].startswith(f"longreach {verb} gguf:SmolLM2-135M")
        assert {"longreach", "python", "torch", "numpy", "platform", "date"} <= set(provenance)
        assert max(row.evaluation_length for row in run.rows) == 12_288
        assert run.items


@pytest.mark.parametrize("repair", ["none", "yarn"])
def test_trainings_under_a_repair_and_without_one_read_the_same_tokens(repair):
    found = {
        name: json.loads((ROOT / "results" / "smollm2-adapt" / f"{name}.json").read_text())
        for name in ("none", repair)
    }
    own, other = found[repair], found["none"]
    asked = f"longreach adapt gguf:SmolLM2-135M-Instruct.Q4_1.gguf --repair {repair} "
    assert own["provenance"]["command"].startswith(asked)
    assert {"longreach", "torch", "transformers", "date"} <= set(own["provenance"])
    assert len(own["losses"]) == own["steps"] == other["steps"]
    same = {**own["request"], "repair": None, "options": None}
    assert same == {**other["request"], "repair": None, "options": None}
    assert own["tokens"] == other["tokens"]


@pytest.mark.parametrize(("name", "model"), TRAINED_BRIEFLY.items())
def test_before_and_after_a_brief_training_the_same_windows_are_measured(name, model):
    results, other = (Results.read(ROOT / "results" / n) for n in (name, "smollm2-untrained"))
    assert results.missing == results.strangers == ()
    read = {run.training["training"]["task"]: run for run in other.runs}
    assert set(read) == {"text (held-out:stdlib)", "text (text:sotu)"}
    assert len(results.runs) == len(read)
    for run in results.runs:
        before = read[run.training["training"]["task"]]
        assert run.training["provenance"]["command"].startswith(f"longreach measure {model}")
        assert run.evaluation["documents"] == before.evaluation["documents"]
        lengths = {row.evaluation_length for row in run.rows}
        assert max(lengths) == 16_384
        assert lengths == {row.evaluation_length for row in before.rows}
    assert results.plan["study"]["trained_length"] == 8_192


@pytest.mark.parametrize("name", [*RECORDED, *RECORDED_IN_PART, *OF_A_REAL_MODEL, *TRAINED_BRIEFLY])
def test_a_recorded_report_is_there_to_be_read(name):
    folder = ROOT / "results" / name
    for file in ("report.html", "summary.md", "study.json"):
        assert (folder / file).is_file()
    assert list((folder / "figures").glob("*.svg"))


def test_the_tables_of_the_page_are_those_of_the_results(tables):
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.filled(page) == page, "run: python results/tables.py"
    assert page.count("<!-- end -->") == len(tables.TABLES)


@pytest.fixture(scope="module")
def part_of_copy_reverse(tmp_path_factory):
    """A repository's root with part of the study: four schemes of six, some seeds missing."""
    root = tmp_path_factory.mktemp("root")
    report.write(
        write_runs(
            root / "results" / "copy-reverse",
            schemes=["rope", "nope", "alibi", "learned"],
            tasks=["copy"],
            seeds=range(3),
            lengths=tuple(range(1, 25)),
            trained_length=16,
            shortest=1,
            unfinished=2,
        )
    )
    return root


def test_the_replication_is_set_beside_the_published_one(tables, part_of_copy_reverse, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", part_of_copy_reverse)
    head, _, *lines = tables.strings("copy").splitlines()
    assert head.startswith("| scheme | seeds | n = 1 to 16 | n = 16 | n = 17 | n = 18 | n = 20 |")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [(row[0], row[1]) for row in cells] == [
        ("rope", "theirs, 3"), ("", "ours, 3"), ("nope", "theirs, 3"), ("", "ours, 3"),
        ("alibi", "theirs, 3"), ("", "ours, 3"), ("learned", "ours, 1"),
    ]  # fmt: skip
    assert cells[0][4] == "25.0 ± 28.2"  # 23.0, the deviation of a population, times sqrt(3 / 2)
    results = Results.read(part_of_copy_reverse / "results" / "copy-reverse")
    values = [
        100 * row.value
        for row in results.rows
        if (row.scheme, row.metric, row.evaluation_length) == ("nope", "exact_match", 18)
    ]
    said = f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f} ["
    assert cells[3][5].removeprefix("**").startswith(said)
    assert cells[6][3:7].count("past limit") == 3
    assert tables.strings("reverse").count("\n") == 1  # no run of it yet


@pytest.mark.parametrize("apart", [0.5, 1.9, 2.1, 6.0])
def test_means_agree_as_welch_says(tables, apart):
    """Oracle: scipy's test on three and on five values with these means and deviations."""
    theirs = np.array([-1.0, 0.0, 1.0]) * 2 + 50
    ours = np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) * 1.5 + 50 + apart
    p = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    found = tables.agree(
        ours.mean(), ours.std(ddof=1), len(ours), theirs.mean(), theirs.std(ddof=0)
    )
    assert found == (p >= 0.05)


def test_means_without_deviation_agree_up_to_rounding(tables):
    assert tables.agree(100.0, 0.0, 5, 100.0, 0.0)
    assert tables.agree(99.96, 0.0, 5, 100.0, 0.0)
    assert not tables.agree(99.9, 0.0, 5, 100.0, 0.0)


def test_without_the_recorded_runs_the_page_says_so(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.strings("copy") == tables.NOT_RECORDED


# Compared in words


def test_repairs_of_a_real_model_are_told_apart_by_what_stands_over_the_control():
    """Oracle: the rows themselves, and the reach of each: the last within 0.05 nats."""
    folder = ROOT / "results" / "smollm2-stdlib"
    (found,) = repairs_in(folder, "yarn", "none")
    assert found.metric == "excess"
    rows = {(r.repair, r.evaluation_length): r.value for r in Results.read(folder).rows
            if r.metric == "excess"}  # fmt: skip
    assert [at.evaluation_length for at in found.lengths] == [2048, 4096, 8192, 10240, 12288]
    for at in found.lengths:
        pair = rows["yarn", at.evaluation_length], rows[None, at.evaluation_length]
        assert (at.first, at.second) == pair
        assert at.difference.mean == pytest.approx(pair[0] - pair[1])
    assert (found.reach.first, found.reach.second) == ((12288,), (8192,))
    assert found.sentences[0].startswith(
        "rope + yarn reaches 4096 tokens further than rope on text (stdlib), "
    )
    (searched,) = repairs_in(folder, "longrope", "none")
    assert searched.first.startswith("rope + longrope:long_factor=")


def test_what_two_trainings_made_of_a_real_model_is_compared_in_words():
    none, yarn = (ROOT / "results" / f"smollm2-trained-{repair}" for repair in ("none", "yarn"))
    found = folders(yarn, none, task="text (held-out:stdlib)")
    (sentence, beyond) = found[0].sentences
    assert sentence.startswith(
        "rope in smollm2-trained-yarn reaches 8192 tokens further than in smollm2-trained-none on "
    )
    assert "the loss over the control of rope in smollm2-trained-yarn is " in beyond
    assert "lower than in smollm2-trained-none on text" in beyond


def test_a_repair_worn_past_the_trained_length_alone_is_the_plain_model_up_to_it():
    """Oracle: the rows; the study wears repairs at 128 tokens and beyond."""
    (found,) = repairs_in(ROOT / "results" / "extension", "yarn", "none", schemes=["rope"])
    rows = {(r.repair, r.evaluation_length, r.seed): r.value
            for r in Results.read(ROOT / "results" / "extension").rows
            if (r.metric, r.scheme) == ("last_loss", "rope")}  # fmt: skip
    at = {each.evaluation_length: each.difference.mean for each in found.lengths}
    assert (at[32], at[64]) == (0, 0)
    wanted = [rows["yarn", 512, seed] - rows[None, 512, seed] for seed in range(3)]
    assert at[512] == pytest.approx(np.mean(wanted))
    assert found.sentences[0].startswith("The data do not tell rope + yarn and rope apart in ")


def test_an_unrepaired_model_that_has_not_learned_is_named_once():
    found = repairs_in(ROOT / "results" / "smollm2-needles", "yarn", "ntk", task="facts (stdlib)")
    (note,) = (note for note in found[0].notes if "not learned" in note)
    assert note.startswith("Under seed 0, rope has not learned facts (stdlib) where ")
