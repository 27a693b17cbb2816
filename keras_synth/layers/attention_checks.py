"""What an attention layer refuses, and what it says."""

import keras


def check_shapes(query_shape, value_shape, key_shape):
    """Raises unless the shapes are `(B, T, d)`, `(B, S, d)`, `(B, S, d)`."""
    shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
    for name, shape in shapes.items():
        if len(shape) != 3:
            raise ValueError(
                f"`{name}` must be a tensor (batch, length, features). "
                "Token ids go through an embedding first. "
                f"Received: {name}.shape={tuple(shape)}"
            )
    lengths = value_shape[1], key_shape[1]
    if None not in lengths and lengths[0] != lengths[1]:
        raise ValueError(
            "`value` and `key` must be equally long. Received: "
            f"value.shape={tuple(value_shape)}, "
            f"key.shape={tuple(key_shape)}"
        )


def check_inputs(query, value, key):
    """Raises unless the tensors have such shapes and hold floats."""
    check_shapes(query.shape, value.shape, key.shape)
    for name, x in (("query", query), ("value", value), ("key", key)):
        dtype = keras.backend.standardize_dtype(x.dtype)
        if not keras.backend.is_float_dtype(dtype):
            raise ValueError(
                f"`{name}` must hold floating-point features; token ids "
                "go through an embedding first. Received: "
                f"{name}.dtype={dtype}"
            )


def check_cache(query, cache, start, num_heads, cache_dim):
    """Raises unless a cache has its shape and, if known, room for the query.

    Args:
        query: Tensor `(B, T, d)`.
        cache: Tensor that should be `(B, S, H, cache_dim)`.
        start: Integer or scalar tensor, position of the first query token in
            the cache; or `None`, if nothing is to be written.
        num_heads: Integer, `H`.
        cache_dim: Integer, features per head and token.
    """
    if len(cache.shape) != 4 or tuple(cache.shape[2:]) != (
        num_heads,
        cache_dim,
    ):
        raise ValueError(
            "The cache must have the shape (batch, length, heads, "
            f"cache_dim)=(B, S, {num_heads}, {cache_dim}). "
            f"Received: cache.shape={tuple(cache.shape)}"
        )
    known = (start, query.shape[1], cache.shape[1])
    if not all(isinstance(number, int) for number in known):
        return
    if start + known[1] > known[2]:
        raise ValueError(
            f"The cache has room for {known[2]} tokens. Make it longer, or "
            f"decode fewer. Received: {known[1]} tokens at start={start}"
        )
