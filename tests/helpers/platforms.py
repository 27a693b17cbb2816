"""Simulated accelerators of JAX, for lowering."""

import functools
import importlib
import types
from importlib.util import find_spec

from keras import ops

from keras_synth._backend import execution, internals


class Pretended:
    """Makes JAX treat this machine as another platform.

    Functions are lowered as on this platform, except that XLA computes what
    attention prepares for cuDNN. They do not run.

    Args:
        monkeypatch: The fixture, which ends it.
        platform: `"tpu"`, `"cuda"` or `"cpu"`.
        capability: Of a CUDA device, as a tuple.
        bias_gradients: Whether cuDNN differentiates any bias there, not only
            one for all samples; `None` if JAX does not say.

    Attributes:
        splashed: Shapes of queries that the Splash kernel was given.
    """

    def __init__(
        self, monkeypatch, platform, capability=(9, 0), bias_gradients=True
    ):
        self.platform, self.splashed = platform, []
        name = "gpu" if platform == "cuda" else platform
        device = types.SimpleNamespace(platform=name)

        def splash(query, *_, **__):
            self.splashed.append(query.shape)
            return query

        for path, answer in (
            ("jax.devices", lambda *_, **__: [device]),
            ("jax.default_backend", lambda: name),
        ):
            monkeypatch.setattr(path, answer)
        monkeypatch.setattr(module_of_splash(), "wrap_flash_attention", splash)
        monkeypatch.setattr(execution, "on_cpu", lambda x: name == "cpu")
        if platform == "cuda":
            checks = checks_of_cudnn(capability, bias_gradients)
            monkeypatch.setattr(internals, "cudnn_checks", lambda: checks)

    def exported(self, function, *arguments):
        """The program of a function of arrays, as it could be saved for it."""
        import jax

        export = jax.export.export(jax.jit(function), platforms=[self.platform])
        return export(*arguments).mlir_module()

    def lower(self, layer, inputs, by=(0, 1), **options):
        """Lowers a call for inference, and its gradient in training.

        The gradient is by weights (0) and by inputs (1), or by one of them.
        """
        import jax

        state = [w.value for w in layer.non_trainable_variables]
        weights = [w.value for w in layer.trainable_variables]

        def call(weights, inputs, training=False):
            outputs, _ = layer.stateless_call(
                weights, state, inputs, training=training, **options
            )
            return ops.mean(ops.square(ops.cast(outputs, "float32")))

        gradient = jax.grad(functools.partial(call, training=True), by)
        for function in (call, gradient):
            self.exported(function, weights, inputs)


def module_of_splash():
    """Keras' module that calls the Splash kernel, also that of Keras 3.16."""
    root = "keras.src.backend.jax."
    name = "ops.nn" if find_spec(f"{root}ops") else "nn"
    return importlib.import_module(root + name)


def checks_of_cudnn(capability, bias_gradients):
    """JAX's checks of cuDNN for attention, with answers for a device."""
    layout = types.SimpleNamespace(BTNH=types.SimpleNamespace(value=0))
    checks = types.SimpleNamespace(
        AttentionLayout=layout,
        check_cudnn_version=lambda: None,
        check_compute_capability=lambda least: (
            capability >= tuple(map(int, least.split(".")))
        ),
    )
    if bias_gradients is not None:
        checks.should_export_dbias = lambda bias, query, layout: (
            bias_gradients or bias[0] == 1
        )
    return checks
