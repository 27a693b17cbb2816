"""One job for every backend: load a model, predict, train on fixed batches.

Run as `python across_backends.py FOLDER`, with KERAS_BACKEND set. FOLDER holds
`model.keras` and `data.npz`; the results go to FOLDER/<backend>.npz.
"""

import pathlib
import sys

import keras
import numpy as np

from keras_synth import models, surgery  # noqa: F401  (register classes)

STEPS = 40


def main(folder):
    data = np.load(folder / "data.npz")
    features = {name: data[name] for name in ("token_ids", "padding_mask")}
    model = keras.saving.load_model(folder / "model.keras")
    predictions = model.predict(features, verbose=0)
    # Not Adam: its first steps turn rounding noise around a gradient of zero
    # (a key bias has one) into steps of full size.
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    losses = []
    for step in range(STEPS):
        rows = slice(8 * (step % 4), 8 * (step % 4) + 8)
        batch = {name: values[rows] for name, values in features.items()}
        logs = model.train_on_batch(batch, data["labels"][rows])
        losses.append(float(logs[0] if isinstance(logs, list) else logs))
    np.savez(
        folder / f"{keras.backend.backend()}.npz",
        predictions=predictions,
        losses=losses,
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
