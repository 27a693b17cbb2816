"""Variants side by side: `python -m keras_synth.compare`.

A grid of variants, heads, seeds and backends on one task, a process for each
run, with the same data, initial weights and batches. See
`python -m keras_synth.compare --help`.
"""

from keras_synth.compare.packages import require

require(("keras_hub", "matplotlib", "rich"), "keras_synth.compare")
