"""`SynthesizerTokenClassifier`: a label for each word of a sentence."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_synth._backend.configs import arguments_of, config_of
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added, of_dense
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.checks import check_words
from keras_synth.models.preprocessors.columns import column, decoded
from keras_synth.models.preprocessors.token_classifier_preprocessor import (
    SynthesizerTokenClassifierPreprocessor,
)
from keras_synth.models.tasks.examples import check_batches, is_dataset
from keras_synth.models.tasks.labels import encode_labels, make_head
from keras_synth.models.tasks.task import TaskMixin
from keras_synth.types import Identifier, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTokenClassifier(TaskMixin, keras_hub.models.Task):
    """Labels each word of a sentence: parts of speech, names, chunks.

    With a preprocessor, `fit`, `evaluate` and `predict` accept sentences as
    lists of words, and labels as lists of integers or names of classes, one for
    each word. They also accept a dataset of these; in TensorFlow they are
    ragged tensors `(B, words)`, or tensors padded by empty strings. Without a
    preprocessor, they accept its results. Loss and accuracy count only the
    first piece of each word. Words beyond the preprocessor's `sequence_length`
    are ignored in training and evaluation, but `tag` labels them.

    Args:
        backbone: A `SynthesizerBackbone`. With a causal one, the label of a
            word depends only on earlier words.
        num_classes: Integer, number of classes, at least 2; labels are 0 to
            `num_classes - 1`.
        preprocessor: A `SynthesizerTokenClassifierPreprocessor` or `None`.
        activation: Activation of the outputs; by default outputs are logits.
        dropout: Float, fraction of the features to drop in training.
        class_names: Optional list, array or pandas column of `num_classes`
            strings, saved with the model. Labels can then be names.
        **kwargs: Keyword arguments of `keras_hub.models.Task`.

    Call arguments:
        inputs: As for `SynthesizerBackbone`.

    Returns:
        Tensor `(B, T, num_classes)`.

    Raises:
        ValueError: If the preprocessor does not fit the backbone, or labels in
            `fit` or `evaluate` are not classes, or not one per word.

    Example:

    ```python
    sentences, labels = keras_synth.datasets.generated_entities(64)
    class_names = keras_synth.datasets.CLASS_NAMES["generated_entities"]
    tokenizer = keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
        [" ".join(words) for words in sentences], vocabulary_size=400
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
    tagger = keras_synth.models.SynthesizerTokenClassifier(
        backbone,
        num_classes=len(class_names),
        preprocessor=keras_synth.models.SynthesizerTokenClassifierPreprocessor(
            tokenizer, sequence_length=32
        ),
        class_names=class_names,
    )
    tagger.fit(sentences, labels, epochs=2, verbose=0)
    (found,) = tagger.tag([["I", "met", "Florence", "in", "Madison", "."]])
    print(len(found))  # 6
    ```
    """

    reads_words = True
    backbone_cls = SynthesizerBackbone
    preprocessor_cls = SynthesizerTokenClassifierPreprocessor

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        preprocessor: keras.Layer | None = None,
        activation: Identifier | None = None,
        dropout: float = 0.1,
        class_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if num_classes == 1:
            raise ValueError(
                "A token classifier needs at least two classes. Received: "
                "num_classes=1"
            )
        # === Layers ===
        make_head(self, arguments_of(SynthesizerTokenClassifier, locals()))

        # === Functional model ===
        inputs = backbone.input
        outputs = self.output_dense(self.output_dropout(backbone(inputs)))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def compile(
        self,
        optimizer="auto",
        loss="auto",
        *,
        weighted_metrics="auto",
        **kwargs,
    ):
        """Configures training, like the `compile` of all tasks.

        Args:
            optimizer: As for `SynthesizerCausalLM.compile`.
            loss: By default sparse categorical cross-entropy, averaged over the
                words of a batch.
            weighted_metrics: By default `SparseCategoricalAccuracy`, the
                fraction of the words labelled correctly.
            **kwargs: Other arguments of `keras.Model.compile`.
        """
        if loss == "auto":
            loss = keras.losses.SparseCategoricalCrossentropy(
                from_logits=self.activation is keras.activations.linear,
                reduction="mean_with_sample_weight",
            )
        if weighted_metrics == "auto":
            weighted_metrics = [keras.metrics.SparseCategoricalAccuracy()]
        super().compile(
            optimizer=optimizer,
            loss=loss,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )

    def tag(self, sentences: Any, batch_size: int | None = None) -> Any:
        """Labels the words of sentences.

        Every word gets a label: a sentence with more tokens than the
        preprocessor's `sequence_length` is split into parts of as many words as
        fit. Words do not see those of another part.

        Args:
            sentences: List of lists of words.
            batch_size: Integer, sentences per batch, by default 32.

        Returns:
            List of lists with a label for each word: the name of a class, or an
            integer if the model has no `class_names`.

        Raises:
            ValueError: If there is no preprocessor, or sentences are not lists
                of words.
        """
        if self.preprocessor is None:
            raise ValueError(
                "`tag` needs a preprocessor for words. Build the model with "
                "one, or set model.preprocessor. Received: preprocessor=None"
            )
        sentences = decoded(column(sentences, "sentences", words=True))
        if not sentences:
            return []
        parts = self.preprocessor.split(sentences)
        features, _, weights = self.preprocessor(
            parts, [[0] * len(words) for words in parts]
        )
        check_batches(len(parts), batch_size)
        outputs = keras.Model.predict(
            self, features, batch_size=batch_size, verbose=0
        )
        labels = np.argmax(outputs, axis=-1)[weights > 0].tolist()
        if self.class_names is not None:
            labels = [self.class_names[label] for label in labels]
        labels = iter(labels)
        return [[*itertools.islice(labels, len(x))] for x in sentences]

    def _read(self, data, *args, **kwargs):
        x, y, sample_weight = super()._read(data, *args, **kwargs)
        if self.preprocessor is not None and not is_dataset(x):
            for words, labels in zip(x, x if y is None else y, strict=True):
                check_words(words, labels)
        return x, y, sample_weight

    def encode_labels(self, labels: Tensor) -> Tensor:
        classes = self.num_classes, self.class_names
        if not isinstance(labels, list) and labels.dtype != "object":
            return encode_labels(labels, *classes)
        first = getattr(labels, "flat", [None])[:1]
        if any(isinstance(label, bytes) for label in first):
            # Strings of a dataset, whose rows can be padded.
            padding = (self.class_names or [b""])[0]
            return encode_labels(
                np.where(labels == b"", padding, labels), *classes
            )
        rows = [encode_labels(row, *classes).astype("int32") for row in labels]
        return np.fromiter(rows, "object", count=len(rows))

    def get_config(self) -> dict[str, Any]:
        return config_of(self, SynthesizerTokenClassifier, super().get_config())


@multiplications.register(SynthesizerTokenClassifier)
def _multiplications(task, length, source_length):
    return added(
        multiplications(task.backbone, length, source_length),
        {"output layer": of_dense(task.output_dense, length)},
    )
