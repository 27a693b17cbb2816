"""Small classifiers of two layers, and texts for them."""

from small_tasks import VOCABULARY

from keras_synth import models

TEXTS = ["the film is good", "The plot is not good but dull"] * 4
LABELS = [1, 0] * 4


def preprocessor(length=12, **options):
    tokenizer = models.SynthesizerTokenizer(VOCABULARY)
    return models.SynthesizerTextClassifierPreprocessor(
        tokenizer, sequence_length=length, **options
    )


def classifier(synthesizer="R+V", preprocess=True, num_segments=0, **options):
    backbone = models.SynthesizerBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        synthesizer=synthesizer,
        max_sequence_length=16,
        num_segments=num_segments,
    )
    made = preprocessor(with_segments=bool(num_segments))
    return models.SynthesizerTextClassifier(
        backbone,
        num_classes=2,
        preprocessor=made if preprocess else None,
        **options,
    )
