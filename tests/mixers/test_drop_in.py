"""SyntheticAttention where MultiHeadAttention stood: axes, windows, gates."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
from assertions import close
from backend import (
    build_optimizer,
    gradients,
    numpy,
    program,
    without_gradients,
)
from cached import decoded
from cases import CASES, D, H, K, each_kind
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.synthesizers import (
    MixtureSynthesizer,
    RandomSynthesizer,
    Synthesizer,
)

rng = np.random.default_rng(0)


def drawn(*shape):
    return rng.normal(size=shape).astype("float32")


def pair(**options):
    """MultiHeadAttention and ours, with the same weights."""
    theirs = keras.layers.MultiHeadAttention(H, K, **options)
    ours = SyntheticAttention(H, K, synthesizer="V", **options)
    return theirs, ours


def same_weights(theirs, ours, *inputs):
    for layer in (theirs, ours):
        layer.build(*(x.shape for x in inputs))
    for i, weight in enumerate(theirs.weights):
        weight.assign(0.5 * np.random.default_rng(i).normal(size=weight.shape))
    ours.set_weights(theirs.get_weights())


def assert_equal(theirs, ours, *inputs, atol=1e-5, **options):
    same_weights(theirs, ours, *inputs)

    def calls(*inputs):
        both = [
            layer(*inputs, return_attention_scores=True, **options)
            for layer in (theirs, ours)
        ]
        return *both, ours(*inputs, **options)  # by another route

    (expected, scores), (found, own), alone = keras.tree.map_structure(
        numpy, program(calls)(*inputs)
    )
    close(found, expected, atol=atol)
    close(own, scores, atol=atol)
    close(alone, expected, atol=atol)


# --- attention_axes -----------------------------------------------------------

AXES = [
    axes
    for count in (1, 2, 3)
    for axes in itertools.permutations((1, 2, 3), count)
]


@pytest.mark.parametrize("axes", [None, -2, (-3,), (-2, 1), *AXES])
def test_any_axes_in_any_order_equal_multi_head_attention(axes):
    if np.size(axes or (1, 2)) == 1 and keras.backend.backend() == "tensorflow":
        pytest.skip(
            "MultiHeadAttention's softmax takes at most five axes there"
        )
    x = drawn(2, 3, 2, 4, D)
    assert_equal(*pair(attention_axes=axes), x, x)


@pytest.mark.parametrize("axes", [(2,), (1, 2), (2, 1)])
def test_queries_and_sources_of_other_sizes_equal_multi_head_attention(axes):
    query = drawn(2, 3, 5, D)
    sizes = [3, 5]
    for axis in axes:
        sizes[axis - 1] = 2
    value = drawn(2, *sizes, D)
    assert_equal(*pair(attention_axes=axes), query, value)


@pytest.mark.each_backend
@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ((2,), (4, 4)),
        ((2,), (2, 4, 4)),
        ((2,), (2, 3, 4, 4)),
        ((2,), (2, 3, H, 4, 4)),
        ((2,), (1, 1, 1, 4, 4)),
        ((2,), (2, 3, 1, 1, 4)),
        ((2,), (1, 4, 1)),
        ((1, 2), (3, 4, 3, 4)),
        ((2, 1), (4, 3, 4, 3)),
        ((1, 2), (2, 3, 4, 3, 4)),
        ((1, 2), (2, H, 3, 4, 1, 4)),
    ],
)
def test_masks_of_all_ranks_equal_multi_head_attention(axes, shape):
    x = drawn(2, 3, 4, D)
    mask = rng.random(shape) < 0.7
    # One key that all see: MultiHeadAttention averages where nobody sees any.
    if shape[-1] == 1:
        mask[:] = True
        mask[:, 0] = axes != (2,)
    mask[..., :1] = True
    theirs, ours = pair(attention_axes=axes)
    assert_equal(theirs, ours, x, x, attention_mask=mask)


@each_kind
@pytest.mark.parametrize(
    "axes",
    [(1, 2), (2, 1), (2,)],
)
def test_synthesizers_see_attended_axes_as_one_axis(case, axes):
    """Against the same layer on tensors that were flattened by hand."""
    x = drawn(2, 2, 3, D)
    mask = np.array([[[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]], bool)
    layer = SyntheticAttention(
        H, K, synthesizer=CASES[case](), attention_axes=axes
    )
    found, scores = layer(
        x, value_mask=mask, use_causal_mask=True, return_attention_scores=True
    )
    flat = SyntheticAttention.from_config(
        {**layer.get_config(), "attention_axes": None}
    )
    others = [a for a in (1, 2) if a not in axes]
    order = (0, *others, *axes)
    rows = x.transpose(*order, 3)
    sizes = rows.shape
    batch = int(np.prod(sizes[: 1 + len(others)]))
    rows, padding = (
        rows.reshape(batch, -1, D),
        mask.transpose(order).reshape(batch, -1),
    )
    flat.build(rows.shape)
    flat.set_weights(layer.get_weights())
    expected, weights = flat(
        rows,
        value_mask=padding,
        use_causal_mask=True,
        return_attention_scores=True,
    )
    expected = numpy(expected).reshape(sizes).transpose(*np.argsort(order), 3)
    close(found, expected)
    close(numpy(scores).reshape(weights.shape), weights)


def test_padding_masks_can_omit_axes_that_are_not_attended():
    x = drawn(2, 3, 4, D)
    layer = SyntheticAttention(H, K, synthesizer="V", attention_axes=2)
    short = rng.random((2, 4)) < 0.6
    short[:, 0] = True
    full = np.broadcast_to(short[:, None], (2, 3, 4))
    close(
        layer(x, value_mask=short, query_mask=short),
        layer(x, value_mask=full, query_mask=full),
        atol=1e-6,
    )


def test_images_train_with_a_table_of_all_their_positions():
    images = keras.Input((4, 3, D))
    layer = mixers.get("R+V", H, K, 12, attention_axes=(1, 2))
    model = keras.Model(images, layer(images))
    assert model.output_shape == (None, 4, 3, D)
    model.compile("adam", "mse")
    before = numpy(layer.synthesizer.weights[0].value)
    model.fit(drawn(4, 4, 3, D), drawn(4, 4, 3, D), verbose=0)
    assert np.abs(numpy(layer.synthesizer.weights[0].value) - before).max() > 0
    with pytest.raises(ValueError, match="20 tokens is longer"):
        layer(drawn(2, 5, 4, D))


@pytest.mark.each_backend
def test_unknown_sizes_of_several_axes_are_unknown_lengths():
    video = keras.Input((None, None, D))
    layer = mixers.get("R", H, K, 12, attention_axes=(2, 1))
    model = keras.Model(video, layer(video))
    x = drawn(2, 4, 3, D)
    close(model.predict(x, verbose=0), layer(x))


@pytest.mark.parametrize("axes", [(0,), (3,), -1, (1, 1), (1, -3), (7,)])
def test_axes_that_cannot_be_attended_are_errors(axes):
    layer = SyntheticAttention(H, K, synthesizer="V", attention_axes=axes)
    with pytest.raises(ValueError, match="different axes between"):
        layer(drawn(2, 3, 4, D))


def test_shapes_that_do_not_belong_together_are_errors():
    layer = SyntheticAttention(H, K, synthesizer="V", attention_axes=2)
    with pytest.raises(ValueError, match="same number of axes"):
        layer(drawn(2, 3, 4, D), drawn(2, 3, D))
    with pytest.raises(ValueError, match="must be equal"):
        layer(drawn(2, 3, 4, D), drawn(2, 2, 4, D))
    with pytest.raises(ValueError, match="`value_mask` must have the shape"):
        layer(drawn(2, 3, 4, D), value_mask=np.ones((2, 3), bool))
    with pytest.raises(ValueError, match="`attention_mask` must broadcast"):
        layer(drawn(2, 3, 4, D), attention_mask=np.ones((4, 5), bool))
    with pytest.raises(ValueError, match="`attention_mask` must broadcast"):
        layer(drawn(2, 3, 4, D), attention_mask=np.ones((1,) * 6, bool))


# --- windows, gates, kernels --------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 3, 100])
def test_a_sliding_window_equals_multi_head_attentions(window, causal):
    x = drawn(2, 7, D)
    options = {"use_causal_mask": causal}
    assert_equal(*pair(sliding_window=window), x, x, **options)
    padding = np.arange(7) < np.array([[7], [5]])
    theirs, ours = pair(sliding_window=window)
    same_weights(theirs, ours, x, x)
    close(
        numpy(ours(x, x, value_mask=padding, **options))[:, :5],
        numpy(theirs(x, x, value_mask=padding, **options))[:, :5],
    )


@each_kind
def test_windows_and_gates_decode_as_they_read(case):
    layer = SyntheticAttention(
        H, K, synthesizer=CASES[case](), sliding_window=3, use_gate=True
    )
    x = ops.convert_to_tensor(drawn(2, 7, D))
    layer.build(x.shape)
    expected = numpy(program(lambda x: layer(x, use_causal_mask=True))(x))
    close(decoded(layer, x, range(1, 8), 7)[0], expected)


@pytest.mark.each_backend
def test_gates_and_sizes_equal_multi_head_attentions():
    query, value = drawn(2, 5, D), drawn(2, 4, D)
    assert_equal(*pair(use_gate=True), query, value)
    assert_equal(*pair(use_gate=True, use_bias=False), query, value)
    options = {"value_dim": 3, "output_shape": 6, "flash_attention": False}
    assert_equal(*pair(use_gate=True, **options), query, value)


@pytest.mark.parametrize("synthesizer", ["V", "R"])
def test_a_gate_of_masked_queries_lets_nothing_through(synthesizer):
    layer = mixers.get(synthesizer, H, K, 5, use_gate=True)
    x = drawn(2, 5, D)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    expected = numpy(layer(x, query_mask=mask, value_mask=mask))
    x[~mask] = np.nan
    for context in (without_gradients(), contextlib.nullcontext()):
        with context:
            found = numpy(layer(x, query_mask=mask, value_mask=mask))
        close(found, expected, atol=1e-6)
        with context:
            found, _ = layer.call_with_cache(
                x, layer.make_cache(2, 5), 0, value_mask=mask
            )
        assert np.isfinite(numpy(found)[mask]).all()

    def loss(x):
        y = layer(x, value_mask=mask)
        return ops.sum(ops.where(mask[..., None], y, 0.0) ** 2)

    assert np.isfinite(gradients(loss, x)[0]).all()


def test_a_table_has_no_flash_kernel():
    layer = mixers.get("R", H, 8, 8, flash_attention=True)
    with pytest.raises(ValueError, match="compare queries with keys"):
        layer(drawn(2, 8, D))


# --- synthesizers of others ---------------------------------------------------


class KeyBias(Synthesizer):
    """One row of logits for all queries: how much each position is worth."""

    reads_tokens = False

    def build(self, query_shape, source_shape=None):
        self.worth = self.add_table("worth", (self.num_heads, 16), "normal")
        self.built = True

    def call(self, query, keys=None, *, start=0, length=None):
        length = ops.shape(query)[1] if length is None else length
        row = ops.convert_to_tensor(self.worth)[:, :length]
        return Logits(bias=row[None, :, None, :])


@pytest.mark.parametrize("causal", [False, True])
def test_a_row_of_logits_for_all_queries_makes_a_context_for_each(causal):
    parts = [KeyBias(H), RandomSynthesizer(H, 9)]
    layer = mixers.get(MixtureSynthesizer(parts), H, K)
    x = ops.convert_to_tensor(drawn(2, 5, D))
    mask = np.arange(5) < np.array([[5], [3]])
    options = {"value_mask": mask, "use_causal_mask": causal}
    output, scores = layer(x, return_attention_scores=True, **options)
    weights = numpy(layer.synthesizer(x).materialize())
    weights = np.exp(weights) * mask[:, None, None, :]
    weights = weights * (np.tri(5) if causal else np.ones((5, 5)))
    weights = weights / weights.sum(-1, keepdims=True)
    close(scores, weights)
    context = np.einsum("bhts,bshv->bthv", weights, numpy(layer.value(x)))
    expected = numpy(layer.attention_output(ops.convert_to_tensor(context)))
    for found in (output, layer(x, **options)):
        close(found, expected)


# --- inside layers of others --------------------------------------------------


class TransformerBlock(keras.layers.Layer):
    """As keras.io's examples write it: parts made in __init__, no build."""

    def __init__(self, attention, width, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.attention = attention
        self.feed_forward = keras.Sequential(
            [keras.layers.Dense(16, "relu"), keras.layers.Dense(width)]
        )
        self.norms = [keras.layers.LayerNormalization() for _ in range(2)]
        self.dropout = keras.layers.Dropout(0.1)

    def call(self, x):
        y = self.dropout(self.attention(x, x))
        x = self.norms[0](x + y)
        return self.norms[1](x + self.feed_forward(x))


@pytest.mark.parametrize("name", ["V", "R", "D", "FR", "FD", "Fix", "R+V"])
def test_a_custom_layer_without_build_supports_unknown_lengths(name):
    """PyTorch probes such layers with lengths of 83 and 89."""
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, D, mask_zero=True)(tokens)
    attention = SyntheticAttention(H, K, synthesizer=name, max_length=50)
    x = TransformerBlock(attention, D)(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(tokens, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    build_optimizer(model)
    ids = np.array([[1, 2, 3, 0], [4, 5, 0, 0]], "int32")
    model.fit(ids, np.ones((2, 1)), verbose=0)
    assert model.predict(ids, verbose=0).shape == (2, 1)
    if name != "V":
        with pytest.raises(ValueError, match="60 tokens is longer"):
            attention(drawn(1, 60, D))
