"""The weights of any model, captured without changing it."""

import threading

import keras
import keras_hub
import numpy as np
import pytest
from assertions import close, equal
from attending_models import MODELS, B, D, H, S, T, made
from backend import numpy

from keras_synth import analysis, layers, mixers
from keras_synth.mixers.call import OBSERVERS


def attention_layers(model):
    kinds = keras.layers.MultiHeadAttention, layers.SyntheticAttention
    return [x for x in model._flatten_layers() if isinstance(x, kinds)]


@pytest.mark.parametrize("name", MODELS)
def test_weights_times_values_are_the_output_of_the_layer(name, monkeypatch):
    model, inputs = made(name)
    calls = []
    for layer in attention_layers(model):

        def call(*args, layer=layer, call=layer.call, **kwargs):
            found = call(*args, **kwargs)
            query = args[0] if args else kwargs["query"]
            value = kwargs.get("value", args[1] if len(args) > 1 else None)
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
        sums = own.sum(-1)  # some layers have no weights of padded queries
        close(sums, sums > 0.5)
        assert (sums[0, :, 0] > 0.5).all()
        values = numpy(layer.value_dense(value))
        context = np.einsum("bhts,bshv->bthv", own, values).astype("float32")
        close(layer.output_dense(context), output, atol=1e-4)


@pytest.mark.parametrize("name", ["R+V", "functional"])
def test_the_model_is_as_it_was(name):
    model, inputs = made(name)
    expected = numpy(model(inputs))
    attributes = [{**vars(x)} for x in model._flatten_layers()]
    analysis.attention_weights(model, inputs, parts=True)
    for layer, known in zip(model._flatten_layers(), attributes, strict=True):
        assert vars(layer).keys() == known.keys()
        same = {k for k in known if vars(layer)[k] is known[k]}
        # Keras sets this in the first call of a layer.
        assert {*known} - same <= {"_called", "_parent_path"}
    equal(model(inputs), expected)


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
    close(product / np.maximum(total, 1e-30), mixture)


def test_the_mixture_is_the_weighted_sum_of_the_parts():
    model, inputs = made("R+V")
    weights = analysis.attention_weights(model, inputs, parts=True)
    tables = analysis.tables(model)
    for i in range(2):
        path = f"encoder_layer_{i}/self_attention"
        parts = [f"{path}/synthesizer/part_{k}" for k in (0, 1)]
        shares = tables[f"{path}/synthesizer/alphas"]
        assert shares.shape == (2, H)
        close(shares.sum(0), 1, atol=1e-6)
        check_product(weights, weights[path], parts, shares)
        # R reads no token; the first sample has no padding.
        table = np.exp(tables[f"{parts[0]}/R"][:, :T, :T])
        table /= table.sum(-1, keepdims=True)
        close(weights[parts[0]][0], table)


def test_parts_of_a_group_have_its_heads():
    model, inputs = made("head groups")
    weights = analysis.attention_weights(model, inputs, parts=True)
    path = "encoder_layer_0/self_attention"
    group = f"{path}/synthesizer/group_1"
    parts = [f"{group}/part_{k}" for k in (0, 1)]
    assert weights[parts[0]].shape == (B, 1, T, T)
    shares = analysis.tables(model)[f"{group}/alphas"]
    check_product(weights, weights[path][:, 1:], parts, shares)


class Subclassed(keras.Model):
    def __init__(self, broken=False):
        super().__init__()
        self.attention = mixers.get("D+V", H, 4, S)
        self.keras_attention = keras.layers.MultiHeadAttention(H, 4)
        self.broken = broken

    def call(self, x):
        y = self.attention(x, attention_bias=np.ones((T, T), "float32"))
        y = self.keras_attention(y, y)
        if self.broken:
            raise RuntimeError("broken on purpose")
        return y


@pytest.mark.filterwarnings("ignore:.*does not support masking")
@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.MultiHeadAttention(4, 4),
        lambda: keras.layers.GroupQueryAttention(4, 4, 2),
    ],
)
def test_the_attention_of_keras_is_seen_with_its_masks(layer):
    ids = keras.Input((T,), dtype="int32")
    x = keras.layers.Embedding(9, D, mask_zero=True)(ids)
    attention = layer()
    model = keras.Model(ids, attention(x, x))
    tokens = np.array([[1] * T, [2, 3] + [0] * (T - 2)])
    (weights,) = analysis.attention_weights(model, tokens).values()
    embedded = model.layers[1](tokens)
    mask = keras.ops.convert_to_tensor(tokens != 0)
    _, expected = attention(
        embedded, embedded, attention_mask=mask[:, None, :],
        return_attention_scores=True,
    )  # fmt: skip
    assert weights.shape == (2, 4, T, T)
    real = tokens[1] != 0
    close(weights[0], expected[0])
    close(weights[1][:, real], numpy(expected)[1][:, real])


def test_a_model_that_is_not_built_yet():
    weights = analysis.attention_weights(Subclassed(), np.ones((B, T, D)))
    assert [x.shape for x in weights.values()] == [(B, H, T, T)] * 2


def test_nothing_observes_or_is_replaced_after_an_error():
    model = Subclassed()
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    model(x)
    model.broken = True
    with pytest.raises(RuntimeError, match="on purpose"):
        analysis.attention_weights(model, x)
    assert "call" not in vars(model.keras_attention)
    assert OBSERVERS.get() == (None,)


def test_whatever_is_called_within_a_capture_is_seen():
    model, inputs = made("seq2seq")
    expected = analysis.attention_weights(model, inputs)
    earlier = analysis.capture()
    earlier.__enter__()
    with analysis.capture() as seen:
        earlier.__exit__(None, None, None)
        with analysis.capture() as inner:
            model(inputs)
        assert not seen
        layer = model.encoder.blocks[0].attention
        layer(np.ones((B, T, D), "float32"), training=True)
    model(inputs)
    assert OBSERVERS.get() == (None,)
    assert [*seen] == [layer.path]
    assert {k: x.weights.shape[2:] for k, x in inner.items()} == {
        "encoder_layer_0/self_attention": (S, S),
        "decoder_layer_0/self_attention": (T, T),
        "decoder_layer_0/cross_attention": (T, S),
    }
    for name, weights in expected.items():
        equal(inner[name].weights, weights)
    cross = inner["decoder_layer_0/cross_attention"]
    (only,) = analysis.attention_weights(model, inputs, layers=layer.path)
    assert only == layer.path
    assert not cross.is_self
    for mask, side in ((cross.query_mask, "de"), (cross.key_mask, "en")):
        padding = inputs[f"{side}coder_padding_mask"]
        equal(mask, padding.astype(bool))


@pytest.mark.each_backend
def test_compiled_calls_are_not_captured():
    model, inputs = made("R+V")
    with analysis.capture() as seen:
        model.predict(inputs, verbose=0)
    # PyTorch compiles nothing unless it is asked to.
    assert bool(seen) == (keras.backend.backend() == "torch")


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="eager")
def test_traced_calls_are_not_captured():
    layer = layers.SyntheticAttention(H, 4, synthesizer="V")
    x = keras.random.normal((B, T, D))
    layer(x)

    def loss(weights):
        output, _ = layer.stateless_call(weights, [], x)
        return keras.ops.sum(output)

    weights = [keras.ops.convert_to_tensor(w) for w in layer.weights]
    with analysis.capture() as seen:
        if keras.backend.backend() == "jax":
            import jax

            jax.grad(loss)(weights)
        else:
            import torch

            torch.func.grad(loss)([w.detach() for w in weights])
    assert not seen


def test_a_mixer_with_its_own_call_is_captured():
    class Own(mixers.Mixer):
        supports_attention_bias = False

        def call(self, query, return_attention_scores=False, **kwargs):
            weights = np.full((B, 1, T, T), 1 / T, "float32")
            return (query, weights) if return_attention_scores else query

    inputs = keras.Input((T, D))
    layer = Own(name="own")
    layer.build((None, T, D))
    model = keras.Sequential([inputs, layer])
    weights = analysis.attention_weights(model, np.ones((B, T, D), "float32"))
    assert weights[layer.path].shape == (B, 1, T, T)


LIMITS = [
    {"synthesizer": "R+V", "sliding_window": 2},
    {"synthesizer": "R+V", "pattern": "local(window=1)"},
    {"synthesizer": "R + local_dense(window=1)"},
    {"synthesizer": "heads(1 * V + 1 * mixture(R + local_dense(window=1)))"},
]


@pytest.mark.parametrize("options", LIMITS)
def test_pairs_outside_a_layers_limits_are_not_visible(options):
    layer = layers.SyntheticAttention(H, 4, max_length=T, **options)
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    with analysis.capture(parts=True) as seen:
        layer(x)
    near = abs(np.subtract.outer(range(T), range(T))) < 2
    (own, *parts) = seen.values()
    limited = slice(1, None) if "heads" in options["synthesizer"] else slice(H)
    visible = np.broadcast_to(own.visible, own.weights.shape)
    assert (visible[:, limited] == near).all()
    assert len(parts) == 2
    for each in parts:
        assert (each.visible == near).all()
        assert (each.weights[:, :, ~near] == 0).all()
        close(each.weights.sum(-1), 1)


def test_calls_in_other_threads_are_not_captured(monkeypatch):
    model, inputs = made("functional")
    layer = model.get_layer("attention")
    call, count = layer.call, []
    mine = layers.SyntheticAttention(H, 4, synthesizer="V")

    def calling_elsewhere(*args, **kwargs):
        if not count:
            count.append(1)
            x = np.ones((B, T, D), "float32")
            for function in (lambda: model(inputs), lambda: mine(x)):
                thread = threading.Thread(target=function)
                thread.start()
                thread.join()
        return call(*args, **kwargs)

    monkeypatch.setitem(vars(layer), "call", calling_elsewhere)
    with analysis.capture() as seen:
        weights = analysis.attention_weights(model, inputs)
    assert count == [1]
    assert len(weights) == 2
    assert not seen


def test_tables_are_those_of_the_model():
    name = "FR(rank=3) + relative(max_distance=2) + D"
    layer = layers.SyntheticAttention(H, 4, synthesizer=name, max_length=S)
    for bad, match in (
        (layer, "synthesizers that learn tables"),
        ("a preset", "tables.*Received: 'a preset'"),
    ):
        with pytest.raises(ValueError, match=match):
            analysis.tables(bad)
    layer.build((None, None, D))
    found = analysis.tables(layer)
    place = f"{layer.path}/synthesizer"
    first, second, third = layer.synthesizer.synthesizers
    table = numpy(first.R1) @ np.swapaxes(numpy(first.R2), 1, 2)
    expected = {
        "alphas": np.full((3, H), 1 / 3),
        "part_0/R": table,
        "part_1/distances": numpy(second.distances),
        "part_2/W2": numpy(third.W2),
        "part_2/b2": numpy(third.b2),
    }
    assert {*found} == {f"{place}/{name}" for name in expected}
    for name, own in expected.items():
        close(found[f"{place}/{name}"], own, atol=1e-6)


def test_a_table_with_lora_is_the_sum():
    layer = layers.SyntheticAttention(H, 4, synthesizer="R", max_length=S)
    layer.build((None, None, D))
    part = layer.synthesizer
    part.enable_lora(2)
    part.lora_R_b.assign(np.ones(part.lora_R_b.shape))
    (table,) = analysis.tables(layer).values()
    expected = numpy(part.R) + numpy(part.lora_R_a) @ numpy(part.lora_R_b)
    close(table, expected, atol=1e-6)


class Plain(keras.Model):
    def call(self, x):
        return x


def flash():
    inputs = keras.Input((T, D))
    layer = mixers.get("V", H, 4, flash_attention=True)
    return keras.Model(inputs, layer(inputs))


def without():
    inputs = keras.Input((T, D))
    block = layers.SynthesizerEncoder(12, H, synthesizer="fnet")
    return keras.Model(inputs, block(inputs))


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (Plain, {}, "Expected a model with attention weights.*of Plain"),
        (
            lambda: keras_hub.models.T5Backbone(30, 1, H, D, 12),
            {},
            "graft.*of T5Backbone",
        ),
        (without, {}, "FourierMixer.*do not have weights"),
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
def test_bad_input_is_an_error(make, options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        analysis.attention_weights(make(), np.ones((B, T, D)), **options)


# --- one sample without its padding -------------------------------------------

IDS = np.arange(1, 13).reshape(2, 6)
# Of one sample padding is on the left.
MASK = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]])


def test_each_side_is_cut_by_its_mask_wherever_padding_is():
    inputs = {
        "encoder_token_ids": IDS,
        "encoder_padding_mask": MASK,
        "encoder_mask_positions": IDS[:, :2],  # has another length
        "decoder_token_ids": IDS[:, :4],
        "decoder_padding_mask": 1 - MASK[:, 2:],
    }
    found = analysis.sample_of(inputs)
    assert found["encoder_token_ids"].tolist() == [[1, 2, 3, 4]]
    assert found["encoder_mask_positions"].tolist() == [[1, 2]]
    assert found["decoder_token_ids"].tolist() == [[3, 4]]
    assert analysis.sample_of(inputs, -1)["encoder_token_ids"].tolist() == [
        [8, 9, 10, 11, 12]
    ]


@pytest.mark.parametrize(
    ("inputs", "sample", "words"),
    [
        (IDS, 0, "Expected a dictionary .* Received: ndarray"),
        ({"x": IDS, "y_padding_mask": MASK}, 0, "'x' needs a mask"),
        ({"padding_mask": MASK}, 2, "2 samples. Received: sample=2"),
    ],
)
def test_inputs_without_a_sample_are_named(inputs, sample, words):
    with pytest.raises(ValueError, match=words):
        analysis.sample_of(inputs, sample)


def test_tables_of_nested_models_are_all_there():
    inputs, outputs = [], []
    for length in (6, 9):
        x = keras.Input((length, D))
        layer = layers.SyntheticAttention(
            H, 4, synthesizer="R", max_length=length, name="attention"
        )
        inputs.append(keras.Input((length, D)))
        outputs.append(keras.Model(x, layer(x))(inputs[-1]))
    found = analysis.tables(keras.Model(inputs, outputs))
    assert {name: x.shape for name, x in found.items()} == {
        "attention/synthesizer/R": (H, 6, 6),
        "attention/synthesizer_1/R": (H, 9, 9),
    }
