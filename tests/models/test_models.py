"""The classifier as a user meets it: raw strings, arrays, batches."""

import keras
import keras_hub
import numpy as np
import pytest
import small_tasks
from assertions import close, equal
from backend import numpy

from keras_synth import models
from keras_synth.models.tasks.text_classifier import Pooling

TEXTS = ["the film is good", "The plot is not good but dull"] * 4


def preprocessor(length=12, **options):
    return small_tasks.preprocessor("classifier", length, **options)


def prepared(texts, preprocessor):
    return {name: numpy(x) for name, x in preprocessor(texts).items()}


def classifier(synthesizer="R+V", preprocess=True, **options):
    backbone = small_tasks.backbone("classifier", synthesizer, num_layers=2)
    return models.SynthesizerTextClassifier(
        backbone, 2, preprocessor() if preprocess else None, **options
    )


@pytest.mark.each_backend
def test_every_dropout_drops_in_training_and_only_then():
    model = classifier("R+V", preprocess=False)
    features = prepared(TEXTS, preprocessor())

    def outputs(training):
        return numpy(model.backbone(features, training=training))

    assert not np.allclose(outputs(True), outputs(True))
    close(outputs(False), outputs(False), atol=1e-6)
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


@pytest.mark.each_backend
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_padding_does_not_change_predictions(pooling):
    model = classifier(pooling=pooling)
    features = prepared(TEXTS, model.preprocessor)
    model.preprocessor = None
    padded = {k: np.pad(v, [[0, 0], [0, 4]]) for k, v in features.items()}
    padded["token_ids"][:, 12:] = 7  # ids under a padding mask of 0
    close(model.predict(features, verbose=0), model.predict(padded, verbose=0))


def test_a_mean_of_nothing_is_zero_and_that_of_much_does_not_overflow():
    x = keras.ops.full((2, 1000, 2), 100.0, "float16")
    mask = np.repeat([[0], [1]], 1000, axis=1)
    mean = Pooling(dtype="float16")(x, mask)
    equal(mean, [[0.0] * 2, [100.0] * 2])


def test_compile_defaults_suit_training_from_scratch():
    model = classifier()
    assert isinstance(model.optimizer, keras.optimizers.AdamW)
    assert isinstance(model.loss, keras.losses.SparseCategoricalCrossentropy)
    assert model.loss.get_config()["from_logits"]
    probabilities = classifier(activation="softmax")
    assert not probabilities.loss.get_config()["from_logits"]
    # Any form of a sigmoid.
    single = models.SynthesizerTextClassifier(
        model.backbone, 1, activation=keras.ops.sigmoid
    )
    assert not single.loss.get_config()["from_logits"]


@pytest.mark.parametrize("kind", small_tasks.CLASSES)
def test_a_preprocessor_fits_its_backbone(kind):
    given, cls = small_tasks.preprocessor(kind), type(small_tasks.task(kind))
    options = {"num_classes": 2} if "classifier" in kind else {}

    def refused(match, **sizes):
        backbone = small_tasks.backbone(kind, **sizes)
        with pytest.raises(ValueError, match=match):
            cls(backbone, preprocessor=given, **options)

    refused("more tokens than.*15 and", vocabulary_size=9)
    refused("sequences of 8 tokens", max_sequence_length=7)
    if kind == "seq2seq_lm":
        refused("decoder_sequence_length=8", max_decoder_length=7)
    elif kind != "causal_lm":
        refused("with_segments=False", num_segments=2)
    with pytest.raises(ValueError, match="start_token"):
        type(given)(keras_hub.tokenizers.ByteTokenizer())


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="one for each layer"):
        models.SynthesizerBackbone(10, 2, 2, 8, 16, ["R"])
    with pytest.raises(ValueError, match="pooling"):
        classifier(pooling="max")
    backbone, ids = small_tasks.backbone("classifier"), np.ones((2, 4), "int32")
    with pytest.raises(ValueError, match=r"dictionary.*token_ids.*list"):
        backbone([ids, ids])
