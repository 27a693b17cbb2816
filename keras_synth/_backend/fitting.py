"""What Keras leaves of a model when its data raise an error."""

import contextlib

import keras

from keras_synth._backend import internals


@contextlib.contextmanager
def kept_variables(model):
    """Leaves a model its variables when data raise an error.

    On JAX, Keras takes them out of a model before it asks for the first
    batch, and puts them back after the last one; what raises in between
    leaves a model without weights (Keras 3.15.1).

    Args:
        model: A `keras.Model`, in a `with` block that calls `fit`, `evaluate`
            or `predict`.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    optimizer = getattr(model, "optimizer", None)
    kept = [
        (variable, variable.value)
        for variable in (
            *model.variables,
            *model.metrics_variables,
            *(optimizer.variables if optimizer is not None else ()),
        )
    ]
    try:
        yield
    except BaseException:
        internals.forget_state(model)
        for variable, value in kept:
            if internals.is_empty(variable) and not value.is_deleted():
                variable.assign(value)
        raise
