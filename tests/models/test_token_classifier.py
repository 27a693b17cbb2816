"""`SynthesizerTokenClassifier` and its preprocessor."""

import keras
import numpy as np
import pytest
import small_tasks
from assertions import close, equal
from backend import numpy

from keras_synth import datasets, models
from keras_synth.training.batches import LengthBuckets

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
PIECES = "dog ##s run the cat '".split()
VOCABULARY = SPECIAL + PIECES
ID = {piece: number for number, piece in enumerate(VOCABULARY)}
SENTENCES = [["the", "dogs", "run"], ["cats", "run"], ["dog"]] * 4
NAMES = ["DET", "NOUN", "VERB"]
LABELS = [["DET", "NOUN", "VERB"], ["NOUN", "VERB"], ["NOUN"]] * 4


def preprocessor(sequence_length=8, **options):
    return models.SynthesizerTokenClassifierPreprocessor(
        models.SynthesizerTokenizer(VOCABULARY), sequence_length, **options
    )


def backbone(kind="token_classifier", **options):
    sizes = {"vocabulary_size": len(VOCABULARY), "max_sequence_length": 8}
    return small_tasks.backbone(kind, **{**sizes, **options})


def tagger(given=None, class_names=NAMES, **options):
    return models.SynthesizerTokenClassifier(
        backbone(),
        num_classes=3,
        preprocessor=preprocessor() if given is None else given,
        class_names=class_names,
        **options,
    )


# Words and tokens


def test_the_first_piece_of_a_word_has_its_label():
    x, y, weight = preprocessor()(
        [["The", "dogs", "run"], ["cat's"], []],
        [[1, 2, 1], [2], []],
        [2.0, 0.5, 1.0],
    )
    equal(
        x["token_ids"],
        [
            [1, ID["the"], ID["dog"], ID["##s"], ID["run"], 2, 0, 0],
            [1, ID["cat"], ID["'"], 3, 2, 0, 0, 0],
            [1, 2, 0, 0, 0, 0, 0, 0],
        ],
    )
    real = [[1] * 6 + [0] * 2, [1] * 5 + [0] * 3, [1] * 2 + [0] * 6]
    equal(x["padding_mask"], real)
    expected = [[0, 1, 2, 0, 1, 0, 0, 0], [0, 2] + [0] * 6, [0] * 8]
    equal(y, expected)
    close(weight, (np.array(expected) > 0) * [[2.0], [0.5], [1.0]])


def test_a_word_without_pieces_keeps_its_place():
    x, _, weight = preprocessor()([["dog", "\x01", "", "run"]], [[0, 1, 2, 0]])
    expected = [1, ID["dog"], 3, 3, ID["run"], 2, 0, 0]
    equal(x["token_ids"][0], expected)
    equal(weight[0], [0, 1, 1, 1, 1, 0, 0, 0])


def test_words_beyond_the_length_are_cut_off():
    made = preprocessor(sequence_length=5)
    x, y, weight = made([["dogs", "dogs", "run"]], [[1, 2, 1]])
    expected = [1, ID["dog"], ID["##s"], ID["dog"], 2]
    equal(x["token_ids"][0], expected)
    equal(y[0], [0, 1, 0, 2, 0])
    equal(weight[0], [0, 1, 0, 1, 0])
    parts = made.split([["dogs", "dogs", "run"], ["cat"], []])
    assert parts == [["dogs"], ["dogs", "run"], ["cat"], []]
    long = ["cat's", "cat's", "dogs", "dogs"]
    assert made.split([long]) == [["cat's"], ["cat's"], ["dogs"], ["dogs"]]
    assert preprocessor(sequence_length=3).split([long]) == [[x] for x in long]


def test_byte_pairs_read_words_like_those_in_a_text():
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
        ["the dog saw the dogs"] * 8, 280
    )
    made = models.SynthesizerTokenClassifierPreprocessor(tokenizer, 16)
    words = ["the", "dog", "saw", "the", "dogs"]
    x, _, weights = made([words, ["", "dog"]], [[0] * 5, [0] * 2])
    whole = tokenizer(" ".join(words))
    equal(x["token_ids"][0, 1 : 1 + len(whole)], whole)
    assert weights.sum(axis=1).tolist() == [5, 2]
    space, *dog = tokenizer("  dog")
    equal(x["token_ids"][1, 1:3], [space, *dog])


# The task


def test_padding_and_later_pieces_count_neither_in_loss_nor_in_accuracy():
    x, y, weight = preprocessor()(
        SENTENCES, [[NAMES.index(name) for name in row] for row in LABELS]
    )
    model = tagger()
    expected = model.evaluate(SENTENCES, LABELS, verbose=0, batch_size=6)
    model.preprocessor = None
    other = np.where(weight > 0, y, 2 - y)
    assert (other != y).any()
    for labels in (y, other):
        found = model.evaluate(
            x, labels, sample_weight=weight, verbose=0, batch_size=6
        )
        close(found, expected, atol=0, rtol=1e-5)
    logits = numpy(model(x)).astype("float64")
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -np.take_along_axis(logs, y[..., None], -1)[..., 0]
    right = logits.argmax(-1) == y
    # All batches have as many words.
    assert expected[0] == pytest.approx(nats[weight > 0].mean(), rel=1e-4)
    assert expected[1] == pytest.approx(right[weight > 0].mean(), rel=1e-5)


@pytest.mark.parametrize("padded", ["no", "ragged", "with"])
def test_a_dataset_has_names_as_labels(padded):
    tf = pytest.importorskip("tensorflow")
    words, labels = SENTENCES, LABELS
    if padded == "no":
        words, labels = [SENTENCES[0]] * 4, [LABELS[0]] * 4
    model = tagger()
    expected = model.evaluate(words, labels, batch_size=6, verbose=0)
    if padded == "with":
        words, labels = (
            [[*row, *[""] * (3 - len(row))] for row in rows]
            for rows in (words, labels)
        )
    data = tf.ragged.constant(words), tf.ragged.constant(labels)
    if padded != "ragged":
        data = tuple(part.to_tensor() for part in data)
    data = tf.data.Dataset.from_tensor_slices(data).batch(6)
    close(model.evaluate(data, verbose=0), expected)


def test_it_learns_from_the_context_of_a_name():
    sentences, labels = datasets.generated_entities(200)
    words = sorted({word for row in sentences for word in row})
    tokenizer = models.SynthesizerTokenizer(SPECIAL + words, lowercase=False)
    names = datasets.CLASS_NAMES["generated_entities"]
    model = models.SynthesizerTokenClassifier(
        backbone(
            vocabulary_size=tokenizer.vocabulary_size(),
            hidden_dim=32,
            synthesizer="V + relative",
            max_sequence_length=32,
            dropout=0.0,
        ),
        num_classes=len(names),
        preprocessor=models.SynthesizerTokenClassifierPreprocessor(
            tokenizer, 32
        ),
        class_names=names,
        dropout=0.0,
    )
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(sentences, labels, epochs=15, verbose=0)
    loss, accuracy = model.evaluate(sentences, labels, verbose=0)
    found = model.tag(sentences)
    assert [*map(len, found)] == [*map(len, sentences)]
    right = [
        a == b
        for rows in zip(labels, found, strict=True)
        for a, b in zip(*rows, strict=True)
    ]
    assert accuracy == pytest.approx(np.mean(right), abs=1e-6)
    assert accuracy > 0.96  # a name's most frequent label: 0.91
    assert loss < 0.2


def test_every_word_has_a_label_also_where_a_sentence_is_too_long():
    model = tagger(given=preprocessor(sequence_length=5))
    words = ["the", "dogs", "run", "\x01", "cat's"] * 3
    (found,) = model.tag([words])
    parts = model.preprocessor.split([words])
    assert len(parts) > 3
    assert found == [name for part in model.tag(parts) for name in part]
    assert model.tag([[], [b"dog"]]) == [[], *model.tag([["dog"]])]
    assert model.tag([]) == []
    model.class_names = None
    assert {*map(type, model.tag([words])[0])} == {int}


def test_words_have_more_byte_pairs_where_a_part_begins():
    # "London" is one pair of bytes after a space, and several without one.
    words = ["hello"] + ["London"] * 13
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
        [" ".join(words)] * 5, vocabulary_size=300
    )
    assert len(tokenizer("London")) > len(tokenizer(" London"))
    given = models.SynthesizerTokenClassifierPreprocessor(tokenizer, 8)
    model = models.SynthesizerTokenClassifier(
        backbone(vocabulary_size=300), 2, given
    )
    for part in given.split([words]):
        assert given([part], [[0] * len(part)])[2].sum() == len(part)
    assert [*map(len, model.tag([words, ["hello"]]))] == [len(words), 1]


def test_without_preprocessor_it_accepts_batches():
    model = tagger()
    numbers = [[NAMES.index(name) for name in row] for row in LABELS]
    x, y, weight = model.preprocessor(SENTENCES, numbers)
    model.preprocessor = None
    batches = LengthBuckets(x, y, 4, [6], sample_weight=weight)
    model.fit(batches, verbose=0)
    model.fit(x, y, sample_weight=weight, verbose=0)
    with pytest.raises(ValueError, match="needs a preprocessor"):
        model.tag(SENTENCES)
    with pytest.raises(ValueError, match="from 0 to 2"):
        model.fit(x, y - 100, sample_weight=weight)


@pytest.mark.parametrize("activation", ["softmax", keras.ops.softmax])
def test_a_softmax_is_scored_by_probabilities(activation):
    model = tagger(activation=activation)
    close(model.predict(SENTENCES, verbose=0).sum(-1), 1)
    assert not model.loss.get_config()["from_logits"]


def test_a_backbone_with_segments_is_trained():
    model = models.SynthesizerTokenClassifier(
        backbone(num_segments=2), 3, preprocessor(with_segments=True)
    )
    model.fit(SENTENCES, [[0] * len(x) for x in SENTENCES], verbose=0)


def test_causal_backbones_in_half_precision_work():
    model = models.SynthesizerTokenClassifier(
        backbone("causal_lm", dtype="mixed_bfloat16"),
        3,
        preprocessor(),
        class_names=NAMES,
    )
    history = model.fit(SENTENCES, LABELS, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    start, whole = model.tag([["the", "dogs"], ["the", "dogs", "run"]])
    assert whole[:2] == start


@pytest.mark.parametrize(
    "x, y, match",
    [
        (SENTENCES, LABELS[:-1], "same number of examples"),
        ([["the", "dog"]], [["DET"]], r"2 words and 1 labels"),
        ([["dog"]], [["NOUN", "VERB"]], r"1 words and 2 labels"),
        ([["dog"], ["run"]], [["NOUN"], ["ADV"]], "Received: 'ADV'"),
        ([["dog"], ["run"]], [[1], [3]], "from 0 to 2.*Received: 3"),
        ([["dog"]], [[0.5]], "Received: 0.5"),
        ([["dog"]], [0], r"y\[0\] must be a list of words or of labels"),
        ([["dog"]], None, "y=None"),
        (["the dog"], [[0]], r"x\[0\] must be a list of words"),
        ("the dog", [[0]], "Put a single example into a list"),
        ([["dog", None]], [[0, 0]], "Words must be strings"),
    ],
)
def test_wrong_words_and_labels_are_one_line(x, y, match):
    model = tagger()
    with pytest.raises(ValueError, match=match) as error:
        model.fit(x, y)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=match):
        model.fit(SENTENCES, LABELS, validation_data=(x, y), verbose=0)


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="num_classes=1"):
        models.SynthesizerTokenClassifier(backbone(), 1)
    with pytest.raises(ValueError, match="Received: class_names"):
        models.SynthesizerTokenClassifier(backbone(), 2, class_names="ab c")
    with pytest.raises(ValueError, match="sequence_length=2"):
        preprocessor(2)
    with pytest.raises(ValueError, match=r"must be integers.*'NOUN'"):
        preprocessor()([["dog"]], [["NOUN"]])
    with pytest.raises(ValueError, match=r"must be strings. Received: 3"):
        tagger().tag([["dog", 3]])
