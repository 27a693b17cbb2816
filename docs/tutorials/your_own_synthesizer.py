"""
Title: Your own synthesizer and mixer
Description: Write a synthesizer in thirty lines, save it, mix it, and use it in
a backbone. Then write a mixer with a causal form and a decoding cache.
"""

"""
## Introduction

If your idea computes how much each token attends to each other token, it has
*logits* and is a `Synthesizer`. Masks, softmax, dropout, values, heads,
decoding and cross-attention then exist already. If it mixes tokens in another
way, it is a `Mixer`, a layer that is called like
`keras.layers.MultiHeadAttention`. Both can be used instead of a name such as
`"R+V"`, the mixture of Random (R) and dot product (V).
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

from keras_synth import layers, mixers, models, synthesizers
from keras_synth.logits import Logits

keras.utils.set_random_seed(0)

"""
## A synthesizer in thirty lines

In this synthesizer, each token determines how far it attends. From token i, we
predict a slope per head:

`S[i, j] = -softplus(w_h x_i + b_h) |i - j|`

With a steep slope, a token attends to its neighbours. With slope 0, it attends
equally to all tokens. As in Dense (D), a row depends only on its own token,
but there are only `d + 1` weights per head, and no longest sequence.
"""


@keras.saving.register_keras_serializable(package="tutorial")
class ReachSynthesizer(synthesizers.Synthesizer):
    """Attention that falls with distance, as steeply as each token says.

    Args:
        num_heads: Integer, number of heads.
        steepness: Float, how steep it is at the start, before the softplus.
        **kwargs: Keyword arguments of `Synthesizer`.
    """

    def __init__(self, num_heads, steepness=-1.0, **kwargs):
        super().__init__(num_heads, **kwargs)
        self.steepness = steepness
        self.dense = keras.layers.Dense(
            num_heads,
            bias_initializer=keras.initializers.Constant(steepness),
            dtype=self.dtype_policy,
            name="reach",
        )

    def build(self, query_shape, source_shape=None):
        self.dense.build(query_shape)
        self.built = True

    def call(self, query, keys=None, *, start=0, length=None):
        rows, columns = self.lengths(query, start, length)
        distance = ops.arange(columns) - (start + ops.arange(rows))[:, None]
        slope = ops.softplus(ops.cast(self.dense(query), "float32"))
        slope = ops.transpose(slope, (0, 2, 1))[..., None]  # (B, H, T, 1)
        return Logits(bias=-slope * ops.cast(ops.abs(distance), "float32"))

    def get_config(self):
        return {**super().get_config(), "steepness": self.steepness}


"""
The contract, line by line:

- `build` makes the weights from the shape of the query.
- `call` returns `Logits`: a `bias` of shape `(B, H, T, S)`, or the product of
  `queries` and `keys`, or both. If axis B is 1, all samples share them.
- `start` is the position of the first query token. It is 0 except when
  decoding, where a call receives one new token and attends to `length` tokens.
  `self.lengths` returns both, and checks them against `max_length`.
- Synthesizers that read the source, such as the dot product, set `key_dim` and
  implement `project_keys`, whose result is cached. Synthesizers that do not
  read tokens, such as R, set `reads_tokens = False`.
- `get_config` contains your own arguments.

## Does it learn?

In this task, each token has a value and a kind. Tokens of one kind must return
a mean of their neighbourhood, with half the weight for each step of distance.
Tokens of the other kind must return the mean of all tokens. The kinds are
random, so tables of positions cannot solve the task.
"""

LENGTH = 32
rng = np.random.default_rng(0)


def make_data(count):
    values = rng.normal(size=(count, LENGTH))
    is_near = rng.random((count, LENGTH)) < 0.5
    position = np.arange(LENGTH)
    near = 0.5 ** np.abs(position[:, None] - position)
    near = values @ (near / near.sum(axis=-1, keepdims=True)).T
    everything = values.mean(axis=-1, keepdims=True)
    inputs = np.stack([values, is_near], axis=-1)
    answers = np.where(is_near, near, everything)[..., None]
    return inputs.astype("float32"), answers.astype("float32")


train_inputs, train_answers = make_data(8_000)
test_inputs, test_answers = make_data(1_000)


def train(synthesizer):
    keras.utils.set_random_seed(1)
    attention = layers.SyntheticAttention(
        num_heads=1, key_dim=16, synthesizer=synthesizer, max_length=LENGTH
    )
    inputs = keras.Input((LENGTH, 2))
    x = keras.layers.Dense(16)(inputs)
    x, scores = attention(x, return_attention_scores=True)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile(keras.optimizers.Adam(5e-3), loss="mse")
    model.fit(train_inputs, train_answers, batch_size=32, epochs=3, verbose=0)
    error = model.evaluate(test_inputs, test_answers, batch_size=500, verbose=0)
    return error, model, keras.Model(inputs, scores)


print(f"mean of the answers: error {np.var(test_answers):.4f}")
for synthesizer in ["V", "R", ReachSynthesizer(1)]:
    error, model, scores = train(synthesizer)
    name = synthesizer if isinstance(synthesizer, str) else "reach"
    weights = model.layers[2].synthesizer.count_params()
    print(f"{name:5} error {error:.4f}, {weights:,} weights for the logits")

"""
With 17 weights, it solves a task that a table of a thousand weights cannot.
Rows marked at the left of its matrix are tokens that must attend to their
neighbourhood:
"""

kinds = test_inputs[0, :, 1:]
matrix = ops.convert_to_numpy(scores(test_inputs[:1]))[0, 0]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(4.6, 4), width_ratios=(1, 12), layout="constrained"
)
left.imshow(kinds, cmap="gray_r", aspect="auto")
left.set(xticks=[], ylabel="token")
right.imshow(matrix, vmax=0.4, aspect="auto")
right.set(yticks=[], xlabel="token attended to")
plt.show()

"""
## Saved

Saving needs only `register_keras_serializable` and `get_config`:
"""

model.save("reach.keras")
loaded = keras.saving.load_model("reach.keras")
same = np.array_equal(
    loaded.predict(test_inputs, verbose=0),
    model.predict(test_inputs, verbose=0),
)
print("same predictions after loading:", same)

"""
## In a mixture

Logits can be added, so a new synthesizer can be mixed with all others. Write a
sum of names, or a list of objects:
"""

mixture = synthesizers.MixtureSynthesizer(
    [
        ReachSynthesizer(num_heads=4),
        synthesizers.get("R", num_heads=4, max_length=64),
        synthesizers.get("V", num_heads=4, key_dim=8),
    ]
)
layer = layers.SyntheticAttention(num_heads=4, key_dim=8, synthesizer=mixture)
print(layer(keras.random.normal((2, 50, 32))).shape)
for weight in mixture.weights:
    print(f"{weight.path:55} {tuple(weight.shape)}")

"""
## In a backbone, and decoding

A backbone accepts the object like a name, and makes a copy for each layer. A
causal backbone also decodes, using `start` and `length`. With a cache of
values, decoding step by step returns the same outputs as the whole sequence:
"""

backbone = models.SynthesizerBackbone(
    vocabulary_size=100,
    num_layers=2,
    num_heads=4,
    hidden_dim=32,
    intermediate_dim=64,
    synthesizer=ReachSynthesizer(num_heads=4),
    max_sequence_length=24,
    causal=True,
)
lm = models.SynthesizerCausalLM(backbone)


def largest_difference(lm, length=20):
    """Between logits of a whole sequence and those made token by token."""
    tokens = rng.integers(1, 100, size=(2, length)).astype("int32")
    whole = lm({"token_ids": tokens, "padding_mask": np.ones_like(tokens)})
    caches, steps = lm.make_caches(2, length), []
    for i in range(length):
        logits, _, caches = lm.call_with_cache(tokens[:, i : i + 1], caches, i)
        steps.append(logits)
    difference = ops.abs(whole - ops.concatenate(steps, axis=1))
    return float(ops.convert_to_numpy(ops.max(difference)))


print(f"largest difference: {largest_difference(lm):.0e}")

"""
## A mixer

This mixer has no logits. It is an exponential moving average,

`h_t = a h_(t-1) + (1 - a) x_t`

with a learned decay `a` for each feature. It has a causal form. In the other
form, it runs from both ends. A `SelfMixer` mixes the tokens of one sequence.
Class attributes declare the supported features; others raise an error.
"""


@keras.saving.register_keras_serializable(package="tutorial")
class MovingAverage(mixers.SelfMixer):
    """A moving average of the tokens, with a learned decay per feature."""

    supports_causal_mask = True
    overwrites_cache = False  # each token must come once

    def build(self, query_shape):
        self.decay = self.add_weight(
            name="decay",
            shape=(query_shape[-1],),
            initializer=keras.initializers.RandomUniform(0.0, 3.0),
        )
        self.built = True

    def mix(self, x, padding_mask=None, causal=False, training=None):
        forward, _ = self._scan(x, padding_mask)
        if causal:
            return forward
        backward, _ = self._scan(x, padding_mask, reverse=True)
        return (forward + backward) / 2

    def _scan(self, x, padding_mask=None, reverse=False):
        """All averages `(B, T, d)`, and how much of the first state is left."""
        keep = ops.broadcast_to(ops.sigmoid(self.decay), ops.shape(x))
        new = (1 - keep) * x
        if padding_mask is not None:  # padding leaves the average as it is
            real = ops.cast(padding_mask, "bool")[..., None]
            keep = ops.where(real, keep, ops.ones_like(keep))
            new = ops.where(real, new, ops.zeros_like(new))

        def combine(first, second):
            return first[0] * second[0], first[1] * second[0] + second[1]

        left, averages = ops.associative_scan(
            combine, (keep, new), axis=1, reverse=reverse
        )
        # On TensorFlow the scan forgets shapes where lengths are not known.
        shape = ops.shape(x)
        return ops.reshape(averages, shape), ops.reshape(left, shape)

    def make_cache(self, batch_size, length):
        return ops.zeros((batch_size, self.decay.shape[0]), self.compute_dtype)

    def call_with_cache(self, query, cache, start, value_mask=None, **masks):
        averages, left = self._scan(query, value_mask)
        output = averages + left * cache[:, None]
        return output, output[:, -1]


"""
- `mix` receives the tokens, a padding mask, and whether later tokens are
  hidden. Padding must not have any influence, so we use `where` instead of a
  product, which would propagate NaN.
- `make_cache` and `call_with_cache` decode. The state is one vector, whatever
  the length of the text. Unlike a cache of values, it cannot be overwritten,
  so `overwrites_cache = False`.

Blocks and backbones accept it, here below a layer of R+V, and it decodes:
"""

backbone = models.SynthesizerBackbone(
    vocabulary_size=100,
    num_layers=2,
    num_heads=4,
    hidden_dim=32,
    intermediate_dim=64,
    synthesizer=[MovingAverage(), "R + V"],
    max_sequence_length=24,
    causal=True,
)
lm = models.SynthesizerCausalLM(backbone)
print(f"largest difference: {largest_difference(lm):.0e}")
for layer, cache in zip(
    backbone.stack.blocks, lm.make_caches(2, 20), strict=True
):
    print(f"{type(layer.attention).__name__:20} cache {tuple(cache.shape)}")

"""
Unsupported arguments raise an error:
"""

try:
    MovingAverage()(ops.ones((1, 4, 8)), attention_mask=ops.ones((1, 4, 4)))
except ValueError as error:
    print(error)

"""
## For the real thing

- Compare your class with other variants, with the same data, seeds and
  batches. `keras-synth compare --task pairs --variants V mine:MyClass` imports
  a class from the module `mine` ([Compare variants](../compare.md)).
  `keras_synth.register` gives it a name.
- Test that future tokens do not change the past, that padding has no
  influence, and that cached decoding equals the whole sequence.
  `tests/synthesizers/test_synthesizers.py` tests this for every synthesizer of
  the package.
- Logits that do not depend on tokens should have a batch axis of 1, so that
  the softmax is computed once for the whole batch.
- [Architecture](../architecture.md) lists all contracts.
  [Mixers](../mixers.md) shows another mixer.
"""
