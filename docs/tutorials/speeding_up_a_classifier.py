"""
Title: Speed up a classifier you have
Description: Convert a trained KerasHub classifier, write a file that loads
without this package, run it in ONNX Runtime with int8, and replace half of its
heads with tables.
"""

"""
## Introduction

You have a trained KerasHub classifier, and it should answer faster on a CPU.
There are four steps, and each of them can be the last:

1. Replace its attention layers with layers of this package. Outputs stay the
   same.
2. Write a plain Keras file, and from it an ONNX file. Outputs stay the same.
3. Quantize the ONNX file to int8. Outputs change slightly.
4. Replace attention heads with tables, and distill. Outputs change.

After each step, we measure accuracy and time. The model is small and its
reviews are generated, so that this page runs in minutes. It shows how the steps
are done. For a pretrained model, [Speed up a model you have](../speed_up.md)
lists what each of them is worth.
"""

import importlib.util
import os
import re
import subprocess
import sys
import time

import keras
import keras_hub
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_synth
from keras_synth import datasets, surgery

for name in ("tf2onnx", "onnxruntime"):
    if importlib.util.find_spec(name) is None:
        command = [sys.executable, "-m", "pip", "install", name, "--quiet"]
        subprocess.run(command, check=True)

import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

# %matplotlib inline
keras.utils.set_random_seed(0)
LENGTH = 128  # tokens
BATCH = 32  # reviews

"""
## A trained classifier

Half of the reviews are *hard*: they deny one opinion and assert the opposite,
as in "the plot was not dull but moving". The baseline is logistic regression
on counts of words, which ignores their order.
"""

sizes = {"min_sentences": 3, "max_sentences": 8}
texts, labels = datasets.generated_reviews(4_000, seed=0, **sizes)
test_texts, test_labels = datasets.generated_reviews(512, seed=1, **sizes)
print(test_texts[0])

counts = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1_000))
baseline = counts.fit(texts, labels).score(test_texts, test_labels)
print(f"counts of words: {baseline:.1%}")

"""
The classifier is KerasHub's BERT, with two layers of four heads. It learns
from the reviews only.
"""

words = sorted({*re.findall(r"\w+|[^\w\s]", " ".join(texts).lower())})
tokenizer = keras_hub.models.BertTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words], lowercase=True
)
preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
    tokenizer, sequence_length=LENGTH
)
classifier = keras_hub.models.BertTextClassifier(
    keras_hub.models.BertBackbone(
        tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        dropout=0.0,
        max_sequence_length=LENGTH,
    ),
    num_classes=2,
    preprocessor=preprocessor,
    dropout=0.0,
)
classifier.compile(
    optimizer=keras.optimizers.AdamW(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
classifier.fit(texts, labels, batch_size=BATCH, epochs=3, verbose=0)
_, accuracy = classifier.evaluate(test_texts, test_labels, verbose=0)
print(f"accuracy on {len(test_texts)} new reviews: {accuracy:.1%}")

"""
## Report

`report` lists the attention layers before anything is changed. Heads with a low
input dependence have nearly the same weights for all reviews, and a table can
replace them.
"""

print(surgery.report(classifier, texts[:500]))

"""
No head is below 0.20, so replacing half of them will probably cost accuracy.

## Graft: other layers, the same outputs
"""

grafted = surgery.graft(classifier, "V")
expected = classifier.predict(test_texts, verbose=0)
found = grafted.predict(test_texts, verbose=0)
np.testing.assert_allclose(found, expected, atol=1e-4)
print(type(grafted).__name__)
print(f"outputs differ by {np.abs(found - expected).max():.0e} at most")

"""
We time models on token ids, without the tokenizer, in four batches. Models run
in turn, and each number is the median of five runs. It is CPU time, because
other programs ran on the machine.
"""

features = {
    name: np.asarray(x, "int32") for name, x in preprocessor(test_texts).items()
}


def keras_run(task):
    model = keras.Model(task.input, task.output)  # without the preprocessor
    return lambda x: model.predict(x, batch_size=BATCH, verbose=0)


def milliseconds(runs):
    """The median CPU time of a batch for each function in `runs`."""
    few = {name: x[: 4 * BATCH] for name, x in features.items()}
    seconds = {name: [] for name in runs}
    for run in runs.values():
        run(few)  # compiles
    for _ in range(5):
        for name, run in runs.items():
            start = time.process_time()
            run(few)
            seconds[name].append(time.process_time() - start)
    return {name: 1_000 * np.median(x) / 4 for name, x in seconds.items()}


runs = {"KerasHub": keras_run(classifier), "grafted": keras_run(grafted)}
for name, value in milliseconds(runs).items():
    print(f"{name:8} {value:6.1f} ms for {BATCH} reviews")

"""
## A plain file

`fold(plain=True)` returns a model of Keras' and KerasHub's layers, with a fixed
length. A server can load its file without keras_synth. The following process
cannot import keras_synth. It runs the file under TensorFlow, which KerasHub has
installed, and writes an ONNX file for batches of this size.
"""

script = """
import sys

sys.modules["keras_synth"] = None  # importing it is now an error

import keras
import keras_hub  # the embedding is KerasHub's layer
import numpy as np

name = sys.argv[1]
model = keras.saving.load_model(f"{name}.keras")
features = dict(np.load("features.npz"))
np.save("outputs.npy", model.predict(features, verbose=0))
signature = {
    key: keras.InputSpec(shape=x.shape, dtype="int32", name=key)
    for key, x in features.items()
}
model.export(
    f"{name}.onnx", format="onnx", input_signature=[signature], verbose=False
)
"""
np.savez("features.npz", **{name: x[:BATCH] for name, x in features.items()})


def export(task, name):
    """Writes a plain Keras file and an ONNX file of a classifier."""
    plain = keras_synth.fold(task, plain=True, max_length=LENGTH)
    plain.save(f"{name}.keras")
    process = subprocess.run(
        [sys.executable, "-c", script, name],
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr


def onnx_run(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)

    def run(x):
        batches = [
            {name: value[i : i + BATCH] for name, value in x.items()}
            for i in range(0, len(x["token_ids"]), BATCH)
        ]
        return np.concatenate([session.run(None, x)[0] for x in batches])

    return run


export(grafted, "grafted")
np.testing.assert_allclose(np.load("outputs.npy"), expected[:BATCH], atol=1e-4)
runs["grafted, ONNX"] = onnx_run("grafted.onnx")
np.testing.assert_allclose(runs["grafted, ONNX"](features), expected, atol=1e-4)
print("the plain file and the ONNX file have the outputs of the classifier")

"""
## int8

Dynamic quantization stores the weights of products as int8, and rounds their
inputs when it runs. It needs no data.
"""


def quantize(name):
    quantize_dynamic(
        f"{name}.onnx", f"{name}_int8.onnx", weight_type=QuantType.QInt8
    )
    return onnx_run(f"{name}_int8.onnx")


runs["grafted, ONNX int8"] = quantize("grafted")
change = np.abs(runs["grafted, ONNX int8"](features) - expected).max()
print(f"logits change by {change:.2f} at most")

"""
## Half of the heads as tables

`synthesize` replaces the half of the heads with the lowest input dependence.
Tables are fitted to 500 reviews, without labels. `distill` then trains the
student to have its teacher's outputs and hidden states.
"""

student = surgery.synthesize(classifier, texts[:500], heads=0.5)


def accuracy_of(outputs):
    return np.mean(outputs.argmax(axis=-1) == test_labels)


outputs = student.predict(test_texts, verbose=0)
print(f"half tables, not trained: {accuracy_of(outputs):.1%}")

training = surgery.distill(student, classifier)
training.compile(keras.optimizers.AdamW(1e-3))
train_features = {
    name: np.asarray(x, "int32")
    for name, x in preprocessor(texts[:2_000]).items()
}
training.fit(train_features, batch_size=BATCH, verbose=0)
outputs = student.predict(test_texts, verbose=0)
print(f"half tables, distilled: {accuracy_of(outputs):.1%}")

export(student, "student")
runs["half tables"] = keras_run(student)
runs["half tables, ONNX"] = onnx_run("student.onnx")
runs["half tables, ONNX int8"] = quantize("student")

"""
## All together
"""

times = milliseconds(runs)
print(f"{'':24}accuracy  CPU ms for {BATCH} reviews")
print(f"{'counts of words':24}{baseline:8.1%}")
for name, run in runs.items():
    print(f"{name:24}{accuracy_of(run(features)):8.1%}  {times[name]:6.1f}")

figure, axis = plt.subplots(figsize=(6, 2.5), layout="constrained")
axis.barh([*times], [*times.values()])
axis.invert_yaxis()
axis.set_xlabel(f"milliseconds of CPU time for {BATCH} reviews")
plt.show()

"""
The classifier beats counts of words by 9 points. Each accuracy has a standard
error of about 1.6 points. In this run, on one core and with one seed,

- the grafted model needs two thirds of the CPU time of KerasHub's, with the
  same outputs;
- the grafted model needs more time in ONNX Runtime than under JAX, about as
  much as KerasHub's model, but the file runs without Python and Keras;
- int8 keeps the accuracy and saves a tenth of the time at this width;
- half tables save a sixth of the time under JAX and three tenths in ONNX
  Runtime. They cost four points at first, and two reviews of 512 after
  distillation.

Do not expect these ratios from another model. For all-MiniLM-L6-v2, of width
384, they [are different](../speed_up.md): with 128 tokens on JAX, `graft` saves
nothing, while int8 makes ONNX Runtime 1.4 to 1.5 times as fast.

## For your model

- Stop after the step that is fast enough. The first two need no new score.
- Give `synthesize` and `distill` a few thousand texts like those that the model
  will receive. Labels are not needed.
- Measure with your length, batch and number of cores. An ONNX session uses all
  cores unless `intra_op_num_threads` says otherwise, as here.
- [Convert trained models](../surgery.md) lists what can be replaced, and
  [Serving](../serving.md) all formats.
"""
