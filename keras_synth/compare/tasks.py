"""The tasks by name, with their default settings."""

from keras_synth import datasets
from keras_synth.compare.classes import Classification, Scores, Tagging
from keras_synth.compare.texts import LanguageModel, MaskedLM, SpanCorruption
from keras_synth.compare.writing import Writing

TASKS = {
    task.name: task
    for task in (
        Classification(
            "classification",
            generator=datasets.generated_reviews,
            metric="accuracy",
        ),
        Classification(
            "pairs",
            pairs=True,
            generator=datasets.generated_pairs,
            options={"text": ["text", "text_2"]},
            metric="accuracy",
            epochs=8,
        ),
        Scores(
            "scores",
            options={"text": ["sentence1", "sentence2"], "label": "score"},
            sequence_length=96,
            lengths=[32, 64],
            epochs=8,
        ),
        Tagging(
            "tagging",
            generator=datasets.generated_entities,
            sequence_length=128,
            lengths=[32, 64],
            batch_size=32,
        ),
        Writing(
            "translation",
            generator=datasets.generated_translations,
            options={"text": "source", "label": "target"},
            lengths=[16, 24, 32],
            vocabulary_size=8_000,
            learning_rate=1.5e-3,
            epochs=10,
            intermediate_dim=256,
        ),
        Writing(
            "summaries",
            metric="ROUGE-L",
            options={"text": "text", "label": "summary"},
            sequence_length=384,
            lengths=[128, 192, 256],
            vocabulary_size=4_000,
            batch_size=16,
            epochs=10,
            intermediate_dim=256,
        ),
        Writing(
            "dialogues",
            options={"text": "context", "label": "response"},
            sequence_length=96,
            lengths=[64, 80],
            vocabulary_size=4_000,
            epochs=5,
            intermediate_dim=256,
        ),
        LanguageModel("language_model", batch_size=32),
        MaskedLM(
            "masked_lm",
            tokens="subwords",
            sequence_length=128,
            num_layers=4,
            hidden_dim=192,
            vocabulary_size=8_000,
            batch_size=32,
            epochs=1,
            weight_decay=0.01,
        ),
        SpanCorruption(
            "span_corruption",
            sequence_length=128,
            num_layers=3,
            hidden_dim=256,
            intermediate_dim=512,
            vocabulary_size=8_000,
            batch_size=32,
            epochs=1,
            weight_decay=0.01,
        ),
        Classification(
            "listops",
            "words",
            generator=datasets.generated_listops,
            sequence_length=202,
            lengths=[48, 96, 144],
            hidden_dim=64,
            dropout=0.0,
            epochs=5,
        ),
        Classification(
            "byte_text",
            "bytes",
            generator=datasets.generated_reviews,
            sequence_length=1_000,
            lengths=[512],
            hidden_dim=64,
            dropout=0.0,
            batch_size=32,
            epochs=1,
        ),
    )
}
