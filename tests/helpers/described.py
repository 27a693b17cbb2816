"""Synthesizers as values that can be compared."""

import keras


def described(synthesizer):
    """A description without the names of layers."""

    def without_names(x):
        if isinstance(x, dict):
            x = {
                k: v for k, v in x.items() if k not in ("name", "build_config")
            }
            return {k: without_names(v) for k, v in x.items()}
        return [without_names(v) for v in x] if isinstance(x, list) else x

    return without_names(keras.saving.serialize_keras_object(synthesizer))
