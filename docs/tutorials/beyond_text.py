"""
Title: Beyond text
Description: Classify pictures with attention over two axes, show a trained
table of positions as pictures, and label the words of sentences.
"""

"""
## Introduction

Synthesizers work with any tokens. Here, tokens are first patches of a picture,
with an axis for the height and one for the width, and then words that need a
label each.

In the pictures, the answer is a relation of positions, which Random (R) can
learn in a table. In the sentences, it is a relation of words, which dot
product (V) compares.
"""

import os
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import layers, ops

import keras_synth
from keras_synth import datasets, models

SEED = 0
keras.utils.set_random_seed(SEED)

"""
## Symmetric pictures

Each picture is a blot of 6 x 6 patches of 4 x 4 pixels. Half of the patches
are ink. The picture is symmetric, except for one patch in twenty, which is
flipped. The four classes are the symmetries: left and right, top and bottom,
half a turn, and the diagonal.

Colours are random, and all classes have about the same amount of ink. So
single patches do not help; each patch has to be compared with its mirror
image.
"""

SIDE, PATCH = 6, 4  # patches along a side, pixels along a patch
SYMMETRIES = {
    "left-right": lambda x: x[:, :, ::-1],
    "top-bottom": lambda x: x[:, ::-1],
    "half turn": lambda x: x[:, ::-1, ::-1],
    "diagonal": lambda x: x.transpose(0, 2, 1),
}


def make_pictures(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(SYMMETRIES), size=count)
    heights = rng.random((count, SIDE, SIDE))
    for label, mirrored in enumerate(SYMMETRIES.values()):
        rows = labels == label
        heights[rows] = np.minimum(heights[rows], mirrored(heights[rows]))
    ink = heights < np.median(heights, axis=(1, 2), keepdims=True)
    ink ^= rng.random(ink.shape) < 0.05
    pixels = ink.repeat(PATCH, axis=1).repeat(PATCH, axis=2)
    pictures = pixels[..., None] * rng.uniform(0.4, 1, (count, 1, 1, 3))
    pictures += rng.normal(0, 0.05, pictures.shape)
    return np.clip(pictures, 0, 1).astype("float32"), labels


train_data = make_pictures(6_000, seed=2 * SEED)
test_data = make_pictures(1_000, seed=2 * SEED + 1)

figure, axes = plt.subplots(1, 6, figsize=(10, 2), layout="constrained")
for axis, picture, label in zip(axes, *train_data, strict=False):
    axis.imshow(picture)
    axis.set_title([*SYMMETRIES][label])
    axis.set(xticks=[], yticks=[])
plt.show()

"""
## Attention over two axes

A convolution turns each patch into a vector, with shape `(B, 6, 6, 32)`. This
need not be flattened: with `attention_axes=(1, 2)`, all 36 patches attend to
each other along height and width, and `max_length` is the product of both.
Other axes are treated like the batch: `attention_axes=(2,)` would be attention
within each row.

The rest is a small [vision Transformer](https://arxiv.org/abs/2010.11929). V
does not depend on positions, so position embeddings are added to the patches
in all variants. A second model with the same layers returns the attention
weights of the last block.
"""


class PositionEmbedding(layers.Layer):
    """Adds a trained vector to each place."""

    def build(self, shape):
        self.table = self.add_weight(
            shape=shape[1:], initializer="uniform", name="table"
        )

    def call(self, x):
        return x + self.table


def build_model(synthesizer, side, patch, num_classes, width=32):
    pictures = keras.Input((side * patch, side * patch, 3))
    x = layers.Conv2D(width, patch, strides=patch)(pictures)
    x = PositionEmbedding()(x)  # (B, side, side, width)
    attention = keras_synth.layers.SyntheticAttention(
        num_heads=4,
        key_dim=width // 4,
        synthesizer=synthesizer,
        attention_axes=(1, 2),
        max_length=side * side,
    )
    y = layers.LayerNormalization()(x)
    _, scores = attention(y, y, return_attention_scores=True)
    x = x + attention(y, y)
    y = layers.LayerNormalization()(x)
    y = layers.Dense(2 * width, activation="relu")(y)
    x = x + layers.Dense(width)(y)
    x = layers.LayerNormalization()(x)
    x = layers.GlobalAveragePooling2D()(x)
    logits = layers.Dense(num_classes)(x)
    return keras.Model(pictures, logits), keras.Model(pictures, scores)


def train(
    synthesizer, train_data, test_data, epochs, learning_rate=1e-2, **options
):
    keras.utils.set_random_seed(SEED)
    model, scores = build_model(synthesizer, **options)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(
        *train_data,
        batch_size=64,
        epochs=epochs,
        validation_data=test_data,
        verbose=0,
    ).history
    return history["val_accuracy"], scores


"""
The learning rate is high for a Transformer. Entries of a table start near zero
and have to grow to several units before one patch has more weight than 35
others. In each step, Adam changes a weight by at most about the learning rate.
"""

curves, scores = {}, {}
for name in ["V", "R", "R+V"]:
    curves[name], scores[name] = train(
        name,
        train_data,
        test_data,
        epochs=30,
        side=SIDE,
        patch=PATCH,
        num_classes=len(SYMMETRIES),
    )
    print(f"{name:4} test accuracy {curves[name][-1]:.1%}")

plt.figure(figsize=(6, 3.2), layout="constrained")
for name, curve in curves.items():
    plt.plot(np.arange(1, len(curve) + 1), curve, label=name)
plt.axhline(0.25, color="gray", linestyle=":", label="chance")
plt.xlabel("epochs")
plt.ylabel("test accuracy")
plt.legend()
plt.show()

"""
Symmetry depends on positions, and R learns it as a table. It does not improve
for some epochs, until entries have grown, and is then almost always right. V
has to learn from position embeddings which positions correspond. It improves
from the first epochs, but R overtakes it.

With this seed, R+V follows V instead of R: a mixture is not always as good as
the better part. The alphas of both parts are initially equal, and V improves
first. So compare mixtures with each of their parts.

## A table as pictures

Scores have the axes of the picture, `(B, H, 6, 6, 6, 6)`: for each head and
each patch, a map of 6 x 6 weights. Here are the maps of the patch with the red
frame, for each head:
"""

row, column = 1, 0
names = list(scores)
maps = {
    name: ops.convert_to_numpy(model(test_data[0][:2]))
    for name, model in scores.items()
}
figure, axes = plt.subplots(3, 4, figsize=(6.4, 5), layout="constrained")
for name, line in zip(names, axes, strict=True):
    for head, axis in enumerate(line):
        axis.imshow(maps[name][0, head, row, column], vmin=0, vmax=0.5)
        axis.add_patch(
            plt.Rectangle(
                (column - 0.5, row - 0.5), 1, 1, fill=False, color="red"
            )
        )
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
for head, axis in enumerate(axes[0]):
    axis.set_title(f"head {head}")
plt.show()

"""
V and the mixture attend to single patches, which differ between pictures. R
attends to many patches, and some heads to a mirror image of the patch. The
next maps are sums over the heads, for more patches, with a dot on each mirror
image:
"""


def mirror_images(row, column):
    """Which of the 6 x 6 places mirror this one, in any of the four ways."""
    place = np.zeros((1, SIDE, SIDE), bool)
    place[0, row, column] = True
    images = [mirrored(place)[0] for mirrored in SYMMETRIES.values()]
    return np.any(images, axis=0) & ~place[0]


patches = [(1, 0), (0, 2), (2, 4), (4, 3), (5, 1)]
figure, axes = plt.subplots(1, 5, figsize=(10, 2.2), layout="constrained")
for axis, (row, column) in zip(axes, patches, strict=True):
    axis.imshow(maps["R"][0, :, row, column].sum(axis=0), vmin=0, vmax=1)
    y, x = np.nonzero(mirror_images(row, column))
    axis.plot(x, y, "w.")
    axis.plot(column, row, "rs")
    axis.set(xticks=[], yticks=[])
plt.show()

images = np.array(
    [[mirror_images(r, c) for c in range(SIDE)] for r in range(SIDE)]
)
print(f"weight on mirror images, of even attention: {images.mean():.0%}")
for name in names:
    share = (maps[name] * images).sum(axis=(-2, -1)).mean()
    print(f"weight on mirror images, of {name}: {share:.0%}")
same = np.array_equal(maps["R"][0], maps["R"][1])
print(f"R has the same weights for two pictures: {same}")
same = np.array_equal(maps["V"][0], maps["V"][1])
print(f"V has the same weights for two pictures: {same}")

"""
R has more weight on mirror images than uniform attention, but not all of it:
some pairs of positions are enough to find the class, so the table does not
learn the others. R has one table for all pictures. V computes a matrix for
each picture.

## Photographs

The same model works for CIFAR-10, in patches of 4 x 4. `DOWNLOAD = True`
downloads the data, 170 MB. Without the data, this cell does nothing.
"""

DOWNLOAD = False
home = pathlib.Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser()

if DOWNLOAD or (home / "datasets" / "cifar-10-batches-py-target").exists():
    (x, y), (x_test, y_test) = keras.datasets.cifar10.load_data()
    photographs = x[:10_000] / np.float32(255), y[:10_000]
    test_photographs = x_test / np.float32(255), y_test
    for name in ["V", "R", "R+V"]:
        curve, _ = train(
            name,
            photographs,
            test_photographs,
            epochs=3,
            side=8,
            patch=4,
            num_classes=10,
            learning_rate=2e-3,
        )
        print(f"{name:4} test accuracy on CIFAR-10 {curve[-1]:.1%}")

"""
This uses 10,000 photographs and three epochs. For comparable scores, use all
50,000, several blocks, flips and crops, and tens of epochs on a GPU.
"""

"""
## A label for each word

Sentences have one axis. Each word is labelled as the name of a person (`PER`),
a place (`LOC`) or an organization (`ORG`), or as another word (`O`). `B-`
marks the first word of a name and `I-` the others. In `generated_entities`,
all three kinds have the same names, so the kind depends on the words around a
name: sometimes the next word, sometimes one three words later.
"""

train_sentences, train_tags = datasets.generated_entities(3_000, seed=2 * SEED)
test_sentences, test_tags = datasets.generated_entities(500, seed=2 * SEED + 1)
kinds = datasets.CLASS_NAMES["generated_entities"]
print(kinds)
for sentence, tags in zip(train_sentences[:3], train_tags, strict=False):
    print(" ".join(f"{w}/{t}" for w, t in zip(sentence, tags, strict=True)))

"""
`SynthesizerTokenClassifier` accepts lists of words and lists of labels. Its
tokenizer may cut a word into pieces. Each word's label is assigned to its
first piece, and the others do not count. `tag` returns a label for each word.
"""

pieces = models.SynthesizerBytePairTokenizer.from_texts(
    [" ".join(sentence) for sentence in train_sentences], vocabulary_size=2_000
)


def train_tagger(synthesizer):
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
            max_sequence_length=40,
        ),
        num_classes=len(kinds),
        preprocessor=models.SynthesizerTokenClassifierPreprocessor(
            pieces, sequence_length=40
        ),
        class_names=kinds,
    )
    tagger.compile(optimizer=keras.optimizers.Adam(2e-3))
    tagger.fit(train_sentences, train_tags, batch_size=32, epochs=3, verbose=0)
    return tagger


"""
Most words are not names, so accuracy means little. `entity_f1` counts whole
names: a name is right if all of its words and its kind are right. A model that
finds the names but guesses their kinds is right on a third of them.
"""


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


found = {}
for name in ["V", "R", "R+V"]:
    tagger = train_tagger(name)
    found[name] = tagger.tag(test_sentences)
    score = entity_f1(test_tags, found[name])
    print(f"{name:4} entity F1 {score:.3f}")

"""
Where are they wrong? In most sentences, the word that determines the kind is
next to the name or one word further. In "wrote about Lincoln , the widow" and
"spoke of Bristol , a brewery of the fisherman", it is later, and another noun
may follow. Here is the fraction of correct names of both sorts:
"""


def right_names(sentences, expected, found):
    """Two lists of booleans: of names before ", the" or ", a", and others."""
    later, near = [], []
    for words, tags, guesses in zip(sentences, expected, found, strict=True):
        for start, tag in enumerate(tags):
            if not tag.startswith("B-"):
                continue
            end = start + 1
            while tags[end].startswith("I-"):
                end += 1
            is_right = tags[start : end + 1] == guesses[start : end + 1]
            is_later = words[end : end + 2] in ([",", "the"], [",", "a"])
            (later if is_later else near).append(is_right)
    return later, near


places = np.arange(2)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for i, (name, guesses) in enumerate(found.items()):
    groups = right_names(test_sentences, test_tags, guesses)
    shares = [100 * np.mean(group) for group in groups]
    bars = axis.bar(places + 0.27 * (i - 1), shares, 0.25, label=name)
    axis.bar_label(bars, fmt="%.0f")
axis.set(
    xticks=places,
    xticklabels=["told later", "told nearby"],
    ylabel="names that are right, %",
    ylim=(0, 108),
)
figure.legend(ncols=3, loc="outside upper center")
plt.show()

"""
Here the order is reversed. Words have different positions in each sentence, so
a table has to learn the relation for every position, while V finds a *kind* of
word at any position.

The last tagger, R+V, accepts any words:
"""

words = (
    "The singer wrote about Milan , the publisher , and moved to Kent".split()
)
for word, tag in zip(words, tagger.tag([words])[0], strict=True):
    print(f"{word:10} {tag}")

"""
## For the real thing

- `attention_axes` accepts any axes. `(1,)` and `(2,)` in turn are attention
  along columns and rows, and `max_length` is the length of one. For a video,
  `(1, 2, 3)` are all axes, and `max_length` is their product.
- Tables are for one size of picture. For smaller inputs, Dense (D), R and
  Factorized Random (FR) use the first rows and columns, which in pictures are
  other positions. Train with the size that you use.
- R has as many weights per head as the square of the number of patches: 38,416
  for 14 x 14 patches. `"FR(rank=8)"` has 3,136.
- The best synthesizer depends on whether the answer is in positions or
  contents. If you do not know, compare V, R and R+V with several seeds.
- `examples/sequence_labelling.py` trains taggers on UD English EWT, with
  learning curves and model cards.
"""
