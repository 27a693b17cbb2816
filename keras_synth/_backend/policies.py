"""Settings of sub-layers: dtype policies by paths, and `trainable`."""

import re

import keras

from keras_synth._backend.internals import (
    set_policy,
    set_trainable,
    sublayers,
)

# Modes that need data. Before Keras 3.16 they do not see any (keras#23512), and
# files lose their results (keras#23321).
_CALIBRATED, _RIGHT_SINCE = ("gptq", "awq"), (3, 16)


def check_quantization(mode):
    """Raises if Keras would lose a quantized layer's weights."""
    version = tuple(map(int, keras.__version__.split(".")[:2]))
    if mode in _CALIBRATED and version < _RIGHT_SINCE:
        raise ValueError(
            "GPTQ and AWQ need Keras 3.16, because earlier versions ignore the "
            f"data and save no weights. With Keras {keras.__version__} "
            f"quantize to 'int8' or 'int4'. Received: mode={mode!r}"
        )


def with_policies(layer, config):
    """Returns a layer's config with the policies of quantized sub-layers.

    Keras saves only a layer's own dtype policy. The config's dtype becomes a
    `DTypePolicyMap`, in which sub-layers find theirs by path.
    """
    policies = {
        _key(layer, sub.path): sub.dtype_policy
        for sub in (layer, *sublayers(layer))
        if sub.quantization_mode is not None and sub.path
    }
    if not policies:
        return config
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policies = {**policy, **policies}
        policy = policy.default_policy
    policy = keras.dtype_policies.DTypePolicyMap(policy.name, policies)
    return {**config, "dtype": keras.dtype_policies.serialize(policy)}


def _key(layer, path):
    """A pattern of a sub-layer's path, with any path before the layer's name.

    A Sequential builds its layers below its own name, but not when it is
    loaded.
    """
    if not f"{path}/".startswith(f"{layer.path}/"):
        return path  # of a model, whose layers omit its name
    outer = layer.path.removesuffix(layer.name)
    return f"(.*/)?{re.escape(path.removeprefix(outer))}"


def inherit_settings(layer):
    """Sets the policies of sub-layers from a map, and freezes a frozen layer's.

    Call it when all sub-layers have their paths. In a frozen layer that it
    loads, Keras trains the weights of sub-layers. This does not freeze the
    parts of a frozen sub-layer, because LoRA trains some of them.
    """
    for sub in sublayers(layer):
        policy = sub.dtype_policy
        is_map = isinstance(policy, keras.dtype_policies.DTypePolicyMap)
        # Files keep the map of a model, such as a backbone.
        if is_map and sub.path and not isinstance(sub, keras.Model):
            set_policy(sub, policy[sub.path])
    if not layer.trainable:
        set_trainable(layer, False)
