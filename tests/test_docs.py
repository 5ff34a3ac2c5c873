"""Every code block of README and docs is executed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

from longreach.study import Study

from . import tiny_models

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SETUP = ("make ", "git clone", "cd ", "uv ", "pip ", "python3 -m venv", ".venv/bin/pip")
"""What sets a machine up; the build runs it, not this test."""


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Blocks that read recorded results name them from there."""
    monkeypatch.chdir(ROOT)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("example", list(find_examples(*map(str, PAGES))), ids=str)
def test_python_blocks_run_and_print_what_they_say(example: CodeExample, eval_example: EvalExample):
    eval_example.run_print_check(example)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_in_order_in_one_folder(page, tmp_path):
    """Runs are cut to two steps of one seed; everything else is as printed.

    A JSON block whose first line names a file (```json config.json) is that file. A command that is
    said to end with another code than 0 has the code behind it: `# exit 1`.
    """
    for name, text in re.findall(
        r"^```json (\S+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    if "longreach measure my-model" in page.read_text(encoding="utf-8"):
        # The model that the page's commands are about.
        tiny_models.write(tmp_path / "my-model", tiny_models.longer())
    for text in blocks(page, "toml"):
        study = Study.parse(text, page.name)
        (tmp_path / f"{study.name}.toml").write_text(text, encoding="utf-8")
    for line in "\n".join(blocks(page, "bash")).splitlines():
        command = line.split("#")[0].strip()
        if not command or command.startswith(SETUP):
            continue
        words = shlex.split(command.removeprefix(".venv/bin/"))
        assert words[0] == "longreach", f"{page.name} has a command that is not tested: {line}"
        if words[1] == "run":
            for option, value in (("--limit-steps", "2"), ("--seeds", "0"), ("--workers", "1")):
                words += [] if option in words else [option, value]
        ended = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        told = re.search(r"# exit (\d+)", line)
        assert ended.returncode == (int(told[1]) if told else 0), f"{line}\n{ended.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
