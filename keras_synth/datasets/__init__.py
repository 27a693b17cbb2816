"""Labelled texts and pairs: published sets, tables, and generators.

All of them are plain Python strings with NumPy labels. A pair of texts is a
tuple of two lists.
"""

from keras_synth.datasets.ag_news import load_ag_news
from keras_synth.datasets.buckets import LengthBuckets
from keras_synth.datasets.class_names import CLASS_NAMES
from keras_synth.datasets.csv_files import load_csv
from keras_synth.datasets.downloads import download
from keras_synth.datasets.generated import generated_reviews
from keras_synth.datasets.generated_pairs import generated_pairs
from keras_synth.datasets.glue import load_glue
from keras_synth.datasets.imdb import load_imdb
from keras_synth.datasets.rt_polarity import load_rt_polarity
from keras_synth.datasets.splitting import train_validation_split

__all__ = [
    "CLASS_NAMES",
    "LengthBuckets",
    "download",
    "generated_pairs",
    "generated_reviews",
    "load_ag_news",
    "load_csv",
    "load_glue",
    "load_imdb",
    "load_rt_polarity",
    "train_validation_split",
]
