"""Seeds of initial values: one for each weight, derived from one seed."""

import zlib

import keras

from keras_synth._backend.checks import check_seed


def derived(seed, name):
    """Returns the seed for a name, below `2**31`; `None` stays `None`."""
    if check_seed("seed", seed) is None:
        return None
    return zlib.crc32(f"{seed}/{name}".encode()) >> 1


def seeded(initializer, seed, name):
    """Returns a copy of an initializer with a seed for the weight `name`.

    If `seed` is `None`, it draws a new one, because weights must not be equal.
    An initializer that has a seed or draws nothing does not change.
    """
    if not hasattr(initializer, "get_config"):
        return initializer
    config = initializer.get_config()
    if config.get("seed", 0) is not None:
        return initializer
    config["seed"] = derived(seed, name)
    return type(initializer).from_config(config)


def normal_unless(initializer, stddev):
    """Returns an initializer, by default normal with a given deviation."""
    if initializer is None:
        return keras.initializers.RandomNormal(stddev=stddev)
    return keras.initializers.get(initializer)


def add_table(layer, name, shape, initializer, **options):
    """Adds a weight to a layer with a `seed`.

    Mixed precision casts it only at its use.
    """
    return layer.add_weight(
        name=name,
        shape=shape,
        initializer=seeded(initializer, layer.seed, name),
        autocast=False,
        **options,
    )
