"""What a layer costs before arithmetic, beside MultiHeadAttention.

Operations that PyTorch dispatches, views left out, in inference, in training
(forward and backward), and both padded, as if on an accelerator; and calls of
Python functions that one small inference makes. On a GPU whose operations run
one by one these, and not arithmetic, decide how long a layer takes. They are
the same on every machine.

`--package` counts the package's own Python on a CPU: the files of which
functions run, these functions, and their calls.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --variants V R --listing
    python benchmarks/overhead.py --variants R R+V --package
"""

import argparse
import collections
import os

os.environ["KERAS_BACKEND"] = "torch"

import cProfile
import pathlib
import pstats
import sys
import threading
from typing import NamedTuple
from unittest import mock

import command
import contenders
import keras
import torch
from rich.console import Console
from rich.table import Table
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import keras_synth
from keras_synth import mixers
from keras_synth._backend import execution

BASELINE = "MultiHeadAttention"
VARIANTS = "V R FR D R+V D+V".split()
VARIANTS += ["local(window=16)", "longformer(window=16)"]
OPERATIONS = contenders.Cell(4, 256, 64, 4, "float32", "padded")
CALLS = contenders.Cell(1, 8, 8, 2, "float32", "padded")
PACKAGE = str(pathlib.Path(keras_synth.__file__).parent)
LENGTHS = (9, 1024)  # in tokens; long sequences are computed in pieces


class Overhead(NamedTuple):
    """What one layer takes.

    Fields:
        operations: Integers: inference, training, both padded.
        calls: Integers: inference plain and padded.
    """

    operations: tuple[int, ...]
    calls: tuple[int, ...]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = command.adder(parser)
    add("--variants", nargs="+", default=VARIANTS)
    add(
        "--listing",
        action="store_true",
        help="print the operations, or calls, by name",
    )
    add(
        "--package",
        action="store_true",
        help="count files, functions and calls of this package",
    )
    args = command.parse(parser)
    contenders.check(parser, args.variants)
    if args.listing:
        for name in [BASELINE, *args.variants]:
            print_listing(name)
        return
    if args.package:
        Console().print(package_table(args.variants))
        return
    Console().print(table({n: overhead(n) for n in [BASELINE, *args.variants]}))


def table(found):
    """Counts of all layers; calls as ratios to MultiHeadAttention's."""
    columns = ["inference", "training", "padded", "training, padded"]
    columns += ["calls", "calls, padded"]
    shown = Table("", *columns)
    floor = found[BASELINE].calls
    for name, (operations, calls) in found.items():
        ratios = [
            f"{a} ({a / b:.2f})" for a, b in zip(calls, floor, strict=True)
        ]
        shown.add_row(name, *map(str, operations), *ratios)
    return shown


def overhead(name):
    """Returns the `Overhead` of a layer."""
    return Overhead(
        tuple(len(operations(name, **kind)) for kind in _KINDS),
        tuple(
            calls(name, is_padded).total_calls for is_padded in (False, True)
        ),
    )


_KINDS = [
    {"is_training": False, "is_padded": False},
    {"is_training": True, "is_padded": False},
    {"is_training": False, "is_padded": True},
    {"is_training": True, "is_padded": True},
]


def operations(name, is_training, is_padded):
    """Returns the names of the operations dispatched, as on an accelerator.

    Args:
        name: String, `"MultiHeadAttention"` or what `mixers.get` takes.
        is_training: Whether to compute gradients, too.
        is_padded: Whether there is a padding mask.
    """
    step = _step(name, OPERATIONS, is_training, is_padded)
    with _as_if_on_an_accelerator():
        step()
        with _Recorder() as recorder, _OneKernel(recorder):
            step()
    return recorder.names


def _as_if_on_an_accelerator():
    return mock.patch.object(execution, "on_cpu", _nowhere)


def _nowhere(x):
    return False


def calls(name, is_padded):
    """Returns the profile of one small inference: `pstats.Stats`."""
    step = _step(name, CALLS, False, is_padded)
    profile = cProfile.Profile()
    with _as_if_on_an_accelerator():
        step()
        profile.runcall(step)
    return pstats.Stats(profile)


def package_table(names):
    """Files, functions and calls of the package, for each layer and kind."""
    columns = ["inference", "training", "padded", "training, padded"]
    shown = Table("files / functions / calls", "T", *columns)
    for name in names:
        for length in LENGTHS:
            counts = [package_calls(name, length, **kind) for kind in _KINDS]
            rows = (" / ".join(map(str, count)) for count in counts)
            shown.add_row(name, str(length), *rows)
    return shown


def package_calls(name, length, is_training, is_padded):
    """Counts the package's Python that one call of a layer runs.

    Returns:
        Integers: files of which functions run, functions, and their calls.
    """
    cell = contenders.Cell(2, length, 8, 2, "float32", "padded")
    step = _step(name, cell, is_training, is_padded)
    step()  # what is computed once only is computed here
    found = collections.Counter()

    def count(frame, event, argument):
        code = frame.f_code
        # Comprehensions are functions in some versions of Python only.
        is_function = code.co_name.isidentifier() or "lambda" in code.co_name
        is_own = is_function and code.co_filename.startswith(PACKAGE)
        if event == "call" and is_own:
            found[code] += 1

    threading.setprofile(count)  # those that share the work
    sys.setprofile(count)
    step()
    sys.setprofile(None)
    threading.setprofile(None)
    files = {code.co_filename for code in found}
    return len(files), len(found), found.total()


def _step(name, cell, is_training, is_padded):
    """Returns a function without arguments that calls a layer once."""
    layer = _made(name, cell)
    x = torch.from_numpy(cell.inputs().numpy(force=True)).clone()
    arguments = {}
    if is_padded:
        # As Keras hands it over: embeddings made it a tensor.
        arguments["value_mask"] = torch.from_numpy(cell.padding())
    if not isinstance(layer, mixers.Mixer):
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


def _made(name, cell):
    sizes = {"num_heads": cell.heads, "key_dim": cell.width // cell.heads}
    if name == BASELINE:
        return keras.layers.MultiHeadAttention(**sizes)
    return mixers.get(name, max_length=max(cell.length, 32), **sizes)


_UNSAFE_VIEW = torch.ops.aten._unsafe_view.default


class _Recorder(TorchDispatchMode):
    """Notes what is computed: views compute nothing."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        # The second one is a view, too, which promises not to be one.
        if not function.is_view and function is not _UNSAFE_VIEW:
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


def print_listing(name):
    for kind in _KINDS:
        found = collections.Counter(operations(name, **kind))
        print(name, kind, sum(found.values()))
        for operation, number in found.most_common():
            print(f"    {number:4} {operation}")
    for is_padded in (False, True):
        print(name, "calls", "padded" if is_padded else "plain")
        calls(name, is_padded).sort_stats("ncalls").print_stats(25)


if __name__ == "__main__":
    main()
