"""What the models of several kinds are built with."""

import keras

from keras_synth.compare import grid
from keras_synth.schedules import InverseSquareRootDecay


def backbone_options(settings, run, prepared):
    """The arguments that all backbones have in common."""
    return {
        "vocabulary_size": prepared.notes["vocabulary_size"],
        "num_layers": settings.num_layers,
        "num_heads": run.num_heads,
        "hidden_dim": settings.hidden_dim,
        "intermediate_dim": settings.intermediate_dim
        or 4 * settings.hidden_dim,
        "synthesizer": grid.synthesizer(
            run.variant,
            run.num_heads,
            settings.hidden_dim // run.num_heads,
            settings.sequence_length,
            settings.rank,
        ),
        "dropout": settings.dropout,
        "max_sequence_length": settings.sequence_length,
    }


def adamw(settings, steps):
    """AdamW, whose rate falls to 0 along a cosine in so many steps."""
    warmup = _warmup(settings, steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(1, steps - warmup),
        warmup_target=settings.learning_rate,
        warmup_steps=warmup,
    )
    optimizer = keras.optimizers.AdamW(
        schedule, weight_decay=settings.weight_decay
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def adam(settings, steps):
    """Adam as Vaswani et al., 2017, 5.3, with a peak that can be chosen."""
    schedule = InverseSquareRootDecay(
        settings.learning_rate, _warmup(settings, steps)
    )
    return keras.optimizers.Adam(schedule, beta_2=0.98, epsilon=1e-9)


def _warmup(settings, steps):
    """Steps of rising rates: as set, but never more than half of all."""
    wanted = settings.warmup_steps or steps // 10
    return max(1, min(wanted, steps // 2))
