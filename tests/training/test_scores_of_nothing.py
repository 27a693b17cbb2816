"""Metrics of no texts or labels say that there is nothing to score."""

import pytest
from backend import slow_but_on

from keras_synth import metrics

pytestmark = slow_but_on("torch")  # they depend on no backend
TEXTS = ["bleu", "chrf", "rouge_l"]
LABELS = ["accuracy", "f1", "matthews", "pearson", "spearman"]


@pytest.mark.parametrize("name", [*TEXTS, *LABELS, "entity_f1"])
def test_nothing_has_no_score(name):
    with pytest.raises(ValueError, match="nothing to score"):
        getattr(metrics, name)([], [])


@pytest.mark.parametrize("name", LABELS)
def test_labels_and_predictions_are_equally_many(name):
    with pytest.raises(ValueError, match="Received: 3 and 1"):
        getattr(metrics, name)([1, 0, 1], [1])


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_has_references(name):
    score = getattr(metrics, name)
    with pytest.raises(ValueError, match="Received: 1 and 2"):
        score(["a b"], [["a b"], ["c d"]])
    with pytest.raises(ValueError, match=r"references\[1\]=\[\]"):
        score(["a b", "c"], [["a b"], []])
    with pytest.raises(ValueError, match=r"references\[0\]='a b'"):
        score(["a b"], ["a b"])
    value, _ = score(["one two three four"], [["one two three four"]])
    assert value == pytest.approx(100)
