"""Hidden states and outputs of any model with attention."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import keras
import keras_hub

from keras_synth.surgery.places import holders, max_length_of
from keras_synth.surgery.replacing import exact

_PADDING = ("padding_mask", "decoder_padding_mask")


class ModelStates:
    """A model, its outputs, and those of its layers with attention.

    Args:
        model: Keras model.
        name: String, its name in errors.
        wanted: States to compare: `"hidden_states"`, `"outputs"`.

    Attributes:
        names: List of strings, the outputs to compare.
    """

    def __init__(self, model, name, wanted):
        if not isinstance(model, keras.Model) or not hasattr(model, "input"):
            raise ValueError(
                f"The {name} must be a functional or Sequential model, a "
                "backbone or a task. "
                f"Received: {type(model).__name__}"
            )
        self.model, self.name = model, name
        self.layers = []
        if "hidden_states" in wanted:
            self.layers = holders(model) or _origins(model)
        self._wanted = wanted
        self.names = None

    def outputs(self):
        """Returns the model's outputs, `keras.KerasTensor`s by their names."""
        return named_outputs(self.model, self.model.output)

    def __call__(self, inputs, training):
        """Returns the wanted states: dictionaries of pairs (tensor, mask).

        A mask `(B, T)` is `None` if there is no padding.
        """
        model = self.model
        if isinstance(model.input, dict):
            names = [*model.input]
            if not isinstance(inputs, dict) or not {*names} <= {*inputs}:
                given = [*inputs] if isinstance(inputs, dict) else type(inputs)
                raise ValueError(
                    f"The {self.name} takes a dictionary of {names}; a "
                    f"preprocessor makes it of texts. Received: {given}"
                )
            given = {name: inputs[name] for name in names}
        else:
            given = inputs
        with _outputs_of(self.layers) as states:
            outputs = named_outputs(model, model(given, training=training))
        masks = padding_of(outputs, given)
        found = {
            "hidden_states": states,
            "outputs": [
                (x, None if masks[name] is None else given[masks[name]])
                for name, x in outputs.items()
                if name in self.names
            ],
        }
        return {name: found[name] for name in self._wanted}


def _origins(model):
    """The layers of a model that contain attention."""
    places = exact(model, max_length_of(model) or 1).places
    return [place.origin for place in places]


@contextlib.contextmanager
def _outputs_of(layers: list[Any]) -> Iterator[list[Any]]:
    """Yields a list to which layers append their outputs in calls.

    They are pairs of a tensor and its padding mask, or `None`.
    """
    found: list[Any] = []
    calls = [vars(layer).get("call") for layer in layers]

    def observed(layer):
        call, signature = layer.call, inspect.signature(type(layer).call)

        def observing(*args, **kwargs):
            output = call(*args, **kwargs)
            given = signature.bind(layer, *args, **kwargs).arguments
            masks = [given[name] for name in _PADDING if name in given]
            x = output[0] if isinstance(output, tuple) else output
            found.append((x, masks[0] if masks else None))
            return output

        return observing

    for layer in layers:
        vars(layer)["call"] = observed(layer)  # Keras tracks `setattr`
    try:
        yield found
    finally:
        for layer, call in zip(layers, calls, strict=True):
            del vars(layer)["call"]
            if call is not None:
                vars(layer)["call"] = call


def named_outputs(model: Any, outputs: Any) -> dict[str, Any]:
    """Returns a model's outputs by their names."""
    if isinstance(outputs, dict):
        return outputs
    if isinstance(outputs, (list, tuple)):
        return {str(i): x for i, x in enumerate(outputs)}
    is_backbone = isinstance(model, keras_hub.models.Backbone)
    return {"sequence_output" if is_backbone else "output": outputs}


def padding_of(outputs: dict[str, Any], inputs: Any) -> dict[str, Any]:
    """Returns which input masks the padding of each output, or `None`."""
    found = {}
    for name, x in outputs.items():
        side = name.removesuffix("sequence_output")
        mask = f"{side}padding_mask" if side != name else "padding_mask"
        known = isinstance(inputs, dict) and mask in inputs
        known = known and len(x.shape) > 2
        if known:
            lengths = {x.shape[1], inputs[mask].shape[1]}
            known = len(lengths - {None}) < 2
        found[name] = mask if known else None
    return found
