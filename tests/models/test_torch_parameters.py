"""On PyTorch a model is a `torch.nn.Module` with all of its weights."""

import keras
import numpy as np
import pytest
import small_tasks

from keras_synth import models

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="PyTorch only"
)
FURTHER = {
    "masked_lm": lambda backbone: models.SynthesizerMaskedLM(
        backbone, preprocessor=None
    ),
    "token_classifier": lambda backbone: models.SynthesizerTokenClassifier(
        backbone, num_classes=3
    ),
}


def tensors(model):
    return {id(variable.value) for variable in model.variables}


def parameters(model):
    return {id(parameter) for parameter in model.parameters()}


@pytest.mark.parametrize("kind", [*small_tasks.KINDS, *FURTHER])
def test_parameters_are_the_weights(kind):
    if kind in FURTHER:
        model = FURTHER[kind](small_tasks.backbone("classifier"))
    else:
        model = small_tasks.task(kind, preprocess=False)
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
        "token_ids": torch.tensor([[5, 6, 7, 8]]),
        "padding_mask": torch.ones((1, 4), dtype=torch.bool),
    }
    loss = model(inputs, training=True).square().sum()
    loss.backward()
    optimizer.step()
    changed = [
        not np.array_equal(x, y)
        for x, y in zip(before, model.get_weights(), strict=True)
    ]
    assert sum(changed) > len(changed) / 2
