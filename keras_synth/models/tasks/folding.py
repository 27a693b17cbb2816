"""`keras_synth.fold` of tasks, and preprocessors of shorter sequences."""

import keras_hub

from keras_synth._backend.internals import sublayers
from keras_synth.folding import folded_config


@folded_config.register(keras_hub.models.Task)
def _folded_config(task, folding):
    config = task.get_config()
    # Layers of a task find their quantization here.
    dtype = config["backbone"]["config"]["dtype"]
    backbone = folding.rebuilt(task.backbone, dtype=dtype)
    preprocessor = shortened(task.preprocessor, folding.max_length)
    if preprocessor is not task.preprocessor:
        _check_shortened(task, preprocessor, folding.max_length)
    return {**config, "backbone": backbone, "preprocessor": preprocessor}


def _check_shortened(task, preprocessor, max_length):
    """Raises if less padding would change outputs."""
    if _lengths(preprocessor) == _lengths(task.preprocessor):
        return
    for layer in (task, *sublayers(task)):
        if getattr(layer, "sees_padding", False):
            raise ValueError(
                f"Outputs of {type(layer).__name__} depend on the length of "
                "the padding. Leave out `max_length`, or train with a "
                "preprocessor of this length. Received: "
                f"max_length={max_length}, and texts padded to "
                f"{_lengths(task.preprocessor)}"
            )


def shortened(preprocessor, max_length):
    """A preprocessor with the same tokenizer and limited lengths.

    It is the original without a tokenizer or a `max_length`.
    """
    if max_length is None or getattr(preprocessor, "tokenizer", None) is None:
        return preprocessor
    config = preprocessor.get_config()
    for name, value in _lengths(preprocessor).items():
        config[name] = min(value, max_length)
    config["tokenizer"] = preprocessor.tokenizer
    return type(preprocessor).from_config(config)


def _lengths(preprocessor):
    """The lengths of a preprocessor in tokens, by name."""
    return {
        name: value
        for name, value in preprocessor.get_config().items()
        if name.endswith("sequence_length") and value is not None
    }
