# A checkpoint should contain the layers in a list of a layer. They are left
# out, and `restore` does not say so.
# Keras 3.15.1, TensorFlow 2.21.0.
import tempfile

import keras
import tensorflow as tf


def made():
    layer = keras.layers.StackedRNNCells([keras.layers.LSTMCell(1)])
    layer.build((1, 1))
    return layer


first, second = made(), made()
path = tf.train.Checkpoint(layer=first).save(tempfile.mkdtemp() + "/x")
tf.train.Checkpoint(layer=second).restore(path).assert_consumed()
assert (first.get_weights()[0] == second.get_weights()[0]).all()
