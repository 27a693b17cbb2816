"""`fold(plain=True)`: a model of stock Keras layers and operations."""

import functools
import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth._backend.internals import keras_mask, set_keras_mask, sublayers
from keras_synth.folding.plain_masks import attach_mask, masks_of_call
from keras_synth.folding.products import product_of
from keras_synth.folding.synthesizers import (
    constant_logits,
    copy_variables,
    copy_vocabulary,
    form_of,
)
from keras_synth.synthesizers import Synthesizer
from keras_synth.types import Tensor

# An input whose length counts hidden tokens, not those of a sequence.
_NOT_TOKENS = "mask_positions"


def plain_model(model: keras.Layer, max_length: int | None) -> keras.Model:
    """Returns a folded layer or model as a model of stock layers.

    All sequences have `max_length` tokens, by default the model's own.
    """
    if max_length is None:
        backbone = getattr(model, "backbone", model)
        for name in ("max_sequence_length", "max_length"):
            max_length = max_length or getattr(backbone, name, None)
    if not isinstance(model, keras.Model):
        config = model.get_build_config()
        shapes = config.get("shapes_dict", config)
        shapes = {tuple(x) for x in shapes.values() if x is not None}
        if len(shapes) > 1:
            raise ValueError(
                "The plain form of a layer reads one sequence. Make a "
                "functional model with an input for each, and fold that. "
                f"Received: {model!r}, built for shapes {[*shapes]}"
            )
        x = keras.Input(shapes.pop()[1:])
        model = keras.Model(x, model(x), name=model.name)
    has_one = isinstance(model, keras.Sequential)
    inputs = keras.tree.map_structure(
        lambda x: _input(x, max_length),
        model.inputs[0] if has_one else model.input,
    )
    for layer in (model, *sublayers(model)):
        for named in (layer, *getattr(layer, "operations", ())):
            _reserve(_flat_name(named))
    flat = keras.tree.flatten(inputs)
    graph = Graph(flat[0])
    graph._names |= {x.name for x in flat}
    plain = keras.Model(inputs, graph.call(model, inputs), name=model.name)
    plain.trainable = False
    return plain


def _flat_name(layer):
    path = getattr(layer, "path", None) or layer.name
    return path.replace("/", "_")


def _reserve(name):
    """Keeps Keras from naming new operations like a layer of a loaded model."""
    prefix, number = re.fullmatch(r"(.+?)(?:_(\d{1,4}))?", name).groups()
    while keras.backend.get_uid(prefix) <= int(number or 0):
        pass


def _input(x, max_length):
    """An input like `x`, with a known length."""
    batch, *others = x.shape
    if others[:1] == [None] and x.name != _NOT_TOKENS:
        if max_length is None:
            raise ValueError(
                "All sequences of a plain model have the same length. Specify "
                "it, as in fold(model, max_length=128, plain=True). Received: "
                f"max_length=None, and an input of shape {tuple(x.shape)}"
            )
        others[0] = max_length
    shape = (batch, *others)
    return keras.Input(batch_shape=shape, dtype=x.dtype, name=x.name)


def check_plain(model: keras.Layer) -> None:
    """Raises unless the class of a model has a plain form."""
    if callable(getattr(model, "generate", None)):
        raise ValueError(
            f"{type(model).__name__} generates text with a cache, which stock "
            "layers do not have. Fold it without `plain=True`, or pass its "
            f"`backbone`, whose outputs are hidden states. Received: {model!r}"
        )
    for layer in (model, *sublayers(model)):
        if getattr(layer, "quantization_mode", None) is not None:
            raise ValueError(
                "A quantized model has no plain form. Make the plain model "
                "before `quantize`, and quantize that one. Received: "
                f"{layer.path} in mode {layer.quantization_mode!r}"
            )


class Graph:
    """A plain graph under construction, an argument of `plain_layer`.

    Args:
        x: Symbolic tensor, an input of the model.

    Example:

    >>> x = keras.Input((10, 8))
    >>> graph = keras_synth.folding.Graph(x)
    >>> graph.product("bsd,ts->btd", x, np.eye(10)).shape
    (None, 10, 8)
    """

    def __init__(self, x: Tensor) -> None:
        self._x = x
        self._functions: dict[int, Callable[..., Any]] = {}
        self._copies: dict[Any, Any] = {}  # by the `id` of the replaced layer
        self._constants: dict[Any, Tensor] = {}
        self._names: set[str] = set()

    def call(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the plain form of a layer, or of an operation.

        Args:
            layer: Layer with weights, or operation. Each is made once.
            *args: Its arguments, symbolic tensors and constant arrays.
            **kwargs: Its keyword arguments.

        Returns:
            Symbolic tensors, or an array if the result is constant.
        """
        if id(layer) not in self._functions:
            form = form_of(layer, plain_layer)
            self._functions[id(layer)] = form(layer, self)
        outputs = self._functions[id(layer)](*args, **kwargs)
        if _is_ours(type(layer)) and getattr(layer, "supports_masking", False):
            # Like Keras for stock layers.
            mask = keras_mask(args[0]) if args else None
            if mask is not None and hasattr(outputs, "shape"):
                set_keras_mask(outputs, mask)
        return outputs

    def inlined(
        self,
        model: keras.Model,
        inputs: Any,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Calls the plain forms of the layers of a model, one by one.

        A layer that is shared with a model around it stays shared in files.
        """
        if mask is not None:
            keras.tree.map_structure(set_keras_mask, inputs, mask)
        if isinstance(model, keras.Sequential):
            for layer in model.layers:
                inputs = self.call(layer, inputs)
            return inputs
        if not hasattr(model, "operations"):
            raise ValueError(
                "Only functional and Sequential models, and models of this "
                "package, have a plain form. Write the model as "
                f"`keras.Model(inputs, outputs)`. Received: {model!r}"
            )
        ends = keras.tree.map_structure(lambda _: _End(), model.output)
        outputs = keras.tree.map_structure(
            lambda end, x: end(x), ends, model.output
        )
        places = keras.tree.map_structure(
            lambda x: keras.Input(
                x.shape[1:], x.shape[0], x.dtype, name=x.name
            ),
            model.input,
        )
        pairs = map(keras.tree.flatten, (places, inputs))
        at = {id(place): x for place, x in zip(*pairs, strict=True)}
        found: dict[int, Any] = {}

        def call(operation, *args, **kwargs):
            args, kwargs = keras.tree.map_structure(
                lambda x: at.get(id(x), x), (args, kwargs)
            )
            if not isinstance(operation, _End):
                return self.call(operation, *args, **kwargs)
            (found[id(operation)],) = args
            return keras.tree.flatten(places)[0]  # for the clone, unused

        keras.models.clone_model(
            keras.Model(model.input, outputs),
            input_tensors=places,
            clone_function=lambda operation: operation,
            call_function=call,
        )
        return keras.tree.map_structure(lambda end: found[id(end)], ends)

    def copy(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls a copy of a stock layer or operation.

        Args:
            layer: The original, with config and weights.
            *args: Arguments of its call.
            **kwargs: Keyword arguments of its call.
        """
        copy = self._copies.get(id(layer))
        is_new = copy is None
        if is_new:
            config = {**layer.get_config(), "name": self._name(layer)}
            copy = self._copies[id(layer)] = _stock(layer).from_config(config)
            copy_vocabulary(layer, copy)
        args, kwargs = keras.tree.map_structure(
            lambda x: self.constant(x) if isinstance(x, np.ndarray) else x,
            (args, kwargs),
        )
        if not isinstance(layer, keras.Layer):
            return copy(*args, **kwargs)
        kwargs = kwargs | masks_of_call(copy, args, kwargs)
        outputs = copy(*args, **kwargs)
        if is_new:
            copy_variables(layer, copy)
        attach_mask(outputs, copy, args, kwargs)
        return outputs

    def _name(self, layer):
        """A unique name for a layer."""
        name, number = _flat_name(layer), 0
        while name in self._names:
            number += 1
            name = f"{_flat_name(layer)}_{number}"
        self._names.add(name)
        return name

    def constant(self, value: Any) -> Tensor:
        """Returns an array as a tensor, a weight of a stock layer.

        Keras would write it as text into the config of the model. An array is
        the row of an `Embedding`. A number is the weight of a `PReLU`, which
        `quantize` and converters do not round to integers.
        """
        value = np.ascontiguousarray(value, "float32")
        key = value.shape, value.tobytes()
        if key not in self._constants:
            if value.size == 1:
                layer = keras.layers.PReLU(dtype="float32")
                flat = layer(ops.cast(self._zero(), "float32") - 1.0)
                layer.set_weights([-value.reshape(1)])
            else:
                layer = keras.layers.Embedding(1, value.size, dtype="float32")
                flat = layer(self._zero()[:, 0])
                layer.set_weights([value.reshape(1, -1)])
            self._constants[key] = ops.reshape(flat, value.shape)
        return self._constants[key]

    def _zero(self):
        """A symbolic zero, integer `(1, 1)`, for any batch."""
        x = self._x
        if x.dtype == "string":
            x = ops.not_equal(x, x)
        zeros = ops.cast(ops.zeros_like(x), "int32")
        return ops.reshape(ops.sum(zeros), (1, 1))

    def product(
        self,
        equation: str,
        x: Tensor,
        kernel: Any,
        bias: Any = None,
        like: Any = None,
    ) -> Tensor:
        """Returns `einsum(equation, x, kernel) + bias` by a stock layer.

        Args:
            equation: String, such as `"bthk,shk->bhts"`.
            x: Tensor.
            kernel: Array, or variable.
            bias: Optional array that broadcasts to the output, `(1, ...)`.
            like: Optional layer with the activation and the name. Each layer
                has one copy.
        """
        key = id(like), x.shape  # an `EinsumDense` has sequences of one length
        if like is None or key not in self._copies:
            self._copies[key] = product_of(
                equation,
                x.shape,
                ops.convert_to_numpy(kernel),
                None if bias is None else ops.convert_to_numpy(bias),
                getattr(like, "activation", None),
                None if like is None else self._name(like),
            )
        return self._copies[key](x)


class _End(keras.Operation):
    """Marks an output of a model."""

    def call(self, x):
        return x

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


@functools.singledispatch
def plain_layer(layer: Tensor, graph: Graph) -> Callable[..., Any]:
    """Returns the plain form of a layer.

    By default, it is a layer of the same class with the same config and
    weights. Register a function for a custom layer class that contains layers
    of this package, or for a custom synthesizer that reads tokens. Register
    derived classes separately.

    Args:
        layer: Layer with weights, already folded.
        graph: `Graph`, which makes stock layers: `graph.call(part, x)`.

    Returns:
        A function of symbolic tensors, with the arguments of the layer's call.
        For a synthesizer, it is a function of the query `(B, T, d)` and the
        source `(B, S, d)`. It returns a list whose sum is the logits: tensors
        `(B, H, T, S)`, and arrays `(H, T, S)` for constants.

    Raises:
        ValueError: If the layer has no plain form.

    Example:

    >>> class Tripled(keras.layers.Wrapper):  # the wrapped one is `layer`
    ...     def call(self, x):
    ...         return 3 * self.layer(x)
    >>> @keras_synth.folding.plain_layer.register(Tripled)
    ... def plain_tripled(layer, graph):
    ...     return lambda x: 3 * graph.call(layer.layer, x)
    """
    if isinstance(layer, keras.Model):
        return functools.partial(graph.inlined, layer)
    if isinstance(layer, Synthesizer) and not layer.reads_tokens:
        return lambda query, source: [
            constant_logits(layer, query.shape[1], source.shape[1])
        ]
    parts = sublayers(layer) if isinstance(layer, keras.Layer) else []
    bad = [x for x in (layer, *parts) if _is_refused(x)]
    bad += [x for x in parts if _is_ours(type(x))]
    if bad:
        name = type(layer).__name__
        raise ValueError(
            f"{type(bad[0]).__name__} has no plain form. Use another class, or "
            "fold without `plain=True`. For a custom class, register a "
            f"function: `@keras_synth.folding.plain_layer.register({name})`. "
            f"Received: {layer!r}"
        )
    return functools.partial(graph.copy, layer)


def _is_ours(cls):
    return cls.__module__.split(".")[0] == "keras_synth"


def _stock(layer):
    """The base class of a variant in this package, or the own class."""
    return next(c for c in type(layer).__mro__ if not _is_ours(c))


def _is_refused(layer):
    stock = _stock(layer)
    return stock is keras.layers.Layer or any(map(_is_ours, stock.__mro__))
