"""Every file format, from every backend that writes it, has our outputs."""

import functools
import os
import warnings

import exported
import keras
import numpy as np
import pytest
from assertions import close
from backend import numpy, only_on, slow_unless
from noise import noisy
from small_tasks import backbone, task

import keras_synth
from keras_synth import models

BACKEND = keras.backend.backend()
LONGEST = 16  # of `small_tasks.backbone`
LENGTH = 8

# Shapes with all sizes open that a format can leave open.
SHAPES = {
    ("onnx", "jax"): (3, LENGTH),
    ("litert", "tensorflow"): (None, LENGTH),
}
HERE = {
    format: SHAPES.get((format, BACKEND), (None, None))
    for format in exported.HERE
    if (format, BACKEND) != ("openvino", "torch")
}
# On one core OpenVINO returns earlier outputs instead of an error.
SILENT = ("openvino",) if len(os.sched_getaffinity(0)) == 1 else ()
# Those of the quick suite.
PLAIN = {
    "tensorflow": ["tf_saved_model", "litert"],
    "jax": ["tf_saved_model"],
    "torch": ["torch"],
}
pytestmark = pytest.mark.filterwarnings("ignore")


def of_kind(kind, synthesizer):
    """A classifier, a masked model or a backbone with weights of size."""
    if kind == "classifier":
        made = task("classifier", synthesizer)
    else:
        made = backbone(kind, synthesizer)
    if kind == "masked model":
        made = models.SynthesizerMaskedLM(made)
    return noisy(made, 0.3)


def batches(shape):
    """Batch sizes and lengths that a shape allows."""
    return {
        (None, None): [(3, LENGTH), (1, 5), (2, LONGEST)],
        (None, LENGTH): [(3, LENGTH), (1, LENGTH)],
        (3, LENGTH): [(3, LENGTH)],
    }[shape]


def check(model, format, shape, folder):
    run = exported.export(model, folder, format, shape)
    for batch, length in batches(shape):
        given = exported.inputs(model, batch, length)
        close(run(given), model(given), atol=1e-4, rtol=1e-4)
    return run


def check_too_long(run, model, shape):
    """Runs one token more than there is room for."""
    longest = shape[1] or LONGEST
    with pytest.raises(Exception, match=r"(?s)."):  # each server has its own
        run(exported.inputs(model, shape[0] or 2, longest + 1))


@pytest.mark.each_backend
@pytest.mark.parametrize("format", slow_unless(PLAIN[BACKEND], HERE))
def test_a_file_has_our_outputs_or_is_an_error(format, tmp_path):
    model = of_kind("classifier", "R+V")
    run = check(model, format, HERE[format], tmp_path)
    if format not in SILENT:
        check_too_long(run, model, HERE[format])


@pytest.mark.parametrize("format", slow_unless(PLAIN[BACKEND][:1], HERE))
def test_a_folded_model_has_the_outputs_of_the_model(format, tmp_path):
    model = of_kind("classifier", "R")
    folded = keras_synth.fold(model)
    run = check(folded, format, HERE[format], tmp_path)
    given = exported.inputs(model, *batches(HERE[format])[0])
    close(run(given), model(given), atol=1e-4)
    if format not in SILENT:
        check_too_long(run, folded, HERE[format])


@pytest.mark.skipif("onnx" not in HERE, reason="needs a writer of ONNX")
@only_on("torch", "others print by C++")
def test_an_export_that_is_not_verbose_says_nothing(tmp_path, capfd):
    model = of_kind("classifier", "V")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        exported.export(model, tmp_path, "onnx", (None, None))
    assert [str(x.message) for x in said] == []
    assert [*capfd.readouterr()] == ["", ""]


@pytest.mark.slow
@pytest.mark.parametrize("format", HERE)
@pytest.mark.parametrize("kind", ["classifier", "masked model", "backbone"])
@pytest.mark.parametrize("name", ["V", "R", "D", "FR", "R+V"])
def test_files_of_all_models_have_our_outputs(name, kind, format, tmp_path):
    if (kind, format, BACKEND) == ("masked model", "onnx", "tensorflow"):
        pytest.skip("tf2onnx lacks the erfc of the head's GELU")
    # PyTorch exports masked models only for fixed sizes.
    fixed = kind == "masked model" and BACKEND == "torch"
    shape = (3, LENGTH) if fixed else HERE[format]
    check(of_kind(kind, name), format, shape, tmp_path)


MIXERS = [
    *("FD", "Fix", "D+V", "relative(max_distance=3)", "alibi + V"),
    *("t5_relative(num_buckets=8, max_distance=6) + R", "heads(V=1, R=1)"),
    *("fnet", "light_conv(width=3)", "dynamic_conv(width=3)", "mlp_mixer"),
    *("gmlp", "linformer(rank=3)", "linear", "performer(features=8)"),
    *("additive", "relu", "local(window=2)", "strided(stride=3)"),
    *("longformer(window=1)", "big_bird(block_size=2, random_blocks=1)"),
]


SPARSE = {*MIXERS[-3:]}
# Operations that converters lack (FFT, the erfc of GELU), and mixers that take
# long and whose operations others have.
LEFT_OUT = {
    ("onnx", "tensorflow"): {"fnet", "mlp_mixer", "gmlp", *SPARSE},
    ("litert", "tensorflow"): {"fnet", "local(window=2)", *SPARSE},
    ("openvino", "tensorflow"): {*MIXERS[7:]},
    ("tf_saved_model", "tensorflow"): {*MIXERS[8:]},
    ("tf_saved_model", "jax"): {*MIXERS},
    ("onnx", "jax"): {"fnet"},
    ("onnx", "torch"): {*MIXERS}
    - {"fnet", "mlp_mixer", "gmlp", "linformer(rank=3)"},
    ("torch", "torch"): {*MIXERS[:7]},
}
KNOWN = [
    (name, format, (3, LENGTH))
    for format in HERE
    for name in MIXERS
    if name not in LEFT_OUT.get((format, BACKEND), ())
]
# Those with groups of tokens, whose number depends on an open length.
GROUPS = [
    "local_dense(window=2)",
    "compressed(kernel=3, stride=2)",
    "sinkhorn(block_size=4)",
]
# What converters lack for open sizes (FFT, erfc), and sizes that PyTorch
# records as numbers.
OPEN_LEFT_OUT = {
    ("tf_saved_model", "jax"): {"fnet"},
    ("onnx", "tensorflow"): {"fnet", "mlp_mixer", "gmlp"},
    ("onnx", "torch"): {"performer(features=8)", GROUPS[-1]},
    ("torch", "torch"): {
        *("performer(features=8)", "longformer(window=1)", *GROUPS)
    },
}
OPEN = [
    x for x in ("tf_saved_model", "onnx", "torch") if None in HERE.get(x, ())
]
KNOWN += [
    (name, format, HERE[format])
    for format in OPEN
    for name in [*MIXERS, *GROUPS]
    if name not in OPEN_LEFT_OUT.get((format, BACKEND), ())
]


@pytest.mark.slow
@pytest.mark.parametrize("name, format, shape", KNOWN)
def test_mixers_have_our_outputs(name, format, shape, tmp_path):
    check(of_kind("classifier", name), format, shape, tmp_path)


@pytest.mark.parametrize(
    "format", slow_unless(["torch", "tf_saved_model"], OPEN)
)
@pytest.mark.parametrize("positions", ["sinusoidal", "t5_relative"])
def test_positions_have_our_outputs(positions, format, tmp_path):
    made = backbone("causal_lm", "V", positions=positions)
    check(noisy(made, 0.3), format, HERE[format], tmp_path)


def quantized():
    model = of_kind("classifier", "R")
    model.quantize("int8")
    return model


def in_bfloat16():
    body = backbone("classifier", "R", dtype="mixed_bfloat16")
    return models.SynthesizerTextClassifier(body, 2)


def of_mixer(name, kind="classifier"):
    return functools.partial(of_kind, kind, name)


V, OPEN_SIZES, FIXED = of_mixer("V"), (None, None), (3, LENGTH)
# Open sizes that a format cannot have, formats that a backend cannot write,
# numbers and operations that ONNX lacks, and sizes that PyTorch would fix.
REFUSED = {
    "tensorflow": [
        (V, "litert", OPEN_SIZES, r"open .'length'.*=\(None, 16\)"),
        (of_mixer("gmlp"), "onnx", FIXED, r"lacks an operation.*Erfc"),
    ],
    "jax": [
        (V, "onnx", (None, LENGTH), r"open .'batch'.*=\(8, 16\)"),
        (V, "openvino", FIXED, 'reads the files of format="onnx"'),
    ],
    "torch": [
        (V, "litert", OPEN_SIZES, r"open .'batch', 'length'.*=\(8, 16\)"),
        (V, "openvino", FIXED, 'reads the files of format="onnx"'),
        (V, "tf_saved_model", FIXED, "TensorFlow or JAX"),
        (quantized, "onnx", OPEN_SIZES, "to int8"),
        (in_bfloat16, "onnx", OPEN_SIZES, "in bfloat16"),
        (
            *(of_mixer("performer(features=8)"), "onnx", OPEN_SIZES),
            "'batch', 'length'.*as numbers",
        ),
        (
            *(of_mixer("R", "masked model"), "torch", OPEN_SIZES),
            "'batch', 'length', 'masked'",
        ),
    ],
}


@pytest.mark.parametrize("make, format, shape, message", REFUSED[BACKEND])
def test_what_a_format_lacks_is_an_error(
    make, format, shape, message, tmp_path
):
    if "operation" in message or "numbers" in message:
        pytest.importorskip(exported.WRITERS[format, BACKEND])
    with pytest.raises(ValueError, match=message):
        exported.export(make(), tmp_path, format, shape)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@pytest.mark.skipif(
    BACKEND == "tensorflow", reason="its files do not know the limit"
)
def test_a_length_without_a_table_is_limited_all_the_same(tmp_path):
    body = backbone("classifier", "V", positions=None)
    format = "torch" if BACKEND == "torch" else "tf_saved_model"
    run = exported.export(body, tmp_path, format, (None, None))
    run(exported.inputs(body, 2, LONGEST))
    check_too_long(run, body, (None, None))


def test_lengths_above_the_backbone_s_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"16 tokens.*Received: shape=\(3, 17"):
        exported.export(task("classifier"), tmp_path, "onnx", (3, 17))


def test_signatures_must_name_the_inputs(tmp_path):
    wrong = [{"ids": keras.InputSpec(shape=(3, 8), dtype="int32")}]
    with pytest.raises(ValueError, match="'padding_mask', 'token_ids'"):
        task("classifier").export(
            tmp_path / "a", format="onnx", input_signature=wrong
        )


@pytest.mark.skipif("onnx" not in HERE, reason="needs a writer of ONNX")
@only_on("torch", "other compilers leave operations out")
@pytest.mark.filterwarnings("ignore")
def test_files_check_no_padding_of_integers_for_nan(tmp_path):
    import onnx

    model = of_kind("classifier", "R+V")
    exported.export(model, tmp_path, "onnx", (3, LENGTH))
    (path,) = tmp_path.rglob("*.onnx")
    operations = {node.op_type for node in onnx.load(path).graph.node}
    assert not {"IsNaN", "IsInf"} & operations


def test_portable_routes_have_no_loop(monkeypatch):
    layer = keras_synth.mixers.get("R+V", 2, 4, 9)
    x = keras.random.normal((3, 7, 8))
    mask = np.arange(7)[None] < np.array([[7], [4], [2]])
    expected = numpy(layer(x, value_mask=mask))
    for route in (
        keras_synth.routes.TilesRoute,
        keras_synth.routes.TorchCPURoute,
    ):
        monkeypatch.setattr(route, "run", None)
    with keras_synth.routes.portable():
        found = layer(x, value_mask=mask)
    close(found, expected)
