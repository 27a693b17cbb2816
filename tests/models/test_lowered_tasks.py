"""Every task becomes a program for TPUs and for CUDA, without either."""

import keras
import numpy as np
import pytest
from every_task import TASKS, task
from keras import ops
from platforms import Pretended

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="JAX lowers for what is not there"
)
B, T = 2, 8
PLATFORMS = ["tpu", "cuda"]
quick_or_slow = pytest.mark.parametrize(
    ("kind", "platform"),
    [
        pytest.param(
            kind,
            platform,
            marks=() if kind == "seq2seq_lm" else pytest.mark.slow,
        )
        for kind in TASKS
        for platform in PLATFORMS
    ],
)


def tokens_of(model):
    """Inputs of a model: ones, the last three of a sample being padding."""
    found = {}
    for name in model.input:
        found[name] = np.ones((B, T), "int32")
        if name.endswith("padding_mask"):
            found[name][0, -3:] = 0
    return found


def values_of(variables):
    return [variable.value for variable in variables]


@pytest.mark.each_backend
@quick_or_slow
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_task_is_lowered(kind, platform, policy, monkeypatch):
    keras.config.set_dtype_policy(policy)
    model = task(kind)
    platform = Pretended(monkeypatch, platform)
    state = values_of(model.non_trainable_variables)

    def call(weights, inputs, training=False):
        outputs, _ = model.stateless_call(
            weights, state, inputs, training=training
        )
        return ops.mean(ops.square(ops.cast(outputs, "float32")))

    weights = values_of(model.trainable_variables)
    platform.exported(call, weights, tokens_of(model))
    platform.exported(platform.gradient(call, (0,)), weights, tokens_of(model))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["causal_lm", "seq2seq_lm"])
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("sampler", ["greedy", "beam", "top_p"])
def test_generating_is_lowered(kind, platform, sampler, monkeypatch):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = task(kind)
    model.compile(sampler=sampler)
    platform = Pretended(monkeypatch, platform)
    variables = model.variables + model.sampler.variables

    def generate(values, inputs):
        mapping = zip(variables, values, strict=True)
        with keras.StatelessScope(state_mapping=mapping):
            return model.generate_step(inputs, stop_token_ids=[2])

    platform.exported(generate, values_of(variables), tokens_of(model))
