"""T5's and BERT's form compared with KerasHub, and published counts."""

import keras_hub
import numpy as np
import pytest
from assertions import close
from backend import numpy
from noise import noisy

from keras_synth import models, surgery

SMALL = {
    "vocabulary_size": 30,
    "num_layers": 2,
    "hidden_dim": 12,
    "intermediate_dim": 20,
    "max_sequence_length": 40,
    "dropout": 0.0,
}
RNG = np.random.default_rng


def copied(layer, *arrays):
    """Sets a layer's weights to arrays of the same sizes."""
    layer.set_weights(
        [
            np.reshape(numpy(x), w.shape)
            for x, w in zip(arrays, layer.weights, strict=True)
        ]
    )


# --- T5 -----------------------------------------------------------------------


@pytest.mark.parametrize("gated", [False, True])
def test_the_config_of_t5_is_that_of_a_grafted_t5(gated):
    """Grafted models have the outputs of KerasHub's."""
    form = {
        "activation": "gelu" if gated else "relu",
        "use_gated_activation": gated,
    }
    sizes = {k: v for k, v in SMALL.items() if k != "max_sequence_length"}
    theirs = keras_hub.models.T5Backbone(
        **sizes, **form, num_heads=3, key_value_dim=8
    )
    heads = {"num_heads": 3, "key_dim": 8}
    # Heads of the attention to the source are those of the other by default.
    heads |= {"cross_num_heads": None, "cross_key_dim": None}
    config = models.config("t5_tiny", "V", **SMALL, **form, **heads)
    ours = models.SynthesizerSeq2SeqBackbone(**config, name=theirs.name)
    grafted = surgery.graft(theirs, "V", max_length=40)
    assert ours.get_config() == grafted.get_config()
    assert ours.count_params() == theirs.count_params()


@pytest.mark.parametrize(
    ("synthesizer", "count"),
    [
        ("dot_product", 222_903_552),
        ("random", 254_360_064),
        ("dense", 224_475_648),
        ("random + dot_product", 292_108_800),
        ("V + D", 243_350_016),
    ],
)
def test_t5_base_has_the_papers_numbers_of_weights(synthesizer, count):
    """Table 4 of the paper: 223, 254, 224, 292 and 243 million."""
    config = models.config("t5_base", synthesizer)
    model = models.SynthesizerSeq2SeqBackbone(**config)
    alphas = sum(
        int(np.prod(w.shape)) for w in model.weights if w.name == "alphas"
    )
    assert model.count_params() - alphas == count


@pytest.mark.once
def test_the_parameters_of_table_2():
    """Tay et al., 2021: differences in millions, trainable ones."""
    sizes = {
        name: sum(
            int(np.prod(w.shape))
            for w in models.SynthesizerSeq2SeqBackbone(
                **models.config("transformer_base", name, vocabulary_size=8)
            ).trainable_weights
        )
        for name in ("V", "Fix", "R", "R+V", "FR")
    }
    for one, other, difference in (
        ("V", "Fix", -6.29),
        ("Fix", "R", 6.29),
        ("V", "R+V", 6.29),
        ("Fix", "FR", 0.39),
    ):
        found = (sizes[other] - sizes[one]) / 1e6
        assert found == pytest.approx(difference, abs=5e-3), (one, other)


# --- BERT ---------------------------------------------------------------------


def test_dot_product_in_berts_form_is_bert():
    shape = {"num_layers": 2, "hidden_dim": 12, "intermediate_dim": 20}
    theirs = keras_hub.models.BertBackbone(
        30, num_heads=3, max_sequence_length=40, dropout=0.0, **shape
    )
    noisy(theirs, 0.1)
    ours = models.SynthesizerBackbone(
        **models.config("bert_base", "V", **SMALL, num_heads=3)
    )
    inputs = {
        "token_ids": RNG(0).integers(1, 30, (2, 17)),
        "segment_ids": (np.arange(17) > [[6], [9]]).astype("int32"),
        "padding_mask": (np.arange(17) < [[17], [12]]).astype("int32"),
    }
    stack = ours.stack
    copied(ours.token_embedding, *theirs.token_embedding.weights)
    copied(stack.position_embedding, *theirs.position_embedding.weights)
    copied(stack.segment_embedding, *theirs.segment_embedding.weights)
    copied(stack.layer_norm, *theirs.embeddings_layer_norm.weights)
    for block, layer in zip(
        stack.blocks, theirs.transformer_layers, strict=True
    ):
        _copy_bert_block(block, layer)
    # Ours has no pooler; `SynthesizerTextClassifier` has those layers.
    pooler = theirs.pooled_dense.count_params()
    assert ours.count_params() == theirs.count_params() - pooler
    expected = theirs(inputs)["sequence_output"]
    real = inputs["padding_mask"].astype(bool)
    close(numpy(ours(inputs))[real], numpy(expected)[real], atol=1e-4)


def _copy_bert_block(block, layer):
    theirs, ours = layer._self_attention_layer, block.attention
    copied(ours.synthesizer.query, *theirs.query_dense.weights)
    copied(ours.synthesizer.key, *theirs.key_dense.weights)
    copied(ours.value, *theirs.value_dense.weights)
    copied(ours.attention_output, *theirs.output_dense.weights)
    copied(
        block.attention_residual.norm,
        *layer._self_attention_layer_norm.weights,
    )
    dense = layer._feedforward_intermediate_dense
    copied(block.feed_forward.intermediate, *dense.weights)
    dense = layer._feedforward_output_dense
    copied(block.feed_forward.output_dense, *dense.weights)
    norm = layer._feedforward_layer_norm
    copied(block.feed_forward_residual.norm, *norm.weights)


# --- bad input ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"normalization": "batch"}, "one of layer_normalization, rms_"),
        ({"positions": "rotary"}, "'t5_relative', or None"),
        ({"key_dim": 0}, "key_dim"),
        ({"cross_num_heads": -1}, "cross_num_heads"),
        ({"cross_key_dim": 1.5}, "cross_key_dim"),
        ({"num_heads": 5, "key_dim": None}, "or pass `key_dim`"),
        (
            {"synthesizer": "fnet", "decoder_synthesizer": "V"},
            "does not support relative positions",
        ),
    ],
)
def test_bad_options_are_errors(options, match):
    config = {**models.config("t5_tiny", "V"), **SMALL, **options}
    with pytest.raises(ValueError, match=match):
        models.SynthesizerSeq2SeqBackbone(**config)


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match=r"one of .*t5_base.*'t5_base_v2'"):
        models.config("t5_base_v2")


def test_dropout_of_t5_is_in_its_feed_forward_networks_too():
    assert models.config("t5_small", "R")["feed_forward_dropout"] == 0.1
    config = models.config("t5_small", "R", **SMALL)
    assert config["feed_forward_dropout"] == 0
    assert "feed_forward_dropout" not in models.config("bert_base", "R")


def test_unknown_arguments_are_errors_with_the_nearest_one():
    class Own(models.SynthesizerBackbone):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)

    options = {"num_heads": 2, **SMALL}
    for cls, wrong, nearest in (
        (models.SynthesizerBackbone, "max_length", "max_sequence_length"),
        (models.SynthesizerBackbone, "synthezer", "synthesizer"),
        (Own, "intermediate_dims", "intermediate_dim"),
    ):
        with pytest.raises(ValueError, match=f"mean '{nearest}'.*{wrong}="):
            cls(**options, synthesizer="R", **{wrong: 16})
    Own(**options, synthesizer="R", dtype="float32")
    with pytest.raises(ValueError, match="no argument 'causal'"):
        models.SynthesizerSeq2SeqBackbone(
            **options, synthesizer="R", causal=True
        )
    models.SynthesizerBackbone(
        **options, synthesizer="R", name="encoder", trainable=False
    )
