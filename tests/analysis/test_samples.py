"""One sample of a batch, without its padding."""

import numpy as np
import pytest

from keras_synth.analysis import sample_of

IDS = np.arange(1, 13).reshape(2, 6)
# Of one sample padding is on the left.
MASK = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]])


def test_each_side_is_cut_by_its_mask_wherever_padding_is():
    inputs = {
        "encoder_token_ids": IDS,
        "encoder_padding_mask": MASK,
        "decoder_token_ids": IDS[:, :4],
        "decoder_padding_mask": 1 - MASK[:, 2:],
    }
    found = sample_of(inputs)
    assert found["encoder_token_ids"].tolist() == [[1, 2, 3, 4]]
    assert found["decoder_token_ids"].tolist() == [[3, 4]]
    assert sample_of(inputs, -1)["encoder_token_ids"].tolist() == [
        [8, 9, 10, 11, 12]
    ]


@pytest.mark.parametrize(
    ("inputs", "sample", "words"),
    [
        (IDS, 0, "Expected a dictionary .* Received: ndarray"),
        ({"x": IDS, "y_padding_mask": MASK}, 0, "'x' needs a mask"),
        ({"padding_mask": MASK}, 2, "2 samples. Received: sample=2"),
    ],
)
def test_bad_input_is_named(inputs, sample, words):
    with pytest.raises(ValueError, match=words):
        sample_of(inputs, sample)
