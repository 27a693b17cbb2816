"""`SynthesizerTextClassifier`: a backbone, pooling and a dense layer."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub

from keras_synth.checks import check_positive, check_rate
from keras_synth.models.backbone import SynthesizerBackbone
from keras_synth.models.batches import TrainingDataMixin
from keras_synth.models.class_labels import (
    check_class_names,
    encode_dataset_labels,
    encode_labels,
    is_binary,
)
from keras_synth.models.fitting import check_fits, check_segments
from keras_synth.models.pooling import Pooling
from keras_synth.models.saving import TaskSavingMixin
from keras_synth.models.text_classifier_preprocessor import (
    SynthesizerTextClassifierPreprocessor,
)
from keras_synth.multiplications import added, of_dense
from keras_synth.policies import settle, with_policies
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTextClassifier(
    TaskSavingMixin, TrainingDataMixin, keras_hub.models.TextClassifier
):
    """Classifies text with a `SynthesizerBackbone`.

    With a preprocessor, `fit`, `evaluate` and `predict` take raw strings;
    without one, what the preprocessor would return. Labels are integers, or
    the names of classes; they are checked before training starts, those of a
    dataset when their batch is read.

    Args:
        backbone: A `SynthesizerBackbone`.
        num_classes: Integer, number of classes; labels are 0 up to
            `num_classes - 1`. With 1 there is a single output: compiled by
            default for labels 0 and 1, with a sigmoid or as a logit, and with
            a loss such as `"mse"` for regression, labels being any numbers.
        preprocessor: A `SynthesizerTextClassifierPreprocessor` or `None`.
        activation: Activation of the outputs, by default none: logits.
        dropout: Float, share of the pooled features to drop in training.
        pooling: `"mean"` over the real tokens, or `"first"` token.
        class_names: Optional sequence of `num_classes` strings, of two for
            `num_classes=1`, saved with the model. With it, labels may be
            names, too.
        **kwargs: Keyword arguments of `keras_hub.models.TextClassifier`.

    Call arguments:
        inputs: As for `SynthesizerBackbone`.

    Returns:
        Tensor `(B, num_classes)`.

    Raises:
        ValueError: If the preprocessor does not fit the backbone, or labels
            given to `fit` or `evaluate` are not classes.

    Example:

    ```python
    texts, labels = keras_synth.datasets.generated_reviews(64)
    tokenizer = keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
        texts, vocabulary_size=300
    )
    backbone = keras_synth.models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        synthesizer="R+V",
        max_sequence_length=32,
    )
    classifier = keras_synth.models.SynthesizerTextClassifier(
        backbone,
        num_classes=2,
        preprocessor=keras_synth.models.SynthesizerTextClassifierPreprocessor(
            tokenizer, sequence_length=32
        ),
    )
    classifier.fit(texts, labels, epochs=2, verbose=0)
    logits = classifier.predict(["a good film", "a dull film"], verbose=0)
    print(logits.shape)  # (2, 2)
    ```
    """

    backbone_cls = SynthesizerBackbone
    preprocessor_cls = SynthesizerTextClassifierPreprocessor

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        preprocessor: keras.Layer | None = None,
        activation: Identifier | None = None,
        dropout: float = 0.1,
        pooling: str = "mean",
        class_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        check_positive("num_classes", num_classes)
        check_rate("dropout", dropout)
        softmax = keras.activations.get(activation) is keras.activations.softmax
        if num_classes == 1 and softmax:
            raise ValueError(
                "A softmax of one class is always 1: use activation='sigmoid' "
                "or None for num_classes=1. Received: activation='softmax'"
            )
        check_class_names(class_names, num_classes)
        if isinstance(preprocessor, SynthesizerTextClassifierPreprocessor):
            check_fits(preprocessor, backbone)
            check_segments(preprocessor, backbone)
        # === Layers ===
        dtype = backbone.dtype_policy
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.pooler = Pooling(pooling, dtype=dtype, name="pooling")
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="output_dropout"
        )
        self.output_dense = keras.layers.Dense(
            num_classes, activation=activation, dtype=dtype, name="logits"
        )

        # The default compilation in the base's constructor asks for these.
        self.num_classes = num_classes
        self.activation = keras.activations.get(activation)

        # === Functional model ===
        inputs = backbone.input
        x = self.pooler(backbone(inputs), inputs["padding_mask"])
        outputs = self.output_dense(self.output_dropout(x))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        settle(self)

        # === Config ===
        self.dropout = dropout
        self.pooling = pooling
        self.class_names = None if class_names is None else [*class_names]

    def multiplications(self, length: int) -> dict[str, int]:
        """Returns how many multiplications a sample takes, by parts.

        See `keras_synth.reporting.print_multiplications` for a table.

        Args:
            length: Integer, `T`.

        Returns:
            Dictionary of integers: those of the backbone, and the
            `"output layer"`.

        Raises:
            ValueError: If a mixer does not count its multiplications.
        """
        return added(
            self.backbone.multiplications(length),
            {"output layer": of_dense(self.output_dense, 1)},
        )

    def compile(
        self,
        optimizer: Identifier = "auto",
        loss: Identifier = "auto",
        *,
        metrics: Identifier = "auto",
        **kwargs: Any,
    ) -> None:
        """Configures training, as `keras_hub.models.TextClassifier.compile`.

        Args:
            optimizer: By default `AdamW(1e-3)`, which suits training from
                scratch.
            loss: By default sparse categorical cross-entropy; for one class
                binary cross-entropy.
            metrics: By default accuracy; for one class binary accuracy, and
                the mean absolute error if `loss` is not binary.
            **kwargs: What `keras.Model.compile` takes.
        """
        if optimizer == "auto":
            optimizer = keras.optimizers.AdamW(1e-3)
        if self.num_classes == 1:
            sigmoid = self.activation is keras.activations.sigmoid
            if loss == "auto":
                loss = keras.losses.BinaryCrossentropy(from_logits=not sigmoid)
            if metrics == "auto" and is_binary(loss):
                threshold = 0.5 if sigmoid else 0.0
                metrics = [keras.metrics.BinaryAccuracy(threshold=threshold)]
            elif metrics == "auto":
                metrics = [keras.metrics.MeanAbsoluteError()]
        super().compile(
            optimizer=optimizer, loss=loss, metrics=metrics, **kwargs
        )

    def _checked_labels(self, y, name="y"):
        if y is None:
            return None
        return encode_labels(y, self._label_count(), self.class_names, name)

    def _with_checked_labels(self, dataset):
        return encode_dataset_labels(
            dataset, self._label_count(), self.class_names
        )

    def _label_count(self):
        """Integer labels lie below it; `None` where they are any numbers."""
        if self.num_classes > 1:
            return self.num_classes
        return 2 if is_binary(getattr(self, "loss", None)) else None

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        # The output layer looks up its policy where the backbone's layers do.
        backbone = config["backbone"]["config"]
        config["backbone"]["config"] = with_policies(self, backbone)
        return {
            **config,
            "num_classes": self.num_classes,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "pooling": self.pooling,
            "class_names": self.class_names,
        }
