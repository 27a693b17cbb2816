"""Variants side by side: `python -m keras_synth.compare`.

A grid of variants, heads, seeds and backends on one task, a process for each
run, with the same data, initial weights and batches. See
`python -m keras_synth.compare --help`.
"""

from keras_synth.compare.packages import missing

if _missing := missing(("keras_hub", "matplotlib", "rich")):
    raise ImportError(
        f"keras_synth.compare needs {', '.join(_missing)}: "
        'pip install "keras-synth[compare]"'
    )
