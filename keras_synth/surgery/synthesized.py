"""Backbones and tasks of KerasHub around a graph with synthesizers.

`SynthesizedBertBackbone` is a `BertBackbone`, and
`SynthesizedBertTextClassifier` is a `BertTextClassifier`: `from_preset` finds
the class of a task by the class of its backbone.
"""

from typing import Any, Self

import keras
import keras_hub
from keras import tree

from keras_synth._backend.internals import sublayers
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import of_layers
from keras_synth.attention.positions import shortest
from keras_synth.folding import folded_config
from keras_synth.surgery.places import holders

FAMILIES = (
    "Albert",
    "Bert",
    "DistilBert",
    "Electra",
    "Roberta",
    "ViT",
    "XLMRoberta",
)
_SETTINGS = (type(None), bool, int, float, str)


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizedBackbone(keras_hub.models.Backbone):
    """A backbone with a graph instead of arguments to make it from.

    Args:
        graph: Functional model.
        settings: Dictionary of attributes such as `hidden_dim`.
        parts: Dictionary of attributes that are layers of the graph, or lists
            of them, by their paths.
        dtype: Dtype policy of layers around the backbone.
        **kwargs: Keyword arguments of `keras_hub.models.Backbone`.
    """

    def __init__(
        self,
        graph: keras.Model,
        settings: dict[str, Any],
        parts: dict[str, Any],
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        if keras.Model in keras_hub.models.Backbone.__bases__:
            # With the first graph, Keras changes the bases of classes. This
            # fails for a class with two backbones above it (Keras 3.15).
            x = keras.Input((), name="x")
            keras_hub.models.Backbone(inputs=x, outputs=x, name="first")
        # Not the class between, which would make another graph.
        keras_hub.models.Backbone.__init__(
            self,
            inputs=graph.input,
            outputs=graph.output,
            dtype=dtype,
            **kwargs,
        )
        layers: dict[str, keras.Layer] = {}
        # Layers without weights have a name and no path, and parts of two
        # blocks can have the same name.
        for layer in (*sublayers(graph, recursive=False), *sublayers(graph)):
            layers.setdefault(layer.path or layer.name, layer)
        for name, value in settings.items():
            setattr(self, name, value)
        for name, paths in parts.items():
            setattr(self, name, _mapped(layers.__getitem__, paths))
        self._settings, self._parts = settings, parts

    def get_config(self) -> dict[str, Any]:
        graph = keras.Model(self.input, self.output, name=self.name)
        return {
            **keras_hub.models.Backbone.get_config(self),
            "graph": keras.saving.serialize_keras_object(graph),
            "graph_dtype": self.dtype_policy.name,
            "settings": keras.saving.serialize_keras_object(self._settings),
            "parts": self._parts,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = dict(config)
        before = config.pop("graph_dtype")
        policy = keras.dtype_policies.get(config["dtype"])
        graph = config["graph"]
        if policy.name != before:
            after = keras.dtype_policies.serialize(policy)
            graph = _in_dtype(graph, before, after)
        for name, value in (("graph", graph), ("settings", config["settings"])):
            config[name] = keras.saving.deserialize_keras_object(value)
        return cls(**{**config, "dtype": policy})


def _in_dtype(config, before, after):
    """A config with another policy instead of the policies of one name.

    A map of policies is for all layers, and each layer looks up its policy.
    """
    if isinstance(config, (list, tuple)):
        return [_in_dtype(x, before, after) for x in config]
    if not isinstance(config, dict):
        return config
    kind = config.get("class_name")
    if kind == "DTypePolicy" and config["config"]["name"] == before:
        return after
    if kind == "DTypePolicyMap":
        return config
    return {k: _in_dtype(x, before, after) for k, x in config.items()}


@folded_config.register(SynthesizedBackbone)
def _folded_config(backbone, folding):
    config = backbone.get_config()
    graph = folding.rebuilt(keras.Model(backbone.input, backbone.output))
    settings, name = config["settings"], "max_sequence_length"
    if name in settings:
        settings[name] = shortest(settings[name], folding.max_length)
    graph = keras.saving.serialize_keras_object(graph)
    return {**config, "graph": graph, "settings": settings}


@multiplications.register(SynthesizedBackbone)
def _multiplications(backbone, length, source_length):
    return of_layers(holders(backbone), length, length)


# --- classes ------------------------------------------------------------------


def _make(name, *bases, **attributes):
    cls = type(f"Synthesized{name}", bases, attributes)
    cls.__module__, cls.__doc__ = __name__, f"{name} with synthesizers."
    globals()[cls.__name__] = cls  # for pickle
    return keras.saving.register_keras_serializable("keras_synth")(cls)


BACKBONES: dict[Any, Any] = {
    cls: _make(cls.__name__, SynthesizedBackbone, cls)
    for name in FAMILIES
    for cls in [getattr(keras_hub.models, f"{name}Backbone")]
}
TASKS: dict[Any, Any] = {
    cls: _make(cls.__name__, cls, backbone_cls=BACKBONES[backbone])
    for cls in vars(keras_hub.models).values()
    for backbone in [getattr(cls, "backbone_cls", None)]
    if backbone in BACKBONES and issubclass(cls, keras_hub.models.Task)
}


def backbone_like(
    backbone: Any, graph: keras.Model, max_length: int | None
) -> SynthesizedBackbone:
    """Returns a backbone of a graph with the attributes of another."""
    cls = BACKBONES.get(type(backbone), SynthesizedBackbone)
    if isinstance(backbone, SynthesizedBackbone):
        cls = type(backbone)
        settings, parts = dict(backbone._settings), backbone._parts
    else:
        settings, parts = _attributes(backbone)
    if max_length is not None and "max_sequence_length" in settings:
        settings["max_sequence_length"] = max_length
    return cls(
        graph,
        settings,
        parts,
        dtype=backbone.dtype_policy,
        name=backbone.name,
    )


def _attributes(backbone):
    """Plain attributes of a backbone, and attributes that are layers."""
    x = keras.Input(())
    usual = vars(keras.Model(x, x))
    found = {
        name: value
        for name, value in vars(backbone).items()
        if not name.startswith("_") and name not in usual
    }
    found["token_embedding"] = backbone.token_embedding
    settings, parts = {}, {}
    inside = {id(x): x.path or x.name for x in sublayers(backbone)}
    for name, value in found.items():
        flat = tree.flatten(value)
        if flat and all(id(x) in inside for x in flat):
            parts[name] = _mapped(lambda x: inside[id(x)], value)
        elif all(isinstance(x, _SETTINGS) or callable(x) for x in flat):
            settings[name] = value
    return settings, parts


def _mapped(function, value):
    """Plain lists with a function applied to their leaves."""
    if isinstance(value, (list, tuple)):
        return [_mapped(function, x) for x in value]
    return function(value)
