"""The `speed` of static_heads.py: forward passes, models in turn."""

import time

import keras_hub
import numpy as np
import steps
from measuring import interleaved
from records import Records

from keras_synth import fold
from keras_synth.analysis import multiplications
from keras_synth.surgery import graft, synthesize

FIELDS = ["backend", "length", "batch", "model", "speed", "bound"]
TEACHER = "KerasHub's"


def measure(args):
    """Records speeds relative to the encoder, grafted with V alone.

    In seconds of the process, not of the clock: other processes may compete.
    One thread, where the backend is told so.
    """
    records = Records(args.output / "speed.csv", FIELDS, FIELDS[:4])
    models = variants(args.model, max(args.sequence_length))
    grafted = models["V"]
    for length in args.sequence_length:
        for batch in args.batch_size:
            row = {"backend": steps.BACKEND, "length": length, "batch": batch}
            if {**row, "model": TEACHER} in records:
                continue
            timings = interleaved(
                {
                    name: forward(model, batch, length)
                    for name, model in models.items()
                },
                args.rounds,
                clock=time.process_time,
            )
            for name, model in models.items():
                speed = timings["V"].median / timings[name].median
                bound = ""
                if name != TEACHER:
                    bound = f"{_sum(grafted, length) / _sum(model, length):.2f}"
                found = {"model": name, "speed": f"{speed:.2f}", "bound": bound}
                records.append({**row, **found})
                print(records.rows[-1], flush=True)


def variants(preset, length):
    """The encoder as it is, and with heads as tables."""
    teacher = keras_hub.models.Backbone.from_preset(preset)
    ids = np.ones((1, length), "int32")
    data = {name: ids for name in teacher.input}
    heads = teacher.num_heads
    half, whole = (
        synthesize(
            teacher,
            data,
            by=[(i, j) for i in range(teacher.num_layers) for j in range(n)],
            max_length=length,
        )
        for n in (heads // 2, heads)
    )
    return {
        "V": graft(teacher, "V", max_length=length),
        TEACHER: teacher,
        "half static": half,
        "half static, folded": fold(half),
        "all static": whole,
        "all static, folded": fold(whole),
    }


def forward(model, batch, length):
    """A function of one forward pass of sequences without padding."""
    ids = np.random.default_rng(0).integers(1_000, 2_000, (batch, length))
    inputs = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }
    inputs = {k: steps.array(inputs[k], "int32") for k in model.input}
    program = steps.of_layer(model, lambda: None, training=False)
    return steps.inference(program, inputs)


def _sum(model, length):
    return sum(multiplications(model, length, length).values())
