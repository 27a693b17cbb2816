"""Seeds of initial values: one for each weight, all from one."""

import zlib

import keras

from keras_synth._backend.checks import check_seed


def derived(seed, name):
    """Returns the seed of what is called `name`, from 0 to `2**31 - 1`.

    `None` if `seed`, that of the whole, is.
    """
    if check_seed("seed", seed) is None:
        return None
    return zlib.crc32(f"{seed}/{name}".encode()) >> 1


def seeded(initializer, seed, name):
    """Returns a copy of an initializer with a seed for the weight `name`.

    If `seed`, that of the whole, is `None`, it draws a seed of its own: weights
    must not start out equal. What draws nothing or has a seed stays as it is.
    """
    if not hasattr(initializer, "get_config"):
        return initializer
    config = initializer.get_config()
    if config.get("seed", 0) is not None:
        return initializer
    config["seed"] = derived(seed, name)
    return type(initializer).from_config(config)


def normal_unless(initializer, stddev):
    """Returns an initializer; for `None` normal noise of that deviation."""
    if initializer is None:
        return keras.initializers.RandomNormal(stddev=stddev)
    return keras.initializers.get(initializer)


def add_table(layer, name, shape, initializer, **options):
    """Adds a weight in float32, which mixed precision casts where it is used.

    Args:
        layer: Layer with a `seed`.
        name: String.
        shape: Tuple of integers.
        initializer: Initializer.
        **options: Of `add_weight`.
    """
    return layer.add_weight(
        name=name,
        shape=shape,
        initializer=seeded(initializer, layer.seed, name),
        autocast=False,
        **options,
    )
