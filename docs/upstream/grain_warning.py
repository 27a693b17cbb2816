# `fit` should not warn. Grain warns in each `fit` of strings that KerasHub's
# `prefetch_buffer_size=8` is smaller than `num_threads=16`.
# KerasHub 0.32.0, Grain 0.2.18.
import unittest

import keras_hub

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
tokenizer = keras_hub.tokenizers.BertTokenizer(words)
preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, 4)
backbone = keras_hub.models.BertBackbone(6, 1, 2, 8, 8)
task = keras_hub.models.BertTextClassifier(backbone, 2, preprocessor)
with unittest.TestCase().assertNoLogs("absl"):
    task.fit(["a", "a"], [0, 1], verbose=0)
