"""The weights of any model, seen without changing it."""

import threading

import keras
import numpy as np
import pytest
from attending_models import MODELS, B, D, H, S, T, made
from backend import numpy, slow_but_on

from keras_synth import analysis, layers

# They differ between models, not backends, and JAX compiles each operation.
each_kind = pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("R+V", "T5", "functional")
        else pytest.param(name, marks=slow_but_on("torch"))
        for name in MODELS
    ],
)


def outputs(model, inputs):
    return [numpy(x) for x in keras.tree.flatten(model(inputs, training=False))]


def attention_layers(model):
    kinds = "SyntheticAttention T5MultiHeadAttention CachedMultiHeadAttention"
    kinds = {*kinds.split(), "MultiHeadAttention"}
    found = model._flatten_layers()
    return [x for x in found if type(x).__name__ in kinds]


def projections(layer):
    """Of values, and of what heads make of them."""
    if type(layer).__name__ == "T5MultiHeadAttention":

        def values(x):
            x = numpy(layer.value_projector(x))
            return x.reshape(*x.shape[:2], H, -1)

        def merged(x):
            return layer.output_projector(x.reshape(*x.shape[:2], -1))

        return values, merged
    return (lambda x: numpy(layer.value_dense(x))), layer.output_dense


@each_kind
def test_weights_times_values_are_what_the_layer_returns(name, monkeypatch):
    model, inputs = made(name)
    calls = []
    for layer in attention_layers(model):

        def call(*args, layer=layer, call=layer.call, **kwargs):
            found = call(*args, **kwargs)
            query = args[0] if args else kwargs["query"]
            value = kwargs.get("value", args[1] if len(args) > 1 else None)
            value = kwargs.get("key_value_states", value)
            value = query if value is None else value
            output = found[0] if isinstance(found, tuple) else found
            calls.append((layer, value, numpy(output)))
            return found

        monkeypatch.setitem(vars(layer), "call", call)
    weights = analysis.attention_weights(model, inputs)
    assert len(weights) == len(calls) > 1
    for (path, own), (layer, value, output) in zip(
        weights.items(), calls, strict=True
    ):
        assert path.startswith(layer.path)
        assert own.shape[:2] == (B, H)
        sums = own.sum(-1)  # of padded queries some layers have none
        np.testing.assert_allclose(sums, sums > 0.5, atol=1e-5)
        assert (sums[0, :, 0] > 0.5).all()
        values, merged = projections(layer)
        context = np.einsum("bhts,bshv->bthv", own, values(value))
        np.testing.assert_allclose(
            numpy(merged(context.astype("float32"))), output, atol=1e-4
        )


@each_kind
def test_the_model_is_as_it_was(name):
    model, inputs = made(name)
    expected = outputs(model, inputs)
    before = [numpy(w) for w in model.weights]
    attributes = [{**vars(x)} for x in model._flatten_layers()]
    analysis.attention_weights(model, inputs, parts=True)
    for layer, known in zip(model._flatten_layers(), attributes, strict=True):
        assert vars(layer).keys() == known.keys()
        same = {k for k in known if vars(layer)[k] is known[k]}
        # What Keras notes where a layer is called for the first time.
        assert {*known} - same <= {"_called", "_parent_path"}
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(weight), value)
    for again, first in zip(outputs(model, inputs), expected, strict=True):
        np.testing.assert_array_equal(again, first)


def test_padding_has_no_weight_and_no_token_sees_a_later_one():
    model, inputs = made("causal task")
    real = inputs["padding_mask"].astype(bool)
    for own in analysis.attention_weights(model, inputs).values():
        assert (
            own[~np.broadcast_to(real[:, None, None], own.shape)] == 0
        ).all()
        assert (np.triu(own, 1) == 0).all()


def test_cross_attention_is_of_both_sequences():
    model, inputs = made("seq2seq")
    weights = analysis.attention_weights(model, inputs)
    assert {k: x.shape[2:] for k, x in weights.items()} == {
        "encoder_layer_0/self_attention": (S, S),
        "decoder_layer_0/self_attention": (T, T),
        "decoder_layer_0/cross_attention": (T, S),
    }


def test_a_layer_that_is_called_again_has_a_number():
    model, inputs = made("functional")
    weights = analysis.attention_weights(model, inputs)
    assert [*weights] == ["attention", "attention_1"]
    assert (np.triu(weights["attention_1"], 1) == 0).all()
    assert (np.triu(weights["attention"], 1) > 0).any()


def check_product(weights, mixture, names, shares):
    """`softmax(sum_i alpha_i S_i)` is `prod_i softmax(S_i)^alpha_i`, scaled."""
    product = 1.0
    for name, share in zip(names, shares, strict=True):
        product = product * weights[name] ** share[:, None, None]
    total = product.sum(-1, keepdims=True)
    np.testing.assert_allclose(
        product / np.maximum(total, 1e-30), mixture, atol=1e-5
    )


def test_parts_are_what_the_mixture_mixes():
    model, inputs = made("R+V")
    weights = analysis.attention_weights(model, inputs, parts=True)
    tables = analysis.tables(model)
    for i in range(2):
        path = f"encoder_layer_{i}/self_attention"
        parts = [f"{path}/synthesizer/part_{k}" for k in (0, 1)]
        shares = tables[f"{path}/synthesizer/alphas"]
        assert shares.shape == (2, H)
        np.testing.assert_allclose(shares.sum(0), 1, atol=1e-6)
        check_product(weights, weights[path], parts, shares)
        # R reads no token; the first sample has no padding.
        table = np.exp(tables[f"{parts[0]}/R"][:, :T, :T])
        table /= table.sum(-1, keepdims=True)
        np.testing.assert_allclose(weights[parts[0]][0], table, atol=1e-5)


@slow_but_on("torch")
def test_parts_of_a_group_have_its_heads():
    model, inputs = made("head groups")
    weights = analysis.attention_weights(model, inputs, parts=True)
    path = "encoder_layer_0/self_attention"
    group = f"{path}/synthesizer/group_1"
    parts = [f"{group}/part_{k}" for k in (0, 1)]
    assert weights[parts[0]].shape == (B, 1, T, T)
    shares = analysis.tables(model)[f"{group}/alphas"]
    check_product(weights, weights[path][:, 1:], parts, shares)


@slow_but_on("torch")
def test_only_the_layers_that_are_named():
    model, inputs = made("R+V")
    name = "encoder_layer_1/self_attention"
    (found,) = analysis.attention_weights(model, inputs, layers=name)
    assert found == name


def test_a_compiled_task_is_seen_and_trains_on():
    model, inputs = made("causal task")
    model.compile(
        optimizer="adam",
        loss="sparse_categorical_crossentropy",
        weighted_metrics=[],
    )
    expected = model.predict(inputs, verbose=0)
    weights = analysis.attention_weights(model, inputs)
    assert len(weights) == 2
    np.testing.assert_array_equal(model.predict(inputs, verbose=0), expected)
    labels = inputs["token_ids"]
    model.fit(inputs, labels, verbose=0)
    again = analysis.attention_weights(model, inputs)
    name = "decoder_layer_0/self_attention"
    assert not np.array_equal(again[name], weights[name])


class Subclassed(keras.Model):
    def __init__(self, broken=False):
        super().__init__()
        self.attention = layers.SyntheticAttention(
            H, 4, synthesizer="D+V", max_length=S
        )
        self.broken = broken

    def call(self, x):
        y = self.attention(x, attention_bias=np.ones((T, T), "float32"))
        if self.broken:
            raise RuntimeError("broken on purpose")
        return y


@slow_but_on("torch")
def test_a_model_that_is_not_built_yet():
    weights = analysis.attention_weights(Subclassed(), np.ones((B, T, D)))
    assert [x.shape for x in weights.values()] == [(B, H, T, T)]


def test_what_was_replaced_is_back_after_an_error():
    model = Subclassed()
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    model(x)
    model.broken = True
    with pytest.raises(RuntimeError, match="on purpose"):
        analysis.attention_weights(model, x, parts=True)
    for layer in model._flatten_layers():
        assert not {"call", "_call_flat"} & {*vars(layer)}


def test_calls_in_other_threads_are_not_observed(monkeypatch):
    model, inputs = made("R+V")
    layer = model.stack.blocks[0].attention
    call, count = layer.call, []

    def calling_elsewhere(*args, **kwargs):
        if not count:
            count.append(1)
            thread = threading.Thread(target=model, args=(inputs,))
            thread.start()
            thread.join()
            count.append(2)
        return call(*args, **kwargs)

    monkeypatch.setitem(vars(layer), "call", calling_elsewhere)
    weights = analysis.attention_weights(model, inputs)
    assert count == [1, 2]
    assert len(weights) == 2


def test_tables_are_those_of_the_model():
    layer = layers.SyntheticAttention(
        H,
        4,
        synthesizer="FR(rank=3) + relative(max_distance=2) + D",
        max_length=S,
    )
    layer.build((None, None, D))
    found = analysis.tables(layer)
    place = f"{layer.path}/synthesizer"
    parts = layer.synthesizer.synthesizers
    factors = [numpy(x) for x in (parts[0].R1, parts[0].R2)]
    np.testing.assert_allclose(
        found[f"{place}/part_0/R"],
        np.einsum("hir,hjr->hij", *factors),
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        found[f"{place}/part_1/distances"], numpy(parts[1].distances)
    )
    np.testing.assert_array_equal(
        found[f"{place}/part_2/W2"], numpy(parts[2].W2)
    )
    np.testing.assert_allclose(found[f"{place}/alphas"], np.full((3, H), 1 / 3))
    assert {*found} == {
        f"{place}/{name}"
        for name in (
            "alphas part_0/R part_1/distances part_2/W2 part_2/b2".split()
        )
    }


@slow_but_on("torch")
def test_a_table_with_lora_is_the_sum():
    layer = layers.SyntheticAttention(H, 4, synthesizer="R", max_length=S)
    layer.build((None, None, D))
    part = layer.synthesizer
    part.enable_lora(2)
    part.lora_R_b.assign(np.ones(part.lora_R_b.shape))
    (table,) = analysis.tables(layer).values()
    expected = numpy(part.R) + numpy(part.lora_R_a) @ numpy(part.lora_R_b)
    np.testing.assert_allclose(table, expected, atol=1e-6)


class Plain(keras.Model):
    def call(self, x):
        return x


def flash():
    inputs = keras.Input((T, D))
    layer = layers.SyntheticAttention(
        H, 4, synthesizer="V", flash_attention=True
    )
    return keras.Model(inputs, layer(inputs))


def without():
    inputs = keras.Input((T, D))
    block = layers.SynthesizerEncoder(12, H, synthesizer="fnet")
    return keras.Model(inputs, block(inputs))


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (Plain, {}, "attention weights is expected.*of Plain"),
        (without, {}, "FourierMixer.*have none"),
        (flash, {}, "flash"),
        (lambda: "a preset", {}, "Keras layer or model.*'a preset'"),
        (
            lambda: made("R+V")[0],
            {"layers": ["layer_7"]},
            "encoder_layer_0/self_attention.*encoder_layer_1.*layer_7",
        ),
        (lambda: made("R+V")[0], {"layers": []}, "encoder_layer_0.*\\[\\]"),
    ],
)
@slow_but_on("torch")
def test_bad_input_is_refused(make, options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        analysis.attention_weights(make(), np.ones((B, T, D)), **options)


@slow_but_on("torch")
def test_models_without_tables_are_refused():
    with pytest.raises(ValueError, match="synthesizers that learn tables"):
        analysis.tables(Plain())
