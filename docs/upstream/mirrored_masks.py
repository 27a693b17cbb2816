# A model should train on boolean inputs. `MirroredStrategy` reduces the inputs
# of two devices by a sum, which does not support booleans.
# Keras 3.15.1, TensorFlow 2.21.0.
# Error: Value for attr 'T' of bool is not in the list of allowed values
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpus[0], two)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    mask = keras.Input((3,), dtype="bool")
    x = keras.layers.Dense(1)(keras.ops.cast(mask, "float32"))
    model = keras.Model(mask, x)
    model.compile("sgd", "mse")
model.fit(tf.ones((4, 3), "bool"), tf.ones((4, 1)), verbose=0)
