"""Texts, or pairs of them, and the classes that they belong to."""

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth import datasets
from keras_synth.compare.kinds.kind import Kind, Prepared, Score
from keras_synth.compare.kinds.recipes import adamw, backbone_options
from keras_synth.compare.kinds.some import some

TEST_BATCH_SIZE = 256


class Classification(Kind):
    """Texts, or pairs of them, and their classes: accuracy."""

    score = epoch_score = Score("accuracy", "accuracy", 100, unit="%")
    data_settings = (
        "task",
        "sequence_length",
        "keep",
        "vocabulary_size",
        "examples",
    )
    unused = ("label_smoothing",)

    def some(self, train, settings):
        return some(train, settings.examples)

    def prepare(self, examples, settings, preprocess, say):
        *splits, class_names = examples
        train, *_ = splits
        say(f"Training a vocabulary on {len(train[1]):,} examples")
        preprocessor = _preprocessor(train[0], settings)
        say(f"Tokenizing {sum(len(y) for _, y in splits):,} examples")
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
        train, *others = map(_features_and_labels, prepared[:3])
        return datasets.LengthBuckets(
            *train,
            settings.batch_size,
            settings.lengths,
            drop_remainder=True,
            seed=seed,
        ), *(
            datasets.LengthBuckets(
                *other, TEST_BATCH_SIZE, settings.lengths, shuffle=False
            )
            for other in others
        )

    def build(self, settings, run, prepared, steps):
        backbone = keras_synth.models.SynthesizerBackbone(
            **backbone_options(settings, run, prepared),
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

    def scores(self, logs):
        return logs["accuracy"], logs["loss"]

    def finish(self, model, settings, prepared, tell):
        return {"classes": prepared.notes["class_names"]}


def _preprocessor(texts, settings):
    pairs = isinstance(texts, tuple)
    every = [text for side in texts for text in side] if pairs else texts
    models = keras_synth.models
    return models.SynthesizerTextClassifierPreprocessor(
        models.SynthesizerTokenizer.from_texts(every, settings.vocabulary_size),
        sequence_length=settings.sequence_length,
        keep=settings.keep,
        with_segments=pairs,
    )


def _features_and_labels(arrays):
    features = dict(arrays)
    labels = features.pop("labels")
    return features, labels
