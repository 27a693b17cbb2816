# Preprocessing should work in a Grain dataset. Its threads build the
# preprocessor at the same time. (This `build` waits until they all do.)
# KerasHub 0.32.0, Keras 3.15.1, Grain 0.2.18.
# Error: You cannot add new elements of state (variables or sub-layers)
import time

import grain
import keras_hub


class Preprocessor(keras_hub.models.BertTextClassifierPreprocessor):
    def build(self, input_shape):
        time.sleep(0.5)
        super().build(input_shape)


words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
preprocessor = Preprocessor(keras_hub.tokenizers.BertTokenizer(words), 4)
list(grain.MapDataset.source(["a"] * 9).map(preprocessor).to_iter_dataset())
