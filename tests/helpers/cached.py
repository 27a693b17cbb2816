"""Layers and decoder blocks that read part by part, with their caches."""

import itertools

import numpy as np
from backend import numpy, program
from keras import ops


def decoded(layer, x, ends, length, masks=lambda start, end: {}):
    """The output of a layer, as one array `(B, T, d)`, and its last cache.

    Args:
        layer: Mixer, built.
        x: Array `(B, T, d)`.
        ends: Iterable of integers, where parts end.
        length: Integer, the tokens that the cache has room for.
        masks: Function of a part's start and end that returns further
            arguments of the call.
    """
    step, outputs = program(layer.call_with_cache), []
    cache = layer.make_cache(len(x), length)
    for number, (start, end) in enumerate(itertools.pairwise((0, *ends))):
        at = ops.convert_to_tensor(start, "int32") if number % 2 else start
        tokens = ops.convert_to_tensor(x[:, start:end])
        output, cache = step(tokens, cache, at, **masks(start, end))
        outputs.append(numpy(output))
    return np.concatenate(outputs, axis=1), cache


def in_parts(block, x, ends, length, source=None, arguments=None):
    """The output of the block, as one array `(B, T, d)`, and its last cache.

    Args:
        block: `SynthesizerDecoder`, built.
        x: Array `(B, T, d)`.
        ends: Tuple of integers, where parts end.
        length: Integer, the tokens that caches have room for.
        source: Optional array `(B, S, d)`, the encoder's sequence.
        arguments: Optional function of a part's start and end that returns
            further arguments of the call.
    """
    own, cross = block.make_caches(
        len(x), length, None if source is None else source.shape[1]
    )
    step, outputs = program(lambda x, given: block(x, **given)), []
    for start, end in itertools.pairwise((0, *ends)):
        caches = {
            "self_attention_cache": own,
            "self_attention_cache_update_index": start,
        }
        if source is not None:
            caches["encoder_sequence"] = source
            caches["cross_attention_cache"] = cross
            index = 0 if start == 0 else None  # then it is only read
            caches["cross_attention_cache_update_index"] = index
        more = {} if arguments is None else arguments(start, end)
        output, own, *rest = step(x[:, start:end], {**caches, **more})
        cross = rest[0] if rest else None
        outputs.append(numpy(output))
    return np.concatenate(outputs, axis=1), own
