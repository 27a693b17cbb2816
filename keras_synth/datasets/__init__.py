"""Texts, series and graphs, generated or read from files.

Texts are Python strings, and labels are NumPy arrays or lists of strings. Pairs
of texts are a tuple of two lists. Series and graphs are NumPy arrays.
"""

from keras_synth.datasets.generated import (
    LABELS,
    generated_entities,
    generated_pairs,
    generated_reviews,
)
from keras_synth.datasets.graphs import (
    generated_communities,
    generated_graphs,
    graph_masks,
)
from keras_synth.datasets.listops import generated_listops
from keras_synth.datasets.reading import read
from keras_synth.datasets.series import pad_series, series_windows
from keras_synth.datasets.splitting import train_validation_split
from keras_synth.datasets.translations import generated_translations

# Names of labels that are numbers, and of labels of words.
CLASS_NAMES = {
    "generated_reviews": ("negative", "positive"),
    "generated_pairs": ("different", "same"),
    "generated_listops": tuple("0123456789"),
    "generated_entities": LABELS,
}

__all__ = [
    "CLASS_NAMES",
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
