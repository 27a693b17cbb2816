"""Small language models, and what they write without caches."""

import keras_hub
import numpy as np
import pytest
from backend import numpy, program, slow_but_on
from keras import ops
from small_tasks import SPECIAL

from keras_synth import models

WORDS = "a quick brown fox jumps over the lazy dog and then it sleeps".split()
VOCABULARY = [*SPECIAL, *WORDS]
LENGTH = 12

each_sampler = pytest.mark.parametrize(
    "sampler",
    [
        "greedy",
        keras_hub.samplers.TopKSampler(3, seed=1),
        # They are called as TopKSampler is, and draw otherwise.
        *(
            pytest.param(sampler, marks=slow_but_on("torch"))
            for sampler in (
                keras_hub.samplers.TopPSampler(0.5, seed=1),
                keras_hub.samplers.RandomSampler(seed=1),
            )
        ),
        keras_hub.samplers.BeamSampler(num_beams=3),
        keras_hub.samplers.ContrastiveSampler(k=2, alpha=0.2),
    ],
)


def preprocessor(length=LENGTH):
    return models.SynthesizerCausalLMPreprocessor(
        models.SynthesizerTokenizer(VOCABULARY), sequence_length=length
    )


def language_model(synthesizer="R+V", preprocess=True, **options):
    options = {
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "causal": True,
        "dropout": 0.0,
        **options,
    }
    backbone = models.SynthesizerBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=2,
        num_heads=2,
        synthesizer=synthesizer,
        max_sequence_length=LENGTH,
        **options,
    )
    return models.SynthesizerCausalLM(
        backbone, preprocessor() if preprocess else None
    )


def greedy(model, prompts, length):
    """Writes on without caches: the whole text again for each token."""
    features = model.preprocessor.generate_preprocess(prompts, length)
    ids = np.array(numpy(features["token_ids"]))
    given = np.array(numpy(features["padding_mask"])).astype(bool)
    logits = program(model)
    for position in range(given.sum(axis=1).min(), length):
        mask = np.arange(length)[None] < np.full((len(ids), 1), position)
        inputs = {
            name: ops.convert_to_tensor(x.astype("int32"))
            for name, x in (("token_ids", ids), ("padding_mask", mask))
        }
        best = numpy(logits(inputs))[:, position - 1].argmax(axis=-1)
        ids[:, position] = np.where(given[:, position], ids[:, position], best)
    return ids
