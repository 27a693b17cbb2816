"""Layers that are computed again for their gradients: `keras.RematScope`.

Keras hands all that a call is given to the backend's own way to do that. JAX
makes tensors of numbers there, booleans too, by which no Python can branch any
more, and what a layer assigns to its variables is gone with the function that
it was traced in. TensorFlow adds numbers to all that it is given, masks too.
"""

import keras
from keras import ops

from keras_synth._backend.trees import put_together, taken_apart


def rematerialized(layer, rematerialize, layer_call, args, kwargs):
    """Returns a function that does what a layer's call does with arguments.

    Of the arguments only floats are handed to the backend. What the layer
    changes, such as seeds, is as it was when it is computed again.

    Args:
        layer: Layer.
        rematerialize: Keras' own `rematerialized_call` of the layer.
        layer_call: The layer's `call`.
        args: Tuple, what it is called with.
        kwargs: Dictionary, likewise by name.
    """
    outline, floats = taken_apart((args, tuple(kwargs.items())), _is_float)
    variables, changed = _variables(layer), []
    before = [v.value for v in variables]
    if keras.backend.backend() != "jax":  # where variables are written to
        before = list(map(ops.copy, before))

    def of_floats(*floats):
        own, named = put_together(outline, floats)
        scope = keras.StatelessScope(zip(variables, before, strict=True))
        old = list(map(scope.get_current_value, variables))
        with scope:
            output = layer_call(*own, **dict(named))
        new = list(map(scope.get_current_value, variables))
        changed[:] = [i for i, x in enumerate(new) if x is not old[i]]
        return (output, *(new[i] for i in changed)) if changed else output

    call = rematerialize(of_floats, *args, **kwargs)

    def called(*_, **__):
        output = call(*floats)
        if not changed:
            return output
        output, *values = output
        for i, value in zip(changed, values, strict=True):
            variables[i].assign(value)
        return output

    return called


def _variables(layer):
    """Those that a call may change; on JAX also those that it reads.

    There a scope inside of another one hides what that one holds.
    """
    if keras.backend.backend() == "jax":
        return layer.variables
    return layer.non_trainable_variables


def _is_float(x):
    if not ops.is_tensor(x):
        return False
    return keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(x.dtype)
    )
