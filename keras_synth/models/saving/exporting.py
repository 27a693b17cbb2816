"""Exports, with open sizes where a format supports them."""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_synth import routes
from keras_synth._backend.execution import without_gradients
from keras_synth._backend.internals import sublayers
from keras_synth.attention.masks import finite_padding
from keras_synth.models.preprocessors.checks import limit_of
from keras_synth.types import FilePath, Tensor

BATCH = "batch"
# Whether a file can leave the batch size and the lengths open, and the reason
# if it cannot leave both.
OPEN = {
    ("onnx", "jax"): (set(), "jax2onnx writes only fixed shapes"),
    ("litert", "tensorflow"): (
        {BATCH},
        "the file contains fixed shapes",
    ),
    ("litert", "torch"): (set(), "litert-torch writes only fixed shapes"),
}
MASKED = "mask_positions"
# Formats that a backend cannot write, and what to do instead.
IMPOSSIBLE = {
    ("openvino", "jax"): 'OpenVINO reads the files of format="onnx"',
    ("openvino", "torch"): 'OpenVINO reads the files of format="onnx"',
    ("tf_saved_model", "torch"): (
        "save the model, load it under TensorFlow or JAX, and export it there"
    ),
}


class Axis(NamedTuple):
    """An axis of an input: its size, or `None`, and its maximum."""

    name: str
    size: int | None
    most: int | None = None


def export(
    model: keras.Model,
    write: Callable[..., None],
    filepath: FilePath,
    format: str,
    verbose: bool | None,
    input_signature: Any,
    **kwargs: Any,
) -> None:
    """Implements `ModelMixin.export` by the `export` of the base class."""
    backend = keras.backend.backend()
    if (format, backend) in IMPOSSIBLE:
        raise ValueError(
            f'format="{format}" cannot be written on {backend}: '
            f"{IMPOSSIBLE[format, backend]}. Received: format={format!r}"
        )
    _check_numbers(model, format, backend)
    specs = _specs(model, input_signature)
    inputs = {name: _axes(model, name, x.shape) for name, x in specs.items()}
    is_open = _open(inputs)
    allowed, reason = OPEN.get((format, backend), (is_open, ""))
    if MASKED in inputs and backend == "torch":  # KerasHub's `take_along_dim`
        allowed = set()
        reason = "PyTorch records a gather of masked tokens for fixed shapes"
    _check_open(format, backend, inputs, allowed, reason)
    if format == "tf_saved_model" and backend == "jax":
        kwargs["jax2tf_kwargs"] = {
            **_polymorphic(inputs),
            "with_gradient": False,
            **(kwargs.get("jax2tf_kwargs") or {}),
        }
    if format == "torch" and is_open and "dynamic_shapes" not in kwargs:
        kwargs["dynamic_shapes"] = [(_dynamic(inputs),)]
        specs = _filled(specs, inputs)
    with contextlib.ExitStack() as stack:
        stack.enter_context(finite_padding())
        if format != "tf_saved_model":
            stack.enter_context(routes.portable())
            stack.enter_context(without_gradients())
        if not verbose:
            stack.enter_context(_quiet())
        if format == "onnx" and backend == "torch" and is_open:
            _export_onnx(model, filepath, verbose, inputs, specs, **kwargs)
            return
        write(
            os.fspath(filepath),
            format=format,
            verbose=verbose,
            input_signature=[specs],
            **kwargs,
        )
    if format == "onnx":
        _check_operations(filepath, backend)


def _check_numbers(model, format, backend):
    """Raises if files of a format would not run a model's numbers."""
    parts = sublayers(model)
    if format in ("onnx", "openvino") and any(
        part.compute_dtype == "bfloat16" for part in parts
    ):
        raise ValueError(
            f'format="{format}" cannot contain bfloat16: its runtimes lack '
            "some operations. Save a preset, load it by "
            'from_preset(preset, dtype="float32"), and export that model. '
            "Received: layers that compute in bfloat16"
        )
    modes = {part.quantization_mode for part in parts} & {"int8", "int4"}
    if (format, backend) == ("onnx", "torch") and modes:
        raise ValueError(
            'format="onnx" on torch cannot contain Keras\' quantized layers: '
            "ONNX Runtime does not load the file. Export the model before "
            "`quantize`, and quantize the file with onnxruntime.quantization. "
            "Or load the .keras file under TensorFlow, and export it there. "
            f"Received: layers quantized to {', '.join(sorted(modes))}"
        )


def _check_operations(filepath, backend):
    """Deletes a file with operations that ONNX lacks, and raises."""
    import onnx

    try:
        onnx.checker.check_model(os.fspath(filepath))
    except onnx.checker.ValidationError as error:
        os.remove(filepath)
        raise ValueError(
            f'format="onnx" on {backend} cannot contain this model: its '
            "converter lacks an operation. Save the model, load it under "
            "PyTorch, and export it there. "
            f"Received: {str(error).splitlines()[0]}"
        ) from error


@contextlib.contextmanager
def _quiet():
    """Hides what PyTorch reports about each export, also a correct one."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        for start in (r"`isinstance\(treespec, Leaf", "# The axis name: "):
            warnings.filterwarnings("ignore", message=start)
        logger.setLevel(logging.ERROR)  # hides that torchvision is missing
        try:
            yield
        finally:
            logger.setLevel(level)


def _specs(model, signature):
    """The specs of all inputs by name, by default with open sizes."""
    given = model.input if signature is None else signature
    if isinstance(given, (list, tuple)) and len(given) == 1:
        (given,) = given
    if not isinstance(given, dict) or {*given} != {*model.input}:
        raise ValueError(
            "`input_signature` must be a list with one dictionary of the "
            f"model's inputs, {sorted(model.input)}. Received: "
            f"input_signature={signature!r}"
        )
    return {
        name: keras.InputSpec(
            shape=tuple(spec.shape),
            dtype=keras.backend.standardize_dtype(spec.dtype),
            name=name,
        )
        for name, spec in sorted(given.items())
    }


def _axes(model, name, shape):
    if len(shape) != 2:
        raise ValueError(
            f"The shape of {name!r} must be (batch, length), with None for "
            f"open sizes. Received: shape={shape}"
        )
    batch, length = shape
    if name == MASKED:
        return Axis(BATCH, batch), Axis("masked", length)
    backbone = getattr(model, "backbone", model)
    limit = limit_of(name)
    longest = getattr(backbone, limit)
    if length is not None and length > longest:
        raise ValueError(
            f"{name!r} must have at most {longest} tokens, the limit of the "
            "backbone. Export a shorter length, or use a backbone with a "
            f"larger {limit}. Received: shape={shape}"
        )
    side = name.split("_")[0]
    axis = f"{side}_length" if side in ("encoder", "decoder") else "length"
    return Axis(BATCH, batch), Axis(axis, length, longest)


def _open(inputs):
    """The names of axes with open sizes."""
    return {
        axis.name for axes in inputs.values() for axis in axes if not axis.size
    }


def _check_open(format, backend, inputs, allowed, reason):
    """Raises if other axes are open than those that a file allows."""
    wrong = _open(inputs) - allowed
    if not wrong:
        return
    axes = [axis for axes in inputs.values() for axis in axes]
    length = min(128, *(axis.most for axis in axes if axis.most))
    example = (None if allowed else 8, length)
    sizes = [tuple(axis.size for axis in axes) for axes in inputs.values()]
    raise ValueError(
        f'format="{format}" on {backend} cannot leave open '
        f"{sorted(wrong)}: {reason}. Fix sizes by "
        f"input_signature=[{{name: keras.InputSpec(shape={example}, "
        f"dtype='int32', name=name) for name in {(*inputs,)}}}], "
        f"and pad inputs to them. Received: shapes={sizes}"
    )


def _polymorphic(inputs):
    """Arguments of `jax2tf.convert` for open sizes."""
    shapes = {
        name: f"({', '.join(str(axis.size or axis.name) for axis in axes)})"
        for name, axes in inputs.items()
    }
    constraints = {
        f"{axis.name} <= {axis.most}"
        for axes in inputs.values()
        for axis in axes
        if axis.most and not axis.size
    }
    return {
        "polymorphic_shapes": [shapes],
        "polymorphic_constraints": tuple(sorted(constraints)),
    }


def _dynamic(inputs):
    """The `dynamic_shapes` of `torch.export`."""
    axes = {axis.name: axis for axes in inputs.values() for axis in axes}
    make = sys.modules["torch"].export.Dim
    made = {name: make(name, max=axis.most) for name, axis in axes.items()}
    return {
        name: {
            i: made[axis.name] for i, axis in enumerate(axes) if not axis.size
        }
        for name, axes in inputs.items()
    }


def _filled(specs, inputs):
    """Specs with a size for each open axis, for the recording.

    Sizes differ from each other and from 1, because PyTorch identifies equal
    sizes, and treats 1 as a constant.
    """
    sizes: dict[str, int] = {}
    for axes in inputs.values():
        for axis in axes:
            size = 2 + len(sizes)
            sizes.setdefault(axis.name, min(size, axis.most or size))
    return {
        name: keras.InputSpec(
            shape=tuple(axis.size or sizes[axis.name] for axis in inputs[name]),
            dtype=spec.dtype,
            name=name,
        )
        for name, spec in specs.items()
    }


def _export_onnx(model, filepath, verbose, inputs, specs, opset_version=None):
    """Exports PyTorch to ONNX with open sizes, which Keras records as 1."""
    torch = sys.modules["torch"]
    names = [*specs]

    class Flat(torch.nn.Module):
        """The model as a function of tensors, which ONNX names."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs: Tensor) -> Tensor:
            return self.model(dict(zip(names, inputs, strict=True)))

    program = torch.onnx.export(
        Flat().eval(),
        tuple(
            keras.ops.ones(spec.shape, spec.dtype)
            for spec in _filled(specs, inputs).values()
        ),
        dynamo=True,
        verbose=bool(verbose),
        opset_version=opset_version,
        input_names=names,
        dynamic_shapes=(tuple(_dynamic(inputs).values()),),
    )
    # PyTorch fixes a size that the model reads as a number, without an error.
    made = dict(zip(names, program.model.graph.inputs, strict=True))
    fixed = {
        axis.name
        for name, axes in inputs.items()
        for axis, size in zip(axes, made[name].shape, strict=True)
        if isinstance(size, int)
    }
    reason = "PyTorch records these sizes of this model as numbers"
    _check_open("onnx", "torch", inputs, _open(inputs) - fixed, reason)
    program.save(os.fspath(filepath))
    if verbose or verbose is None:
        print(f"Saved artifact at '{filepath}'.")
