"""Tables and pictures of scores."""

from keras_synth.training.reporting import (
    draw_histories,
    picture,
    print_attention,
    print_multiplications,
    print_table,
    save_figure,
    score_table,
    smoothed,
)

__all__ = [
    "draw_histories",
    "picture",
    "print_attention",
    "print_multiplications",
    "print_table",
    "save_figure",
    "score_table",
    "smoothed",
]
