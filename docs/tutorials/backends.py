"""
Title: Switching backends
Description: Run one model on TensorFlow, JAX and PyTorch: the same predictions,
files that go from one to another, times, and a comparison of variants on all of
them.
"""

"""
## Introduction

Keras computes with TensorFlow, JAX or PyTorch, and `keras_synth` calls nothing
but Keras, so every synthesizer, model and file here works on all three. Which
one is used is the environment variable `KERAS_BACKEND`, which Keras reads once,
when it is imported:

```shell
KERAS_BACKEND=torch python train.py
```

A running process cannot change it. To compare backends, we start a process for
each. This one, which makes the model and draws the pictures, has a backend,
too.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import matplotlib.pyplot as plt
import numpy as np

from keras_synth import datasets, models

here = keras.backend.backend()
backends = [here]
for name in ("jax", "tensorflow", "torch"):
    if importlib.util.find_spec(name) is None:
        print(f"{name} is not installed and left out: pip install {name}")
    elif name != here:
        backends.append(name)
print(f"this process: {here}; compared: {', '.join(backends)}")

"""
## One model in one file

A classifier of reviews with a mixture of R and V, small and not trained yet. It
has no dropout: each backend has random numbers of its own, and dropout would be
drawn differently. (So would initial weights, which is why we make them once and
save them.) Data sets of `keras_synth.datasets` are drawn by NumPy, and are the
same everywhere.
"""

texts, labels = datasets.generated_reviews(2_000, max_sentences=4)
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    texts, vocabulary_size=1_000
)
keras.utils.set_random_seed(0)
classifier = models.SynthesizerTextClassifier(
    models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=256,
        synthesizer="R+V",
        dropout=0.0,
        max_sequence_length=48,
    ),
    num_classes=2,
    dropout=0.0,
    preprocessor=models.SynthesizerTextClassifierPreprocessor(
        tokenizer, sequence_length=48
    ),
)
classifier.save("initial.keras")
print(f"{pathlib.Path('initial.keras').stat().st_size:,} bytes")

"""
## The same script on each backend

The script loads the file, predicts, trains for one epoch and saves. Nothing in
it names a backend. `import keras_synth.models` lets Keras know the classes in
the file, and the vocabulary is in the file as well, so that it takes strings.

Training takes tokens rather than strings, from `LengthBuckets`, whose order of
batches depends on a seed alone. `StepLog` notes the loss and the duration of
every step.
"""

SCRIPT = """
import sys
import time

import keras
import numpy as np

from keras_synth import datasets, models, training


class Log(keras.callbacks.Callback):
    seconds, means = [], []

    def on_train_batch_begin(self, batch, logs=None):
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds.append(time.perf_counter() - self.began)
        self.means.append(logs["loss"])  # of all steps so far



output = sys.argv[1]
texts, labels = datasets.generated_reviews(2_000, max_sentences=4)
classifier = keras.models.load_model("initial.keras")
classifier.compile(optimizer=keras.optimizers.Adam(5e-4))
logits = classifier.predict(texts[:256], verbose=0)

preprocessor = classifier.preprocessor
classifier.preprocessor = None  # from here on, it takes tokens
batches = training.LengthBuckets(
    preprocessor(texts), labels, batch_size=32, drop_remainder=True
)
log = Log()
keras.Model.fit(classifier, batches, callbacks=[log], verbose=0)
classifier.preprocessor = preprocessor
classifier.save(f"{output}.keras")

median = np.median(log.seconds)
sums = np.array(log.means) * np.arange(1, len(log.means) + 1)
np.savez(
    f"{output}.npz",
    logits=logits,
    losses=np.diff(sums, prepend=0),
    first=sum(log.seconds) - median * len(log.seconds),
    steps_per_second=1 / median,
)
"""
pathlib.Path("train.py").write_text(SCRIPT)


def run(*command, backend):
    """Runs Python with a backend, and returns what it prints."""
    done = subprocess.run(
        [sys.executable, *command],
        # Notebooks ask for colours, which here would be codes in the text.
        env={**os.environ, "KERAS_BACKEND": backend, "FORCE_COLOR": ""},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


results = {}
for backend in backends:
    run("train.py", backend, backend=backend)
    results[backend] = dict(np.load(f"{backend}.npz"))
    print(f"{backend} is done")

"""
## The same predictions

The backends do the same arithmetic in different orders, and floats of 32 bits
have seven digits. So predictions agree, but for rounding:
"""

expected = classifier.predict(texts[:256], verbose=0)
print(f"logits from {expected.min():.2f} to {expected.max():.2f}")
for backend, result in results.items():
    difference = np.abs(result["logits"] - expected).max()
    print(f"{backend:10} largest difference from this process {difference:.0e}")

"""
## The same training

Same weights, same batches: the curves lie on each other. On the right is how
far the loss of each step is from that of the first backend. Each step is
computed from the weights of the one before, so rounding errors may grow, as
they do in any long computation. (`StepLog` keeps five decimals: 1e-5 stands for
everything below.)
"""

styles = ["-", "--", ":"]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 3.6), layout="constrained"
)
reference = results[here]["losses"]
for style, (backend, result) in zip(styles, results.items(), strict=False):
    steps = np.arange(1, len(reference) + 1)
    left.plot(steps, result["losses"], style, label=backend)
    if backend != here:
        difference = np.abs(result["losses"] - reference)
        shown = np.maximum(difference, 1e-5)
        right.semilogy(steps, shown, label=f"{backend} and {here}")
left.set(xlabel="step", ylabel="training loss")
right.set(xlabel="step", ylabel="difference of losses")
left.legend()
if right.lines:
    right.legend()
plt.show()

"""
## The same file

Each process has saved what it trained, with the state of the optimizer. All
files load here, whichever backend wrote them, and training could go on from any
of them.
"""

test_texts, test_labels = datasets.generated_reviews(
    500, seed=1, max_sentences=4
)
for backend in backends:
    loaded = keras.models.load_model(f"{backend}.keras")
    _, accuracy = loaded.evaluate(test_texts, test_labels, verbose=0)
    steps = int(loaded.optimizer.iterations)
    print(f"{backend:10} step {steps}, test accuracy {accuracy:.3f} on {here}")

"""
## Time

What differs is speed. JAX and TensorFlow compile the training step, which makes
the first steps slow; PyTorch does not. The longer the training, the less that
matters.
"""

print("            first steps, s  further steps/s")
for backend, result in results.items():
    print(
        f"{backend:10} {result['first']:15.1f} "
        f"{result['steps_per_second']:16.1f}"
    )

"""
Take such figures for what they are: one model, this machine, one run. Another
size can turn the order around, and a GPU does. Measure your own model before
you choose; with Keras that costs an environment variable.

## Comparing variants on all backends

`keras-synth compare`, or `python -m keras_synth.compare compare`, does all this
for a whole grid: variants x seeds x backends, each run in a process of its
own, with the same data, the same initial weights and the same batches. Two
variants on the generated reviews, small enough for a minute or two:
"""

print(
    run(
        *"-m keras_synth.compare compare --variants V R".split(),
        *"--examples 1500 --epochs 2 --dropout 0 --batch-size 32".split(),
        *["--backends", *backends, "--output", "compare"],
        backend=here,
    )
)

"""
The table has a line for each variant and backend, and, with several `--seeds`,
the standard error of their mean. The last line is a model that always says the
most frequent class.

- **accuracy** is the score on the test, looked at once; **validation** that on
  other examples, by which to choose settings. Without dropout, lines of one
  variant agree across backends, to the extent that rounding allows.
- **steps/s** is that of the median step, since some compile.
- **weights** and **mult.**, multiplications per sample, depend on no backend;
  **peak** memory is that of the whole process, with all that the backend itself
  takes.

`report.html` in the folder shows learning curves, the differences of variants
and how sure they are. `--seeds 0 1 2` is worth its time before any conclusion.

## For the real thing

- Set the backend for all of your programs in `~/.keras/keras.json`;
  `KERAS_BACKEND` takes precedence over it.
- `keras-synth compare --help` lists tasks and settings. `--data mine.csv`
  compares on your own texts, and `--resume` goes on with a grid that was
  stopped, or adds variants, seeds and backends to it.
- Give small models and short trainings to the backend that compiles least, long
  ones to the one with the most steps per second.
- Train where it is fast, serve where it is convenient: a `.keras` file or a
  preset goes from any backend to any other, LoRA and quantized weights
  included.
"""
