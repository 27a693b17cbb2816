"""Layouts: which axes of a backbone's weights are cut between devices.

The model width `d` of large matrices is cut along the data axis of the mesh:
each device keeps a part and receives the rest on demand, as with ZeRO and FSDP.
"""

import re

import keras

from keras_synth._backend.distributions import DATA, MODEL
from keras_synth.layers.feed_forward import FeedForward
from keras_synth.mixers.mixer import Mixer
from keras_synth.synthesizers import Synthesizer
from keras_synth.types import WeightAxes

# Groups of heads can have any number of heads, so each device has a copy.
WHOLE_HEADS = r"(?!.*/group_\d+/)"

# Paths of layers whose classes have `weight_axes`.
_PLACES = {
    Mixer: WHOLE_HEADS + r".*_attention/",
    Synthesizer: WHOLE_HEADS + r".*(_attention/.+|position_bias/table)/",
    FeedForward: r".*/feed_forward/",
}

# Layers of KerasHub.
_EMBEDDINGS = {
    r".*token_embedding/embeddings": (MODEL, DATA),
    r".*(position|segment)_embedding/embeddings": (None, DATA),
}


def declared() -> WeightAxes:
    """Returns the `weight_axes` of all classes, including your own.

    Keys are regular expressions of whole paths of weights, and values the cuts
    of their first axes, `"model"`, `"data"` or `None`. A path matches at most
    one key.
    """
    found = dict[str, tuple[str | None, ...]](_EMBEDDINGS)
    owners: dict[str, type] = {}
    for base, place in _PLACES.items():
        for cls in _classes(base):
            for name, axes in cls.weight_axes.items():
                _check_axes(cls, name, axes)
                path = place + re.escape(name)
                if found.setdefault(path, axes) != axes:
                    raise ValueError(
                        f"Weights {name!r} of {owners[path].__name__} and of "
                        f"{cls.__name__} have the same path, but different "
                        "axes. Give one of them another name. Received: "
                        f"weight_axes {found[path]} and {axes}"
                    )
                owners.setdefault(path, cls)
    return found


def sharded() -> WeightAxes:
    """Returns the entries of `declared` with cuts."""
    return {path: axes for path, axes in declared().items() if any(axes)}


def _classes(base):
    """A class and its subclasses, or the last if one is defined twice."""
    found, left = {}, [base]
    while left:
        cls = left.pop(0)
        found[cls.__module__, cls.__qualname__] = cls
        left.extend(cls.__subclasses__())
    return found.values()


def _check_axes(cls, name, axes):
    if not isinstance(axes, tuple) or {*axes} - {MODEL, DATA, None}:
        raise ValueError(
            f"`weight_axes` of {cls.__name__} must be tuples of {MODEL!r}, "
            f"{DATA!r} and None for the first axes of a weight. Received: "
            f"{name!r}: {axes!r}"
        )


def check_matches(model: keras.Model) -> None:
    """Raises if there is a layout map that matches no weight of a model."""
    distribution = keras.distribution.distribution()
    if not isinstance(distribution, keras.distribution.ModelParallel):
        return
    if any(
        distribution.get_tensor_layout(weight.path) is not None
        for weight in model.weights
    ):
        return
    raise ValueError(
        "The layout map of the distribution matches no weight, so every device "
        "would have all weights. Its keys are regular expressions for whole "
        'paths. Start them with ".*", or use '
        f"`{type(model).__name__}.get_layout_map(device_mesh)`. For copies on "
        "all devices use `keras.distribution.DataParallel`. Received: a map "
        f"for paths such as {model.weights[0].path!r}"
    )
