"""Which axes of a backbone's weights are cut between devices.

Weights of attention are cut by heads, feed-forward networks by their width,
the token embedding by tokens. The model width `d` of large matrices is cut
along the data axis of the mesh: each device keeps a part of them and is given
the rest when it needs it, as by ZeRO and FSDP.
"""

import re

import keras

MODEL, DATA = "model", "data"  # stand for the axes of a mesh

# Below a layer of attention. Groups of heads may be of any number of heads:
# REPLICATED names their weights.
_ATTENTION = r"(?!.*/group_\d+/).*_attention/(.*/)?"

# Paths of weights and what their first axes are cut along; the others are
# whole. A path matches one of these at most.
SHARDED = {
    r".*token_embedding/embeddings": (MODEL, DATA),
    r".*(position|segment)_embedding/embeddings": (None, DATA),
    r"(?!.*/group_\d+/).*relative_attention_bias": (None, MODEL),
    # projections (d, H, k), those of convolutions (d, H * k)
    _ATTENTION + r"(global_)?(query|key|value)/kernel": (DATA, MODEL),
    _ATTENTION + r"(hidden|kernel)/kernel": (DATA, MODEL),
    _ATTENTION + r"(global_)?(query|key|value|hidden|kernel)/bias": (MODEL,),
    # what merges heads, (H, v, d) or (H * v, d)
    _ATTENTION + r"attention_output/kernel": (MODEL, None, DATA),
    r".*_attention/output/kernel": (MODEL, DATA),
    # tables, heads first but for Dense's W2, (N, H, k)
    _ATTENTION + r"synthesizer/(.*/)?W2": (None, MODEL),
    _ATTENTION
    + r"synthesizer/(.*/)?"
    + r"(R|R1|R2|W_a|b2|A|B|b_A|b_B|distances|table|scale)": (MODEL,),
    r".*_attention/(E|F|scale|kernel)": (MODEL,),
    # MLP-Mixer's and gMLP's tables of positions by positions have no heads
    r".*_attention/(W1|W)": (None, MODEL),
    r".*_attention/W2": (MODEL,),
    r".*_attention/b1": (MODEL,),
    # feed-forward networks
    r".*/feed_forward/(intermediate|gate)/kernel": (DATA, MODEL),
    r".*/feed_forward/(intermediate|gate)/bias": (MODEL,),
    r".*/feed_forward/output/kernel": (MODEL, DATA),
}

# Weights of two and more axes that every device has a copy of. So it has of
# tables with one row for all heads, at paths of SHARDED: W2, W_a and b2 with
# `shared_heads=True`, Linformer's E and F unless `share="none"`.
REPLICATED = (
    r".*/group_\d+/.*",  # groups of heads, "heads(V=4, R=4)"
    r"(?!.*/group_\d+/).*/alphas",  # a number for each part and head
    r".*_attention/projection",  # Performer's random features
    r".*_attention/pattern",  # an array of pairs
    r"(?!.*/group_\d+/).*/lora_.*",  # factors of low rank
    r"(?!.*/group_\d+/).*/\w+_(scale|zero)",  # of quantized weights
)


def layout_map(
    device_mesh: keras.distribution.DeviceMesh,
    model_parallel_dim_name: str = "model",
    data_parallel_dim_name: str = "batch",
) -> keras.distribution.LayoutMap:
    """Returns SHARDED as a `LayoutMap`: see `get_layout_map` of backbones."""
    if not isinstance(device_mesh, keras.distribution.DeviceMesh):
        raise ValueError(
            "`device_mesh` must be a `keras.distribution.DeviceMesh`. "
            f"Received: device_mesh={device_mesh!r}"
        )
    given = {
        "model_parallel_dim_name": model_parallel_dim_name,
        "data_parallel_dim_name": data_parallel_dim_name,
    }
    for argument, name in given.items():
        if name not in device_mesh.axis_names:
            raise ValueError(
                f"`{argument}` must be an axis of the device mesh, one of "
                f"{list(device_mesh.axis_names)}. Received: {argument}={name!r}"
            )
    if model_parallel_dim_name == data_parallel_dim_name:
        raise ValueError(
            "`model_parallel_dim_name` and `data_parallel_dim_name` must be "
            "different axes of the device mesh, of which one may have length "
            f"1. Received: {model_parallel_dim_name!r} for both"
        )
    axes = {
        None: None,
        MODEL: model_parallel_dim_name,
        DATA: data_parallel_dim_name,
    }
    made = keras.distribution.LayoutMap(device_mesh)
    for pattern, layout in SHARDED.items():
        made[pattern] = tuple(axes[axis] for axis in layout)
    return made


def is_replicated(path: str) -> bool:
    """Whether REPLICATED names a weight, by its path."""
    return any(re.fullmatch(pattern, path) for pattern in REPLICATED)


def check_divides(
    *,
    vocabulary_size: int,
    hidden_dim: int,
    intermediate_dim: int,
    num_heads: int,
    cross_num_heads: int | None = None,
) -> None:
    """Raises if devices cannot share a backbone's weights evenly.

    Before any weight is made, and for any layout map; JAX itself raises for
    what is not asked here.

    Args:
        vocabulary_size: Integer, number of token ids.
        hidden_dim: Integer, `d`.
        intermediate_dim: Integer, width of the feed-forward networks.
        num_heads: Integer, heads of self-attention.
        cross_num_heads: Integer, heads of cross-attention, if there is any.

    Raises:
        ValueError: If a length is not divisible by the devices that share it.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        return
    width = ("hidden_dim", hidden_dim)
    cuts = {
        "token_embedding/embeddings": (
            ("vocabulary_size", vocabulary_size),
            width,
        )
    }
    for block in ("encoder_layer_0", "decoder_layer_0"):
        cuts[f"{block}/self_attention/value/kernel"] = (
            width,
            ("num_heads", num_heads),
        )
        cuts[f"{block}/feed_forward/intermediate/kernel"] = (
            width,
            ("intermediate_dim", intermediate_dim),
        )
    if cross_num_heads is not None:
        cuts["decoder_layer_0/cross_attention/value/kernel"] = (
            width,
            ("cross_num_heads", cross_num_heads),
        )
    mesh = distribution.device_mesh
    devices = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    for path, axes in cuts.items():
        layout = distribution.get_tensor_layout(path)
        for axis, (argument, length) in zip(
            () if layout is None else layout.axes, axes, strict=False
        ):
            if axis is not None and length % devices[axis]:
                raise ValueError(
                    f"`{argument}` must be divisible by the {devices[axis]} "
                    f"devices along the axis {axis!r} of the mesh, which share "
                    "the weights. Choose a mesh of another shape, or another "
                    f"{argument}. Received: {argument}={length}, a mesh of "
                    f"{devices}"
                )


def check_matches(model: keras.Model) -> None:
    """Raises if there is a layout map and it is about no weight of a model.

    Raises:
        ValueError: If so.
    """
    distribution = keras.distribution.distribution()
    if not isinstance(distribution, keras.distribution.ModelParallel):
        return
    if any(
        distribution.get_tensor_layout(weight.path) is not None
        for weight in model.weights
    ):
        return
    raise ValueError(
        "The layout map of the distribution matches no weight, so every device "
        "would hold all of them. Its keys are regular expressions for whole "
        'paths: start them with ".*", or use '
        f"`{type(model).__name__}.get_layout_map(device_mesh)`; for copies on "
        "all devices use `keras.distribution.DataParallel`. Received: a map "
        f"for paths such as {model.weights[0].path!r}"
    )
