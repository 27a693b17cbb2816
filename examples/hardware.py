"""
Title: Attention in fixed point, for an FPGA
Author: The keras_synth authors
Date created: 2026/11/27
Last modified: 2026/11/27
Description: Train a model with Random attention, and emulate it with hls4ml.
Accelerator: None
"""

"""
## Introduction

A detector measures a pulse at 16 times. Is it one pulse, or two? A model with
Random attention (R) is trained, and folded to stock Keras layers. hls4ml turns
these into C++ for an FPGA, which a compiler translates for the CPU.

## Setup
"""

import keras
import numpy as np

import keras_synth

STEPS, WIDTH, HEADS = 16, 16, 4
TRAIN, TEST, EPOCHS, SEED = 20_000, 4_000, 15, 0
MIXERS = {"random": "R", "mlp_mixer": "mlp_mixer(activation='relu')"}
# Bits of all numbers, and how many of these are integer.
PRECISIONS = [f"ap_fixed<{bits}>" for bits in ("16,6", "20,8", "24,8")]

"""
## Data: one pulse, or two that share its height
"""


def pulses(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    second = labels * rng.uniform(0.25, 0.75, count)
    start, delay = rng.uniform(0, 8, count), rng.uniform(1.5, 6, count)
    starts = np.stack([start, start + delay], axis=1)[:, :, None]
    since = np.maximum(np.arange(STEPS) - starts, 0) / 2
    heights = np.stack([1 - second, second], axis=1)[:, :, None]
    x = np.sum(heights * since * np.exp(1 - since), axis=1)
    x = x * rng.uniform(0.5, 2, (count, 1)) + rng.normal(0, 0.03, x.shape)
    return x[:, :, None].astype("float32"), labels


train, (x_test, y_test) = pulses(TRAIN, SEED), pulses(TEST, SEED + 1000)

"""
## Model: one block, of layers that hls4ml supports

The input has a name, because hls4ml finds the parts of a model by names.
"""


def new_model(mixer):
    inputs = x = keras.Input((STEPS, 1), name="pulse")
    x = keras.layers.Dense(WIDTH)(x)
    if mixer is not None:
        options = HEADS, WIDTH // HEADS, STEPS
        y = keras_synth.mixers.get(mixer, *options, name="mixer")(x)
        x = keras.layers.BatchNormalization()(keras.layers.Add()([x, y]))
    y = keras.layers.Dense(2 * WIDTH, activation="relu")(x)
    x = keras.layers.Add()([x, keras.layers.Dense(WIDTH)(y)])
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x))


def report(name, logits, expected):
    accuracy = np.mean((logits[:, 0] > 0) == y_test)
    error = np.abs(logits - expected).max()
    print(f"{name}: accuracy {accuracy:.2%}, difference {error:.1e}")


"""
## Training

The saved models are of stock layers. The first model has no attention.
"""

for name, mixer in {"no mixing": None, **MIXERS}.items():
    keras.utils.set_random_seed(SEED)
    model = new_model(mixer)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(2e-3), loss)
    model.fit(*train, batch_size=128, epochs=EPOCHS, verbose=0)
    logits = model.predict(x_test, verbose=0)
    report(f"{name}, {model.count_params()} weights", logits, logits)
    if mixer is not None:
        folded = keras_synth.fold(model).get_layer("mixer")
        counts = keras_synth.analysis.multiplications(folded, STEPS, STEPS)
        print(f"{name}: {sum(counts.values())} multiplications, {counts}")
        plain = keras_synth.fold(model, plain=True)
        report(f"{name}, plain", plain.predict(x_test, verbose=0), logits)
        plain.save(f"{name}.keras")

"""
## Conversion, and emulation in fixed point
"""

import hls4ml


def converted(model, precision, folder):
    options = {"backend": "Vitis", "io_type": "io_parallel"}
    config = hls4ml.utils.config_from_keras_model(
        model, "model", "Vitis", precision
    )
    return hls4ml.converters.convert_from_keras_model(
        model, folder, hls_config=config, allow_da_fallback=False, **options
    )


for name in MIXERS:
    plain = keras.saving.load_model(f"{name}.keras")
    logits = plain.predict(x_test, verbose=0)
    for precision in PRECISIONS:
        emulated = converted(plain, precision, f"{name}_hls")
        emulated.compile()
        found = emulated.predict(x_test).reshape(logits.shape)
        report(f"{name}, {precision}", found, logits)

"""
## V and D compute weights from tokens: hls4ml stops with an error
"""

for mixer in ("V", "D"):
    try:
        plain = keras_synth.fold(new_model(mixer), plain=True)
        converted(plain, PRECISIONS[0], "failed")
    except ValueError as error:
        print(f"{mixer}: {error}")
