"""Attention is exact under any logits, and as small as promised."""

import functools

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close
from backend import derived, gradients, on_cpu
from keras import ops

from keras_synth.attend import attend
from keras_synth.attention.masks import AttentionMask
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.mixers import normalizers
from keras_synth.mixers.patterns import Stride, Window

backend = keras.backend.backend()
WIDTH = 3


def test_dropout_of_a_shared_table_has_the_explicit_gradients():
    rng = np.random.default_rng(0)
    keep = ops.convert_to_tensor((rng.random((2, 6, 6)) < 0.7) / 0.7, "float32")
    values = rng.normal(size=(3, 6, 2, WIDTH)).astype("float32")
    weights = ops.convert_to_tensor(
        rng.normal(size=(3, 6, 2, WIDTH)), "float32"
    )
    keys = np.ones((3, 6), bool)
    keys[1, 4:] = False
    mask = AttentionMask(keys=ops.convert_to_tensor(keys))
    table = rng.normal(size=(2, 6, 6)).astype("float32")
    table[..., 5:] += 20

    def loss(route):
        def function(table, values):
            context = attend(
                Logits(bias=table[None]),
                values,
                mask,
                dropout=lambda w: w * keep,
                route=route,
            )
            return ops.sum(context * weights)

        return function

    for lead in (0, 30):
        table[..., 5:] += lead
        once, explicit = (
            gradients(loss(route), table, values)
            for route in ("shared", "explicit")
        )
        close(once, explicit, atol=2e-5)


BATCH, LENGTH, HEADS = 5, 16, 3
PAIRS = HEADS * LENGTH * LENGTH


@pytest.mark.each_backend
# Accelerators use pieces of whole batches, for small batches.
@pytest.mark.skipif(
    backend != "jax" or not on_cpu(), reason="reads JAX's own trace"
)
@pytest.mark.parametrize("name", ["R", "FR", "R+FR"])
@pytest.mark.parametrize("use_causal", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_tensors_per_sample_head_and_pair_are_never_made(
    name, use_causal, rate
):
    """Reads every intermediate of forward and backward from the trace."""
    import jax

    layer = SyntheticAttention(
        HEADS, 2, synthesizer=name, max_length=LENGTH, dropout=rate, seed=0
    )
    layer.build((None, LENGTH, 4))
    state = [v.value for v in layer.non_trainable_variables]

    def loss(weights, x, mask):
        out, _ = layer.stateless_call(
            weights,
            state,
            x,
            value_mask=mask,
            use_causal_mask=use_causal,
            training=True,
        )
        return ops.sum(out**2)

    weights = [v.value for v in layer.trainable_variables]
    x, mask = np.ones((BATCH, LENGTH, 4)), np.ones((BATCH, LENGTH), bool)
    trace = jax.make_jaxpr(jax.grad(loss, (0, 1)))(weights, x, mask)
    sizes = list(_sizes(trace.jaxpr))
    assert max(sizes) < BATCH * PAIRS
    assert PAIRS in sizes  # the table itself was seen


def _sizes(jaxpr):
    """Sizes of all values in a trace, those of inner traces included."""
    import jax

    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield int(np.prod(variable.aval.shape))
        for inner in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda p: hasattr(p, "jaxpr") or hasattr(p, "eqns"),
        ):
            if hasattr(inner, "jaxpr"):
                yield from _sizes(inner.jaxpr)
            elif hasattr(inner, "eqns"):
                yield from _sizes(inner)


@pytest.mark.skipif(
    backend != "torch" or not on_cpu(), reason="counts torch's allocations"
)
def test_torch_keeps_nothing_per_sample_head_and_pair():
    import torch

    layer = SyntheticAttention(HEADS, 2, synthesizer="R", max_length=LENGTH)
    x = torch.ones((BATCH, LENGTH, 4), requires_grad=True)
    mask = torch.ones((BATCH, LENGTH), dtype=torch.bool)
    mask[1, 9:] = False
    layer(x, value_mask=mask)
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            seen.extend(
                t.numel()
                for t in torch.utils._pytree.tree_leaves(out)
                if isinstance(t, torch.Tensor)
            )
            return out

    with Watch():
        layer(x, value_mask=mask, use_causal_mask=True).sum().backward()
    assert max(seen) < BATCH * PAIRS
    assert PAIRS in seen


# Other backends need a compiled call for tiles without a plan.
TILES = {"route": "tiles"} if backend == "torch" else {}


class Cold(normalizers.Softmax):
    def weights(self, logits, count=None):
        return super().weights(3 * logits)


@pytest.mark.parametrize(
    "lengths, mask, options",
    [
        ((5, 7), {"pattern": Window(2)}, {}),
        ((7, 5), {"pattern": Window(2)}, {}),
        ((5, 7), {"pattern": Window(2), "causal": True}, {}),
        ((7, 5), {"pattern": Window(2), "causal": True}, {}),
        (
            (20, 20),
            {"pattern": Window(2) | Stride(5)},
            {"normalizer": Cold(), **TILES},
        ),
    ],
)
def test_patterns_and_custom_normalizers_have_one_result(
    lengths, mask, options
):
    target, source = lengths
    logits = Logits(normal(2, target, 2, 4), normal(2, source, 2, 4, seed=1))
    given = logits, normal(2, source, 2, 4, seed=2), AttentionMask(**mask)
    expected = attend(*given, **{**options, "route": "explicit"})
    close(attend(*given, **options), expected)


def test_a_window_is_cut_to_a_length():
    assert Window(1, dilation=100).cut(10) == Window(1, dilation=10)
    assert Window(9, dilation=3).cut(10) == Window(3, dilation=3)


@pytest.mark.each_backend
@pytest.mark.parametrize("dtype, atol", [("float32", 1e-5), ("bfloat16", 0.05)])
@pytest.mark.parametrize("samples", [1, 3])
def test_padding_of_all_samples_hides_any_logit(samples, dtype, atol):
    """The padded key has a logit that is larger by 200 than all others."""
    table = normal(1, 2, 5, 4)
    table[..., 1] += 200.0
    values = ops.cast(normal(samples, 4, 2, 3, seed=1), dtype)
    keys = np.array([[True, False, True, True]])
    mask = AttentionMask(keys=ops.convert_to_tensor(keys))

    def loss(route, table):
        context = attend(Logits(bias=table), values, mask, route=route)
        context = ops.cast(context, "float32")
        return ops.sum(context**2), context

    found, wanted = (
        derived(functools.partial(loss, route), [table])
        for route in ("shared", "explicit")
    )
    close(found[0], wanted[0], atol=atol)
    close(found[1][0], wanted[1][0], atol=atol)
