"""Synthesizers: functions from tokens, or from nothing, to attention logits."""

import difflib

from keras_synth.synthesizers.dense import (
    DenseSynthesizer,
    FactorizedDenseSynthesizer,
)
from keras_synth.synthesizers.dot_product import DotProductSynthesizer
from keras_synth.synthesizers.mixture import MixtureSynthesizer
from keras_synth.synthesizers.random import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.synthesizers.synthesizer import Synthesizer, revived

__all__ = [
    "DenseSynthesizer",
    "DotProductSynthesizer",
    "FactorizedDenseSynthesizer",
    "FactorizedRandomSynthesizer",
    "MixtureSynthesizer",
    "RandomSynthesizer",
    "Synthesizer",
    "get",
]


# One line per name: how it is made from H, key_dim, N and the options of its
# projections. Tables of positions have no projections.
_NAMES = {
    "dot_product": lambda h, k, n, **o: DotProductSynthesizer(h, k, **o),
    "dense": lambda h, k, n, **o: DenseSynthesizer(h, k, n, **o),
    "random": lambda h, k, n, **o: RandomSynthesizer(h, n, **_dtype(o)),
    "fixed_random": lambda h, k, n, **o: RandomSynthesizer(
        h, n, fixed=True, **_dtype(o)
    ),
    "factorized_dense": lambda h, k, n, **o: FactorizedDenseSynthesizer(
        h, k, n, **o
    ),
    "factorized_random": lambda h, k, n, **o: FactorizedRandomSynthesizer(
        h, n, **_dtype(o)
    ),
}

# The paper's letters.
_LETTERS = {
    "v": "dot_product",
    "d": "dense",
    "r": "random",
    "fix": "fixed_random",
    "fd": "factorized_dense",
    "fr": "factorized_random",
}


def get(
    identifier,
    num_heads=None,
    key_dim=None,
    max_length=None,
    use_bias=True,
    **options,
):
    """Makes a synthesizer from what a user may write.

    Args:
        identifier: A `Synthesizer`, which is returned as it is; a config
            dictionary of one; a name (`"dot_product"`, `"dense"`, `"random"`,
            `"fixed_random"`, `"factorized_dense"`, `"factorized_random"`) or
            the paper's letters for it (V, D, R, Fix, FD, FR), in any case; or
            a sum of names for a mixture: `"R+V"`, `"random + dot_product"`.
        num_heads: Integer, `H`. Names need it.
        key_dim: Integer, features per head; the `hidden_dim` of "dense" and
            "factorized_dense". All names need it but those of tables.
        max_length: Integer, the paper's N, in tokens. All names need it but
            "dot_product".
        use_bias: Whether projections and predicted logits have a bias.
        **options: Options of the projections, as in
            `keras.layers.MultiHeadAttention`, and `dtype`.

    Returns:
        A `Synthesizer`, a new one for each name or config.

    Raises:
        ValueError: If a name is unknown or what it needs is missing.

    Example:

    >>> keras_synth.synthesizers.get("R+V", num_heads=8, key_dim=64,
    ...                              max_length=512)
    <MixtureSynthesizer name=synthesizer, built=False>
    """
    if isinstance(identifier, Synthesizer):
        return identifier
    if isinstance(identifier, dict):
        made = revived(identifier)
        if isinstance(made, Synthesizer):
            return made
    if not isinstance(identifier, str):
        raise ValueError(
            "A synthesizer must be a Synthesizer, a config of one, or a name: "
            f"{_known()}. Received: {identifier!r}"
        )
    names = [_full_name(part, identifier) for part in identifier.split("+")]
    parts = [
        _made(
            name, num_heads, key_dim, max_length, use_bias=use_bias, **options
        )
        for name in names
    ]
    if len(parts) == 1:
        return parts[0]
    return MixtureSynthesizer(parts, **_dtype(options))


def _full_name(part, identifier):
    name = part.strip().lower().replace("-", "_").replace(" ", "_")
    name = _LETTERS.get(name, name)
    if name in _NAMES:
        return name
    near = difflib.get_close_matches(name, [*_NAMES, *_LETTERS], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"Unknown synthesizer {part.strip()!r}.{hint} Expected {_known()}, or "
        f'a sum of them such as "R+V". Received: {identifier!r}'
    )


def _made(name, num_heads, key_dim, max_length, **options):
    needs = {"num_heads": num_heads}
    if name != "dot_product":
        needs["max_length"] = max_length
    if "random" not in name:
        needs["key_dim"] = key_dim
    for need, value in needs.items():
        if value is None:
            raise ValueError(
                f"The synthesizer {name!r} needs `{need}`; it is never "
                f"inferred. Pass {need}=<a positive integer>. "
                f"Received: {need}=None"
            )
    return _NAMES[name](num_heads, key_dim, max_length, **options)


def _dtype(options):
    return {"dtype": options.get("dtype")}


def _known():
    letters = {name: letter for letter, name in _LETTERS.items()}
    return ", ".join(f'"{name}" ("{letters[name]}")' for name in _NAMES)
