"""The time of an encoder of MiniLM's shape, made cheaper in several ways.

Weights are random: they do not matter here. Models are those that cheaper.py
scores; heads that were removed are missing in each block alike.
"""

import functools
import pathlib
import tempfile

import keras
import keras_hub
import numpy as np
import steps

from keras_synth import fold, mixers, models

SIZES = {
    "vocabulary_size": 30_522,
    "num_layers": 6,
    "num_heads": 12,
    "hidden_dim": 384,
    "intermediate_dim": 1_536,
}
ORIGINAL = "KerasHub's"
KEY_DIM = SIZES["hidden_dim"] // SIZES["num_heads"]


@keras.saving.register_keras_serializable("benchmarks")
class Nothing(mixers.SelfMixer):
    """Attention that was removed: only the residual connection is left."""

    def mix(self, x, padding_mask=None, causal=False, training=None):
        return keras.ops.zeros_like(x)


def encoder(synthesizer, length, **sizes):
    """A backbone of this package, folded, in the form of BERT."""
    keras.utils.set_random_seed(0)
    backbone = models.SynthesizerBackbone(
        **{**SIZES, **sizes},
        synthesizer=synthesizer,
        max_sequence_length=length,
        num_segments=2,
        activation=keras.saving.get_registered_object(
            "keras_hub>gelu_approximate"
        ),
        normalize_first=False,
    )
    return fold(backbone)


def removed(share):
    """Whether each attention layer was removed, the last ones of all."""
    number = -int(-share * SIZES["num_layers"] // 1)
    kept = SIZES["num_layers"] - number
    return ["V"] * kept + [Nothing() for _ in range(number)]


def variants(length):
    """A dictionary of functions that make models, by way and share."""
    heads = SIZES["num_heads"]
    found = {("V", 0.0): lambda: encoder("V", length)}
    for to in ("R", "D"):
        for share in (0.25, 0.5):
            static = int(share * heads)
            name = f"heads({to}={static}, V={heads - static})"
            found[to, share] = lambda name=name: encoder(name, length)
        found[to, 1.0] = lambda to=to: encoder(to, length)
    for share in (0.25, 0.5):
        left = int((1 - share) * heads)
        found["heads removed", share] = lambda left=left: encoder(
            "V", length, num_heads=left, key_dim=KEY_DIM
        )
    for share in (0.25, 0.5, 1.0):
        found["layers removed", share] = lambda share=share: encoder(
            removed(share), length
        )
    return found


def inputs(length, batch):
    """Tokens; every other sample has half as many, and padding."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1_000, 2_000, (batch, length)).astype("int32")
    lengths = np.where(np.arange(batch) % 2, length // 2, length)
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    return {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": mask,
    }


def in_keras(length, batch):
    """Calls by the backend in use, a way and a share."""
    made = {key: make() for key, make in variants(length).items()}
    made[ORIGINAL, 0.0] = keras_hub.models.BertBackbone(
        **SIZES, max_sequence_length=length
    )
    x = inputs(length, batch)
    return {
        (steps.BACKEND, *key): steps.inference(
            steps.of_layer(model, training=False),
            {name: steps.array(x[name], "int32") for name in model.input},
        )
        for key, model in made.items()
    }


def in_onnx_runtime(length, batch):
    """Calls by a runtime, a way and a share; int8 as well."""
    import onnxruntime
    from onnxruntime import quantization

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    calls, x = {}, inputs(length, batch)
    with tempfile.TemporaryDirectory() as folder:
        for (way, share), make in variants(length).items():
            model = make()
            path = pathlib.Path(folder) / "model.onnx"
            signature = {
                name: keras.InputSpec("int32", x[name].shape, name=name)
                for name in model.input
            }
            model.export(
                path, format="onnx", input_signature=[signature], verbose=False
            )
            int8 = path.with_name("int8.onnx")
            quantization.quantize_dynamic(path, int8)
            for runtime, file in (("onnx", path), ("onnx int8", int8)):
                session = onnxruntime.InferenceSession(
                    file.read_bytes(), options, ["CPUExecutionProvider"]
                )
                known = {one.name: one.type for one in session.get_inputs()}
                feeds = {
                    name: x[name.split(":")[0]].astype(
                        "bool" if "bool" in known[name] else "int32"
                    )
                    for name in known
                }
                calls[runtime, way, share] = functools.partial(
                    session.run, None, feeds
                )
    return calls
