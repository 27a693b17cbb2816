"""Seeds of initial values: one for each weight, all from one."""

import zlib

from keras_synth._backend.checks import check_seed


def derived(seed, name):
    """Returns the seed of what is called `name`.

    Args:
        seed: Integer, the seed of the whole, or `None`.
        name: String. Other names have other seeds.

    Returns:
        Integer from 0 to `2**31 - 1`; `None` if `seed` is.
    """
    if check_seed("seed", seed) is None:
        return None
    return zlib.crc32(f"{seed}/{name}".encode()) >> 1


def seeded(initializer, seed, name):
    """Returns an initializer for the weight called `name`.

    Args:
        initializer: Initializer, or whatever else initializes weights.
        seed: Integer, the seed of the whole; `None` for no seed.
        name: String, name of the weight.

    Returns:
        A copy that draws from a seed of its own, a new one if `seed` is `None`:
        weights must not start out equal. The initializer itself if it draws
        nothing or has a seed already.
    """
    if not hasattr(initializer, "get_config"):
        return initializer
    config = initializer.get_config()
    if config.get("seed", 0) is not None:
        return initializer
    config["seed"] = derived(seed, name)
    return type(initializer).from_config(config)


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
