"""`SynthesizerTextClassifier`: a backbone, pooling and a dense layer."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
from keras import ops

from keras_synth._backend.configs import arguments_of, config_of
from keras_synth._backend.layer import Layer
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added, of_dense
from keras_synth.folding import plain_layer
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.text_classifier_preprocessor import (
    SynthesizerTextClassifierPreprocessor,
)
from keras_synth.models.tasks.labels import (
    encode_labels,
    is_loss,
    make_head,
)
from keras_synth.models.tasks.task import TaskMixin
from keras_synth.types import Identifier, Tensor

POOLINGS = ("mean", "first")


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTextClassifier(TaskMixin, keras_hub.models.TextClassifier):
    """Classifies text with a `SynthesizerBackbone`.

    With a preprocessor, `fit`, `evaluate` and `predict` accept raw strings.
    Without one, they accept the preprocessor's results. Labels are integers or
    names of classes. They are checked before training, or in a dataset when
    their batch is read.

    Args:
        backbone: A `SynthesizerBackbone`.
        num_classes: Integer, number of classes; labels are 0 to
            `num_classes - 1`. With 1 there is a single output, by default for
            labels 0 and 1, as a logit or with a sigmoid. For regression with
            any numbers as labels, compile with a loss such as `"mse"`.
        preprocessor: A `SynthesizerTextClassifierPreprocessor` or `None`.
        activation: Activation of the outputs; by default outputs are logits.
        dropout: Float, fraction of the pooled features to drop in training.
        pooling: `"mean"` of the real tokens, or `"first"` token.
        class_names: Optional list, array or pandas column of `num_classes`
            strings, or two strings for `num_classes=1`, saved with the model.
            Labels can then be names.
        **kwargs: Keyword arguments of `keras_hub.models.TextClassifier`.

    Call arguments:
        inputs: As for `SynthesizerBackbone`.

    Returns:
        Tensor `(B, num_classes)`.

    Raises:
        ValueError: If the preprocessor does not fit the backbone, or labels in
            `fit` or `evaluate` are not classes.

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
        softmax = keras.activations.get(activation) is keras.activations.softmax
        if num_classes == 1 and softmax:
            raise ValueError(
                "A softmax of one class is always 1. Use activation='sigmoid' "
                "or None for num_classes=1. Received: activation='softmax'"
            )
        # === Layers ===
        make_head(self, arguments_of(SynthesizerTextClassifier, locals()))
        self.pooler = Pooling(
            pooling, dtype=backbone.dtype_policy, name="pooling"
        )

        # === Functional model ===
        inputs = backbone.input
        x = self.pooler(backbone(inputs), inputs["padding_mask"])
        outputs = self.output_dense(self.output_dropout(x))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def compile(
        self, optimizer="auto", loss="auto", *, metrics="auto", **kwargs
    ):
        """Configures training, like the `compile` of all tasks.

        Args:
            optimizer: As for `SynthesizerCausalLM.compile`.
            loss: By default sparse categorical cross-entropy; for one class
                binary cross-entropy.
            metrics: By default accuracy, of one-hot labels if `loss` is not
                sparse; for one class binary accuracy, and the mean absolute
                error if `loss` is not binary.
            **kwargs: Other arguments of `keras.Model.compile`.
        """
        if self.num_classes == 1:
            has_logits = self.activation is keras.activations.linear
            if loss == "auto":
                loss = keras.losses.BinaryCrossentropy(from_logits=has_logits)
            if metrics == "auto" and is_loss("binary", loss):
                threshold = 0.0 if has_logits else 0.5
                metrics = [keras.metrics.BinaryAccuracy(threshold=threshold)]
            elif metrics == "auto":
                metrics = [keras.metrics.MeanAbsoluteError()]
        elif metrics == "auto" and not (
            loss == "auto" or is_loss("sparse", loss)
        ):
            metrics = ["accuracy"]
        super().compile(
            optimizer=optimizer, loss=loss, metrics=metrics, **kwargs
        )

    def encode_labels(self, labels: Tensor) -> Tensor:
        return encode_labels(
            labels, self.num_classes, self.class_names, self.loss
        )

    def get_config(self) -> dict[str, Any]:
        return config_of(self, SynthesizerTextClassifier, super().get_config())


@keras.saving.register_keras_serializable(package="keras_synth")
class Pooling(Layer):
    """The mean of the real tokens' vectors, or the first token's vector.

    The mean is computed in float32, and is 0 without real tokens.
    """

    def __init__(self, pooling="mean", **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(
                f"`pooling` must be one of {POOLINGS}. "
                f"Received: pooling={pooling!r}"
            )
        self.pooling = pooling

    def call(self, x, padding_mask):
        if self.pooling == "first":
            return x[:, 0]
        real = ops.cast(padding_mask, "bool")[..., None]  # (B, T, 1)
        total = ops.sum(ops.where(real, ops.cast(x, "float32"), 0.0), axis=1)
        count = ops.sum(ops.cast(real, "float32"), axis=1)
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)


@multiplications.register(SynthesizerTextClassifier)
def _multiplications(task, length, source_length):
    return added(
        multiplications(task.backbone, length, source_length),
        {"output layer": of_dense(task.output_dense, 1)},
    )


@plain_layer.register(Pooling)
def _plain(layer, graph):
    def call(x, padding_mask):
        if layer.pooling == "first":
            return x[:, 0]
        real = ops.cast(ops.cast(padding_mask, "bool"), "float32")[..., None]
        count = ops.maximum(ops.sum(real, axis=1), 1.0)
        return ops.sum(x * real, axis=1) / count

    return call
