"""`keras_synth.fold` of tasks, and preprocessors of shorter sequences."""

import keras_hub

from keras_synth._backend.internals import sublayers
from keras_synth.folding import folded_config


@folded_config.register(keras_hub.models.Task)
def _folded_config(task, folding):
    config = task.get_config()
    # Where the layers of a task, too, look up whether they are quantized.
    dtype = config["backbone"]["config"]["dtype"]
    backbone = folding.rebuilt(task.backbone, dtype=dtype)
    preprocessor, length = task.preprocessor, folding.max_length
    if length is not None and preprocessor is not None:
        preprocessor = shortened(preprocessor, length)
        _check_shortened(task, preprocessor, length)
    return {**config, "backbone": backbone, "preprocessor": preprocessor}


def _check_shortened(task, preprocessor, max_length):
    """Raises if less padding would change outputs."""
    if _lengths(preprocessor) == _lengths(task.preprocessor):
        return
    for layer in (task, *sublayers(task)):
        if getattr(layer, "sees_padding", False):
            raise ValueError(
                f"{type(layer).__name__} counts the padding, too: padded to "
                "other lengths the same texts have other outputs. Leave out "
                "`max_length`, or train with a preprocessor of this length. "
                f"Received: max_length={max_length}, where texts are padded to "
                f"{_lengths(task.preprocessor)}"
            )


def shortened(preprocessor, max_length):
    """A preprocessor of the same tokenizer whose sequences are not longer."""
    config = preprocessor.get_config()
    for name, value in _lengths(preprocessor).items():
        config[name] = min(value, max_length)
    config["tokenizer"] = preprocessor.tokenizer
    return type(preprocessor).from_config(config)


def _lengths(preprocessor):
    """The lengths in tokens that it cuts and pads to, by their names."""
    return {
        name: value
        for name, value in preprocessor.get_config().items()
        if name.endswith("sequence_length") and value is not None
    }
