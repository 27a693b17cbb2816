"""The streamed route: the explicit one, piece by piece."""

import functools
import gc
import threading
import time
import weakref

import keras
import numpy as np
import pytest
from backend import compiled_gradients, gradients, slow_but_on
from keras import ops

from keras_synth.attend import attend
from keras_synth.attention.routes.in_place import threads
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits, Product
from keras_synth.masks import AttentionMask, causal
from keras_synth.routes import grid, in_place, shared

B, T, S, H, K, V = 4, 5, 6, 2, 3, 7

# Which operands there are, and along which axes they are broadcast.
OPERANDS = {
    "queries and keys": {"queries": (B, T, H, K), "keys": (B, S, H, K)},
    "constant keys": {"queries": (B, T, H, K), "keys": (1, S, H, K)},
    "a shared bias": {
        "queries": (B, T, H, K),
        "keys": (B, S, H, K),
        "bias": (1, H, T, S),
    },
    "a bias of every sample": {"bias": (B, H, T, S)},
    "one row for all": {
        "queries": (B, T, H, K),
        "keys": (1, S, H, K),
        "bias": (1, H, 1, S),
    },
    "one bias for all heads": {
        "queries": (B, T, H, K),
        "keys": (B, S, H, K),
        "bias": (B, 1, T, S),
    },
    "a table": {"bias": (1, H, T, S)},
}
# Entries of a piece's weights: one head, one sample, two samples, everything.
PIECES = [1, H * T * S, 2 * H * T * S, 2**20]


def masks(name):
    rng = np.random.default_rng(3)
    keys = rng.random((B, S)) < 0.6
    keys[2] = False
    keys = ops.convert_to_tensor(keys)
    return {
        "no mask": AttentionMask(),
        "padding": AttentionMask(keys=keys),
        "causal": AttentionMask(pairs=causal(T, S)),
        "padding and causal": AttentionMask(keys=keys, pairs=causal(T, S)),
        "padding and a window": AttentionMask(keys=keys, window=2, start=1),
        "pairs of every head": AttentionMask(
            pairs=ops.convert_to_tensor(rng.random((B, H, T, S)) < 0.5)
        ),
    }[name]


def problem(name, mask, route):
    """A loss of all operands that there are, and these."""
    rng = np.random.default_rng(0)
    shapes = {**OPERANDS[name], "values": (B, S, H, V)}
    arrays = [rng.normal(size=s).astype("float32") for s in shapes.values()]
    direction = ops.convert_to_tensor(
        rng.normal(size=(B, T, H, V)).astype("float32")
    )

    def loss(*tensors):
        given = dict(zip(shapes, tensors, strict=True))
        values = given.pop("values")
        context = attend(Logits(**given), values, mask, route=route)
        return ops.sum(context * direction)

    return loss, arrays


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize("name", OPERANDS)
def test_pieces_of_any_size_give_the_explicit_gradients(
    name, size, monkeypatch
):
    monkeypatch.setattr(grid, "PIECE_SIZE", size)
    monkeypatch.setattr(in_place, "PIECE_SIZE", size)
    mask = masks("padding and causal")
    mine, theirs = (
        gradients(*_unpacked(problem(name, mask, route)))
        for route in ("streamed", "explicit")
    )
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


# Elsewhere each is compiled, which takes seconds: every operand with one mask,
# every mask with one operand.
@pytest.mark.parametrize(
    ("name", "mask"),
    [
        (name, mask)
        if name == "queries and keys" or mask == "pairs of every head"
        else pytest.param(name, mask, marks=slow_but_on("torch"))
        for name in (
            "queries and keys",
            "a shared bias",
            "a bias of every sample",
        )
        for mask in ("no mask", "padding", "causal", "pairs of every head")
    ],
)
def test_a_compiled_loop_gives_the_explicit_gradients(name, mask, monkeypatch):
    monkeypatch.setattr(grid, "PIECE_SIZE", T * S)  # one head at a time
    mask = masks(mask)
    mine = compiled_gradients(*_unpacked(problem(name, mask, "streamed")))
    theirs = gradients(*_unpacked(problem(name, mask, "explicit")))
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.fixture
def many_threads(monkeypatch):
    """Four threads for PyTorch, and streamed attention by all of them."""
    torch = pytest.importorskip("torch")
    if keras.backend.backend() != "torch":
        pytest.skip("only PyTorch's pieces have threads")
    for least in ("SHARED_CONTEXT", "SHARED_GRADIENT"):
        monkeypatch.setattr(in_place, least, (0, 0))
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield torch
    torch.set_num_threads(before)


@pytest.mark.parametrize("size", [T * S, 2**20])
@pytest.mark.parametrize("mask", ["padding", "padding and a window"])
@pytest.mark.parametrize("name", OPERANDS)
def test_threads_give_the_explicit_gradients(
    name, mask, size, many_threads, monkeypatch
):
    monkeypatch.setattr(in_place, "PIECE_SIZE", size)
    mine, theirs = (
        gradients(*_unpacked(problem(name, masks(mask), route)))
        for route in ("streamed", "explicit")
    )
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert many_threads.get_num_threads() == 4


@pytest.mark.parametrize(
    ("name", "shared_out"),
    [("a shared bias", 2), ("one bias for all heads", 1)],
)
def test_a_sum_over_heads_is_left_to_one_thread(
    name, shared_out, many_threads, monkeypatch
):
    """Two threads that add to one gradient would lose what one of them adds."""
    calls = []
    monkeypatch.setattr(
        threads, "share", lambda parts, work: calls.append(work(parts))
    )
    gradients(*_unpacked(problem(name, masks("no mask"), "streamed")))
    assert len(calls) == shared_out


@pytest.mark.parametrize(
    ("batch", "shared_out"), [(1, False), (7, False), (8, True)]
)
def test_small_batches_are_left_to_one_thread(
    batch, shared_out, many_threads, monkeypatch
):
    least = T * S, 8 * H * T * S  # weights of a head, of the batch
    monkeypatch.setattr(in_place, "SHARED_CONTEXT", least)
    calls = []
    monkeypatch.setattr(
        threads, "share", lambda parts, work: calls.append(work(parts))
    )
    queries = many_threads.zeros((batch, T, H, K))
    keys = many_threads.zeros((batch, S, H, K))
    with many_threads.no_grad():
        attend(Logits(queries, keys), keys, route="streamed")
    assert bool(calls) == shared_out


def test_threads_work_where_inference_is_declared(many_threads):
    loss, arrays = problem("a shared bias", masks("causal"), "streamed")
    tensors = [ops.convert_to_tensor(x) for x in arrays]
    expected = float(loss(*tensors))
    with many_threads.inference_mode():
        assert float(loss(*tensors)) == pytest.approx(expected, rel=1e-5)


def test_each_part_comes_to_one_thread_and_errors_come_back(many_threads):
    used, done = set(), []

    def work(parts):
        for part in parts:
            used.add(threading.get_ident())
            assert many_threads.get_num_threads() == 1
            assert not many_threads.is_grad_enabled()
            time.sleep(0.01)
            done.append(part)

    threads.share(list(range(9)), work)
    assert sorted(done) == list(range(9))
    assert 1 < len(used) <= 4
    assert threading.get_ident() not in used

    def fail(parts):
        raise ValueError(f"not {next(parts)}")

    with pytest.raises(ValueError, match="not 7"):
        threads.share([7, 7], fail)
    assert many_threads.get_num_threads() == 4


def _unpacked(pair):
    loss, arrays = pair
    return loss, *arrays


# Shapes of both factors of a bias and its length.
PRODUCTS = {
    "a number for each head": ((1, H, 1, 1), (1, H, T, S), S),
    "a number for all heads": ((1, 1, 1, 1), (1, H, T, S), S),
    "rows of factors": ((B, H, T, 2), (B, H, T, 3), S),
    "rows that are cut": ((B, H, T, 3), (B, H, T, 3), S),
    "one factor": ((B, H, T, 1), (B, H, T, S + 2), S),
    "factors for all samples": ((1, H, 1, 2), (1, H, T, 3), S),
}


@pytest.mark.parametrize("mask", ["no mask", "padding", "causal"])
@pytest.mark.parametrize("size", [2 * S, 2**20])
@pytest.mark.parametrize("queries", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_what_they_stand_for(
    name, queries, size, mask, monkeypatch
):
    monkeypatch.setattr(grid, "PIECE_SIZE", size)
    monkeypatch.setattr(in_place, "PIECE_SIZE", size)
    first, second, length = PRODUCTS[name]
    shapes = [(B, S, H, V), first, second]
    if queries:
        shapes += [(B, T, H, K), (B, S, H, K)]
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=s).astype("float32") for s in shapes]
    upstream = ops.convert_to_tensor(
        rng.normal(size=(B, T, H, V)).astype("float32")
    )

    def loss(route, values, repeated, tiled, *pair):
        logits = Logits(bias=Product(repeated, tiled, length))
        if pair:
            logits = logits + Logits(*pair)
        context = attend(logits, values, masks(mask), route=route)
        return ops.sum(context * upstream)

    mine, theirs = (
        gradients(functools.partial(loss, route), *arrays)
        for route in ("streamed", "explicit")
    )
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="PyTorch writes in place"
)
@pytest.mark.parametrize("name", ["R", "FR", "R+FR", "R+V", "D", "FD", "FD+V"])
def test_no_table_is_held_beside_weights_and_gradients(name, monkeypatch):
    """Training holds no tensor of `T x S` but R and its gradient."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    length = 64
    monkeypatch.setattr(shared, "LARGE_TABLE", 1)
    monkeypatch.setattr(in_place, "PIECE_SIZE", 8 * length)
    layer = SyntheticAttention(2, 4, synthesizer=name, max_length=length)
    x = ops.convert_to_tensor(np.ones((3, length, 8), "float32"))
    layer.build(x.shape)
    tables, seen = length * length, []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            if isinstance(found, torch.Tensor) and found.numel() >= tables:
                seen.append(found.untyped_storage().data_ptr())
            return found

    with Sizes():
        layer(x.requires_grad_()).square().sum().backward()
    weights = [v.value for v in layer.trainable_variables]
    known = [w.grad for w in weights] + weights
    known = {x.untyped_storage().data_ptr() for x in known}
    assert not {*seen} - known


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_kept(dtype):
    rng = np.random.default_rng(0)
    q, k, v = (ops.cast(rng.normal(size=(B, T, H, V)), dtype) for _ in range(3))
    context = attend(Logits(q, k), v, route="streamed")
    expected = attend(
        Logits(*(ops.cast(x, "float32") for x in (q, k))),
        ops.cast(v, "float32"),
        route="explicit",
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(ops.cast(context, "float32")),
        ops.convert_to_numpy(expected),
        atol=4e-2,
    )


@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="only PyTorch counts references"
)
@pytest.mark.parametrize("route", ["shared", "streamed"])
def test_nothing_is_kept_after_a_step(route):
    """A gradient that holds its own output waits for the garbage collector."""
    loss, arrays = problem("a table", masks("padding"), route)
    leaves = [ops.convert_to_tensor(x).requires_grad_() for x in arrays]
    operands = [2 * x for x in leaves]
    kept = [weakref.ref(x) for x in operands]
    gc.disable()
    try:
        loss(*operands).backward()
        assert all(ref() is not None for ref in kept)
        del operands
        assert all(ref() is None for ref in kept)
    finally:
        gc.enable()
    assert all(x.grad is not None for x in leaves)
