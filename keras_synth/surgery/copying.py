"""Copies of models, layer by layer, with some layers replaced."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import keras_hub

from keras_synth._backend.internals import (
    cloned,
    is_functional,
    set_trainable,
    sublayers,
)
from keras_synth.folding.folding import keep_sampler
from keras_synth.folding.synthesizers import copy_variables
from keras_synth.models.backbones.stacked import StackedBackbone
from keras_synth.models.tasks.folding import shortened
from keras_synth.surgery.synthesized import TASKS, backbone_like

Pairs = list[tuple[keras.Layer, keras.Layer]]


class Copy:
    """One copy of a model. Each layer is copied once, so shared ones stay so.

    Call it on a layer to get its copy.

    Args:
        change: Function of a layer and this object. It returns `None` to
            keep the layer, its replacement, or a pair: the replacement, and
            a list of pairs (part of the layer, part of the replacement) with
            the same weights, which are copied.
        max_length: Integer, the new length of the longest sequence, in tokens,
            or `None`.

    Attributes:
        twins: Dictionary from the `id` of a layer to the pair of it and its
            copy.
    """

    def __init__(
        self,
        change: Callable[[Any, "Copy"], Any],
        max_length: int | None = None,
    ) -> None:
        self._change, self.max_length = change, max_length
        self._equal: Pairs = []
        self._owners: dict[int, Any] = {}
        self._begun: set[int] = set()
        self.twins: dict[int, tuple[Any, Any]] = {}

    def __call__(self, layer: Any) -> Any:
        # A part of another layer is copied with that layer.
        owner = self._owners.get(id(layer))
        if owner is not None and id(owner) not in self._begun:
            self(owner)
        if id(layer) not in self.twins:
            self._begun.add(id(layer))
            made = self._made(layer)
            if isinstance(made, StackedBackbone):  # for the learning rate
                made.pretrained = getattr(layer, "pretrained", True)
            self.twins[id(layer)] = layer, made
        return self.twins[id(layer)][1]

    def of(self, model: Any) -> Any:
        """Returns the copy of a whole model, with its weights."""
        # Tasks make their own layers around a backbone.
        for owner in sublayers(getattr(model, "backbone", model)):
            for part in () if is_graph(owner) else sublayers(owner):
                self._owners.setdefault(id(part), owner)
        made = self(model)
        for old, new in self._equal:
            copy_variables(old, new)
        self._check_shared()
        self._copy_trainable(model)
        return made

    def pair(self, old: Any, new: Any, parts: Iterable = ()) -> None:
        """Makes one layer the copy of another, parts of which are equal."""
        self.twins[id(old)] = old, new
        self._keep(parts)

    def pair_parts(self, old: Any, new: Any) -> None:
        """Makes the parts of one layer the copies of those of another."""
        for pair in zip(sublayers(old), sublayers(new), strict=True):
            self.twins.setdefault(id(pair[0]), pair)

    # --- copies of layers -----------------------------------------------------

    def _made(self, layer):
        changed = self._change(layer, self)
        if isinstance(changed, tuple):
            changed, parts = changed
            self._keep(parts)
        if changed is not None:
            return changed
        if isinstance(layer, keras_hub.models.Task):
            return self._task(layer)
        if isinstance(layer, keras_hub.models.Backbone):
            return backbone_like(layer, cloned(layer, self), self.max_length)
        if is_graph(layer):
            return cloned(layer, self)
        if not isinstance(layer, keras.Layer):  # an operation
            return type(layer).from_config(layer.get_config())
        return self._same(layer)

    def _task(self, task):
        preprocessor = shortened(task.preprocessor, self.max_length)
        cls = TASKS.get(type(task), type(task))
        made = cls.from_config(
            {
                **task.get_config(),
                "backbone": self(task.backbone),
                "preprocessor": preprocessor,
            }
        )
        for pair in zip(task.layers, made.layers, strict=True):
            if pair[0] is not task.backbone:
                self.pair(*pair, [pair])
        keep_sampler(task, made)
        return made

    def _same(self, layer):
        # Vocabularies of lookup layers are not weights.
        if hasattr(layer, "adapt") and not layer.weights:
            return layer
        made = type(layer).from_config(layer.get_config())
        shapes = layer.get_build_config() if layer.built else None
        if shapes and not made.built:
            made.build_from_config(shapes)
        self._keep([(layer, made)])
        return made

    def _keep(self, pairs):
        """Keeps pairs of equal layers and of their parts."""
        for pair in pairs:
            self._equal.append(pair)
            self.pair_parts(*pair)
            self.twins.setdefault(id(pair[0]), pair)

    # --- properties of the original -------------------------------------------

    def _check_shared(self):
        """Raises if layers no longer share a weight."""
        layers = [
            x for x in self.twins.values() if isinstance(x[0], keras.Layer)
        ]
        owners: dict[int, list] = {}
        for old, new in [*layers, *self._equal]:
            for weight in old.weights:
                owners.setdefault(id(weight), []).append((old, new))
        for shared in owners.values():
            names = [{id(w) for w in new.weights} for _, new in shared]
            if not set.intersection(*names):
                paths = sorted({old.path for old, _ in shared})
                raise ValueError(
                    "These layers share a weight, and their copies would not: "
                    f"{paths}. Register a function that makes one from the "
                    "copy of the other, "
                    "`keras_synth.surgery.register(cls, convert)`. "
                    f"Received: {type(shared[-1][0]).__name__}"
                )

    def _copy_trainable(self, model):
        # A layer sets all its parts, so they come after all layers around
        # them, which have more parts. A new layer has new parts, which its
        # config does not freeze.
        found = [x for x in (model, *sublayers(model)) if id(x) in self.twins]
        for layer in sorted(found, key=lambda x: -len(sublayers(x))):
            set_trainable(self.twins[id(layer)][1], layer.trainable)


def is_graph(layer: Any) -> bool:
    """Whether a layer is a model whose layers, and their calls, are known."""
    known = keras_hub.models.Task, keras_hub.models.Backbone
    return is_functional(layer) or isinstance(layer, known)


# --- checks -------------------------------------------------------------------


def check_model(model: Any, verb: str) -> None:
    """Raises unless a model can be copied layer by layer, with its weights."""
    if not is_graph(model):
        raise ValueError(
            "Functional and Sequential models, and backbones and tasks of "
            "KerasHub and of this package, are expected. Make a functional "
            "model of the layers of this one, or of a subclass that has a "
            "graph: `keras.Model(model.input, model.output)`. "
            f"Received: {model!r} of {type(model).__name__}"
        )
    if not model.built:
        raise ValueError(
            f"The model has no weights yet. Build or call it to {verb}. "
            f"Received: {model.name!r}, not built"
        )
    layers = (model, *sublayers(model))
    if any(getattr(layer, "quantization_mode", None) for layer in layers):
        raise ValueError(
            f"A quantized model cannot be changed: {verb} before "
            f"`quantize`. Received: {model.name!r}, quantized"
        )
    if any("lora" in weight.name for weight in model.weights):
        raise ValueError(
            f"A model with LoRA has weights in two parts: {verb} before "
            "`enable_lora`, or save and load it with merged weights. "
            f"Received: {model.name!r} with LoRA"
        )
