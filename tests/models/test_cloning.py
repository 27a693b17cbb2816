"""`keras.models.clone_model` of a task says how to make another one."""

import keras
import numpy as np
import pytest
from every_task import TASKS, task


@pytest.mark.parametrize("kind", TASKS)
def test_a_clone_is_made_of_the_config(kind):
    model = task(kind)
    with pytest.raises(ValueError, match="from_config") as error:
        keras.models.clone_model(model)
    assert "\n" not in str(error.value)
    # The expression that the error names.
    other = type(model).from_config(
        {**model.get_config(), "preprocessor": model.preprocessor}
    )
    assert other.preprocessor is model.preprocessor
    other.set_weights(model.get_weights())
    for mine, its in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)
    with pytest.raises(ValueError, match=r"get_config\(\)}\)"):
        keras.models.clone_model(model.backbone)
    type(model.backbone).from_config({**model.backbone.get_config()})
