"""Sentences of words, and a label for each word."""

import dataclasses

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import settings
from keras_synth.compare.objectives import recipes
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.recipes import adamw, length_batches


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    lengths: tuple = settings.LENGTHS()
    vocabulary_size: int = settings.VOCABULARY_SIZE()
    weight_decay: float = settings.WEIGHT_DECAY()
    init: str = settings.INIT()
    init_weights: str = settings.INIT_WEIGHTS()


class Tagging(Objective):
    """Words and their classes: accuracy over the words.

    Words beyond `sequence_length` pieces are neither trained nor tested on.
    """

    Settings = _Settings
    data_settings = (
        "task",
        "sequence_length",
        "vocabulary_size",
        "examples",
        "init",
    )
    init_backbone = "SynthesizerBackbone"
    card = "It labels the words of sentences."
    score = epoch_score = Score("word accuracy", "accuracy", 100, unit="%")

    def prepare(self, examples, settings, preprocess, log):
        *splits, class_names = examples
        train, *_ = splits
        models = keras_synth.models
        tokenizer = recipes.tokenizer(
            models.SynthesizerTokenizer,
            [" ".join(words) for words in train[0]],
            settings,
            log,
        )
        log(f"Tokenizing {sum(len(x) for x, _ in splits):,} sentences")
        preprocessor = _preprocessor(tokenizer, settings)
        numbers = {name: number for number, name in enumerate(class_names)}
        arrays = []
        for sentences, labels in splits:
            ids = [[numbers[label] for label in row] for row in labels]
            features, y, weight = preprocessor(sentences, ids)
            arrays.append({**features, "labels": y, "sample_weight": weight})
        scored, words = arrays[2]["sample_weight"].sum(), map(len, splits[2][0])
        log(f"{int(scored):,} of {sum(words):,} words to test on fit")
        notes = {
            "class_names": list(class_names),
            "vocabulary_size": tokenizer.vocabulary_size(),
            "vocabulary": list(tokenizer.get_vocabulary()),
        }
        return Prepared(*arrays, notes)

    def batches(self, settings, seed, prepared):
        return length_batches(settings, seed, prepared, settings.batch_size)

    def build(self, settings, run, prepared, steps):
        tagger = keras_synth.models.SynthesizerTokenClassifier(
            recipes.backbone(
                keras_synth.models.SynthesizerBackbone, settings, run, prepared
            ),
            num_classes=len(prepared.notes["class_names"]),
            dropout=settings.dropout,
        )
        tagger.compile(adamw(settings, steps))
        return tagger

    def finish(self, model, settings, prepared, emit):
        return {"classes": prepared.notes["class_names"]}

    def preprocessor(self, settings, prepared):
        tokenizer = keras_synth.models.SynthesizerTokenizer(
            prepared.notes["vocabulary"]
        )
        return _preprocessor(tokenizer, settings)


def _preprocessor(tokenizer, settings):
    return keras_synth.models.SynthesizerTokenClassifierPreprocessor(
        tokenizer, settings.sequence_length
    )
