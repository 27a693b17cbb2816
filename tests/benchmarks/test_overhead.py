"""Layers dispatch about as many operations as MultiHeadAttention."""

import sys

import keras
import pytest
from places import ROOT

if keras.backend.backend() != "torch":
    pytest.skip("counts PyTorch's operations", allow_module_level=True)

sys.path.append(str(ROOT / "benchmarks"))

from overhead import overhead, package_calls
from steps import BASELINE

# Maximum operations in inference, plain and padded, and maximum calls of Python
# functions, plain and padded, in units of those of MultiHeadAttention.
LIMITS = {
    "V": (1.1, 1.15, 1.1, 1.15),
    "R": (0.8, 1.2, 0.9, 1.0),
    "FR": (0.8, 1.2, 0.95, 1.05),
    "D": (1.3, 1.3, 1.1, 1.2),
    "R+V": (1.6, 1.6, 1.4, 1.5),
    "D+V": (1.8, 1.8, 1.5, 1.6),
    "local(window=16)": (2, 2, 2, 2),
    "longformer(window=16)": (3, 3.2, 3, 3),
}


@pytest.fixture(scope="module")
def floor():
    return overhead(BASELINE)


@pytest.mark.parametrize("name", LIMITS)
def test_layers_dispatch_few_operations(name, floor):
    found = overhead(name)
    ratios = [a / b for a, b in zip(found, floor, strict=True)]
    for place, limit in zip((0, 2, 4, 5), LIMITS[name], strict=True):
        assert ratios[place] <= limit, (name, found, floor)


@pytest.mark.parametrize("name, most", [("R", (27, 150)), ("R+V", (29, 220))])
def test_few_of_the_packages_files_and_functions_run(name, most):
    files, functions, calls = package_calls(name, 9, True, True)
    assert files <= most[0]
    assert files < functions <= calls <= most[1]
