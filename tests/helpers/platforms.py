"""Accelerators that are not there: what JAX says of them, for lowering."""

import functools
import types

from keras_synth._backend import execution

CHECKS = "jax._src.cudnn.fused_attention_stablehlo"
CUDNN = 91000  # version 9.10
# JAX does not promise to keep cuDNN's calls: in a saved program it wants to be
# told that this is known.
CALLS = [
    f"__cudnn$fmha{bias}Softmax{backward}"
    for bias in ("", "ScaleBias")
    for backward in ("", "Backward")
]


class Pretended:
    """A platform that JAX takes this machine's for.

    What is lowered for it is what would be lowered there. Nothing of it runs.

    Args:
        monkeypatch: The fixture, which ends it.
        platform: `"tpu"`, `"cuda"` or `"cpu"`.
        capability: Of a CUDA device, as a tuple.

    Attributes:
        splashed: Shapes of queries that the Splash kernel was given.
    """

    def __init__(self, monkeypatch, platform, capability=(9, 0)):
        self.platform, self.splashed = platform, []
        name = "gpu" if platform == "cuda" else platform
        device = types.SimpleNamespace(platform=name)

        def splash(query, *_, **__):
            self.splashed.append(query.shape)
            return query

        for path, answer in (
            ("jax.devices", lambda *_, **__: [device]),
            ("jax.default_backend", lambda: name),
            ("keras.src.backend.jax.nn.wrap_flash_attention", splash),
        ):
            monkeypatch.setattr(path, answer)
        monkeypatch.setattr(execution, "on_cpu", lambda x: name == "cpu")
        if platform == "cuda":
            _pretend_cudnn(monkeypatch, capability)

    def lowered(self, function, *arguments):
        """The program of a function of arrays, as text."""
        import jax

        traced = jax.jit(function).trace(*arguments)
        return traced.lower(lowering_platforms=(self.platform,)).as_text()

    def exported(self, function, *arguments):
        """The same, as a program that could be saved and run there."""
        import jax

        export = jax.export.export(
            jax.jit(function),
            platforms=[self.platform],
            disabled_checks=[
                jax.export.DisabledSafetyCheck.custom_call(name)
                for name in CALLS
            ],
        )
        return export(*arguments).mlir_module()

    def gradient(self, function, arguments=(0, 1)):
        """The gradient of a function by some of its arguments, in training."""
        import jax

        return jax.grad(functools.partial(function, training=True), arguments)


def _pretend_cudnn(monkeypatch, capability):
    def at_least(wanted):
        return capability >= tuple(map(int, wanted.split(".")))

    def equal(wanted):
        return capability == tuple(map(int, wanted.split(".")))

    for name, answer in (
        ("check_cudnn_version", lambda: CUDNN),
        ("check_compute_capability", at_least),
        ("is_cuda_compute_capability_equal", equal),
    ):
        monkeypatch.setattr(f"{CHECKS}.{name}", answer)
