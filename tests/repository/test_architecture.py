"""What docs/architecture.md says of the modules, read from their sources."""

import ast
import re
import sys

import pytest
from places import ROOT

pytestmark = pytest.mark.once  # nothing here depends on the backend

PACKAGE = ROOT / "keras_synth"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
BACKENDS = {"jax", "tensorflow", "torch"}
QUESTIONS = {"keras.backend.backend", "keras.config.backend"}
FRAMEWORKS = "keras_synth._backend.frameworks"
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in sorted(PACKAGE.rglob("*.py"))
}


def first_column(heading):
    """The names in backticks of each row of the first table below a heading."""
    text = PAGE.split(f"\n## {heading}\n")[1]
    rows = re.search(r"^\| *module .*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.M)[
        1
    ]
    cells = [row.split("|")[1] for row in rows.splitlines()]
    return [re.findall(r"`([^`]+)`", cell) for cell in cells]


ROWS = first_column("Modules")
RANKS = {name: rank for rank, names in enumerate(ROWS) for name in names}
ASKING = {name for names in first_column("Backends") for name in names}


def rank(path):
    """The row of a module: that of its own name, or of the nearest folder."""
    found = [
        k for k in RANKS if path == k or (k[-1] == "/" and path.startswith(k))
    ]
    assert found, f"{path} is in no row"
    return RANKS[max(found, key=len)]


def located(name):
    """The file of `keras_synth.NAME`, which may be something in a module."""
    parts = name.split(".")[1:]
    for size in range(len(parts), 0, -1):
        path = "/".join(parts[:size])
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in TREES:
                return file
    return "__init__.py"


def imported(node):
    """Absolute names that a node imports, or reads of the package."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "imports are absolute"
        return [f"{node.module}.{name.name}" for name in node.names]
    if isinstance(node, ast.Attribute):
        name = ast.unparse(node)
        return [name] if re.fullmatch(r"keras_synth(\.\w+)+", name) else []
    return []


def at_import(tree):
    """The nodes of a module that run when it is imported."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            left.extend(ast.iter_child_nodes(node))


def roots(nodes):
    """The packages that nodes import."""
    return {
        name.split(".")[0]
        for node in nodes
        if not isinstance(node, ast.Attribute)
        for name in imported(node)
    }


def test_every_row_of_the_page_names_what_is_there():
    for name in (*RANKS, *ASKING):
        assert (PACKAGE / name).exists(), name
        assert (PACKAGE / name).is_dir() == name.endswith("/"), name


def test_modules_import_from_their_own_row_and_from_rows_above():
    upwards = {
        f"{path} imports {located(name)}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        for name in imported(node)
        if name.startswith("keras_synth.")
        and located(name) != "__init__.py"
        and rank(located(name)) > rank(path)
    }
    assert not upwards


def core():
    """Modules that need no extra."""
    first = RANKS["models/"]
    return [path for path in TREES if rank(path) < first]


def test_the_core_imports_keras_and_numpy_and_nothing_else():
    allowed = {"keras", "keras_synth", "numpy", *sys.stdlib_module_names}
    for path in core():
        others = roots(at_import(TREES[path])) - allowed
        assert not others, f"{path} imports {sorted(others)}"


def test_no_backend_is_imported_by_the_core():
    """Nor by a function: what has been imported is in `sys.modules`."""
    for path in core():
        assert not roots(ast.walk(TREES[path])) & BACKENDS, path


def asks(node):
    """Whether a node asks which backend there is, or reaches for one."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) in QUESTIONS
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        if any(name.startswith(FRAMEWORKS) for name in imported(node)):
            return True
        return bool(roots([node]) & BACKENDS or QUESTIONS & {*imported(node)})
    if isinstance(node, (ast.Subscript, ast.Call)):
        text = ast.unparse(node)
        found = re.match(r"sys\.modules(?:\[|\.get\()'(\w+)", text)
        return bool(found) and found[1] in BACKENDS
    return False


def test_only_modules_that_the_page_names_ask_for_the_backend():
    asking = {
        path for path, tree in TREES.items() if any(map(asks, ast.walk(tree)))
    }
    asking = {
        "_backend/" if path.startswith("_backend/") else path for path in asking
    }
    assert asking == ASKING
