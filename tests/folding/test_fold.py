"""`keras_synth.fold`: less to compute, equal outputs."""

import keras
import numpy as np
import pytest
from backend import numpy, program
from cases import MIXERS
from small_tasks import KINDS, WORDS, task

import keras_synth
from keras_synth import models, synthesizers
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits

HEADS, LENGTH, LONGEST = 4, 7, 10
NAMES = [
    "V",
    "R",
    "FR",
    "Fix",
    "D",
    "D(hidden_dim=None)",
    "FD",
    "R+FR",
    "R+V",
    "D+V",
    "D(shared_heads=True)+V",
    "R+FD+V",
    "mixture(D+V, share_queries=True)",
    "mixture(R+V, per_head=False)",
    "mixture(R+mixture(FR+D))",
    "heads(2*mixture(R+V) + 2*FR)",
    "relative+V",
    "alibi+R",
    "additive+R",
]
TABLES = ["R", "FR", "Fix", "R+FR", "alibi+R"]


def drawn(layer, scale=0.5):
    """The layer, with weights that differ wherever they may."""
    rng = np.random.default_rng(0)
    for weight in layer.weights:
        if "float" in weight.dtype:
            weight.assign(rng.normal(scale=scale, size=weight.shape))
    return layer


def attention(name, **options):
    layer = SyntheticAttention(
        HEADS, 4, synthesizer=name, max_length=LONGEST, **options
    )
    layer.build((None, None, 8))
    return drawn(layer)


def inputs(length=LENGTH):
    return (
        np.random.default_rng(1).normal(size=(3, length, 8)).astype("float32")
    )


def calls(length=LENGTH):
    rng = np.random.default_rng(2)
    padding = np.arange(length) < np.array([length, 3, 0])[:, None]
    return {
        "plain": {},
        "padded": {"value_mask": padding},
        "causal": {"use_causal_mask": True},
        "both": {"value_mask": padding, "use_causal_mask": True},
        "pairs": {"attention_mask": rng.random((3, length, length)) < 0.5},
        "shared pairs": {"attention_mask": rng.random((length, length)) < 0.5},
        "bias": {"attention_bias": rng.normal(size=(1, HEADS, length, length))},
    }


# To be as long as they are, tables need but be folded.
each_longest = pytest.mark.parametrize("longest", [None, LENGTH])


def every_output(layer, x):
    """What a layer gives for each way to call it."""
    found = {case: layer(x, **options) for case, options in calls().items()}
    found["one sample"] = layer(x[:1])
    output, scores = layer(x, return_attention_scores=True)
    return {**found, "with scores": output, "scores": scores}


@pytest.mark.parametrize("name", NAMES)
@each_longest
def test_outputs_are_equal(name, longest):
    if name == "relative+V" and longest is None:
        longest = LONGEST
    layer = attention(name)
    folded = keras_synth.fold(layer, longest)
    found, expected = (
        program(lambda x, of=of: every_output(of, x))(inputs())
        for of in (folded, layer)
    )
    assert {*found} == {*expected} > {*calls()}
    for case in expected:
        np.testing.assert_allclose(
            numpy(found[case]), numpy(expected[case]), atol=2e-5, err_msg=case
        )


@pytest.mark.parametrize("name", TABLES)
def test_no_softmax_is_left_of_tables(name, monkeypatch):
    layer = attention(name)
    folded = keras_synth.fold(layer)
    assert folded.synthesizer.softmaxed
    x, expected = inputs(LONGEST), []
    cases = calls(LONGEST)
    shared = ["plain", "padded", "causal", "both", "shared pairs"]
    expected = {case: numpy(layer(x, **cases[case])) for case in shared}

    def refuse(*args, **kwargs):
        raise AssertionError("a softmax was taken")

    monkeypatch.setattr(keras.ops, "softmax", refuse)
    monkeypatch.setattr(keras.ops, "exp", refuse)
    for case in shared:
        np.testing.assert_allclose(
            numpy(folded(x, **cases[case])), expected[case], atol=2e-5
        )


def test_tables_are_cut_and_fixed():
    layer = attention("R+D+V")
    folded = keras_synth.fold(layer, LENGTH)
    table, dense, _ = folded.synthesizer.synthesizers
    assert table.table.shape == (HEADS, LENGTH, LENGTH)
    assert dense.W2.shape[0] == LENGTH
    assert not folded.trainable_weights
    folded.trainable = True
    assert not table.table.trainable
    with pytest.raises(ValueError, match="max_length=7"):
        folded(inputs(LENGTH + 1))


def test_the_model_stays_as_it_was():
    layer = attention("R+V")
    before = [numpy(weight.value) for weight in layer.weights]
    config = layer.get_config()
    folded = keras_synth.fold(layer)
    for weight in folded.weights:
        weight.assign(np.zeros(weight.shape))
    assert layer.get_config() == config
    assert layer.trainable
    for weight, value in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(weight.value), value)


def test_steep_tables_stay_logits_and_masks_hold():
    """The weight of the only visible key may be below what float32 holds."""
    layer = attention("R")
    table = np.zeros(layer.synthesizer.R.shape)
    table[:, :, 0] = 200.0
    layer.synthesizer.R.assign(table)
    folded = keras_synth.fold(layer)
    assert not folded.synthesizer.softmaxed
    x, mask = inputs(), np.arange(LENGTH) > np.array([0, 2, 4])[:, None]
    np.testing.assert_allclose(
        numpy(folded(x, value_mask=mask)),
        numpy(layer(x, value_mask=mask)),
        atol=1e-5,
    )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy):
    layer = attention("R+FR", dtype=policy)
    folded = keras_synth.fold(layer)
    assert folded.compute_dtype == layer.compute_dtype
    x, options = inputs(), calls()["both"]
    np.testing.assert_allclose(
        numpy(folded(x, **options)), numpy(layer(x, **options)), atol=0.05
    )


@pytest.mark.parametrize("name", ["R", "D", "FD"])
def test_tiled_tables_serve_longer_inputs(name):
    layer = attention(f"{name}(long_inputs='tile')")
    x = inputs(2 * LONGEST + 3)
    for longest in (None, len(x[0])):
        folded = keras_synth.fold(layer, longest)
        np.testing.assert_allclose(numpy(folded(x)), numpy(layer(x)), atol=2e-5)


def test_lora_is_merged():
    layer = attention("R+V")
    layer.synthesizer.enable_lora(2)
    for part in layer.synthesizer.synthesizers:
        if part.key_dim:
            part.query.enable_lora(2)
    drawn(layer)
    folded = keras_synth.fold(layer)
    np.testing.assert_allclose(
        numpy(folded(inputs())), numpy(layer(inputs())), atol=2e-5
    )
    assert not any("lora" in weight.path for weight in folded.weights)


def test_a_quantized_mixture_keeps_its_alphas():
    layer = attention("R+V")
    for part in layer.synthesizer.synthesizers:
        if part.key_dim:
            part.query.quantize("int8")
            part.key.quantize("int8")
    folded = keras_synth.fold(layer)
    assert isinstance(folded.synthesizer, synthesizers.MixtureSynthesizer)
    assert folded.synthesizer.alphas is not None
    np.testing.assert_allclose(
        numpy(folded(inputs())), numpy(layer(inputs())), atol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    ["R+V", "R", "FR", "D"],
)
def test_tasks_have_equal_outputs_saved_and_loaded(kind, name, tmp_path):
    model = task(kind, name)
    drawn(model.backbone, 0.3)
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
        np.testing.assert_allclose(
            one.predict(x, verbose=0), expected, atol=2e-5
        )
    if kind != "classifier":
        prompts = texts if kind == "causal_lm" else {"encoder_text": texts}
        if kind == "seq2seq_lm":
            prompts["decoder_text"] = ["", ""]
        for one in (model, folded):
            one.compile(sampler="greedy")
        assert folded.generate(prompts) == model.generate(prompts)


def test_positions_and_preprocessor_are_cut_with_the_tables():
    model = task("classifier", "R+V")
    drawn(model.backbone, 0.3)
    folded = keras_synth.fold(model, 6)
    assert folded.backbone.max_sequence_length == 6
    assert folded.preprocessor.sequence_length == 6
    assert model.preprocessor.sequence_length == 8
    short = models.SynthesizerTextClassifierPreprocessor(
        model.preprocessor.tokenizer, sequence_length=6
    )
    texts = [" ".join(WORDS[:4]), WORDS[0]]
    np.testing.assert_allclose(
        folded.predict(texts, verbose=0),
        numpy(model(short(texts))),
        atol=2e-5,
    )


def test_relative_positions_are_added_to_logits():
    model = models.SynthesizerBackbone(
        20,
        2,
        2,
        8,
        16,
        "R",
        max_sequence_length=LONGEST,
        positions="t5_relative",
    )
    drawn(model, 0.3)
    folded = keras_synth.fold(model)
    assert not folded.stack.blocks[0].attention.synthesizer.softmaxed
    ids = np.random.default_rng(0).integers(1, 20, (2, 8))
    x = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    np.testing.assert_allclose(
        folded.predict(x, verbose=0), model.predict(x, verbose=0), atol=2e-5
    )


def test_models_of_keras_are_folded_layer_by_layer():
    tokens = keras.Input((None, 8))
    x = keras_synth.layers.SynthesizerEncoder(
        16, HEADS, synthesizer="R+V", max_length=LONGEST
    )(tokens)
    inner = keras.Sequential(
        [SyntheticAttention(HEADS, 4, synthesizer="R", max_length=LONGEST)]
    )
    model = keras.Model(tokens, keras.layers.Dense(3)(inner(x)))
    drawn(model)
    folded = keras_synth.fold(model)
    tables = [
        layer
        for layer in folded._flatten_layers()
        if isinstance(layer, keras_synth.folding.TableSynthesizer)
    ]
    assert len(tables) == 2
    np.testing.assert_allclose(
        numpy(folded(inputs())), numpy(model(inputs())), atol=2e-5
    )


@each_longest
def test_every_mixer_stands_in_a_folded_backbone(longest):
    mixers = [
        *MIXERS,
        "R",
        SyntheticAttention(2, 4, synthesizer="V", sliding_window=2),
    ]
    model = models.SynthesizerBackbone(
        20, len(mixers), 2, 8, 16, mixers, max_sequence_length=LONGEST
    )
    drawn(model, 0.3)
    folded = keras_synth.fold(model, longest)
    ids = np.random.default_rng(0).integers(1, 20, (2, LENGTH))
    x = {"token_ids": ids, "padding_mask": np.arange(LENGTH) < [[LENGTH], [5]]}
    found, expected = (numpy(program(m)(x)) for m in (folded, model))
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_operations_and_masks_of_keras_stay_in_folded_models():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 8, mask_zero=True)(ids)
    layer = SyntheticAttention(HEADS, 4, synthesizer="R", max_length=LONGEST)
    model = keras.Model(ids, x + layer(x))
    ids = np.array([[3, 1, 4, 1, 5, 0, 0]])
    folded = keras_synth.fold(model)
    np.testing.assert_allclose(numpy(folded(ids)), numpy(model(ids)), atol=2e-5)


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
    holder(inputs())
    with pytest.raises(
        ValueError, match=r"_Holder contains .*config.register\(_Holder\)"
    ):
        keras_synth.fold(holder)
