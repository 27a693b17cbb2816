"""`StackedBackbone`, the base of both backbones, and their sizes."""

import difflib
from typing import Any

import keras
import keras_hub

from keras_synth._backend.checks import check_positive
from keras_synth._backend.configs import parameters_of
from keras_synth._backend.internals import sublayers
from keras_synth._backend.policies import with_policies
from keras_synth.layers.block import block_options
from keras_synth.layers.templates import as_config
from keras_synth.models.preprocessors.checks import limit_of
from keras_synth.models.saving import layouts, lora_files
from keras_synth.models.saving.model import ModelMixin, atomic_path
from keras_synth.synthesizers import Synthesizer
from keras_synth.types import FilePath, Tensor


class StackedBackbone(ModelMixin, keras_hub.models.Backbone):
    """Base class of the backbones: configs, files and LoRA."""

    pretrained = False  # whether weights were loaded
    lora: Any = None  # the rank and the names of the layers, if enabled

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _check_keywords(type(self), kwargs)
        super().__init__(*args, **kwargs)
        layouts.check_matches(self)

    def load_weights(self, filepath, *args, **kwargs):
        """Loads weights, like `keras.Model.load_weights`."""
        super().load_weights(filepath, *args, **kwargs)
        self.pretrained = True

    def check_lengths(self, inputs: dict[str, Tensor]) -> None:
        """Raises if inputs have too many tokens, or no names."""
        if not isinstance(inputs, dict):
            raise ValueError(
                f"Inputs must be a dictionary with {[*self.input]}. Received: "
                f"{type(inputs).__name__}"
            )
        for name in [name for name in inputs if name.endswith("token_ids")]:
            limit = limit_of(name)
            length, longest = inputs[name].shape[1], getattr(self, limit)
            if isinstance(length, int) and length > longest:
                raise ValueError(
                    f"Sequences of {length} tokens are longer than "
                    f"{limit}={longest}. Shorten them, or use a larger "
                    f"{limit}. Received: {name} of length {length}"
                )

    def compute_output_spec(self, inputs, training=None, mask=None, **biases):
        return super().compute_output_spec(inputs, training=training, mask=mask)

    @staticmethod
    def get_layout_map(
        device_mesh: keras.distribution.DeviceMesh,
        model_parallel_dim_name: str = "model",
        data_parallel_dim_name: str = "batch",
    ) -> keras.distribution.LayoutMap:
        """Returns the layout of weights for `ModelParallel` on JAX.

        Attention (projections, tables such as R, R1 and R2, and their biases)
        is cut by heads, feed-forward networks by their width, and the token
        embedding by tokens. The class of a synthesizer or mixer, including your
        own, declares this in `weight_axes`. Every device has a copy of other
        weights.

        Args:
            device_mesh: `keras.distribution.DeviceMesh`.
            model_parallel_dim_name: String, the axis of the mesh along which
                heads, width and vocabulary are cut. Its size must divide them.
            data_parallel_dim_name: String, the axis of the mesh along which
                batches and the model width `d` of large matrices are cut.

        Returns:
            A `keras.distribution.LayoutMap`.

        Raises:
            ValueError: If the mesh does not have these axes, or both are one.

        Example:

        ```python
        mesh = keras.distribution.DeviceMesh(
            shape=(2, 4), axis_names=("batch", "model"))
        layout_map = keras_synth.models.SynthesizerBackbone.get_layout_map(mesh)
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(
                layout_map=layout_map, batch_dim_name="batch"))
        # Models made or loaded from here on are distributed.
        ```
        """
        names = {
            layouts.MODEL: model_parallel_dim_name,
            layouts.DATA: data_parallel_dim_name,
            None: None,
        }
        if model_parallel_dim_name == data_parallel_dim_name:
            raise ValueError(
                "`model_parallel_dim_name` and `data_parallel_dim_name` must "
                "be different axes of the device mesh. One can have length 1. "
                f"Received: {model_parallel_dim_name!r} for both"
            )
        layout_map = keras.distribution.LayoutMap(device_mesh)
        for path, axes in layouts.sharded().items():
            layout_map[path] = tuple(names[axis] for axis in axes)
        return layout_map

    def logits(self, x: Tensor) -> Tensor:
        """Returns the logits of tokens, by the embedding's weights.

        Args:
            x: Tensor `(B, T, d)`, hidden states.

        Returns:
            Tensor `(B, T, vocabulary_size)`.
        """
        if self.scale_output:
            x = x * self.hidden_dim**-0.5
        return self.token_embedding(x, reverse=True)

    def _keep(self, arguments):
        for name, value in arguments.items():
            if name == "activation":
                value = keras.activations.get(value)
            elif name.endswith("synthesizer"):
                value = as_config(value)
            if name != "dtype":  # an attribute of Keras
                setattr(self, name, value)

    def get_config(self) -> dict[str, Any]:
        # KerasHub's config has neither the default policy of a quantized
        # backbone nor the names of its layers' policies.
        config = {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }
        return with_policies(self, config)

    def default_lora_layer_names(self) -> list[str]:
        """Returns the names of the layers that LoRA trains.

        These are query and value projections, as in KerasHub's backbones, the
        hidden layers of Dense synthesizers, and synthesizers, for their tables
        and alphas; see `keras_synth.synthesizers.Synthesizer.enable_lora`.
        """
        names = {layer.name for layer in self._synthesizers()}
        return [*super().default_lora_layer_names(), "hidden", *sorted(names)]

    def enable_lora(self, rank, target_layer_names=None):
        """Freezes the backbone except updates of low rank.

        Args:
            rank: Integer, the rank.
            target_layer_names: List of names of layers to train, by default
                `default_lora_layer_names()`.

        Raises:
            ValueError: If LoRA can train no layer with these names.
        """
        if target_layer_names is None:
            target_layer_names = self.default_lora_layer_names()
        known = {
            layer.name
            for layer in self._flatten_layers(include_self=False)
            if layer.weights and hasattr(layer, "enable_lora")
        }
        if known.isdisjoint(target_layer_names):
            raise ValueError(
                "`target_layer_names` must contain a layer that LoRA can "
                f"train, such as {sorted(known)}. Received: "
                f"target_layer_names={target_layer_names}"
            )
        chosen = [
            layer
            for layer in self._synthesizers()
            if layer.name in target_layer_names
        ]
        names = {layer.name for layer in chosen}
        super().enable_lora(
            rank, [name for name in target_layer_names if name not in names]
        )
        for layer in chosen:
            layer.enable_lora(rank)
        self.lora = (rank, tuple(target_layer_names))

    def save_lora_weights(self, filepath: FilePath) -> None:
        """Saves the weights that LoRA trains, completely or not at all.

        Args:
            filepath: Path of the file, which ends in `.h5`.

        Raises:
            ValueError: If LoRA is not enabled.
        """
        if self.lora is None:
            raise ValueError(
                "There are no LoRA weights. Call `enable_lora(rank)` before "
                f"`save_lora_weights`. Received: {filepath}"
            )
        with atomic_path(filepath, True) as path:
            lora_files.save(path, self)

    def load_lora_weights(self, filepath: FilePath) -> None:
        """Loads weights from `save_lora_weights`, and enables LoRA if needed.

        Args:
            filepath: Path of the file.

        Raises:
            ValueError: If the file is of another kind, or from a backbone with
                other synthesizers or sizes.
        """
        lora_files.load(filepath, self)

    def _synthesizers(self):
        return [
            layer for layer in sublayers(self) if isinstance(layer, Synthesizer)
        ]


def _check_keywords(cls, given):
    """Raises for a keyword that the base classes would ignore."""
    known = {"inputs", "outputs", "dtype", "name", "trainable"}
    for name in {*given} - known:
        known |= {*parameters_of(cls, StackedBackbone)}
        nearest = difflib.get_close_matches(name, known, 1, cutoff=0.5)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(
            f"{cls.__name__} has no argument {name!r}.{hint} Received: "
            f"{name}={given[name]!r}"
        )


def check_sizes(arguments):
    """Checks a backbone's arguments and returns their `block_options`."""
    for name in ("max_sequence_length", "max_decoder_length"):
        if name in arguments:
            check_positive(name, arguments[name])
    hidden_dim = check_positive("hidden_dim", arguments["hidden_dim"])
    num_heads = check_positive("num_heads", arguments["num_heads"])
    if arguments["key_dim"] is None and hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must be divisible by `num_heads`, or pass `key_dim`. "
            f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
        )
    return block_options(arguments)
