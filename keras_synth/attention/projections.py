"""Projections that split and merge heads."""

import keras
from keras import ops

from keras_synth._backend.checks import check_boolean, check_positive
from keras_synth._backend.configs import kind_of, serialized
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.keras_layers import EinsumDense
from keras_synth._backend.seeds import seeded

# Letters for the axes of an output token.
OUTPUT_AXES = "defgijlmnopqrsuvwxyz"


class Projections:
    """Makes the dense layers of an attention layer with the same options.

    It removes the options from the layer's `kwargs`. A `seed` stays, because
    the layer also uses it. Kernels and biases have the layout of
    `keras.layers.MultiHeadAttention`. If `fixed`, the layers are never trained.
    """

    defaults = {
        "kernel_initializer": "glorot_uniform",
        "bias_initializer": "zeros",
        "kernel_regularizer": None,
        "bias_regularizer": None,
        "activity_regularizer": None,
        "kernel_constraint": None,
        "bias_constraint": None,
    }

    def __init__(self, kwargs, use_bias, fixed=False, seed=None):
        self.use_bias = check_boolean("use_bias", use_bias)
        self.seed = kwargs.get("seed", seed)
        self.fixed = fixed
        self.options = {
            name: kind_of(name).get(kwargs.pop(name, default))
            for name, default in self.defaults.items()
        }

    def get_config(self):
        """Returns the options, including `use_bias`, in serializable form."""
        config = {
            name: serialized(name, value)
            for name, value in self.options.items()
        }
        return {"use_bias": self.use_bias, **config}

    def split_heads(self, num_heads, width, name, dtype, activation=None):
        """A dense layer `(B, T, d) -> (B, T, H, width)`."""
        shape = (num_heads, width)
        equation = "btd,dhk->bthk"
        return self._dense(equation, shape, name, dtype, activation, True)

    def merge_heads(self, output_shape, name, dtype):
        """A dense layer `(B, T, H, v) -> (B, T, *output_shape)`."""
        axes = OUTPUT_AXES[: len(output_shape)]
        equation = f"bthk,hk{axes}->bt{axes}"
        return self._dense(equation, output_shape, name, dtype, None, True)

    def dense(self, width, name, dtype, activation=None, use_bias=True):
        """A dense layer `(B, T, d) -> (B, T, width)`.

        It has a bias only if both `use_bias` are true.
        """
        shape, equation = (width,), "btd,de->bte"
        return self._dense(equation, shape, name, dtype, activation, use_bias)

    def _dense(self, equation, output_shape, name, dtype, activation, use_bias):
        has_bias = self.use_bias and use_bias
        layer = FixedEinsumDense if self.fixed else EinsumDense
        return layer(
            equation,
            output_shape=(None, *output_shape),
            activation=activation,
            bias_axes=equation.split("->bt")[1] if has_bias else None,
            name=name,
            dtype=dtype,
            **{
                n: seeded(value, self.seed, f"{name}/{n}")
                for n, value in self.options.items()
            },
        )


@keras.saving.register_keras_serializable(package="keras_synth")
class FixedEinsumDense(EinsumDense):
    """An `EinsumDense` whose weights are never trained.

    Neither `trainable`, on the layer or on a model around it, nor LoRA changes
    this.
    """

    def add_weight(self, *args, **kwargs):
        return super().add_weight(*args, **{**kwargs, "trainable": False})

    def enable_lora(self, *args, **kwargs):
        """Does nothing, because the layer is never trained."""


def axes_of_heads(*names):
    """Returns the `weight_axes` of layers from `split_heads` or `dense`.

    Kernels are `(d, H, k)` or `(d, H * k)`, biases `(H, k)` or `(H * k,)`.
    """
    own = {"kernel": (DATA, MODEL), "bias": (MODEL,)}
    return {f"{name}/{key}": own[key] for name in names for key in own}


def positive_shape(output_shape):
    """Returns an int or a sequence of ints as a tuple of positive ints."""
    if isinstance(output_shape, int):
        output_shape = (output_shape,)
    is_sequence = isinstance(output_shape, (list, tuple))
    if not is_sequence or len(output_shape) > len(OUTPUT_AXES):
        raise ValueError(
            f"Invalid `output_shape`: {output_shape!r}. It must be an int, or "
            f"a tuple or list of at most {len(OUTPUT_AXES)}. Received: "
            f"output_shape={output_shape!r}"
        )
    return tuple(check_positive("output_shape", x) for x in output_shape)


def check_divides_heads(num_heads, num_key_value_heads):
    """Raises if heads cannot share keys and values evenly."""
    if num_key_value_heads and num_heads % num_key_value_heads:
        raise ValueError(
            "`num_key_value_heads` must divide `num_heads`. Received: "
            f"num_key_value_heads={num_key_value_heads}, num_heads={num_heads}"
        )


def repeated_heads(x, num_heads):
    """Repeats shared heads: `(B, S, G, k) -> (B, S, H, k)`."""
    times = num_heads // x.shape[2]
    return x if times == 1 else ops.repeat(x, times, axis=2)
