"""
Title: Many devices
Description: Train one model on four devices with Keras' DataParallel and
ModelParallel, show the part of each weight on each device, and compare the
losses with those of a single device.
"""

"""
## Introduction

`keras.distribution` trains a model on several devices in one of two ways:

- With `DataParallel`, each device has a copy of the model and a part of each
  batch. Use it if the model fits one device.
- With `ModelParallel`, weights are also sharded. A *layout map* defines the
  axes of devices for each weight. Use it if the model does not fit one device.

`get_layout_map` of a backbone makes the layout map, including the tables of
synthesizers.

Keras supports this only on JAX, so this page runs on JAX, whatever
`KERAS_BACKEND` is. For TensorFlow and PyTorch, see [Scale to many
devices](../scaling.md). You do not need a cluster: the flag in the next cell,
set before JAX starts, makes four devices of one CPU. They use the same cores,
so they do not show the speed of several devices.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import keras
import matplotlib.pyplot as plt
import numpy as np

from keras_synth import datasets, models

print(keras.distribution.list_devices())

"""
## A model and its data

The model is a classifier of generated reviews with `"R+V"`, a mixture of
Random (R) and dot product (V). To compare losses exactly, seeds and the order
of batches are the same, and there is no dropout. The number of devices must
divide the sharded axis of each weight, so heads, width and vocabulary are
even.
"""

LENGTH, BATCH_SIZE = 48, 32
texts, labels = datasets.generated_reviews(
    640, seed=0, hard_fraction=0, min_sentences=2, max_sentences=3
)
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    texts, vocabulary_size=512
)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, sequence_length=LENGTH
)


def build(synthesizer):
    keras.utils.set_random_seed(0)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=512,
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        synthesizer=synthesizer,
        dropout=0.0,
        max_sequence_length=LENGTH,
    )
    classifier = models.SynthesizerTextClassifier(
        backbone, num_classes=2, preprocessor=preprocessor, dropout=0.0
    )
    classifier.compile(optimizer=keras.optimizers.Adam(2e-3))
    return classifier


"""
## Three distributions

A mesh is a grid of devices whose axes have names. For `ModelParallel`, we use
two by two devices: along `"batch"`, each pair of devices has half of a batch,
and along `"model"`, the weights are divided between two devices.

Set the distribution *before* the model is made or loaded. `None` is a single
device.
"""

devices = keras.distribution.list_devices()
mesh = keras.distribution.DeviceMesh((2, 2), ("batch", "model"), devices)
distributions = {
    "one device": None,
    "DataParallel": keras.distribution.DataParallel(devices=devices),
    "ModelParallel": keras.distribution.ModelParallel(
        layout_map=models.SynthesizerBackbone.get_layout_map(mesh),
        batch_dim_name="batch",
    ),
}

losses, trained = {}, {}
for name, distribution in distributions.items():
    keras.distribution.set_distribution(distribution)
    trained[name] = build("R+V")
    losses[name] = (
        trained[name]
        .fit(
            texts,
            labels,
            batch_size=BATCH_SIZE,
            epochs=3,
            shuffle=False,
            verbose=0,
        )
        .history["loss"]
    )
    print(f"{name:14}", *(f"{loss:.6f}" for loss in losses[name]))

expected = losses["one device"]
for name in ["DataParallel", "ModelParallel"]:
    difference = np.abs(np.subtract(losses[name], expected)).max()
    print(f"{name} differs by {difference:.0e} at most")

"""
The losses equal those of one device up to the order of additions. Model, `fit`
and data are unchanged.

## Shards of the weights

Each weight is a JAX array with a sharding. Here are weights of the first layer
and the shape of their shard on each device:
"""

model = trained["ModelParallel"]
shown = {
    "token embedding": "token_embedding/embeddings",
    "value projection": "encoder_layer_0/self_attention/value/kernel",
    "table R": "encoder_layer_0/self_attention/synthesizer/part_0/R",
    "V's queries": "encoder_layer_0/self_attention/synthesizer/part_1/query",
    "alphas": "encoder_layer_0/self_attention/synthesizer/alphas",
}
arrays = {}
for title, path in shown.items():
    weight = next(w for w in model.backbone.weights if path in w.path)
    arrays[title] = weight.value
    piece = weight.value.addressable_shards[0].data.shape
    print(f"{title:17} {weight.value.shape!s:15} each device: {piece}")

"""
In this picture of the same weights, each shard is labelled with its devices:
"""


def draw(axis, array):
    """Draws the pieces of an array, cut along two axes at most."""
    cut = array.addressable_shards[0].data.shape
    axes = [i for i, n in enumerate(cut) if n < array.shape[i]]
    axes = [*axes, *(i for i in range(array.ndim) if i not in axes)][:2]
    pieces = {}
    for shard in array.addressable_shards:
        at = tuple(shard.index[i].indices(array.shape[i])[:2] for i in axes)
        pieces.setdefault(at, []).append(shard.device.id)
    height, width = (array.shape[i] for i in axes)
    for ((top, bottom), (left, right)), holders in pieces.items():
        axis.add_patch(
            plt.Rectangle(
                (left / width, top / height),
                (right - left) / width,
                (bottom - top) / height,
                facecolor=f"C{holders[0]}",
                edgecolor="white",
                linewidth=3,
            )
        )
        axis.text(
            (left + right) / 2 / width,
            (top + bottom) / 2 / height,
            ", ".join(map(str, sorted(holders))),
            ha="center",
            va="center",
            color="white",
        )
    axis.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[])
    axis.set_ylabel(f"axis {axes[0]}: {height}")
    axis.set_xlabel(f"axis {axes[1]}: {width}")


figure, axes = plt.subplots(1, 5, figsize=(11, 2.7), layout="constrained")
for axis, (title, array) in zip(axes, arrays.items(), strict=True):
    draw(axis, array)
    axis.set_title(title)
plt.show()

"""
Large matrices are sharded along both axes of the mesh, so each device has a
quarter. The table R is sharded only by heads, because devices 0 and 2, which
have different samples, need the whole table of their heads. Alphas are small,
and each device has a copy.

## Memory of each device

The next cell prints the bytes of all weights of the backbone on the first
device, for three synthesizers. Training with Adam needs four times as much,
for gradients and two moments, in addition to activations:
"""


def kilobytes(model):
    pieces = (w.value.addressable_shards[0] for w in model.backbone.weights)
    return sum(piece.data.nbytes for piece in pieces) / 1024


print("      one device  DataParallel  ModelParallel")
for synthesizer in ["V", "R", "R+V"]:
    sizes = []
    for distribution in distributions.values():
        keras.distribution.set_distribution(distribution)
        sizes.append(kilobytes(build(synthesizer)))
    one, data, cut = sizes
    print(f"{synthesizer:4} {one:8.0f} kB  {data:9.0f} kB  {cut:10.0f} kB")

"""
`DataParallel` does not save memory. With `ModelParallel`, V needs almost a
quarter. R needs more, because its tables are only halved. A mesh of one by
four would also quarter the tables, but would not divide the batch.

## Save on four devices, load on one

A file contains whole weights and does not depend on devices. A model trained
on four devices loads on one, and vice versa:
"""

model.save("reviews.keras")
keras.distribution.set_distribution(None)
loaded = keras.saving.load_model("reviews.keras")
difference = np.abs(
    loaded.predict(texts[:64], verbose=0)
    - trained["one device"].predict(texts[:64], verbose=0)
).max()
where = loaded.backbone.weights[0].value.devices()
print(f"loaded on {len(where)} device")
print(f"logits differ from those trained on one by {difference:.0e} at most")

"""
## For the real thing

- On a machine with GPUs or TPU cores, leave out `XLA_FLAGS`, and use
  `keras.distribution.list_devices()`.
- Start with `DataParallel`. If memory is not sufficient, use `ModelParallel`
  with a short model axis, because its devices communicate in every layer.
- Custom synthesizers define the sharding of their weights with the attribute
  `weight_axes`. [Scale to many devices](../scaling.md#on-jax) explains it,
  with all rules, several machines, and the memory of a T5 base.
"""
