"""The classifier as a user meets it: raw strings, arrays, batches."""

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy
from small_tasks import SIZES, VOCABULARY
from small_tasks import preprocessor as of_kind

from keras_synth import models
from keras_synth.models.tasks.text_classifier import Pooling
from keras_synth.synthesizers import RandomSynthesizer
from keras_synth.training import LengthBuckets

TEXTS = ["the film is good", "The plot is not good but dull"] * 4
LABELS = [1, 0] * 4


def preprocessor(length=12, **options):
    return of_kind("classifier", length, **options)


def prepared(texts, preprocessor):
    return {name: numpy(x) for name, x in preprocessor(texts).items()}


def classifier(synthesizer="R+V", preprocess=True, num_segments=0, **options):
    backbone = models.SynthesizerBackbone(
        vocabulary_size=len(VOCABULARY),
        synthesizer=synthesizer,
        max_sequence_length=16,
        num_segments=num_segments,
        **{**SIZES, "num_layers": 2},
    )
    made = preprocessor(with_segments=bool(num_segments))
    return models.SynthesizerTextClassifier(
        backbone, 2, made if preprocess else None, **options
    )


@pytest.mark.usefixtures("without_graphs")
def test_arrays_and_strings_have_the_same_predictions():
    model = classifier()
    expected = model.predict(TEXTS, verbose=0)
    features = model.preprocessor(TEXTS)
    assert set(features) == {"token_ids", "padding_mask"}
    model.preprocessor = None
    np.testing.assert_allclose(
        model.predict(features, verbose=0), expected, atol=1e-6
    )


@pytest.mark.each_backend
def test_every_dropout_drops_in_training_and_only_then():
    model = classifier("R+V", preprocess=False)
    features = prepared(TEXTS, preprocessor())

    def outputs(training):
        return numpy(model.backbone(features, training=training))

    assert not np.allclose(outputs(True), outputs(True))
    np.testing.assert_allclose(outputs(False), outputs(False), atol=1e-6)
    dropped = []
    room = keras.src.backend.random  # where all ways to drop meet
    original = room.dropout

    def spy(x, rate, *args, **kwargs):
        dropped.append(rate)
        return original(x, rate, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "dropout", spy)
        model(features, training=True)
        # Embeddings and output; weights, attention, feed-forward per block.
        assert len(dropped) == 2 + 3 * 2
        model(features, training=False)
    assert len(dropped) == 2 + 3 * 2


@pytest.mark.slow
def test_a_classifier_learns_more_than_a_bag_of_words():
    """Which adjective follows "not" decides, so who attends to whom must."""
    backbone = models.SynthesizerBackbone(
        len(VOCABULARY), 1, 2, 16, 32, "R+V", 0.0, max_sequence_length=12
    )
    model = models.SynthesizerTextClassifier(
        backbone, 2, preprocessor(), dropout=0.0
    )
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    texts = ["the film is not good but dull", "the film is not dull but good"]
    model.fit(texts * 400, [0, 1] * 400, epochs=3, batch_size=16, verbose=0)
    loss, accuracy = model.evaluate(texts, [0, 1], verbose=0)
    assert accuracy == 1.0
    assert loss < 0.3


def test_the_end_of_a_long_text_can_be_kept():
    words = "the film plot is good dull not but and a".split()
    for pack in (preprocessor(6, keep="end"), preprocessor(6, keep="start")):
        ids = [VOCABULARY.index(word) for word in words]
        ids = ids[-4:] if pack.keep == "end" else ids[:4]
        features = prepared(" ".join(words), pack)
        expected = [1, *ids, 2]  # [CLS] ... [SEP]
        np.testing.assert_array_equal(features["token_ids"], expected)
        features = prepared([" ".join(words), "good"], pack)
        np.testing.assert_array_equal(features["token_ids"][0], expected)
        np.testing.assert_array_equal(
            features["token_ids"][1], [1, VOCABULARY.index("good"), 2, 0, 0, 0]
        )
        np.testing.assert_array_equal(
            features["padding_mask"][1], [1, 1, 1, 0, 0, 0]
        )


@pytest.mark.each_backend
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_padding_does_not_change_predictions(pooling):
    model = classifier(pooling=pooling)
    features = prepared(TEXTS, model.preprocessor)
    model.preprocessor = None
    padded = {k: np.pad(v, [[0, 0], [0, 4]]) for k, v in features.items()}
    padded["token_ids"][:, 12:] = 7  # ids under a padding mask of 0
    np.testing.assert_allclose(
        model.predict(features, verbose=0),
        model.predict(padded, verbose=0),
        atol=1e-5,
    )


def test_pooling_of_nothing_is_zero():
    mean = Pooling()(
        np.ones((2, 3, 4), "float32"), np.array([[0] * 3, [1] * 3])
    )
    np.testing.assert_allclose(keras.ops.convert_to_numpy(mean)[0], 0)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(mean)[1], 1)


@pytest.mark.usefixtures("without_graphs")
def test_pairs_of_texts_carry_segments():
    model = classifier(num_segments=2)
    pairs = (TEXTS, TEXTS[::-1])
    features = model.preprocessor(x=pairs)
    assert set(np.unique(numpy(features["segment_ids"]))) == {0, 1}
    model.fit(pairs, LABELS, verbose=0)
    assert model.predict(pairs, verbose=0).shape == (8, 2)


@pytest.mark.usefixtures("without_graphs")
def test_blocks_can_have_different_synthesizers():
    backbone = models.SynthesizerBackbone(
        20,
        2,
        2,
        8,
        16,
        ["R", RandomSynthesizer(2, 16, fixed=True)],
        max_sequence_length=16,
    )
    names = [w.path for w in backbone.non_trainable_weights]
    assert len(names) == 1
    assert "encoder_layer_1" in names[0]


def test_compile_defaults_suit_training_from_scratch():
    model = classifier()
    assert isinstance(model.optimizer, keras.optimizers.AdamW)
    assert isinstance(model.loss, keras.losses.SparseCategoricalCrossentropy)
    assert model.loss.get_config()["from_logits"]
    probabilities = classifier(activation="softmax")
    assert not probabilities.loss.get_config()["from_logits"]


@pytest.mark.usefixtures("without_graphs")
def test_batches_by_length_go_through_fit_evaluate_and_predict():
    model = classifier(preprocess=False)
    features = prepared(TEXTS, preprocessor())
    batches = LengthBuckets(features, LABELS, 4, [8], shuffle=False)
    shapes = {batches[i][0]["token_ids"].shape for i in range(len(batches))}
    assert {length for _, length in shapes} == {8, 12}
    history = model.fit(
        batches, epochs=2, validation_data=batches, verbose=0
    ).history
    assert np.isfinite(history["val_loss"]).all()
    np.testing.assert_allclose(
        model.evaluate(batches, verbose=0),
        model.evaluate(features, np.array(LABELS), verbose=0),
        rtol=1e-4,
    )
    assert model.predict(batches, verbose=0).shape == (8, 2)


def test_arguments_that_do_not_fit_are_errors():
    model = classifier()
    with pytest.raises(ValueError, match="max_sequence_length=16"):
        models.SynthesizerTextClassifier(model.backbone, 2, preprocessor(32))
    with pytest.raises(ValueError, match="with_segments"):
        models.SynthesizerTextClassifier(
            model.backbone, 2, preprocessor(with_segments=True)
        )
    with pytest.raises(ValueError, match="divisible"):
        models.SynthesizerBackbone(10, 1, 3, 8, 16, "R")
    with pytest.raises(ValueError, match="one for each layer"):
        models.SynthesizerBackbone(10, 2, 2, 8, 16, ["R"])
    with pytest.raises(ValueError, match="Did you mean 'random'"):
        models.SynthesizerBackbone(10, 1, 2, 8, 16, "randon")
    with pytest.raises(ValueError, match="start_token"):
        models.SynthesizerTextClassifierPreprocessor(
            keras_hub.tokenizers.ByteTokenizer()
        )
    with pytest.raises(ValueError, match="pooling"):
        classifier(pooling="max")


def test_input_longer_than_the_backbone_names_both_lengths():
    model = classifier("R", preprocess=False)
    ids = np.ones((1, 20), "int32")
    with pytest.raises(ValueError, match=r"(?s)20.*16"):
        model.backbone({"token_ids": ids, "padding_mask": ids})
