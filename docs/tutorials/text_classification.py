"""
Title: Text classification
Description: Train a classifier on strings, save it, load it under another
backend, turn it into a preset, adapt it by LoRA and quantize it to int8.
"""

"""
## Introduction

The models of `keras_synth.models` are KerasHub models: a *backbone*,
Transformer blocks with any synthesizer; a *task* around it, here a classifier;
and a *preprocessor*, which turns strings into token ids. They do what
KerasHub's own models do. This tutorial follows one model through its whole
life: trained on strings, saved, loaded elsewhere, adapted to a second task,
made small.
"""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np

from keras_synth import datasets, models
from keras_synth.model_card import write_model_card

keras.utils.set_random_seed(0)


def kilobytes(path):
    return f"{path}: {os.path.getsize(path) / 1024:.0f} kB"


"""
## Data

Reviews come from a generator, so that nothing needs to be downloaded. Two
thirds of their sentences hold an opinion, and the majority of opinions is the
label.
"""

train_texts, train_labels = datasets.generated_reviews(
    2000, seed=0, hard_fraction=0, max_sentences=4
)
test_texts, test_labels = datasets.generated_reviews(
    500, seed=1, hard_fraction=0, max_sentences=4
)
names = ["negative", "positive"]
for text, label in zip(train_texts[:2], train_labels[:2], strict=True):
    print(f"{names[label]}: {text}")

"""
For the real thing, `datasets.load_imdb("aclImdb_v1.tar.gz")` reads the IMDB
reviews, and `datasets.load_csv` any table with a column of texts and one of
labels. They return strings and labels as above, so all that follows stays the
same. With real reviews take `vocabulary_size=20_000`, `sequence_length=512` and
a larger model.

## Fit on strings

A tokenizer learns its vocabulary from the training texts. The preprocessor adds
a start and an end token, and pads or cuts to `sequence_length`.
`max_sequence_length` is the size of R's table, the longest text that this model
will ever read.
"""

tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    train_texts, vocabulary_size=600
)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, sequence_length=64
)
print(tokenizer.tokenize("The plot was clearly dull."))
print(preprocessor("The plot was clearly dull.")["token_ids"][:10])

backbone = models.SynthesizerBackbone(
    vocabulary_size=tokenizer.vocabulary_size(),
    num_layers=1,
    num_heads=4,
    hidden_dim=64,
    intermediate_dim=128,
    synthesizer="R+V",
    max_sequence_length=64,
)
classifier = models.SynthesizerTextClassifier(
    backbone, num_classes=2, preprocessor=preprocessor, class_names=names
)
classifier.compile(optimizer=keras.optimizers.AdamW(2e-3))
classifier.fit(train_texts, train_labels, batch_size=32, epochs=3, verbose=2)
_, accuracy = classifier.evaluate(test_texts, test_labels, verbose=0)
print(f"accuracy on {len(test_texts)} unseen reviews: {accuracy:.1%}")

"""
Without `compile` the optimizer would be `AdamW(1e-3)`, and loss and accuracy
those that suit the labels, as they are here. `predict` takes strings, too, and
returns logits. As `class_names` are given, labels could be names as well.
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

A `.keras` file holds all: architecture, vocabulary, weights, optimizer. It is
not bound to a backend. Here another process loads it under another one, and
predicts:
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
other = "jax" if keras.backend.backend() == "torch" else "torch"
subprocess.run(
    [sys.executable, "-c", script, *reviews],
    env={**os.environ, "KERAS_BACKEND": other},
    stderr=subprocess.DEVNULL,
    check=True,
)
difference = np.abs(np.load(f"{other}.npy") - logits).max()
print(f"{keras.backend.backend()} and {other} differ by {difference:.0e}")

"""
## A preset

A preset is a folder of plain files: configurations as JSON, the vocabulary, the
weights. `from_preset` reads a local folder, or an address such as
`"hf://user/name"` once it has been uploaded. Others should see what it is:
`write_model_card` writes the `README.md` that Hugging Face and Kaggle show.
"""

classifier.save_to_preset("reviews")
write_model_card(
    "reviews",
    title="Sentiment of generated reviews",
    description="A Transformer encoder of one layer, with R+V for attention.",
    data="2,000 reviews of `generated_reviews(2000, hard_fraction=0)`.",
    figures={"accuracy, 500 unseen reviews": f"{accuracy:.1%}"},
    usage="""
from keras_synth import models

classifier = models.SynthesizerTextClassifier.from_preset("reviews")
classifier.predict(["The plot was truly superb."])
""",
    licence="apache-2.0",
)
for path in sorted(pathlib.Path("reviews").rglob("*")):
    if path.is_file():
        print(kilobytes(path))

"""
A preset holds no optimizer. In return, a task made of it may have other
classes; its head is then new, its backbone the trained one.

## Another task, by LoRA

Which reviews mention a relative of the writer? That is another question about
the same kind of text. LoRA freezes the backbone and learns updates of low rank
for it: `R` becomes `R + A B`, a projection `W` becomes `W + A B`. These A and
B, and weights that are small anyway, such as the alphas, are all of the
backbone that is trained and saved.
"""

RELATIVES = {
    *"aunt brother cousin daughter father mother".split(),
    *"nephew niece sister son uncle".split(),
}


def mentions_relative(texts):
    words = [set(text.replace(".", "").split()) for text in texts]
    return np.array([not RELATIVES.isdisjoint(each) for each in words])


topics = models.SynthesizerTextClassifier.from_preset(
    "reviews", num_classes=2, class_names=["no relative", "a relative"]
)
topics.backbone.enable_lora(rank=4)
topics.compile(optimizer=keras.optimizers.AdamW(2e-2))  # after enable_lora
trained = sum(int(np.prod(w.shape)) for w in topics.trainable_weights)
print(f"{trained:,} of {topics.count_params():,} weights are trained")
topics.fit(
    train_texts,
    mentions_relative(train_texts).astype("int32"),
    batch_size=32,
    epochs=6,
    verbose=2,
)
answers = mentions_relative(test_texts).astype("int32")
_, topic_accuracy = topics.evaluate(test_texts, answers, verbose=0)
constant = max(answers.mean(), 1 - answers.mean())
print(f"accuracy {topic_accuracy:.1%}; a constant answer's: {constant:.1%}")
topics.backbone.save_lora_weights("relatives.lora.h5")
print(kilobytes("relatives.lora.h5"))

"""
`load_lora_weights` brings them back to a backbone of the preset. The new head
is not among them: to keep the task whole, save it as a `.keras` file or as a
preset. Both hold the sums, and load as plain models.

## int8

`quantize` turns the weights of projections, feed-forward layers and the token
embedding into 8-bit integers with a scale each. Tables of positions, such as R,
and alphas stay float. The model keeps working as before, on strings, and its
`.keras` file stays int8:
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
Half of what is left are R and the position embedding, which stay float32.

## What works with what

| | `.keras` | preset |
|---|---|---|
| loads under every backend | yes | yes |
| architecture, weights, vocabulary | yes | yes |
| optimizer, loss, metrics | yes | no: compiled by default |
| another number of classes | no | yes, with a new head |
| LoRA | holds the sums | holds the sums |
| int8 | yes | no: quantize what loads |

[Save and load](../saving.md) has the details. Taggers,
language models and translators have the same life, by the same calls;
translation is the next tutorial.
"""
