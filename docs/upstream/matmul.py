# Each product should be 7. With oneDNN and several threads, TensorFlow writes
# beyond the end of the result: numbers are wrong, or the process is killed.
# https://github.com/tensorflow/tensorflow/issues/117700
# TensorFlow 2.21.0.
# Error: AssertionError: the product is wrong
# Error: killed by signal
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(2)
x, y = tf.ones((3, 1, 9, 7)), tf.ones((1, 1, 7, 5))
for _ in range(3000):
    assert tf.reduce_all(tf.matmul(x, y) == 7.0), "the product is wrong"
