"""KerasHub's own checks of layers and backbones, for all synthesizers."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import slow_but_on
from cases import CASES, KINDS, D, H, N, T

from keras_synth import layers, models

pytest.importorskip("tensorflow")  # KerasHub's test case is one of TensorFlow's
pytest.importorskip("grain")
test_case = pytest.importorskip("keras_hub.src.tests.test_case")


def hub(tmp_path):
    class Checks(test_case.TestCase):
        def get_temp_dir(self):
            return str(tmp_path)

        def runTest(self):
            pass

    return Checks()


def config(case):
    return keras.saving.serialize_keras_object(CASES[case]())


def counts(layer, *shapes):
    layer.build(*shapes)
    return {
        "expected_num_trainable_weights": len(layer.trainable_weights),
        "expected_num_non_trainable_weights": len(layer.non_trainable_weights),
        # Dropout of attention weights and of sub-layers: a seed state each.
        "expected_num_non_trainable_variables": len(
            layer.non_trainable_variables
        ),
    }


# What takes seconds to compile; between them they have all kinds.
slow = pytest.mark.slow
ENCODERS = {"V": slow_but_on("torch"), "R": slow_but_on("torch"), "nested": ()}
DECODERS = {"D+V shared": slow_but_on("torch"), "FR": ()}


@pytest.mark.parametrize(
    "case", [pytest.param(k, marks=ENCODERS.get(k, slow)) for k in KINDS]
)
def test_the_encoder_block_passes(case, tmp_path):
    options = {
        "intermediate_dim": 16,
        "num_heads": H,
        "synthesizer": config(case),
        "dropout": 0.1,
    }
    shape = (2, T, D)
    hub(tmp_path).run_layer_test(
        cls=layers.SynthesizerEncoder,
        init_kwargs=options,
        input_data=normal(*shape),
        expected_output_shape=shape,
        **counts(layers.SynthesizerEncoder(**options), shape),
    )


@pytest.mark.parametrize(
    "case", [pytest.param(k, marks=DECODERS.get(k, slow)) for k in KINDS]
)
def test_the_decoder_block_passes(case, tmp_path):
    options = {
        "intermediate_dim": 16,
        "num_heads": H,
        "synthesizer": config(case),
        "cross_synthesizer": config("FD"),
        "dropout": 0.1,
    }
    target, source = (2, T, D), (2, N, D)
    hub(tmp_path).run_layer_test(
        cls=layers.SynthesizerDecoder,
        init_kwargs=options,
        input_data={
            "decoder_sequence": normal(*target),
            "encoder_sequence": normal(*source),
        },
        expected_output_shape=target,
        **counts(layers.SynthesizerDecoder(**options), target, source),
    )


SMALL = {
    "vocabulary_size": 20,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "max_sequence_length": 8,
}
IDS = np.ones((2, 6), "int32")


@slow_but_on("tensorflow", "torch")
@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=slow)])
def test_the_backbone_passes(causal, tmp_path):
    names = ["R+V", "D", "FD+Fix", "FR"]
    hub(tmp_path).run_backbone_test(
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


@slow_but_on("tensorflow", "torch")
def test_the_sequence_to_sequence_backbone_passes(tmp_path):
    hub(tmp_path).run_backbone_test(
        cls=models.SynthesizerSeq2SeqBackbone,
        init_kwargs={
            **SMALL,
            "num_layers": 1,
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
