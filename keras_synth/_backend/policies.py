"""Dtype policies by the paths of layers, as quantized models need them."""

import keras

from keras_synth._backend.internals import set_policy, sublayers

# Modes that look at data. Before Keras 3.16 they look at none (keras#23512),
# and files lose what they computed (keras#23321).
_CALIBRATED, _RIGHT_SINCE = ("gptq", "awq"), (3, 16)


def check_quantization(mode):
    """Raises where Keras would lose a quantized layer's weights."""
    version = tuple(map(int, keras.__version__.split(".")[:2]))
    if mode in _CALIBRATED and version < _RIGHT_SINCE:
        raise ValueError(
            "GPTQ and AWQ need Keras 3.16: before, they look at no data, and "
            "a file of the model holds no weights. Quantize to 'int8' or "
            f"'int4' with Keras {keras.__version__}. Received: mode={mode!r}"
        )


def with_policies(layer, config):
    """Returns a layer's config with the policies of quantized sub-layers.

    Keras saves only a layer's own dtype policy; sub-layers look up theirs in
    a `DTypePolicyMap`, by their paths, which becomes the config's dtype.
    """
    policies = {
        sub.path: sub.dtype_policy
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


def assign_policies(layer):
    """Gives sub-layers the policies that they look up in a map, each its own.

    Called when all have their paths.
    """
    for sub in sublayers(layer):
        policy = sub.dtype_policy
        if isinstance(policy, keras.dtype_policies.DTypePolicyMap) and sub.path:
            set_policy(sub, policy[sub.path])
