"""What Keras leaves of a model when its data raise an error."""

import contextlib

from keras_synth._backend import internals
from keras_synth._backend.frameworks import JAX


@contextlib.contextmanager
def kept_variables(model):
    """Leaves a model its variables when data raise an error in a `with` block.

    On JAX, Keras takes them out of a model before it asks for the first
    batch, and puts them back after the last one (Keras 3.15.1).
    """
    if JAX is None:
        yield
        return
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *model.metrics_variables]
    variables += [] if optimizer is None else optimizer.variables
    kept = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        internals.forget_state(model)
        for variable, value in kept:
            if internals.is_empty(variable) and not value.is_deleted():
                variable.assign(value)
        raise
