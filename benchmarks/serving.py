"""Classifiers as they are served: float32, folded, in int8, folded in int8.

Speed, size and agreement of the same classifier in each form. All forms of a
model are timed in turn in one process.

    KERAS_BACKEND=jax python benchmarks/serving.py
    KERAS_BACKEND=torch python benchmarks/serving.py R --batch-size 32

With `--presets`, folders of `SynthesizerTextClassifier`, these are measured
instead of models with random weights, and with `--data`, the folder of SST-2,
their accuracy on its dev set, too.
"""

import os
import pathlib
import tempfile

os.environ.setdefault("KERAS_BACKEND", "jax")

import contenders
import keras
import measuring
import numpy as np
import steps
from keras import ops

import keras_synth
from keras_synth import datasets, models, synthesizers


def quantized(model):
    model.quantize("int8")
    return model


# Each takes a model of its own.
FORMS = {
    "float32": lambda model: model,
    "folded": keras_synth.fold,
    "int8": quantized,
    "folded, int8": lambda model: quantized(keras_synth.fold(model)),
}


def parse():
    parser = measuring.options(
        __doc__,
        {"forms": [*FORMS]},
        batch_size=1,
        sequence_length=512,
        num_layers=4,
        hidden_dim=512,
        num_heads=8,
        vocabulary_size=8000,
        forms=[*FORMS],
        rounds=15,
    )
    names = "V R FR R+V".split()
    parser.add_argument("synthesizers", nargs="*", default=names)
    parser.add_argument("--presets", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--data", type=pathlib.Path, help="folder of SST-2")
    settings = parser.parse_args()
    for name in settings.synthesizers:
        try:
            synthesizers.get(name, settings.num_heads, 8, 8)
        except ValueError as error:
            parser.error(str(error))
    for folder in settings.presets:
        if not (folder / "task.json").is_file():
            parser.error(
                "--presets must be folders that a SynthesizerTextClassifier "
                f"was saved to with save_to_preset. Received: {folder}"
            )
    if settings.data and not settings.presets:
        parser.error(
            "--data measures the accuracy of trained models; name some with "
            f"--presets. Received: --data {settings.data}"
        )
    return settings


def made(name, settings):
    """A classifier: a preset's, or one with the same random weights always."""
    if settings.presets:
        return models.SynthesizerTextClassifier.from_preset(name)
    keras.utils.set_random_seed(0)
    sizes = contenders.sizes(
        settings.hidden_dim,
        settings.num_heads,
        settings.num_layers,
        settings.sequence_length,
        settings.vocabulary_size,
    )
    return contenders.classifier(name, sizes)


def megabytes(model):
    """The size of a file of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.weights.h5"
        model.save_weights(path)
        return path.stat().st_size / 1e6


def accuracy(model, data):
    """The fraction of texts with the right label."""
    texts, labels = data
    model.compile()  # by default, for logits or probabilities
    scores = model.predict(np.array(texts), batch_size=32, verbose=0)
    return float(np.mean(scores.argmax(-1) == np.array(labels)))


def measure(name, settings, data):
    """Yields a table's cells, a row for each form."""
    calls, outputs, others, first = {}, {}, {}, None
    for form in settings.forms:
        model = FORMS[form](made(name, settings))
        # First: on JAX `predict` gives a model's arrays away.
        right = [f"{100 * accuracy(model, data):.1f}"] if data else []
        backbone, rng = model.backbone, np.random.default_rng(0)
        length = min(settings.sequence_length, backbone.max_sequence_length)
        shape = settings.batch_size, length
        tokens = rng.integers(5, backbone.vocabulary_size, shape)
        x = {
            "token_ids": steps.array(tokens, "int32"),
            "padding_mask": steps.array(np.ones(shape), "bool"),
        }
        scores = ops.softmax(model(x, training=False))
        outputs[form] = ops.convert_to_numpy(scores)
        calls[form] = steps.inference(steps.of_layer(model), x)
        others[form] = megabytes(model), right
    timings = measuring.interleaved(calls, settings.rounds)
    first = settings.forms[0]
    for form, (size, right) in others.items():
        seconds = timings[form].median
        difference = np.abs(outputs[form] - outputs[first]).max()
        yield [
            pathlib.Path(name).name,
            form,
            f"{1e3 * seconds:.2f}",
            f"{timings[first].median / seconds:.2f}",
            f"{size:.2f}",
            f"{difference:.1e}",
            *right,
        ]


def main():
    settings = parse()
    data = None
    if settings.data:
        data = datasets.read(settings.data / "dev.tsv", text="sentence")
    head = f"{steps.device()}, B {settings.batch_size}, "
    head += f"T {settings.sequence_length}"
    if not settings.presets:
        head += f", {settings.num_layers} blocks, d {settings.hidden_dim}"
    heads = ["", "form", "ms", "speed", "MB", "difference"]
    heads += ["accuracy, %"] * bool(data)
    rows = []
    for name in map(str, settings.presets or settings.synthesizers):
        measuring.progress(name)
        rows += measure(name, settings, data)
    measuring.print_table(head, heads, rows)


if __name__ == "__main__":
    main()
