"""Variants side by side: `python -m keras_synth.compare`.

A grid of variants, heads, seeds and backends on one task, a process for each
run, with the same data, initial weights and batches. See
`python -m keras_synth.compare --help`.
"""

import importlib.util

_missing = [
    name
    for name in ("keras_hub", "matplotlib", "rich")
    if importlib.util.find_spec(name) is None
]
if _missing:
    raise ImportError(
        f"keras_synth.compare needs {', '.join(_missing)}: "
        'pip install "keras-synth[compare]"'
    )
