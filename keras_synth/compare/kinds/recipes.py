"""What the models of several kinds are built with."""

import keras_synth  # Keras is imported with the first model
from keras_synth.compare import grid


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
    """AdamW, whose weight decay spares biases and normalisations."""
    import keras

    optimizer = keras.optimizers.AdamW(
        schedule(settings, steps), weight_decay=settings.weight_decay
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def adam(settings, steps):
    """Adam with the decay rates of Vaswani et al., 2017, 5.3."""
    import keras

    return keras.optimizers.Adam(
        schedule(settings, steps), beta_2=0.98, epsilon=1e-9
    )


def schedule(settings, steps):
    """Learning rates of so many steps: up to the highest, and down again."""
    import keras

    wanted = settings.warmup_steps or steps // 10
    warmup = max(1, min(wanted, steps // 2))
    if settings.schedule == "inverse_sqrt":
        return keras_synth.schedules.InverseSquareRootDecay(
            settings.learning_rate, warmup
        )
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(1, steps - warmup),
        warmup_target=settings.learning_rate,
        warmup_steps=warmup,
    )
