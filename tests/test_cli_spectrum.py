"""`longreach spectrum`: the published example, the table, the plot, bad input, what is imported."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import longreach
from longreach import cli
from longreach.repairs import REPAIRS, Repair
from longreach.show.spectrum import Sheet, show
from longreach.spectrum import Extension, Spectrum

CHROMIUM = "/usr/bin/chromium"
EXAMPLE = [
    *["spectrum", "--head-dim", "64", "--base", "10000"],
    *["--trained-length", "2048", "--target-length", "8192"],
    *["--repair", "linear", "--repair", "ntk", "--repair", "yarn"],
]
PLAIN = ["spectrum", "--head-dim", "64", "--trained-length", "2048"]


@pytest.fixture
def call(capfd, monkeypatch):
    """Runs the command line in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longreach", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


# The numbers


def test_the_published_example(call):
    code, out, err = call(*EXAMPLE, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert list(told) == [
        "pairs", "base", "trained_length", "target_length", "factor", "slowest_wavelength",
        "never_completed", "first_never_completed", "inverse_frequencies", "repairs",
    ]  # fmt: skip
    assert told["pairs"] == len(told["inverse_frequencies"]) == 32
    assert (told["base"], told["factor"]) == (10_000.0, 4.0)
    assert (told["trained_length"], told["target_length"]) == (2048, 8192)
    assert told["slowest_wavelength"] == pytest.approx(47_117.24, abs=5e-3)
    assert (told["never_completed"], told["first_never_completed"]) == (11, 21)
    np.testing.assert_allclose(
        told["inverse_frequencies"], 10_000.0 ** (-np.arange(32) / 32), rtol=1e-13
    )
    linear, ntk, yarn = told["repairs"]
    assert [each["name"] for each in told["repairs"]] == ["linear", "ntk", "yarn"]
    assert all(each["options"] == {} for each in told["repairs"])
    assert (linear["local_resolution"], linear["unseen"]) == (0.25, 0)
    assert (linear["untouched"], linear["ramped"], linear["interpolated"]) == (0, 0, 32)
    assert linear["effective_length"] == 8192
    assert ntk["base"] == pytest.approx(41_829.37, abs=5e-3)
    assert "ramped" not in ntk
    assert (ntk["local_resolution"], ntk["unseen"], ntk["amplitude"]) == (1.0, 10, 1.0)
    assert (yarn["untouched"], yarn["ramped"], yarn["interpolated"]) == (9, 12, 11)
    assert "base" not in yarn
    assert yarn["amplitude"] == pytest.approx(1.138629, abs=5e-7)
    extension = Extension(2048, 8192)
    for each in told["repairs"]:
        used = REPAIRS[each["name"]](Spectrum.rope(64), extension)
        assert each["inverse_frequencies"] == used.inverse_frequencies.tolist()


def test_without_a_target_there_is_no_factor(call):
    code, out, _ = call(*PLAIN, "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["target_length"], told["factor"], told["repairs"]) == (None, None, [])
    assert told["base"] == 10_000.0
    code, out, _ = call(*PLAIN)
    assert code == 0
    assert "11 of 32 pairs never complete a turn in 2,048 tokens (pairs 21 to 31)." in out
    assert "unseen" not in out


def test_where_every_pair_completed_a_turn_there_is_no_first_that_did_not(call):
    words = ["spectrum", "--head-dim", 64, "--trained-length", 10**6]
    told = json.loads(call(*words, "--json")[1])
    assert (told["never_completed"], told["first_never_completed"]) == (0, None)
    assert "All 32 pairs complete a turn within 1,000,000 tokens" in call(*words)[1]


def test_options_of_repairs_reach_them(call, tmp_path):
    path = tmp_path / "lists.json"
    path.write_text(json.dumps({"long_factor": [2.0] * 32}))
    code, out, err = call(
        *PLAIN,
        "--target_length",
        8192,
        "--repair",
        "yarn:truncate=false,beta_fast=16,factor=8",
        "--repair",
        f"longrope:@{path}",
        "--repair",
        "base:base=500000",
        "--json",
    )
    assert code == 0, err
    yarn, longrope, base = json.loads(out)["repairs"]
    assert yarn["options"] == {"truncate": False, "beta_fast": 16, "factor": 8}
    used = REPAIRS["yarn"](Spectrum.rope(64), Extension(2048, 8192), **yarn["options"])
    assert yarn["inverse_frequencies"] == used.inverse_frequencies.tolist()
    assert longrope["inverse_frequencies"][0] == 0.5
    assert base["base"] == 500_000.0


# The table


def test_the_table_has_a_row_per_pair_and_the_summary_says_it_all(call):
    code, out, err = call(*EXAMPLE)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 110
    rows = [line.split() for line in out.splitlines() if re.match(r" *\d+ +[\d,.]+ ", line)]
    assert [int(row[0]) for row in rows] == list(range(32))
    assert rows[0] == ["0", "6.28", "326", "25.0%", "100.0%", "100.0%"]
    assert rows[21] == ["21", "2,649.60", "0.773", "unseen", "25.0%", "39.1%*", "25.0%"]
    assert rows[31] == ["31", "47,117.24", "0.0435", "unseen", "25.0%", "25.0%", "25.0%"]
    assert sum("unseen" in row for row in rows) == 11
    assert sum("*" in row[-2] for row in rows) == 10
    assert "11 of 32 pairs never complete a turn in 2,048 tokens (pairs 21 to 31)." in out
    assert re.search(r"^linear +1 +0, 0, 32 +0 +25.0% +8,192 *$", out, re.M)
    assert re.search(r"^ntk +1 +base 41,829.37 +10 +100.0% +5,238 *$", out, re.M)
    assert re.search(r"^yarn +1.1386 +9, 12, 11 +0 +100.0% +8,192 *$", out, re.M)


@pytest.mark.parametrize(
    ("head_dim", "base", "trained", "target"),
    [(64, 1e4, 2048, 8192), (128, 5e5, 8192, 10**6), (64, 1e4, 40, 10_000), (96, 1e6, 4096, 4500)],
)
def test_the_factor_that_is_named_for_ntk_does_reach(call, head_dim, base, trained, target):
    words = ["spectrum", "--head-dim", head_dim, "--base", base, "--trained-length", trained]
    out = call(*words, "--target-length", target, "--repair", "ntk")[1]
    assert f"ntk falls short of {target:,} tokens" in out
    named = re.search(r"\((ntk:factor=[\d.]+)\)", out)
    plain, extension = Spectrum.rope(head_dim, base), Extension(trained, target)
    repair = Repair.parse(named[1])
    assert not repair.apply(plain, extension).unseen(extension).any()
    factor = repair.options["factor"]
    less = Repair("ntk", {"factor": factor - max(0.002, factor * 1e-6)})
    assert less.apply(plain, extension).unseen(extension).any()
    enough = call(*words, "--target-length", target, "--repair", named[1])[1]
    assert "falls short" not in enough
    assert "*" not in enough


def test_where_no_factor_of_ntk_reaches_that_is_said(call):
    words = ["spectrum", "--head-dim", 64, "--trained-length", 5, "--target-length", 20]
    out = call(*words, "--repair", "ntk")[1]
    assert "ntk falls short: no factor of NTK reaches 20 tokens: the fastest pair" in out


def printed(sheet: Sheet, width: int, **options) -> str:
    out = io.StringIO()
    show(sheet, Console(file=out, width=width, highlight=False, **options))
    return out.getvalue()


def test_three_repairs_fit_eighty_columns_of_a_terminal():
    sheet = Sheet.of(128, 5e5, 8192, 131_072, ["ntk_by_parts", "dynamic_yarn", "yarn"])
    out = printed(sheet, 80, force_terminal=True, no_color=True)
    plain = re.sub(r"\x1b\[[\d;]*m", "", out)
    assert max(map(len, plain.splitlines())) <= 80
    assert plain.count("wavelength") == 1
    assert "…" not in plain
    assert "\x1b[1m" in out  # bold stays without colours
    assert not re.search(r"\x1b\[(3[0-7]|9\d|38)", out)


def test_on_a_narrow_terminal_repairs_are_spread_over_tables_and_no_number_is_cut():
    repairs = [
        "linear",
        "ntk",
        "yarn",
        "llama3",
        "ntk_by_parts",
        "yarn:factor=64",
        "yarn:ramp=turns",
    ]
    sheet = Sheet.of(64, 1e4, 2048, 8192, repairs)
    wide, narrow = printed(sheet, 60), printed(sheet, 60, force_terminal=True, no_color=True)
    assert "…" not in wide + narrow
    assert wide.count("wavelength") == 1
    assert narrow.count("wavelength") > 1
    plain = re.sub(r"\x1b\[[\d;]*m", "", narrow)
    table = plain[: plain.index("11 of 32")]
    assert max(map(len, table.splitlines())) <= 60
    numbers = re.findall(r"\d+\.\d%", wide[: wide.index("11 of 32")])
    assert sorted(re.findall(r"\d+\.\d%", table)) == sorted(numbers)
    assert "yarn (2) is yarn:factor=64" in wide
    assert 'yarn (3) is yarn:ramp="turns"' in wide


def test_no_color_is_honoured(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = printed(Sheet.of(64, 1e4, 2048, 8192, ["ntk"]), 80, force_terminal=True)
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", out)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = printed(Sheet.of(64, 1e4, 2048, 8192, ["ntk"]), 80, force_terminal=True)
    assert re.search(r"\x1b\[[\d;]*3[0-7]m", coloured)


# The plot


@pytest.mark.parametrize("suffix", [".png", ".html", ".SVG"])
def test_a_plot_is_written_whole_and_nothing_else(call, tmp_path, suffix):
    path = tmp_path / f"spectrum{suffix}"
    code, out, err = call(*EXAMPLE, "--plot", path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["pairs"] == 32
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    content = path.read_bytes()
    if suffix == ".png":
        assert content.startswith(b"\x89PNG")
        assert len(content) > 20_000
        return
    text = content.decode()
    for needed in ("pair (index", "wavelength (tokens", "speed kept (%", "linear", "ntk", "yarn"):
        assert needed in text
    if suffix == ".html":
        assert "default-src 'none'" in text
        assert not re.findall(r"<(?:script|link)[^>]+(?:src|href)=", text)
        return
    assert text.startswith("<svg")
    for needed in (
        "trained 2,048",
        "target 8,192",
        "hollow: still unseen",
        'aria-label="RoPE of 32',
    ):
        assert needed in text
    assert text.count('aria-roledescription="point"') >= 32 * 4


def test_a_plot_of_a_spectrum_without_repairs_has_one_panel(call, tmp_path):
    code, out, err = call(*PLAIN, "--plot", tmp_path / "a.svg")
    assert code == 0
    assert err.strip() == f"plot: {tmp_path / 'a.svg'}"
    assert "wavelength" in out
    text = (tmp_path / "a.svg").read_text()
    assert "trained 2,048" in text
    assert "target" not in text
    assert "speed kept" not in text


@pytest.mark.parametrize("words", ["--head-dim 2", "--head-dim 1024", "--head-dim 4 --base 1.5"])
def test_every_size_of_spectrum_can_be_drawn(call, tmp_path, words):
    lengths = "--trained-length 6 --target-length 9 --repair linear --repair llama3"
    code, _, err = call("spectrum", *words.split(), *lengths.split(), "--plot", tmp_path / "a.svg")
    assert code == 0, err
    assert (tmp_path / "a.svg").stat().st_size > 5000


def test_plots_of_many_repairs_tell_each_line_apart_without_colour():
    from longreach.show.chart import legend_names, speeds

    repairs = [f"linear:factor={n}" for n in range(2, 10)] + ["yarn", "yarn", "llama3"]
    sheet = Sheet.of(64, 1e4, 2048, 8192, repairs)
    assert len(set(legend_names(sheet))) == 11
    layers = speeds(sheet)["layer"]
    dashes = [
        str(layer["mark"]["strokeDash"]) for layer in layers if layer["mark"]["type"] == "line"
    ]
    shapes = layers[-1]["encoding"]["shape"]["scale"]["range"]
    assert len(set(zip(dashes, shapes, strict=True))) == 11


@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")
def test_the_page_draws_both_panels_within_its_width_and_asks_no_network(tmp_path):
    from playwright.sync_api import sync_playwright

    from longreach.show.chart import draw

    draw(Sheet.of(128, 5e5, 8192, 131_072, ["linear", "ntk", "yarn"]), tmp_path / "a.html")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "a.html").as_uri())
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(
                """(width) => {
                    const drawn = [...document.querySelectorAll("svg.marks")];
                    const wide = drawn.map((svg) => svg.getBoundingClientRect().width);
                    return wide.length == 2 && wide.every((w) => 0.8 * width < w && w <= width);
                }""",
                arg=min(width, 960),
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("text=trained 8,192").count() >= 1
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.svg.gz"])
def test_a_plots_other_suffixes_are_refused_by_the_known_ones(call, tmp_path, name):
    code, out, err = call(*PLAIN, "--plot", tmp_path / name)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: a plot's file must end in \.svg, \.png or \.html, got '.*'\n", err)
    assert list(tmp_path.iterdir()) == []


def test_a_plot_that_cannot_be_written_ends_with_an_error(call, tmp_path):
    code, out, err = call(*PLAIN, "--plot", tmp_path / "none" / "a.svg")
    assert (code, out) == (2, "")
    assert "there is no folder" in err
    (tmp_path / "taken.svg").mkdir()
    code, out, err = call(*PLAIN, "--plot", tmp_path / "taken.svg")
    assert (code, out) == (1, "")
    assert err.startswith("failed: ")
    assert [each.name for each in tmp_path.iterdir()] == ["taken.svg"]


def test_a_failed_plot_leaves_the_old_file(call, tmp_path, monkeypatch):
    from longreach.show import plot

    path = tmp_path / "a.svg"
    path.write_text("old")
    monkeypatch.setattr(
        plot.files.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "disk full"))
    )
    code, _, err = call(*PLAIN, "--plot", path)
    assert code == 1
    assert err == f"failed: [Errno 28] disk full: '{path}'\n"
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.svg"]


# Bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--repair linear", "error: repair 'linear' needs a target length: give --target-length"),
        ("--repair base:base=1e6", "error: repair 'base' needs a target length"),
        ("--target-length 100 --repair yarn", "error: nothing to repair: the target length, 100,"),
        (
            "--target-length 9000 --repair yarm",
            "error: unknown repair 'yarm'; did you mean 'yarn'?",
        ),
        ("--target-length 9000 --repair yarn:beta=3", "error: repair 'yarn' has no option 'beta'"),
        ("--target-length 9000 --repair yarn:4", "error: cannot read '4' in 'yarn:4'; write NAME:"),
        ("--target-length 9000 --repair yarn:factor=NaN", "error: factor must be a finite number"),
        (
            "--target-length 9000 --repair linear:factor=1e308",
            "error: factor must be at most 1e+15",
        ),
        ("--target-length 9000 --repair ntk:factor=1e308", "error: factor must be at most 1e+15"),
        ("--target-length 9000 --repair longrope", "error: repair 'longrope' needs the option"),
        ("--target-length 9000 --repair longrope:long_factor=[1]", "error: long_factor must have"),
        ("--target-length 9000 --repair longrope:@none.json", "error: cannot read none.json: No"),
        ("--target-length 0", "error: target_length must be a whole number from 1"),
        ("--target-length -5", "error: target_length must be a whole number from 1"),
        ("--trained-length 0", "error: trained_length must be a whole number from 1"),
        ("--trained-length 99999999999999999999", "error: trained_length must be a whole number"),
        ("--head-dim 7", "error: head_dim must be even and at least 2 to form pairs, got 7"),
        ("--head-dim 0", "error: head_dim must be even and at least 2"),
        ("--head-dim 100000", "error: head_dim must be at most 65,536, got 100000"),
        ("--base nan", "error: base must be a finite number above 1, got nan"),
        ("--base inf", "error: base must be a finite number above 1, got inf"),
        ("--base 1", "error: base must be a finite number above 1, got 1.0"),
        ("--base 1e300", "error: base must be at most 1e+15, got 1e+300"),
    ],
)
def test_bad_input_ends_with_2_and_one_message(call, words, message):
    for json_too in ([], ["--json"]):
        code, out, err = call(*PLAIN, *words.split(), *json_too)
        assert (code, out) == (2, "")
        assert err.startswith(message)
        assert err.count("\n") == 1
        assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [
        "spectrum",
        "spectrum --head-dim 64",
        "spectrum --trained-length 64",
        "spectrum --head-dim x --trained-length 64",
        "spectrum --head-dim 64.5 --trained-length 64",
        "spectrum --head-dim 64 --trained-length 64 --base ten",
        "spectrum --head-dim 64 --trained-length 64 --repairs linear",
        "spectrum --head-dim 64 --trained-length 64 --repair",
        "spectrum --head-dim 64 --trained-length 64 more",
    ],
)
def test_wrong_words_end_with_2_and_say_which(call, words):
    code, out, err = call(*words.split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert "Error: " in err or "error: " in err


# What is imported


def imported_by(*arguments: str) -> set[str]:
    """The modules that a process has loaded when the command ends."""
    program = (
        "import sys, contextlib, io, longreach.cli as cli\n"
        f"sys.argv = ['longreach', *{list(arguments)!r}]\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    try:\n        cli.main()\n"
        "    except SystemExit as e:\n        assert not e.code, e.code\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_the_verb_imports_neither_torch_nor_what_plots():
    loaded = imported_by(*EXAMPLE, "--json")
    assert "numpy" in loaded
    for heavy in ("torch", "transformers", "altair", "vl_convert", "scipy", "jinja2", "rich"):
        assert heavy not in loaded
    assert not {"longreach.study", "longreach.results", "longreach.report"} & loaded


def test_a_plot_imports_no_torch_either(tmp_path):
    loaded = imported_by(*PLAIN, "--json", "--plot", str(tmp_path / "a.svg"))
    assert "altair" in loaded
    assert "torch" not in loaded


@pytest.mark.parametrize("module", ["longreach", "longreach.cli", "longreach.show.spectrum"])
def test_our_modules_import_no_pydantic_before_it_is_needed(module):
    """typer 0.29 loads it when a command runs; earlier ones do without, and so do we."""
    program = f"import sys, {module}; print('pydantic' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_the_packages_names_are_there_though_imported_late():
    """What stands under TYPE_CHECKING and what `__getattr__` finds are one list."""
    source = Path(longreach.__file__).read_text(encoding="utf-8")
    declared = re.findall(r"(\w+) as \1\b", source)
    assert sorted(declared) == sorted(longreach._HOMES)
    for name in declared:
        assert getattr(longreach, name) is not None
        assert name in dir(longreach)
    from longreach.spectrum import Spectrum as home

    assert longreach.Spectrum is home
    with pytest.raises(AttributeError, match="module 'longreach' has no attribute 'Spektrum'"):
        _ = longreach.Spektrum
