"""Texts, series and graphs: generated, or read from files.

Texts are Python strings; labels are NumPy arrays, or lists of strings. A pair
of texts is a tuple of two lists. Series and graphs are NumPy arrays.
"""

from keras_synth.datasets.arrays import graph_masks, pad_series, series_windows
from keras_synth.datasets.generated import generated_reviews
from keras_synth.datasets.generated_entities import LABELS, generated_entities
from keras_synth.datasets.generated_graphs import (
    generated_communities,
    generated_graphs,
)
from keras_synth.datasets.generated_pairs import generated_pairs
from keras_synth.datasets.generated_translations import generated_translations
from keras_synth.datasets.listops import evaluate_listops, generated_listops
from keras_synth.datasets.reading import read
from keras_synth.datasets.splitting import train_validation_split

# Of labels that are numbers, and of words.
CLASS_NAMES = {
    "generated_reviews": ("negative", "positive"),
    "generated_pairs": ("different", "same"),
    "generated_listops": tuple("0123456789"),
    "generated_entities": LABELS,
}

__all__ = [
    "CLASS_NAMES",
    "evaluate_listops",
    "generated_communities",
    "generated_entities",
    "generated_graphs",
    "generated_listops",
    "generated_pairs",
    "generated_reviews",
    "generated_translations",
    "graph_masks",
    "pad_series",
    "read",
    "series_windows",
    "train_validation_split",
]
