"""Builds the documentation into a folder: python docs/build.py FOLDER.

Pages are laid out beside the recorded results that they link to, formulas are typeset as MathML,
and zensical makes the site, which stops at the first link that leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # docs/ is no package.
from formula import mathml

DOCS = Path(__file__).parent
ROOT = DOCS.parent
RECORDED = "recorded"
"""Where the results lie within the site, beside a page called results."""
KEPT = ("report.html", "summary.md", "figures")
"""What readers open of a recorded study; the rows stay in the repository."""


def site_text(text: str) -> str:
    r"""A page as the site takes it; elsewhere it reads as it is.

    >>> site_text("see [x](../results/recall/report.html)")
    'see [x](recorded/recall/report.html)'
    >>> site_text("```json config.json\n{}\n```")
    '```json title="config.json"\n{}\n```'
    """
    text = re.sub(r"^```formula\n(.*?)^```$", typeset, text, flags=re.M | re.S)
    text = re.sub(r"^```(\w+) (\S+)$", r'```\1 title="\2"', text, flags=re.M)
    return text.replace("](../results/", f"]({RECORDED}/").replace("](../examples/", "](examples/")


def typeset(found: re.Match[str]) -> str:
    """A block of formulas."""
    return f'<div class="formula">{"".join(map(mathml, found[1].splitlines()))}</div>'


def lay(folder: Path) -> None:
    """Lays out what zensical reads: its config, and the folder `pages`."""
    pages = folder / "pages"
    pages.mkdir(parents=True)
    shutil.copy(DOCS / "zensical.toml", folder)
    shutil.copy(DOCS / "docs.css", pages)
    shutil.copytree(DOCS / "figures", pages / "figures")
    shutil.copytree(ROOT / "examples", pages / "examples")
    linked: set[str] = set()
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        linked |= set(re.findall(r"\]\(\.\./results/([\w-]+)/", text))
        (pages / page.name).write_text(site_text(text), encoding="utf-8")
    for study in sorted(linked):
        for name in KEPT:
            source, target = ROOT / "results" / study / name, pages / RECORDED / study / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copy(source, target)


def build(target: Path) -> None:
    """Makes the site, and puts it in place of what is there. Fails where a link leads nowhere."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        lay(folder)
        subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict", "-f", "zensical.toml"],
            cwd=folder,
            check=True,
        )
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "site", target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/build.py FOLDER")
    build(Path(sys.argv[1]))
