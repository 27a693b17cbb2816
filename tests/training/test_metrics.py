"""Means over tokens, whatever the batches' lengths and padding."""

import collections
import sys
import warnings

import keras
import numpy as np
import pytest
from backend import slow_but_on
from scipy import stats
from sklearn import metrics as published

from keras_synth import metrics


def batches(rng):
    """Batches of 1 to 4 sequences and 2 to 9 tokens, and their weights."""
    for size, length in ((4, 3), (2, 9), (1, 2), (3, 5)):
        logits = rng.normal(size=(size, length, 7)) * 3
        real = rng.integers(0, length + 1, size)
        weight = (np.arange(length) < real[:, None]).astype("float32")
        yield rng.integers(7, size=(size, length)), logits, weight


def expected(rng):
    """Cross-entropy and accuracy of all real tokens, in float64."""
    losses, hits = [], []
    for labels, logits, weight in batches(rng):
        for row, scores, real in zip(labels, logits, weight, strict=True):
            for label, z, w in zip(row, scores, real, strict=True):
                if w:
                    losses.append(np.log(np.exp(z).sum()) - z[label])
                    hits.append(label == z.argmax())
    return np.mean(losses), np.mean(hits)


@pytest.mark.parametrize(
    "index, cls", [(0, metrics.TokenCrossentropy), (1, metrics.TokenAccuracy)]
)
def test_real_tokens_count_alike_whatever_the_padding(index, cls):
    metric = cls()
    for batch in batches(np.random.default_rng(0)):
        metric.update_state(*batch)
    wanted = expected(np.random.default_rng(0))[index]
    assert float(metric.result()) == pytest.approx(wanted, rel=1e-5)
    again = cls.from_config(metric.get_config())
    assert again.name == metric.name
    assert float(again.result()) == 0  # nothing counted yet, and no NaN


def test_weights_may_be_missing_or_of_whole_sequences():
    rng = np.random.default_rng(0)
    labels, logits, _ = next(batches(rng))
    chosen = np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    losses = np.log(np.exp(logits).sum(-1)) - chosen
    metric = metrics.TokenCrossentropy()
    metric.update_state(labels, logits)
    assert float(metric.result()) == pytest.approx(np.mean(losses), rel=1e-5)
    metric.reset_state()
    metric.update_state(labels, logits, np.array([1, 0, 0, 3]))
    wanted = (losses[0].mean() + 3 * losses[3].mean()) / 4
    assert float(metric.result()) == pytest.approx(wanted, rel=1e-5)


def test_evaluate_reports_the_mean_over_tokens():
    """Keras' own loss and metric do not, for batches of unequal lengths."""

    class Batches(keras.utils.PyDataset):
        found = [*batches(np.random.default_rng(0))]

        def __len__(self):
            return len(self.found)

        def __getitem__(self, index):
            labels, logits, weight = self.found[index]
            return logits.astype("float32"), labels, weight

    x = keras.Input((None, 7))
    model = keras.Model(x, keras.layers.Identity()(x))
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[metrics.TokenCrossentropy(), metrics.TokenAccuracy()],
    )
    found = model.evaluate(Batches(), verbose=0, return_dict=True)
    nats, accuracy = expected(np.random.default_rng(0))
    assert found["crossentropy"] == pytest.approx(nats, rel=1e-5)
    assert found["accuracy"] == pytest.approx(accuracy, rel=1e-5)
    assert abs(found["loss"] - nats) > 0.05


# Hits: 2 of class 0, 3 of class 1. Misses: 1 and 2.
LABELS = [0, 0, 0, 1, 1, 1, 1, 1]
GUESSED = [0, 0, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("metric", "reference", "value"),
    [
        (metrics.accuracy, published.accuracy_score, 5 / 8),
        (metrics.f1, published.f1_score, 2 * 3 / (2 * 3 + 1 + 2)),
        (
            metrics.matthews,
            published.matthews_corrcoef,
            (3 * 2 - 1 * 2) / np.sqrt(4 * 5 * 3 * 4),
        ),
    ],
)
def test_figures_of_classes_are_the_published_ones(metric, reference, value):
    found = metric(np.array(LABELS), np.array(GUESSED))
    assert found == pytest.approx(value, rel=1e-12)
    assert found == pytest.approx(reference(LABELS, GUESSED), rel=1e-12)
    assert type(found) is float


def test_figures_of_scores_are_the_published_ones():
    labels = np.array([0, 1, 2, 5], "float32")
    predictions = np.array([2, 1, 3, 4], "float32")
    # Sums of squares 14 and 5, of products 7; ranks 0 1 2 3 and 1 0 2 3.
    for metric, reference, value in (
        (metrics.pearson, stats.pearsonr, 7 / np.sqrt(14 * 5)),
        (metrics.spearman, stats.spearmanr, 4 / 5),
    ):
        found = metric(labels, predictions)
        assert found == pytest.approx(value, rel=1e-12)
        double = labels.astype("float64"), predictions.astype("float64")
        assert found == pytest.approx(reference(*double).statistic, rel=1e-12)
        assert type(found) is float


@pytest.mark.parametrize("name", ["matthews", "f1", "pearson", "spearman"])
def test_a_constant_says_nothing_and_warns_of_nothing(name):
    metric = getattr(metrics, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric([0, 1, 1], [0, 0, 0]) == 0
        assert metric([0, 0, 0], [0, 0, 0]) == 0
        assert metric([1], [0]) == 0
        if name != "f1":
            assert metric([0, 1, 1], [1, 1, 1]) == 0
            assert metric([1, 1, 1], [0, 1, 1]) == 0


def test_texts_may_have_different_numbers_of_references():
    texts = ["a dog runs on the road", "nothing of it is here now"]
    references = [["a dog runs on the road"], ["no", texts[1], "none"]]
    score, signature = metrics.bleu(texts, references)
    assert score == pytest.approx(100)
    assert "nrefs:3" in signature
    score, signature = metrics.rouge_l(texts, references)
    assert score == pytest.approx(100)
    assert "version:" in signature


@slow_but_on("torch")
def test_chrf_is_f2_of_characters():
    """Precision and recall are means over n-grams of 1 to 6 characters."""
    text, reference = "the dogs ran off", "the dog runs"
    shares = []
    for n in range(1, 7):
        counts = [
            collections.Counter(joined[i : i + n] for i in range(len(joined)))
            for joined in (x.replace(" ", "") for x in (text, reference))
        ]
        for count in counts:
            for piece in [x for x in count if len(x) < n]:
                del count[piece]
        both = (counts[0] & counts[1]).total()
        shares.append([both / count.total() for count in counts])
    precision, recall = np.mean(shares, axis=0)
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    score, signature = metrics.chrf([text], [["none of it", reference]])
    assert score == pytest.approx(expected)
    assert signature.startswith("nrefs:2")


IOB = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]


@slow_but_on("torch")
@pytest.mark.parametrize(
    "predicted, f1",
    [
        (IOB, 1),
        ([["O"] * 4, ["O"] * 2], 0),
        # 2 of 3 entities predicted, one of them too short: 1 right.
        ([["B-PER", "O", "O", "B-LOC"], ["O", "O"]], 2 * 1 / (2 + 3)),
        # All words right but for one kind.
        ([IOB[0], ["O", "B-PER"]], 2 * 2 / (3 + 3)),
        # An entity may start at "I-", as conlleval has it.
        ([["I-PER", "I-PER", "O", "I-LOC"], IOB[1]], 1),
        # Two entities in the place of one: neither is right.
        ([["B-PER", "B-PER", "O", "B-LOC"], IOB[1]], 2 * 2 / (4 + 3)),
    ],
)
def test_entities_count_as_a_whole(predicted, f1):
    pytest.importorskip("seqeval")
    assert metrics.entity_f1(IOB, predicted) == pytest.approx(f1)
    assert type(metrics.entity_f1(IOB, predicted)) is float


@slow_but_on("torch")
def test_labels_that_have_no_entities_are_refused(monkeypatch):
    pytest.importorskip("seqeval")
    with pytest.raises(ValueError, match=r"2 sentences with 6 .* 1 with 4"):
        metrics.entity_f1(IOB, IOB[:1])
    with pytest.raises(ValueError, match=r"2 sentences with 6 .* 2 with 6"):
        metrics.entity_f1(IOB, [["O"] * 2, ["O"] * 4])
    with pytest.raises(ValueError, match="Received: 'NOUN'"):
        metrics.entity_f1([["NOUN"]], [["O"]])
    monkeypatch.setitem(sys.modules, "seqeval", None)
    monkeypatch.delitem(sys.modules, "seqeval.metrics")
    with pytest.raises(ImportError, match=r"seqeval: pip install .*compare"):
        metrics.entity_f1(IOB, IOB)
