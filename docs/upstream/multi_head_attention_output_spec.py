# Scores should have the shape (batch, heads, queries, keys). The symbolic
# scores of `MultiHeadAttention` have the number of queries twice.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=2)
query, value = keras.Input((3, 4)), keras.Input((5, 4))
_, scores = layer(query, value, return_attention_scores=True)
assert scores.shape == (None, 2, 3, 5), f"the shape is {scores.shape}"
