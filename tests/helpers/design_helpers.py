"""Helpers of the tests of the design, which use only the public API.

Weights are found by the names and shapes in the design. Expected numbers are
from `reference.py`, `keras.layers.MultiHeadAttention` or an identity. Many
tests compute a layer's unmasked logits from its scores (`log` of a softmax row
is the row's logits up to a constant, which a softmax ignores), so they work for
all synthesizers and mixtures.
"""

import keras
import numpy as np
import reference
from arrays import normal
from backend import numpy, program

import keras_synth
from keras_synth.layers import SyntheticAttention

# d, H, k and N differ, so that a weight's axes are known by their sizes.
B, T, S, D, H, K, N = 2, 4, 6, 8, 2, 4, 7

CASES = ["V", "D", "R", "Fix", "FD", "FR", "R+V", "D+V", "fd + fr"]


PAIR = normal(B, T, D), normal(B, S, D, seed=1)  # query and source


def get(identifier, max_length=N, **options):
    options = {"num_heads": H, "key_dim": K, **options}
    return keras_synth.synthesizers.get(
        identifier, max_length=max_length, **options
    )


def attention(synthesizer, num_heads=H, seed=0, **options):
    """A built layer whose weights, zeros included, are random normal."""
    if isinstance(synthesizer, str):
        options = {"max_length": N, **options}
    layer = SyntheticAttention(num_heads, K, synthesizer=synthesizer, **options)
    layer.build((None, N, D))
    return randomized(layer, seed)


def randomized(layer, seed=0):
    rng = np.random.default_rng(seed)
    for variable in layer.weights:
        variable.assign(rng.normal(scale=0.5, size=variable.shape))
    return layer


def call(layer, *args, **options):
    """The outputs of the layer, as NumPy arrays of at least float32."""
    plain = all(isinstance(x, np.ndarray) for x in args)  # they carry no mask
    if plain and layer.built and not options.get("training"):
        outputs = program(lambda *args: layer(*args, **options))(*args)
    else:
        outputs = layer(*args, **options)
    return keras.tree.map_structure(numpy, outputs)


def scores_of(layer, *args, **options):
    return call(layer, *args, return_attention_scores=True, **options)[1]


def logits_of(layer, *args, **options):
    """Logits up to one constant per row, from unmasked scores."""
    return np.log(scores_of(layer, *args, **options).astype("float64"))


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def variables(layer, ending):
    """The weights whose path ends so, such as "value/kernel"."""
    return [w for w in layer.weights if ("/" + w.path).endswith("/" + ending)]


def variable(layer, ending):
    (found,) = variables(layer, ending)
    return found


def value_of(layer, ending):
    """A weight as an array, or `None` if the layer lacks it."""
    found = variables(layer, ending)
    assert len(found) <= 1
    return numpy(found[0]) if found else None


def tables(layer, *shape):
    """The weights of exactly this shape."""
    return [w for w in layer.weights if tuple(w.shape) == shape]


def is_projection(weight):
    owner = weight.path.split("/")[-2]
    return owner in ("value", "attention_output")


def synthesizer_weights(layer):
    return [w for w in layer.weights if not is_projection(w)]


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


def oriented(layer, *shape):
    """The synthesizer's only weight with these axes, in this order."""
    (found,) = [
        weight
        for weight in synthesizer_weights(layer)
        if sorted(weight.shape) == sorted(shape)
    ]
    order = [tuple(found.shape).index(size) for size in shape]
    return np.transpose(numpy(found), order)


def weighted_logits(layer, letter, x, source):
    """The reference's logits, from the weights of the layer's only part."""
    length = source.shape[1]
    if letter == "V":
        names = ["query/kernel", "query/bias", "key/kernel", "key/bias"]
        weights = [value_of(layer, name) for name in names]
        return reference.dot_product_logits(x, source, *weights)
    if letter in ("R", "Fix"):
        (R,) = tables(layer, H, N, N)
        return reference.random_logits(numpy(R), x.shape[1], length)
    if letter == "FR":
        R1, R2 = (numpy(table) for table in tables(layer, H, N, 8))
        return reference.factorized_random_logits(R1, R2, x.shape[1], length)
    assert letter == "D"
    return reference.dense_logits(
        x,
        oriented(layer, D, H, K),
        oriented(layer, H, K),
        oriented(layer, N, H, K),
        oriented(layer, H, N),
        length,
    )


def expected_output(layer, source, logits, mask=None):
    return reference.layer(
        source,
        value_of(layer, "value/kernel"),
        value_of(layer, "value/bias"),
        value_of(layer, "attention_output/kernel"),
        value_of(layer, "attention_output/bias"),
        logits,
        mask,
    )


def check(layer, inputs, logits, mask=None, **options):
    """Outputs, with and without scores, and scores equal the reference."""
    expected = expected_output(layer, inputs[-1], logits, mask)
    close(call(layer, *inputs, **options), expected)
    output, scores = call(
        layer, *inputs, return_attention_scores=True, **options
    )
    close(output, expected)
    rows = np.broadcast_to(reference.softmax_rows(logits, mask), scores.shape)
    close(scores, rows)
    assert (scores[rows == 0] == 0).all()


def saved_and_loaded(model, folder):
    model.save(folder / "model.keras")
    return keras.saving.load_model(folder / "model.keras")


def output_bias(layer):
    return value_of(layer, "attention_output/bias")


def combined(length, source_length, use_causal_mask=False, **masks):
    """The reference's mask for these call arguments."""
    return reference.combine_masks(
        B, H, length, source_length, causal=use_causal_mask, **masks
    )


def flags(*rows):
    """Boolean masks as strings: "1101" sees all except the third."""
    return np.array([[letter == "1" for letter in row] for row in rows])


def functional(layer, length=None):
    inputs = keras.Input((length, D))
    return keras.Model(inputs, layer(inputs))


def train_one_step(model, inputs, targets, **options):
    options = {"run_eagerly": True, **options}
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse", **options)
    history = model.fit(inputs, targets, batch_size=len(targets), verbose=0)
    assert np.isfinite(history.history["loss"]).all()
