# A task that was trained in mixed precision should load from its preset.
# KerasHub 0.32.0, Keras 3.15.1.
# Error: ValueError: Invalid dtype: mixed_bfloat16
import tempfile

import keras_hub

backbone = keras_hub.models.BertBackbone(6, 1, 2, 8, 8, dtype="mixed_bfloat16")
task = keras_hub.models.BertTextClassifier(backbone, num_classes=2)
with tempfile.TemporaryDirectory() as folder:
    task.save_to_preset(folder)
    keras_hub.models.BertTextClassifier.from_preset(folder)
