"""`ParametersMixin`: a model's weights where PyTorch looks for them."""

from collections.abc import Iterator
from typing import Any

import keras

from keras_synth.types import Mixin


class ParametersMixin(Mixin):
    """Makes a KerasHub model a `torch.nn.Module` with all of its weights.

    Keras registers a model's weights as parameters while the model is built.
    KerasHub 0.32 sets attributes of a model that is not initialized past
    `torch.nn.Module`, so that `named_parameters()`, `state_dict()` and `to()`
    see none of them. Mixed in before KerasHub's class; on other backends it
    does nothing.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if keras.config.backend() == "torch":
            self._track_variables()

    if keras.config.backend() == "torch":

        def named_parameters(
            self, *args: Any, **kwargs: Any
        ) -> Iterator[tuple[str, Any]]:
            """`torch.nn.Module.named_parameters`, of the weights as they are.

            LoRA and quantization change a layer's weights after the model
            registered them.
            """
            self._track_variables()
            return super().named_parameters(*args, **kwargs)
