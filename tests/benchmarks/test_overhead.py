"""Layers dispatch about as many operations as MultiHeadAttention."""

import collections
import sys
import threading

import keras
import pytest
from backend import on_cpu
from places import ROOT

if keras.backend.backend() != "torch" or not on_cpu():
    pytest.skip("counts PyTorch's operations", allow_module_level=True)

from overhead import overhead, step_of
from steps import BASELINE, Cell

# Maximum operations in inference, plain and padded, and maximum calls of Python
# functions, plain and padded, in units of those of MultiHeadAttention.
LIMITS = {
    "V": (1.1, 1.15, 0.75, 0.85),
    "R": (0.8, 1.2, 0.75, 0.9),
    "FR": (0.8, 1.2, 0.65, 0.75),
    "D": (1.3, 1.3, 0.75, 0.85),
    "R+V": (1.6, 1.6, 0.9, 1.05),
    "D+V": (1.8, 1.8, 1.1, 1.2),
    "local(window=16)": (2, 2, 0.85, 1),
    "longformer(window=16)": (3, 3.2, 1.25, 1.5),
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


@pytest.mark.parametrize("name, most", [("R", (28, 150)), ("R+V", (30, 220))])
def test_few_of_the_packages_files_and_functions_run(name, most):
    step = step_of(name, Cell(2, 9, 8, 2, mask="padded"), True, True)
    step()  # computes what is computed once only
    found = collections.Counter()

    def count(frame, event, argument):
        code = frame.f_code
        # Comprehensions are functions in some versions of Python only.
        is_function = code.co_name.isidentifier() or "lambda" in code.co_name
        is_own = code.co_filename.startswith(f"{ROOT / 'keras_synth'}")
        if event == "call" and is_function and is_own:
            found[code] += 1

    threading.setprofile(count)  # those that share the work
    sys.setprofile(count)
    step()
    sys.setprofile(None)
    threading.setprofile(None)
    files = {code.co_filename for code in found}
    assert len(files) <= most[0]
    assert len(files) < len(found) <= found.total() <= most[1]
