"""KerasHub's own checks of layers, backbones, tasks and preprocessors."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import slow_unless
from cases import CASES, D, H, N, T
from cases import KINDS as CASE_NAMES
from small_tasks import (
    KINDS,
    SIZES,
    VOCABULARY,
    backbone,
    preprocessor,
    task,
    tokenizer,
)

from keras_synth import layers, models

pytest.importorskip("tensorflow")  # KerasHub's test case is one of its
pytest.importorskip("grain")
# Private: nothing public has it.
from keras_hub.src.tests import test_case

TEXTS = ["the film is good", "a plot"]


@pytest.fixture
def kerashub():
    case = test_case.TestCase()
    case.setUp()
    yield case
    case.tearDown()
    case.doCleanups()


# Layers and backbones


def check_block(kerashub, cls, case, data, **options):
    options = {
        "intermediate_dim": 16,
        "num_heads": H,
        "synthesizer": keras.saving.serialize_keras_object(CASES[case]()),
        "dropout": 0.1,
        **options,
    }
    layer = cls(**options)
    layer.build(*(x.shape for x in keras.tree.flatten(data)))
    kerashub.run_layer_test(
        cls=cls,
        init_kwargs=options,
        input_data=data,
        expected_output_shape=(2, T, D),
        expected_num_trainable_weights=len(layer.trainable_weights),
        expected_num_non_trainable_weights=len(layer.non_trainable_weights),
        # Dropout of attention weights and of sub-layers: a seed state each.
        expected_num_non_trainable_variables=len(layer.non_trainable_variables),
    )


# These take seconds to compile, and cover all kinds.
slow = pytest.mark.slow
ENCODERS = ["V", "R", "nested"]
DECODERS = ["D+V shared", "FR"]


@pytest.mark.parametrize("case", slow_unless(ENCODERS, CASE_NAMES))
def test_the_encoder_block_passes(kerashub, case):
    check_block(kerashub, layers.SynthesizerEncoder, case, normal(2, T, D))


@pytest.mark.parametrize("case", slow_unless(DECODERS, CASE_NAMES))
def test_the_decoder_block_passes(kerashub, case):
    cross = keras.saving.serialize_keras_object(CASES["FD"]())
    data = {
        "decoder_sequence": normal(2, T, D),
        "encoder_sequence": normal(2, N, D),
    }
    cls = layers.SynthesizerDecoder
    check_block(kerashub, cls, case, data, cross_synthesizer=cross)


SMALL = {**SIZES, "vocabulary_size": 20, "max_sequence_length": 8}
IDS = np.ones((2, 6), "int32")


@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=slow)])
def test_the_backbone_passes(kerashub, causal):
    names = ["R+V", "D", "FD+Fix", "FR"]
    kerashub.run_backbone_test(
        cls=models.SynthesizerBackbone,
        init_kwargs={
            **SMALL,
            "num_layers": len(names),
            "synthesizer": names,
            "causal": causal,
        },
        input_data={"token_ids": IDS, "padding_mask": IDS},
        expected_output_shape=(2, 6, 8),
    )


def test_the_sequence_to_sequence_backbone_passes(kerashub):
    kerashub.run_backbone_test(
        cls=models.SynthesizerSeq2SeqBackbone,
        init_kwargs={
            **SMALL,
            "synthesizer": "D+V",
            "decoder_synthesizer": "R+FD",
            "cross_synthesizer": "FR+V",
        },
        input_data={
            f"{side}_{name}": IDS
            for side in ("encoder", "decoder")
            for name in ("token_ids", "padding_mask")
        },
        expected_output_shape={
            "encoder_sequence_output": (2, 6, 8),
            "decoder_sequence_output": (2, 6, 8),
        },
    )


# Tasks


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
    [("classifier", "R+V"), ("causal_lm", "D"), ("seq2seq_lm", "FR")],
)
def test_tasks_pass_as_kerashubs_do(kerashub, kind, synthesizer):
    outputs = (2, 2) if kind == "classifier" else (2, 8, len(VOCABULARY))
    kerashub.run_task_test(
        type(task(kind)),
        arguments(kind, synthesizer),
        train_data=training_data(kind),
        expected_output_shape=outputs,
    )


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
