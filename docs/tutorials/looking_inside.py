"""
Title: Looking inside
Description: Show the attention heads of a trained model in pictures and
numbers, and find the heads that need no queries and keys.
"""

"""
## Introduction

`keras_synth.analysis` returns the attention weights of a model while it runs.
The model may be from this package, KerasHub's BERT, GPT-2 and others, or any
Keras model with `MultiHeadAttention` or `SyntheticAttention`. It is not
changed.

We train a small tagger with dot-product attention (V). For each of its eight
heads, we find out whether it compares tokens or has nearly the same weights
for all sentences. A table can replace a head of the second kind. At the end,
we replace some heads with tables and measure the effect.
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
## A trained model

The task is to find names of persons, places and organizations. All three kinds
have the same names, so the model needs the words around them: sometimes the
next word, sometimes one three words later.
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

`attention_weights` accepts a batch of inputs, for example from the
preprocessor, and returns an array `(B, H, T, S)` for each layer. `sample_of`
selects one sentence of the batch, without padding.
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
Rows of the figure are layers, and columns are heads. In a panel, each row is a
token that attends, and each column is a token that it attends to. Here is the
second layer with its tokens:
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
In heads 0 and 3, many tokens attend to the name, *Lincoln*. In another
sentence, the name has another position, which a table does not depend on. A
picture shows only one sentence, so we compute statistics of many.

## Statistics of many sentences

`attention_statistics` reads a data set, with one batch in memory at a time.
Padding is excluded. Each statistic has an entry for each head:

- *entropy*, in nats, is larger if a query attends to more tokens;
- *mean distance*, in tokens, is the mean distance of query and key;
- *input dependence*, `sum (A - mean A)^2 / sum A^2`, is the fraction of the
  weights not explained by their average over all sentences. It is 0 for a head
  with the same weights for all inputs.

We use training sentences, so that the choice of heads does not depend on the
test data.
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
## Which heads could be static?

Input dependence is the error of the best table. So heads with the lowest input
dependence should be replaced, and heads with the highest should be kept.
`surgery.synthesize` replaces the given heads with tables, fitted to their
weights on `data`, without training:
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
Input dependence predicts the order. In this run, tables for the two heads with
the lowest input dependence cost 0.02 of the score, and tables for the two with
the highest cost 0.57.

It does not predict how many heads you can replace. Here, even the lowest is
far from 0, because the task needs comparisons. So replace a few heads, and
score on held-out data. By default, `synthesize` selects heads by input
dependence. `distill` trains the result to reproduce the outputs of the model,
without labels:
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

## The alphas of a mixture

A model with `"R+V"` has Random (R), a trained table of positions, and V in
every head. It learns an alpha for each part, initially 0.5. `tables` returns
the alphas and all tables of positions.
"""

mixed = train("R+V", epochs=2)
print(f"entity F1 after two epochs: {score(mixed):.3f}")
for name, table in analysis.tables(mixed.backbone).items():
    if name.endswith("alphas"):
        print(name.split("/")[0], "share of R:", table[0].round(2))

"""
After two epochs, the alphas have changed little. That does not mean that both
parts have the same influence, because a part also grows by its own weights.
`parts=True` returns the weights of each part, R in the rows of `part_0` and V
in the rows of `part_1`:
"""

alone = analysis.attention_weights(mixed.backbone, one, parts=True)
alone = {name: array for name, array in alone.items() if "part_" in name}
analysis.plot_heads(alone)

"""
R is still close to uniform attention, and V determines the output, with an
alpha of about one half.

## For the real thing

- Use data like those that the model will receive. Statistics of one corpus may
  differ from another, and those of short texts from long ones.
- Look at several seeds before you draw conclusions, because heads change
  places.
- Low input dependence is a reason to *try* a table. A head that attends to the
  last separator is simple, but depends on the input, because the position of
  the separator does.
- [Look inside a model](../analysis.md) lists all statistics and plots, and
  shows 72 heads of a published encoder.
"""
