"""Results as a comparison writes them, made up."""

import json

import numpy as np

from keras_synth.compare import tasks
from keras_synth.compare.results import FORMAT


def row(variant="V", seed=0, backend="torch", score=0.9, task="pairs", **more):
    """A result of 40 steps in 4 epochs."""
    steps = np.linspace(0.7, 0.7 - score / 2, 40)
    settings = more.pop("settings", {})
    return {
        "format": FORMAT,
        "key": {
            "settings": tasks.TASKS[task].settings(task, **settings).to_json(),
            "variant": variant,
            "num_heads": 2,
            "seed": seed,
            "backend": backend,
            "data": "0123abcd",
        },
        "started": 1_790_000_000 + seed,
        "seconds": 30.0,
        "score": score,
        "test_loss": 1 - score,
        "validation_scores": [0.5, 0.6, 0.7, score],
        "validation_losses": [0.6, 0.5, 0.4, 1 - score],
        "losses": [round(float(x), 5) for x in steps],
        "steps_per_second": 20.0 + len(variant),
        "compile_seconds": 1.0,
        "train_seconds": 2.0,
        "data_share": 0.01,
        "parameters": 123_456,
        "multiplications": 1_000_000,
        "peak_memory_bytes": 600 * 2**20,
        "versions": {"keras_synth": "0.2.0", "keras": "3.15.1", backend: "1"},
        **more,
    }


def rows(scores, **more):
    """Results of variants, by the scores of their seeds."""
    return [
        row(variant, seed, score=score, **more)
        for variant, values in scores.items()
        for seed, score in enumerate(values)
    ]


def write(folder, found):
    """Writes results where `keras-synth report` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(x)}\n" for x in found)
    (folder / "results.jsonl").write_text(lines)
