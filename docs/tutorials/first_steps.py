"""
Title: First steps
Description: Swap the attention of a Keras model for a synthesizer, and see what
each synthesizer's matrix looks like, what it can learn, and what a mixture
makes of its parts.
"""

"""
## Introduction

Attention is a weighted mean: each token takes a mean of all tokens' values, and
a matrix of weights, a row for each token, says how much of which. A Transformer
makes that matrix by comparing all pairs of tokens. The
[Synthesizer](https://arxiv.org/abs/2005.00743) makes it without comparing any:
from each token alone, or from no token at all, as a table that is trained like
any other weight.

`keras_synth` has each of these as a *synthesizer*, a function from tokens to
attention logits, and one layer around them, `SyntheticAttention`, which is
called as `keras.layers.MultiHeadAttention` is. We swap the one for the other,
then ask three small questions, each of which needs another kind of synthesizer.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_synth

keras.utils.set_random_seed(0)

"""
## The same layer

With the synthesizer `"V"`, the dot product, `SyntheticAttention` *is*
MultiHeadAttention. Weights have the same shapes and order, so they can
be copied, and outputs are equal:
"""

x = keras.random.normal((2, 10, 32))
attention = keras.layers.MultiHeadAttention(num_heads=4, key_dim=8)
expected = attention(x, x)

layer = keras_synth.layers.SyntheticAttention(
    num_heads=4, key_dim=8, synthesizer="V"
)
layer(x, x)
layer.set_weights(attention.get_weights())
difference = ops.max(ops.abs(layer(x, x) - expected))
print(f"largest difference: {float(difference):.0e}")

"""
Any other synthesizer is a letter away. All but V have tables of positions, and
need to know the longest sequence, `max_length`.

| letter | logits of token $i$ for token $j$ | depend on |
|---|---|---|
| V | dot product of a query and a key | the pair |
| D | entry $j$ of a row that an MLP predicts from token $i$ | token $i$ |
| FD | the same, as the product of two short rows | token $i$ |
| R | entry $(i, j)$ of a trained table | nothing |
| FR | the same, as the product of two narrow tables | nothing |
| Fix | entry $(i, j)$ of a table that is never trained | nothing |
| R+V | a weighted sum, with weights that are learned | as its parts |

Here is what makes the matrix, at the size of a base Transformer: how many
weights (value and output projections, the same for all, are left out), and
whether two samples of a batch have the same matrix. Where they do, the layer
computes it once for the whole batch.
"""

names = ["V", "D", "FD", "R", "FR", "Fix", "R+V"]
x = keras.random.normal((2, 256, 512))
print("        weights    trained  same for all samples")
for name in names:
    layer = keras_synth.layers.SyntheticAttention(
        num_heads=8, key_dim=64, synthesizer=name, max_length=256
    )
    _, scores = layer(x, return_attention_scores=True)
    weights, trained = (
        sum(int(np.prod(w.shape)) for w in some)
        for some in (
            layer.synthesizer.weights,
            layer.synthesizer.trainable_weights,
        )
    )
    same = "yes" if ops.all(scores[0] == scores[1]) else "no"
    print(f"{name:4} {weights:10,} {trained:10,}  {same}")

"""
## Three questions

Each sequence has 16 tokens: a key from 0 to 7, each of them twice and in any
order, and a value from 0 to 9. The model sees them as one integer, `10 * key +
value`. For each token we ask for another token's value:

- *mirror*: the token at the mirrored place, last for first. Positions answer
  that.
- *pointer*: the token at the position that this token's key names. Each token
  knows that by itself.
- *partner*: the other token that has the same key. For that, tokens must be
  compared.
"""

LENGTH, KEYS, VALUES = 16, 8, 10
rng = np.random.default_rng(0)


def make_data(count):
    twice = np.tile(np.repeat(np.arange(KEYS), 2), (count, 1))
    keys = rng.permuted(twice, axis=1)
    values = rng.integers(VALUES, size=(count, LENGTH))
    same = keys[:, :, None] == keys[:, None, :]
    partners = np.argmax(same & ~np.eye(LENGTH, dtype=bool), axis=-1)
    places = {
        "mirror": np.broadcast_to(np.arange(LENGTH)[::-1], keys.shape),
        "pointer": keys,
        "partner": partners,
    }
    answers = {
        question: np.take_along_axis(values, place, axis=1)
        for question, place in places.items()
    }
    return 10 * keys + values, answers


train_tokens, train_answers = make_data(16_000)
test_tokens, test_answers = make_data(1_000)
questions = list(test_answers)
print(train_tokens[0])
for question in questions:
    print(f"{question:8}", train_answers[question][0])

"""
The model is a small Transformer block with one attention head, so that there is
one matrix to look at. It has no position embeddings: what knows positions is
the synthesizer, or nothing. A second model, on the same layers, returns the
attention weights.
"""


def build(attention):
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(KEYS * VALUES, 32)(tokens)
    context, scores = attention(x, x, return_attention_scores=True)
    x = keras.layers.LayerNormalization()(x + context)
    x = keras.layers.Dense(64, activation="relu")(x)
    outputs = keras.layers.Dense(VALUES, activation="softmax")(x)
    return keras.Model(tokens, outputs), keras.Model(tokens, scores)


model, _ = build(keras.layers.MultiHeadAttention(num_heads=1, key_dim=32))
print(f"with MultiHeadAttention: {model.count_params():,} weights")


def synthetic_attention(name):
    return keras_synth.layers.SyntheticAttention(
        num_heads=1, key_dim=32, synthesizer=name, max_length=LENGTH
    )


model, _ = build(synthetic_attention("R"))
print(f"with R:                  {model.count_params():,} weights")

"""
That is the whole swap: another constructor, and `max_length`. Now every
synthesizer answers every question, each after a few hundred steps:
"""


def train(name, question, epochs=1):
    keras.utils.set_random_seed(1)
    attention = synthetic_attention(name)
    model, scores = build(attention)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(
        train_tokens,
        train_answers[question],
        batch_size=64,
        epochs=epochs,
        verbose=0,
    )
    _, accuracy = model.evaluate(
        test_tokens, test_answers[question], batch_size=500, verbose=0
    )
    weights = ops.convert_to_numpy(scores(test_tokens[:2]))[:, 0]
    return accuracy, weights, attention.synthesizer


accuracies, matrices = {}, {}
print("     ", *(f"{question:>8}" for question in questions))
for name in names:
    for question in questions:
        accuracies[name, question], matrices[name, question], _ = train(
            name, question
        )
    row = (f"{accuracies[name, question]:8.0%}" for question in questions)
    print(f"{name:5}", *row)

"""
Each kind answers the question that suits it, and no other. Those that fail stay
near 24%, what the mean of all values gives; R and FR do a little better on
*pointer* since they learn that the answer is among the first eight. R+V answers
what either of its parts does.

## What the matrices look like

`return_attention_scores=True` returns the weights after the softmax, `(B, H, T,
S)`. A row is a token that attends, a column one that is attended to:
"""

figure, axes = plt.subplots(3, 7, figsize=(11, 5.4), layout="constrained")
for row, question in zip(axes, questions, strict=True):
    for axis, name in zip(row, names, strict=True):
        axis.imshow(matrices[name, question][0], vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
        axis.set_title(f"{name}, {accuracies[name, question]:.0%}")
    row[0].set_ylabel(question)
plt.show()

"""
In the first row R and FR have learned the mirror as a table, and R+V took it
from R. In the second, D and FD look up the position that a token names: equal
keys, equal rows. In the third, V finds the other token with the same key: each
pair shows twice, on both sides of the diagonal. (A token sees itself there,
too, which does no harm: its own value is known.) Everything else is a mean of
many tokens.

A second sample shows what belongs to the batch and what to the sample. The
mirror is the same, D's rows have moved with their tokens, and V has found other
pairs:
"""

shown = [("R", "mirror"), ("D", "pointer"), ("V", "partner")]
figure, axes = plt.subplots(2, 3, figsize=(5, 3.6), layout="constrained")
for column, (name, question) in zip(axes.T, shown, strict=True):
    for i, axis in enumerate(column):
        axis.imshow(matrices[name, question][i], vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
    column[0].set_title(f"{name}, {question}")
axes[0, 0].set_ylabel("sample 1")
axes[1, 0].set_ylabel("sample 2")
plt.show()

"""
## What a mixture makes of its parts

A sum of names is a mixture: `alpha_1 S_1 + alpha_2 S_2 + ...`, with one softmax
over the tokens. The alphas are a softmax as well, of trained weights that start
at zero, so that all parts begin with equal shares. A mixture of D, R and V
learns which of them a question needs:
"""

parts = ["D", "R", "V"]
figure, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
left = np.zeros(len(questions))
shares, titles = [], []
for question in questions:
    accuracy, _, mixture = train("D+R+V", question, epochs=2)
    shares.append(ops.convert_to_numpy(ops.softmax(mixture.alphas, axis=0)))
    titles.append(f"{question}, {accuracy:.0%}")
for part, share in zip(parts, np.array(shares)[:, :, 0].T, strict=True):
    bars = axis.barh(titles, share, left=left, label=part)
    axis.bar_label(bars, fmt="%.2f", label_type="center")
    left += share
axis.invert_yaxis()
axis.set_xlabel("alpha")
axis.legend(ncols=3, bbox_to_anchor=(1, 1), loc="lower right")
plt.show()

"""
All began at 0.33, and in each case the part that answers the question has
gained. Shares are not the whole story: a part may also grow by its own weights,
as R does by larger entries. With more heads each head has alphas of its own;
`"mixture(R + V, per_head=False)"` gives the layer one set.

## For the real thing

- In a model of your own, replace `MultiHeadAttention(num_heads, key_dim)` by
  `SyntheticAttention(num_heads, key_dim, synthesizer="FR", max_length=512)`.
  All other arguments, masks and `use_causal_mask` are the same. `max_length` is
  the longest sequence that will ever come; shorter ones use the first rows and
  columns of the tables.
- Keep position embeddings if you use V, D or FD. R and FR know positions by
  themselves.
- Real text asks such questions all at once. In the paper mixtures, R+V and D+V,
  do best; on IMDB here the dot product does. `keras-synth compare` compares
  variants on your own data.
- `keras_synth.layers.SynthesizerEncoder` and `SynthesizerDecoder` are whole
  blocks, and `keras_synth.models` has whole models that read strings: the next
  tutorial trains one.
"""
