"""The outputs of a task that chooses among classes."""

from typing import Any

import keras

from keras_synth._backend.checks import check_rate
from keras_synth.models.tasks.fitting import check_fits
from keras_synth.models.tasks.labels import check_class_names


def make_head(task: Any, dtype: Any) -> None:
    """Checks the arguments that a task keeps, and makes its last layers.

    To be called before KerasHub's constructor, which compiles.

    Args:
        task: A classifier with the attributes `backbone`, `preprocessor`,
            `num_classes`, `activation`, `dropout` and `class_names`.
        dtype: Dtype policy of the layers.
    """
    check_rate("dropout", task.dropout)
    check_class_names(task.class_names, task.num_classes)
    check_fits(task.preprocessor, task.backbone)
    task.output_dropout = keras.layers.Dropout(
        task.dropout, dtype=dtype, name="output_dropout"
    )
    task.output_dense = keras.layers.Dense(
        task.num_classes, activation=task.activation, dtype=dtype, name="logits"
    )
