"""What objects show of themselves in a notebook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import nbclient
import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter

from longreach.checkpoint import read
from longreach.diagnose import diagnose
from longreach.engines import ENGINES, prescribe
from longreach.repairs import Repair
from longreach.results import Results
from longreach.show import notebook
from longreach.spectrum import Extension, Spectrum
from longreach.views import Shown

from .configs import LLAMA
from .report_fixture import write_runs

MARKUP = "<img src=x onerror=alert(1)>&\"'</div><script>alert(2)</script>"
VOID = {"br", "img"}


class Elements(HTMLParser):
    """The elements and text of a view; fails where a tag closes what is not open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def spectrum() -> Spectrum:
    return Spectrum.rope(64)


def repaired() -> Spectrum:
    return Repair.parse("yarn").apply(spectrum(), Extension(2048, 8192))


def checkpoint(tmp_path, **changed):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | changed), encoding="utf-8")
    return read(str(tmp_path / "config.json"))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One of each that shows itself, with markup wherever a name comes from a file."""
    folder = tmp_path_factory.mktemp("shown")
    found = checkpoint(folder, model_type=MARKUP)
    runs = write_runs(
        folder / "runs", schemes=("rope", "learned"), tasks=("recall", "text"), seeds=(0, 1),
        name=MARKUP, question=MARKUP,
    )  # fmt: skip
    vllm = prescribe(found, Repair.parse("yarn"), Extension(4096, 16384), "vllm")
    return {
        "Spectrum": repaired(),
        "Diagnosis": diagnose(found, 16384),
        "Prescription": vllm,
        "Results": Results.read(runs),
    }


@pytest.fixture(scope="module")
def views(shown):
    return {name: each._repr_html_() for name, each in shown.items()}


def test_whatever_shows_itself_has_both_views():
    classes = {each.__name__ for each in Shown.__subclasses__()}
    assert classes == set(notebook.HTML) == set(notebook.TEXT)


@pytest.mark.parametrize("name", notebook.HTML)
def test_a_view_is_whole_runs_nothing_and_asks_for_nothing(views, name):
    found = Elements(views[name])
    assert not {tag for tag, _ in found.tags} & {"script", "style", "img", "link", "iframe"}
    for _, attributes in found.tags:
        assert not any(key.startswith("on") or key == "src" for key in attributes)
    hosts = {host for host in re.findall(r"https?://[^\"'\s<]+", views[name])}
    assert hosts <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@pytest.mark.parametrize("name", ["Diagnosis", "Results"])
def test_markup_in_a_name_is_shown_as_it_was_written(shown, views, name):
    assert MARKUP in Elements(views[name]).text
    text = re.sub(r"\s+", "", notebook.TEXT[name](shown[name]))
    assert MARKUP.replace(" ", "") in text


@pytest.mark.parametrize("name", ["Spectrum", "Diagnosis", "Results"])
def test_figures_are_inline_svg_that_says_what_it_shows(views, name):
    drawings = re.findall(r"<svg.*?</svg>", views[name], re.S)
    assert drawings
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        assert root.get("style") == "max-width:100%;height:auto"
        assert "<title" in drawing or root.get("aria-label")


def test_a_spectrum_tells_its_pairs_and_what_a_repair_left_of_them(views):
    plain = Elements(spectrum()._repr_html_()).text
    assert "Spectrum of 32 pairs, base 10,000: a turn takes from 6.28 tokens" in plain
    assert "47,117.24" in plain
    assert "speed kept" not in plain
    found = Elements(views["Spectrum"]).text
    kept = repaired().speed_kept
    assert f"the last {kept[-1]:.1%}" in found
    assert found.count("\n") > 32  # Every pair has a row.
    assert f"{repaired().wavelengths[-1]:,.2f}" in found


def test_one_pair_is_shown_too():
    assert "Spectrum of 1 pair:" in Elements(Spectrum.rope(2)._repr_html_()).text
    assert "Spectrum of 1 pair:" in notebook.TEXT["Spectrum"](Spectrum.rope(2))


def test_a_diagnosis_tells_what_longreach_diagnose_tells(shown, views):
    found = Elements(views["Diagnosis"]).text
    for candidate in shown["Diagnosis"].advice.candidates:
        assert candidate.short_text in found
        assert f"{candidate.effect.repair.name}:factor=" in found
    assert "18 of 64 pairs pass the largest angle they met in training" in found


def test_a_diagnosis_without_a_target_or_without_turns_has_no_figure_of_repairs(tmp_path):
    bare = diagnose(checkpoint(tmp_path))._repr_html_()
    assert "To reach" not in bare
    assert "<svg" in bare
    mpt = checkpoint(tmp_path, model_type="mpt", attn_config={"alibi": True}, n_heads=8)
    assert "<svg" not in diagnose(mpt, 16384)._repr_html_()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_prescription_shows_what_is_to_be_pasted_unchanged(tmp_path, engine):
    found = checkpoint(tmp_path)
    given = prescribe(found, Repair.parse("yarn"), Extension(4096, 16384), engine)
    text = Elements(given._repr_html_()).text
    for way in (given.flags, given.command, given.refused):
        assert way is None or way in text
    if given.block is not None and "YAML" not in given.where:
        assert notebook.prescribed.as_json(given.block) in text
    for note in given.notes:
        assert note in text


def test_results_tell_the_verdict_with_figure_and_table_of_each_task(shown, views):
    text = Elements(views["Results"]).text
    assert "8 of 8 runs complete." in text
    assert len(re.findall("<svg ", views["Results"])) == 2
    for task in ("recall", "text"):
        assert task in text
    assert "reached 64" in text


def test_results_without_a_finished_run_say_so(tmp_path):
    runs = write_runs(tmp_path / "runs", schemes=("rope",), tasks=("recall",), seeds=(0,))
    results = Results.read(runs)
    empty = Results(
        folder=results.folder, plan=results.plan, runs=(), missing=("abc",), strangers=()
    )
    assert "no finished run" in Elements(empty._repr_html_()).text
    assert "no finished run" in notebook.TEXT["Results"](empty)


def test_an_object_imports_no_chart_before_it_is_shown_and_its_text_none_at_all():
    program = """
import sys
from longreach.spectrum import Spectrum
from longreach import diagnose, results, engines
plain = Spectrum.rope(8)
assert not {"altair", "torch", "rich", "jinja2", "scipy"} & set(sys.modules)
class Printer:
    def text(self, text): self.said = text
printer = Printer()
plain._repr_pretty_(printer, False)
assert printer.said.startswith("Spectrum of 4 pairs")
assert not {"altair", "torch"} & set(sys.modules)
assert "<svg" in plain._repr_html_()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_jupyter_takes_both_views():
    """IPython's own formatter is asked, as a notebook does."""
    bundle, _ = DisplayFormatter().format(spectrum())
    assert bundle["text/plain"].startswith("Spectrum of 32 pairs")
    assert bundle["text/html"].startswith("<div>")


# The notebooks of examples/


EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_notebook_is_stored_without_what_it_put_out(path):
    """So that a change shows what was changed, and nothing stale can be read."""
    assert path.read_text(encoding="utf-8").endswith("}\n")
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_notebook_runs_from_the_top_and_shows_something_each_time(path):
    """Numbers that its prose tells are asserted in its cells."""
    notebook_ = nbformat.read(path, as_version=4)
    nbformat.validate(notebook_)
    client = nbclient.NotebookClient(
        notebook_, timeout=300, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    client.execute()
    cells = [cell for cell in notebook_.cells if cell.cell_type == "code"]
    kinds = [kind for cell in cells for out in cell.outputs for kind in out.get("data", ())]
    assert kinds.count("text/html") >= 4  # two spectra, a diagnosis, results
    assert "image/svg+xml" in kinds
    for cell in cells[1:]:
        assert len(cell.outputs) == 1 or cell.outputs[0].output_type == "stream", cell.source
        for out in cell.outputs:
            if "text/html" in out.get("data", {}):  # The text view holds what it tells, too.
                assert len(out["data"]["text/plain"].splitlines()) > 8
            assert out.get("name") != "stderr", out.text
            for kind, text in out.get("data", {}).items():
                if kind in ("text/html", "image/svg+xml"):
                    Elements(text)
                    assert "<script" not in text
