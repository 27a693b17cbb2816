"""`keras_synth.fold`: less to compute, equal outputs."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close, equal
from backend import numpy, only_on, program
from cases import KINDS as SYNTHESIZERS
from cases import MIXERS, D, H, K, N, T, made, randomized
from small_tasks import KINDS, WORDS, task

import keras_synth
from keras_synth import mixers, models, synthesizers
from keras_synth.layers import SynthesizerEncoder, SyntheticAttention
from keras_synth.logits import Logits

NAMES = [
    *SYNTHESIZERS,
    "D linear",
    "relative",
    "R+V per layer",
    "additive+R",
    "D(shared_heads=True) + V",
    "R + FD + V",
    "mixture(R + mixture(FR + D))",
    "heads(1 * mixture(R + V) + 1 * FR)",
    "heads(1 * R + 1 * FR)",
]
TABLES = ["R", "FR", "Fix", "R+FR", "alibi + R", "heads(1 * Fix + 1 * FR)"]
TEXTS = [" ".join(WORDS[:3]), WORDS[0]]  # of five tokens at most


def calls(length=T):
    rng = np.random.default_rng(2)
    is_token = padding(length, 3, 0, size=length)
    return {
        "plain": {},
        "padded": {"value_mask": is_token},
        "causal": {"use_causal_mask": True},
        "both": {"value_mask": is_token, "use_causal_mask": True},
        "pairs": {"attention_mask": rng.random((3, length, length)) < 0.5},
        "shared pairs": {"attention_mask": rng.random((length, length)) < 0.5},
        "bias": {"attention_bias": rng.normal(size=(1, H, length, length))},
    }


def every_output(layer, x):
    """The outputs of a layer for each way to call it."""
    found = {case: layer(x, **options) for case, options in calls().items()}
    found["one sample"] = layer(x[:1])
    output, scores = layer(x, return_attention_scores=True)
    return {**found, "with scores": output, "scores": scores}


# Tables of the length of the layer only need to be folded.
@pytest.mark.parametrize("longest", [None, T])
@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_equal(name, longest):
    layer = randomized(made(name), 0.5)
    if layer.max_length is None:
        longest = longest or N
    folded = keras_synth.fold(layer, longest)
    found, expected = (
        program(lambda x, of=of: every_output(of, x))(normal(3, T, D))
        for of in (folded, layer)
    )
    assert {*expected} > {*calls()}
    close(found, expected, atol=2e-5)


@pytest.mark.parametrize("name", TABLES)
def test_no_softmax_is_left_of_tables(name, monkeypatch):
    layer = randomized(made(name), 0.5)
    folded = keras_synth.fold(layer)
    assert folded.synthesizer.softmaxed
    x, cases = normal(3, N, D), calls(N)
    shared = ["plain", "padded", "causal", "both", "shared pairs"]
    expected = {case: numpy(layer(x, **cases[case])) for case in shared}

    def refuse(*args, **kwargs):
        raise AssertionError("a softmax was taken")

    monkeypatch.setattr(keras.ops, "softmax", refuse)
    monkeypatch.setattr(keras.ops, "exp", refuse)
    for case in shared:
        close(folded(x, **cases[case]), expected[case], 2e-5)


def test_tables_are_cut_and_fixed():
    folded = keras_synth.fold(randomized(made("R + D + V")), T)
    table, dense, _ = folded.synthesizer.synthesizers
    assert table.table.shape == (H, T, T)
    assert dense.W2.shape[0] == T
    assert not folded.trainable_weights
    folded.trainable = True
    assert not table.table.trainable
    with pytest.raises(ValueError, match="max_length=7"):
        folded(normal(3, T + 1, D))


def test_the_model_stays_as_it_was():
    layer = randomized(made("R+V"))
    before = [numpy(weight.value) for weight in layer.weights]
    config = layer.get_config()
    folded = keras_synth.fold(layer)
    for weight in folded.weights:
        weight.assign(np.zeros(weight.shape))
    assert layer.get_config() == config
    assert layer.trainable
    equal(layer.weights, before)


@pytest.mark.parametrize(
    "policy, lead", [("float32", 200.0), ("float16", 30.0)]
)
def test_steep_tables_keep_their_least_weights(policy, lead):
    """The weight of the only visible key may be below what floats hold."""
    layer = randomized(made("R", policy))
    table = np.zeros(layer.synthesizer.R.shape)
    table[:, :, 0] = lead
    layer.synthesizer.R.assign(table)
    folded = keras_synth.fold(layer)
    assert folded.synthesizer.softmaxed == (lead < 46)
    x, mask = normal(3, T, D), np.arange(T) > np.array([0, 2, 4])[:, None]
    close(folded(x, value_mask=mask), layer(x, value_mask=mask), 1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy):
    layer = randomized(made("R + FR", policy))
    folded = keras_synth.fold(layer)
    assert folded.compute_dtype == layer.compute_dtype
    x, options = normal(3, T, D), calls()["both"]
    close(folded(x, **options), layer(x, **options), 0.05)


@pytest.mark.parametrize("name", ["R", "D", "FD"])
def test_tiled_tables_serve_longer_inputs(name):
    layer = randomized(made(f"{name}(long_inputs='tile')"))
    x = normal(3, 2 * N + 3, D)
    for longest in (None, len(x[0])):
        close(keras_synth.fold(layer, longest)(x), layer(x), 2e-5)


def test_lora_is_merged():
    layer = randomized(made("R+V"))
    layer.synthesizer.enable_lora(2)
    _, compared = layer.synthesizer.synthesizers
    compared.query.enable_lora(2)
    randomized(layer)
    folded, x = keras_synth.fold(layer), normal(3, T, D)
    close(folded(x), layer(x), 2e-5)
    assert not any("lora" in weight.path for weight in folded.weights)


def test_a_quantized_projection_is_not_multiplied():
    layer = randomized(made("R + V(num_key_value_heads=1)"))
    layer.synthesizer.synthesizers[1].query.quantize("int8")
    x = normal(3, T, D)
    close(keras_synth.fold(layer)(x), layer(x), 2e-5)


@keras.saving.register_keras_serializable("tests.folding")
class _Clipped(synthesizers.DotProductSynthesizer):
    """Its logits do not grow with its keys."""

    def call(self, *args, **kwargs):
        logits = super().call(*args, **kwargs).materialize()
        return Logits(bias=keras.ops.tanh(logits))


@keras.saving.register_keras_serializable("tests.folding")
class _OneRow(synthesizers.RandomSynthesizer):
    """A row that all heads and queries share."""

    def call(self, *args, **kwargs):
        logits = super().call(*args, **kwargs)
        return Logits(bias=logits.bias[:, :1, :1])


@keras.saving.register_keras_serializable("tests.folding")
class _Rows(synthesizers.Synthesizer):
    """Reads tokens, and has a maximum length."""

    def call(self, query, keys=None, *, start=0, length=None):
        first = keras.ops.swapaxes(query[:, :, : self.num_heads], 1, 2)
        steps = keras.ops.arange(length, dtype=query.dtype)
        return Logits(bias=first[..., None] * steps)


@pytest.mark.parametrize("kind", ["alone", "part", "group"])
@pytest.mark.parametrize("cls", [_Clipped, _OneRow, _Rows])
def test_custom_classes_are_folded_like_none_of_ours(cls, kind):
    made, other = cls(H, N), synthesizers.get("FR", H, K, N)
    if kind == "part":
        made = synthesizers.MixtureSynthesizer([made, other])
    elif kind == "group":
        made = synthesizers.HeadGroupsSynthesizer([made, other])
    heads, x = made.num_heads, normal(3, T, D)
    layer = SyntheticAttention(heads, K, synthesizer=made, max_length=N)
    block = SynthesizerEncoder(8, heads, synthesizer=layer, max_length=N)
    for one in (layer, block):
        close(keras_synth.fold(randomized(one), T)(x), one(x), 2e-5)
    if cls is _OneRow:  # all that reads no token has a plain form
        close(keras_synth.fold(layer, T, plain=True)(x), layer(x), 2e-5)
    else:
        words = rf"plain_layer\.register\({cls.__name__}"
        with pytest.raises(ValueError, match=words):
            keras_synth.fold(layer, T, plain=True)


@pytest.mark.parametrize(
    "kind, name",
    [
        *((kind, "R+V") for kind in KINDS),
        *(("causal_lm", "D"), ("seq2seq_lm", "R"), ("seq2seq_lm", "FR")),
    ],
)
def test_tasks_have_equal_outputs_saved_and_loaded(kind, name, tmp_path):
    model = task(kind, name)
    randomized(model.backbone)
    if kind != "classifier":
        model.compile(sampler="greedy")
    folded = keras_synth.fold(model)
    path = tmp_path / "folded.keras"
    folded.save(path)
    texts = [" ".join(WORDS[:4]), " ".join(WORDS[3:9])]
    x = texts
    if kind == "seq2seq_lm":
        x = {"encoder_text": texts, "decoder_text": texts}
    expected = model.predict(x, verbose=0)
    loaded = keras.saving.load_model(path)
    assert not loaded.trainable_weights
    for one in (folded, loaded):
        close(one.predict(x, verbose=0), expected, 2e-5)
    if kind != "classifier":
        prompts = texts if kind == "causal_lm" else {"encoder_text": texts}
        if kind == "seq2seq_lm":
            prompts["decoder_text"] = ["", ""]
        assert folded.generate(prompts) == model.generate(prompts)


def test_relative_positions_are_added_to_logits():
    options = {"max_sequence_length": N, "positions": "t5_relative"}
    model = models.SynthesizerBackbone(20, 2, 2, D, 16, "R", **options)
    randomized(model)
    folded = keras_synth.fold(model)
    assert not folded.stack.blocks[0].attention.synthesizer.softmaxed
    ids = np.random.default_rng(0).integers(1, 20, (2, 8))
    x = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    close(folded.predict(x, verbose=0), model.predict(x, verbose=0), 2e-5)


def test_models_of_keras_are_folded_layer_by_layer():
    tokens = keras.Input((None, D))
    block = SynthesizerEncoder(16, H, synthesizer="R+V", max_length=N)
    attention = made("R")
    inner = keras.Sequential([attention])
    outputs = keras.layers.Dense(3)(attention(inner(block(tokens))))
    model = randomized(keras.Model(tokens, outputs))
    folded = keras_synth.fold(model)
    tables = [
        layer
        for layer in folded._flatten_layers()
        if isinstance(layer, keras_synth.folding.TableSynthesizer)
    ]
    assert len(tables) == 2  # one of them for both calls of the attention
    x = normal(3, T, D)
    close(folded(x), model(x), 2e-5)


def test_operations_and_masks_of_keras_stay_in_folded_models():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, D, mask_zero=True)(ids)
    model = keras.Model(ids, x + made("R")(x))
    ids = np.array([[3, 1, 4, 1, 5, 0, 0]])
    close(keras_synth.fold(model)(ids), model(ids), 2e-5)


# --- quantized tasks, and shorter sequences -----------------------------------


@pytest.mark.parametrize("synthesizer", ["dot_product", "R + V"])
def test_a_window_beyond_the_longest_sequence_sees_all(synthesizer):
    name = f"local(window=16, synthesizer='{synthesizer}')"
    inputs = keras.Input((None, 8))
    block = SynthesizerEncoder(16, 2, synthesizer=name, max_length=32)
    mixer = mixers.get(name, 2, 4, max_length=32)
    model = keras.Model(inputs, mixer(block(inputs)))
    folded, x = keras_synth.fold(model, 8), normal(2, 8, 8)
    assert folded.layers[-1].pattern.size == 8
    close(folded(x), model(x), 2e-5)


@only_on("jax", "others copy what they assign")
@pytest.mark.parametrize("length", [None, 5])
@pytest.mark.parametrize("name", ["R", "FR", "D", "FD", "relative", "R+FD+V"])
def test_nothing_of_a_folded_layer_is_the_layers_memory(name, length):
    """`predict` gives the memory of weights away, and takes other back."""
    layer = mixers.get(name, 2, 4, max_length=8)
    layer(normal(2, 8, 8), normal(2, 8, 8))
    folded = keras_synth.fold(layer, length)
    ours, theirs = (
        {x.value.unsafe_buffer_pointer() for x in model.variables}
        for model in (layer, folded)
    )
    assert ours
    assert theirs
    assert not ours & theirs


@pytest.mark.parametrize("synthesizer", ["R+V", "gmlp"])
def test_a_quantized_classifier_is_folded_with_its_head(synthesizer):
    model = task("classifier", synthesizer)
    expected = model.predict(TEXTS, verbose=0)
    model.quantize("int8")
    quantized = model.predict(TEXTS, verbose=0)
    assert np.abs(quantized - expected).max() > 0
    folded = keras_synth.fold(model)
    assert folded.output_dense.quantization_mode == "int8"
    close(folded.predict(TEXTS, verbose=0), quantized, 1e-5)


def test_shorter_padding_changes_no_output_or_is_refused():
    own = {"amount", "jumps"}
    names = [name for name, broken in MIXERS.items() if not broken & own]
    for mixed in (names, "reformer(bucket_size=4, hashes=2)", "routing"):
        model = task("classifier", mixed)
        folded = keras_synth.fold(model, 6)
        assert folded.preprocessor.sequence_length == 6
        assert folded.backbone.max_sequence_length == 6
        close(*(m.predict(TEXTS, verbose=0) for m in (folded, model)), 2e-5)
        assert model.preprocessor.sequence_length == 8
    model = task("classifier", "fnet")
    with pytest.raises(ValueError, match=r"the padding.*Received"):
        keras_synth.fold(model, 6)
    assert keras_synth.fold(model, 8).preprocessor.sequence_length == 8


# --- refusals -----------------------------------------------------------------


class _LastToken(synthesizers.Synthesizer):
    """Its table depends on the sequence's length."""

    reads_tokens = False

    def call(self, query, keys=None, *, start=0, length=None):
        last = keras.ops.one_hot(length - 1, length)
        rows = keras.ops.ones((1, self.num_heads, 1, 1))
        return Logits(bias=5.0 * rows * last)


@keras.saving.register_keras_serializable(package="tests")
class _Holder(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = SyntheticAttention(2, 4, synthesizer="V")

    def build(self, shape):
        self.attention.build(shape)

    def call(self, x):
        return self.attention(x)


def test_what_cannot_be_folded_is_named():
    with pytest.raises(ValueError, match="must be a Keras layer or model"):
        keras_synth.fold("R")
    other = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match=r'surgery.graft\(model, "V"\)'):
        keras_synth.fold(other)
    with pytest.raises(ValueError, match="Build the model, or call it"):
        keras_synth.fold(SyntheticAttention(2, 4, synthesizer="V"))
    unbounded = SyntheticAttention(2, 4, synthesizer="relative")
    unbounded.build((None, None, 8))
    with pytest.raises(ValueError, match=r"fold\(model, max_length=512\)"):
        keras_synth.fold(unbounded)
    with pytest.raises(ValueError, match="max_length"):
        keras_synth.fold(unbounded, 0)
    strange = SyntheticAttention(2, 4, synthesizer=_LastToken(2))
    strange.build((None, None, 8))
    with pytest.raises(ValueError, match="reads_tokens = True"):
        keras_synth.fold(strange, 8)
    holder = _Holder()
    holder(normal(3, T, D))
    with pytest.raises(
        ValueError, match=r"_Holder contains .*config.register\(_Holder\)"
    ):
        keras_synth.fold(holder)
