"""Hidden states and outputs of any model with attention."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import keras
import keras_hub
from keras import tree

from keras_synth._backend.internals import keras_mask, replaced_call, sublayers
from keras_synth.analysis.capturing import KERAS
from keras_synth.surgery.places import holders, inputs_of, max_length_of
from keras_synth.surgery.replacing import exact

_PADDING = ("padding_mask", "decoder_padding_mask", "query_mask")


class ModelStates:
    """A model, its outputs, and those of its layers with attention.

    Attributes:
        widths: Dictionary of the outputs to return, and their features.
    """

    def __init__(self, model, hidden_states):
        self.model = model
        self.layers = _layers_of(model) if hidden_states else []
        has_one = isinstance(model, keras.Sequential)
        outputs = model.outputs[0] if has_one else model.output
        outputs = _named(model, outputs)
        self.widths = {name: x.shape[-1] for name, x in outputs.items()}

    def __call__(self, inputs, training):
        """Returns lists of pairs of a tensor and its padding mask, or `None`.

        They are the values of `"hidden_states"` and `"outputs"`.
        """
        model = self.model
        known = inputs_of(model)
        if isinstance(known, dict) and isinstance(inputs, dict):
            inputs = {k: x for k, x in inputs.items() if k in known}
        with _outputs_of(self.layers) as states:
            outputs = _named(model, model(inputs, training=training))
        if not isinstance(inputs, dict):
            names = [x.name for x in model.inputs]
            inputs = dict(zip(names, tree.flatten(inputs), strict=True))
        return {
            "hidden_states": [
                (x, _padding_of("", x, inputs) if mask is None else mask)
                for x, mask in states
            ],
            "outputs": [
                (outputs[name], _padding_of(name, outputs[name], inputs))
                for name in self.widths
            ],
        }


def _layers_of(model):
    """The layers with self-attention, of this package or of others."""
    found = holders(model)
    if found and not any(isinstance(x, KERAS) for x in sublayers(model)):
        return found
    try:
        places = exact(model, max_length_of(model) or 1).places
    except ValueError as error:
        if found:  # layers of both kinds that surgery does not make
            return found
        raise ValueError(
            "To compare only outputs, use `hidden_states=0.0`. Hidden states "
            f"need a model that surgery supports. {error}"
        ) from error
    return [place.origin for place in places]


@contextlib.contextmanager
def _outputs_of(layers: list[Any]) -> Iterator[list[Any]]:
    """Yields a list to which layers append their outputs in calls.

    They are pairs of a tensor and its padding mask, or `None`.
    """
    found: list[Any] = []

    def observed(layer):
        call, signature = layer.call, inspect.signature(type(layer).call)

        def observing(*args, **kwargs):
            output = call(*args, **kwargs)
            given = signature.bind(layer, *args, **kwargs).arguments
            masks = [given[x] for x in _PADDING if given.get(x) is not None]
            x = output[0] if isinstance(output, tuple) else output
            found.append((x, masks[0] if masks else None))
            return output

        return observing

    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.enter_context(replaced_call(layer, observed(layer)))
        yield found


def _named(model, outputs):
    """A model's outputs by their names."""
    if tree.is_nested(outputs):
        paths = tree.flatten_with_path(outputs)
        return {"/".join(map(str, path)): x for path, x in paths}
    is_backbone = isinstance(model, keras_hub.models.Backbone)
    return {"sequence_output" if is_backbone else "output": outputs}


def _padding_of(name, x, inputs):
    """The input, or Keras' mask, of the padding of an output, or `None`."""
    side = name.removesuffix("sequence_output")
    named = f"{side}padding_mask" if side != name else "padding_mask"
    mask = inputs[named] if named in inputs else keras_mask(x)
    if mask is None or min(len(x.shape) - 1, mask.ndim) < 2:
        return None
    return mask if len({x.shape[1], mask.shape[1]} - {None}) < 2 else None
