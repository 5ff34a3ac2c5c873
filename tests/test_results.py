"""The recorded results are complete, and the tables of docs/results.md are made from them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from longreach.results import Results
from longreach.study import Study

ROOT = Path(__file__).parents[1]
RECORDED = ["recall", "length-curve"]


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
    assert len(results.runs) == len(study.schemes) * len(study.tasks) * len(study.seeds)
    assert Study.model_validate_json(json.dumps(results.plan["study"])) == study
    for run in results.runs:
        provenance = run.training["provenance"]
        assert provenance["command"] == f"longreach run {name}"
        assert {"longreach", "python", "torch", "numpy", "platform", "date"} <= set(provenance)
        assert run.items


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_report_is_there_to_be_read(name):
    folder = ROOT / "results" / name
    for file in ("report.html", "summary.md", "study.json"):
        assert (folder / file).is_file()
    assert list((folder / "figures").glob("*.svg"))


def test_the_tables_of_the_page_are_those_of_the_results(tables):
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.filled(page) == page, "run: python results/tables.py"
    assert page.count("<!-- end -->") == len(tables.TABLES)
