"""Arguments of a call, and the aliases of a layer's projections."""

import h5py
import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close, equal
from backend import numpy, program
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention

X = normal(2, 5, 8)
MASK = np.array([[1] * 5, [1, 1, 1, 0, 0]], bool)


def attention(synthesizer="V", **options):
    return SyntheticAttention(
        2, 4, synthesizer=synthesizer, max_length=9, **options
    )


def test_an_argument_by_place_and_by_name_is_a_type_error():
    layer = attention()
    with pytest.raises(TypeError, match="argument 'query_mask'"):
        layer(X, X, X, MASK, query_mask=MASK)
    with pytest.raises(TypeError, match="argument 'mask'"):
        layer(X, X, X, None, None, None, None, None, MASK, mask=MASK)


@pytest.mark.each_backend
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_mask_of_keras_counts_beside_an_attention_mask(dtype):
    layer = attention(dtype=dtype)
    band = np.ones((1, 5, 5), bool)
    tokens = keras.layers.Embedding(3, 8, mask_zero=True, dtype="float32")
    ids = ops.convert_to_tensor(MASK, "int32")
    masks = {"query_mask": MASK, "value_mask": MASK}
    expected = layer(numpy(tokens(ids)), attention_mask=band, **masks)

    def call(ids):
        return layer(tokens(ids), attention_mask=band)

    model = keras.Model(x := keras.Input((5,), dtype="int32"), call(x))
    for function in (call, program(call), model):
        equal(function(ids), expected)


@pytest.mark.parametrize("name", ["V", "R", "R+V", "D", "heads(V=1, R=1)"])
def test_projections_have_the_names_of_multi_head_attention(name):
    """`None` for those that there are not, or not yet."""
    layer = attention(name)
    assert layer.output_dense is None
    layer.build(X.shape)
    assert layer.query_dense is getattr(layer.synthesizer, "query", None)
    assert layer.key_dense is getattr(layer.synthesizer, "key", None)
    assert layer.value_dense is layer.value
    assert layer.output_dense is layer.attention_output


@pytest.mark.parametrize("mixer", ["V", "linformer(rank=3)", "gmlp", "pooling"])
def test_weights_are_saved_under_attributes_not_aliases(mixer, tmp_path):
    layer = mixers.get(mixer, num_heads=2, key_dim=4, max_length=9)
    layer.build((None, 5, 8))
    path = tmp_path / "model.weights.h5"
    keras.Model(inputs := keras.Input((5, 8)), layer(inputs)).save_weights(path)
    names = set()
    with h5py.File(path) as file:
        file.visit(lambda name: names.update(name.split("/")))
    aliases = {
        name
        for cls in type(layer).__mro__
        if cls.__module__.startswith("keras_synth.")
        for name, value in vars(cls).items()
        if isinstance(value, property)
    }
    assert not names & aliases


def test_output_tokens_can_have_as_many_axes_as_there_are_letters():
    shape = (1, 2, 1, 1, 2, 1, 1, 1, 2)
    layer = attention("R", output_shape=shape)
    assert layer(X).shape == (2, 5, *shape)
    assert layer.compute_output_shape(X.shape) == (2, 5, *shape)
    with pytest.raises(ValueError, match="output_shape"):
        attention(output_shape=(1,) * 40)


def test_a_clone_of_another_dtype_is_of_that_dtype_throughout():
    for name in ("V", "D", "R + V", "heads(V=1, D=1)", "alibi + FD"):
        config = attention(name).get_config()
        clone = SyntheticAttention.from_config(
            {**config, "dtype": "mixed_bfloat16"}
        )
        clone.build(X.shape)
        policies = {
            layer.path: layer.dtype_policy.name
            for layer in clone._flatten_layers()
        }
        assert {*policies.values()} == {"mixed_bfloat16"}, policies


def test_a_synthesizer_of_another_dtype_keeps_it():
    part = mixers.get("D", 2, 4, 9, dtype="float32").synthesizer
    part = type(part).from_config(part.get_config())
    layer = attention(part, dtype="mixed_bfloat16")
    clone = SyntheticAttention.from_config(layer.get_config())
    assert clone.synthesizer.dtype_policy.name == "float32"
    assert ops.is_tensor(clone(X))


@pytest.mark.parametrize("name", ["V", "R", "linear", "light_conv(width=3)"])
def test_lists_are_masks_too(name):
    layer = mixers.get(name, 2, 4, 9)
    layer.build(X.shape)

    def outputs(mask):
        yield layer(X, query_mask=mask, value_mask=mask)
        yield layer.call_with_cache(X, layer.make_cache(2, 5), 0, mask)[0]

    for pair in zip(outputs(MASK), outputs(MASK.tolist()), strict=True):
        close(*pair, atol=1e-6)
