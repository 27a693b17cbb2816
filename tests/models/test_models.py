"""The classifier as a user meets it: raw strings, arrays, files."""

import errno
import pathlib

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy
from classifiers import (
    LABELS,
    TEXTS,
    VOCABULARY,
    classifier,
    preprocessor,
)

from keras_synth import models
from keras_synth.models.tasks.text_classifier import Pooling
from keras_synth.synthesizers import RandomSynthesizer
from keras_synth.training import LengthBuckets


def test_raw_strings_go_through_fit_evaluate_and_predict():
    model = classifier()
    history = model.fit(TEXTS, LABELS, batch_size=4, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    loss, accuracy = model.evaluate(TEXTS, LABELS, verbose=0)
    assert np.isfinite(loss)
    assert 0 <= accuracy <= 1
    assert model.predict(TEXTS, verbose=0).shape == (8, 2)


@pytest.mark.usefixtures("without_graphs")
def test_arrays_and_strings_give_the_same_predictions():
    model = classifier()
    expected = model.predict(TEXTS, verbose=0)
    features = model.preprocessor(TEXTS)
    assert set(features) == {"token_ids", "padding_mask"}
    model.preprocessor = None
    np.testing.assert_allclose(
        model.predict(features, verbose=0), expected, atol=1e-6
    )


def test_every_dropout_drops_in_training_and_only_then():
    model = classifier("R+V", preprocess=False)
    features = {k: np.array(v) for k, v in preprocessor()(TEXTS).items()}

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
def test_a_classifier_learns_what_no_bag_of_words_can():
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
        features = pack(" ".join(words))
        expected = [1, *ids, 2]  # [CLS] ... [SEP]
        np.testing.assert_array_equal(features["token_ids"], expected)
        features = pack([" ".join(words), "good"])
        np.testing.assert_array_equal(features["token_ids"][0], expected)
        np.testing.assert_array_equal(
            features["token_ids"][1], [1, VOCABULARY.index("good"), 2, 0, 0, 0]
        )
        np.testing.assert_array_equal(
            features["padding_mask"][1], [1, 1, 1, 0, 0, 0]
        )


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_padding_does_not_change_predictions(pooling):
    model = classifier(pooling=pooling)
    features = {k: np.array(v) for k, v in model.preprocessor(TEXTS).items()}
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
    assert set(np.unique(features["segment_ids"])) == {0, 1}
    model.fit(pairs, LABELS, verbose=0)
    assert model.predict(pairs, verbose=0).shape == (8, 2)


@pytest.mark.usefixtures("without_graphs")
def test_blocks_may_have_synthesizers_of_their_own():
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


@pytest.mark.usefixtures("without_graphs")
def test_keras_files_and_presets_keep_the_predictions(tmp_path):
    model = classifier("D+V")
    expected = model.predict(TEXTS, verbose=0)
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    for loaded in (
        keras.saving.load_model(tmp_path / "model.keras"),
        models.SynthesizerTextClassifier.from_preset(tmp_path / "preset"),
        keras_hub.models.TextClassifier.from_preset(str(tmp_path / "preset")),
    ):
        assert isinstance(loaded, models.SynthesizerTextClassifier)
        np.testing.assert_allclose(
            loaded.predict(TEXTS, verbose=0), expected, atol=1e-6
        )
    backbone = models.SynthesizerBackbone.from_preset(tmp_path / "preset")
    assert backbone.synthesizer == "D+V"


@pytest.mark.usefixtures("without_graphs")
def test_a_new_head_can_be_put_on_a_preset(tmp_path):
    classifier().save_to_preset(tmp_path / "preset")
    model = models.SynthesizerTextClassifier.from_preset(
        tmp_path / "preset", num_classes=5
    )
    assert model.predict(TEXTS, verbose=0).shape == (8, 5)


def failing(write):
    """Writes a part of what it should, then fails as a full disk does."""

    def fail(self, path, *args, **kwargs):
        write(self, path, *args, **kwargs)
        raise OSError(errno.ENOSPC, "No space left on device")

    return fail


@pytest.mark.parametrize("way", ["save", "save_weights", "save_to_preset"])
def test_a_write_error_leaves_the_earlier_file_whole(
    way, tmp_path, monkeypatch
):
    model = classifier("R", preprocess=False)
    name = {"save": "m.keras", "save_weights": "m.weights.h5"}.get(way, "m")
    path = tmp_path / name
    getattr(model, way)(path)
    before = contents(tmp_path)
    for weight in model.trainable_weights:
        weight.assign(weight + 1)
    base = keras_hub.models.TextClassifier
    monkeypatch.setattr(base, way, failing(getattr(base, way)))
    with pytest.raises(OSError, match="No space left"):
        getattr(model, way)(path)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    getattr(model, way)(path)
    assert contents(tmp_path) != before


def contents(folder):
    files = pathlib.Path(folder).rglob("*")
    return {f: f.read_bytes() for f in files if f.is_file()}


def test_saving_over_a_file_can_be_declined(tmp_path, monkeypatch):
    model = classifier("R", preprocess=False)
    model.save(tmp_path / "m.keras")
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    before = contents(tmp_path)
    model.save(tmp_path / "m.keras", overwrite=False)
    assert contents(tmp_path) == before


def test_int8_quantization_and_lora_work_on_a_model():
    model = classifier("R+V", preprocess=False)
    features = preprocessor()(TEXTS)
    model.backbone.enable_lora(2)
    lora = [w for w in model.backbone.trainable_weights if "lora" in w.path]
    assert len(lora) == 2 * 3 * 2  # blocks x (query, value, R) x factors
    model.compile()
    model.fit(features, np.array(LABELS), verbose=0)

    model = classifier("R+V", preprocess=False)
    before = model.predict(features, verbose=0)
    model.quantize("int8")
    after = model.predict(features, verbose=0)
    np.testing.assert_allclose(after, before, atol=0.25)
    tables = [w for w in model.weights if w.path.endswith("/R")]
    kernels = [w for w in model.weights if w.path.endswith("value/kernel")]
    assert {w.dtype for w in tables} == {"float32"}
    assert {w.dtype for w in kernels} == {"int8"}


def test_compile_defaults_suit_training_from_scratch():
    model = classifier()
    assert isinstance(model.optimizer, keras.optimizers.AdamW)
    assert isinstance(model.loss, keras.losses.SparseCategoricalCrossentropy)
    assert model.loss.get_config()["from_logits"]
    probabilities = classifier(activation="softmax")
    assert not probabilities.loss.get_config()["from_logits"]


@pytest.mark.usefixtures("without_graphs")
def test_labels_may_be_class_names(tmp_path):
    model = classifier(class_names=("bad", "good"))
    names = ["good", "bad"] * 4
    model.fit(TEXTS, names, verbose=0)
    by_name = model.evaluate(TEXTS, names, verbose=0)
    by_number = model.evaluate(TEXTS, np.array(LABELS), verbose=0)
    np.testing.assert_allclose(by_name, by_number)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.class_names == ["bad", "good"]


@pytest.mark.usefixtures("without_graphs")
def test_batches_by_length_go_through_fit_evaluate_and_predict():
    model = classifier(preprocess=False)
    features = {k: np.array(v) for k, v in preprocessor()(TEXTS).items()}
    batches = LengthBuckets(features, LABELS, 4, [8], shuffle=False)
    assert set(batches.batch_lengths(0)) == {8, 12}
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


@pytest.mark.usefixtures("without_graphs")
def test_byte_pair_tokenizers_do_as_well(tmp_path):
    words = "the film is good dull".split()
    pieces = sorted({*"".join(words), "Ġ"} | {"th", "the", "Ġthe"})
    vocabulary = ["<s>", "</s>", "<pad>", "<mask>", *pieces]
    tokenizer = models.SynthesizerBytePairTokenizer(
        {piece: i for i, piece in enumerate(vocabulary)},
        ["t h", "th e", "Ġ the"],
    )
    pack = models.SynthesizerTextClassifierPreprocessor(tokenizer, 12)
    ids = np.array(pack("the film")["token_ids"])
    assert ids[0] == 0
    assert vocabulary[ids[1]] == "the"
    assert ids[-1] == 2
    backbone = models.SynthesizerBackbone(
        len(vocabulary), 1, 2, 8, 16, "R", max_sequence_length=12
    )
    model = models.SynthesizerTextClassifier(backbone, 2, pack)
    model.fit(["the film is good", "the film is dull"], [1, 0], verbose=0)
    model.save_to_preset(tmp_path / "preset")
    loaded = models.SynthesizerTextClassifier.from_preset(tmp_path / "preset")
    assert isinstance(
        loaded.preprocessor.tokenizer, models.SynthesizerBytePairTokenizer
    )
    np.testing.assert_allclose(
        loaded.predict(["the film"], verbose=0),
        model.predict(["the film"], verbose=0),
        atol=1e-6,
    )


def test_arguments_that_do_not_fit_are_refused():
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
