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

from keras_synth import fold, folding, mixers, models

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


@folding.plain_layer.register(Nothing)
def _nothing(layer, graph):
    return lambda x, **masks: keras.ops.zeros_like(x)


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


def inputs(length, batch, seed=0):
    """Tokens; every other sample has half as many, and padding."""
    rng = np.random.default_rng(seed)
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
    """Calls of plain encoders by a runtime, a way and a share; int8 as well."""
    calls, data = {}, [inputs(length, batch)]
    for (way, share), make in variants(length).items():
        model = fold(make(), plain=True, max_length=length)
        for name, call in files(model, data, RUNTIMES[:2]).items():
            calls[name, way, share] = functools.partial(call, data[0])
    return calls


def in_runtimes(length):
    """Calls of plain encoders, one text, by what they are and a runtime."""
    calls, data = {}, [inputs(length, 1, seed) for seed in range(8)]
    half = SIZES["num_heads"] // 2
    for name, synthesizer in {
        "V": "V",
        "half R": f"heads(R={half}, V={half})",
    }.items():
        model = fold(
            encoder(synthesizer, length), plain=True, max_length=length
        )
        for runtime, call in files(model, data, RUNTIMES).items():
            calls[name, runtime] = functools.partial(call, data[0])
    return calls


# --- runtimes -----------------------------------------------------------------


def files(model, data, runtimes):
    """Functions of a model's inputs, by runtime, each of a file.

    They run on one thread. Inputs have the shapes of `data`, a list of them,
    to which integers are fitted.
    """
    signature = {
        name: keras.InputSpec("int32", data[0][name].shape, name=name)
        for name in model.input
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        model.export(
            path, format="onnx", input_signature=[signature], verbose=False
        )
        return {load.__name__[1:]: load(path, data) for load in runtimes}


def _of_tokens(outputs):
    """The outputs of the tokens, `(B, T, d)`, and not the pooled one."""
    return max(outputs, key=np.ndim)


def _onnx(path, data):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path.read_bytes(), options, ["CPUExecutionProvider"]
    )
    types = {one.name: one.type for one in session.get_inputs()}
    dtypes = {
        name: "bool" if "bool" in kind else "int32"
        for name, kind in types.items()
    }

    def call(x):
        feeds = {
            name: x[name.split(":")[0]].astype(dtype)
            for name, dtype in dtypes.items()
        }
        return _of_tokens(session.run(None, feeds))

    return call


def _onnx_int8(path, data):
    from onnxruntime import quantization

    small = path.with_name("int8.onnx")
    quantization.quantize_dynamic(path, small)
    return _onnx(small, data)


def _openvino(path, data, change=lambda model, batches: model):
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    # A mask's names are its own and those of what it is cast to.
    names = [
        next(x.split(":")[0] for x in one.names if x.split(":")[0] in data[0])
        for one in model.inputs
    ]
    dtypes = [one.element_type.to_dtype() for one in model.inputs]

    def fed(x):
        return [
            x[name].astype(dtype)
            for name, dtype in zip(names, dtypes, strict=True)
        ]

    compiled = core.compile_model(
        change(model, [*map(fed, data)]),
        "CPU",
        {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"},
    )
    return lambda x: _of_tokens(compiled(fed(x)).values())


def _openvino_int8_weights(path, data):
    import nncf

    mode = nncf.CompressWeightsMode.INT8_SYM
    return _openvino(
        path, data, lambda model, _: nncf.compress_weights(model, mode=mode)
    )


def _openvino_int8(path, data):
    import nncf

    kind = nncf.ModelType.TRANSFORMER
    return _openvino(
        path,
        data,
        lambda model, batches: nncf.quantize(
            model, nncf.Dataset(batches), model_type=kind
        ),
    )


RUNTIMES = [
    _onnx,
    _onnx_int8,
    _openvino,
    _openvino_int8_weights,
    _openvino_int8,
]
