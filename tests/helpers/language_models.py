"""Small generating models, and their texts without caches."""

import numpy as np
from backend import numpy, program
from keras import ops
from small_tasks import SPECIAL

from keras_synth import models

WORDS = "a quick brown fox jumps over the lazy dog and then it sleeps".split()
VOCABULARY = [*SPECIAL, *WORDS]
LENGTH, TARGET_LENGTH = 12, 9
SIZES = {
    "vocabulary_size": len(VOCABULARY),
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": LENGTH,
    "dropout": 0.0,
}


def tokenizer(*more):
    return models.SynthesizerTokenizer([*VOCABULARY, *more])


def language_model(synthesizer="R+V", preprocess=True, **options):
    backbone = models.SynthesizerBackbone(
        synthesizer=synthesizer, **{**SIZES, "causal": True, **options}
    )
    made = models.SynthesizerCausalLMPreprocessor(tokenizer(), LENGTH)
    return models.SynthesizerCausalLM(backbone, made if preprocess else None)


def translator(synthesizer="R+V", preprocess=True, **options):
    backbone = models.SynthesizerSeq2SeqBackbone(
        synthesizer=synthesizer,
        max_decoder_length=TARGET_LENGTH,
        **{**SIZES, **options},
    )
    made = models.SynthesizerSeq2SeqLMPreprocessor(
        tokenizer(), LENGTH, TARGET_LENGTH
    )
    return models.SynthesizerSeq2SeqLM(backbone, made if preprocess else None)


def tensors(features):
    return {
        name: ops.convert_to_tensor(np.array(numpy(x)).astype("int32"))
        for name, x in features.items()
    }


def greedy(model, features):
    """Writes without caches: the whole text again for each token."""
    side = "decoder_" if "decoder_token_ids" in features else ""
    ids = np.array(numpy(features[f"{side}token_ids"]))
    given = np.array(numpy(features[f"{side}padding_mask"])).astype(bool)
    logits = program(model)
    for position in range(given.sum(axis=1).min(), ids.shape[1]):
        mask = np.arange(ids.shape[1])[None] < np.full((len(ids), 1), position)
        own = {f"{side}token_ids": ids, f"{side}padding_mask": mask}
        best = numpy(logits({**tensors(features), **tensors(own)}))
        best = best[:, position - 1].argmax(axis=-1)
        ids[:, position] = np.where(given[:, position], ids[:, position], best)
    return ids


def assert_writes_as_without_caches(model, texts, length=None):
    """Raises unless greedy writing with caches is that without.

    Args:
        model: A task that writes.
        texts: Prompts; for a translator sources and prompts.
        length: Integer, tokens to write, by default all.
    """
    model.compile(sampler="greedy")
    features = tensors(
        model.preprocessor.generate_preprocess(texts, sequence_length=length)
    )
    written = model.generate_step(features)
    (ids,) = (x for name, x in written.items() if name.endswith("token_ids"))
    np.testing.assert_array_equal(numpy(ids), greedy(model, features))
