"""The results of synthesizers: rows from a position, keys, tables, biases."""

import inspect

import keras
import numpy as np
from arrays import normal
from backend import numpy
from cases import D, T, each_case, shared
from keras import ops

from keras_synth.layers import SyntheticAttention


@each_case
def test_a_start_position_selects_the_rows_from_there(case):
    """Rows of later tokens, one at a time, as in cached decoding."""
    synthesizer = shared(case).synthesizer
    x = ops.convert_to_tensor(normal(2, T, D))
    keys = synthesizer.project_keys(x)
    rows = numpy(synthesizer(x, keys=keys).materialize())
    for start in (0, 3, T - 1):
        now = slice(start, start + 1)
        for position in (start, ops.convert_to_tensor(start)):
            logits = synthesizer(x[:, now], keys=keys, start=position, length=T)
            row = numpy(logits.materialize())
            expected = np.broadcast_to(rows[:, :, now], (*row.shape[:2], 1, T))
            np.testing.assert_allclose(
                np.broadcast_to(row, expected.shape), expected, atol=1e-5
            )


@each_case
def test_keys_are_as_wide_as_promised(case):
    synthesizer = shared(case).synthesizer
    keys = synthesizer.project_keys(ops.convert_to_tensor(normal(2, T, D)))
    groups = synthesizer.head_groups()
    keys = keys if len(groups) > 1 else (keys,)
    for group, own in zip(groups, keys, strict=True):
        if group.key_dim == 0:
            assert own is None
        else:
            heads = group.num_key_value_heads or group.num_heads
            assert own.shape == (2, T, heads, group.key_dim)


def test_attention_has_the_arguments_of_multi_head_attention():
    mine = inspect.signature(SyntheticAttention.call).parameters
    theirs = inspect.signature(keras.layers.MultiHeadAttention.call).parameters
    assert set(theirs) <= set(mine)
