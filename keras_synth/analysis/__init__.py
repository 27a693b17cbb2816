"""What attention does inside a model."""

from keras_synth.analysis.interactive import view_attention
from keras_synth.analysis.learned import tables
from keras_synth.analysis.mixer_counts import multiplications
from keras_synth.analysis.plots import (
    plot_alphas,
    plot_attention,
    plot_distance_profile,
    plot_heads,
    plot_histograms,
    plot_input_dependence,
)
from keras_synth.analysis.samples import sample_of
from keras_synth.analysis.similarity import head_similarity
from keras_synth.analysis.statistics import (
    AttentionStatistics,
    attention_statistics,
)
from keras_synth.analysis.weights import attention_weights

__all__ = [
    "AttentionStatistics",
    "attention_statistics",
    "attention_weights",
    "head_similarity",
    "multiplications",
    "plot_alphas",
    "plot_attention",
    "plot_distance_profile",
    "plot_heads",
    "plot_histograms",
    "plot_input_dependence",
    "sample_of",
    "tables",
    "view_attention",
]
