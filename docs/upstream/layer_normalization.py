# The second derivative of this variance should be 2 / 4 - 2 / 16 = 0.375. It is
# 0.5, because `tf.nn.moments`, which `keras.layers.LayerNormalization` calls on
# TensorFlow, computes the variance with a constant mean (`stop_gradient`).
# Keras 3.15.1, TensorFlow 2.21.0.
import tensorflow as tf

x = tf.Variable([0.0, 1.0, 3.0, 4.0])
with tf.GradientTape() as outer, tf.GradientTape() as inner:
    slope = inner.gradient(tf.nn.moments(x, [0])[1], x)[0]
second = float(outer.gradient(slope, x)[0])
assert abs(second - 0.375) < 1e-6, f"the derivative is {second}"
