"""One sample of a batch, without its padding."""

import numpy as np
import pytest
from keras import ops

from keras_synth.analysis import sample_of

IDS = np.arange(1, 13).reshape(2, 6)
# Of one sample padding is on the left.
MASK = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]])


def test_padding_is_cut_off_wherever_it_is():
    inputs = {
        "token_ids": ops.convert_to_tensor(IDS),
        "padding_mask": ops.convert_to_tensor(MASK),
    }
    found = sample_of(inputs)
    assert found["token_ids"].tolist() == [[1, 2, 3, 4]]
    assert found["padding_mask"].tolist() == [[1, 1, 1, 1]]
    found = sample_of(inputs, -1)
    assert found["token_ids"].tolist() == [[8, 9, 10, 11, 12]]


def test_each_side_has_its_mask():
    inputs = {
        "encoder_token_ids": IDS,
        "encoder_padding_mask": MASK,
        "decoder_token_ids": IDS[:, :4],
        "decoder_padding_mask": 1 - MASK[:, 2:],
    }
    found = sample_of(inputs)
    assert found["encoder_token_ids"].tolist() == [[1, 2, 3, 4]]
    assert found["decoder_token_ids"].tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("inputs", "sample", "words"),
    [
        (IDS, 0, "A dictionary .* Received: ndarray"),
        ({"token_ids": IDS}, 0, "'token_ids' needs a mask"),
        ({"x": IDS, "y_padding_mask": MASK}, 0, "'x' needs a mask"),
        ({"padding_mask": MASK}, 2, "2 samples. Received: sample=2"),
    ],
)
def test_bad_input_is_named(inputs, sample, words):
    with pytest.raises(ValueError, match=words):
        sample_of(inputs, sample)
