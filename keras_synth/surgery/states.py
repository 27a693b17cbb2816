"""Hidden states of any backbone, of KerasHub or of this package."""

import math

import keras
import keras_hub

from keras_synth.models.backbones.sizes import check_length

_SIDES = ("", "encoder_", "decoder_")


class BackboneStates:
    """A backbone, and what its blocks return.

    Args:
        model: What may be a backbone.
        name: String, what it is called in errors.
        wanted: What is to be compared: `"hidden_states"`, `"outputs"`.
    """

    def __init__(self, model, name, wanted):
        self.model, self.name = model, name
        blocks = {side: _blocks(model, side) for side in _SIDES}
        self.blocks = {side: own for side, own in blocks.items() if own}
        if not isinstance(model, keras_hub.models.Backbone) or not self.blocks:
            inside = getattr(model, "backbone", None)
            hint = f" Pass `{name}.backbone`." if inside else ""
            raise ValueError(
                f"The {name} must be a backbone of blocks, of KerasHub or of "
                f"this package.{hint} Received: {type(model).__name__}"
            )
        found = {"hidden_states": self._hidden_states, "outputs": self._outputs}
        self._states = keras.Model(
            model.input, {name: found[name]() for name in wanted}
        )

    def __call__(self, inputs, training):
        """Returns what is wanted: a dictionary of lists of `(B, T, d)`."""
        names = list(self.model.input)
        if not isinstance(inputs, dict) or not {*names} <= {*inputs}:
            given = list(inputs) if isinstance(inputs, dict) else type(inputs)
            raise ValueError(
                f"The {self.name} takes a dictionary of {names}; a "
                f"preprocessor makes it of texts. Received: {given}"
            )
        for side in self.blocks:
            name = "max_sequence_length"
            if side == "decoder_" and hasattr(self.model, "max_decoder_length"):
                name = "max_decoder_length"
            longest = getattr(self.model, name, math.inf)
            check_length(inputs[f"{side}token_ids"], longest, name)
        given = {name: inputs[name] for name in names}
        return self._states(given, training=training)

    def padding(self, name):
        """The input that masks each tensor of `states`, in a list."""
        numbers = {side: len(own) for side, own in self.blocks.items()}
        return [
            f"{side}padding_mask"
            for side, number in numbers.items()
            for _ in range(number if name == "hidden_states" else 1)
        ]

    def _hidden_states(self):
        return [
            # T5's blocks return their table of positions, too.
            keras.tree.flatten(block.output)[0]
            for own in self.blocks.values()
            for block in own
        ]

    def _outputs(self):
        output = self.model.output
        if not isinstance(output, dict):
            return [output]
        return [output[f"{side}sequence_output"] for side in self.blocks]


def _blocks(model, side):
    """The blocks of a side, by this package's names and by KerasHub's."""
    stack = getattr(model, side.removesuffix("_") or "stack", None)
    layers = getattr(model, f"{side}transformer_layers", ())
    return getattr(stack, "blocks", layers)
