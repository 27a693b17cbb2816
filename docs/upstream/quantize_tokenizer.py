# `quantize` should work before a task has read any text. On TensorFlow and JAX
# it raises an error, because the tokenizer is not built.
# KerasHub 0.32.0, Keras 3.15.1, TensorFlow 2.21.0, JAX 0.10.2.
# Error: ValueError: Cannot quantize a layer that isn't yet built.
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras_hub

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
tokenizer = keras_hub.tokenizers.BertTokenizer(words)
preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, 4)
backbone = keras_hub.models.BertBackbone(6, 1, 2, 8, 8)
task = keras_hub.models.BertTextClassifier(backbone, 2, preprocessor)
task.quantize("int8")
