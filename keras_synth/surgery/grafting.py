"""`graft`: synthesizers beside the attention that a model has learned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.models import SynthesizerBackbone
from keras_synth.surgery.families import family
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
) -> SynthesizerBackbone:
    """Returns a trained encoder, or decoder, with synthesizers beside V.

    A new `SynthesizerBackbone` of the model's weights. What is added begins
    without effect: its logits are zero, and the queries of V are multiplied by
    `1 / alpha`, so that `sum_i alpha_i S_i` is what the model has learned and
    outputs are the same. It trains, saves, folds and decodes like any backbone
    of this package. The model itself is left as it is.

    BERT's pooler is left out: the result is the sequence of its outputs.

    Args:
        model: KerasHub's `BertBackbone`, `DistilBertBackbone`,
            `RobertaBackbone` or `GPT2Backbone`, or a `SynthesizerBackbone`
            whose blocks all have `"V"`.
        synthesizer: An identifier with V in all heads, such as `"R+V"`, see
            `keras_synth.synthesizers.get`.
        max_length: Integer, the longest sequence to come, in tokens; the
            model's own by default.
        layers: Integers, the blocks that get it, from 0 on; the others keep
            V alone. All by default.

    Returns:
        `SynthesizerBackbone`.

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
    known = family(model)
    options = known.options(model)
    length = checked_length(max_length, options["max_sequence_length"])
    chosen = _checked_layers(layers, options["num_layers"])
    options["max_sequence_length"] = length
    weights = known.paths(model)
    _check_is_v(weights, options["num_layers"])
    grafted = SynthesizerBackbone(
        **options,
        synthesizer=[
            synthesizer if i in chosen else "V"
            for i in range(options["num_layers"])
        ],
        dtype=model.dtype_policy,
        name=f"{model.name}_grafted",
    )
    blocks = grafted.stack.blocks
    places = [_place_of_v(block.attention.synthesizer) for block in blocks]
    _copy(weights, grafted, places)
    for block, place in zip(blocks, places, strict=True):
        _silence(block.attention.synthesizer, place)
        _divide(place)
    return grafted


def checked_length(max_length: int | None, longest: int) -> int:
    """Returns `max_length`, by default the longest possible, or raises.

    Args:
        max_length: Integer, in tokens, or `None`.
        longest: Integer, positions that the model has learned.
    """
    if max_length is None:
        return longest
    max_length = check_positive("max_length", max_length)
    if max_length > longest:
        raise ValueError(
            f"The model has learned {longest} positions. Take `max_length` up "
            f"to that. Received: max_length={max_length}"
        )
    return max_length


def _checked_layers(layers, number):
    if layers is None:
        return range(number)
    chosen = [layers] if isinstance(layers, int) else list(layers)
    if not {*chosen} <= {*range(number)}:
        raise ValueError(
            f"The model has the blocks 0 to {number - 1}. "
            f"Received: layers={layers}"
        )
    return chosen


def _check_is_v(weights, number):
    """Raises unless every block compares its tokens, and nothing else."""
    for i in range(number):
        plain = f"layer_{i}/self_attention/"
        theirs = [path for path in weights if path.startswith(plain)]
        compared = [path for path in theirs if path.endswith("/query/kernel")]
        if len(compared) != 1 or any("/part_" in path for path in theirs):
            raise ValueError(
                "A model to be grafted compares tokens by dot products, and "
                'has nothing else in its blocks: "V". '
                f"Received: block {i} with {[x[len(plain) :] for x in theirs]}"
            )


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
        if path == "position_embedding/embeddings":
            value = value[: weight.shape[0]]
        weight.assign(np.reshape(value, weight.shape))


def _by_place(grafted, places):
    """Pairs of path and weight, `layer_0/...` of blocks, V's without its part.

    What the graft adds is left out.
    """
    blocks = grafted.stack.blocks
    inside = {
        id(weight): f"layer_{i}/self_attention/{name}/{weight.name}"
        for i, (part, _) in enumerate(places)
        for name in ("query", "key")
        for weight in getattr(part, name).weights
    }
    added = {
        id(weight)
        for block in blocks
        for weight in block.attention.synthesizer.weights
    }
    for weight in grafted.weights:
        if id(weight) in inside:
            yield inside[id(weight)], weight
        elif id(weight) not in added:
            first, _, rest = weight.path.partition("/")
            side, _, number = first.partition("_layer_")
            numbered = side in ("encoder", "decoder") and number
            yield (
                (f"layer_{number}/{rest}" if numbered else weight.path),
                weight,
            )


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
