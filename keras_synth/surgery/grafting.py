"""`graft`: synthesizers beside the attention that a model has learned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.surgery.families import family
from keras_synth.surgery.stacks import (
    blocks_of,
    by_stack,
    number_of_blocks,
    stacks_of,
)
from keras_synth.surgery.tasks import with_backbone
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

    A new model of this package with the given one's weights. What is added
    begins without effect: its logits are zero, and the queries of V are
    multiplied by `1 / alpha`, so that `sum_i alpha_i S_i` is what the model
    has learned and outputs are the same. It trains, saves, folds and decodes
    like any other here. The model itself is left as it is.

    BERT's pooler is left out: the result is the sequence of its outputs. T5
    becomes an encoder and a decoder whose table of relative positions stays
    that of all blocks, and whose cross-attention stays V; its logits, which
    T5 does not divide by `sqrt(k)`, are made up for in the query kernels.

    Args:
        model: KerasHub's `BertBackbone`, `DistilBertBackbone`,
            `RobertaBackbone`, `GPT2Backbone` or `T5Backbone`, or a
            `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone` whose blocks
            all have `"V"`; or a `GPT2CausalLM`, a `T5Seq2SeqLM` or a task of
            this package around one of these.
        synthesizer: An identifier with V in all heads, such as `"R+V"`, see
            `keras_synth.synthesizers.get`. Of T5 it is that of the encoder
            and the decoder.
        max_length: Integer, the longest sequence to come, in tokens; the
            model's own by default. T5 has none: it must be given.
        layers: Integers, the blocks that get it, from 0 on; the others keep
            V alone. All by default. The decoder's of T5 are counted after
            those of the encoder.

    Returns:
        `SynthesizerBackbone` or, of T5, `SynthesizerSeq2SeqBackbone`; of a
        task, a task around it: a `SynthesizerCausalLM`, a
        `SynthesizerSeq2SeqLM`, or one of the same class, with the same
        preprocessor, compiled as a new one is.

    Raises:
        ValueError: If the model is of another class, quantized or adapted, the
            synthesizer has no V, parts whose logits cannot be zero, or
            there are no such blocks or positions.

    Example:

    >>> import keras_hub
    >>> bert = keras_hub.models.BertBackbone(
    ...     100, num_layers=2, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, max_sequence_length=24)
    >>> grafted = keras_synth.surgery.graft(bert, "R+V", layers=[1])
    >>> inputs = {name: np.ones((1, 12), "int32")
    ...           for name in ("token_ids", "segment_ids", "padding_mask")}
    >>> np.allclose(
    ...     keras.ops.convert_to_numpy(grafted(inputs)),
    ...     keras.ops.convert_to_numpy(bert(inputs)["sequence_output"]),
    ...     atol=1e-4)
    True
    """
    return with_backbone(
        model,
        lambda backbone: _grafted(backbone, synthesizer, max_length, layers),
    )


def _grafted(model, synthesizer, max_length, layers):
    known = family(model)
    options = with_length(known.options(model), max_length)
    number = number_of_blocks(options)
    chosen = _checked_layers(layers, number)
    each = [synthesizer if i in chosen else "V" for i in range(number)]
    weights = known.weights(model)
    grafted = known.made(
        **{**options, **by_stack(options, each)},
        dtype=model.dtype_policy,
        name=f"{model.name}_grafted",
    )
    synthesizers = [x.attention.synthesizer for x in blocks_of(grafted)]
    places = [_place_of_v(synthesizer) for synthesizer in synthesizers]
    _copy(weights, grafted, places)
    for synthesizer, place in zip(synthesizers, places, strict=True):
        _silence(synthesizer, place)
        _divide(place)
    return grafted


def with_length(
    options: dict[str, Any], max_length: int | None
) -> dict[str, Any]:
    """Returns arguments of a backbone for sequences up to a length.

    Args:
        options: Dictionary; its lengths are `None` where any will do.
        max_length: Integer, in tokens, the model's own by default. Sources
            or targets that are shorter already stay so.

    Raises:
        ValueError: If the model has fewer positions, or no number of them.
    """
    names = ("max_sequence_length", "max_decoder_length")
    own = {name: options[name] for name in names if name in options}
    if max_length is None and None in own.values():
        raise ValueError(
            "The model has no positions of its own, and takes sequences of "
            "any length: say how long they may be, as in max_length=512. "
            "Received: max_length=None"
        )
    if max_length is None:
        return options
    max_length = check_positive("max_length", max_length)
    known = [length for length in own.values() if length is not None]
    if known and max_length > max(known):
        raise ValueError(
            f"The model has {max(known)} positions. Take `max_length` up to "
            "that, or lengthen the result, see `keras_synth.surgery.lengthen`. "
            f"Received: max_length={max_length}"
        )
    lengths = {name: min(max_length, own[name] or max_length) for name in own}
    return {**options, **lengths}


def _checked_layers(layers, number):
    if layers is None:
        return range(number)
    chosen = [layers] if isinstance(layers, int) else list(layers)
    if not {*chosen} <= {*range(number)}:
        raise ValueError(
            f"The model has the blocks 0 to {number - 1}; `layers` are their "
            "numbers. "
            f"Received: layers={layers}"
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


def _copy(weights, grafted, places):
    """Gives weights to all but what is new."""
    own = dict(_by_place(grafted, places))
    if weights.keys() != own.keys():
        raise ValueError(
            "The model has other weights than its class usually has. Received: "
            f"{sorted(weights.keys() ^ own.keys())}"
        )
    for path, weight in own.items():
        value = ops.convert_to_numpy(weights[path])
        if path.endswith("position_embedding/embeddings"):
            value = value[: weight.shape[0]]
        weight.assign(np.reshape(value, weight.shape))


def _by_place(grafted, places):
    """Pairs of path and weight, V's without its part in a mixture.

    What the graft adds is left out.
    """
    names = [
        f"{'decoder' if stack.decoder else 'encoder'}_layer_{i}"
        for stack in stacks_of(grafted).values()
        for i in range(len(stack.blocks))
    ]
    inside = {
        id(weight): f"{block}/self_attention/{name}/{weight.name}"
        for block, (part, _) in zip(names, places, strict=True)
        for name in ("query", "key")
        for weight in getattr(part, name).weights
    }
    added = {
        id(weight)
        for block in blocks_of(grafted)
        for weight in block.attention.synthesizer.weights
    }
    for weight in grafted.weights:
        if id(weight) in inside:
            yield inside[id(weight)], weight
        elif id(weight) not in added:
            yield weight.path, weight


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
