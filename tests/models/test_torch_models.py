"""On PyTorch a model is a `torch.nn.Module`, and may be compiled."""

import keras
import numpy as np
import pytest
import small_tasks
from assertions import close
from backend import only_on
from every_task import TASKS, examples, task

pytestmark = only_on("torch", "models are modules there")


def tensors(model):
    return {id(variable.value) for variable in model.variables}


def parameters(model):
    return {id(parameter) for parameter in model.parameters()}


@pytest.mark.parametrize("kind", TASKS)
def test_parameters_are_the_weights(kind):
    model = task(kind)
    for part in (model, model.backbone):
        # A state dict is read without asking for the parameters first.
        assert len(part.state_dict()) >= len(part.variables)
        assert parameters(part) == tensors(part)


def test_parameters_follow_lora_and_quantization():
    model = small_tasks.task("classifier", preprocess=False)
    model.backbone.enable_lora(2)
    assert parameters(model) == tensors(model)
    trained = {id(x) for x in model.parameters() if x.requires_grad}
    assert trained == {id(x.value) for x in model.trainable_weights}
    model.backbone.quantize("int8")
    assert parameters(model) == tensors(model)


def test_an_optimizer_of_pytorch_trains_a_task():
    import torch

    model = small_tasks.task("classifier", preprocess=False)
    before = [np.array(x) for x in model.get_weights()]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs = {
        "token_ids": keras.ops.convert_to_tensor([[5, 6, 7, 8]]),
        "padding_mask": keras.ops.ones((1, 4), "bool"),
    }
    loss = model(inputs, training=True).square().sum()
    loss.backward()
    optimizer.step()
    changed = [
        not np.array_equal(x, y)
        for x, y in zip(before, model.get_weights(), strict=True)
    ]
    assert sum(changed) > len(changed) / 2


def losses(kind, weights, jit_compile):
    import torch

    torch._dynamo.reset()
    keras.utils.set_random_seed(0)
    model = task(kind)
    weights = weights or model.get_weights()
    model.set_weights(weights)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0
    model.compile("adam", model.loss, jit_compile=jit_compile)
    history = model.fit(
        *examples(kind)[:2], batch_size=4, epochs=2, shuffle=False, verbose=0
    )
    return history.history["loss"], weights


@pytest.mark.slow  # to compile is
@pytest.mark.filterwarnings("ignore")  # Dynamo warns of Keras' train_step
@pytest.mark.parametrize("kind", TASKS)
def test_compiled_steps_equal_eager_steps(kind):
    expected, weights = losses(kind, None, False)
    found, _ = losses(kind, weights, True)
    close(found, expected, atol=0, rtol=1e-4)
