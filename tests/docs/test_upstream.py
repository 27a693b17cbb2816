"""Scripts for bug reports show bugs of Keras, without this package."""

import json
import os
import re
import subprocess
import sys
from importlib import metadata

import pytest
from places import HELPERS, ROOT

pytest.importorskip("keras_hub")
pytestmark = pytest.mark.once  # each script has its own backend

SCRIPTS = sorted((ROOT / "docs" / "upstream").glob("*.py"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in SCRIPTS}


def backend_of(text):
    """The backend of a script; PyTorch, the fastest, for bugs of all."""
    if "import tensorflow" in text:
        return "tensorflow"
    found = re.search(r'^os\.environ\["KERAS_BACKEND"\] = "(\w+)"', text, re.M)
    return found[1] if found else "torch"


def check_versions(*packages):
    """Skips a test with versions other than those of constraints.txt."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    expected = dict(re.findall(r"^([\w-]+)==(.+)$", text, re.MULTILINE))
    installed = {x.name: x.version for x in metadata.distributions()}
    for package in packages:
        version = installed.get(package, "none").partition("+")[0]
        if version != expected[package]:
            pytest.skip(f"{package} {version}, not {expected[package]}")


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_scripts_show_bugs_that_are_not_fixed(backend, tmp_path):
    check_versions("keras", "keras-hub", "grain", "onnxruntime", backend)
    paths = [path for path in SCRIPTS if backend_of(TEXTS[path]) == backend]
    run = subprocess.run(
        [sys.executable, HELPERS / "separately.py", *paths],
        env={**os.environ, "KERAS_BACKEND": backend},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    errors = dict(map(json.loads, run.stdout.splitlines()))
    assert [*errors] == [*map(str, paths)], run.stderr
    fixed = [path for path, error in errors.items() if error is None]
    assert not fixed, (
        "this fault is mended upstream: remove its row in docs/keras_bugs.md, "
        f"its script and the workaround: {fixed}"
    )
    for path in paths:
        expected = re.findall("^# Error: (.*)", TEXTS[path], re.MULTILINE)
        error = errors[str(path)]
        assert any(x in error for x in expected or ["AssertionError"]), path


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_short_and_do_not_need_this_package(path):
    header, *lines = re.split(r"^(?!#)", TEXTS[path], flags=re.MULTILINE)
    assert re.search(r"\d\.\d+\.\d", header), "it names the versions"
    assert len([line for line in lines if line.strip()]) <= 15
    assert "keras_synth" not in TEXTS[path]
    page = (ROOT / "docs" / "keras_bugs.md").read_text(encoding="utf-8")
    assert f"](upstream/{path.name})" in page
