"""The devices that `keras.distribution` spreads a model over."""

import contextlib
from collections.abc import Iterator

import keras

# What `weight_axes` of a class says that axes of its weights are cut along: the
# devices that share heads and widths, or those that share batches.
MODEL, DATA = "model", "data"


def number_of_devices() -> int:
    """Returns over how many devices batches and weights are spread."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.device_mesh.devices.size


@contextlib.contextmanager
def copied(when: bool = True) -> Iterator[None]:
    """Has weights made in a `with` block copied to all devices, if `when`.

    For tables with one row for all heads, at paths where a layout map expects
    a row for each.
    """
    distribution = keras.distribution.distribution()
    if distribution is None or not when:
        yield
        return
    nothing = keras.distribution.LayoutMap(distribution.device_mesh)
    copies = keras.distribution.ModelParallel(
        layout_map=nothing, batch_dim_name=distribution.batch_dim_name
    )
    with copies.scope():
        yield
