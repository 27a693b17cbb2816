"""A decoder block that reads part by part, with its caches."""

import itertools

import numpy as np
from backend import numpy, program


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
