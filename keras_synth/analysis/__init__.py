"""Attention inside a model."""

from keras_synth.analysis.capturing import (
    attention_weights,
    capture,
    sample_of,
    tables,
)
from keras_synth.analysis.mixer_counts import multiplications
from keras_synth.analysis.plots import (
    plot_distance_profile,
    plot_heads,
    plot_histograms,
)
from keras_synth.analysis.recording import CapturedAttention
from keras_synth.analysis.statistics import (
    AttentionStatistics,
    attention_statistics,
)

__all__ = [
    "AttentionStatistics",
    "CapturedAttention",
    "attention_statistics",
    "attention_weights",
    "capture",
    "multiplications",
    "plot_distance_profile",
    "plot_heads",
    "plot_histograms",
    "sample_of",
    "tables",
]
