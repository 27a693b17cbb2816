"""`ClassHeadMixin`: the outputs of a task that chooses among classes."""

from typing import Any

import keras

from keras_synth._backend.checks import check_rate
from keras_synth._backend.policies import with_policies
from keras_synth.models.data.class_labels import check_class_names
from keras_synth.models.data.fitting import check_fits, check_segments
from keras_synth.types import Mixin


class ClassHeadMixin(Mixin):
    """Dropout and a dense layer on features of a backbone.

    Mixed into a task before `TaskSavingMixin`.
    """

    def _make_head(
        self,
        backbone,
        num_classes,
        preprocessor,
        activation,
        dropout,
        class_names,
    ):
        """Checks and keeps arguments of a task, and makes its last layers.

        To be called before the base's constructor, whose default compilation
        asks for `num_classes` and `activation`.
        """
        check_rate("dropout", dropout)
        check_class_names(class_names, num_classes)
        if isinstance(preprocessor, self.preprocessor_cls):
            check_fits(preprocessor, backbone)
            check_segments(preprocessor, backbone)
        dtype = backbone.dtype_policy
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="output_dropout"
        )
        self.output_dense = keras.layers.Dense(
            num_classes, activation=activation, dtype=dtype, name="logits"
        )
        self.num_classes = num_classes
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.class_names = None if class_names is None else [*class_names]

    def _head(self, x):
        return self.output_dense(self.output_dropout(x))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        # The output layer looks up its policy where the backbone's layers do.
        backbone = config["backbone"]["config"]
        config["backbone"]["config"] = with_policies(self, backbone)
        return config
