"""A flash kernel may be demanded wherever queries are compared with keys."""

import keras
import pytest
from keras import ops

from keras_synth import routes
from keras_synth.layers import SyntheticAttention


class Flash(routes.FusedRoute):
    """Stands in for a kernel that this machine may lack."""

    name = "flash"

    def cost(self, request):
        return 0.0

    def run(self, request):
        assert request.flash_attention
        return super().run(request._replace(flash_attention=None))


@pytest.mark.parametrize(
    "name", ["V", "R + V", "alibi + V", "D + V", "FR + V", "R + D", "D + D"]
)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("length", [1, 3])
def test_a_kernel_serves_a_batch_of_any_size(name, batch, length):
    layer = SyntheticAttention(
        2, 4, synthesizer=name, max_length=5, flash_attention=True
    )
    with routes.using(Flash()):
        output = layer(ops.ones((batch, length, 8)), ops.ones((batch, 5, 8)))
    assert output.shape == (batch, length, 8)


@pytest.mark.parametrize("batch", [1, 2])
def test_it_is_refused_where_nothing_is_compared(batch):
    layer = SyntheticAttention(
        2, 4, synthesizer="R", max_length=5, flash_attention=True
    )
    with pytest.raises(ValueError, match="needs logits that compare"):
        layer(keras.random.normal((batch, 1, 8)))
