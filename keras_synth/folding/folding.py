"""`fold`: a model for inference."""

import keras

from keras_synth._backend.checks import check_positive
from keras_synth._backend.copying import copy_variables
from keras_synth.mixers import SyntheticAttention
from keras_synth.synthesizers import Synthesizer
from keras_synth.synthesizers.table import fold_into

_CLONED = ("Functional", "Sequential")  # which Keras makes layer by layer


def fold(model: keras.Layer, max_length: int | None = None) -> keras.Layer:
    """Returns a model of equal outputs that computes less: for inference.

    Whatever does not depend on the input is computed once:

    - Synthesizers that read no token (R, FR, Fix, relative positions and
      their mixtures) become one table of attention weights, `softmax(S)`.
    - Mixtures become sums: their alphas are multiplied into the keys of
      dot-product parts and the tables of others.
    - Tables, those of learned positions included, are cut to `max_length`.

    Its weights are fixed. It can be saved, exported and quantized like any
    other; quantize after folding, since the alphas of a quantized mixture stay
    as they are. Logits of a row that spread by more than 46 stay logits, of
    which the softmax is taken in each call: masks may leave so little of the
    weight that float32 could not hold it. What T5's relative positions are
    added to stay logits, too.

    Args:
        model: A built `SyntheticAttention`, block, backbone or task of this
            library, or a `keras.Sequential` or functional `keras.Model` with
            such layers.
        max_length: Optional integer, the longest sequence to come, in tokens;
            by default the model's own.

    Returns:
        A new model of the same class; the given one is as it was.

    Raises:
        ValueError: If the model has no weights yet, a table would have no
            bound, a layer has attention inside and no `folded_config`, or
            texts would be padded to another length, which a mixer counts
            (`"fnet"`).

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="R+FR", max_length=128)
    >>> x = keras.random.normal((2, 32, 64))
    >>> expected = layer(x)
    >>> folded = keras_synth.fold(layer, max_length=32)
    >>> bool(keras.ops.max(keras.ops.abs(folded(x) - expected)) < 1e-5)
    True
    >>> folded.count_params() < layer.count_params()
    True
    """
    if max_length is not None:
        check_positive("max_length", max_length)
    if not isinstance(model, keras.Layer):
        raise ValueError(
            f"`model` must be a Keras layer or model. Received: model={model!r}"
        )
    if not model.built:
        raise ValueError(
            "A model is folded with its weights: build it, or call it on an "
            f"input, first. Received: {model!r}"
        )
    made = rebuilt(model, max_length)
    copy_variables(model, made, _copy_folded)
    made.trainable = False
    return made


def rebuilt(layer, max_length, **options):
    """Returns the folded layer, with weights that are yet to be copied.

    Args:
        layer: Layer with weights.
        max_length: Integer, the longest sequence to come, or `None`.
        **options: What its config is to hold in the place of its own.
    """
    if hasattr(layer, "folded_config"):
        config = {**layer.folded_config(max_length), **options}
        return _built(type(layer).from_config(config), layer)
    if keras.saving.get_registered_name(type(layer)) in _CLONED:
        return keras.models.clone_model(
            layer, clone_function=lambda inner: rebuilt(inner, max_length)
        )
    inside = [x for x in layer._flatten_layers() if _is_attention(x)]
    if inside:
        raise ValueError(
            f"{type(layer).__name__} holds {inside[0].name!r}, and nothing "
            "says how to fold it: give the class a method "
            "`folded_config(max_length)` that returns its config with those "
            "of its parts. "
            f"Received: {layer!r}"
        )
    return _built(type(layer).from_config(layer.get_config()), layer)


def _built(made, layer):
    if not made.built and layer._build_shapes_dict:
        made.build(**layer._build_shapes_dict)
    return made


def _is_attention(layer):
    return isinstance(layer, SyntheticAttention)


def _copy_folded(source, target):
    """Gives attention its folded logits; says whether it has."""
    if not isinstance(source, Synthesizer):
        return False
    fold_into(source, target)
    return True
