"""KerasHub's own checks of tasks, preprocessors and tokenizers."""

import keras
import numpy as np
import pytest
from backend import slow_but_on
from small_tasks import (
    KINDS,
    VOCABULARY,
    backbone,
    preprocessor,
    task,
    tokenizer,
)

from keras_synth import models

pytest.importorskip("grain")
# Private: nothing public has it.
from keras_hub.src.tests import test_case

TEXTS = ["the film is good", "a plot"]
SYNTHESIZERS = ["V", "D", "R", "Fix", "FD", "FR", "R+V", "D+V+FR"]


@pytest.fixture
def kerashub():
    case = test_case.TestCase()
    case.setUp()
    yield case
    case.tearDown()
    case.doCleanups()


def training_data(kind):
    """As KerasHub's tests have it: a tuple of x, and y where there is one."""
    if kind == "classifier":
        return TEXTS, [0, 1]
    if kind == "causal_lm":
        return (TEXTS,)
    return ({"encoder_text": TEXTS, "decoder_text": TEXTS[::-1]},)


def arguments(kind, synthesizer, **options):
    made = {"backbone": backbone(kind, synthesizer), **options}
    made["preprocessor"] = preprocessor(kind)
    if kind == "classifier":
        made["num_classes"] = 2
    return made


@pytest.mark.parametrize(
    "kind, synthesizer",
    [
        ("classifier", "R+V"),
        ("causal_lm", "D"),
        pytest.param("seq2seq_lm", "FR", marks=slow_but_on("torch")),
    ]
    + [
        pytest.param(kind, name, marks=pytest.mark.slow)
        for kind in KINDS
        for name in SYNTHESIZERS
    ],
)
def test_tasks_pass_as_kerashubs_do(kerashub, kind, synthesizer):
    outputs = (2, 2) if kind == "classifier" else (2, 8, len(VOCABULARY))
    kerashub.run_task_test(
        type(task(kind)),
        arguments(kind, synthesizer),
        train_data=training_data(kind),
        expected_output_shape=outputs,
    )


@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_are_serialized(kerashub, kind, synthesizer):
    made = type(task(kind))(**arguments(kind, synthesizer))
    kerashub.run_serialization_test(made)


@pytest.mark.parametrize(
    "kind, synthesizer",
    [("classifier", "R+V"), ("causal_lm", "D+V+FR"), ("seq2seq_lm", "FD")],
)
def test_tasks_are_saved(kerashub, kind, synthesizer):
    options = arguments(kind, synthesizer)
    features = preprocessor(kind)(*training_data(kind))
    features, _, _ = keras.utils.unpack_x_y_sample_weight(features)
    kerashub.run_model_saving_test(
        type(task(kind)), options, input_data=features, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    "kind, mode",
    [(kind, "int8") for kind in KINDS] + [("classifier", "float8")],
)
def test_tasks_are_quantized(kind, mode):
    keras.utils.set_random_seed(1)
    model = task(kind, "R+V", preprocess=False)
    features, _, _ = keras.utils.unpack_x_y_sample_weight(
        preprocessor(kind)(*training_data(kind))
    )
    before = model.predict(features, verbose=0)
    model.quantize(mode)
    projections = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, (keras.layers.Dense, keras.layers.EinsumDense))
    ]
    assert projections
    assert {layer.quantization_mode for layer in projections} == {mode}
    after = model.predict(features, verbose=0)
    np.testing.assert_allclose(after, before, atol=0.25)


@pytest.mark.parametrize(
    "filters",
    [
        None,
        lambda layer: layer.name in ("logits", "token_embedding"),
        "logits|token",
        ["token", "logits"],
    ],
)
def test_a_task_that_has_read_no_text_is_quantized(filters):
    """Its tokenizer, which has not been built, matches "token", too."""
    model = task("classifier")
    model.quantize("int8", filters=filters)
    quantized = {
        layer.name
        for layer in model._flatten_layers()
        if getattr(layer, "quantization_mode", None) == "int8"
    }
    assert {"logits", "token_embedding"} <= quantized
    assert ("value" in quantized) == (filters is None)
    with pytest.raises(ValueError, match="filters"):
        task("classifier").quantize("int8", filters=3)


@pytest.mark.parametrize("kind", KINDS)
def test_preprocessors_pass_as_kerashubs_do(kerashub, kind):
    made = type(preprocessor(kind))
    lengths = {"sequence_length": 8}
    if kind == "seq2seq_lm":
        lengths = {"encoder_sequence_length": 5, "decoder_sequence_length": 8}
    options = {"tokenizer": tokenizer(), **lengths}
    data = training_data(kind)
    if kind == "seq2seq_lm":
        # KerasHub's check looks for one length: this kind has two.
        kerashub.run_preprocessing_layer_test(made, options, *data)
        return
    kerashub.init_kwargs = options
    kerashub.run_preprocessor_test(
        made, options, data if len(data) > 1 else data[0]
    )


def test_options_of_the_classifiers_preprocessor_do_too(kerashub):
    kerashub.run_preprocessing_layer_test(
        models.SynthesizerTextClassifierPreprocessor,
        {
            "tokenizer": tokenizer(),
            "sequence_length": 5,
            "keep": "end",
            "with_segments": True,
        },
        ((TEXTS, TEXTS[::-1]), [0, 1]),
    )


def test_tokenizers_pass_as_kerashubs_do(kerashub):
    kerashub.run_preprocessing_layer_test(
        models.SynthesizerTokenizer,
        {"vocabulary": VOCABULARY},
        TEXTS,
        expected_output=[[5, 6, 8, 9], [14, 7]],
    )
    learned = models.SynthesizerBytePairTokenizer.from_texts(TEXTS, 280)
    kerashub.run_preprocessing_layer_test(
        models.SynthesizerBytePairTokenizer,
        {"vocabulary": learned.vocabulary, "merges": learned.merges},
        TEXTS,
    )
