"""What attention does while a model is trained, for TensorBoard."""

import pathlib
import tempfile
from typing import Any

import keras
import numpy as np

from keras_synth import analysis
from keras_synth._backend.checks import check_positive
from keras_synth._system.files import naming_what_is_unwritten
from keras_synth.analysis import learned
from keras_synth.types import FilePath


class AttentionSummary(keras.callbacks.Callback):
    """Shows in TensorBoard what attention does while a model is trained.

    Before training and after epochs it writes, for a batch of inputs: of each
    layer the histogram of its weights, the mean entropy of a query's weights
    and the input dependence of the heads; of mixtures the parts' alphas; a
    picture of all heads for the first sample, and one of the alphas. It needs
    the extra `tensorboard`, and TensorFlow on no backend.

    Args:
        log_dir: Path of the folder that TensorBoard reads.
        inputs: A batch of the model's inputs, such as a preprocessor makes.
        every: Integer, epochs from one summary to the next.

    Raises:
        UnwrittenError: The folder cannot be written, an `OSError`.

    Example:

    ```python
    from keras_synth import models

    backbone = models.SynthesizerBackbone(
        100, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32,
        synthesizer="R+V", max_sequence_length=16)
    model = models.SynthesizerTextClassifier(backbone, num_classes=2)
    inputs = {
        "token_ids": np.ones((8, 16), "int32"),
        "padding_mask": np.ones((8, 16), "int32"),
    }
    summary = keras_synth.callbacks.AttentionSummary("logs", inputs)
    model.fit(inputs, np.ones(8), callbacks=[summary], verbose=0)
    ```
    """

    def __init__(self, log_dir: FilePath, inputs: Any, every: int = 1) -> None:
        super().__init__()
        self.log_dir, self.inputs = pathlib.Path(log_dir), inputs
        self.every = check_positive("every", every)
        self._writer: Any = None
        with naming_what_is_unwritten(self.log_dir / "events"):
            self.log_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.log_dir):
                pass  # it can be written

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "Summaries are written by tensorboardX: "
                "pip install 'keras-synth[tensorboard]'"
            ) from error
        self._writer = SummaryWriter(str(self.log_dir))
        self._write(0)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if (epoch + 1) % self.every == 0:
            self._write(epoch + 1)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._writer.close()

    def _write(self, step):
        model, writer = self.model, self._writer
        statistics = analysis.attention_statistics(model, [self.inputs])
        for name, own in statistics.items():
            _add_histogram(writer, f"{name}/weights", own, step)
            for number in ("entropy", "input_dependence"):
                mean = float(getattr(own, number)().mean())
                writer.add_scalar(f"{name}/{number}", mean, step)
        weights = analysis.attention_weights(model, self.inputs)
        _add_picture(writer, "heads", analysis.plot_heads(weights), step)
        mixtures = learned.mixtures(model)
        for name, (parts, shares) in mixtures.items():
            for i, (part, share) in enumerate(zip(parts, shares, strict=True)):
                tag = f"{name}/alphas/{i}_{part}"
                writer.add_scalar(tag, float(share.mean()), step)
        if mixtures:
            picture = analysis.plot_alphas(model)
            _add_picture(writer, "alphas", picture, step)
        writer.flush()


def _add_histogram(writer, tag, statistics, step):
    edges, counts = statistics.histogram()
    counts = counts.sum(0)
    middles = (edges[:-1] + edges[1:]) / 2
    seen = np.flatnonzero(counts)
    writer.add_histogram_raw(
        tag,
        min=float(edges[seen[0]]) if len(seen) else 0.0,
        max=float(edges[seen[-1] + 1]) if len(seen) else 0.0,
        num=int(counts.sum()),
        sum=float(counts @ middles),
        sum_squares=float(counts @ middles**2),
        bucket_limits=edges[1:].tolist(),
        bucket_counts=counts.tolist(),
        global_step=step,
    )


def _add_picture(writer, tag, picture, step):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    writer.add_image(tag, pixels, step, dataformats="HWC")
