"""Routes as objects: registered, chosen, and the same on any device."""

import contextlib
import contextvars
import re
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close
from backend import gradients, numpy, only_on
from keras import ops
from places import ROOT

from keras_synth import routes
from keras_synth._backend import execution
from keras_synth.attend import attend
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.masks import AttentionMask

DOCS = ROOT / "docs" / "routes.md"
BACKEND = keras.backend.backend()
B, T, S, H, K = 3, 7, 9, 2, 4


def layer_and_input(name="V", **options):
    layer = SyntheticAttention(H, K, synthesizer=name, max_length=T, **options)
    x = ops.convert_to_tensor(normal(B, T, 8))
    layer(x)
    return layer, x


class Doubled(routes.ExplicitRoute):
    """Twice the right answer, so that it is seen who gave it."""

    def __init__(self, name="doubled", serves=True, portable=True):
        self.name, self.will_serve, self.portable = name, serves, portable

    def cost(self, request):
        return 0.0

    def serves(self, request):
        return self.will_serve

    def is_portable(self, request):
        return self.portable

    def run(self, request):
        return 2 * super().run(request)


def names():
    return [route.name for route in routes.registered()]


def a_table():
    logits = Logits(bias=ops.zeros((1, H, T, S)))
    return routes.Request(logits, ops.ones((B, S, H, K)), T)


def serving():
    return [route.name for route in routes.serving(a_table())]


@pytest.fixture
def known():
    before = names()
    yield before
    assert names() == before


# --- registering --------------------------------------------------------------


def test_a_cheapest_route_is_used_while_it_is_registered(known):
    layer, x = layer_and_input()
    bias = numpy(layer.attention_output.bias.value)
    before = numpy(layer(x)) - bias

    def is_doubled():
        return np.allclose(numpy(layer(x)) - bias, 2 * before, atol=1e-5)

    with routes.using(Doubled()):
        assert is_doubled()
    assert not is_doubled()
    routes.register(Doubled())
    try:
        assert is_doubled()
    finally:
        routes.unregister("doubled")


def test_nested_blocks_add_up_and_end_after_errors(known):
    with routes.using(Doubled("one")):
        with routes.using(Doubled("two"), Doubled("three")):
            assert names() == [*known, "one", "two", "three"]
        taken = pytest.raises(ValueError, match="other than")
        with taken, routes.using(Doubled("two"), Doubled("one")):
            pass
        with pytest.raises(KeyError), routes.using(Doubled("two")):
            raise KeyError
        assert names() == [*known, "one"]


def test_a_thread_needs_the_context_of_a_block(known):
    def look():
        return names(), routes.choose(a_table()).name

    with routes.using(Doubled("own")), ThreadPoolExecutor() as pool:
        context = contextvars.copy_context()
        assert pool.submit(look).result() == (known, "shared")
        inside = [*known, "own"], "own"
        assert pool.submit(context.run, look).result() == look() == inside


def test_blocks_that_do_not_end_in_order_are_independent(known):
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(routes.using(Doubled("one")))
    second.enter_context(routes.using(Doubled("two")))
    first.close()
    assert names() == [*known, "two"]
    second.close()
    with routes.using(Doubled("loops", portable=False)):
        assert "loops" in serving()
        first.enter_context(routes.portable())
        second.enter_context(routes.portable())
        first.close()
        assert "loops" not in serving()
        second.close()
        assert "loops" in serving()


def test_a_route_that_supports_nothing_is_never_chosen():
    layer, x = layer_and_input()
    expected = numpy(layer(x))
    logits, values, *_ = a_table()
    with routes.using(Doubled("nothing", serves=False)):
        close(layer(x), expected, atol=1e-6)
        with pytest.raises(ValueError, match=r"'shared', .*route='nothing'"):
            attend(logits, values, route="nothing")
        with pytest.raises(ValueError, match=r"'explicit'.*'shared'"):
            attend(logits, values, route="shared", return_weights=True)


@pytest.mark.parametrize(
    ("function", "route", "words"),
    [
        (routes.register, Doubled, "not its class"),
        (routes.register, "kernel", "Received: route='kernel'"),
        (routes.register, Doubled(None), "needs a name"),
        (routes.register, Doubled("kernel"), "other than.*'kernel'"),
        (routes.unregister, "explicit", "cannot be removed"),
        (routes.unregister, "once", "Received: route='once'"),
        (routes.get, "once", r"'tiles'.*Received: route='once'"),
    ],
)
def test_other_objects_and_names_are_errors(function, route, words, known):
    with pytest.raises(ValueError, match=words):
        function(route)


@pytest.mark.each_backend
def test_the_documented_kernel_works_if_it_exists():
    code = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[1]
    space = {"__name__": "example"}
    exec(compile(code, str(DOCS), "exec"), space)
    example = space["NativeAttention"]()
    layer, x = layer_and_input()
    expected, calls = numpy(layer(x)), []

    class Anywhere(type(example)):
        def has_kernel(self, x):
            return BACKEND != "tensorflow"

        def run(self, request):
            calls.append(request.target_length)
            return super().run(request)

    with routes.using(example):
        close(layer(x), expected, atol=1e-6)
    with routes.using(Anywhere()):
        close(layer(x), expected)
    assert calls == ([] if BACKEND == "tensorflow" else [T])


# --- accelerators -------------------------------------------------------------


@pytest.fixture
def accelerator(monkeypatch):
    """Pretends, once called, that there are no CPUs and tensors far away."""

    def refuse(self, *_):
        raise AssertionError("waits for the device")

    def pretend():
        monkeypatch.setattr(execution, "on_cpu", lambda x: False)
        if BACKEND == "torch":
            import torch

            for name in ("__bool__", "item", "__int__", "__float__", "tolist"):
                monkeypatch.setattr(torch.Tensor, name, refuse)

    return pretend


@pytest.mark.parametrize(
    ("lead", "needs_float32"),
    [*((lead, False) for lead in (0, 30, 50, 55)), (200, True), (1e4, True)],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_accelerators_need_not_wait_and_agree(
    lead, needs_float32, dtype, accelerator
):
    table = normal(1, H, T, S)
    table[..., S // 2 :] += lead
    keys = np.ones((B, S), bool)
    keys[1, S // 2 :] = False
    keys[2] = False
    mask = AttentionMask(keys=ops.convert_to_tensor(keys))

    def loss(route):
        def function(table, values):
            values = ops.cast(values, dtype)
            logits = Logits(bias=table, needs_float32=needs_float32)
            context = attend(logits, values, mask, route=route)
            return ops.sum(ops.cast(context, "float32") ** 2)

        return function

    values = normal(B, S, H, K, seed=1)
    accelerator()
    mine, theirs = (
        gradients(loss(route), table, values) for route in (None, "explicit")
    )
    atol = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    close(mine, theirs, atol=atol)


@pytest.mark.each_backend
@pytest.mark.parametrize("name", ["R", "V", "R+V", "FD"])
def test_layers_on_accelerators_need_not_wait(name, accelerator):
    layer, _ = layer_and_input(name)
    keys = ops.convert_to_tensor(np.arange(T) < [[3], [T], [5]])

    def loss(x):
        return ops.sum(layer(x, value_mask=keys, use_causal_mask=True) ** 2)

    layer(ops.ones((B, T, 8)), value_mask=keys)
    accelerator()
    (slope,) = gradients(loss, normal(B, T, 8))
    assert np.isfinite(slope).all()


@only_on("torch", "of its kernels for GPUs")
def test_single_features_are_padded_for_pytorchs_kernels(monkeypatch):
    layer = SyntheticAttention(H, 1, synthesizer="V", max_length=T)
    x, widths = ops.convert_to_tensor(normal(B, T, 8)), []
    expected, compute = numpy(layer(x)), ops.dot_product_attention

    def recorded(query, *args, **options):
        widths.append(query.shape[-1])
        return compute(query, *args, **options)

    monkeypatch.setattr(ops, "dot_product_attention", recorded)
    monkeypatch.setattr(execution, "on_cpu", lambda x: False)
    found = layer(x)
    monkeypatch.undo()
    assert widths == [8]
    close(found, expected)


@only_on("torch", "of its kernels for GPUs")
def test_pytorchs_kernel_is_not_used_to_train_only_a_bias(accelerator):
    (layer, x), used = layer_and_input("R+V"), []

    class Kernel(routes.KernelRoute):
        name = "recorded"

        def cost(self, request):
            return 0.0

        def run(self, request):
            used.append(request)
            return super().run(request)

    accelerator()
    with routes.using(Kernel()):
        for names, expected in ((["R"], 0), (["R", "kernel"], 1)):
            for weight in layer.weights:
                weight.trainable = weight.name in names
            layer(x)
            assert len(used) == expected


@pytest.mark.each_backend
@only_on("jax", "its trace says it")
def test_half_precision_stays_half_on_accelerators(accelerator):
    import jax

    keys = ops.convert_to_tensor(np.arange(S) < [[3], [S], [5]])

    def context(table, values):
        mask = AttentionMask(keys=keys)
        return attend(Logits(bias=table), values, mask, route="shared")

    values = ops.cast(normal(B, S, H, K), "float16")
    accelerator()
    trace = str(jax.make_jaxpr(context)(normal(1, H, T, S), values))
    assert f"f32[{B},{S},{H},{K}]" not in trace
