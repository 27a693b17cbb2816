"""`SynthesizerMaskedLM` and its preprocessor."""

import grain
import keras
import numpy as np
import pytest
import small_tasks
from assertions import close, equal
from backend import numpy
from every_task import record

from keras_synth import models, pretraining

WORDS = "the a cat dog sat ran on in mat sun".split()
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
TEXTS = ["the cat sat on the mat", "a dog ran in the sun"] * 16


def preprocessor(**options):
    tokenizer = models.SynthesizerTokenizer(SPECIAL + WORDS)
    return models.SynthesizerMaskedLMPreprocessor(
        tokenizer, **{"sequence_length": 12, **options}
    )


def masked_lm(synthesizer="V", num_segments=0, given=None, kind="masked_lm"):
    backbone = small_tasks.backbone(
        kind,
        synthesizer,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=12,
        dropout=0.0,
        num_segments=num_segments,
    )
    if given is None:
        given = preprocessor(with_segments=bool(num_segments))
    return models.SynthesizerMaskedLM(backbone, given)


def test_texts_become_batches():
    features, labels, weights = preprocessor()(TEXTS[:3])
    assert {k: x.shape for k, x in features.items()} == {
        "token_ids": (3, 12),
        "padding_mask": (3, 12),
        "mask_positions": (3, 2),
    }
    whole = unmasked(features, labels)
    equal(whole[0], [1, 5, 7, 9, 11, 5, 13, 2, 0, 0, 0, 0])
    equal(weights, [[1, 0]] * 3)
    alone, *_ = preprocessor()(TEXTS[0])
    equal(alone["token_ids"], features["token_ids"][0])


def unmasked(features, labels):
    """The token ids of texts before some were hidden."""
    ids = np.array(features["token_ids"])
    np.put_along_axis(ids, features["mask_positions"], labels, axis=1)
    return ids


def test_all_rates_of_the_preprocessor_count():
    """Those of KerasHub's preprocessor, by its names."""
    made = preprocessor(
        mask_selection_rate=0.5,
        mask_selection_length=2,
        mask_token_rate=0.0,
        random_token_rate=0.0,
    )
    features, labels, weights = made(TEXTS[:4])
    assert labels.shape == (4, 2)
    assert weights.all()
    equal(features["token_ids"], unmasked(features, labels))
    again = type(made)(**{**made.get_config(), "tokenizer": made.tokenizer})
    assert again.get_config() == made.get_config()
    assert again.mask_selection_length == 2


@pytest.mark.parametrize("way", ["memory", "tf.data", "grain", "iterated"])
def test_fit_hides_other_tokens_in_each_epoch(way):
    """And the same ones if it is run again."""
    found = []
    for _ in range(2):
        x = TEXTS
        if way == "tf.data":
            tf = pytest.importorskip("tensorflow")
            x = tf.data.Dataset.from_tensor_slices(TEXTS).batch(8)
        elif way != "memory":
            x = grain.MapDataset.source(TEXTS).batch(8)
            x = x.to_iter_dataset() if way == "iterated" else x
        keras.utils.set_random_seed(1)
        model = masked_lm(given=preprocessor(mask_selection_rate=0.4))
        options = {"batch_size": 8} if way == "memory" else {}
        seen = record(model)
        model.fit(x, epochs=3, shuffle=False, verbose=0, **options)
        batches = [part[0]["token_ids"] for part in seen[-12:]]
        found.append(np.reshape(batches, (3, -1)))
    first, second, third = found[0]
    assert (first != second).any()
    assert (second != third).any()
    equal(*found)


def test_single_batches_hide_other_tokens_in_each_step():
    model = masked_lm(given=preprocessor(mask_selection_rate=0.4))
    seen = record(model)
    for _ in range(2):
        model.train_on_batch(TEXTS)
    first, second = (part[0]["token_ids"] for part in seen[-2:])
    assert (first != second).any()


def test_it_learns_to_fill_holes():
    lm = masked_lm("R + V")
    lm.compile(keras.optimizers.Adam(0.02))
    before = lm.evaluate(TEXTS, verbose=0)[0]
    assert lm.evaluate(TEXTS, verbose=0)[0] == before  # the same holes
    lm.fit(TEXTS, batch_size=32, epochs=60, verbose=0)
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
    assert [len(found) for found in two] == [2, 2]
    assert two[0][0][0] == "cat"
    assert len(two[0]) == 2


def test_guesses_exclude_special_tokens_and_sum_to_one():
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
    close(logits, expected)


def test_without_preprocessor_it_accepts_batches():
    made = preprocessor()
    features, labels, weights = made(TEXTS)
    lm = models.SynthesizerMaskedLM(masked_lm().backbone)
    lm.fit(features, labels, sample_weight=weights, verbose=0)
    assert lm.predict(features, verbose=0).shape == (32, 2, 15)
    rows = {name: features[name] for name in ("token_ids", "padding_mask")}
    batches = pretraining.MaskedTokens(rows, 4, 15, range(5), batch_size=8)
    lm.fit(batches, verbose=0)
    with pytest.raises(ValueError, match="needs a preprocessor"):
        lm.fill_mask("a [MASK]")


def test_pairs_of_texts_are_trained_on_and_then_classified(tmp_path):
    lm, pairs = masked_lm(num_segments=2), (TEXTS, ["a cat"] * len(TEXTS))
    features, *_ = lm.preprocessor(pairs, None)
    assert features["segment_ids"].max() == 1
    lm.fit(pairs, verbose=0)
    lm.save_to_preset(tmp_path)
    load = models.SynthesizerTextClassifier.from_preset
    classifier = load(tmp_path, num_classes=3)
    assert classifier.predict(pairs, verbose=0).shape == (len(TEXTS), 3)


def test_bad_input_is_an_error():
    with pytest.raises(ValueError, match="causal=False"):
        masked_lm(kind="causal_lm")
    with pytest.raises(ValueError, match=r"must contain \[MASK\]"):
        masked_lm().fill_mask("a cat")
    with pytest.raises(ValueError, match="Received: 14 tokens"):
        masked_lm().fill_mask("a [MASK]" + " cat" * 10)
    with pytest.raises(ValueError, match=r"^texts\[0\] must be a text.*None"):
        masked_lm().fill_mask([None])
    for texts in ([], np.array([], str)):
        assert masked_lm().fill_mask(texts) == []
    assert len(masked_lm().fill_mask(b"a [MASK]")) == 1


def test_a_space_before_a_mask_is_a_part_of_what_is_hidden():
    texts = ["the red fox runs", "the blue sea waves"] * 5
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(texts, 300)
    made = models.SynthesizerMaskedLMPreprocessor(tokenizer, 12)
    backbone = small_tasks.backbone(
        "masked_lm", vocabulary_size=300, max_sequence_length=12
    )
    lm = models.SynthesizerMaskedLM(backbone, made)
    expected = [*map(int, tokenizer("the red fox"))]
    expected[1] = tokenizer.mask_token_id
    assert lm._with_masks("the <mask> fox") == expected
    assert lm._with_masks("the<mask> fox") == expected
