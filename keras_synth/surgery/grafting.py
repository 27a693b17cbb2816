"""`graft`: add synthesizers to the attention of a trained model."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from keras import ops

from keras_synth._backend.internals import compiled_like
from keras_synth.surgery.replacing import copy_heads, exact, replaced
from keras_synth.synthesizers import DotProductSynthesizer, MixtureSynthesizer
from keras_synth.types import Identifier


def graft(
    model: Any,
    synthesizer: Identifier,
    max_length: int | None = None,
    layers: Sequence[int] | None = None,
) -> Any:
    """Returns a trained model with synthesizers added to V.

    The new model has the same weights, and layers of this package replace the
    layers with attention. Added synthesizers have no effect at first: their
    logits are zero, and the queries of V are multiplied by `1 / alpha`. So
    `sum_i alpha_i S_i` and the outputs do not change, except at padding, where
    these layers return zeros before the output projection. The new model
    trains, saves, folds and decodes like any other model of this package. The
    original does not change.

    All blocks still share T5's table of relative positions. T5 does not divide
    logits by `sqrt(k)`, so the query kernels are multiplied by it.
    Cross-attention stays V.

    Args:
        model: A functional or Sequential model, or a backbone or task of
            KerasHub or of this package, with Keras' `MultiHeadAttention`,
            KerasHub's `TransformerEncoder` or `TransformerDecoder`, or layers
            of `keras_synth.surgery.register`, at any depth; or
            KerasHub's `T5Backbone` or `T5Seq2SeqLM`.
        synthesizer: An identifier with V in all heads, such as `"R+V"`, see
            `keras_synth.synthesizers.get`.
        max_length: Integer, the length of the longest sequence, in tokens. By
            default, it is the model's `max_sequence_length` or the length of
            its input. Models without either need it.
        layers: Integers, the numbers of the attention layers to graft, from 0
            on, in order of their calls; by default all. The other layers keep
            only V. Layers of a decoder are counted after the encoder's.

    Returns:
        A functional or Sequential model, like the original. KerasHub's
        encoders become backbones of a subclass, such as
        `SynthesizedBertBackbone`. Their tasks keep the preprocessor and are
        compiled like new ones, but keep the sampler. GPT-2, T5 and their
        tasks become `SynthesizerBackbone`, `SynthesizerSeq2SeqBackbone`,
        `SynthesizerCausalLM` and `SynthesizerSeq2SeqLM`.

    Raises:
        ValueError: If the model is not functional, is quantized or adapted,
            has attention in layers that are not registered, or attention
            without dot products; if the synthesizer has no V, or parts whose
            logits cannot be zero; or if there are no such layers or positions.

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
    chosen = _checked_layers(layers, len(source.places))
    if synthesizer == "V":
        return compiled_like(model, source.model)
    each = ["V"] * len(source.places)
    for i in chosen:
        each[i] = synthesizer
    made = replaced(source, each)
    for i in chosen:
        old, new = source.places[i].attention, made.places[i].attention
        found = _v_of(new.synthesizer, old.num_key_value_heads)
        if found is None:
            raise ValueError(
                "To keep the outputs of the model, the synthesizer needs V in "
                'all heads, as in "R+V", without rotary positions, and with as '
                f"many keys as before. Received: synthesizer={synthesizer!r}"
            )
        v, share = found
        copy_heads(old, new, v)
        _silence(new.synthesizer, v)
        for weight in v.query.weights:  # (d, H, k), (H, k)
            weight.assign(ops.convert_to_numpy(weight) / share[:, None])
    return compiled_like(model, made.model)


def _checked_layers(layers, number):
    if layers is None:
        return range(number)
    chosen = [*layers] if isinstance(layers, Iterable) else [layers]
    if not all(isinstance(i, Integral) and 0 <= i < number for i in chosen):
        raise ValueError(
            f"`layers` must be numbers of attention layers 0 to {number - 1} "
            f"of the model. Received: layers={layers!r}"
        )
    return chosen


def _v_of(synthesizer, shared, share=1.0):
    """The dot products of all heads, and their alpha, or `None` without them.

    `shared` is their `num_key_value_heads`, and `share` the alpha of this part.
    """
    if type(synthesizer) is DotProductSynthesizer:
        if synthesizer.rotary or synthesizer.num_key_value_heads != shared:
            return None
        return synthesizer, np.atleast_1d(share)  # (H,) or (1,)
    if not isinstance(synthesizer, MixtureSynthesizer):
        return None
    for part, alpha in zip(
        synthesizer.synthesizers, synthesizer.shares(), strict=True
    ):
        alpha = 1.0 if alpha is None else ops.convert_to_numpy(alpha)
        found = _v_of(part, shared, share * alpha)
        if found is not None:
            return found
    return None


def _silence(synthesizer, v):
    """Makes the logits of all parts zero, except those of V."""
    if synthesizer is v:
        return
    if isinstance(synthesizer, MixtureSynthesizer):
        for part in synthesizer.synthesizers:
            _silence(part, v)
        return
    last = [getattr(synthesizer, name) for name in synthesizer.last_weights]
    last = [weight for weight in last if weight is not None]
    is_trained = synthesizer.trainable  # a frozen one has weights to train
    synthesizer.trainable = True
    can_be_zero = bool(last) and all(weight.trainable for weight in last)
    synthesizer.trainable = is_trained
    if not can_be_zero:
        raise ValueError(
            "Added synthesizers begin without effect, so they need trainable "
            "weights that can make their logits zero, named in the class "
            f"attribute `last_weights`. Received: {synthesizer!r}"
        )
    for weight in last:
        weight.assign(ops.zeros(weight.shape, weight.dtype))
