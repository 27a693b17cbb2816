"""What several objectives build their models with."""

import numpy as np

import keras_synth  # Keras is imported with the first model
from keras_synth import datasets
from keras_synth.compare import grid, initial


def backbone_options(settings, run, prepared):
    """The arguments that all backbones have in common."""
    width, length = settings.hidden_dim, settings.sequence_length
    return {
        "vocabulary_size": prepared.notes["vocabulary_size"],
        "num_layers": settings.num_layers,
        "num_heads": run.num_heads,
        "hidden_dim": width,
        "intermediate_dim": settings.intermediate_dim or 4 * width,
        "synthesizer": grid.synthesizer(
            run.variant,
            run.num_heads,
            width // run.num_heads,
            length,
            settings.rank,
        ),
        "dropout": settings.dropout,
        "max_sequence_length": length,
    }


def backbone(cls, settings, run, prepared, new=None, **options):
    """The backbone of a run: a new one, or that of a preset with `--init`.

    Args:
        cls: Class of the backbone.
        settings: `Settings`.
        run: `Run`.
        prepared: `Prepared`.
        new: Optional dictionary of arguments of a new one alone.
        **options: Arguments of either.
    """
    if settings.init:
        return initial.backbone(cls, settings, run, **options)
    known = backbone_options(settings, run, prepared)
    return cls(**known, **(new or {}), **options)


def tokenizer(cls, texts, settings, log, learn=None):
    """A tokenizer that learns from texts, or that of a preset with `--init`.

    Args:
        cls: Class of the tokenizer.
        texts: List of strings.
        settings: `Settings`.
        log: Function of a line that says what is going on.
        learn: Optional function of texts that makes a new one; `None` for one
            of `settings.vocabulary_size`.
    """
    if settings.init:
        log(f"The vocabulary is that of {settings.init}")
        return initial.tokenizer(cls, settings.init)
    if learn is not None:
        return learn(texts)
    log(f"Training a vocabulary on {len(texts):,} texts")
    return cls.from_texts(texts, settings.vocabulary_size)


def byte_pair_notes(tokenizer):
    """What makes a byte-pair tokenizer anew, as JSON knows it."""
    ids = tokenizer.vocabulary
    return {
        "vocabulary_size": len(ids),
        "vocabulary": sorted(ids, key=ids.get),
        "merges": list(tokenizer.merges),
    }


def byte_pair_tokenizer(notes):
    """The tokenizer that `byte_pair_notes` describes."""
    return keras_synth.models.SynthesizerBytePairTokenizer(
        {token: i for i, token in enumerate(notes["vocabulary"])},
        notes["merges"],
    )


def schedule(settings, steps):
    """Learning rates of so many steps: up to the highest, and down again."""
    schedules, peak = keras_synth.schedules, settings.learning_rate
    warmup = schedules.warmup_of(steps, settings.warmup_steps)
    if settings.schedule == "inverse_sqrt":
        return schedules.InverseSquareRootDecay(peak, warmup)
    return schedules.cosine_with_warmup(peak, steps, warmup)


def adamw(settings, steps):
    """AdamW, whose weight decay spares biases and normalisations."""
    from keras_synth.training import optimizers

    return optimizers.adamw(schedule(settings, steps), settings.weight_decay)


def length_batches(settings, seed, prepared, test_batch_size):
    """Batches of about equally long texts, as `Objective.batches` returns."""

    def buckets(arrays, batch_size, **options):
        features = {k: x for k, x in arrays.items() if k != "texts"}
        labels = features.pop("labels")
        weight = features.pop("sample_weight", None)
        return datasets.LengthBuckets(
            features,
            labels,
            batch_size,
            settings.lengths,
            sample_weight=weight,
            **options,
        )

    train, *others = prepared[:3]
    return buckets(
        train, settings.batch_size, drop_remainder=True, seed=seed
    ), *(buckets(x, test_batch_size, shuffle=False) for x in others)


def sample(examples, count):
    """The first `count` examples in a random order, always the same one.

    Args:
        examples: Tuple of lists or arrays of equal length, or of tuples of
            two.
        count: Integer, number of examples.

    Returns:
        Tuple like `examples`.
    """
    check_count(count, len(examples[1]))
    rows = np.random.default_rng(0).permutation(len(examples[1]))[:count]

    def chosen(values):
        if isinstance(values, tuple):
            return tuple(map(chosen, values))
        if isinstance(values, np.ndarray):
            return values[rows]
        return [values[i] for i in rows]

    return chosen(examples)


def check_count(count, most):
    """Raises if there are fewer than `count` examples."""
    if count > most:
        raise ValueError(
            f"--examples must be at most {most}, the number of examples to "
            f"train on. Received: {count}"
        )
