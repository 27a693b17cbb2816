"""Texts, or pairs of them, and the classes that they belong to."""

import dataclasses

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import settings
from keras_synth.compare.objectives import recipes
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.recipes import adamw, length_batches

TEST_BATCH_SIZE = 256


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    lengths: tuple = settings.LENGTHS()
    keep: str = settings.setting(
        "end", "which part of texts that are too long", ("start", "end")
    )
    vocabulary_size: int = settings.VOCABULARY_SIZE()
    pooling: str = settings.setting(
        "mean", "how tokens become one vector", ("mean", "first")
    )
    weight_decay: float = settings.WEIGHT_DECAY()
    init: str = settings.INIT()
    init_weights: str = settings.INIT_WEIGHTS()


class Classification(Objective):
    """Texts, or pairs of them, and their classes: accuracy."""

    Settings = _Settings
    data_settings = (
        "task",
        "sequence_length",
        "keep",
        "vocabulary_size",
        "examples",
        "init",
    )
    init_backbone = "SynthesizerBackbone"
    score = epoch_score = Score("accuracy", "accuracy", 100, unit="%")

    def prepare(self, examples, settings, preprocess, log):
        *splits, class_names = examples
        train, *_ = splits
        log(f"Training a vocabulary on {len(train[1]):,} examples")
        preprocessor = _preprocessor(train[0], settings)
        log(f"Tokenizing {sum(len(y) for _, y in splits):,} examples")
        arrays = []
        for texts, labels in splits:
            # With labels, since a pair alone is taken for a text and its label.
            features, _ = preprocess(preprocessor, texts, labels)
            arrays.append({**features, "labels": labels})
        tokenizer = preprocessor.tokenizer
        notes = {
            "class_names": list(class_names),
            "vocabulary_size": tokenizer.vocabulary_size(),
            "vocabulary": list(tokenizer.get_vocabulary()),
        }
        return Prepared(*arrays, notes)

    def batches(self, settings, seed, prepared):
        return length_batches(settings, seed, prepared, TEST_BATCH_SIZE)

    def build(self, settings, run, prepared, steps):
        backbone = recipes.backbone(
            keras_synth.models.SynthesizerBackbone,
            settings,
            run,
            prepared,
            num_segments=2 if "segment_ids" in prepared.train else 0,
        )
        classifier = keras_synth.models.SynthesizerTextClassifier(
            backbone,
            num_classes=len(prepared.notes["class_names"]),
            dropout=settings.dropout,
            pooling=settings.pooling,
        )
        classifier.compile(
            optimizer=adamw(settings, steps), metrics=["accuracy"]
        )
        return classifier

    def finish(self, model, settings, prepared, emit):
        return {"classes": prepared.notes["class_names"]}


def _preprocessor(texts, settings):
    pairs = isinstance(texts, tuple)
    every = [text for side in texts for text in side] if pairs else texts
    models = keras_synth.models
    return models.SynthesizerTextClassifierPreprocessor(
        recipes.tokenizer(models.SynthesizerTokenizer, every, settings),
        sequence_length=settings.sequence_length,
        keep=settings.keep,
        with_segments=pairs,
    )
