"""
Title: First steps
Description: Replace the attention of a Keras model with a synthesizer, and see
the matrix of each synthesizer, the questions that it can learn, and a mixture.
"""

"""
## Introduction

Attention is a weighted mean of the values of all tokens. The weights are a
matrix with a row for each token. A Transformer computes this matrix by
comparing all pairs of tokens. The
[Synthesizer](https://arxiv.org/abs/2005.00743) does not compare tokens: it
predicts the row of each token from this token, or uses a table that is trained
like any other weight.

In `keras_synth`, each of these is a *synthesizer*, a function from tokens to
attention logits. The layer `SyntheticAttention` works with any synthesizer and
is called like `keras.layers.MultiHeadAttention`. We replace one with the
other, then ask three small questions, each of which needs a different
synthesizer.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_synth

keras.utils.set_random_seed(0)

"""
## The same layer

With the dot product, `"V"`, `SyntheticAttention` *is* MultiHeadAttention.
Weights have the same shapes and order. After they are copied, outputs are
equal:
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
Other synthesizers have other letters. Except V, those in this table have
positions and need the longest sequence, `max_length`.

| letter | logits of token $i$ for token $j$ | depend on |
|---|---|---|
| V, dot product | dot product of a query and a key | the pair |
| D, Dense | entry $j$ of a row that an MLP predicts from $i$ | token $i$ |
| FD, Factorized Dense | the same, as a product of two short rows | token $i$ |
| R, Random | entry $(i, j)$ of a trained table | nothing |
| FR, Factorized Random | the same, a product of two narrow tables | nothing |
| Fix, Fixed Random | entry $(i, j)$ of an untrained table | nothing |
| R+V | a weighted sum, with learned weights | as its parts |

The next cell prints the number of weights that produce the matrix, at the size
of a base Transformer (without the value and output projections, which all
variants have), and whether two samples of a batch have the same matrix. If
they do, the layer computes it once for the whole batch.
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

Each sequence has 16 tokens. A token has a key from 0 to 7, each of them twice
and in any order, and a value from 0 to 9. The model sees one integer, `10 *
key + value`. For each token, the model must return another token's value:

- *mirror*: the token at the mirrored position. Positions are enough.
- *pointer*: the token at the position that this token's key names. Each token
  is enough.
- *partner*: the other token with the same key. Tokens must be compared.
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
The model is a small Transformer block with one attention head and therefore
one matrix. It has no position embeddings, so only the synthesizer may depend
on positions. A second model with the same layers returns the attention
weights.
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
Only the constructor and `max_length` are new. Now every synthesizer is trained
for a few hundred steps on every question:
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
Each kind of synthesizer answers only the question that suits it. The others
stay near 24%, the accuracy of guessing from the mean of all values. R and FR
score slightly more on *pointer*, because they learn that the answer is among
the first eight tokens. R+V answers the questions of both parts.

## The matrices

`return_attention_scores=True` returns the weights after the softmax, `(B, H,
T, S)`. Rows are tokens that attend, and columns are tokens that they attend
to:
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
In the first row of pictures, R and FR have learned the mirror as a table, and
R+V has it from R. In the second, D and FD attend to the position that a token
names, so equal keys have equal rows. In the third, V finds the other token
with the same key, and each pair appears twice, on both sides of the diagonal.
(A token also attends to itself, which does no harm, because its own value is
known.) All other pictures are means of many tokens.

In a second sample, the mirror is the same, D's rows have moved with their
tokens, and V has found other pairs:
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
## The alphas of a mixture

A sum of names is a mixture: `alpha_1 S_1 + alpha_2 S_2 + ...`, with one
softmax over the tokens. The alphas are a softmax of trained weights that start
at zero, so all alphas are initially equal. A mixture of D, R and V learns
which part a question needs:
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
All alphas started at 0.33. For each question, the alpha of the part that
answers it has grown. A part may also grow by its own weights, as R by larger
entries. With several heads, each head has its own alphas. `"mixture(R + V,
per_head=False)"` has one set of alphas for the layer.

## For the real thing

- In your own model, replace `MultiHeadAttention(num_heads, key_dim)` with
  `SyntheticAttention(num_heads, key_dim, synthesizer="FR", max_length=512)`.
  All other arguments, masks and `use_causal_mask` are the same. `max_length`
  is the length of the longest sequence. Shorter ones use the first rows and
  columns of the tables.
- Keep position embeddings if you use V, D or FD. R and FR do not need them.
- Real text combines such questions. In the paper, the mixtures R+V and D+V
  score best. In this package, the dot product scores best on IMDB.
  `keras-synth compare` compares variants on your own data.
- `keras_synth.layers.SynthesizerEncoder` and `SynthesizerDecoder` are whole
  blocks. `keras_synth.models` has whole models that read strings. The next
  tutorial trains one.
"""
