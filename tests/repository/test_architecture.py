"""The modules agree with docs/architecture.md.

Which imports which is checked by import-linter, in `make lint`.
"""

import ast
import re

import pytest
from places import ROOT

pytestmark = pytest.mark.once  # nothing here depends on the backend

PACKAGE = ROOT / "keras_synth"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
BACKENDS = {"jax", "tensorflow", "torch"}
QUESTIONS = {"keras.backend.backend", "keras.config.backend"}
FRAMEWORKS = "keras_synth._backend.frameworks"


def first_column(heading):
    """The names in backticks of each row of the first table below a heading."""
    text = PAGE.split(f"\n## {heading}\n")[1]
    rows = re.search(r"^\| *module .*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.M)
    cells = [row.split("|")[1] for row in rows[1].splitlines()]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def imported(node):
    """Absolute names that a node imports."""
    if isinstance(node, ast.Import):
        return {name.name for name in node.names}
    return {f"{node.module}.{name.name}" for name in node.names}


def asks(node):
    """Whether a node asks which backend there is, or reaches for one."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) in QUESTIONS
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = imported(node)
        roots = {name.split(".")[0] for name in names}
        frameworks = any(name.startswith(FRAMEWORKS) for name in names)
        return bool(frameworks or roots & BACKENDS or names & QUESTIONS)
    if isinstance(node, (ast.Subscript, ast.Call)):
        text = ast.unparse(node)
        found = re.match(r"sys\.modules(?:\[|\.get\()'(\w+)", text)
        return bool(found) and found[1] in BACKENDS
    return False


def test_every_row_of_the_page_names_an_existing_module():
    for name in first_column("Modules") | first_column("Backends"):
        assert (PACKAGE / name).exists(), name
        assert (PACKAGE / name).is_dir() == name.endswith("/"), name


def test_only_modules_that_the_page_names_ask_for_the_backend():
    asking = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(map(asks, ast.walk(tree))):
            name = path.relative_to(PACKAGE).as_posix()
            asking.add("_backend/" if name.startswith("_backend/") else name)
    assert asking == first_column("Backends")
