"""Imports point one way, what needs no model does not import torch, and pins fit old Pythons."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import longreach

ROOT = Path(__file__).parents[1]
PACKAGE = Path(longreach.__file__).parent

LAYERS = [
    ["errors", "files", "home", "views"],
    ["table", "spectrum"],
    ["repairs", "biases"],
    ["checkpoint", "results"],
    ["diagnose", "engines"],
    ["schemes", "corpora"],
    ["model", "tasks"],
    ["study", "measure", "report"],
    ["held_out", "progress"],
    ["train"],
    ["evaluate"],
    ["cell"],
    ["where"],
    ["run"],
    ["pretrained"],
    ["show"],
    ["explorer"],
    ["site"],
    ["cli"],
    ["__main__"],
]
"""What may be imported by what: a part imports from the layers above it and from itself."""

TORCH_FREE = [
    "spectrum",
    "repairs",
    "biases",
    "checkpoint",
    "diagnose",
    "engines",
    "show",
    "results",
    "report",
    "study",
    "schemes",
    "tasks",
    "corpora",
    "explorer",
    "site",
    "cli",
]
"""Importing these does not import torch: listing and reporting answer at once."""


def part(path: Path) -> str:
    """The first name below the package: a file's, or its folder's."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """What a file imports of the package, inside functions too, but not for types alone."""
    found: set[str] = set()
    here = path.relative_to(PACKAGE.parent).with_suffix("").parts

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                self.generic_visit(node)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            base = list(here[: -node.level]) if node.level else []
            target = base + (node.module.split(".") if node.module else [])
            if target[:1] == ["longreach"]:
                names = [alias.name for alias in node.names] if len(target) == 1 else target[1:2]
                found.update(names)

        def visit_Import(self, node: ast.Import) -> None:
            for alias in node.names:
                if alias.name.startswith("longreach."):
                    found.add(alias.name.split(".")[1])

    Visitor().visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def test_every_part_has_its_layer():
    assert {part(path) for path in FILES} == {name for names in LAYERS for name in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    own = part(path)
    for name in imports(path) - {own}:
        assert layer(name) < layer(own), f"{own} imports {name}"


def test_the_check_sees_an_import_that_points_the_wrong_way(tmp_path):
    assert imports(PACKAGE / "run.py") >= {"cell", "study", "tasks"}
    assert layer("cli") > layer("run")


@pytest.mark.parametrize("name", TORCH_FREE)
def test_it_is_imported_without_torch(name):
    program = f"import sys, longreach.{name}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_pinned_installs_on_the_oldest_python_that_is_promised():
    """A pin chosen on 3.11.7 may ask for more than 3.11.0, and a fresh machine may have less."""
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = f"{promised.removeprefix('>=')}.0"
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.M)
    there = {name: metadata(name).get("Requires-Python") for name in pins if installed(name)}
    assert len(there) > 100
    assert not {
        name: asked for name, asked in there.items() if asked and oldest not in SpecifierSet(asked)
    }


def installed(name: str) -> bool:
    """Whether a distribution is here; what builds the package need not be."""
    try:
        metadata(name)
    except PackageNotFoundError:
        return False
    return True
