"""What a layer costs before arithmetic, relative to MultiHeadAttention.

Operations that PyTorch dispatches, views left out, in inference, in training
(forward and backward), and both padded, as if on an accelerator; and calls of
Python functions that one small inference makes. On a GPU whose operations run
one by one these, and not arithmetic, decide how long a layer takes. They are
the same on every CPU. On a GPU, or by another PyTorch, a few differ.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --variants R R+V
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import cProfile
import itertools
import pstats
from unittest import mock

import measuring
import steps
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from keras_synth._backend import execution

VARIANTS = "V R FR D R+V D+V".split()
VARIANTS += ["local(window=16)", "longformer(window=16)"]
OPERATIONS = steps.Cell(4, 256, 64, 4, mask="padded")
CALLS = steps.Cell(1, 8, 8, 2, mask="padded")
# Whether there is padding, and whether there are gradients.
KINDS = [*itertools.product((False, True), (False, True))]


def step_of(name, cell, is_padded, is_training):
    """Returns a function without arguments that calls a layer once."""
    longest = max(cell.length, 32)  # for windows
    layer = steps.layer_of(name, cell._replace(length=longest))
    x = cell.inputs().clone()
    arguments = {}
    if is_padded:
        # As Keras hands it over: embeddings made it a tensor.
        arguments["value_mask"] = torch.from_numpy(cell.padding())
    if name == steps.BASELINE:
        arguments["value"] = x
    layer(x, **arguments)
    weights = [w.value for w in layer.trainable_variables]
    layer.requires_grad_(is_training)

    def step():
        with torch.set_grad_enabled(is_training):
            output = layer(x, **arguments)
            if is_training:
                torch.autograd.grad(output.sum(), weights)

    return step


def _elsewhere():
    """Lets layers compute as on an accelerator."""
    return mock.patch.object(execution, "on_cpu", _nowhere)


def _nowhere(x):  # a mock's own calls would be counted
    return False


def operations(name, is_padded, is_training):
    """Returns the names of the operations dispatched."""
    step = step_of(name, OPERATIONS, is_padded, is_training)
    with _elsewhere():
        step()
        with _Recorder() as recorder, _OneKernel(recorder):
            step()
    return recorder.names


def calls(name, is_padded):
    """Returns how many functions one small inference calls."""
    step = step_of(name, CALLS, is_padded, False)
    profile = cProfile.Profile()
    with _elsewhere():
        step()
        profile.runcall(step)
    return pstats.Stats(profile).total_calls


def overhead(name):
    """Returns the operations of all `KINDS`, then calls, plain and padded."""
    counts = [len(operations(name, *kind)) for kind in KINDS]
    return [*counts, calls(name, False), calls(name, True)]


class _Recorder(TorchDispatchMode):
    """Notes what is computed: views compute nothing."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        # This one is a view, too, which promises not to be one.
        other = torch.ops.aten._unsafe_view.default
        if not function.is_view and function is not other:
            self.names.append(str(function.overloadpacket))
        return function(*args, **(kwargs or {}))


class _OneKernel(TorchFunctionMode):
    """Counts attention as one where a CPU has no kernel for it."""

    def __init__(self, recorder):
        super().__init__()
        self._names = recorder.names

    def __torch_function__(self, function, types, args=(), kwargs=None):
        before = len(self._names)
        found = function(*args, **(kwargs or {}))
        if function is torch.nn.functional.scaled_dot_product_attention:
            own = self._names[before:]
            if "aten._safe_softmax" in own:
                self._names[before:] = ["scaled_dot_product_attention"]
        return found


def main():
    parser = measuring.options(__doc__, variants=VARIANTS)
    settings = parser.parse_args()
    steps.check(parser, settings.variants)
    floor = overhead(steps.BASELINE)
    rows = [[steps.BASELINE, *floor]]
    for name in settings.variants:
        *counts, plain, padded = overhead(name)
        pairs = zip((plain, padded), floor[-2:], strict=True)
        ratios = [f"{a} ({a / b:.2f})" for a, b in pairs]
        rows.append([name, *counts, *ratios])
    heads = ["inference", "training", "padded", "training, padded"]
    heads = ["", *heads, "calls", "calls, padded"]
    measuring.print_table("Operations, and calls of Python", heads, rows)


if __name__ == "__main__":
    main()
