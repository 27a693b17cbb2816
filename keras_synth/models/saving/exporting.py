"""Exports: open sizes, by format, and how each format takes them."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import keras

from keras_synth import routes
from keras_synth.types import FilePath, Tensor

BATCH = "batch"

# Which of the batch size and the lengths a file can leave open, and why no
# more, where it is not both of them.
OPEN = {
    ("onnx", "jax"): (set(), "jax2onnx writes it down for the shapes given"),
    ("litert", "tensorflow"): (
        {BATCH},
        "the file holds the shapes of what is computed",
    ),
    ("litert", "torch"): (set(), "litert-torch writes fixed shapes alone"),
}
# Of masked models on PyTorch, by the `take_along_dim` of KerasHub's head.
MASKED = "mask_positions"
MASKED_LIMITS: tuple[set[str], str] = (
    set(),
    "PyTorch records how masked tokens are gathered as it is",
)
# What a backend does not write, and the way out.
IMPOSSIBLE = {
    ("openvino", "jax"): 'OpenVINO reads the files of format="onnx"',
    ("openvino", "torch"): 'OpenVINO reads the files of format="onnx"',
    ("tf_saved_model", "torch"): (
        "save the model, load it under TensorFlow or JAX, and export it there"
    ),
}


def export(
    model: keras.Model,
    write: Callable[..., None],
    filepath: FilePath,
    format: str,
    verbose: bool | None,
    input_signature: Any,
    **kwargs: Any,
) -> None:
    """Exports a model whose inputs are token ids and masks.

    Args:
        model: A backbone or a task.
        write: Its base class' `export`.
        filepath: As for `ModelMixin.export`, as are the others.
        format: See there.
        verbose: See there.
        input_signature: See there.
        **kwargs: See there.
    """
    backend = keras.backend.backend()
    if (format, backend) in IMPOSSIBLE:
        raise ValueError(
            f'format="{format}" cannot be written on {backend}: '
            f"{IMPOSSIBLE[format, backend]}. Received: format={format!r}"
        )
    specs = _specs(model, input_signature)
    axes = {name: _axes(model, name, spec) for name, spec in specs.items()}
    for name, spec in specs.items():
        _check_length(name, spec, axes[name])
    _check_open(format, backend, specs, axes)
    signature = [specs]
    branches = format == "tf_saved_model"
    plain = contextlib.nullcontext() if branches else routes.portable()
    is_open = any(None in spec.shape for spec in specs.values())
    if format == "tf_saved_model" and backend == "jax":
        kwargs["jax2tf_kwargs"] = {
            **_polymorphic(axes, specs),
            "with_gradient": False,
            **(kwargs.get("jax2tf_kwargs") or {}),
        }
    if format == "torch" and is_open and "dynamic_shapes" not in kwargs:
        kwargs["dynamic_shapes"] = [(_dynamic(axes, specs),)]
        signature = [_filled(specs, axes)]
    with plain:
        if format == "onnx" and backend == "torch" and is_open:
            _export_onnx(model, filepath, verbose, axes, specs, **kwargs)
            return
        write(
            os.fspath(filepath),
            format=format,
            verbose=verbose,
            input_signature=signature,
            **kwargs,
        )


def _specs(model, signature):
    """What is given, or all inputs with open sizes: a dictionary."""
    if signature is None:
        given = model.input
    else:
        alone = isinstance(signature, (list, tuple)) and len(signature) == 1
        given = signature[0] if alone else signature
    if not isinstance(given, dict) or {*given} != {*model.input}:
        raise ValueError(
            "`input_signature` must be a list of one dictionary with the "
            f"model's inputs, {sorted(model.input)}. "
            f"Received: input_signature={signature!r}"
        )
    return {
        name: keras.InputSpec(
            shape=tuple(spec.shape),
            dtype=keras.backend.standardize_dtype(spec.dtype),
            name=name,
        )
        for name, spec in sorted(given.items())
    }


def _axes(model, name, spec):
    """Names of an input's axes, and the most that they can be: a dictionary."""
    if name == MASKED:
        return {BATCH: None, "masked": None}
    backbone = getattr(model, "backbone", model)
    longest = backbone.max_sequence_length
    side = name.split("_")[0]
    if side not in ("encoder", "decoder"):
        return {BATCH: None, "length": longest}
    if side == "decoder":
        longest = backbone.max_decoder_length
    return {BATCH: None, f"{side}_length": longest}


def _check_length(name, spec, axes):
    longest = [*axes.values()][1]
    if len(spec.shape) != 2:
        raise ValueError(
            f"The shape of {name!r} must be (batch, length), None for what is "
            f"to stay open. Received: shape={spec.shape}"
        )
    length = spec.shape[1]
    if None not in (longest, length) and length > longest:
        raise ValueError(
            f"{name!r} must not be longer than the backbone allows, {longest} "
            "tokens. Export a shorter length, or build the backbone with a "
            f"larger max_sequence_length. Received: shape={spec.shape}"
        )


def _check_open(format, backend, specs, axes):
    """Raises if a file cannot leave open what is open."""
    limits = OPEN.get((format, backend))
    if MASKED in specs and backend == "torch":
        limits = MASKED_LIMITS
    if limits is None:
        return
    allowed, reason = limits
    wanted = {
        axis
        for name, spec in specs.items()
        for axis, size in zip(axes[name], spec.shape, strict=True)
        if size is None
    }
    if not wanted <= allowed:
        example = "(None, 128)" if allowed else "(8, 128)"
        names = ", ".join(map(repr, specs))
        raise ValueError(
            f'format="{format}" on {backend} cannot leave open '
            f"{sorted(wanted - allowed)}: {reason}. Fix it by "
            f"input_signature=[{{name: keras.InputSpec(shape={example}, "
            f"dtype='int32', name=name) for name in ({names})}}], and pad to "
            f"that. Received: shapes={[spec.shape for spec in specs.values()]}"
        )


def _polymorphic(axes, specs):
    """Arguments of `jax2tf.convert` for open sizes."""
    shapes, constraints = {}, set()
    for name, spec in specs.items():
        sizes = []
        for (axis, most), size in zip(
            axes[name].items(), spec.shape, strict=True
        ):
            sizes.append(axis if size is None else str(size))
            if size is None and most is not None:
                constraints.add(f"{axis} <= {most}")
        shapes[name] = f"({', '.join(sizes)})"
    return {
        "polymorphic_shapes": [shapes],
        "polymorphic_constraints": tuple(sorted(constraints)),
    }


def _dynamic(axes, specs):
    """The `dynamic_shapes` of `torch.export`."""
    make = sys.modules["torch"].export.Dim
    made = {}
    for of_input in axes.values():
        for axis, most in of_input.items():
            made.setdefault(axis, make(axis, max=most))
    return {
        name: {
            i: made[axis]
            for i, (axis, size) in enumerate(
                zip(axes[name], spec.shape, strict=True)
            )
            if size is None
        }
        for name, spec in specs.items()
    }


def _filled(specs, axes):
    """Specs with a size for each open axis, to be recorded with.

    Sizes differ from each other and from 1: PyTorch takes equal ones for the
    same and 1 for a constant.
    """
    sizes = {}
    for of_input in axes.values():
        for axis, most in of_input.items():
            size = 2 + len(sizes)
            sizes.setdefault(axis, size if most is None else min(size, most))
    return {
        name: keras.InputSpec(
            shape=tuple(
                sizes[axis] if size is None else size
                for axis, size in zip(axes[name], spec.shape, strict=True)
            ),
            dtype=spec.dtype,
            name=name,
        )
        for name, spec in specs.items()
    }


def _export_onnx(model, filepath, verbose, axes, specs, opset_version=None):
    """To ONNX from PyTorch, with open sizes, which Keras would record as 1."""
    torch = sys.modules["torch"]
    names = [*specs]

    class Flat(torch.nn.Module):
        """The model as a function of tensors, which ONNX knows by name."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs: Tensor) -> Tensor:
            return self.model(dict(zip(names, inputs, strict=True)))

    model.eval()
    sample = _filled(specs, axes).values()
    program = torch.onnx.export(
        Flat(),
        tuple(keras.ops.ones(spec.shape, spec.dtype) for spec in sample),
        dynamo=True,
        verbose=bool(verbose),
        opset_version=opset_version,
        input_names=names,
        dynamic_shapes=(tuple(_dynamic(axes, specs).values()),),
    )
    program.save(os.fspath(filepath))
    if verbose or verbose is None:
        print(f"Saved artifact at '{filepath}'.")
