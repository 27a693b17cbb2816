"""
Title: Translation and generation
Description: Train a translation model and a language model with synthesizers,
generate text with several samplers, and measure the decoding cache.
"""

"""
## Introduction

A Transformer generates one token at a time, and caches the keys and values of
all earlier tokens. For long texts and large batches, this cache fills the
memory. A synthesizer that does not compare tokens has no keys, so its cache is
half as large. This tutorial trains a translation model with such a decoder,
measures its cache, and trains a language model.
"""

import collections
import os
import pathlib

import keras
import keras_hub
import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from sacrebleu.metrics import BLEU

from keras_synth import datasets, models, training

keras.utils.set_random_seed(0)

"""
## Data

[Multi30K](https://github.com/multi30k/dataset) has captions of photographs,
translated from English to German. Set `KERAS_SYNTH_DATA` to a folder with
`multi30k`, or put it next to the notebook. To train in minutes on a CPU, we
use only captions of at most ten words.

Without the folder, we use generated English sentences and their translations
to an invented language, in which the verb is last, adjectives follow their
nouns, and endings agree.
"""

WORDS = 10


def short(pairs):
    kept = [
        pair
        for pair in zip(*pairs, strict=True)
        if all(len(text.split()) <= WORDS for text in pair)
    ]
    return [[*texts] for texts in zip(*kept, strict=True)]


multi30k = pathlib.Path(os.environ.get("KERAS_SYNTH_DATA", "."), "multi30k")
if multi30k.is_dir():
    (sources, targets), (test_sources, test_targets) = (
        short(
            datasets.read([multi30k / f"{split}.{x}.gz" for x in ("en", "de")])
        )
        for split in ("train", "test_2016_flickr")
    )
    vocabulary_size, epochs = 2_000, 5
    prompts = ["A man in a blue shirt", "Two children"]
else:
    pairs = datasets.generated_translations(6_200)
    sources, targets = (side[:6_000] for side in pairs)
    test_sources, test_targets = (side[6_000:] for side in pairs)
    vocabulary_size, epochs = 600, 4
    prompts = ["the big dogs", "two cats do not"]

train = {"encoder_text": sources, "decoder_text": targets}
print(f"{len(sources):,} pairs to train on, {len(test_sources)} to test on")
for i in range(2):
    print(sources[i], "->", targets[i])

"""
`datasets.read` also reads your own pairs of files, and returns two lists of
strings.

## Baseline

The baseline is a translation memory of the training pairs. It finds the source
with the most words of the new sentence, where rare words count more, and
returns its translation. BLEU measures how many words, and sequences of up to
four words, are in the correct translation; 100 is a perfect match.
"""

places = collections.defaultdict(list)
for i, text in enumerate(sources):
    for word in {*text.lower().split()}:
        places[word].append(i)
sizes = np.array([len({*text.split()}) for text in sources])


def look_up(text):
    likeness = np.zeros(len(sources))
    for word in {*text.lower().split()}:
        if word in places:
            likeness[places[word]] += np.log(len(sources) / len(places[word]))
    return targets[np.argmax(likeness / np.sqrt(sizes))]


def bleu(written):
    return BLEU().corpus_score(written, [test_targets]).score


remembered = bleu([look_up(text) for text in test_sources])
print(f"BLEU of the translation memory: {remembered:.1f}")

"""
## A translation model

Both languages have one vocabulary. The encoder has a mixture of Random (R) and
dot product (V), `"R+V"`. The decoder attends to its own earlier tokens only by
position, `"R"`. Cross-attention to the source is a dot product, as in the
paper.
"""

tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    sources + targets, vocabulary_size=vocabulary_size
)
lengths = [len(tokens) for tokens in tokenizer(sources + targets)]
print(f"{np.mean(lengths):.0f} tokens on average, {max(lengths)} at most")
LENGTH = min(max(lengths) + 2, 26)  # start and end; few are longer

backbone = models.SynthesizerSeq2SeqBackbone(
    vocabulary_size=tokenizer.vocabulary_size(),
    num_layers=1,
    num_heads=4,
    hidden_dim=96,
    intermediate_dim=192,
    synthesizer="R+V",
    decoder_synthesizer="R",
    dropout=0.0,
    max_sequence_length=LENGTH,
)
preprocessor = models.SynthesizerSeq2SeqLMPreprocessor(
    tokenizer, encoder_sequence_length=LENGTH, decoder_sequence_length=LENGTH
)
translator = models.SynthesizerSeq2SeqLM(backbone, preprocessor)
translator.compile(
    optimizer=keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(
            4e-3, epochs * len(sources) // 64
        )
    ),
    loss=training.LabelSmoothedCrossentropy(label_smoothing=0.1),
    sampler="greedy",
)
translator.fit(train, batch_size=64, epochs=epochs, verbose=2)

"""
`generate` accepts strings and returns strings:
"""

written = translator.generate(test_sources, max_length=LENGTH)
for i in range(4):
    print(f"{test_sources[i]}\n  {written[i]}\n  {test_targets[i]} (right)")
learned = bleu(written)
right = np.mean([a == b for a, b in zip(written, test_targets, strict=True)])
print(f"BLEU {learned:.1f}; of the translation memory {remembered:.1f}")
print(f"{right:.0%} of {len(written)} new sentences are right to the letter")

"""
In minutes, the model has learned the order and agreement of frequent words.
Rare words are wrong: two captions contain an *igloo*. The
[benchmarks](../benchmarks/accuracy.md) list the BLEU of such models after
longer training on all captions.

## Half the cache

`make_caches` makes the caches that `generate` fills. Here are their sizes for
the decoder's self-attention, with a batch of 32 texts of 512 tokens and 6
layers. The models are not trained:
"""


def megabytes(cache):
    tensors = keras.tree.flatten(cache)
    return sum(ops.convert_to_numpy(x).nbytes for x in tensors) / 2**20


sizes = {}
for name in ["V", "R + V", "R", "FR", "D", "local(window=64)", "linear"]:
    backbone = models.SynthesizerBackbone(
        vocabulary_size=600,
        num_layers=6,
        num_heads=4,
        hidden_dim=96,
        intermediate_dim=192,
        synthesizer=name,
        max_sequence_length=512,
        causal=True,
    )
    caches = models.SynthesizerCausalLM(backbone).make_caches(32, 512)
    sizes[name] = megabytes(caches)
    print(f"{name:16} {sizes[name]:5.1f} MiB")

figure, axis = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = axis.barh(list(sizes), list(sizes.values()))
axis.bar_label(bars, fmt="%.1f", padding=3)
axis.invert_yaxis()
axis.set(xlabel="cache, MiB", xlim=(0, 1.15 * max(sizes.values())))
plt.show()

"""
R, Factorized Random (FR) and Dense (D) need half as much as V. A mixture with
V caches V's keys, so it saves nothing. Other mixers need even less: a window
caches only the last tokens, and linear attention only sums. In a translation
model, cross-attention also caches the keys and values of the source, once for
each text.

Without keys, R's weights at step t are row t of a table. Here is the table of
the trained decoder, as multiples of a uniform weight. Rows are positions that
attend, columns are positions that they attend to, and later positions are
hidden:
"""

attention = translator.backbone.decoder.blocks[0].attention
table = ops.convert_to_numpy(attention.synthesizer.R)
visible = np.tril(np.ones((LENGTH, LENGTH), bool))
weights = np.where(visible, np.exp(table), 0)
weights /= weights.mean(axis=-1, where=visible, keepdims=True)
weights[:, ~visible] = np.nan
figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for head, axis in enumerate(axes):
    image = axis.imshow(weights[head], vmin=0, vmax=2.5)
    axis.set(title=f"head {head + 1}", xticks=[], yticks=[])
figure.colorbar(image, ax=axes)
plt.show()

"""
Recent tokens have more weight than older ones. Most of the lower rows are
still close to their initial value, 1, because few sentences are that long.

## A language model and samplers

`SynthesizerCausalLM` continues a prompt. Here, it has D for attention and is
trained only on the English sentences:
"""

lm = models.SynthesizerCausalLM(
    models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=4,
        hidden_dim=96,
        intermediate_dim=192,
        synthesizer="D",
        dropout=0.0,
        max_sequence_length=LENGTH,
        causal=True,
    ),
    models.SynthesizerCausalLMPreprocessor(tokenizer, sequence_length=LENGTH),
)
lm.compile(optimizer=keras.optimizers.Adam(3e-3), sampler="greedy")
lm.fit(sources, batch_size=64, epochs=2, verbose=2)

"""
A sampler selects the next token from its probabilities. `"greedy"` selects the
most likely token, so the text is always the same. `"top_k"` draws among the k
most likely tokens. Prompts of a batch may have different lengths:
"""

samplers = {
    "greedy": "greedy",
    "top 5": keras_hub.samplers.TopKSampler(k=5, seed=0),
}
for name, sampler in samplers.items():
    lm.compile(sampler=sampler)
    for text in lm.generate(2 * prompts, max_length=LENGTH):
        print(f"{name}: {text}")

"""
Other samplers are `"top_p"`, `"random"`, `"contrastive"`, and `"beam"`, which
follows several texts and returns the most likely one. For harder translations,
use `translator.compile(sampler="beam")`.

## For the real thing

- For a larger translation model, `models.config("transformer_base", "R+V")`
  returns the paper's arguments. `examples/translation.py` trains on your own
  pairs, and `keras-synth compare --task translation` compares variants.
- `max_sequence_length` limits the texts of a decoder with tables. Set it to
  the length of the longest text.
- A decoder with V in one or two layers and R or D in the others still saves
  most of the cache, because each layer has its own. `synthesizer=` accepts a
  list with one name for each layer.
- See also [Generate text](../generation.md) and
  [Speed](../benchmarks/speed.md#generating-texts).
"""
