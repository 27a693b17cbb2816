"""The devices of `keras.distribution`."""

import contextlib
from collections.abc import Iterator

import keras

# Values in the `weight_axes` of a class: devices that share heads and widths,
# or devices that share batches.
MODEL, DATA = "model", "data"


def number_of_devices() -> int:
    """Returns the number of devices for batches and weights."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.device_mesh.devices.size


@contextlib.contextmanager
def copied(when: bool = True) -> Iterator[None]:
    """If `when`, copies weights made in a `with` block to all devices.

    A layout map would cut a table with one row for all heads.
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
