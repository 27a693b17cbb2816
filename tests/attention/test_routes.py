"""Routes as objects: registered, chosen, and the same on any device."""

import re

import keras
import numpy as np
import pytest
from arrays import normal
from backend import compiled_gradients, gradients, numpy, slow_but_on
from keras import ops
from places import ROOT

import keras_synth
from keras_synth import routes
from keras_synth._backend import execution
from keras_synth.attend import attend
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits, SteepLogits
from keras_synth.masks import AttentionMask
from keras_synth.mixers import normalizers
from keras_synth.routes import grid

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

    name = "doubled"

    def cost(self, request):
        return 0.0

    def run(self, request):
        return 2 * super().run(request)


class Nothing(Doubled):
    name = "nothing"

    def serves(self, request):
        return False


# --- registering --------------------------------------------------------------


def test_a_route_of_least_cost_is_taken_while_it_is_registered():
    layer, x = layer_and_input()
    bias = numpy(layer.attention_output.bias.value)
    before = numpy(layer(x)) - bias
    with routes.using(Doubled()):
        np.testing.assert_allclose(
            numpy(layer(x)) - bias, 2 * before, atol=1e-5
        )
    np.testing.assert_allclose(numpy(layer(x)) - bias, before, atol=1e-5)
    registered = routes.register(Doubled())
    try:
        assert registered in routes.registered()
        np.testing.assert_allclose(
            numpy(layer(x)) - bias, 2 * before, atol=1e-5
        )
    finally:
        routes.unregister("doubled")
    assert registered not in routes.registered()


def test_what_a_block_of_using_registers_is_gone_after_an_error():
    before = routes.registered()
    with pytest.raises(KeyError), routes.using(Doubled()):
        raise KeyError
    assert routes.registered() == before


def test_a_route_that_serves_nothing_is_left_out_and_refused_by_name():
    layer, x = layer_and_input()
    expected = numpy(layer(x))
    logits = Logits(bias=ops.zeros((1, H, T, S)))
    values = ops.ones((B, S, H, K))
    with routes.using(Nothing()):
        np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-6)
        with pytest.raises(
            ValueError, match=r"'shared', .*Received: route='nothing'"
        ):
            attend(logits, values, route="nothing")


def test_an_unknown_route_names_those_that_are_known():
    logits = Logits(bias=ops.zeros((1, H, T, S)))
    with pytest.raises(ValueError, match=r"'streamed'.*Received: route='once'"):
        attend(logits, ops.ones((B, S, H, K)), route="once")
    with pytest.raises(ValueError, match="Received: route='once'"):
        routes.unregister("once")


class Nameless(Doubled):
    name = None


class Taken(Doubled):
    name = "fused"


class Unfinished(routes.Route):
    name = "unfinished"

    def serves(self, request):
        return True


@pytest.mark.parametrize(
    ("route", "words"),
    [
        (Doubled, "not its class"),
        ("fused", "Received: route='fused'"),
        (Nameless(), "needs a name"),
        (Taken(), "those taken.*'fused'"),
        (Unfinished(), r"Missing methods: \['cost', 'run'\]"),
    ],
)
def test_what_is_no_route_is_refused(route, words):
    before = routes.registered()
    with pytest.raises(ValueError, match=words):
        routes.register(route)
    assert routes.registered() == before


def test_the_explicit_route_stays():
    with pytest.raises(ValueError, match="must stay"):
        routes.unregister("explicit")


def test_the_documented_kernel_serves_where_there_is_one():
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
        np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-6)
    with routes.using(Anywhere()):
        np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)
    assert calls == [] if BACKEND == "tensorflow" else [T]


def test_routes_are_public():
    assert keras_synth.routes is routes


# --- today's choices ----------------------------------------------------------


def chosen(name, shape=(B, T), dtype="float32", **mask):
    synthesizer = keras_synth.synthesizers.get(name, H, K, shape[1])
    synthesizer.build((None, shape[1], 8))
    x = ops.ones((*shape, 8))
    logits = synthesizer(x, keys=synthesizer.project_keys(x))
    values = ops.ones((*shape, H, K), dtype)
    request = routes.Request(logits, values, shape[1], AttentionMask(**mask))
    return routes.choose(request).name


@pytest.mark.parametrize("name", ["V", "R", "FR", "R+V", "FR(rank=1)+V", "D+V"])
def test_choices_on_cpus_are_those_of_the_measurements(name):
    kernel = BACKEND == "torch" and name in ("V", "FR(rank=1)+V")
    expected = "fused" if kernel else "streamed"
    assert chosen(name) == ("shared" if name in ("R", "FR") else expected)
    if name == "FR":  # one sample of pairs might be anybody's
        assert chosen(name, (1, T)) != "shared"


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's kernel for CPUs")
@pytest.mark.parametrize(
    ("name", "causal", "route"),
    [
        ("R+V", False, "streamed"),
        ("R+V", True, "streamed"),
        ("V", True, "fused"),
        ("D", True, "fused"),
    ],
)
def test_choices_without_gradients(name, causal, route):
    import torch

    with torch.no_grad():
        assert chosen(name, causal=causal) == route


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's kernel for CPUs")
def test_half_precision_takes_the_kernel_for_a_table_not_in_training():
    import torch

    assert chosen("R+V", dtype="bfloat16") == "streamed"
    with torch.no_grad():
        assert chosen("R+V", dtype="bfloat16") == "fused"
        assert chosen("R+V", causal=True, dtype="bfloat16") == "streamed"


@pytest.mark.parametrize("name", ["V", "R", "R+V", "FD"])
def test_choices_on_accelerators(name, monkeypatch):
    monkeypatch.setattr(execution, "on_cpu", lambda x: False)
    expected = {"R": "shared", "FD": "explicit"}.get(name, "fused")
    assert chosen(name) == expected


def test_a_narrow_window_is_streamed():
    long = 2048 if BACKEND == "torch" else 512
    eager = BACKEND != "torch"  # no tensor can be written into there
    for name in ("V", "R"):
        narrow = chosen(name, (2, long), window=16)
        assert eager or narrow == "streamed"
        assert chosen(name, (2, long), window=long) == chosen(name, (2, long))


# --- windows ------------------------------------------------------------------

SHAPES = {
    "V": {"queries": (B, T, H, K), "keys": (B, S, H, K)},
    "R": {"bias": (1, H, T, S)},
    "R+V": {
        "queries": (B, T, H, K),
        "keys": (B, S, H, K),
        "bias": (1, H, T, S),
    },
    "D": {
        "queries": (B, T, H, K),
        "keys": (1, S, H, K),
        "bias": (1, H, 1, S),
    },
}


def windowed(name, mask, route):
    shapes = {**SHAPES[name], "values": (B, S, H, K)}
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes.values())]
    direction = ops.convert_to_tensor(normal(B, T, H, K, seed=9))

    def loss(*tensors):
        given = dict(zip(shapes, tensors, strict=True))
        values = given.pop("values")
        context = attend(
            Logits(**given), values, mask, target_length=T, route=route
        )
        return ops.sum(context * direction) + ops.sum(context**2)

    return loss, *arrays


# Elsewhere each is compiled, which takes seconds.
@pytest.mark.parametrize(
    "padded", [False, pytest.param(True, marks=slow_but_on("torch"))]
)
@pytest.mark.parametrize(
    "pattern",
    [
        {"causal": True},
        {"window": 2},
        {"window": 3, "causal": True},
        {"window": 2, "start": 2},
        {"window": 2, "causal": True, "start": 4},
        {"window": 30},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "name",
    [
        name
        if name == "R+V"
        else pytest.param(name, marks=slow_but_on("torch"))
        for name in SHAPES
    ],
)
def test_windows_are_the_mask_written_out(name, pattern, padded, monkeypatch):
    monkeypatch.setattr(grid, "PIECE_SIZE", 12)
    monkeypatch.setattr(grid, "FEWEST_ROWS", 2)
    keys = None
    if padded:
        keys = normal(B, S, seed=5) < 0.3
        keys[0] = False
        keys = ops.convert_to_tensor(keys)
    mask = AttentionMask(keys=keys, **pattern)
    written = mask.written_out(T, S)
    mine = compiled_gradients(*windowed(name, mask, "streamed"))
    theirs = gradients(*windowed(name, written, "explicit"))
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    visible = mask.visible(T, S)
    if visible is not None:
        expected = numpy(ops.any(written.materialize(), axis=-1))
        np.testing.assert_array_equal(
            np.broadcast_to(numpy(visible), expected.shape), expected
        )


@pytest.mark.parametrize("causal", [False, True])
def test_pieces_stay_inside_of_a_window(causal, monkeypatch):
    """The weights of all pieces together are O(T w)."""
    length, window, seen = 512, 8, []
    softmax = normalizers.softmax
    monkeypatch.setattr(
        normalizers,
        "softmax",
        lambda x: seen.append(np.prod(x.shape)) or softmax(x),
    )

    def loss(q, k, v):
        mask = AttentionMask(window=window, causal=causal)
        context = attend(Logits(q, k), v, mask, route="streamed")
        return ops.sum(context)

    compiled_gradients(loss, *(normal(2, length, H, K) for _ in "qkv"))
    if BACKEND != "torch":  # what a loop does is traced once for all pieces
        seen = [2 * max(seen) * length // grid.FEWEST_ROWS]
    assert sum(seen) / 2 < 2 * H * length * length / 4  # forward and backward


@pytest.mark.parametrize("name", ["V", "R+V"])
def test_a_layer_with_a_window_is_one_with_the_mask(name):
    layer, x = layer_and_input(name, sliding_window=2)
    plain, _ = layer_and_input(name)
    for mine, theirs in zip(plain.weights, layer.weights, strict=True):
        mine.assign(theirs)
    places = np.arange(T)
    mask = np.abs(places[:, None] - places) < 2
    np.testing.assert_allclose(
        numpy(layer(x)), numpy(plain(x, attention_mask=mask)), atol=1e-5
    )


# --- rows ---------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True])
def test_a_large_table_is_streamed_for_all_samples_at_once(padded, monkeypatch):
    shared = keras_synth.attention.routes.shared
    keys = None
    if padded:
        keys = np.ones((1, S), bool)
        keys[0, ::3] = False
        keys = ops.convert_to_tensor(keys)
    mask = AttentionMask(keys=keys, causal=True, start=1)
    theirs = gradients(*windowed("R", mask, "explicit"))
    monkeypatch.setattr(shared, "LARGE_TABLE", 1)
    monkeypatch.setattr(grid, "PIECE_SIZE", 2 * S)
    monkeypatch.setattr(shared, "apply", None)  # the other way
    monkeypatch.setattr(shared, "apply_padded", None)
    mine = gradients(*windowed("R", mask, "shared"))
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


@pytest.mark.parametrize("pattern", [{"causal": True}, {"window": 2}], ids=str)
@pytest.mark.parametrize("route", ["streamed", "shared"])
def test_gradients_of_a_table_are_whole_without_compiling(
    route, pattern, monkeypatch
):
    """JAX knows lengths but runs pieces one by one: none may be left out."""
    mask = AttentionMask(**pattern)
    theirs = gradients(*windowed("R", mask, "explicit"))
    monkeypatch.setattr(keras_synth.attention.routes.shared, "LARGE_TABLE", 1)
    monkeypatch.setattr(grid, "PIECE_SIZE", 2 * S)
    monkeypatch.setattr(grid, "FEWEST_ROWS", 2)
    mine = gradients(*windowed("R", mask, route))
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_one_column_keeps_the_features_of_keys_apart():
    q, k, v = (ops.convert_to_tensor(normal(B, 1, H, K)) for _ in "qkv")

    def loss(route):
        def function(keys, values):
            context = attend(Logits(q, keys), values, route=route)
            return ops.sum(context**2)

        return function

    mine, theirs = (
        gradients(loss(route), numpy(k), numpy(v))
        for route in ("streamed", "explicit")
    )
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


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
    ("lead", "made"),
    [
        *((lead, Logits) for lead in (0, 30, 50, 60)),
        (200, SteepLogits),
        (1e4, SteepLogits),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_accelerators_need_not_wait_and_agree(lead, made, dtype, accelerator):
    table = normal(1, H, T, S)
    table[..., S // 2 :] += lead
    keys = np.ones((B, S), bool)
    keys[1, S // 2 :] = False
    keys[2] = False
    mask = AttentionMask(keys=ops.convert_to_tensor(keys))

    def loss(route):
        def function(table, values):
            values = ops.cast(values, dtype)
            context = attend(made(bias=table), values, mask, route=route)
            return ops.sum(ops.cast(context, "float32") ** 2)

        return function

    values = normal(B, S, H, K, seed=1)
    accelerator()
    mine, theirs = (
        gradients(loss(route), table, values)
        for route in ("shared", "explicit")
    )
    atol = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


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


@pytest.mark.skipif(BACKEND != "jax", reason="looks at JAX's trace")
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


def test_devices_are_asked_of_the_tensor():
    x = ops.ones((2, 2))
    assert execution.on_cpu(x)
    assert execution.is_eager(x)
    if BACKEND == "jax":
        import jax

        seen = []
        jax.jit(lambda x: seen.append(execution.on_cpu(x)) or x)(x)
        assert seen == [True]
    if BACKEND == "torch":
        import torch

        assert not execution.on_cpu(torch.ones(2, device="meta"))
    if BACKEND == "tensorflow":
        import tensorflow as tf

        @tf.function
        def on_cpu(x):
            with tf.device("/GPU:0"):
                return tf.constant(execution.on_cpu(x + 1))

        assert not on_cpu(tf.ones(2))
