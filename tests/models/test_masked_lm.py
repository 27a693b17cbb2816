"""`SynthesizerMaskedLM` and its preprocessor."""

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy, slow_but_on

from keras_synth import models

WORDS = "the a cat dog sat ran on in mat sun".split()
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
TEXTS = ["the cat sat on the mat", "a dog ran in the sun"] * 16


def preprocessor(**options):
    tokenizer = models.SynthesizerTokenizer(SPECIAL + WORDS)
    return models.SynthesizerMaskedLMPreprocessor(
        tokenizer, **{"sequence_length": 12, **options}
    )


def masked_lm(synthesizer="V", num_segments=0, given=None, **options):
    backbone = models.SynthesizerBackbone(
        vocabulary_size=15,
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        synthesizer=synthesizer,
        max_sequence_length=12,
        dropout=0.0,
        num_segments=num_segments,
        **options,
    )
    if given is None:
        given = preprocessor(with_segments=bool(num_segments))
    return models.SynthesizerMaskedLM(backbone, given)


def test_texts_become_batches():
    features, labels, weights = preprocessor()(TEXTS[:3])
    assert {k: x.shape for k, x in features.items()} == {
        "token_ids": (3, 12),
        "padding_mask": (3, 12),
        "mask_positions": (3, 1),
    }
    whole = preprocessor().tokens(TEXTS[:3])
    np.testing.assert_array_equal(
        whole["token_ids"][0], [1, 5, 7, 9, 11, 5, 13, 2, 0, 0, 0, 0]
    )
    rows = np.arange(3)[:, None]
    places = features["mask_positions"]
    np.testing.assert_array_equal(whole["token_ids"][rows, places], labels)
    assert (weights == 1).all()
    alone, *_ = preprocessor()(TEXTS[0])
    assert alone["token_ids"].shape == (12,)


@pytest.mark.usefixtures("without_graphs")
def test_pairs_have_segments():
    made = preprocessor(with_segments=True)
    features = made.tokens((TEXTS[:2], ["a cat", "the sun"]))
    assert features["segment_ids"].max() == 1
    lm = masked_lm(num_segments=2)
    lm.fit((TEXTS, ["a cat"] * len(TEXTS)), verbose=0)


@pytest.mark.parametrize(
    "synthesizer", [pytest.param("V", marks=slow_but_on("torch")), "R + V"]
)
def test_it_learns_to_fill_holes(synthesizer):
    keras.utils.set_random_seed(0)
    lm = masked_lm(synthesizer)
    lm.compile(keras.optimizers.Adam(0.02))
    before = lm.evaluate(TEXTS, verbose=0)[0]
    assert lm.evaluate(TEXTS, verbose=0)[0] == before  # the same holes
    lm.fit(TEXTS, epochs=60, verbose=0, validation_data=TEXTS[:4])
    assert lm.evaluate(TEXTS, verbose=0)[0] < 0.5 * before
    guesses = lm.fill_mask(
        ["the [MASK] sat on the mat", "a dog ran in the sun [MASK]"]
    )
    assert [[len(mask) for mask in text] for text in guesses] == [[5], [5]]
    token, share = guesses[0][0][0]
    assert token == "cat"
    assert 0 < share <= 1
    shares = [p for _, p in guesses[0][0]]
    assert shares == sorted(shares, reverse=True)
    two = lm.fill_mask("the [MASK] sat on the [MASK]", top_k=2)
    assert [found[0][0] for found in two] == ["cat", "mat"]
    assert len(two[0]) == 2


def test_guesses_are_no_special_tokens_and_sum_to_one():
    lm = masked_lm()
    (guesses,) = lm.fill_mask("a [MASK]", top_k=99)
    assert {token for token, _ in guesses} == {*WORDS}
    assert sum(share for _, share in guesses) == pytest.approx(1)


def test_logits_are_those_of_the_hidden_positions():
    lm = masked_lm(given=preprocessor())
    features, *_ = preprocessor()(TEXTS[:2])
    logits = numpy(lm(features))
    hidden = numpy(lm.backbone({k: features[k] for k in lm.backbone.input}))
    places = features["mask_positions"]
    rows = np.take_along_axis(hidden, places[..., None], axis=1)
    head = lm.masked_lm_head
    x = head._intermediate_layer_norm(head._intermediate_dense(rows))
    expected = numpy(x) @ numpy(lm.backbone.token_embedding.embeddings).T
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_files_and_presets_keep_it(tmp_path):
    lm = masked_lm("R + V")
    features, *_ = preprocessor()(TEXTS[:2])
    expected = numpy(lm(features))
    lm.save(tmp_path / "model.keras")
    lm.save_to_preset(tmp_path / "preset")
    saved = keras.saving.load_model(tmp_path / "model.keras")
    preset = models.SynthesizerMaskedLM.from_preset(tmp_path / "preset")
    for other in (saved, preset):
        np.testing.assert_allclose(numpy(other(features)), expected, atol=1e-6)
        assert len(other.fill_mask("a [MASK]")[0]) == 5
    made = preprocessor(seed=3, with_segments=True, mask_selection_rate=0.5)
    config = {**made.get_config(), "tokenizer": made.tokenizer}
    again = type(made)(**config)  # files hold the vocabulary, configs do not
    for x, y in zip(made(TEXTS[:4]), again(TEXTS[:4]), strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, x, y)
    # What was learned serves another task.
    backbone = keras_hub.models.Backbone.from_preset(str(tmp_path / "preset"))
    models.SynthesizerTextClassifier(backbone, 2)


@pytest.mark.usefixtures("without_graphs")
def test_without_preprocessor_it_takes_batches():
    made = preprocessor()
    batches = made.batches(made.tokens(TEXTS), 8)
    lm = models.SynthesizerMaskedLM(masked_lm().backbone)
    lm.fit(batches, verbose=0)
    assert lm.predict(batches, verbose=0).shape == (32, 1, 15)
    with pytest.raises(ValueError, match="with a preprocessor"):
        lm.fill_mask("a [MASK]")
    with pytest.raises(ValueError, match="takes raw strings"):
        masked_lm().fit(batches)


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("batch_size", [None, 8])
def test_a_dataset_of_texts_is_read_as_a_list_is(batch_size):
    tf = pytest.importorskip("tensorflow")
    model = masked_lm()
    weights = model.get_weights()
    expected = model.evaluate(TEXTS, batch_size=batch_size, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    if batch_size:
        dataset = dataset.batch(batch_size)
    found = model.evaluate(dataset, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    history = model.fit(dataset, validation_data=dataset, verbose=0)
    assert len(history.history["val_loss"]) == 1
    assert any(map(np.any, map(np.subtract, model.get_weights(), weights)))


@pytest.mark.usefixtures("without_graphs")
def test_a_dataset_of_pairs_is_read_as_a_tuple_is():
    tf = pytest.importorskip("tensorflow")
    model = masked_lm(num_segments=2)
    pairs = TEXTS, TEXTS[::-1]
    dataset = tf.data.Dataset.from_tensor_slices(pairs).batch(4)
    np.testing.assert_allclose(
        model.evaluate(dataset, verbose=0),
        model.evaluate(pairs, batch_size=4, verbose=0),
        rtol=1e-5,
    )


def test_datasets_that_cannot_be_read_are_refused():
    tf = pytest.importorskip("tensorflow")
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    for dataset, words in (
        (texts.map(tf.strings.length), "must hold strings"),
        (texts.repeat(), "without end"),
        (texts.take(0), "empty"),
    ):
        with pytest.raises(ValueError, match=words):
            masked_lm().fit(dataset)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="causal=False"):
        masked_lm(causal=True)
    with pytest.raises(ValueError, match=r"must hold \[MASK\]"):
        masked_lm().fill_mask("a cat")
    with pytest.raises(ValueError, match="Received: 14 tokens"):
        masked_lm().fill_mask("a [MASK]" + " cat" * 10)
    with pytest.raises(ValueError, match="1 of 2 without"):
        masked_lm().fit(["the cat", ""])
    with pytest.raises(ValueError, match="sequences of 20 tokens"):
        masked_lm(given=preprocessor(sequence_length=20))
    byte_pairs = keras_hub.tokenizers.ByteTokenizer()
    with pytest.raises(ValueError, match="start_token"):
        models.SynthesizerMaskedLMPreprocessor(byte_pairs)
