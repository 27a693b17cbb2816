"""`graft`: synthesizers beside the attention that a model has learned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_synth.folding.synthesizers import copy_variables
from keras_synth.surgery.replacing import Exact, exact, replaced
from keras_synth.synthesizers import (
    DotProductSynthesizer,
    MixtureSynthesizer,
)
from keras_synth.types import Identifier


def graft(
    model: Any,
    synthesizer: Identifier,
    max_length: int | None = None,
    layers: Sequence[int] | None = None,
) -> Any:
    """Returns a trained model with synthesizers beside V.

    A new model with the given one's weights, in which layers of this package
    take the place of those with attention. What is added begins without
    effect: its logits are zero, and the queries of V are multiplied by
    `1 / alpha`, so that `sum_i alpha_i S_i` is what the model has learned and
    outputs are the same. It trains, saves, folds and decodes like any other
    model here. The model itself is left as it is.

    T5's table of relative positions stays that of all blocks. Its logits,
    which T5 does not divide by `sqrt(k)`, are made up for in the query
    kernels. Cross-attention stays V.

    Args:
        model: A functional or Sequential model, or a backbone or task of
            KerasHub or of this package, with Keras' `MultiHeadAttention`,
            KerasHub's `TransformerEncoder` or `TransformerDecoder`, or layers
            that `keras_synth.surgery.register` knows, at any depth; or
            KerasHub's `T5Backbone` or `T5Seq2SeqLM`.
        synthesizer: An identifier with V in all heads, such as `"R+V"`, see
            `keras_synth.synthesizers.get`.
        max_length: Integer, the longest sequence to come, in tokens; by
            default the model's own: its `max_sequence_length`, or the length
            of its input. Models that have neither need it.
        layers: Integers, the attention layers that get it, from 0 on, in
            order of their calls; the others keep only V. All by default.
            Those of a decoder are counted after those of the encoder.

    Returns:
        A functional or Sequential model as the given one. Of KerasHub's
        encoders a backbone of a subclass, such as `SynthesizedBertBackbone`;
        of their tasks a task around it with the same preprocessor, compiled
        as a new one is. GPT-2, T5 and their tasks become
        `SynthesizerBackbone`, `SynthesizerSeq2SeqBackbone`,
        `SynthesizerCausalLM` and `SynthesizerSeq2SeqLM`.

    Raises:
        ValueError: If the model is not functional, is quantized or adapted,
            has attention inside of layers that `register` does not know, or
            other attention than dot products; if the synthesizer has no V, or
            parts whose logits cannot be zero; or if there are no such layers
            or positions.

    Example:

    >>> import keras_hub
    >>> bert = keras_hub.models.BertBackbone(
    ...     100, num_layers=2, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, max_sequence_length=24)
    >>> classifier = keras_hub.models.BertTextClassifier(bert, num_classes=2)
    >>> grafted = keras_synth.surgery.graft(classifier, "R+V", layers=[1])
    >>> inputs = {name: np.ones((1, 12), "int32")
    ...           for name in ("token_ids", "segment_ids", "padding_mask")}
    >>> np.allclose(
    ...     keras.ops.convert_to_numpy(grafted(inputs)),
    ...     keras.ops.convert_to_numpy(classifier(inputs)),
    ...     atol=1e-4)
    True
    """
    source = exact(model, max_length)
    if synthesizer == "V":
        return source.model
    chosen = _checked_layers(layers, len(source.places))
    return grafted(source, synthesizer, chosen).model


def grafted(
    source: Exact, synthesizer: Identifier, chosen: Sequence[int]
) -> Exact:
    """Returns a copy with a synthesizer beside V in chosen places."""
    each = ["V"] * len(source.places)
    for i in chosen:
        each[i] = synthesizer
    made = replaced(source, each)
    for i in chosen:
        old, new = source.places[i].attention, made.places[i].attention
        place = _place_of_v(new.synthesizer)
        for name in ("value", "gate", "attention_output"):
            if getattr(old, name) is not None:
                copy_variables(getattr(old, name), getattr(new, name))
        for name in ("query", "key"):
            copy_variables(
                getattr(old.synthesizer, name), getattr(place[0], name)
            )
        _silence(new.synthesizer, place)
        _divide(place)
    return made


def _checked_layers(layers, number):
    if layers is None:
        return range(number)
    chosen = [layers] if isinstance(layers, int) else list(layers)
    if not {*chosen} <= {*range(number)}:
        raise ValueError(
            f"The model has the attention layers 0 to {number - 1}; `layers` "
            f"are their numbers. Received: layers={layers}"
        )
    return chosen


# --- where V is ---------------------------------------------------------------


def _place_of_v(synthesizer):
    """The dot products of all heads, and their alpha `(H,)` or `(1,)`."""
    found = _search(synthesizer, np.ones(1, "float32"))
    if found is None:
        raise ValueError(
            "A grafted model keeps what it has learned: the synthesizer needs "
            'V in all heads, as in "R+V". Received: synthesizer='
            f"{synthesizer!r}"
        )
    return found


def _search(synthesizer, share):
    if type(synthesizer) is DotProductSynthesizer:
        return synthesizer, share
    if not isinstance(synthesizer, MixtureSynthesizer):
        return None
    shares = iter(_shares(synthesizer))
    for part in synthesizer.synthesizers:
        own = share if part.is_bias else share * next(shares)
        found = _search(part, own)
        if found is not None:
            return found
    return None


def _shares(mixture):
    """The alphas of the parts that are no biases: a list of `(H,)`, `(1,)`."""
    mixed = sum(not part.is_bias for part in mixture.synthesizers)
    if mixture.alphas is None:
        return [np.ones(1, "float32")] * mixed
    alphas = ops.softmax(ops.convert_to_tensor(mixture.alphas), axis=0)
    return [np.atleast_1d(row) for row in ops.convert_to_numpy(alphas)]


# --- weights ------------------------------------------------------------------


def _silence(synthesizer, place):
    """Makes the logits of all parts zero, but for those of V."""
    if synthesizer is place[0]:
        return
    if isinstance(synthesizer, MixtureSynthesizer):
        for part in synthesizer.synthesizers:
            _silence(part, place)
        return
    last = [getattr(synthesizer, name) for name in synthesizer.last_weights]
    last = [weight for weight in last if weight is not None]
    if not last or not all(weight.trainable for weight in last):
        raise ValueError(
            "What is grafted begins without effect: it needs weights to be "
            "learned by which its logits can be zero, named in the class "
            f"attribute `last_weights`. Received: {synthesizer!r}"
        )
    for weight in last:
        weight.assign(ops.zeros(weight.shape, weight.dtype))


def _divide(place):
    """Multiplies the queries of V by `1 / alpha`."""
    part, share = place
    for weight in part.query.weights:  # (d, H, k), (H, k)
        weight.assign(ops.convert_to_numpy(weight) / share[:, None])
