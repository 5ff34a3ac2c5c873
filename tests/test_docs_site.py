"""The documentation as a site: its generated pages are current, its formulas are true, and it is
whole: every link leads somewhere, and nothing is asked of another host."""

from __future__ import annotations

import contextlib
import doctest
import functools
import http.server
import importlib.util
import re
import shutil
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from longreach.biases import alibi_slopes
from longreach.repairs import REPAIRS, option_names
from longreach.schemes import SCHEMES
from longreach.schemes.base import Shape
from longreach.schemes.t5_bias import bucket
from longreach.spectrum import Extension, Spectrum

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FIRST_FIGURE = 30  # lines
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"


def module(name):
    """One of the programs in docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module", autouse=True)
def path():
    """Programs in docs/ put their folder on the path; it does not stay there."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in ("formula", "build", "generate"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def formula():
    return module("formula")


@pytest.fixture(scope="module")
def generate(formula):
    return module("generate")


@pytest.fixture(scope="module")
def drawn(generate):
    """Every generated figure: its spec, and what it shows."""
    return generate.figures()


@pytest.fixture(scope="module")
def build(formula):
    return module("build")


# Formulas

OPTIONS = {
    "yarn": [{}, {"beta_fast": 8.0, "beta_slow": 0.5}],
    "dynamic_yarn": [{}, {"beta_fast": 8.0, "beta_slow": 0.5}],
    "ntk_by_parts": [{}, {"beta_fast": 8.0, "beta_slow": 0.5}],
    "llama3": [{}, {"low_freq_factor": 0.5, "high_freq_factor": 8.0}],
    "dynamic": [{}, {"factor": 4.0}],
    "base": [{"base": 5e5}],
}
"""Options to hold a formula to; any repair is held to its defaults."""


def options_of(name, pairs):
    if name == "longrope":
        return [{"long_factor": [1.0 + 0.3 * pair for pair in range(pairs)]}]
    return OPTIONS.get(name, [{}])


@pytest.mark.parametrize("head_dim", [16, 128])
@pytest.mark.parametrize(("trained", "target"), [(64, 256), (2048, 8192), (131_072, 1_000_000)])
@pytest.mark.parametrize("name", REPAIRS)
def test_the_formula_of_a_repair_is_what_it_computes(formula, name, trained, target, head_dim):
    plain, reach = Spectrum.rope(head_dim), Extension(trained, target)
    _, lines = formula.formulas(REPAIRS[name].__doc__)
    assert lines
    for options in options_of(name, plain.pairs):
        made = REPAIRS[name](plain, reach, **options)
        defaults = {
            option: REPAIRS[name].__kwdefaults__[option]
            for option, needed in option_names(name).items()
            if not needed
        }
        given = {
            "i": np.arange(plain.pairs),
            "n": plain.pairs,
            "theta": plain.inverse_frequencies,
            "r": plain.turns(trained),
            "T": trained,
            "L": target,
            "s": reach.factor,
            "amplitude": 1.0,
            **{key: np.asarray(value) for key, value in (defaults | options).items() if value},
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            found = formula.run(lines, given)
        np.testing.assert_allclose(made.speed_kept, np.broadcast_to(found["kept"], plain.pairs))
        assert made.amplitude == pytest.approx(float(found["amplitude"]))


SHAPE = Shape(width=32, heads=8, head_dim=16, trained_length=64)


def scheme(name):
    return SCHEMES[name](SHAPE)


def lines_of(formula, name):
    _, lines = formula.formulas(SCHEMES[name].__doc__)
    return lines


def test_the_formula_of_sinusoidal_positions(formula):
    positions = torch.tensor([0, 3, 500])
    rows = scheme("sinusoidal").embed(torch.zeros(1, 3, SHAPE.width), positions)[0].numpy()
    for place, position in enumerate(positions.tolist()):
        for pair in range(SHAPE.width // 2):
            given = {"i": pair, "p": position, "base": 1e4, "width": SHAPE.width}
            found = formula.run(lines_of(formula, "sinusoidal"), given)
            assert found["row[2 * i]"] == pytest.approx(rows[place, 2 * pair], abs=1e-6)
            assert found["row[2 * i + 1]"] == pytest.approx(rows[place, 2 * pair + 1], abs=1e-6)


def test_the_formula_of_rope(formula):
    ones = torch.zeros(1, 1, 1, SHAPE.head_dim)
    ones[..., 0::2] = 1
    turned = scheme("rope").rotate(ones, torch.tensor([7]))[0, 0, 0].numpy()
    given = {"i": np.arange(SHAPE.head_dim // 2), "p": 7, "base": 1e4, "d": SHAPE.head_dim}
    angle = formula.run(lines_of(formula, "rope"), given)["angle"]
    np.testing.assert_allclose(turned[0::2], np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(turned[1::2], np.sin(angle), atol=1e-6)


def test_the_formula_of_alibi(formula):
    bias = scheme("alibi").bias(torch.tensor([9]), torch.arange(10))[:, 0].numpy()
    for head in range(SHAPE.heads):
        given = {"h": head + 1, "heads": SHAPE.heads, "p": 9, "j": np.arange(10)}
        found = formula.run(lines_of(formula, "alibi"), given)
        assert found["slope"] == alibi_slopes(SHAPE.heads)[head]
        np.testing.assert_allclose(bias[head], found["bias"])


def test_the_formula_of_t5s_buckets(formula):
    distances = np.arange(17, 128)  # At 16, the logarithm of 1 is 0 but for its last bit.
    given = {"D": distances, "exact": 16, "buckets": 32, "max_distance": 128}
    found = formula.run(lines_of(formula, "t5_bias"), given)["bucket"]
    np.testing.assert_array_equal(bucket(torch.from_numpy(distances)).numpy(), found)


@pytest.mark.parametrize("name", [*REPAIRS, *SCHEMES])
def test_every_formula_is_typeset(formula, name):
    documented = REPAIRS[name] if name in REPAIRS else SCHEMES[name]
    _, lines = formula.formulas(documented.__doc__)
    assert lines
    for line in lines:
        made = ElementTree.fromstring(formula.mathml(line))
        # Nothing is lost on the way: the numbers are those of the line, in their order.
        numbers = [each.text for each in made.iter("mn")]
        assert numbers == re.findall(r"(?<![\w.])\d+(?:\.\d+)?", line)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x = a - (b - c)", "x=a−(b−c)"),  # noqa: RUF001
        ("x = (a + b) * c", "x=(a+b)·c"),
        ("x = a ** (-i / (n - 1))", "x=a−i/(n−1)"),  # noqa: RUF001
        ("x = (a + b) / (c + d)", "x=a+bc+d"),
        ("x = (a + b) ** 2", "x=(a+b)2"),
        ("x = -(a + b)", "x=−(a+b)"),  # noqa: RUF001
        ("x = ln(a / b) / ln(c / (d * e))", "x=ln(a/b)ln(c/(d·e))"),
        ("x = a ** (b / c / d)", "x=ab/c/d"),
        ("x = a ** (b / (c / d))", "x=ab/(c/d)"),
        ("x = a - b / c", "x=a−bc"),  # noqa: RUF001
    ],
)
def test_brackets_stand_where_they_are_needed_and_nowhere_else(formula, line, told):
    assert "".join(ElementTree.fromstring(formula.mathml(line)).itertext()) == told


def test_what_cannot_be_typeset_is_refused(formula):
    with pytest.raises(ValueError, match="nothing here typesets"):
        formula.mathml("x = [a for a in b]")


@pytest.mark.parametrize("name", ["formula", "build"])
def test_examples_in_docstrings_hold(name, request):
    found = doctest.testmod(request.getfixturevalue(name))
    assert found.attempted
    assert not found.failed


# Generated pages


def test_generated_pages_are_current(generate):
    for page, text in generate.pages().items():
        assert page.read_text(encoding="utf-8") == text, "run: python docs/generate.py"


def test_generated_figures_are_current(generate, drawn):
    for page, (spec, _) in drawn.items():
        stamp = generate.stamp(spec)
        assert stamp in page.read_text(encoding="utf-8"), f"{page.name}: python docs/generate.py"
    there = {*generate.FIGURES.glob("repair-*.svg"), *generate.FIGURES.glob("scheme-*.svg")}
    assert there == set(drawn)


def test_a_stamp_tells_figures_apart(generate, drawn):
    stamps = [generate.stamp(spec) for spec, _ in drawn.values()]
    assert len(set(stamps)) == len(stamps)


def test_every_scheme_and_repair_has_its_section_with_a_source():
    for table, page in ((SCHEMES, "schemes.md"), (REPAIRS, "repairs.md")):
        sections = re.split(r"^## ", (DOCS / page).read_text(encoding="utf-8"), flags=re.M)[1:]
        assert [section.splitlines()[0] for section in sections] == list(table)
        for section in sections:
            assert "```formula" in section
            assert "arXiv:" in section


def test_the_first_figure_comes_within_thirty_lines():
    lines = (DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("![") for line in lines[:FIRST_FIGURE])


# The site


class Page(HTMLParser):
    """What a page links to, what it loads, and the names of its places."""

    LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = {key: value or "" for key, value in attrs}
        self.places |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(found.get("href", ""))
        if tag in self.LOADS and self.LOADS[tag] in found:
            self.loads.append(found[self.LOADS[tag]])


@pytest.fixture(scope="module")
def site(build, tmp_path_factory):
    """The site, built: zensical itself stops at a link between pages that leads nowhere."""
    target = tmp_path_factory.mktemp("docs") / "site"
    build.build(target)
    return target


@pytest.fixture(scope="module")
def pages(site):
    """Pages of the site itself; the recorded reports have tests of their own."""
    found = {path: Page(path) for path in site.glob("*.html")}
    return found | {path: Page(path) for path in (site / "recorded").rglob("summary.html")}


def test_every_page_is_in_the_site_and_in_its_navigation(site, pages):
    names = {path.stem for path in DOCS.glob("*.md")}
    assert {path.stem for path in site.glob("*.html")} == names | {"404"}
    linked = {link.partition("#")[0] for link in pages[site / "index.html"].links}
    assert {f"{name}.html" for name in names} <= linked | {"index.html"}


def test_internal_links_and_images_lead_somewhere(site, pages):
    known = {path: page.places for path, page in pages.items()}
    for path, page in pages.items():
        if path.name == "404.html":  # Served for any address, so its links begin at the host.
            continue
        for link in [*page.links, *page.loads]:
            address = urlparse(link)
            if address.scheme or link.startswith("data:"):
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if target.is_dir():
                target /= "index.html"
            assert target.is_file(), f"{path.name}: {link}"
            if address.fragment and target in known:
                place = unquote(address.fragment)
                assert place in known[target] or place == "__skip", f"{path.name}: {link}"


def test_no_page_loads_anything_from_another_host(pages):
    for path, page in pages.items():
        for loaded in page.loads:
            assert not urlparse(loaded).netloc, f"{path.name}: {loaded}"


def test_formulas_are_typeset_and_named_blocks_have_their_title(site):
    repairs = (site / "repairs.html").read_text(encoding="utf-8")
    typeset = repairs.count("<math ")
    assert typeset == sum(
        len(re.findall(r"\n.", block)) + 1
        for block in re.findall(
            r"```formula\n(.*?)\n```", (DOCS / "repairs.md").read_text(encoding="utf-8"), re.S
        )
    )
    assert "formula" not in re.findall(r'class="language-(\w+)', repairs)
    assert ">config.json<" in (site / "clinic.html").read_text(encoding="utf-8")


@contextlib.contextmanager
def served(folder: Path):
    """The folder on a port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_pages_fit_phone_and_desk_and_ask_nothing_of_another_host(site):
    from playwright.sync_api import sync_playwright

    with served(site) as host, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        every = sorted(path for path in site.glob("*.html") if path.stem != "404")
        some = [site / f"{name}.html" for name in ("index", "results", "repairs")]
        for width, colours, shown in ((390, "dark", every), (1440, "light", some)):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
            said: list[str] = []
            asked: list[str] = []
            page.on("console", lambda m, said=said: said.append(m.text) if m.type == "error" else 0)
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            for path in shown:
                page.goto(f"{host}/{path.name}")
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{path.name} is {wide} pixels wide at {width}"
                broken = page.evaluate(BROKEN)
                assert broken == [], path.name
            assert said == []
            assert [url for url in asked if not url.startswith((host, "data:", "blob:"))] == []
            page.close()
        browser.close()
