"""
Title: Looking inside
Description: See what the attention heads of a trained model do, in pictures and
in numbers, and find out which of them need no queries and keys.
"""

"""
## Introduction

`keras_synth.analysis` reads attention weights out of a model while it runs: a
model of this package, KerasHub's BERT, GPT-2 and others, or any Keras model
with `MultiHeadAttention` or `SyntheticAttention`. The model stays as it is.

We train a small tagger whose attention is the dot product, as it is everywhere
else, and ask of each of its eight heads: does it compare tokens, or does it do
nearly the same for all sentences? A head of the second sort can be a table. At
the end we replace some heads by tables, and see whether we were right.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

from keras_synth import analysis, datasets, models, surgery

# %matplotlib inline
SEED = 0
LENGTH = 32  # tokens
keras.utils.set_random_seed(SEED)

"""
## A model to look at

The task is to find names, and to say whether each is a person's, a place's or
an organisation's. All three kinds have the same names, so that the model has to
look at the words around: sometimes the next one, sometimes one three words on.
"""

sentences, tags = datasets.generated_entities(3_000, seed=2 * SEED)
test_sentences, test_tags = datasets.generated_entities(400, seed=2 * SEED + 1)
kinds = datasets.CLASS_NAMES["generated_entities"]
for words, own in zip(sentences[:3], tags, strict=False):
    print(" ".join(f"{w}/{t}" for w, t in zip(words, own, strict=True)))

pieces = models.SynthesizerBytePairTokenizer.from_texts(
    [" ".join(words) for words in sentences], vocabulary_size=2_000
)
preprocessor = models.SynthesizerTokenClassifierPreprocessor(
    pieces, sequence_length=LENGTH
)


def train(synthesizer, epochs):
    keras.utils.set_random_seed(SEED)
    tagger = models.SynthesizerTokenClassifier(
        models.SynthesizerBackbone(
            vocabulary_size=pieces.vocabulary_size(),
            num_layers=2,
            num_heads=4,
            hidden_dim=64,
            intermediate_dim=128,
            synthesizer=synthesizer,
            dropout=0.0,
            max_sequence_length=LENGTH,
        ),
        num_classes=len(kinds),
        preprocessor=preprocessor,
        class_names=kinds,
    )
    tagger.compile(optimizer=keras.optimizers.Adam(2e-3))
    tagger.fit(sentences, tags, batch_size=32, epochs=epochs, verbose=0)
    return tagger


def entities(rows):
    """Whole names: sentence, kind, first word and the one after the last."""
    found = set()
    for number, row in enumerate(rows):
        start = None
        for i, tag in enumerate([*row, "O"]):
            if start is not None and tag == f"I-{row[start][2:]}":
                continue
            if start is not None:
                found.add((number, row[start][2:], start, i))
            start = None if tag == "O" else i
    return found


def entity_f1(right, found):
    right, found = entities(right), entities(found)
    return 2 * len(right & found) / (len(right) + len(found))


def score(tagger):
    return entity_f1(test_tags, tagger.tag(test_sentences))


tagger = train("V", epochs=3)
print(f"entity F1 of {len(test_sentences)} new sentences: {score(tagger):.3f}")

"""
## One sentence

`attention_weights` takes a batch of the model's inputs, such as the
preprocessor makes of strings, and returns an array `(B, H, T, S)` for each
layer. `sample_of` takes one sentence out of the batch, without its padding.
"""

sentence = "The sailor wrote about Lincoln , the widow , and left .".split()
inputs = {
    name: ops.convert_to_numpy(x)
    for name, x in preprocessor([sentence]).items()
}
one = analysis.sample_of(inputs)
weights = analysis.attention_weights(tagger.backbone, one)
for name, array in weights.items():
    print(name, array.shape)

analysis.plot_heads(weights)

"""
Rows of the sheet are layers, and columns are heads. In a panel each row is a
token that attends, each column one that is attended to. A closer look at the
second layer, with the tokens beside it:
"""

first, second = weights
tokens = [pieces.id_to_token(int(i)) for i in one["token_ids"][0]]
tokens = [token.replace("Ġ", "") for token in tokens]
figure, panels = plt.subplots(2, 2, figsize=(7, 7), layout="constrained")
for head, axis in enumerate(panels.flat):
    axis.imshow(weights[second][0, head], cmap="magma")
    axis.set_title(f"head {head}")
    axis.set_xticks(range(len(tokens)), tokens, rotation=90)
    axis.set_yticks(range(len(tokens)), tokens)
plt.show()

"""
Heads 0 and 3 look at the name, *Lincoln*, from many places. In another sentence
the name is elsewhere, and a table could not follow it. But a picture of one
sentence only suggests what a head does. To know whether it does so in every
sentence, count.

## Numbers over many sentences

`attention_statistics` runs over a data set and holds one batch at a time.
Padding is left out. Each number has an entry for each head:

- *entropy*, in nats: how many tokens a query spreads its weight over;
- *mean distance*, in tokens: how far it reaches;
- *input dependence*: the share of the weights that their average over all
  sentences leaves over, `sum (A - mean A)^2 / sum A^2`. It is 0 for a head that
  does the same for all inputs.

We take training sentences, so that nothing is chosen by those that we test on.
"""

data = {
    name: ops.convert_to_numpy(x)
    for name, x in preprocessor(sentences[:512]).items()
}
statistics = analysis.attention_statistics(tagger.backbone, data)
dependence = np.stack([own.input_dependence() for own in statistics.values()])
print("layer  head  entropy  distance  input dependence")
for layer, own in enumerate(statistics.values()):
    columns = own.entropy(), own.mean_distance(), own.input_dependence()
    for head, numbers in enumerate(zip(*columns, strict=True)):
        entropy, distance, share = numbers
        row = f"{entropy:7.2f}  {distance:8.1f}  {share:16.2f}"
        print(f"{layer:5}  {head:4}  {row}")

plt.matshow(dependence, cmap="cividis", vmin=0)
plt.colorbar(label="input dependence")
plt.xlabel("head")
plt.ylabel("layer")
plt.show()

"""
## Which heads could be static

A table is the best that does not look at its input, and input dependence says
what such a table leaves over. So heads with the lowest input dependence should
be the ones to replace, and those with the highest the ones to keep.
`surgery.synthesize` replaces the heads that we name by tables, which it fits to
the heads' weights over `data`. Nothing is trained:
"""

order = [
    divmod(int(i), dependence.shape[1]) for i in np.argsort(dependence.ravel())
]
print("from least to most:", *order)

COUNTS = [0, 2, 4]
curves = {"least dependent": order, "most dependent": order[::-1]}
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for name, chosen in curves.items():
    scores = [score(tagger)]
    for count in COUNTS[1:]:
        student = surgery.synthesize(tagger, data, by=chosen[:count])
        scores.append(score(student))
    print(f"{name:16}", *(f"{value:.3f}" for value in scores))
    axis.plot(COUNTS, scores, marker="o", label=name)
axis.set(
    xticks=COUNTS,
    xlabel="heads replaced by tables, of 8",
    ylabel="entity F1",
    ylim=(0, 1),
)
axis.legend()
plt.show()

"""
The number was right about the order. In this run tables cost 0.02 of the score
if they replace the two heads that depend least, and 0.57 of it if they replace
the two that depend most.

It says nothing about how many heads you may replace. Here even the lowest is
far from 0, since this task asks for comparisons. So replace a few, and score on
held-out data. `synthesize` chooses by the same number by itself, and `distill`
trains the result to do what the model did, without labels:
"""

everything = {
    name: ops.convert_to_numpy(x) for name, x in preprocessor(sentences).items()
}
student = surgery.synthesize(tagger, data, heads=2)
before = score(student)
training = surgery.distill(student.backbone, tagger.backbone)
training.compile(keras.optimizers.AdamW(1e-3))
training.fit(everything, batch_size=32, epochs=2, verbose=0)
print(f"all heads compare:               {score(tagger):.3f}")
print(f"two static heads, as they are:   {before:.3f}")
print(f"two static heads, distilled:     {score(student):.3f}")

"""
[Convert a pretrained encoder](converting_an_encoder.md) does the same with a
published model.

## What a mixture weighs

A model with `"R+V"` has both in every head, and *learns* how much of each it
needs: a share for each part, which begins at a half. `tables` returns the
shares as `alphas`, with all that a model has learned about positions.
"""

mixed = train("R+V", epochs=2)
print(f"entity F1 after two epochs: {score(mixed):.3f}")
for name, table in analysis.tables(mixed.backbone).items():
    if name.endswith("alphas"):
        print(name.split("/")[0], "share of R:", table[0].round(2))

"""
In two epochs the shares have hardly moved. That does not say that both parts do
as much: a part also grows by its own weights. `parts=True` returns what each
part would do alone, R in the rows of `part_0` and V in those of `part_1`:
"""

alone = analysis.attention_weights(mixed.backbone, one, parts=True)
alone = {name: array for name, array in alone.items() if "part_" in name}
analysis.plot_heads(alone)

"""
R is still close to even attention, and V does what there is to do, with half of
the share.

## For the real thing

- Take data as the model will see them. Numbers of one corpus need not hold for
  another, nor those of short texts for long ones.
- Look at several seeds before you say what "the" model does: heads trade
  places.
- Low input dependence is a reason to *try* R or a table. A head that looks at
  the last separator is simple and depends on the input, since the place of the
  separator does.
- [Looking inside](../analysis.md) lists all numbers and pictures, and shows 72
  heads of a published encoder.
"""
