"""Where tests are: in folders as the package's, and no test imports another."""

import ast
import collections

import pytest
from places import ROOT

pytestmark = pytest.mark.once  # nothing here depends on the backend

TESTS = ROOT / "tests"
FILES = sorted(TESTS.rglob("*.py"))
# Of no package's folder: data, what tests share, questions from outside,
# faults on purpose, and what a new device has to pass first.
OTHERS = {"files", "helpers", "design", "faults", "accelerator"}


def trees():
    for path in FILES:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_folders_are_the_packages_and_the_repositorys():
    found = {path.parent.relative_to(TESTS).parts[:1] for path in FILES} - {()}
    for (name,) in found:
        places = ROOT / "keras_synth" / name, ROOT / name
        assert name in OTHERS or any(place.is_dir() for place in places), name


def test_no_test_imports_another():
    tests = {path.stem for path in FILES if path.stem.startswith("test_")}
    for path, tree in trees():
        for node in ast.walk(tree):
            modules = []
            if isinstance(node, ast.Import):
                modules = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                assert module not in tests, f"{path} imports {module}"


@pytest.mark.parametrize("name", ["normal", "padding", "gradients", "numpy"])
def test_what_tests_share_is_defined_once(name):
    places = collections.Counter(
        path
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    assert sum(places.values()) == 1, places
