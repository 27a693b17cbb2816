"""
Title: Switching backends
Description: Run one model on TensorFlow, JAX and PyTorch, with the same
predictions and files, and compare times and variants on all of them.
"""

"""
## Introduction

Keras computes with TensorFlow, JAX or PyTorch. `keras_synth` is built on
Keras, so every synthesizer, model and file works on all three. The environment
variable `KERAS_BACKEND` selects the backend. Keras reads it once, when it is
imported:

```shell
KERAS_BACKEND=torch python train.py
```

A running process cannot change it. To compare backends, we start a process for
each. This process makes the model and draws the pictures.
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

The model is a small, untrained classifier of reviews with a mixture of Random
(R) and dot product (V). It has no dropout, because each backend has different
random numbers. (Initial weights would also differ, so we make them once and
save them.) NumPy draws the data sets of `keras_synth.datasets`, which are
therefore the same on all backends.
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

The script loads the file, predicts, trains for one epoch and saves. It does
not name a backend. `import keras_synth.models` registers the classes of the
file in Keras. The file contains the vocabulary, so the model accepts strings.

The model is trained on tokens from `LengthBuckets`, whose order of batches
depends only on a seed. The callback `Log` records the loss and the duration of
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

The backends do the same arithmetic in different orders, and 32-bit floats have
seven digits. So predictions agree up to rounding:
"""

expected = classifier.predict(texts[:256], verbose=0)
print(f"logits from {expected.min():.2f} to {expected.max():.2f}")
for backend, result in results.items():
    difference = np.abs(result["logits"] - expected).max()
    print(f"{backend:10} largest difference from this process {difference:.0e}")

"""
## The same training

With the same weights and batches, the curves are equal. The right plot shows
the difference of each loss to that of the first backend. Each step starts from
the weights of the previous one, so rounding errors may grow, as in any long
computation. (The plot shows smaller differences as 1e-5.)
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

Each process has saved its trained model with the state of the optimizer. All
files load here, whichever backend wrote them, and training can continue from
any of them.
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

The backends differ in speed. JAX and TensorFlow compile the training step, so
their first steps are slow. PyTorch does not compile. In long training, this
matters little.
"""

print("            first steps, s  further steps/s")
for backend, result in results.items():
    print(
        f"{backend:10} {result['first']:15.1f} "
        f"{result['steps_per_second']:16.1f}"
    )

"""
These figures are for one model, one machine and one run. With another size,
the order may be reversed, and on a GPU it is. Measure your own model before
you choose a backend.

## Comparing variants on all backends

`keras-synth compare`, or `python -m keras_synth.compare compare`, does this
for a grid of variants x seeds x backends. Each run has a separate process,
with the same data, initial weights and batches. Here are two variants on the
generated reviews, which take a minute or two:
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
The table has a line for each variant and backend. With several `--seeds`, it
shows the standard error of the mean. The last line is a baseline that always
predicts the most frequent class.

- **accuracy** is the score on the test split, measured once. **validation** is
  the score on other examples, for the choice of settings. Without dropout,
  lines of one variant agree across backends up to rounding.
- **steps/s** is computed from the median step, because some steps compile.
- **weights** and **mult.**, multiplications per sample, do not depend on the
  backend. **peak** is the memory of the whole process, including the backend.

`report.html` in the folder shows learning curves, and the differences of
variants with their intervals. Before you draw conclusions, run `--seeds 0 1
2`.

## For the real thing

- Set the backend for all programs in `~/.keras/keras.json`. `KERAS_BACKEND`
  has precedence over it.
- `keras-synth compare --help` lists tasks and settings. `--data mine.csv`
  compares variants on your own texts. `--resume` continues a stopped grid, or
  adds variants, seeds and backends to it.
- For small models and short training, use the backend with the shortest
  compilation. For long training, use the one with the most steps per second.
- Train and serve with different backends: `.keras` files and presets load
  under all of them, including LoRA and quantized weights.
"""
