"""One step of training on two virtual devices, and the same on one.

TensorFlow configures devices when it starts, so this is a separate process.
"""

import keras
import numpy as np
import tensorflow as tf

from keras_synth import layers, models

CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    CPU, [tf.config.LogicalDeviceConfiguration()] * 2
)
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 20, (8, 6)).astype("int32")
SEEN = (np.arange(6) < RNG.integers(2, 7, (8, 1))).astype("int32")


def translator():
    backbone = models.SynthesizerSeq2SeqBackbone(
        20, 1, 2, 8, 8, "R+V", dropout=0.0, max_sequence_length=8
    )
    inputs = {
        f"{side}_{name}": x
        for side in ("encoder", "decoder")
        for name, x in (("token_ids", IDS), ("padding_mask", SEEN))
    }
    return models.SynthesizerSeq2SeqLM(backbone), inputs, IDS


def masked_embedding():
    """Masks that tensors carry."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 8, mask_zero=True)(ids)
    for name in ("R+V", "D", "R"):
        x = layers.SynthesizerEncoder(8, 2, synthesizer=name, max_length=8)(x)
    x = layers.SyntheticAttention(2, 4, synthesizer="FD", max_length=8)(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    made = keras.Model(ids, keras.layers.Dense(3)(x))
    return made, IDS, RNG.integers(0, 3, 8)


def mask_inputs():
    """Keras adds up the inputs of all devices, which booleans have no sum of.

    So a model with masks as inputs must accept them as integers.
    """
    x = keras.Input((6, 8))
    real = keras.Input((6,), dtype="int32")
    pairs = keras.Input((6, 6), dtype="int32")
    y = layers.SynthesizerEncoder(8, 2, synthesizer="R+V", max_length=8)(
        x, padding_mask=real, attention_mask=pairs
    )
    y = layers.SynthesizerDecoder(8, 2, synthesizer="D", max_length=8)(
        y,
        x,
        decoder_padding_mask=real,
        encoder_padding_mask=real,
        encoder_attention_mask=pairs,
    )
    y = layers.SyntheticAttention(2, 4, synthesizer="FR", max_length=8)(
        y, value_mask=real, attention_mask=pairs
    )
    made = keras.Model([x, real, pairs], keras.layers.Dense(3)(y[:, 0]))
    inputs = (
        RNG.normal(size=(8, 6, 8)).astype("float32"),
        SEEN,
        (RNG.random((8, 6, 6)) < 0.7).astype("int32"),
    )
    return made, inputs, RNG.integers(0, 3, 8)


def losses(make, strategy):
    global RNG
    RNG = np.random.default_rng(1)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model, inputs, labels = make()
        model.compile(
            optimizer=keras.optimizers.SGD(0.1),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(8)
    return model.fit(data, epochs=2, verbose=0).history["loss"]


if __name__ == "__main__":
    alone = tf.distribute.get_strategy()
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for make in (translator, masked_embedding, mask_inputs):
        one, two = (losses(make, strategy) for strategy in (alone, mirrored))
        np.testing.assert_allclose(two, one, rtol=1e-4, err_msg=make.__name__)
