"""What TensorBoard's own reader finds of attention while a model is trained."""

import io
import subprocess
import sys

import keras
import numpy as np
import pytest
from attending_models import B, T, made

from keras_synth import callbacks

pytest.importorskip("tensorboardX")
pytest.importorskip("tensorboard")

LAYERS = [f"encoder_layer_{i}/self_attention" for i in range(2)]


def fitted(folder, epochs=4, every=2):
    backbone, inputs = made("R+V")
    model = keras.Sequential([backbone, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    summary = callbacks.AttentionSummary(folder, inputs, every)
    model.fit(
        inputs,
        np.ones((B, T, 1)),
        epochs=epochs,
        verbose=0,
        callbacks=[summary],
    )
    return model


def events(folder):
    from tensorboard.backend.event_processing import event_accumulator

    sizes = {"images": 0, "histograms": 0, "scalars": 0}
    found = event_accumulator.EventAccumulator(str(folder), sizes)
    found.Reload()
    return found


def test_tensorboard_reads_what_was_written(tmp_path):
    fitted(tmp_path / "logs")
    found = events(tmp_path / "logs")
    tags = found.Tags()
    steps = [0, 2, 4]  # before training, and after every second epoch
    assert {*tags["histograms"]} == {f"{name}/weights" for name in LAYERS}
    assert {*tags["images"]} == {"heads", "alphas"}
    assert {*tags["scalars"]} == {
        f"{name}/{number}"
        for name in LAYERS
        for number in (
            "entropy",
            "input_dependence",
            "synthesizer/alphas/0_Random",
            "synthesizer/alphas/1_DotProduct",
        )
    }
    for name in LAYERS:
        written = found.Histograms(f"{name}/weights")
        assert [x.step for x in written] == steps
        entropies = found.Scalars(f"{name}/entropy")
        assert [x.step for x in entropies] == steps
        assert len({x.value for x in entropies}) == 3  # it was trained
        shares = zip(
            *(
                found.Scalars(f"{name}/synthesizer/alphas/{part}")
                for part in ("0_Random", "1_DotProduct")
            ),
            strict=True,
        )
        assert [a.value + b.value for a, b in shares] == pytest.approx([1] * 3)
    pictures = found.Images("heads")
    assert [x.step for x in pictures] == steps
    from PIL import Image

    with Image.open(io.BytesIO(pictures[0].encoded_image_string)) as picture:
        assert picture.size == (pictures[0].width, pictures[0].height)


def test_a_folder_that_cannot_be_written_is_an_error_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file/logs.*cannot be written"):
        callbacks.AttentionSummary(tmp_path / "file" / "logs", {})


def test_other_bad_input(tmp_path):
    with pytest.raises(ValueError, match="every"):
        callbacks.AttentionSummary(tmp_path, {}, every=0)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.ones((4, 2), "float32")
    before = callbacks.AttentionSummary(tmp_path, x)
    with pytest.raises(ValueError, match="attention weights"):
        model.fit(x, x[:, :1], callbacks=[before], verbose=0)


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="TensorFlow is there"
)
def test_tensorflow_is_not_imported(tmp_path):
    code = """
import sys
import keras
import numpy as np
from keras_synth import callbacks, layers

inputs = keras.Input((4, 8))
layer = layers.SyntheticAttention(2, 4, synthesizer="R+V", max_length=4)
model = keras.Model(inputs, layer(inputs))
model.compile("adam", "mse")
x = np.ones((2, 4, 8), "float32")
summary = callbacks.AttentionSummary(sys.argv[1], x)
model.fit(x, x, callbacks=[summary], verbose=0)
print("tensorflow" in sys.modules)
"""
    command = [sys.executable, "-c", code, tmp_path]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip().endswith("False")
