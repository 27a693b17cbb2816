"""Normalisations by name."""

import keras

NORMALIZATIONS = {
    "layer_normalization": keras.layers.LayerNormalization,
    "rms_normalization": keras.layers.RMSNormalization,
}


def check_normalization(name):
    """Returns the name of a normalisation, or raises."""
    if name not in NORMALIZATIONS:
        raise ValueError(
            f"`normalization` must be one of {', '.join(NORMALIZATIONS)}. "
            f"Received: normalization={name!r}"
        )
    return name


def normalization(name, /, **options):
    """Makes a normalisation over features.

    Args:
        name: String, a key of `NORMALIZATIONS`.
        **options: `epsilon`, and keyword arguments of `keras.layers.Layer`.
    """
    return NORMALIZATIONS[check_normalization(name)](**options)
