"""Opens a page in Chromium for a test, and hears what it says, asks for and gets wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parents[1] / ".venv" / "axe.min.js"
"""Deque's rules of accessibility; MPL-2.0 and not ours to ship: `make axe` fetches a release."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
GRAVE = ("serious", "critical")


@dataclass
class Visit:
    """A page that is open, what it wrote to the console, and the addresses that it asked for."""

    tab: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def asked_outside(self) -> list[str]:
        """Addresses that are neither a file's nor in the page itself."""
        return [url for url in self.asked if not url.startswith(("file:", "data:", "blob:"))]

    def faults(self, opened_first: str = "") -> list[str]:
        """Serious and critical faults that axe-core finds; opens what the selector names before."""
        if opened_first:
            self.tab.locator(opened_first).evaluate_all("all => all.forEach(e => e.open = true)")
            self.tab.wait_for_timeout(200)
        return faults_of(self.tab)


def faults_of(page: Any) -> list[str]:
    """Serious and critical faults that axe-core finds on a page of playwright's, as it stands."""
    if not AXE.exists():
        pytest.skip("axe-core is not there: `make axe` fetches it with npm")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    assert found["passes"], "axe-core checked nothing"
    return [
        f"{fault['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for fault in found["violations"]
        if fault["impact"] in GRAVE
        for node in fault["nodes"][:3]
    ]


@contextmanager
def opened(
    page: Path | str, *, width: int = 1440, scheme: str = "light", scripts: bool = True
) -> Iterator[Visit]:
    """A page in a browser of its own; skips the test where there is no Chromium."""
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            accept_downloads=True,
            java_script_enabled=scripts,
        )
        visit = Visit(context.new_page())
        visit.tab.on("console", lambda message: visit.said.append(message.text))
        visit.tab.on("pageerror", lambda error: visit.said.append(str(error)))
        visit.tab.on("request", lambda request: visit.asked.append(request.url))
        visit.tab.goto(page.as_uri() if isinstance(page, Path) else page)
        try:
            yield visit
        finally:
            browser.close()
