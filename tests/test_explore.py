"""The explorer in a real browser, and what its server lets in and out."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .browser import faults_of

pytest.importorskip("gradio_client")

CHROMIUM = "/usr/bin/chromium"
WIDTHS = (390, 1440)
MARKUP = "<img src=x onerror='window.hacked=1'>"
INJECTIONS = (
    MARKUP,
    "${window.hacked=1}",
    "{{constructor.constructor('window.hacked=1')()}}",
    '=HYPERLINK("http://x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "</textarea><script>window.hacked=1</script>",
)

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}

in_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server, as a user starts it, on a free port of loopback."""
    process = subprocess.Popen(
        [sys.executable, "-m", "longreach", "explore", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
            yield found[0]
            break
    else:
        pytest.fail(f"it ended with {process.wait()}: {said}")
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def call(url: str, name: str, *given: Any) -> list[Any]:
    """What an event of the app answers, over HTTP as the page itself asks."""
    base = f"{url}gradio_api/call/{name}"
    body = json.dumps({"data": given}).encode()
    request = urllib.request.Request(base, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        event = json.load(answer)["event_id"]
    with urllib.request.urlopen(f"{base}/{event}", timeout=60) as answer:
        text = answer.read().decode()
    kind, data = re.findall(r"^event: (\w+)\ndata: (.*)$", text, re.M)[-1]
    assert kind == "complete", text[:500]
    return list(json.loads(data))


def status(url: str, data: bytes | None = None) -> int:
    """Of a request."""
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


# What the server lets in and out


def test_a_pasted_config_is_diagnosed_and_its_block_written(url):
    block, shown, _ = call(url, "diagnose", json.dumps(CONFIG), 32768, "yarn", "vllm")[:3]
    assert "To reach 32,768 tokens" in shown
    assert "rope_type" in block
    assert "yarn" in block


def test_values_of_a_config_come_back_escaped(url):
    """In every field that is a string or could be one, and as names of keys."""
    for nasty in INJECTIONS:
        fields = {
            "model_type": nasty,
            "rope_scaling": {"rope_type": nasty, "factor": nasty, nasty: nasty},
            "max_position_embeddings": nasty,
            "torch_dtype": nasty,
            "layer_types": [nasty],
            nasty: nasty,
        }
        for changed in (CONFIG | fields, CONFIG | {"model_type": nasty}):
            answer = "".join(
                part
                for part in call(url, "diagnose", json.dumps(changed), 32768, "yarn", "vllm")
                if isinstance(part, str)
            )
            assert "class" in answer
            assert "<img" not in answer
            assert "<script" not in answer


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("/etc/passwd", "paths are never opened"),
        ("../../etc/passwd", "paths are never opened"),
        ("meta-llama/Llama-3.1-8B", "--allow-hub"),
        ("gguf:/etc/passwd", "paths are never opened"),
        ("-", "paths are never opened"),
        ("[1]", "this is no config"),
        ("{", "is not JSON"),
        ('{"a":' * 60 + "1" + "}" * 60, "nested more than 40 levels"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
        ("{" + " " * 1_000_001, "characters, and no config has more"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_config_is_told_and_nothing_is_opened(url, given, said):
    block, shown = call(url, "diagnose", given, 32768, "yarn", "vllm")[:2]
    assert block == ""
    assert 'role="alert"' in shown
    assert said in shown
    assert "root:" not in shown


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "no-such-study", ""])
def test_a_study_that_is_not_in_the_list_is_refused(name):
    from longreach.errors import InputError
    from longreach.explorer.studies import Library

    with pytest.raises(InputError, match="there is no study"):
        Library().get(name)


def test_the_server_refuses_a_study_that_is_not_in_the_list(url):
    with pytest.raises(AssertionError, match="error"):
        call(url, "study", "../../etc/passwd", "all tasks")
    assert "Exact match" in call(url, "study", "recall", "all tasks")[1]


@pytest.mark.parametrize(
    "path",
    [
        "gradio_api/file=/etc/passwd",
        "gradio_api/file=../../etc/passwd",
        "gradio_api/proxy=http://example.org/",
        "gradio_api/upload",
        "gradio_api//file=/etc/passwd",
        "file=/etc/passwd",
        "static/../../etc/passwd",
    ],
)
def test_no_file_goes_in_or_out(url, path):
    assert status(url + path, b"" if path.endswith("upload") else None) in (403, 404, 405)


@pytest.mark.parametrize("path", ["runs", "run-history/buckets", "run-history/connect"])
def test_no_history_of_runs_is_kept_or_offered(url, path):
    assert status(f"{url}gradio_api/{path}", b"{}" if path.endswith("connect") else None) == 404


def test_a_body_that_is_too_large_is_refused(url):
    """By what it says of itself, before any of it is read."""
    asked = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=60)
    asked.putrequest("POST", "/gradio_api/call/diagnose")
    asked.putheader("content-length", "2600000")
    asked.endheaders()
    with asked.getresponse() as answer:
        assert answer.status == 413
    asked.close()


def test_the_policy_lets_a_browser_load_nothing_from_elsewhere(url):
    with urllib.request.urlopen(url) as answer:
        policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


def test_people_do_not_meet_one_anothers_input(url):
    """Twenty at once, each with a length of its own in the config and as the target."""

    def visit(number: int) -> str:
        config = CONFIG | {"max_position_embeddings": 1000 + number}
        given = (json.dumps(config), 50_000 + number, "linear", "transformers")
        return "".join(map(str, call(url, "diagnose", *given)[:2]))

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(visit, range(20)))
    for number, text in enumerate(found):
        assert f"states {1000 + number:,} tokens" in text
        assert f"To reach {50_000 + number:,} tokens" in text
        others = {f"states {1000 + other:,} tokens" for other in range(20) if other != number}
        assert not any(other in text for other in others)


def test_sliders_that_stand_nowhere_are_refused(url):
    with pytest.raises(AssertionError, match="greater than maximum"):
        call(url, "positions", 64, 99, 7, 9, ["yarn"], 8)
    assert "of 32 pairs" in call(url, "positions", 64, 6, 7, 9, ["yarn"], 8)[0]


# In a browser


class Visit:
    """A page of the explorer, with all that it said and asked for."""

    def __init__(self, browser: Any, url: str, width: int, query: str = "", **options: Any) -> None:
        self.base = url
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.page = context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.set_default_timeout(60_000)
        self.page.goto(url + query)
        self.page.wait_for_selector("#lr-tabs")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.said.append(message.text)

    def tab(self, title: str) -> None:
        """Opens a tab; where they do not fit, it stands in the menu behind them."""
        button = self.page.get_by_role("tab", name=title, exact=True)
        if not button.first.is_visible():
            self.page.locator("#lr-tabs .overflow-menu > button").click()
            button = self.page.locator("#lr-tabs .overflow-dropdown button", has_text=title)
        button.first.click()

    def drawn(self, place: str) -> None:
        """Waits until the first chart of a place is drawn."""
        self.page.locator(f"{place} .lr-chart").first.scroll_into_view_if_needed()
        self.page.wait_for_selector(f"{place} .lr-chart svg.marks")

    def settle(self) -> None:
        """The end of a visit: no error, no request elsewhere, nothing wider than the window."""
        over = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0
        assert self.page.evaluate("window.hacked") is None
        kept = "JSON.stringify([{...localStorage}, {...sessionStorage}])"
        assert "history" not in self.page.evaluate(kept)
        outside = [one for one in self.asked if not one.startswith((self.base, "data:", "blob:"))]
        assert outside == []
        assert self.said == []
        self.page.context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def marked(test: Any) -> Any:
    for mark in in_browser:
        test = mark(test)
    return pytest.mark.parametrize("width", WIDTHS)(test)


@marked
def test_sliders_change_what_is_drawn_and_the_address(browser, url, width):
    visit = Visit(browser, url, width)
    visit.drawn("#lr-positions")
    before = visit.page.locator("#view-wavelengths .lr-seen").inner_text()
    assert "11 of 32 pairs" in before
    slider = visit.page.locator("#lr-trained input[type=range]")
    slider.focus()
    slider.press("ArrowRight")
    visit.page.wait_for_function(
        "document.querySelector('#view-wavelengths .lr-seen').innerText.includes('9 of 32 pairs')"
    )
    visit.page.wait_for_function("location.search.includes('trained=4096')")
    assert "4,096 tokens" in visit.page.locator("#lr-trained").inner_text()
    visit.page.wait_for_selector("#view-wavelengths svg.marks")
    visit.drawn("#lr-distances")
    visit.settle()


@marked
def test_a_config_is_pasted_and_its_block_copied(browser, url, width):
    visit = Visit(browser, url, width, "?tab=model&target=65536&engine=transformers")
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    # What the address asks for comes once the page stands; a click before that is of what stood.
    visit.page.wait_for_function(
        "document.querySelector('#lr-model-target :is(input, textarea)')?.value === '65536'"
    )
    box = visit.page.locator("#lr-config textarea")
    box.fill(json.dumps(CONFIG | {"rope_scaling": {"type": INJECTIONS[0], INJECTIONS[1]: 1}}))
    visit.page.locator("#lr-diagnose").click()
    visit.page.wait_for_selector("text=To reach 65,536 tokens")
    for nasty in INJECTIONS:
        box.fill(json.dumps(CONFIG | {"model_type": nasty, "rope_scaling": {"rope_type": nasty}}))
        visit.page.locator("#lr-diagnose").click()
        wanted = json.dumps(f"the config: {nasty}")
        visit.page.wait_for_function(
            f"document.querySelector('#lr-diagnosis h2')?.textContent.startsWith({wanted})"
        )
    box.fill(json.dumps(CONFIG))
    visit.page.locator("#lr-diagnose").click()
    visit.page.wait_for_function(
        "document.querySelector('#lr-diagnosis h2').textContent.startsWith('the config: llama')"
    )
    visit.drawn("#lr-diagnosis")
    visit.page.locator("#lr-block .lr-copy").first.click()
    visit.page.wait_for_selector("text=Copied")
    pasted = json.loads(visit.page.evaluate("navigator.clipboard.readText()"))
    assert "yarn" in json.dumps(pasted)
    visit.settle()


@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")
def test_a_chosen_file_goes_into_the_box_and_is_not_uploaded(browser, url, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    visit = Visit(browser, url, 1440, "?tab=model")
    visit.page.locator(".lr-drop input").set_input_files(tmp_path / "config.json")
    visit.page.wait_for_selector("text=To reach 32,768 tokens")
    assert json.loads(visit.page.locator("#lr-config textarea").input_value()) == CONFIG
    assert not [one for one in visit.asked if "upload" in one]
    visit.settle()


@marked
def test_a_study_is_chosen_and_its_figures_drawn(browser, url, width):
    visit = Visit(browser, url, width)
    visit.tab("Past the trained length")
    visit.page.wait_for_selector("#lr-words h2")
    visit.page.locator("#lr-study input").click()
    visit.page.get_by_role("option", name="length-curve", exact=True).click()
    visit.page.wait_for_function("location.search.includes('study=length-curve')")
    visit.drawn("#lr-figures")
    assert "Loss by position" in visit.page.locator("#lr-figures").inner_text()
    assert "95%" in visit.page.locator("#lr-words").inner_text()
    visit.settle()


@marked
def test_recorded_attention_maps_are_chosen_by_scheme_task_and_length(browser, url, width):
    visit = Visit(browser, url, width, "?tab=studies&study=copy-reverse&task=copy")
    visit.page.wait_for_selector("#lr-words h2")
    visit.page.get_by_role("button", name="Attention maps").click()
    visit.drawn("#lr-map")
    assert not visit.page.locator("#lr-look").is_visible()  # No model is to be run.

    def choose(place: str, name: str, title: str) -> None:
        visit.page.locator(f"{place} input").click()
        visit.page.get_by_role("option", name=name, exact=True).click()
        visit.page.wait_for_function(
            f"document.querySelector('#lr-map h2').innerText.startsWith({json.dumps(title)})"
        )

    choose("#lr-scheme", "alibi", "alibi at 16: ")
    choose("#lr-map-length", "32", "alibi at 32: ")
    visit.page.wait_for_function("location.search.includes('scheme=alibi&length=32')")
    other = Visit(browser, url, width, visit.page.url[visit.page.url.index("?") :])
    other.drawn("#lr-map")  # In sight at once, and the same.
    assert other.page.locator("#lr-map h2").inner_text().startswith("alibi at 32: ")
    other.settle()
    before = visit.page.locator("#lr-map h2").inner_text()
    visit.page.locator("#lr-task input").click()
    visit.page.get_by_role("option", name="reverse", exact=True).click()
    visit.page.wait_for_function("location.search.includes('task=reverse')")
    visit.page.wait_for_function(  # Of the other task; scheme and length stay.
        f"document.querySelector('#lr-map h2').innerText !== {json.dumps(before)}"
    )
    assert visit.page.locator("#lr-map h2").inner_text().startswith("alibi at 32: ")
    visit.drawn("#lr-map")
    choose("#lr-scheme", "learned", "learned at 32")
    assert "Past the limit" in visit.page.locator("#lr-map").inner_text()
    visit.page.locator("#lr-study input").click()
    visit.page.get_by_role("option", name="recall", exact=True).click()
    visit.page.wait_for_function("location.search.includes('study=recall')")
    visit.page.wait_for_selector("#lr-maps", state="hidden")
    visit.settle()


@marked
def test_a_string_is_lengthened_until_models_fail(browser, url, width):
    visit = Visit(browser, url, width, "?tab=trial&length=4&number=3")
    visit.page.wait_for_selector("#lr-answers .lr-right")
    assert visit.page.locator("#lr-answers .lr-wrong").count() == 0
    slider = visit.page.locator("#lr-length input[type=range]")
    slider.focus()
    slider.press("End")
    visit.page.wait_for_selector("#lr-answers .lr-wrong")
    assert "✗" in visit.page.locator("#lr-answers .lr-wrong").first.inner_text()
    visit.page.wait_for_function("location.search.includes('length=30')")
    visit.drawn("#lr-trial")
    visit.page.locator("#lr-prompt textarea").fill("a b c <img>")
    visit.page.locator("#lr-write").click()
    visit.page.wait_for_selector("#lr-answers [role=alert]")
    visit.settle()


@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")
def test_an_address_brings_back_its_view(browser, url):
    query = (
        "?tab=positions&head_dim=128&base=500000&trained=8192&target=131072&repairs=yarn&heads=4"
    )
    visit = Visit(browser, url, 1440, query)
    visit.page.wait_for_function(
        "document.querySelector('#view-wavelengths .lr-seen').innerText.includes('of 64 pairs')"
    )
    assert "Base: 500,000" in visit.page.locator("#lr-base").inner_text()
    visit.settle()
    nonsense = "?tab=positions&head_dim=-1&base=NaN&trained=1e999&target=x&repairs=<b>&heads=99"
    visit = Visit(browser, url, 1440, nonsense)
    visit.drawn("#lr-positions")
    assert "of 32 pairs" in visit.page.locator("#view-wavelengths .lr-seen").inner_text()
    visit.settle()


@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")
def test_dark_paper_has_dark_charts(browser, url):
    visit = Visit(browser, url, 1440, color_scheme="dark")
    visit.drawn("#lr-positions")
    assert visit.page.locator(".lr-chart[data-drawn=dark]").count() > 0
    visit.settle()


SHOWN = {
    "Positions": "#lr-positions .lr-chart svg.marks",
    "My model": "#lr-config",
    "Past the trained length": "#lr-figures .lr-chart svg.marks",
    "Try it": "#lr-answers .lr-right",
}


@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_tab_has_a_serious_fault_of_accessibility(browser, url, scheme):
    visit = Visit(browser, url, 1440, color_scheme=scheme)
    faults = {}
    for title, sign in SHOWN.items():
        visit.tab(title)
        visit.page.wait_for_selector(sign)
        if title == "Past the trained length":
            visit.page.get_by_role("button", name="Attention maps").click()
            visit.drawn("#lr-map")
        faults[title] = faults_of(visit.page)
    assert faults == {title: [] for title in SHOWN}
    visit.page.context.close()


def test_the_space_starts(tmp_path):
    """As a Space starts it: app.py alone, told where to listen."""
    root = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, root / "examples" / "space" / "app.py"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ
        | {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": "0", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found
        began = time.monotonic()
        assert status(found[0]) == 200
        assert time.monotonic() - began < 30
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
