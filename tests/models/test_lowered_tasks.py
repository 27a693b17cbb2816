"""Every task becomes a program for TPUs and for CUDA, without either."""

import keras
import pytest
from every_task import TASKS, task
from exported import inputs
from keras import ops
from platforms import Pretended

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="JAX lowers for what is not there"
)
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

    arguments = values_of(model.trainable_variables), inputs(model, 2, 8)
    platform.exported(call, *arguments)
    platform.exported(platform.gradient(call, (0,)), *arguments)


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

    platform.exported(generate, values_of(variables), inputs(model, 2, 8))
