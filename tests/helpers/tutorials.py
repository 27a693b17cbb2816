"""Tutorials, and the script that makes notebooks and pages of them."""

import importlib.util

from places import ROOT

FOLDER = ROOT / "docs" / "tutorials"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def builder():
    """The module `docs/tutorials/build.py`."""
    spec = importlib.util.spec_from_file_location("build", FOLDER / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
