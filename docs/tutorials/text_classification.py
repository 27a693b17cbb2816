"""
Title: Text classification
Description: Train a classifier on strings, save it, load it under another
backend, make a preset, adapt it with LoRA and quantize it to int8.
"""

"""
## Introduction

The models of `keras_synth.models` are KerasHub models. They consist of a
*backbone*, which is a stack of Transformer blocks with any synthesizer, a
*task*, here a classifier, and a *preprocessor*, which turns strings into token
ids. This tutorial trains a model on strings, saves it, loads it under another
backend, adapts it to a second task, and makes it smaller.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import huggingface_hub
import keras
import numpy as np

from keras_synth import datasets, models

keras.utils.set_random_seed(0)


def kilobytes(path):
    return f"{path}: {os.path.getsize(path) / 1024:.0f} kB"


"""
## Data

The data are 25,000 reviews of the [IMDB data
set](https://ai.stanford.edu/~amaas/data/sentiment/). We keep the last 80 words
of each, because most reviews end with an opinion. The second task uses news of
four topics, from [AG News](https://arxiv.org/abs/1509.01626).

Set `KERAS_SYNTH_DATA` to a folder with `imdb` and `ag_news`, or put them next
to the notebook. Otherwise, reviews are generated: two thirds of their
sentences contain an opinion, and the majority of opinions is the label.
"""

folder = pathlib.Path(os.environ.get("KERAS_SYNTH_DATA", "."))
imdb = [x for x in folder.glob("imdb/aclImdb*") if x.is_dir()]
is_real = bool(imdb) and any(folder.glob("ag_news/train.csv*"))


def read(path):
    texts, labels = datasets.read(path)
    return texts, (np.array(labels) == "pos").astype("int32")


if is_real:
    (train_texts, train_labels), (test_texts, test_labels) = (
        ([" ".join(text.split()[-80:]) for text in texts], labels)
        for texts, labels in (read(imdb[0] / x) for x in ("train", "test"))
    )
    test_texts, test_labels = test_texts[::10], test_labels[::10]
    vocabulary_size, sequence_length, epochs = 8_000, 112, 1
else:
    train_texts, train_labels = datasets.generated_reviews(
        2_000, seed=0, hard_fraction=0, max_sentences=4
    )
    test_texts, test_labels = datasets.generated_reviews(
        500, seed=1, hard_fraction=0, max_sentences=4
    )
    vocabulary_size, sequence_length, epochs = 600, 64, 3
order = np.random.default_rng(0).permutation(len(train_texts))
train_texts = [train_texts[i] for i in order]
train_labels = train_labels[order]
names = ["negative", "positive"]
for text, label in zip(train_texts[:3], train_labels[:3], strict=True):
    print(f"{names[label]}: ... {' '.join(text.split()[-20:])}")
print(f"{len(train_texts):,} to train on, {len(test_texts):,} to test on")

"""
`datasets.read` reads any table with a column of texts and a column of labels,
and returns strings and labels as above.

## Baseline

Naive Bayes counts words. A text is positive if its words are more frequent in
positive texts than in negative ones:
"""


def naive_bayes(texts, labels, new_texts):
    def words(text):
        return re.findall(r"[a-z']+", text.lower())

    known = {word: i for i, word in enumerate({*words(" ".join(texts))})}
    counts = np.ones((2, len(known)))
    for text, label in zip(texts, labels, strict=True):
        np.add.at(counts[label], [known[word] for word in words(text)], 1)
    logs = np.log(counts / counts.sum(axis=1, keepdims=True))
    evidence = dict(zip(known, logs[1] - logs[0], strict=True))
    return np.array(
        [sum(evidence.get(w, 0) for w in words(text)) > 0 for text in new_texts]
    )


counted = naive_bayes(train_texts, train_labels, test_texts)
counted_accuracy = np.mean(counted == test_labels)
print(f"naive Bayes: {counted_accuracy:.1%}")

"""
## Fit on strings

A tokenizer learns its vocabulary from the training texts. The preprocessor
adds a start and an end token, and pads or cuts to `sequence_length`.

Attention is Random, `"R"`, one trained table for all texts. It does not
compare tokens and is therefore fast. For the opinion of a review, this is
enough. `max_sequence_length` is the size of the table and the longest text of
the model.
"""

tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    train_texts[:4_000], vocabulary_size=vocabulary_size
)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, sequence_length=sequence_length
)
print(tokenizer.tokenize("The plot was clearly dull."))
print(preprocessor("The plot was clearly dull.")["token_ids"][:10])

backbone = models.SynthesizerBackbone(
    vocabulary_size=tokenizer.vocabulary_size(),
    num_layers=1,
    num_heads=4,
    hidden_dim=64,
    intermediate_dim=128,
    synthesizer="R",
    max_sequence_length=sequence_length,
)
classifier = models.SynthesizerTextClassifier(
    backbone, num_classes=2, preprocessor=preprocessor, class_names=names
)
schedule = keras.optimizers.schedules.CosineDecay(
    3e-3, decay_steps=epochs * len(train_texts) // 64
)
classifier.compile(optimizer=keras.optimizers.AdamW(schedule))
classifier.fit(
    train_texts, train_labels, batch_size=64, epochs=epochs, verbose=2
)
_, accuracy = classifier.evaluate(test_texts, test_labels, verbose=0)
print(f"accuracy on {len(test_texts):,} unseen reviews: {accuracy:.1%}")
print(f"naive Bayes, on the same words: {counted_accuracy:.1%}")

"""
One layer, after one epoch on the ends of the reviews, does not beat the
baseline of word counts. Two layers on whole reviews reach about 86% (see the
[tables of accuracy](../benchmarks/accuracy_tables.md)). Choose a baseline
before you train.

Without `compile`, the optimizer is `AdamW(1e-3)`, and loss and accuracy depend
on the labels, as here. `predict` also accepts strings, and returns logits.
With `class_names`, labels may be names.
"""

reviews = [
    "The plot was truly superb. I thought the script was refreshing.",
    "The plot was truly dull. I thought the script was tedious.",
]
logits = classifier.predict(reviews, verbose=0)
for review, best in zip(reviews, np.argmax(logits, axis=-1), strict=True):
    print(f"{names[best]}: {review}")

"""
## Save, and load under another backend

A `.keras` file contains architecture, vocabulary, weights and optimizer, for
any backend. Here, another process loads it under another backend and predicts:
"""

classifier.save("reviews.keras")
print(kilobytes("reviews.keras"))

script = """
import sys
import keras
import numpy as np
import keras_synth.models  # so that Keras knows the classes

model = keras.saving.load_model("reviews.keras")
logits = model.predict(sys.argv[1:], verbose=0)
np.save(f"{keras.backend.backend()}.npy", logits)
"""
other = next(
    name
    for name in ("torch", "jax", "tensorflow")
    if name != keras.backend.backend() and importlib.util.find_spec(name)
)
run = subprocess.run(
    [sys.executable, "-c", script, *reviews],
    env={**os.environ, "KERAS_BACKEND": other},
    capture_output=True,
    text=True,
)
assert run.returncode == 0, run.stderr
difference = np.abs(np.load(f"{other}.npy") - logits).max()
print(f"{keras.backend.backend()} and {other} differ by {difference:.0e}")

"""
## A preset

A preset is a folder of plain files: configurations as JSON, the vocabulary and
the weights. `from_preset` loads a local folder or, after an upload, an address
such as `"hf://user/name"`. Hugging Face and Kaggle show its `README.md`, the
model card.
"""

classifier.save_to_preset("reviews")
huggingface_hub.ModelCard(
    f"""---
library_name: keras
license: apache-2.0
---
# Sentiment of reviews

A Transformer encoder of one layer, with R for attention. Accuracy on
{len(test_texts):,} unseen reviews: {accuracy:.1%}.

    from keras_synth import models

    classifier = models.SynthesizerTextClassifier.from_preset("reviews")
    classifier.predict(["The plot was truly superb."])
"""
).save("reviews/README.md")
for path in sorted(pathlib.Path("reviews").rglob("*")):
    if path.is_file():
        print(kilobytes(path))

"""
A preset does not contain the optimizer. A task loaded from it may have other
classes. Its head is then new, and its backbone is the trained one.

## Another task, with LoRA

The second task is the topic of a text. LoRA freezes the backbone and learns
updates of low rank: `R` becomes `R + A B`, and a projection `W` becomes `W + A
B`. In the backbone, only A, B and small weights are trained and saved. The
head is new, because the classes are new.

News have four topics. Without these data, the task is to find the generated
reviews that mention a relative of the writer.
"""

RELATIVES = {
    *"aunt brother cousin daughter father mother".split(),
    *"nephew niece sister son uncle".split(),
}


def mentions_relative(texts):
    words = [set(text.replace(".", "").split()) for text in texts]
    return np.array([not RELATIVES.isdisjoint(each) for each in words], "int32")


if is_real:
    columns = {"text": [1, 2], "label": 0, "header": False}
    (texts, labels), (new_texts, new_labels) = (
        ([*map(" ".join, zip(*pairs, strict=True))], labels - 1)
        for pairs, labels in (
            datasets.read(next(folder.glob(f"ag_news/{x}.csv*")), **columns)
            for x in ("train", "test")
        )
    )
    texts, labels = texts[:3_000], labels[:3_000]
    new_texts, new_labels = new_texts[:1_000], new_labels[:1_000]
    topic_names = ["World", "Sports", "Business", "Sci/Tech"]
else:
    texts, labels = train_texts, mentions_relative(train_texts)
    new_texts, new_labels = test_texts, mentions_relative(test_texts)
    topic_names = ["no relative", "a relative"]

topics = models.SynthesizerTextClassifier.from_preset(
    "reviews", num_classes=len(topic_names), class_names=topic_names
)
topics.backbone.enable_lora(rank=4)
topics.compile(optimizer=keras.optimizers.AdamW(2e-2))  # after enable_lora
trained = sum(int(np.prod(w.shape)) for w in topics.trainable_weights)
print(f"{trained:,} of {topics.count_params():,} weights are trained")
topics.fit(texts, labels, batch_size=32, epochs=5, verbose=2)
_, topic_accuracy = topics.evaluate(new_texts, new_labels, verbose=0)
constant = np.bincount(new_labels).max() / len(new_labels)
print(f"accuracy {topic_accuracy:.1%}; a constant answer's: {constant:.1%}")
topics.backbone.save_lora_weights("topics.lora.h5")
print(kilobytes("topics.lora.h5"))

"""
This is better than a constant answer, but not good. A backbone trained for one
epoch on opinions has learned little about topics, and updates of rank 4 cannot
compensate for that. Use LoRA with a backbone that was trained on more data.

`load_lora_weights` loads the updates into a backbone of the preset. They do
not include the new head. To save the whole task, write a `.keras` file or a
preset. Both contain the sums and load as plain models.

## int8

`quantize` turns the weights of projections, feed-forward layers and the token
embedding into 8-bit integers with scales. Tables of positions, such as R, and
alphas stay float. The model still accepts strings, and its `.keras` file stays
int8:
"""


def weight_kilobytes(model):
    arrays = (keras.ops.convert_to_numpy(weight) for weight in model.weights)
    return sum(array.nbytes for array in arrays) / 1024


before = weight_kilobytes(classifier)
classifier.quantize("int8")
classifier.compile()
_, quantized_accuracy = classifier.evaluate(test_texts, test_labels, verbose=0)
print(f"accuracy {quantized_accuracy:.1%}, before: {accuracy:.1%}")
print(f"weights {weight_kilobytes(classifier):.0f} kB, before: {before:.0f} kB")
classifier.save("reviews_int8.keras")

"""
R and the position embedding stay float32. In a model as small as this, they
are a large part of the file.

## Comparison of files

| | `.keras` | preset |
|---|---|---|
| loads under every backend | yes | yes |
| architecture, weights, vocabulary | yes | yes |
| optimizer, loss, metrics | yes | no: compiled by default |
| another number of classes | no | yes, with a new head |
| LoRA | contains the sums | contains the sums |
| int8 | yes | no: quantize after loading |

[Save and load](../saving.md) has the details. Taggers, language models and
translation models have the same methods.
"""
