"""`SynthesizerTextClassifier`: a backbone, pooling and a dense layer."""

import keras
import keras_hub
import numpy as np

from keras_synth.checks import check_positive, check_rate
from keras_synth.models.backbone import SynthesizerBackbone
from keras_synth.models.batches import TakesBatches
from keras_synth.models.fitting import check_fits
from keras_synth.models.labels import number_labels
from keras_synth.models.pooling import Pooling
from keras_synth.models.text_classifier_preprocessor import (
    SynthesizerTextClassifierPreprocessor,
)
from keras_synth.models.whole_files import WholeFiles
from keras_synth.policies import settle, with_policies


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTextClassifier(
    WholeFiles, TakesBatches, keras_hub.models.TextClassifier
):
    """Classifies text with a `SynthesizerBackbone`.

    With a preprocessor, `fit`, `evaluate` and `predict` take raw strings;
    without one, what the preprocessor would return.

    Args:
        backbone: A `SynthesizerBackbone`.
        num_classes: Integer, number of classes; labels are 0 up to
            `num_classes - 1`.
        preprocessor: A `SynthesizerTextClassifierPreprocessor` or `None`.
        activation: Activation of the outputs, by default none: logits.
        dropout: Float, share of the pooled features to drop in training.
        pooling: `"mean"` over the real tokens, or `"first"` token.
        class_names: Optional sequence of `num_classes` strings, saved with
            the model. With it, labels may be names, too.
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
    classifier = keras_synth.models.SynthesizerTextClassifier(
        backbone, num_classes=2, preprocessor=preprocessor
    )
    classifier.fit(["a good film", "a dull film"], [1, 0])
    classifier.predict(["a good plot"])  # (1, 2) logits
    classifier.save_to_preset("my_classifier")
    ```
    """

    backbone_cls = SynthesizerBackbone
    preprocessor_cls = SynthesizerTextClassifierPreprocessor

    def __init__(
        self,
        backbone,
        num_classes,
        preprocessor=None,
        activation=None,
        dropout=0.1,
        pooling="mean",
        class_names=None,
        **kwargs,
    ):
        check_positive("num_classes", num_classes)
        check_rate("dropout", dropout)
        _check_class_names(class_names, num_classes)
        _check_preprocessor(preprocessor, backbone)
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

        # The default compilation in the base's constructor asks for this.
        self.activation = keras.activations.get(activation)

        # === Functional model ===
        inputs = backbone.input
        x = self.pooler(backbone(inputs), inputs["padding_mask"])
        outputs = self.output_dense(self.output_dropout(x))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        settle(self)

        # === Config ===
        self.num_classes = num_classes
        self.dropout = dropout
        self.pooling = pooling
        self.class_names = None if class_names is None else [*class_names]

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """Configures training, as `keras_hub.models.TextClassifier.compile`.

        Args:
            optimizer: By default `AdamW(1e-3)`, which suits training from
                scratch.
            loss: By default sparse categorical cross-entropy.
            **kwargs: `metrics`, by default accuracy, and what
                `keras.Model.compile` takes.
        """
        if optimizer == "auto":
            optimizer = keras.optimizers.AdamW(1e-3)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def fit(
        self, x=None, y=None, *, sample_weight=None, shuffle=True, **kwargs
    ):
        """Trains the model, as `keras.Model.fit`.

        Args:
            x: Raw strings or arrays, or a dataset of batches. A
                `keras.utils.PyDataset`, such as
                `keras_synth.datasets.LengthBuckets`, delivers tokenized
                batches: a model with a preprocessor does not take it.
            y: Labels, integers or class names; they are checked before
                training starts.
            sample_weight: Optional weights of the examples.
            shuffle: Whether to bring examples that are not a dataset into a
                random order, once for all epochs. (KerasHub keeps the order
                in which they come: fatal where it is sorted by class.)
            **kwargs: Other arguments of `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.
        """
        if self._is_tokenized(x):
            return super().fit(x, y, **kwargs)
        if y is not None:
            y = number_labels(y, self.num_classes, self.class_names)
            if shuffle:
                x, y, sample_weight = _shuffled((x, y, sample_weight), len(y))
        return super().fit(
            x, y, sample_weight=sample_weight, shuffle=False, **kwargs
        )

    def evaluate(self, x=None, y=None, **kwargs):
        """Scores the model, as `keras.Model.evaluate`; x and y as in `fit`."""
        if y is not None:
            y = number_labels(y, self.num_classes, self.class_names)
        return super().evaluate(x, y, **kwargs)

    def get_config(self):
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


def _check_class_names(names, num_classes):
    if names is None:
        return
    texts = [name for name in names if isinstance(name, str)]
    if len({*texts}) != num_classes or len(texts) != len(names):
        raise ValueError(
            "class_names must be different strings, one for each of "
            f"num_classes={num_classes}. Received: class_names={names!r}"
        )


def _shuffled(examples, count):
    """Brings all parts of the examples into one random order."""
    order = np.random.permutation(count)

    def shuffled(part):
        if part is None:
            return None
        if isinstance(part, tuple):
            return tuple(map(shuffled, part))
        if isinstance(part, dict):
            return {name: shuffled(values) for name, values in part.items()}
        if isinstance(part, list):
            return [part[i] for i in order]
        if isinstance(part, np.ndarray):
            return part[order]
        return keras.ops.take(part, order, axis=0)

    return tuple(map(shuffled, examples))


def _check_preprocessor(preprocessor, backbone):
    if not isinstance(preprocessor, SynthesizerTextClassifierPreprocessor):
        return
    check_fits(preprocessor, backbone)
    if preprocessor.with_segments != bool(backbone.num_segments):
        raise ValueError(
            "A backbone with segments needs a preprocessor with segments, and "
            "one without needs one without. Received: num_segments="
            f"{backbone.num_segments}, "
            f"with_segments={preprocessor.with_segments}"
        )
