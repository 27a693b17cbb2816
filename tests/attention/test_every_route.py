"""Every route equals the explicit one, also in gradients of all orders."""

import itertools

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close
from backend import compiled_gradients, numpy, on_cpu
from keras import ops

from keras_synth import mixers, routes, synthesizers
from keras_synth._backend import execution
from keras_synth.attend import attend
from keras_synth.attention.routes import sizes
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.masks import AttentionMask
from keras_synth.mixers import normalizers, patterns

BACKEND = keras.backend.backend()
B, T, H, K, V = 4, 6, 2, 3, 5
# By as much as the shared route promises.
LED = "a table that a padded key leads"
# Operands, and the axes along which they are broadcast.
OPERANDS = {
    "queries and keys": {"queries": (B, T, H, K), "keys": (B, T, H, K)},
    "constant keys": {"queries": (B, T, H, K), "keys": (1, T, H, K)},
    "a shared table": {
        "queries": (B, T, H, K),
        "keys": (B, T, H, K),
        "bias": (1, H, T, T),
    },
    "one row for all": {
        "queries": (B, T, H, K),
        "keys": (1, T, H, K),
        "bias": (1, H, 1, T),
    },
    "one bias for all heads": {
        "queries": (B, T, H, K),
        "keys": (B, T, H, K),
        "bias": (B, 1, T, T),
    },
    "a bias of every sample": {"bias": (B, H, T, T)},
    "a row": {"bias": (1, H, 1, T)},
    "a table": {"bias": (1, H, T, T)},
    LED: {"bias": (1, H, T, T)},
    "two factors": {"queries": (1, T, H, K), "keys": (1, T, H, K)},
}


def some(*shape, seed=3, share=0.6):
    rng = np.random.default_rng(seed)
    return ops.convert_to_tensor(rng.random(shape) < share)


def real_keys():
    """The first key, the last ones, all of one sample, none of another."""
    keys = np.ones((B, T), bool)
    keys[0, 0] = keys[1, 4:] = keys[2] = False
    return ops.convert_to_tensor(keys)


MASKS = {
    "no mask": dict,
    "padding": lambda: {"keys": real_keys()},
    "causal": lambda: {"causal": True},
    "causal, padded": lambda: {"causal": True, "keys": real_keys()},
    "a causal chunk": lambda: {"causal": True, "start": 2},
    "a window, padded": lambda: {"window": 2, "keys": real_keys()},
    "a causal window": lambda: {"window": 3, "causal": True},
    "a pattern": lambda: {
        "pattern": patterns.Window(1) | patterns.GlobalTokens(1),
        "keys": real_keys(),
    },
    "a pattern with empty rows": lambda: {
        "pattern": patterns.RandomBlocks(1, 2, max_length=T),
        "causal": True,
    },
    "strides": lambda: {"pattern": patterns.Stride(2), "causal": True},
    "pairs": lambda: {  # NumPy arrays
        "pairs": numpy(some(1, 1, T, T)),
        "keys": numpy(real_keys()),
    },
    "pairs with an empty row": lambda: {
        "pairs": ops.convert_to_tensor(np.tri(T, k=-1, dtype=bool)[None, None]),
        "keys": real_keys(),
    },
    "pairs of every head": lambda: {"pairs": some(B, H, T, T)},
}


def problem(operands, mask, normalizer="softmax"):
    """Returns a loss by the name of a route, and the operands' arrays."""
    shapes = {**OPERANDS[operands], "values": (B, T, H, V)}
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes.values())]
    if operands == LED:
        arrays[0][..., 0] += 55
    direction = ops.convert_to_tensor(normal(B, T, H, V, seed=9))
    mask = AttentionMask(**MASKS[mask]())

    def loss(route):
        def function(*tensors):
            terms = dict(zip(shapes, tensors, strict=True))
            values = terms.pop("values")
            context = attend(
                Logits(**terms),
                values,
                mask,
                target_length=T,
                route=route,
                normalizer=normalizers.get(normalizer),
            )
            return ops.sum(context * direction) + ops.sum(context**2)

        return function

    return loss, arrays


def able(operands, mask, normalizer="softmax"):
    """Names of the routes for a problem, compiled like its gradients."""
    names = []

    class Asking(routes.ExplicitRoute):
        name = "asking"

        def run(self, request):
            found = routes.serving(request)
            names.extend(route.name for route in found)
            return super().run(request)

    loss, arrays = problem(operands, mask, normalizer)
    with routes.using(Asking()):
        if BACKEND == "torch":  # it compiles nothing
            loss("asking")(*map(ops.convert_to_tensor, arrays))
        else:
            compiled_gradients(loss("asking"), *arrays)
    return [x for x in dict.fromkeys(names) if x not in ("asking", "explicit")]


TILES = [1, T * T, 2**20]
each_tile = pytest.mark.parametrize("tile", TILES, indirect=True)


@pytest.fixture
def tile(request, monkeypatch):
    """Tiles of so many entries."""
    monkeypatch.setattr(sizes, "TILE", request.param)
    monkeypatch.setattr(sizes, "FEWEST_ROWS", 2)
    if request.param == 1:
        monkeypatch.setattr(sizes, "LARGE_TABLE", 1)


def assert_gradients_equal(operands, mask, normalizer="softmax"):
    loss, arrays = problem(operands, mask, normalizer)
    expected = compiled_gradients(loss("explicit"), *arrays)
    names = able(operands, mask, normalizer)
    real = MASKS[mask]().get("keys")
    if real is not None:  # padding can contain anything
        names_of = [*OPERANDS[operands], "values"]
        for name, array in zip(names_of, arrays, strict=True):
            if name in ("keys", "values") and len(array) == B:
                array[~numpy(real)] = np.nan
    for name in [*names, "explicit"]:
        found = compiled_gradients(loss(name), *arrays)
        for mine, theirs in zip(found, expected, strict=True):
            assert np.abs(mine).max() > 1e-3
            close(mine, theirs, atol=3e-5, err_msg=name)
    return names


# Enough where each of them is compiled.
FEW = [
    *(("a shared table", "padding", 1), ("a shared table", "a pattern", 1)),
    *(("a table", "padding", 1), ("a table", "pairs with an empty row", 1)),
    ("a shared table", "a causal chunk", 1),
    ("a shared table", "a pattern with empty rows", 1),
]


@pytest.mark.parametrize(
    "operands, mask, tile",
    [
        pytest.param(*case, marks=pytest.mark.each_backend)
        if case in FEW
        else case
        for case in itertools.product(OPERANDS, MASKS, TILES)
        if case[0] != LED or "keys" in MASKS[case[1]]()
    ],
    indirect=["tile"],
)
def test_gradients_are_those_of_the_explicit_route(operands, mask, tile):
    assert_gradients_equal(operands, mask)


@each_tile
@pytest.mark.parametrize("normalizer", ["relu", "sigmoid", "softmax1"])
@pytest.mark.parametrize("mask", ["causal, padded", "a pattern", "pairs"])
@pytest.mark.parametrize("operands", ["a shared table", "a table"])
def test_other_normalizers_have_the_gradients(operands, mask, normalizer, tile):
    assert_gradients_equal(operands, mask, normalizer)


@pytest.mark.each_backend
@pytest.mark.skipif(not on_cpu(), reason="loops over tiles are for CPUs")
def test_each_route_of_the_backend_is_among_them():
    names = {*able("a shared table", "causal"), *able("a table", "padding")}
    names |= {*able("queries and keys", "a pattern")}
    expected = {"shared", "kernel", "tiles"}
    if BACKEND == "torch":
        expected.add("torch_cpu")
    assert expected <= names


def test_a_table_in_half_precision_has_a_softmax_in_float32():
    table = ops.cast(ops.convert_to_tensor(8 * normal(1, H, T, T)), "bfloat16")
    values = ops.convert_to_tensor(normal(B, T, H, V))
    logits, exact = Logits(bias=table), Logits(bias=ops.cast(table, "float32"))
    close(attend(logits, values), attend(exact, values), atol=1e-6)


# --- biases never undo masks --------------------------------------------------


@pytest.mark.parametrize("name", ["V", "R", "D", "R + V", "alibi + V", "FD"])
@pytest.mark.parametrize(
    "dtype", ["float32", "mixed_float16", "mixed_bfloat16"]
)
@pytest.mark.parametrize(
    "least", [-np.inf, np.finfo("float32").min, -1e30, -1e9]
)
def test_the_lowest_bias_does_not_reveal_the_future(name, dtype, least):
    x = normal(1, 8, 16)
    other = np.array(x)
    other[:, 4:] += 5.0  # the future of rows 0 and 1
    bias = np.zeros((1, 1, 1, 8), "float32")
    bias[..., :2] = least  # two padding tokens on the left
    layer = mixers.get(name, 2, 8, 8, dtype=dtype)
    ways = [
        {"use_causal_mask": True},
        {"attention_mask": np.tri(8, dtype=bool)[None]},
        {"use_causal_mask": True, "return_attention_scores": True},
    ]
    for way in ways:
        outputs = []
        for tokens in (x, other):
            result = layer(
                ops.convert_to_tensor(tokens), attention_bias=bias, **way
            )
            outputs.append(numpy(result[0] if len(way) == 2 else result))
        assert np.isfinite(outputs[0]).all()
        close(outputs[0][:, :2], outputs[1][:, :2], atol=1e-6)


@pytest.mark.parametrize("largest", [np.finfo("float32").max, 1e38, 1e30])
def test_no_bias_shows_padding(largest):
    layer = SyntheticAttention(2, 4, synthesizer="V")
    x = normal(2, 6, 8)
    bias = np.zeros((1, 2, 6, 6), "float32")
    bias[..., 4:] = largest  # of padding in the second sample alone
    mask = np.array([[True] * 6, [True] * 4 + [False] * 2])
    found = layer(x, value_mask=mask, attention_bias=bias)[1, :4]
    close(found, layer(x[1:, :4])[0])


@pytest.mark.each_backend
@pytest.mark.parametrize("with_scores", [False, True])
@pytest.mark.parametrize("name", ["V", "R+V", "D+V"])
def test_no_logit_shows_the_future(name, with_scores):
    """Its dot products with earlier queries overflow."""
    layer = mixers.get(name, 2, 4, 8)

    def output(x):
        options = {"return_attention_scores": with_scores}
        return numpy(
            keras.tree.flatten(layer(x, use_causal_mask=True, **options))[0]
        )

    x = normal(3, 8, 16)
    expected = output(x)
    x[:, -1] = 1e38
    close(output(x)[:, :-1], expected[:, :-1])


ALLOWED = np.random.default_rng(5).random((3, 8, 8)) < 0.6
ALLOWED[0, 2] = False  # a row that sees nothing
KEYS = np.arange(8) < [[5], [8], [6]]
NEAR = np.abs(np.subtract.outer(np.arange(8), np.arange(8))) <= 2
# A mask, and which pairs it shows.
HIDING = {
    "padding": ({"value_mask": KEYS}, KEYS[:, None]),
    "pairs": ({"attention_mask": ALLOWED}, ALLOWED),
    "a row": ({"attention_mask": ALLOWED[:1, :1]}, ALLOWED[:1, :1]),
    "the future": ({"use_causal_mask": True}, np.tri(8, dtype=bool)),
    "a pattern": ({}, NEAR),
}


@pytest.mark.parametrize("name", ["V", "R", "R + V", "D"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("hiding", HIDING)
def test_a_bias_of_what_is_hidden_can_have_any_values(name, batch, hiding):
    pattern = "local(window=2)" if hiding == "a pattern" else None
    layer = mixers.get(name, 2, 4, 8, pattern=pattern)
    x, (masks, seen) = ops.convert_to_tensor(normal(3, 8, 16)), HIDING[hiding]
    seen = np.broadcast_to(seen, (3, 8, 8))
    bias = normal(batch, 1, 8, 8, seed=4)
    expected = numpy(layer(x, attention_bias=bias, **masks))
    hidden = (~seen if batch == 3 else ~seen[:1])[:, None]
    row = 0 if batch == 1 else slice(None)
    for poison in (np.nan, np.inf):
        given = np.where(hidden, poison, bias).astype("float32")
        given = {"attention_bias": given, **masks}
        explicit, scores = layer(x, return_attention_scores=True, **given)
        for found in map(numpy, (layer(x, **given), explicit)):
            close(found[row], expected[row])
            assert hiding == "pairs" or np.isfinite(found).all()
        assert not numpy(scores)[~np.repeat(seen[:, None], 2, 1)].any()


@pytest.mark.parametrize("name", ["V", "R", "R + V"])
def test_a_bias_of_tokens_to_come_can_have_any_values(name):
    layer, outputs = mixers.get(name, 2, 4, 8), []
    x = ops.convert_to_tensor(normal(3, 6, 16))
    layer(x)
    _, cache = layer.call_with_cache(x[:, :5], layer.make_cache(3, 8), 0)
    for future in (0.0, np.nan):
        bias = np.where(np.arange(8) > 5, future, 1.0)[None, None, None]
        step = {"attention_bias": bias.astype("float32")}
        outputs.append(layer.call_with_cache(x[:, 5:], cache, 5, **step)[0])
    close(*outputs)


@pytest.mark.each_backend
@pytest.mark.parametrize("name", ["V", "alibi + V", "local(window=2)", "FD"])
@pytest.mark.skipif(BACKEND == "jax", reason="it lacks these products on CPUs")
def test_large_features_do_not_overflow_on_accelerators(name, monkeypatch):
    monkeypatch.setattr(execution, "on_cpu", lambda x: False)
    x = ops.convert_to_tensor(300 * normal(3, 8, 16))
    layer = mixers.get(name, 2, 8, 8, dtype="mixed_float16")
    assert np.isfinite(numpy(layer(x))).all()


# --- sums ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [("R", "alibi"), ("D", "alibi"), ("FR", "t5_relative")]
)
def test_the_order_of_a_sum_does_not_matter(names):
    """Half precision cannot tell ALiBi's logits of far tokens apart."""
    length, sums = 600, []
    for order in (names, names[::-1]):
        synthesizer = synthesizers.get(
            "+".join(order), H, K, length, defaults={"dtype": "bfloat16"}
        )
        synthesizer.build((None, length, 8))
        for i, weight in enumerate(sorted(synthesizer.weights, key=str)):
            weight.assign(np.full(weight.shape, float(i)))
        sums.append(synthesizer(ops.ones((1, length, 8), "bfloat16")))
    assert sums[0].bias.dtype == sums[1].bias.dtype
    for logits in sums:
        if "alibi" in names:
            assert (
                keras.backend.standardize_dtype(logits.bias.dtype) == "float32"
            )
            steps = np.diff(numpy(logits.with_rows(length).bias)[0, 0, 0])
            close(steps, -0.0625, atol=0)
