"""How soon the explorer shows its first view, and how soon a slider is answered, in a real browser.

Run: python benchmarks/explore.py

Needs the extras `app` and `dev`, and a Chromium (CHROMIUM, /usr/bin/chromium unless set). The first
view is drawn within 2 s of the server's being up, and a slider's answer stands within 300 ms in the
median: on an idle machine of two cores. A wrong answer of the app, or none, ends it with an error.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import time

from playwright.sync_api import Page, sync_playwright

MOVES = [("#lr-trained", 1)] * 8 + [("#lr-head-dim", 8)] * 7
"""Every one to a setting that nobody has asked for yet, so that nothing is remembered."""

WATCH = """([label, key]) => new Promise((told) => {
  const slider = document.querySelector(`${label} input[type=range]`);
  const seen = document.querySelector("#view-wavelengths .lr-seen");
  const before = seen.innerText, began = performance.now();
  const found = {};
  const look = () => {
    const now = document.querySelector("#view-wavelengths .lr-seen").innerText;
    if (now !== before && !found.words) found.words = performance.now() - began;
    if (found.words && document.querySelector("#view-wavelengths svg.marks")
        && document.querySelector("#view-wavelengths .lr-chart").dataset.drawn) {
      found.chart = performance.now() - began;
      told(found);
    } else requestAnimationFrame(look);
  };
  slider.value = Number(slider.value) + key;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  look();
})"""
"""Moves a slider, and says after how many milliseconds its words and its chart have changed."""


def main() -> None:
    """Starts the server, opens the page, moves a slider up and down."""
    began = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "longreach", "explore", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        line = next(line for line in server.stderr if "http://" in line)
        url = re.findall(r"http://\S+/", line)[0]
        print(f"server up {time.perf_counter() - began:5.1f} s after the command")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                args=["--no-sandbox"],
            )
            first_view(browser.new_page(), url, "first visit ")
            page = browser.new_page()
            first_view(page, url, "second visit")
            moves = [page.evaluate(WATCH, list(move)) for move in MOVES]
            browser.close()
        for name in ("words", "chart"):
            found = [move[name] for move in moves]
            median = statistics.median(found)
            most = f"median of {len(found)}; most {max(found):.0f}"
            print(f"slider: {name} after {median:4.0f} ms ({most})")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def first_view(page: Page, url: str, name: str) -> None:
    """Until the first chart is drawn."""
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("#view-wavelengths svg.marks")
    print(f"{name}: first chart after {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
