"""Models of one size, of this package and of KerasHub, to be compared."""

import itertools
import string
import time

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_synth import models
from keras_synth.models.preprocessors.tokenizer import BYTE_PAIRS

CLASSIFIER, GENERATOR = "BertBackbone", "GPT2CausalLM"
PROMPT = 15  # tokens, after the start token


def sizes(width, heads, layers, length, vocabulary):
    """Returns the arguments that all backbones share."""
    return {
        "vocabulary_size": vocabulary,
        "num_layers": layers,
        "num_heads": heads,
        "hidden_dim": width,
        "intermediate_dim": 4 * width,
        "max_sequence_length": length,
    }


def classifier(name, sizes):
    """Returns a compiled classifier of two classes."""
    if name == CLASSIFIER:
        backbone = keras_hub.models.BertBackbone(**sizes, dropout=0.1)
        make = keras_hub.models.BertTextClassifier
    else:
        backbone = models.SynthesizerBackbone(
            **sizes, synthesizer=name, dropout=0.1
        )
        make = models.SynthesizerTextClassifier
    model = make(backbone, num_classes=2, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    return model


def two_steps(name, batch, sizes):
    """Seconds from no model to the end of its first step, and of the second.

    Token ids are padded, a quarter full at least.
    """
    random = np.random.default_rng(0)
    shape = batch, sizes["max_sequence_length"]
    real = random.integers(shape[1] // 4, shape[1], (batch, 1))
    mask = np.arange(shape[1]) <= real
    features = {
        "token_ids": random.integers(5, sizes["vocabulary_size"], shape) * mask,
        "padding_mask": mask.astype("int32"),
    }
    if name == CLASSIFIER:
        features["segment_ids"] = np.zeros(shape, "int32")
    data = features, random.integers(0, 2, batch)
    start = time.perf_counter()
    model = classifier(name, sizes)
    model.train_on_batch(*data)  # waits: it returns the loss as a number
    first = time.perf_counter()
    model.train_on_batch(*data)
    return first - start, time.perf_counter() - first


# --- texts ---


def tokenizer(vocabulary_size):
    """A tokenizer of letters and, as far as there is room, groups of them."""
    letters = string.ascii_letters
    pairs = itertools.product(letters, letters)
    triples = itertools.product(letters, letters, letters)
    rules = [f"{a} {b}" for a, b in pairs]
    rules += [f"{a}{b} {c}" for a, b, c in triples]
    signs = [*BYTE_PAIRS, *map(chr, range(33, 127))]
    rules = rules[: vocabulary_size - len(signs)]
    tokens = signs + [rule.replace(" ", "") for rule in rules]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return models.SynthesizerBytePairTokenizer(vocabulary, rules)


def gelu(x):
    """GPT-2's activation."""
    return keras.activations.gelu(x, approximate=True)


def generator(name, sizes, dtype):
    """Returns a language model with its preprocessor, ready to generate."""
    tokens, length = (
        tokenizer(sizes["vocabulary_size"]),
        sizes["max_sequence_length"],
    )
    if name == GENERATOR:
        model = keras_hub.models.GPT2CausalLM(
            keras_hub.models.GPT2Backbone(**sizes, dtype=dtype),
            keras_hub.models.GPT2CausalLMPreprocessor(tokens, length),
        )
    else:
        model = models.SynthesizerCausalLM(
            models.SynthesizerBackbone(
                **sizes,
                synthesizer=name,
                causal=True,
                activation=gelu,
                dtype=dtype,
            ),
            models.SynthesizerCausalLMPreprocessor(tokens, length),
        )
    model.compile(sampler="greedy")
    return model


def writing(model, count):
    """Returns a function that continues prompts, and how many tokens it writes.

    No token ends a text, so that all models of one length write as many.
    """
    letters = np.random.default_rng(0).choice(
        [*string.ascii_lowercase], (count, PROMPT // 2 + 1, 2)
    )
    texts = [".".join(map("".join, words)) for words in letters]
    inputs = model.preprocessor.generate_preprocess(texts)
    written = model.make_generate_function()(inputs, stop_token_ids=None)
    given, found = (
        int(np.sum(ops.convert_to_numpy(x["padding_mask"]) != 0))
        for x in (inputs, written)
    )
    return lambda: model.generate(texts, stop_token_ids=None), found - given
