"""Gradients with padding where the forward pass is computed again."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy, only_on, slow_unless
from cases import MIXERS
from keras import ops

from keras_synth import layers, mixers

B, T, D = 3, 6, 8
BACKEND = keras.backend.backend()
SYNTHESIZERS = ["V", "R", "R + V"]
# These are drawn again, or change their contents.
DRAWN = ("performer", "routing")
MORE = [x for x in MIXERS if x not in SYNTHESIZERS and not x.startswith(DRAWN)]
MORE += ["performer(redraw_interval=None)"]


def made(mixer, **options):
    return mixers.get(mixer, num_heads=2, key_dim=4, max_length=T, **options)


BLOCKS = {
    "encoder": lambda name, **options: layers.SynthesizerEncoder(
        16, 2, synthesizer=name, max_length=T, **options
    ),
    "decoder": lambda name, **options: layers.SynthesizerDecoder(
        16, 2, synthesizer=name, max_length=T, **options
    ),
    "attention": made,
}


def ids(*lengths):
    drawn = np.random.default_rng(0).integers(1, 20, (len(lengths), T))
    return (drawn * padding(*lengths, size=T)).astype("int32")


def embedded(tokens):
    return keras.layers.Embedding(20, D, mask_zero=True)(tokens)


def averaged(names):
    def outputs(tokens, scope):
        with scope:
            x = embedded(tokens)
            x = keras.layers.Average()([x, *(made(name)(x) for name in names)])
            x = keras.layers.GlobalAveragePooling1D()(x)
            return keras.layers.Dense(1)(x)

    return outputs, ids(4, 2, 6, 3, 1, T), normal(6, 1), 3


def alone(block, name):
    def outputs(tokens, scope):
        with scope:
            layer = BLOCKS[block](name)
        return layer(embedded(tokens))

    return outputs, ids(6, 4, 2, 5), normal(4, T, D), 4


def changing(name):
    """A mixer whose variables change in each step."""

    def outputs(x, scope):
        with scope:
            mixer = made(name)
        mean = keras.layers.GlobalAveragePooling1D()(mixer(x))
        return keras.layers.Dense(1)(mean)

    return outputs, normal(6, T, D), normal(6, 1, seed=1), 2


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(averaged(SYNTHESIZERS), marks=pytest.mark.each_backend),
        averaged(MORE),
        pytest.param(alone("encoder", "R"), marks=pytest.mark.each_backend),
        *(alone(block, "V") for block in BLOCKS),
        *(alone(block, "R") for block in ("decoder", "attention")),
        changing("routing(clusters=2)"),
        pytest.param(
            changing("performer(redraw_interval=2)"),
            marks=pytest.mark.each_backend,
        ),
    ],
)
def test_a_model_made_in_a_remat_scope_is_fit_alike(case):
    outputs, inputs, targets, batch_size = case
    found = []
    for mode in ("full", None):
        keras.utils.set_random_seed(0)
        tokens = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        own = keras.Model(tokens, outputs(tokens, keras.RematScope(mode=mode)))
        # Keras' own layers cannot be computed again in TensorFlow's graphs.
        own.compile("sgd", "mse", run_eagerly=BACKEND == "tensorflow")
        options = {"batch_size": batch_size, "shuffle": False, "verbose": 0}
        own.fit(inputs, targets, **options)
        found.append([numpy(weight.value) for weight in own.weights])
    close(*found)


@pytest.mark.each_backend
def test_losses_are_added_in_a_remat_scope():
    def losses():
        keras.utils.set_random_seed(0)
        layer = made("attention(V, activity_regularizer='l2')")
        layer(normal(B, T, D))
        return sorted(float(numpy(x)) for x in layer.losses)

    expected = losses()
    assert len(expected) == 4
    with keras.RematScope("full"):
        close(losses(), expected, atol=0, rtol=1e-5)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_mask_that_a_tensor_carries_counts_in_a_remat_scope(block):
    ids = np.array([[3, 4, 5, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    tokens, source = embedded(ids), embedded(ids[:, :4])
    outputs, weights = [], None
    for mode in (None, "full"):
        with keras.RematScope(mode=mode):
            layer = BLOCKS[block]("V", dropout=0.1)
        inputs = [tokens] if block == "encoder" else [tokens, source]
        layer(*inputs)
        weights = weights or layer.get_weights()
        layer.set_weights(weights)
        outputs.append(numpy(layer(*inputs, training=False))[ids != 0])
    close(*outputs)


def checkpointed(loss, variables, x, mask):
    import jax

    return jax.checkpoint(loss)(variables, x, mask)


def scanned(loss, variables, x, mask):
    import jax

    def step(total, own_mask):
        return total + loss(variables, x, own_mask), None

    return jax.lax.scan(step, 0.0, mask[None])[0]


def branched(loss, variables, x, mask):
    import jax

    return jax.lax.cond(
        ops.sum(x) > -1e9,
        lambda variables, x: loss(variables, x, mask),
        lambda variables, x: 2.0 * loss(variables, x, mask),
        variables,
        x,
    )


@pytest.mark.each_backend
@only_on("jax", "transformations are its own")
@pytest.mark.parametrize("name", slow_unless("VR", ["V", "R", *MORE]))
@pytest.mark.parametrize("how", [checkpointed, scanned, branched])
def test_padding_inside_of_a_transformation_of_jax(how, name):
    import jax

    layer = made(name)
    x = ops.convert_to_tensor(normal(B, T, D))
    layer.build(x.shape)
    mask = ops.convert_to_tensor(padding(6, 4, 2, size=T))
    variables = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]

    def loss(variables, x, mask):
        output, _ = layer.stateless_call(variables, others, x, value_mask=mask)
        return ops.sum(ops.square(output))

    expected = jax.jit(jax.grad(loss))(variables, x, mask)
    found = jax.jit(jax.grad(lambda *operands: how(loss, *operands)))(
        variables, x, mask
    )
    close(found, expected, atol=1e-4)
