"""Small sequence-to-sequence models, and what they write without caches."""

import numpy as np
from backend import numpy, program
from keras import ops
from language_models import VOCABULARY

from keras_synth import models

SOURCE_LENGTH, TARGET_LENGTH = 12, 9


def preprocessor(encoder=SOURCE_LENGTH, decoder=TARGET_LENGTH):
    return models.SynthesizerSeq2SeqLMPreprocessor(
        models.SynthesizerTokenizer(VOCABULARY), encoder, decoder
    )


def seq2seq(synthesizer="R+V", preprocess=True, **options):
    backbone = models.SynthesizerSeq2SeqBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=2,
        num_heads=2,
        synthesizer=synthesizer,
        max_sequence_length=SOURCE_LENGTH,
        max_decoder_length=TARGET_LENGTH,
        **{
            "hidden_dim": 16,
            "intermediate_dim": 32,
            "dropout": 0.0,
            **options,
        },
    )
    return models.SynthesizerSeq2SeqLM(
        backbone, preprocessor() if preprocess else None
    )


def tensors(features):
    return {
        name: ops.convert_to_tensor(np.array(numpy(x)).astype("int32"))
        for name, x in features.items()
    }


def greedy(model, features):
    """Writes without caches: the whole target again for each token."""
    ids = np.array(numpy(features["decoder_token_ids"]))
    given = np.array(numpy(features["decoder_padding_mask"])).astype(bool)
    run = program(model)
    for position in range(given.sum(axis=1).min(), ids.shape[1]):
        seen = np.arange(ids.shape[1])[None] < np.full((len(ids), 1), position)
        logits = run(
            {
                **features,
                "decoder_token_ids": ops.convert_to_tensor(ids),
                "decoder_padding_mask": ops.convert_to_tensor(
                    seen.astype("int32")
                ),
            }
        )
        best = numpy(logits)[:, position - 1].argmax(axis=-1)
        ids[:, position] = np.where(given[:, position], ids[:, position], best)
    return ids
