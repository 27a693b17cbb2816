"""No layer asks TensorFlow's kernel for a product that corrupts memory.

TensorFlow 2.21, on CPUs with oneDNN: matrices (B, 1) by matrices (1, 1).
"""

import keras
import pytest
from arrays import normal, padding
from backend import gradients
from cases import MIXERS, UNLIKE, D, K, N, T
from keras import ops

from keras_synth import mixers

if keras.backend.backend() != "tensorflow":
    pytest.skip("TensorFlow's kernel", allow_module_level=True)

from tensorflow.python.ops import gen_math_ops

B = 3
ONE_HEAD = [x for x in MIXERS if "heads(" not in x and x in UNLIKE]
NAMED = ["D", "FD", "R", "FR", "R+V", "D+V", "FD+V"]


def corrupts(x, y):
    """Whether that kernel must not be asked for `x @ y`."""
    if max(len(x.shape), len(y.shape)) != 4:
        return False
    of_x, of_y = ((1, 1, *a.shape[:-2])[-2:] for a in (x, y))
    return of_x[0] != 1 and of_x[1] == 1 and of_y == (1, 1)


@pytest.fixture(autouse=True)
def wrong(monkeypatch):
    """The products that were asked for and must not be, by their shapes."""
    found = []
    for name in ("batch_mat_mul_v2", "batch_mat_mul_v3"):
        ask = getattr(gen_math_ops, name)

        def watched(x, y, *args, _ask=ask, **kwargs):
            if corrupts(x, y):
                found.append((x.shape, y.shape))
            return _ask(x, y, *args, **kwargs)

        monkeypatch.setattr(gen_math_ops, name, watched)
    return found


@pytest.mark.each_backend
@pytest.mark.parametrize("name", [*ONE_HEAD, *NAMED])
def test_one_head_needs_no_such_product(name, wrong):
    layer = mixers.get(name, num_heads=1, key_dim=K, max_length=N)
    x, mask = normal(B, T, D), padding(T, 5, 3, size=T)
    layer(x)
    gradients(lambda x: ops.sum(layer(x, value_mask=mask) ** 2), x)
    assert not wrong
