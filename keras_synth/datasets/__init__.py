"""Texts, pairs, words, series and graphs: published, your own, generated.

Texts are plain Python strings; labels are NumPy arrays, those of words lists of
strings. A pair of texts is a tuple of two lists, and so are texts to read and
what to write in answer, such as sentences and their translations. Series and
graphs are NumPy arrays.
"""

import importlib

from keras_synth.datasets.csv_files import load_csv
from keras_synth.datasets.generated import generated_reviews
from keras_synth.datasets.generated_entities import generated_entities
from keras_synth.datasets.generated_graphs import (
    generated_communities,
    generated_graphs,
)
from keras_synth.datasets.generated_listops import generated_listops
from keras_synth.datasets.generated_pairs import generated_pairs
from keras_synth.datasets.generated_translations import generated_translations
from keras_synth.datasets.graphs import graph_masks
from keras_synth.datasets.listops import evaluate_listops, load_listops
from keras_synth.datasets.loaders import (
    load_ag_news,
    load_dialogsum,
    load_glue,
    load_imdb,
    load_multi30k,
    load_personachat,
    load_rt_polarity,
    load_scitail,
    load_tatoeba,
    load_tinyshakespeare,
    load_ud_ewt,
    load_wikitext2,
)
from keras_synth.datasets.published import (
    CLASS_NAMES,
    DATASETS,
    Dataset,
    download,
    load,
)
from keras_synth.datasets.series import pad_series, series_windows
from keras_synth.datasets.splitting import train_validation_split
from keras_synth.datasets.text_files import (
    load_text,
    load_texts,
    load_translations,
)

__all__ = [
    "CLASS_NAMES",
    "DATASETS",
    "Dataset",
    "LengthBuckets",
    "TokenWindows",
    "download",
    "evaluate_listops",
    "generated_communities",
    "generated_entities",
    "generated_graphs",
    "generated_listops",
    "generated_pairs",
    "generated_reviews",
    "generated_translations",
    "graph_masks",
    "load",
    "load_ag_news",
    "load_csv",
    "load_dialogsum",
    "load_glue",
    "load_imdb",
    "load_listops",
    "load_multi30k",
    "load_personachat",
    "load_rt_polarity",
    "load_scitail",
    "load_tatoeba",
    "load_text",
    "load_texts",
    "load_tinyshakespeare",
    "load_translations",
    "load_ud_ewt",
    "load_wikitext2",
    "pad_series",
    "series_windows",
    "train_validation_split",
]


def __getattr__(name):
    if name in ("LengthBuckets", "TokenWindows"):
        # They need Keras, which the readers of files do without.
        return getattr(
            importlib.import_module("keras_synth.training.batches"), name
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
