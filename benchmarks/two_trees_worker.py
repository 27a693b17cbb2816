"""Answers the cases of `two_trees.py` with the package on its path."""

import contextlib
import copy
import traceback
import warnings

import checkouts
import keras
import numpy as np
from keras import ops

import keras_synth

BACKEND = keras.backend.backend()
OPTIONS = """max_length dtype seed value_dim use_bias sliding_window use_gate
output_shape normalizer flash_attention dropout pattern attention_axes
windows""".split()
SUPPORTS = {
    "attention_mask": "supports_attention_mask",
    "attention_bias": "supports_attention_bias",
    "return_attention_scores": "supports_attention_scores",
    "use_causal_mask": "supports_causal_mask",
}


def answer(case):
    """Names and values of all that is compared, or of a refusal."""
    try:
        with _route(case):
            return Run(case).found()
    except Exception as error:
        return {
            "refusal": type(error).__name__,
            "words": str(error),
            "traceback": traceback.format_exc(),
        }


def _route(case):
    """Prefers one of the checkout's own routes wherever it serves."""
    if "route" not in case:
        return contextlib.nullcontext()
    known = keras_synth.routes.registered()
    route = copy.copy(known[case["route"] % len(known)])
    route.name = f"preferred {route.name}"
    route.cost = lambda request: -1.0
    return keras_synth.routes.using(route)


class Run:
    """A layer as a case describes it, with random weights, and its call."""

    def __init__(self, case):
        self.case = case
        self.rng = np.random.default_rng(case["draw"])
        keras.utils.set_random_seed(case["draw"])
        self.layer = keras_synth.mixers.get(
            case["layer"],
            case["num_heads"],
            case["key_dim"],
            name="layer",
            **{key: case[key] for key in OPTIONS if key in case},
        )
        self.sizes = {"1": 1, "H": case["num_heads"], "S": case["T"], **case}
        lengths = ["T", "S"] if "S" in case else ["T"]
        self.inputs = [self.normal(["B", length, "d"]) for length in lengths]
        self.given = self.arguments()

    def found(self):
        case, layer = self.case, self.layer
        layer.build(*(x.shape for x in self.inputs))
        found = _described(layer)
        if "seed" in case:
            found |= _named("initial weight", [w.value for w in layer.weights])
        for weight in layer.weights:
            if "float" in str(weight.dtype):
                value = self.rng.normal(size=weight.shape)
                weight.assign(case.get("scale", 0.5) * value)
        if case["how"] == "gradients":
            return found | self.gradients()
        if case["how"] == "fold":
            self.layer = keras_synth.fold(layer)
        functions = {"cache": self.chunks, "remember": self.remembered}
        function = functions.get(case["how"], self.outputs)
        tensors = [*map(ops.convert_to_tensor, self.inputs)]
        return found | _named("output", _program(function)(*tensors))

    def normal(self, axes):
        shape = [self.sizes[axis] for axis in axes]
        return self.rng.normal(size=shape).astype("float32")

    def arguments(self):
        """Masks and all else that a call is given, as far as it is supported.

        Where there is padding, inputs become NaN or infinite if the case says
        so, and `self.is_token` tells which rows count.
        """
        case, given, self.is_token = self.case, {}, None
        masks = {"value_mask": "S", "key_mask": "S", "query_mask": "T"}
        for name, length in masks.items():
            if name in case:
                given[name] = self.padding(case[name], ["B", length])
        if "attention_mask" in case:
            given["attention_mask"] = self.normal(case["attention_mask"]) < 0.6
        if "attention_bias" in case:
            bias = given["attention_bias"] = self.normal(case["attention_bias"])
            if "low" in case:
                bias[..., : bias.shape[-1] // 3] = case["low"]
        for name in ("use_causal_mask", "return_attention_scores"):
            if name in case:
                given[name] = case[name]
        keys = [given[x] for x in ("value_mask", "key_mask") if x in given]
        if keys and "nonfinite" in case and case["how"] != "cache":
            real = np.all(keys, axis=0)
            self.inputs[-1][~real] = float(case["nonfinite"])
            self.is_token = real if len(self.inputs) == 1 else None
        unknown = [k for k, x in SUPPORTS.items() if not getattr(self.layer, x)]
        return {k: x for k, x in given.items() if k not in unknown}

    def padding(self, kind, axes):
        if kind == "holes":
            return self.normal(axes) < 0.6
        B, length = (self.sizes[axis] for axis in axes)
        counts = self.rng.integers(1, length + 1, size=(B, 1))
        if kind == "none":  # the first sample is padding only
            counts[0] = 0
        places = np.arange(length)
        return (places[::-1] if kind == "left" else places) < counts

    def outputs(self, *inputs, **changed):
        """Float32 outputs, with zeros where rows do not count."""
        outputs = self.layer(*inputs, **{**self.given, **changed})
        outputs = [ops.cast(x, "float32") for x in keras.tree.flatten(outputs)]
        if self.is_token is None:
            return outputs
        first, *scores = outputs
        shape = (*self.is_token.shape, *[1] * (len(first.shape) - 2))
        rows = ops.where(self.is_token.reshape(shape), first, 0.0)
        rows_of_scores = self.is_token[:, None, :, None]
        return [rows, *(ops.where(rows_of_scores, x, 0.0) for x in scores)]

    def gradients(self):
        """Outputs, and gradients of their product with random numbers."""
        weights, count = self.layer.trainable_variables, len(self.inputs)
        bias = {k: x for k, x in self.given.items() if k == "attention_bias"}
        arrays = [*self.inputs, *bias.values(), *(_array(w) for w in weights)]
        fixed = [(w, w.value) for w in self.layer.non_trainable_variables]

        def loss(*tensors):
            own = dict(zip(bias, tensors[count:], strict=False))
            values = tensors[count + len(bias) :]
            mapping = [*zip(weights, values, strict=True), *fixed]
            with keras.StatelessScope(state_mapping=mapping):
                outputs = self.outputs(*tensors[:count], **own)
            rng, total = np.random.default_rng(0), 0.0
            for x in outputs:
                direction = rng.normal(size=x.shape).astype("float32")
                total += ops.sum(x * ops.convert_to_tensor(direction))
            return total, outputs

        derive = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}
        outputs, gradients = derive[BACKEND](loss, arrays)
        pairs = zip(gradients, arrays, strict=True)
        gradients = [np.zeros_like(x) if g is None else g for g, x in pairs]
        return _named("output", outputs) | _named("gradient", gradients)

    def chunks(self, query):
        """Outputs of chunks, read one after the other."""
        case, begin = self.case, self.case.get("begin", 0)
        self.sizes["S"] = begin + sum(case["chunks"])
        rng = np.random.default_rng(case["draw"])
        real = None
        if "value_mask" in case:
            real = rng.random((case["B"], self.sizes["S"])) < 0.7
        cache = self.layer.make_cache(case["B"], self.sizes["S"])
        outputs, read = [], 0
        for size in case["chunks"]:
            self.sizes["T"], given = size, {}
            start, end = begin + read, begin + read + size
            if real is not None:
                given["value_mask"] = real[:, start:end]
            if "attention_bias" in self.given:
                axes = case["attention_bias"]
                given["attention_bias"] = self.normal(axes)
            if "tensor_start" in case:
                start = ops.convert_to_tensor(start, "int32")
            x = query[:, read : read + size]
            output, cache = self.layer.call_with_cache(x, cache, start, **given)
            outputs.append(output)
            read += size
        return outputs

    def remembered(self, query, source=None):
        """Cross-attention to what is remembered of a source."""
        cache = self.layer.remember(query if source is None else source)
        names = ("value_mask", "attention_mask", "attention_bias")
        given = {k: x for k, x in self.given.items() if k in names}
        return self.layer.call_with_cache(query, cache, None, **given)[0]


def _described(layer):
    """Weights, configs and what the layer supports."""
    config = layer.get_config()
    again = type(layer).from_config(copy.deepcopy(config)).get_config()
    return {
        "weights": [
            (tuple(w.shape), str(w.dtype), w.trainable) for w in layer.weights
        ],
        "paths": [w.path for w in layer.weights],
        **_entries(config),
        "config is kept": _entries(config) == _entries(again),
        "supports": [getattr(layer, name) for name in SUPPORTS.values()],
    }


def _entries(config, path="config"):
    """The entries of a nested config by their paths, without modules."""
    if isinstance(config, (list, tuple)):
        config = dict(enumerate(config))
    if isinstance(config, dict):
        found = {}
        for key, x in config.items():
            if key != "module":  # modules may move
                found |= _entries(x, f"{path} {key}")
        return found
    if isinstance(config, (str, int, float, type(None))):
        return {path: config}
    return _entries(keras.saving.serialize_keras_object(config), path)


def _jax(loss, arrays):
    import jax

    places = tuple(range(len(arrays)))
    derived = jax.value_and_grad(loss, places, has_aux=True)
    (_, outputs), gradients = jax.jit(derived)(*arrays)
    return outputs, gradients


def _tensorflow(loss, arrays):
    import tensorflow as tf

    tensors = [*map(tf.convert_to_tensor, arrays)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value, outputs = loss(*tensors)
    return outputs, tape.gradient(value, tensors)


def _torch(loss, arrays):
    tensors = [ops.convert_to_tensor(x).clone() for x in arrays]
    for x in tensors:
        x.requires_grad_()
    value, outputs = loss(*tensors)
    if value.requires_grad:
        value.backward()
    return outputs, [x.grad for x in tensors]


def _program(function):
    """The function, compiled on JAX, and without gradients on PyTorch."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "torch":
        import torch

        return torch.no_grad()(function)
    return function


def _named(name, tensors):
    tensors = keras.tree.flatten(tensors)
    return {f"{name} {i}": _array(x) for i, x in enumerate(tensors)}


def _array(x):
    x = x.value if isinstance(x, keras.Variable) else x
    x = x.detach() if hasattr(x, "detach") else x
    return np.array(ops.convert_to_numpy(ops.cast(x, "float32")))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    checkouts.serve(answer)
