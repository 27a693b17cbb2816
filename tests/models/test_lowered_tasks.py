"""Every task becomes a program for TPUs and for CUDA, without either."""

import keras
import pytest
from backend import only_on, slow_unless
from every_task import TASKS, task
from exported import inputs
from platforms import Pretended

pytestmark = only_on("jax", "it lowers for what is not there")
PLATFORMS = ["tpu", "cuda"]


@pytest.mark.each_backend
@pytest.mark.parametrize("kind", slow_unless(["seq2seq_lm"], TASKS))
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_task_is_lowered(kind, platform, policy, monkeypatch):
    keras.config.set_dtype_policy(policy)
    model = task(kind)
    platform = Pretended(monkeypatch, platform)
    platform.lower(model, inputs(model, 2, 8), by=0)


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

    values = [variable.value for variable in variables]
    platform.exported(generate, values, inputs(model, 2, 8))
