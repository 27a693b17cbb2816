"""Layers that are computed again for their gradients: `keras.RematScope`.

Keras hands all arguments of a call to the backend's own way to do that. JAX
makes tensors of numbers and booleans, and loses what a layer assigns to its
variables; TensorFlow adds numbers to masks; tensors lose the masks that they
carry.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_synth._backend.frameworks import JAX
from keras_synth.types import Mixin


class Rematerialized(Mixin):
    """A layer that may be made in a `keras.RematScope` on any backend."""

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """Returns `layer_call` for a layer made in a `keras.RematScope`.

        Of the arguments only floats are handed to the backend. What the layer
        changes, such as seeds, is as it was when it is computed again.
        """
        leaves = keras.tree.flatten((args, kwargs))
        at = [i for i, x in enumerate(leaves) if _is_float(x)]
        carried = [_mask_of(leaves[i]) for i in at]
        # Those that a call may change; on JAX also those that it reads: there a
        # scope inside of another one hides what that one holds.
        variables = self.variables if JAX else self.non_trainable_variables
        changed: list[int] = []
        before = [v.value for v in variables]
        if JAX is None:  # variables are written to
            before = list(map(ops.copy, before))

        def of_floats(*floats):
            for i, x, mask in zip(at, floats, carried, strict=True):
                leaves[i] = x if mask is None else _Identity()(x, mask=mask)
            own, named = keras.tree.pack_sequence_as((args, kwargs), leaves)
            scope = keras.StatelessScope(zip(variables, before, strict=True))
            old = list(map(scope.get_current_value, variables))
            with scope:
                output = layer_call(*own, **named)
            new = list(map(scope.get_current_value, variables))
            changed[:] = [i for i, x in enumerate(new) if x is not old[i]]
            return (output, *(new[i] for i in changed)) if changed else output

        call = super().rematerialized_call(of_floats, *args, **kwargs)

        def called(*_, **__):
            output = call(*(leaves[i] for i in at))
            if not changed:
                return output
            output, *values = output
            for i, value in zip(changed, values, strict=True):
                variables[i].assign(value)
            return output

        return called


class _Identity(keras.layers.Layer):
    """Sees the Keras mask that a tensor carries, or gives it one."""

    def __init__(self):
        super().__init__(autocast=False, name="identity")
        self.supports_masking = True

    def call(self, x, mask=None):
        self.mask = mask
        return x


def _mask_of(x):
    identity = _Identity()
    identity(x)
    return identity.mask


def _is_float(x):
    return ops.is_tensor(x) and keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(x.dtype)
    )
