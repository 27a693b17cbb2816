"""Texts, or pairs of them, and the classes or scores that they have."""

import dataclasses

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import settings
from keras_synth.compare.objectives import recipes
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.recipes import adamw, length_batches

TEST_BATCH_SIZE = 256
# The score; functions of `keras_synth.metrics` that make it, and a figure
# beside it, of all predictions at once, none where Keras computes accuracy; and
# their package.
METRICS = {
    "accuracy": (Score("accuracy", "accuracy", 100, unit="%"), (), ()),
    "matthews": (
        Score("Matthews correlation", "Matthews", 100),
        ("matthews", "accuracy"),
        ("sklearn",),
    ),
    "f1": (Score("F1", "F1", 100), ("f1", "accuracy"), ("sklearn",)),
    "pearson": (
        Score("Pearson correlation", "Pearson", 100),
        ("pearson", "spearman"),
        ("scipy",),
    ),
}


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    lengths: tuple = settings.LENGTHS()
    keep: str = settings.setting(
        "end", "which part of texts that are too long", ("start", "end")
    )
    pooling: str = settings.setting(
        "mean", "how tokens become one vector", ("mean", "first")
    )
    weight_decay: float = settings.WEIGHT_DECAY()
    init: str = settings.INIT()
    init_weights: str = settings.INIT_WEIGHTS()


@dataclasses.dataclass(frozen=True)
class _PieceSettings(_Settings):
    vocabulary_size: int = settings.VOCABULARY_SIZE()


class Classification(Objective):
    """Texts, or pairs of them, and their classes; without names, scores.

    Args:
        metric: String, a key of `METRICS`.

    Attributes:
        tokenizer_name: Name of the tokenizer's class in `keras_synth.models`.
    """

    Settings = _PieceSettings
    data_settings = (
        "task",
        "sequence_length",
        "keep",
        "vocabulary_size",
        "examples",
        "init",
    )
    tokenizer_name = "SynthesizerTokenizer"
    learn = None  # of texts: a new tokenizer without a size
    init_backbone = "SynthesizerBackbone"
    card = "It classifies texts."

    def __init__(self, metric="accuracy"):
        score, self.metrics, self.packages = METRICS[metric]
        self.score = self.epoch_score = score

    def prepare(self, examples, settings, preprocess, log):
        *splits, class_names = examples
        train, *_ = splits
        pairs = isinstance(train[0], tuple)
        every = [x for side in train[0] for x in side] if pairs else train[0]
        tokenizer = recipes.tokenizer(
            self.tokenizer_cls, every, settings, log, self.learn
        )
        preprocessor = _preprocessor(tokenizer, settings, pairs)
        log(f"Tokenizing {sum(len(y) for _, y in splits):,} examples")
        # With labels, since a pair alone is taken for a text and its label.
        made = preprocess(preprocessor, splits)
        arrays = [
            {**features, "labels": labels}
            for (features, _), (_, labels) in zip(made, splits, strict=True)
        ]
        notes = {
            "class_names": list(class_names),
            "vocabulary_size": tokenizer.vocabulary_size(),
            **self.describe(tokenizer),
        }
        return Prepared(*arrays, notes)

    @property
    def tokenizer_cls(self):
        """The tokenizer's class."""
        return getattr(keras_synth.models, self.tokenizer_name)

    def describe(self, tokenizer):
        """Returns the notes of `prepare` that make the tokenizer anew."""
        return {"vocabulary": list(tokenizer.get_vocabulary())}

    def tokenizer(self, notes):
        """Returns the tokenizer of `describe`."""
        return self.tokenizer_cls(notes["vocabulary"])

    def batches(self, settings, seed, prepared):
        return length_batches(settings, seed, prepared, TEST_BATCH_SIZE)

    def build(self, settings, run, prepared, steps):
        import keras

        backbone = recipes.backbone(
            keras_synth.models.SynthesizerBackbone,
            settings,
            run,
            prepared,
            num_segments=2 if _are_pairs(prepared) else 0,
        )
        names = prepared.notes["class_names"]
        classifier = keras_synth.models.SynthesizerTextClassifier(
            backbone,
            num_classes=len(names) or 1,
            class_names=names or None,
            dropout=settings.dropout,
            pooling=settings.pooling,
        )
        classifier.compile(
            optimizer=adamw(settings, steps),
            loss="auto" if names else keras.losses.MeanSquaredError(),
            metrics=["accuracy"] if names else [],
        )
        return classifier

    def evaluate(self, scorer, batches):
        if not self.metrics:
            return super().evaluate(scorer, batches)
        outputs = scorer.predict(batches, verbose=0).astype("float32")
        labels = np.concatenate([batches[i][1] for i in range(len(batches))])
        is_score = outputs.shape[1] == 1
        predictions = outputs[:, 0] if is_score else outputs.argmax(axis=1)
        figures = {
            name: getattr(keras_synth.metrics, name)(labels, predictions)
            for name in self.metrics
        }
        return {
            "score": figures[self.metrics[0]],
            "loss": float(scorer.loss(labels, outputs)),
            **figures,
        }

    def finish(self, model, settings, prepared, emit):
        names = prepared.notes["class_names"]
        return {"classes": names} if names else {}

    def preprocessor(self, settings, prepared):
        return _preprocessor(
            self.tokenizer(prepared.notes), settings, _are_pairs(prepared)
        )


class WordClassification(Classification):
    """Texts as the words between spaces, all of the training texts'."""

    Settings = _Settings
    data_settings = ("task", "sequence_length", "keep", "examples", "init")
    tokenizer_name = "SynthesizerWordTokenizer"

    def learn(self, texts):
        """Returns a tokenizer of all words in texts."""
        return self.tokenizer_cls.from_texts(texts)


class ByteClassification(WordClassification):
    """Texts as bytes."""

    tokenizer_name = "SynthesizerByteTokenizer"

    def learn(self, texts):
        """Returns the tokenizer, which has nothing to learn."""
        return self.tokenizer_cls()

    def describe(self, tokenizer):
        return {}

    def tokenizer(self, notes):
        return self.tokenizer_cls()


def _preprocessor(tokenizer, settings, pairs):
    return keras_synth.models.SynthesizerTextClassifierPreprocessor(
        tokenizer,
        sequence_length=settings.sequence_length,
        keep=settings.keep,
        with_segments=pairs,
    )


def _are_pairs(prepared):
    return "segment_ids" in prepared.train
