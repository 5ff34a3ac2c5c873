"""The static site: whole or not at all, links within itself alone, no number of its own."""

from __future__ import annotations

import functools
import json
import os
import re
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from longreach.cli import app
from longreach.errors import InputError
from longreach.explorer.positions import views
from longreach.report.summarise import summarise
from longreach.results import Results
from longreach.site import assemble, questions
from longreach.site.folder import MARKER, check, put
from longreach.site.positions import BIASES, Grid, setting

from .browser import opened
from .report_fixture import write_runs

GRID = Grid(head_dims=(64,), bases=(10_000.0,), trained_lengths=(2048,), steps=(4, 16))
HOSTILE = '<img src=x onerror="alert(1)">'
SCHEMES = ("learned", "rope", "alibi", "nope")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    options = dict(tasks=["text"], seeds=[0, 1])
    return [
        write_runs(folder / "curve", name="length-curve", schemes=SCHEMES, **options),
        write_runs(folder / "other", name=HOSTILE, question=HOSTILE, schemes=["alibi"], **options),
        write_runs(folder / "again", name="length-curve", schemes=["rope"], **options),
    ]


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "public"
    said: list[str] = []
    page = assemble.build(folder, runs, say=said.append, grid=GRID)
    assert page == folder / "index.html"
    assert said == [*map(str, runs), "positions"]
    return folder


class Links(HTMLParser):
    """Addresses and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "poster"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)


# What is in it


def test_every_link_is_relative_and_leads_somewhere(site):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) == 1 + 3 + 1 + 1
    for path, found in pages.items():
        assert len(found.ids) == len(set(found.ids))
        for address in found.addresses:
            if address.startswith(("data:text/csv", "data:,")):
                continue
            assert not re.match(r"[a-z]+:|/", address), f"{path} leads out of the site: {address}"
            name, _, anchor = address.partition("#")
            target = (path.parent / unquote(name)).resolve() if name else path
            assert target.is_file(), f"{path} leads nowhere: {address}"
            assert not anchor or anchor in pages[target].ids
    index = pages[site / "index.html"].addresses
    for study in ("length-curve", "length-curve-2"):
        assert f"studies/{study}/index.html" in index


def test_no_page_may_ask_another_host(site):
    for path in site.rglob("*.html"):
        policy = re.search(r'Security-Policy" content="([^"]*)"', path.read_text(encoding="utf-8"))
        assert policy, path
        assert policy[1].startswith("default-src 'none'")
        assert "http" not in policy[1]


def test_markup_in_a_study_stays_text(site):
    for path in site.rglob("*.html"):
        assert "<img src=x" not in path.read_text(encoding="utf-8")
    assert "&lt;img src=x onerror" in (site / "index.html").read_text(encoding="utf-8")


def test_a_card_has_the_verdict_of_its_report(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    report = (site / "studies/length-curve/index.html").read_text(encoding="utf-8")
    said = "alibi reached furthest of 4: 512 tokens, 8 times the 64 trained at"
    assert said in index
    assert said in report
    light, dark = (
        (site / f"studies/length-curve/card-{look}.svg").read_text() for look in ("light", "dark")
    )
    assert light != dark
    assert "Line chart of" in light


def test_positions_are_the_views_of_the_explorer(site):
    """Oracle: the views, made here again; the page's own script does no arithmetic."""
    keys = json.loads((site / "positions/settings.json").read_text())
    assert keys == ["64-10000-2048-4", "64-10000-2048-16"]
    for key in keys:
        made = {
            view.name: view for view in views(setting(64, 10_000.0, 2048, int(key[-2:].strip("-"))))
        }
        own, shared = (brought(site, name) for name in (key, key.split("-", 2)[2]))
        specs = [view.page_spec for view in made.values() if view.spec and view.name not in BIASES]
        assert own["specs"] == json.loads(json.dumps(specs))
        assert shared["specs"] == json.loads(json.dumps([made[n].page_spec for n in BIASES]))
        for view in made.values():
            assert view.seen.replace("'", "&#x27;") in own["html"] + shared["html"]
    script = (site / "positions/choose.js").read_text()
    assert not re.search(r"Math\.|\*\*|(?<![*/])[*](?![*/])|parseFloat|Number\(", script)


def brought(site: Path, name: str) -> dict:
    text = (site / f"positions/data/{name}.js").read_text(encoding="utf-8")
    found = re.fullmatch(r'longreachViews\("([^"]+)", (.*)\);\n', text, re.S)
    assert found[1] == name
    return json.loads(found[2])


def test_every_stop_of_the_whole_grid_is_a_setting():
    grid = Grid()
    keys = [key for key, _ in grid.settings()]
    assert len(set(keys)) == 2 * 3 * 3 * 3
    chosen = ["-".join(stop for _, _, stops in grid.choices for stop, _, first in stops if first)]
    assert chosen[0] in keys


# Questions


def answer(folder: Path, study: str, **options) -> questions.Answer:
    summary = summarise(Results.read(write_runs(folder / "runs", name=study, **options)))
    (found,) = questions.answers({study: (summary, [])})
    assert found.study == study
    return found


def verdicts(found: questions.Answer) -> list[bool | None]:
    return [claim.holds for claim in found.claims]


def test_claims_about_loss_are_judged_by_the_rows(tmp_path):
    found = answer(tmp_path, "length-curve", tasks=["text"], schemes=SCHEMES)
    # In these rows ALiBi gains from longer contexts, RoPE loses most, NoPE less.
    assert verdicts(found) == [True, True, True, True, True]
    assert "changes by -0.246 [-0.249, -0.242]" in found.claims[1].measured
    assert found.verdict == "Of 5 claims, 5 hold here."


def test_claims_about_loss_that_do_not_hold_are_told_so(tmp_path):
    found = answer(
        tmp_path, "length-curve", tasks=["text"], schemes=SCHEMES, blow_up="nope", seeds=[0, 1]
    )
    assert verdicts(found) == [True, True, True, False, True]
    assert found.verdict == "Of 5 claims, 4 hold here, 1 does not."


@pytest.mark.parametrize(
    ("far", "by", "holds", "settled"),
    [("nope", 3.0, True, True), ("alibi", 3.0, False, True), ("alibi", 2.51, None, False)],
)
def test_claims_about_strings_are_judged_by_the_rows(tmp_path, far, by, holds, settled):
    found = answer(
        tmp_path,
        "copy-reverse",
        tasks=["copy", "reverse"],
        schemes=["nope", "sinusoidal", "rope", "alibi", "t5_bias"],
        seeds=[0, 1],
        lengths=(8, 16, 17, 18, 20, 24),
        trained_length=16,
        shortest=1,
        cliff={"nope": 2.5, "alibi": 1.0, "sinusoidal": 0.8, "rope": 0.2} | {far: by},
    )
    assert verdicts(found)[:3] == [True, holds, True]
    assert verdicts(found)[4] is None
    assert found.claims[1].settled == settled
    assert ("1 is not settled" in found.verdict) is not settled
    assert f"copy at 18, {far} " in found.claims[1].measured


def test_claims_about_recall(tmp_path):
    found = answer(tmp_path, "recall", tasks=["recall"], schemes=["learned", "rope"], seeds=[0, 1])
    assert verdicts(found) == [True, False, None]  # one of 16 symbols is guessed, not one of 22
    assert "0.910 at 512" in found.claims[2].measured


def test_claims_about_extension_come_from_the_same_functions_as_everywhere(tmp_path):
    found = answer(
        tmp_path, "extension", tasks=["text"], schemes=["rope"], seeds=[0, 1], repair="ntk"
    )
    assert verdicts(found)[:6] == [True] * 6  # numbers of RoPE and its repairs
    assert verdicts(found)[6:] == [False, True]  # half of RoPE's harm is left under this repair


def test_a_question_whose_study_is_missing_is_not_asked():
    assert questions.answers({}) == []


@pytest.mark.parametrize("study", questions.QUESTIONS)
@pytest.mark.parametrize("task", ["text", "recall", "copy"])
@pytest.mark.parametrize("schemes", [["rope"], ["learned"]], ids=str)
def test_of_what_was_not_measured_nothing_is_said(tmp_path, study, task, schemes):
    """A study of the name with other tasks or schemes: left out, or told as not measured."""
    lengths = (63, 64, 70) if task == "copy" else (32, 64, 512)
    options = dict(tasks=[task], schemes=schemes, seeds=[0], lengths=lengths)
    folder = write_runs(tmp_path / "runs", name=study, **options)
    found = questions.answers({study: (summarise(Results.read(folder)), [])})
    fits = schemes == ["rope"] and (task == "text") == (study in ("length-curve", "extension"))
    assert len(found) == fits
    for claim in (claim for each in found for claim in each.claims):
        assert "nan" not in claim.measured
        if "alibi" in claim.quote.lower() or "nope" in claim.quote.lower():
            assert claim.holds is None


# Whole or not at all, and never in another's place


def test_a_site_made_twice_is_the_same_and_takes_the_place_of_the_first(site, runs, tmp_path):
    folder = tmp_path / "public"
    put(folder, {"old.html": b"old"})
    assemble.build(folder, runs[:1], say=lambda _: None, grid=GRID)
    assert not (folder / "old.html").exists()
    listed = json.loads((folder / MARKER).read_text())["files"]
    assert {*listed, MARKER} == {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    }
    for name in listed:
        if name != "index.html":  # which has fewer studies
            assert (folder / name).read_bytes() == (site / name).read_bytes(), name
    assert list(tmp_path.iterdir()) == [folder]


def foreign_file(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")


def stranger_in_a_site(folder: Path) -> None:
    put(folder, {"index.html": b"old"})
    (folder / "CNAME").write_text("mine")


def empty_folder_in_a_site(folder: Path) -> None:
    put(folder, {"index.html": b"old"})
    (folder / ".git").mkdir()


def marker_of_another_kind(folder: Path) -> None:
    folder.mkdir()
    (folder / MARKER).write_text('{"format": 99, "files": []}')


def no_folder(folder: Path) -> None:
    folder.write_text("mine")


def link_to_a_folder(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize(
    "made",
    [
        foreign_file,
        stranger_in_a_site,
        empty_folder_in_a_site,
        marker_of_another_kind,
        no_folder,
        link_to_a_folder,
    ],
)
def test_what_it_did_not_make_is_left_alone(made, tmp_path, runs):
    folder = tmp_path / "public"
    made(folder)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    result = CliRunner().invoke(app, ["site", str(folder), str(runs[1])])
    assert isinstance(result.exception, InputError)  # which the command line prints, with exit 2
    assert str(folder) in str(result.exception)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_an_empty_folder_will_do(tmp_path):
    folder = tmp_path / "public"
    folder.mkdir()
    check(folder)
    put(folder, {"a/b.html": b"new"})
    assert (folder / "a/b.html").read_bytes() == b"new"


def test_a_failure_leaves_the_old_site_and_nothing_else(tmp_path, monkeypatch):
    folder = tmp_path / "public"
    put(folder, {"index.html": b"old"})
    whole = os.replace

    def failing(source, target):
        if Path(source).name == "new":
            raise OSError(28, "No space left on device", str(target))
        whole(source, target)

    monkeypatch.setattr("os.replace", failing)
    with pytest.raises(OSError, match="No space left"):
        put(folder, {"index.html": b"new"})
    assert (folder / "index.html").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [folder]


def test_without_runs_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no runs folder in results/"):
        assemble.build(Path("public"), (), say=lambda _: None)
    with pytest.raises(InputError, match="holds no plan"):
        assemble.build(Path("public"), [tmp_path], say=lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_the_command_makes_a_site_and_says_where(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(assemble, "Grid", lambda: GRID)
    result = CliRunner().invoke(app, ["site", str(tmp_path / "a/b"), str(runs[2]), "--json"])
    assert result.exit_code == 0
    page = Path(json.loads(result.stdout)["site"])
    assert page == tmp_path / "a/b/index.html"
    assert "1 study" in page.read_text(encoding="utf-8")


# In a browser


PAGES = (
    "index.html",
    "questions/length-curve.html",
    "positions/index.html",
    "studies/length-curve/index.html",
)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
@pytest.mark.parametrize("name", PAGES)
def test_pages_in_a_browser(site, name, width, scheme):
    with opened(site / name, width=width, scheme=scheme) as visit:
        visit.tab.wait_for_load_state("networkidle")
        visit.tab.wait_for_timeout(500)
        overflow = visit.tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        unseen = visit.tab.evaluate(
            "[...document.images].filter(i => i.loading !== 'lazy' && !i.naturalWidth).length"
        )
        faults = visit.faults(opened_first="details")
    assert visit.said == []
    assert visit.asked_outside == []
    assert overflow <= 0
    assert unseen == 0
    assert faults == []


@contextmanager
def served(folder: Path):
    """The folder on a port of this machine, as a static host would serve it."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.browser
@pytest.mark.parametrize("hosted", [False, True], ids=["disk", "host"])
def test_choosing_shows_another_setting_and_the_address_keeps_it(site, hosted):
    with served(site) as host:
        base = host if hosted else site.as_uri()
        with opened(f"{base}/positions/index.html") as visit:
            tab = visit.tab
            first = tab.locator("#view-wavelengths .lr-seen").inner_text()
            tab.locator("#view-wavelengths svg.marks").wait_for()
            tab.get_by_label("Target length").select_option("16")
            tab.get_by_text("16 times as many").first.wait_for()
            tab.locator("#view-wavelengths svg.marks").wait_for()
            second = tab.locator("#view-wavelengths .lr-seen").inner_text()
            address = tab.url
            tab.goto("about:blank")
            tab.goto(address)
            tab.get_by_text("16 times as many").first.wait_for()
            assert tab.locator("#view-wavelengths .lr-seen").inner_text() == second
            assert tab.get_by_label("Target length").input_value() == "16"
            tab.goto("about:blank")
            tab.goto(f"{base}/positions/index.html#step=<b>&base=1e99")
            assert tab.locator("#view-wavelengths .lr-seen").inner_text() == first
    assert "4 times as many" in first
    assert address.endswith("#head_dim=64&base=10000&trained=2048&step=16")
    assert visit.said == []
    assert [url for url in visit.asked_outside if not url.startswith((host, "about:"))] == []


@pytest.mark.browser
def test_without_scripts_the_first_setting_is_there_in_words(site):
    with opened(site / "positions/index.html", scripts=False) as visit:
        assert visit.tab.get_by_text("11 of 32 pairs never complete a turn").first.is_visible()
        assert visit.tab.locator("noscript p").is_visible()
