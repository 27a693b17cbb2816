"""`keras_synth.fold(plain=True)`: stock Keras layers and operations."""

import itertools
import json
import os
import re
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy, on_cpu, only_on
from cases import UNLIKE, H, K, N, T, layers_that, made, randomized
from small_tasks import SIZES, VOCABULARY, task

import keras_synth
from keras_synth import mixers, models
from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)
from keras_synth.registry import registry_of

REFUSED = ("reformer", "routing", "sinkhorn", "performer")
MASK = padding(T, 4, 0, size=T)
X = normal(3, T, 8)


# One of each way to compute.
ON_EACH = ("local D", "heads", "light_conv(width=3)")


def in_all_ways(layer):
    """A model of a layer that is called in each way that it supports."""
    x, mask = keras.Input((T, 8)), keras.Input((T,), dtype="bool")
    outputs = [layer(x), layer(x, value_mask=mask), layer(x, mask=mask)]
    if layer.supports_causal_mask:
        outputs.append(layer(x, use_causal_mask=True))
        outputs.append(layer(x, value_mask=mask, use_causal_mask=True))
    return keras.Model([x, mask], outputs)


def numbers(config):
    """All numbers of a config."""
    if isinstance(config, dict):
        config = [*config.values()]
    if isinstance(config, (list, tuple)):
        return [x for part in config for x in numbers(part)]
    return [config] if isinstance(config, (int, float)) else []


def check(model, inputs, length=T, atol=1e-5):
    """Folds a model and compares all rows, those of padding, too."""
    plain = keras_synth.fold(model, length, plain=True)
    config = plain.get_config()
    text = json.dumps(config)
    # Arrays are weights; none is written into the config as text.
    assert not re.search("keras_synth|__numpy__|__tensor__", text)
    # Masks do not use numbers far away from the logits.
    assert all(abs(number) < 1000 for number in numbers(config))
    assert not plain.trainable_weights
    close(plain(inputs), model(inputs), atol=atol)
    return plain


@layers_that(on_each_backend=ON_EACH, quick=UNLIKE)
def test_every_layer_has_equal_outputs_or_is_refused(name):
    if name.startswith(REFUSED):
        model = in_all_ways(made(name))
        with pytest.raises(ValueError, match=r"no (plain|fixed) form.*Receiv"):
            keras_synth.fold(model, T, plain=True)
        return
    check(in_all_ways(randomized(made(name))), [X, MASK])


@pytest.mark.parametrize(
    "name",
    [
        "performer(features=8, redraw_interval=None)",
        "mixture(D + V + FD(hidden_dim=None), share_queries=True)",
        # Folding leaves the alphas where they are.
        "mixture(R + D + V(num_key_value_heads=1), share_queries=True)",
        "heads(V=2)",
    ],
)
def test_layers_with_these_options_have_equal_outputs(name):
    check(in_all_ways(randomized(made(name))), [X, MASK])


@pytest.mark.parametrize("name", ["R", "mlp_mixer"])
def test_without_masks_matrices_of_positions_need_only_layers(name):
    """Converters for hardware read layers, and no operations."""
    x = keras.Input((T, 8))
    plain = check(keras.Model(x, randomized(made(name))(x)), X)
    assert plain.operations == plain.layers


GROUPS = "V R FR Fix D local_dense(window=1) alibi gaussian"


@pytest.mark.parametrize("names", [*itertools.combinations(GROUPS.split(), 2)])
def test_groups_of_any_two_have_equal_outputs(names):
    name = "heads(1 * {} + 1 * {})".format(*names)
    model = in_all_ways(randomized(mixers.get(name, H, K, N)))
    check(model, [X, MASK])
    close(keras_synth.fold(model, T)([X, MASK]), model([X, MASK]), atol=1e-5)


@pytest.mark.parametrize("name", registry_of("normalizer").entries)
@pytest.mark.parametrize("synthesizer", ["V", "R"])
def test_every_normalizer_has_equal_outputs(name, synthesizer):
    pattern = "first(tokens=2) | local(window=2, dilation=2)"
    layer = SyntheticAttention(
        *(H, K),
        synthesizer=synthesizer,
        max_length=N,
        normalizer=name,
        pattern=pattern,
    )
    check(in_all_ways(randomized(layer)), [X, MASK])


@pytest.mark.parametrize("name", ["V", "R", "D", "heads(V=1, R=1)"])
def test_keys_masks_and_biases_of_pairs_have_equal_outputs(name):
    layer = randomized(mixers.get(name, H, K, N, use_gate=True))
    x, key = keras.Input((T, 8)), keras.Input((T, 8))
    pairs = keras.Input((T, T), dtype="bool")
    bias, of_keys = keras.Input((H, T, T)), keras.Input((1, T), dtype="bool")
    outputs = [
        layer(x, attention_mask=pairs),
        layer(x, attention_bias=bias),
        layer(x, attention_bias=normal(H, T, T, seed=3)),
        layer(x, attention_mask=of_keys),
        layer(x, x, query_mask=of_keys[:, 0], use_causal_mask=True),
        layer(x, x, key),
    ]
    model = keras.Model([x, key, pairs, bias, of_keys], outputs)
    seen = np.random.default_rng(0).random((3, T, T)) < 0.4
    biases, keys = normal(3, H, T, T, seed=1), normal(3, T, 8, seed=2)
    check(model, [X, keys, seen, biases, MASK[:, None]])


@pytest.mark.parametrize("name", ["R", "alibi + V"])
@pytest.mark.parametrize("lead", [30, 100])
def test_hidden_logits_may_lead_by_any_amount(name, lead):
    layer = mixers.get(name, H, K, N)
    x, bias = keras.Input((T, 8)), keras.Input((1, T, T))
    mask = keras.Input((T,), dtype="bool")
    outputs = layer(
        x, value_mask=mask, attention_bias=bias, use_causal_mask=True
    )
    model = keras.Model([x, bias, mask], outputs)
    randomized(layer)
    leads = np.zeros((3, 1, T, T), "float32")
    leads[..., 0] = leads[..., -1] = lead
    mask = MASK[:, ::-1].copy()
    check(model, [X, leads, mask], atol=2e-5)


def test_steep_tables_are_logits_for_padded_sequences():
    layer = randomized(made("R"))
    table = np.zeros(layer.synthesizer.R.shape)
    table[:, :, 0] = 200.0
    layer.synthesizer.R.assign(table)
    check(in_all_ways(layer), [X, MASK[:, ::-1].copy()])


# --- models -------------------------------------------------------------------


def backbone(synthesizer, **options):
    sizes = {**SIZES, "num_layers": 2, "max_sequence_length": 16, **options}
    return randomized(
        models.SynthesizerBackbone(
            len(VOCABULARY), synthesizer=synthesizer, **sizes
        )
    )


def features(**others):
    ids = np.random.default_rng(0).integers(1, len(VOCABULARY), (3, T))
    mask = padding(T, 4, 1, size=T).astype("int32")
    return {"token_ids": ids.astype("int32"), "padding_mask": mask, **others}


@pytest.mark.parametrize(
    "options",
    [
        {"synthesizer": ["R", 0]},
        {"synthesizer": ["R", "D+V"], "causal": True},
        {"synthesizer": "R", "positions": "t5_relative"},
        {"synthesizer": ["V", "fnet"], "positions": "sinusoidal"},
        {
            "synthesizer": "D",
            "positions": None,
            "normalize_first": False,
            "normalization": "rms_normalization",
            "use_gated_activation": True,
            "activation": "gelu",
        },
    ],
)
def test_backbones_have_equal_outputs(options):
    check(backbone(**options), features())


@pytest.mark.each_backend
def test_every_kind_of_task_that_decodes_nothing_has_equal_outputs():
    own, positions = backbone("R+V", num_segments=2), [[0, 2], [3, 1], [0, 0]]
    x = features(segment_ids=np.ones((3, T), "int32"))
    for pooling in ("mean", "first"):
        classifier = models.SynthesizerTextClassifier(own, 2, pooling=pooling)
        check(classifier, x)
    check(models.SynthesizerTokenClassifier(own, 3), x)
    masked_lm = models.SynthesizerMaskedLM(own)
    plain = check(masked_lm, {**x, "mask_positions": np.array(positions)})
    tables = [w for w in plain.weights if w.shape == (len(VOCABULARY), 8)]
    assert len(tables) == 1  # tied, as in the model


@pytest.fixture(scope="module")
def functional():
    """Blocks of ours and of KerasHub's, with implicit masks, and nested."""
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(20, 8, mask_zero=True)(ids)
    attention = SyntheticAttention(
        H, K, synthesizer="R+V", max_length=N, name="attention"
    )
    x = keras.layers.LayerNormalization()(embedded + attention(embedded))
    x = keras_hub.layers.TransformerEncoder(16, H)(x)
    x = attention(x)  # once more
    tokens = keras.Input((None, 8))
    inner = keras.Sequential(
        [
            keras.Input((None, 8)),
            SynthesizerEncoder(16, H, synthesizer="FR", max_length=N),
            keras.layers.Dropout(0.1),
        ]
    )
    twice = keras.Model(tokens, inner(inner(tokens)) + tokens)
    x = twice(SynthesizerEncoder(16, H, synthesizer="D", max_length=N)(x))
    return keras.Model(ids, keras.layers.GlobalAveragePooling1D()(x))


def test_functional_models_have_equal_outputs(functional):
    x = np.random.default_rng(0).integers(1, 20, (3, T)) * MASK
    plain = check(functional, x)
    # Shared layers are there once.
    assert sum("attention_value" in layer.name for layer in plain.layers) == 3


def test_blocks_have_equal_outputs_without_caches():
    x, source = keras.Input((T, 8)), keras.Input((5, 8))
    own, other = (keras.Input((n,), dtype="bool") for n in (T, 5))
    encoder = SynthesizerEncoder(16, H, synthesizer="R", max_length=N)
    decoder = SynthesizerDecoder(16, H, synthesizer="R", max_length=N)
    outputs = [
        encoder(x, own),
        encoder(inputs=x, padding_mask=own),
        decoder(x, source, encoder_padding_mask=other),
    ]
    model = keras.Model([x, own, source, other], outputs)
    check(model, [X, MASK, normal(3, 5, 8), padding(5, 2, 0, size=5)])


MASKED = {
    "KerasHub": lambda: keras_hub.layers.TokenAndPositionEmbedding(
        9, T, 8, mask_zero=True
    ),
    "nested": lambda: keras.Sequential(
        [keras.Input((T,)), keras.layers.Embedding(9, 8, mask_zero=True)]
    ),
    "custom": lambda: type("Custom", (keras.layers.Embedding,), {})(
        9, 8, mask_zero=True
    ),
}


@pytest.mark.filterwarnings("ignore:.*destroy the mask")  # KerasHub's own
@pytest.mark.parametrize("kind", MASKED)
def test_masks_that_layers_attach_when_they_compute_are_kept(kind):
    """Symbolic calls of Keras lose some of them."""
    tokens = keras.Input((T,), dtype="int32")
    x = MASKED[kind]()(tokens)
    x = SynthesizerEncoder(16, H, synthesizer="R+V", max_length=T)(x)
    x = keras.layers.MultiHeadAttention(2, 4)(x, x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = randomized(keras.Model(tokens, x))
    check(model, np.array([[1, 2, 0, 3, 0, 0, 0], [4, 5, 6, 0, 0, 0, 0]]))


def test_a_mask_without_a_symbolic_form_is_an_error():
    class Odd(keras.layers.Embedding):
        def call(self, x):
            y = super().call(x)
            y._keras_mask = x < 1
            return y

        def compute_mask(self, x, mask=None):
            return None

    tokens = keras.Input((T,), dtype="int32")
    block = SynthesizerEncoder(16, H, synthesizer="V")
    model = keras.Model(tokens, block(Odd(9, 8)(tokens)))
    with pytest.raises(ValueError, match=r"compute_mask.*Received: <Odd"):
        keras_synth.fold(model, plain=True)


def test_half_precision_is_computed_in_float32():
    options = {"dtype": "mixed_bfloat16", "normalize_first": False}
    model = backbone(["R", "D+V"], **options)
    plain = keras_synth.fold(model, T, plain=True)
    found, expected = (numpy(x(features())) for x in (plain, model))
    atol = 0.1 if on_cpu() else 0.2
    close(found, expected, atol=atol)


def test_names_of_a_loaded_model_are_kept_and_not_given_twice():
    # Keras counts names from 0 in the process that loads a model.
    names = {
        kind: f"{kind}_{keras.backend.get_uid(kind)}"
        for kind in ("embedding", "add", "einsum")
    }
    x = keras.Input((T,), dtype="int32")
    y = keras.layers.Embedding(9, 8, mask_zero=True, name=names["embedding"])(x)
    added = keras.layers.Add(name=names["add"])
    y = added([y, SyntheticAttention(H, K, synthesizer="R+V", max_length=T)(y)])
    y = keras.layers.Dense(2, name=names["einsum"])(y)
    plain = keras_synth.fold(keras.Model(x, y), plain=True)
    kept = {layer.name for layer in plain.layers}
    assert {*names.values()} <= kept


def test_a_bare_layer_has_an_input_of_tokens():
    layer = randomized(made("R+V"))
    plain = keras_synth.fold(layer, 5, plain=True)
    assert plain.input.shape == (None, 5, 8)
    x = X[:, :5]
    close(plain(x), layer(x))


def test_without_max_length_it_is_the_own_one():
    layer, model = mixers.get("R+V", H, K, N), task("classifier")
    layer.build((None, None, 8))
    for folded, length in ((layer, N), (model.backbone, 16), (model, 16)):
        plain = keras_synth.fold(folded, plain=True)
        assert {x.shape[1] for x in plain.inputs} == {length}


# --- files --------------------------------------------------------------------

READER = """
import sys

class Blocked:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in ("keras_synth", "keras_hub"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked)
import keras
import numpy as np

folder = sys.argv[1]
model = keras.saving.load_model(f"{folder}/plain.keras")
inputs = dict(np.load(f"{folder}/inputs.npz"))
np.save(f"{folder}/outputs.npy", model.predict(inputs, verbose=0))
"""


def test_a_file_is_read_where_this_package_is_not(tmp_path):
    other = "torch" if keras.backend.backend() == "jax" else "jax"
    model = models.SynthesizerMaskedLM(backbone(["R", "V"]))
    x = features(mask_positions=np.array([[0, 2], [3, 1], [0, 0]]))
    keras_synth.fold(model, T, plain=True).save(tmp_path / "plain.keras")
    np.savez(tmp_path / "inputs.npz", **x)
    subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path)],
        check=True,
        env={**os.environ, "KERAS_BACKEND": other},
    )
    found = np.load(tmp_path / "outputs.npy")
    close(found, model(x))


# --- refusals -----------------------------------------------------------------


def test_what_has_no_plain_form_is_named():
    for kind in ("causal_lm", "seq2seq_lm"):
        with pytest.raises(ValueError, match=r"cache.*`backbone`"):
            keras_synth.fold(task(kind), plain=True)
    classifier = task("classifier")
    classifier.quantize("int8")
    with pytest.raises(ValueError, match="before `quantize`"):
        keras_synth.fold(classifier, plain=True)
    open_ended = keras.Sequential(
        [
            keras.Input((None, 8)),
            keras.layers.TimeDistributed(keras.layers.Dense(8)),
            made("V"),
        ]
    )
    with pytest.raises(ValueError, match="max_length=128"):
        keras_synth.fold(open_ended, plain=True)
    check(open_ended, X)
    wrapped = keras.layers.TimeDistributed(made("V"))
    wrapped(X[:, None])
    with pytest.raises(ValueError, match="contains 'synthetic_attention"):
        keras_synth.fold(wrapped, T, plain=True)


# --- other layers, inputs and quantization ------------------------------------


def embedded(synthesizer, text=False):
    """Padded tokens, or texts of one length, and their vectors."""
    if text:
        x = keras.Input((), dtype="string")
        ids = keras.layers.TextVectorization(
            vocabulary=["a", "b", "c"], output_sequence_length=T
        )(x)
    else:
        x = ids = keras.Input((T,), dtype="int32", name="tokens")
    y = keras.layers.Embedding(9, 8, mask_zero=True)(ids)
    return x, SyntheticAttention(H, K, synthesizer=synthesizer, max_length=T)(y)


IDS = np.array([[1, 2, 0, 3, 0, 0, 0], [4, 5, 6, 0, 0, 0, 0]])


@pytest.mark.parametrize("kind", ["list", "state"])
def test_masks_of_lists_are_those_of_keras(kind):
    x, y = embedded("R")
    if kind == "list":
        z = keras.layers.Attention()([y, y])
        z = keras.layers.GlobalAveragePooling1D()(z)
    else:
        state = keras.layers.Dense(4)(y[:, 0])
        z = keras.layers.LSTM(4)(y, initial_state=[state, state])
    check(randomized(keras.Model(x, z)), IDS)


def test_an_input_can_have_the_name_of_a_layer():
    x = keras.Input((T, 8), name="features")
    inner = keras.Sequential(
        [keras.layers.Dense(8, name="features"), made("R")]
    )
    check(randomized(keras.Model(x, inner(x))), X)


def test_an_empty_batch_is_one():
    x, y = embedded("R")
    plain = keras_synth.fold(keras.Model(x, y), plain=True)
    assert plain(IDS[:0]).shape == (0, T, 8)


def test_a_layer_that_reads_two_sequences_needs_a_model():
    layer = SyntheticAttention(H, K, synthesizer="V")
    layer(normal(2, T, 8), normal(2, 5, 6))
    with pytest.raises(ValueError, match="functional model with an input for"):
        keras_synth.fold(layer, plain=True)


def test_what_is_quantized_afterwards_divides_nothing_by_nothing():
    x, y = embedded("R")
    y = SyntheticAttention(H, K, synthesizer="R", max_length=T)(
        y, use_causal_mask=True
    )
    plain = keras_synth.fold(keras.Model(x, y), plain=True)
    given = np.array([[0, 0, 0, 1, 2, 3, 4], [0] * T])
    expected = numpy(plain(given))
    plain.quantize("int8")
    close(plain(given), expected, atol=0.1)


@pytest.mark.each_backend
@only_on("tensorflow", "others read no strings")
@pytest.mark.parametrize("synthesizer", ["R", "R+V"])
def test_vocabularies_and_texts_stay(synthesizer, tmp_path):
    import tensorflow as tf

    x, y = embedded(synthesizer, text=True)
    model = keras.Model(x, y)
    texts = tf.constant(["a b", "c", ""])
    check(model, texts)
    adapted = keras.layers.IntegerLookup()
    adapted.adapt([3, 4, 5])
    tokens = keras.Input((T,), dtype="int64")
    y = keras.layers.Embedding(9, 8)(adapted(tokens))
    model = keras.Model(tokens, made("R")(y))
    ids = np.array([[3, 4, 5, 6, 3, 4, 5]])
    for plain in (False, True):
        folded = keras_synth.fold(model, T, plain=plain)
        close(folded(ids), model(ids))
