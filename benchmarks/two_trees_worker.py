"""Answers the cases of `two_trees.py` with the package on its path."""

import contextlib
import copy
import os
import pickle
import sys
import traceback
import warnings
from unittest import mock

import keras
import numpy as np
from keras import ops
from two_trees_cases import OPTIONS, Arrays

import keras_synth
from keras_synth import layers, mixers, routes

BACKEND = keras.backend.backend()
DRAWS = 40  # of dropout, of which the mean is compared
# How routes cut their work: numbers of weights, of rows, and of tokens.
GROUPS = ("PIECE_SIZE", "TILE", "LARGE_TABLE")
FEWEST = {"FEWEST_ROWS": 2, "CHUNK": 4}
OF_DECODER = {
    "mask": "decoder_padding_mask",
    "attention_mask": "decoder_attention_mask",
    "attention_bias": "decoder_attention_bias",
    "value_mask": "encoder_padding_mask",
}


def main():
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    warnings.simplefilter("ignore")
    found = os.path.dirname(keras_synth.__file__)
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(found, channel)
            channel.flush()
            found = answer(pickle.load(sys.stdin.buffer))


def answer(case):
    """Names and values of all that is compared, or of a refusal."""
    try:
        with _ways(case):
            return Run(case).found()
    except Exception as error:
        return {
            "refusal": type(error).__name__,
            "words": str(error),
            "traceback": traceback.format_exc(),
        }
    finally:
        if BACKEND == "jax" and case["draw"] % 40 == 0:
            import jax

            jax.clear_caches()


@contextlib.contextmanager
def _ways(case):
    """Takes one of the routes wherever it serves, and small groups of tokens.

    Both are the checkout's own: the answer must not depend on them.
    """
    with contextlib.ExitStack() as stack:
        if "group" in case:
            sizes = {name: case["group"] for name in GROUPS} | FEWEST
            for module in [*sys.modules.values()]:
                own = getattr(module, "__name__", "").startswith("keras_synth")
                for name in sizes if own else ():
                    if isinstance(vars(module).get(name), int):
                        patch = mock.patch.object(module, name, sizes[name])
                        stack.enter_context(patch)
        if "route" in case:
            known = routes.registered()
            route = copy.copy(known[case["route"] % len(known)])
            route.name = f"preferred {route.name}"
            route.cost = lambda request: -1.0
            stack.enter_context(routes.using(route))
        yield


class Run:
    """A layer as a case describes it, with random weights, and its call."""

    def __init__(self, case):
        self.case = case
        self.arrays = Arrays(case)
        keras.utils.set_random_seed(case["draw"])

    def found(self):
        case = self.case
        self.layer = layer = self._made()
        layer.build(*(x.shape for x in self.arrays.inputs))
        found = _described(layer, "seed" in case)
        for weight in layer.weights:
            if "float" in str(weight.dtype):
                value = self.arrays.rng.normal(size=weight.shape)
                weight.assign(case.get("scale", 0.5) * value)
        if "spec" in case:
            specs = [
                keras.KerasTensor((None, *x.shape[1:]), x.dtype)
                for x in self.arrays.inputs
            ]
            specs = keras.tree.flatten(layer.compute_output_spec(*specs))
            found["spec"] = [(tuple(x.shape), str(x.dtype)) for x in specs]
        if case["how"] in ("gradients", "compiled"):
            found |= self._derived()
            if "dropout" in case and "training" in case:
                found |= self._draws()
            return found
        with _without_gradients():
            if case["how"] == "fold":
                self.layer = keras_synth.fold(layer)
            functions = {"cache": self._cached, "remember": self._remembered}
            function = functions.get(case["how"], self._outputs)
            return found | function()

    def _made(self):
        case, name = self.case, self.case["layer"]
        options = {key: case[key] for key in OPTIONS if key in case}
        if options.get("pattern") == "array":
            shape = [case["max_length"]] * 2
            options["pattern"] = self.arrays.rng.random(shape) < 0.6
        sizes = {"max_length": case["max_length"], "name": "layer"}
        if "block" in case:
            cls = {
                "encoder": layers.SynthesizerEncoder,
                "decoder": layers.SynthesizerDecoder,
            }[case["block"]]
            sizes |= {"intermediate_dim": 7, "num_heads": case["heads"]}
            options["normalize_first"] = case["draw"] % 2 == 0
            return cls(synthesizer=name, **sizes, **options)
        sizes |= {"num_heads": case["heads"], "key_dim": case["key_dim"]}
        return mixers.get(name, **sizes, **options)

    def __call__(self, *tensors):
        """Returns float32 outputs, with zeros where rows do not count.

        Args:
            *tensors: Inputs and, if there is one, the bias.
        """
        case, count = self.case, len(self.arrays.inputs)
        inputs, given = tensors[:count], dict(self.arrays.given)
        if len(tensors) > count:
            given["attention_bias"] = tensors[count]
        if case.get("block") == "encoder":
            given = {
                {"mask": "padding_mask"}.get(k, k): x for k, x in given.items()
            }
        if case.get("block") == "decoder":
            given = {OF_DECODER.get(k, k): x for k, x in given.items()}
        if "carried_mask" in case:  # by Keras, of all tokens but the second
            real = ops.cast(np.arange(case["T"]) != 1, "float32")
            real = ops.reshape(real, [-1] + [1] * (len(inputs[0].shape) - 2))
            inputs = [keras.layers.Masking()(inputs[0] * real), *inputs[1:]]
        outputs = keras.tree.flatten(self.layer(*inputs, **given))
        outputs = [ops.cast(x, "float32") for x in outputs]
        real = self.arrays.is_token
        if real is None:
            return outputs
        rows = [real[..., None]] + [real[:, None, :, None]] * (len(outputs) - 1)
        return [
            ops.where(
                row if len(row.shape) == len(x.shape) else row[..., None],
                x,
                0.0,
            )
            for row, x in zip(rows, outputs, strict=True)
        ]

    def _tensors(self):
        bias = self.arrays.bias
        return [*self.arrays.inputs, *([] if bias is None else [bias])]

    def _outputs(self):
        tensors = [ops.convert_to_tensor(x) for x in self._tensors()]
        return _named("output", _program(self)(*tensors))

    def _derived(self):
        """Outputs, and gradients of their product with random numbers."""
        weights = self.layer.trainable_variables
        given = self._tensors()
        arrays = [*given, *map(_array, weights)]

        def loss(*tensors):
            mapping = [*zip(weights, tensors[len(given) :], strict=True)]
            mapping += [
                (w, w.value) for w in self.layer.non_trainable_variables
            ]
            with keras.StatelessScope(state_mapping=mapping):
                outputs = self(*tensors[: len(given)])
            rng, total = np.random.default_rng(0), 0.0
            for x in outputs:
                direction = rng.normal(size=x.shape).astype("float32")
                total += ops.sum(x * ops.convert_to_tensor(direction))
            return total, outputs

        derive = {
            "jax": _by_jax,
            "tensorflow": _by_tensorflow,
            "torch": _by_torch,
        }
        compiled = self.case["how"] == "compiled"
        outputs, gradients = derive[BACKEND](loss, arrays, compiled)
        names = ["query", "value", "key"][: len(self.arrays.inputs)]
        names += ["bias"] * (len(given) - len(names))
        # By numbers, so that a path that differs hides nothing else.
        names += [f"of weight {i}" for i in range(len(weights))]
        found = _named("output", outputs)
        for name, x, array in zip(names, gradients, arrays, strict=True):
            x = np.zeros_like(array) if x is None else x
            found[f"gradient {name}"] = _array(x)
        return found

    def _draws(self):
        """Mean of outputs over many draws of dropout, and its error."""
        tensors = [ops.convert_to_tensor(x) for x in self._tensors()]
        with _without_gradients():
            drawn = [_array(self(*tensors)[0]) for _ in range(DRAWS)]
        error = np.std(drawn, axis=0) / DRAWS**0.5
        return {"mean": np.mean(drawn, axis=0), "error": error}

    def _cached(self):
        """Outputs of chunks, read one after the other, and the cache."""
        case, arrays = self.case, self.arrays
        decodes = "block" in case
        begin = case.get("begin", 0)
        places = begin + sum(case["chunks"]) + case.get("room", 0)
        make = self.layer.make_caches if decodes else self.layer.make_cache
        cache = make(case["B"], places)
        cache = cache[0] if decodes else cache
        arrays.sizes["S"] = places
        is_token = None
        if {"value_mask", "query_mask", "mask"} & {*case}:
            is_token = arrays.holes(["B", "S"])
        # Of padding that was read before a cache knows nothing otherwise.
        every = "all_places" in case or len(case["chunks"]) == 1
        spread = "nonfinite" in case and is_token is not None and every
        if spread:
            tokens = is_token[:, begin : places - case.get("room", 0)]
            arrays.inputs[0][tokens == 0] = float(case["nonfinite"])
        chunks = []
        for size in case["chunks"]:
            arrays.sizes["T"], given, end = size, {}, begin + size
            if is_token is not None:
                given["value_mask"] = is_token
                if decodes or "all_places" not in case:
                    given["value_mask"] = is_token[:, begin:end]
            if "attention_mask" in case and case["attention_mask"] != "TS":
                given["attention_mask"] = arrays.holes(case["attention_mask"])
            if arrays.bias is not None:
                given["attention_bias"] = arrays.normal(case["attention_bias"])
            if "not_causal" in case:
                given["use_causal_mask"] = False
            chunks.append((begin, size, given))
            begin = end

        def function(query, cache):
            outputs, read = [], 0
            for first, size, given in chunks:
                x = query[:, read : read + size]
                read += size
                start = first
                if "tensor_start" in case:
                    start = ops.convert_to_tensor(first, "int32")
                if decodes:
                    names = OF_DECODER | {"value_mask": "decoder_padding_mask"}
                    given = {names.get(k, k): y for k, y in given.items()}
                    given["self_attention_cache"] = cache
                    given["self_attention_cache_update_index"] = start
                    output, cache = self.layer(x, **given)
                else:
                    output, cache = self.layer.call_with_cache(
                        x, cache, start, **given
                    )
                if spread:
                    real = is_token[:, first : first + size, None] != 0
                    output = ops.where(real, output, ops.zeros_like(output))
                outputs.append(output)
            return outputs, cache

        query = ops.convert_to_tensor(arrays.inputs[0])
        outputs, cache = _program(function)(query, cache)
        return _named("output of chunk", outputs) | _named("cache", cache)

    def _remembered(self):
        """Cross-attention to what is remembered of a source."""
        given = {
            key: x
            for key, x in self.arrays.given.items()
            if key in ("value_mask", "attention_mask")
        }
        if self.arrays.bias is not None:
            given["attention_bias"] = self.arrays.bias
        position = self.case["draw"] % 3

        def function(query, source):
            cache = self.layer.remember(source)
            output, cache = self.layer.call_with_cache(
                query, cache, None, position=position, **given
            )
            return output, cache

        query, *source = map(ops.convert_to_tensor, self.arrays.inputs)
        output, cache = _program(function)(
            query, source[0] if source else query
        )
        return _named("output", output) | _named("cache", cache)


def _described(layer, seeded):
    """Weights, configs and what the layer supports."""
    config = layer.get_config()
    again = type(layer).from_config(copy.deepcopy(config)).get_config()
    found = {
        "weights": [
            (tuple(w.shape), str(w.dtype), w.trainable) for w in layer.weights
        ],
        "paths": [w.path for w in layer.weights],
        **_entries(config),
        "config is kept": _entries(config) == _entries(again),
        "supports": sorted(
            name
            for name in dir(layer)
            if name.startswith("supports_") and getattr(layer, name)
        ),
    }
    if seeded:
        found |= _named("initial weight", [*map(_array, layer.weights)])
    return found


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


def _by_jax(loss, arrays, compiled):
    import jax

    places = [i for i, x in enumerate(arrays) if x.dtype == "float32"]
    derived = jax.value_and_grad(loss, places, has_aux=True)
    (_, outputs), gradients = jax.jit(derived)(*arrays)
    gradients = dict(zip(places, gradients, strict=True))
    return outputs, [gradients.get(i) for i in range(len(arrays))]


def _by_tensorflow(loss, arrays, compiled):
    import tensorflow as tf

    def derived(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value, outputs = loss(*tensors)
        return outputs, tape.gradient(value, tensors)

    if compiled:
        derived = tf.function(derived, jit_compile=True, autograph=False)
    return derived(*map(tf.convert_to_tensor, arrays))


def _by_torch(loss, arrays, compiled):
    tensors = [ops.convert_to_tensor(x).clone() for x in arrays]
    for x in tensors:
        x.requires_grad_(x.is_floating_point())
    value, outputs = loss(*tensors)
    if value.requires_grad:
        value.backward()
    return outputs, [x.grad for x in tensors]


def _program(function):
    """The function, compiled where step by step it would take longer."""
    if BACKEND != "jax":
        return function
    import jax

    return jax.jit(function)


def _without_gradients():
    if BACKEND != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()


def _named(name, tensors):
    tensors = keras.tree.flatten(tensors)
    return {f"{name} {i}": _array(x) for i, x in enumerate(tensors)}


def _array(x):
    x = x.value if isinstance(x, keras.Variable) else x
    x = x.detach() if hasattr(x, "detach") else x
    if "float" in str(x.dtype):
        x = ops.cast(x, "float32")
    return np.array(ops.convert_to_numpy(x))


if __name__ == "__main__":
    main()
