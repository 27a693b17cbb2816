"""The base class of the package's layers."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_synth._backend.configs import Configured
from keras_synth._backend.frameworks import JAX
from keras_synth._backend.internals import keras_mask, set_keras_mask


class Layer(Configured, keras.layers.Layer):
    """A layer with its arguments in its config, and with rematerialization."""

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """Returns `layer_call` for a layer made in a `keras.RematScope`.

        Keras passes all arguments to the backend's function that computes the
        layer again for its gradient. JAX turns numbers and booleans into
        tensors, and loses assignments to variables. TensorFlow adds numbers to
        masks. Tensors lose their Keras masks. Here only floating-point
        arguments are passed to it, and the second computation sees the old
        values of variables that the layer changes, such as seeds.
        """
        leaves = keras.tree.flatten((args, kwargs))
        at = [i for i, x in enumerate(leaves) if _is_float(x)]
        carried = [keras_mask(leaves[i]) for i in at]
        # Variables that a call can change, and on JAX those that it reads,
        # because a scope inside of another one hides the variables of the outer
        # one.
        variables = self.variables if JAX else self.non_trainable_variables
        changed: list[int] = []
        before = [v.value for v in variables]
        if JAX is None:  # variables change in place
            before = list(map(ops.copy, before))

        def of_floats(*floats):
            for i, x, mask in zip(at, floats, carried, strict=True):
                leaves[i] = x
                if mask is not None:
                    set_keras_mask(x, mask)
            own, named = keras.tree.pack_sequence_as((args, kwargs), leaves)
            scope = keras.StatelessScope(
                zip(variables, before, strict=True), collect_losses=True
            )
            old = list(map(scope.get_current_value, variables))
            with scope:
                output = layer_call(*own, **named)
            new = list(map(scope.get_current_value, variables))
            changed[:] = [i for i, x in enumerate(new) if x is not old[i]]
            return output, [new[i] for i in changed], [*scope.losses]

        call = super().rematerialized_call(of_floats, *args, **kwargs)

        def called(*_, **__):
            output, values, losses = call(*(leaves[i] for i in at))
            for i, value in zip(changed, values, strict=True):
                variables[i].assign(value)
            for loss in losses:
                self.add_loss(loss)
            return output

        return called

    def _check_built(self):
        if not self.built:
            raise ValueError(
                f"{type(self).__name__} must be built. Call it, or `build` it. "
                "Received: a layer that is not built"
            )


def _is_float(x):
    return ops.is_tensor(x) and keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(x.dtype)
    )
