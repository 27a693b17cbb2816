"""Whole models: training steps, the first step, texts, caches, and serving.

    KERAS_BACKEND=jax python benchmarks/models.py blocks
    KERAS_BACKEND=tensorflow python benchmarks/models.py first-step
    KERAS_BACKEND=torch python benchmarks/models.py generate --lengths 128
    python benchmarks/models.py caches --lengths 512
    KERAS_BACKEND=jax python benchmarks/models.py serve --batch-size 32

blocks: training steps of encoder blocks of the shape of T5 base, the model of
the paper's Table 4 (there: a whole encoder and decoder, on TPU).

first-step: seconds from before the first layer of a classifier is made to the
end of the first step, which traces and compiles, and seconds of the second.
Each round of each variant has a process of its own, without a cache of compiled
programs; imports do not count. KerasHub's BertBackbone is a variant.

generate: `SynthesizerCausalLM` and KerasHub's GPT2CausalLM of equal size
continue a batch of prompts greedily, from strings to strings.

caches: the sizes of caches of decoder blocks; nothing is timed.

serve: speed, size and agreement of a classifier in float32, folded, in int8,
and folded in int8. With `--presets`, folders of `SynthesizerTextClassifier`,
these are measured, and with `--data`, the folder of SST-2, their accuracy on
its dev set, too.

Weights are random. Whatever is timed is timed in turn in one process.
"""

import argparse
import functools
import os
import pathlib
import statistics
import tempfile
from concurrent import futures
from multiprocessing import get_context

os.environ.setdefault("KERAS_BACKEND", "jax")

import contenders
import keras
import measuring
import numpy as np
import steps
from keras import ops

import keras_synth
from keras_synth import datasets, mixers, models
from keras_synth.layers import SynthesizerEncoder

# Tay et al., 2021, Table 4: steps per second, the Transformer's being 1.
PAPER = {"V": 1.0, "R": 1.09, "D": 0.93, "R+V": 0.97, "D+V": 0.86}


def sizes(settings, length):
    return contenders.sizes(
        settings.hidden_dim,
        settings.num_heads,
        settings.num_layers,
        length,
        settings.vocabulary_size,
    )


def said(settings):
    """The head of a table."""
    return (
        f"{steps.device()}, {settings.num_layers} blocks, d "
        f"{settings.hidden_dim}, B {settings.batch_size}"
    )


def blocks(settings):
    shape = settings.batch_size, settings.sequence_length, settings.hidden_dim
    cell = steps.Cell(*shape, settings.num_heads)
    calls, parameters = {}, {}
    for name in settings.variants:
        stack = keras.Sequential(
            [
                SynthesizerEncoder(
                    4 * cell.width,
                    cell.heads,
                    synthesizer=name,
                    max_length=cell.length,
                    normalize_first=True,
                )
                for _ in range(settings.num_layers)
            ]
        )
        stack.build((None, *cell.shape[1:]))
        parameters[name] = stack.count_params()
        calls[name] = steps.training(steps.of_layer(stack), cell.inputs())
    timings = measuring.interleaved(calls, settings.rounds)
    first = timings[settings.variants[0]].median
    heads = ["", "steps/s", "spread", f"over {settings.variants[0]}"]
    measuring.print_table(
        f"{said(settings)}, T {cell.length}",
        [*heads, "paper", "parameters", "first"],
        [
            [
                name,
                f"{1 / timing.median:.2f}",
                f"±{100 * timing.spread / timing.median:.0f}%",
                f"{first / timing.median:.2f}",
                PAPER.get(name, "-"),
                f"{parameters[name]:,}",
                f"{timing.first:.1f} s",
            ]
            for name, timing in timings.items()
        ],
    )


def first_step(settings):
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    shape = sizes(settings, settings.sequence_length)
    seconds = {name: [] for name in settings.variants}
    for i in range(settings.rounds):
        for name, found in seconds.items():
            measuring.progress(name, i)
            context = get_context("spawn")
            with futures.ProcessPoolExecutor(1, context) as process:
                asked = contenders.two_steps, name, settings.batch_size, shape
                found.append(process.submit(*asked).result())
    medians = {
        name: [statistics.median(x) for x in zip(*found, strict=True)]
        for name, found in seconds.items()
    }
    last = settings.variants[-1]
    measuring.print_table(
        f"{said(settings)}, T {settings.sequence_length}, padded",
        ["", "first step, s", f"over {last}", "second, s"],
        [
            [name, f"{x:.2f}", f"{x / medians[last][0]:.2f}", f"{y:.3f}"]
            for name, (x, y) in medians.items()
        ],
    )


def generate(settings):
    for length in settings.lengths:
        calls, counts = {}, {}
        for name in (contenders.GENERATOR, *settings.variants):
            shape = sizes(settings, length)
            model = contenders.generator(name, shape, settings.dtype)
            found = contenders.writing(model, settings.batch_size)
            calls[name], counts[name] = found
        if len({*counts.values()}) > 1:
            raise RuntimeError(
                f"All must write as many tokens. Received: {counts}"
            )
        clock = measuring.CLOCKS[settings.clock]
        timings = measuring.interleaved(calls, settings.rounds, clock)
        first = timings[contenders.GENERATOR].median
        measuring.print_table(
            f"{length} tokens: {said(settings)}, {settings.dtype}, "
            f"{settings.clock} time",
            ["", "tokens/s", "ratio", "+-"],
            [
                [
                    name,
                    f"{counts[name] / timing.median:,.0f}",
                    f"{first / timing.median:.2f}",
                    f"{100 * timing.spread / timing.median:.0f}%",
                ]
                for name, timing in timings.items()
            ],
        )


def caches(settings):
    """KerasHub's cache has keys and values."""
    batch, heads = settings.batch_size, settings.num_heads
    width = settings.hidden_dim
    for length in settings.lengths:
        entries = {"TransformerDecoder": 2 * batch * length * width}
        for name in settings.variants:
            mixer = mixers.get(name, heads, width // heads, length)
            mixer.build((batch, length, width))
            cache = keras.tree.flatten(mixer.make_cache(batch, length))
            entries[name] = sum(ops.size(x) for x in cache)
        measuring.print_table(
            f"{length} tokens: {said(settings)}, float32",
            ["", "cache, MiB"],
            [
                [name, f"{settings.num_layers * 4 * int(x) / 2**20:,.2f}"]
                for name, x in entries.items()
            ],
        )


# --- serving ---


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


def serve(settings):
    data, heads = None, ["", "form", "ms", "speed", "MB", "difference"]
    if settings.data:
        data = datasets.read(settings.data / "dev.tsv", text="sentence")
        heads.append("accuracy, %")
    rows = []
    for name in settings.presets or settings.variants:
        measuring.progress(name)
        rows += served(name, settings, data)
    title = f"{said(settings)}, T {settings.sequence_length}"
    measuring.print_table(title, heads, rows)


def classifier(name, settings):
    """A preset's, or one with the same random weights always."""
    if settings.presets:
        return models.SynthesizerTextClassifier.from_preset(name)
    keras.utils.set_random_seed(0)
    return contenders.classifier(
        name, sizes(settings, settings.sequence_length)
    )


def served(name, settings, data):
    """Yields a table's cells, a row for each form."""
    calls, outputs, others = {}, {}, {}
    for form in settings.forms:
        model = FORMS[form](classifier(name, settings))
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


# --- the command ---

DECODER = {
    "variants": ["V", "R", "R+V"],
    "lengths": [128, 512],
    "num_layers": 6,
    "hidden_dim": 512,
    "num_heads": 8,
    "batch_size": 8,
    "vocabulary_size": 8000,
}
# A function, and its options with their defaults.
PARTS = {
    "blocks": (
        blocks,
        {
            "variants": "V R FR Fix D FD R+V FR+V D+V R+D".split(),
            "num_layers": 2,
            "hidden_dim": 768,
            "num_heads": 12,
            "batch_size": 4,
            "sequence_length": 512,
            "rounds": 7,
        },
    ),
    "first-step": (
        first_step,
        {
            "variants": ["V", "R", "R+V", "D+V", contenders.CLASSIFIER],
            "num_layers": 6,
            "hidden_dim": 256,
            "num_heads": 4,
            "batch_size": 8,
            "sequence_length": 256,
            "vocabulary_size": 20_000,
            "rounds": 3,
        },
    ),
    "generate": (
        generate,
        {**DECODER, "dtype": "float32", "rounds": 5, "clock": "wall"},
    ),
    "caches": (caches, DECODER),
    "serve": (
        serve,
        {
            "variants": ["V", "R", "FR", "R+V"],
            "num_layers": 4,
            "hidden_dim": 512,
            "num_heads": 8,
            "batch_size": 1,
            "sequence_length": 512,
            "vocabulary_size": 8000,
            "forms": [*FORMS],
            "rounds": 15,
        },
    ),
}


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(dest="part", required=True)
    choices = {"clock": [*measuring.CLOCKS], "forms": [*FORMS]}
    for name, (_, defaults) in PARTS.items():
        make = functools.partial(parts.add_parser, name)
        part = measuring.options(None, choices, make, **defaults)
        if name == "serve":
            part.add_argument("--presets", nargs="+", default=[])
            part.add_argument("--data", type=pathlib.Path, help="of SST-2")
    settings = parser.parse_args()
    steps.check(parser, settings.variants, [contenders.CLASSIFIER])
    if settings.part == "generate" and (
        min(settings.lengths) <= contenders.PROMPT + 1
    ):
        parser.error(
            f"--lengths must be more than the prompt's {contenders.PROMPT + 1} "
            f"tokens. Received: --lengths {min(settings.lengths)}"
        )
    if settings.part == "serve" and settings.data and not settings.presets:
        parser.error(
            "--data measures the accuracy of trained models; name some with "
            f"--presets. Received: --data {settings.data}"
        )
    return settings


def main():
    settings = parse()
    PARTS[settings.part][0](settings)


if __name__ == "__main__":
    main()
