# `torch.compile(fullgraph=True)` should compile `ops.max` like `ops.amax`. It
# raises an error, and so it does for `ops.min`.
# Keras 3.15.1, PyTorch 2.13.0.
# Error: Unsupported: builtin isinstance() cannot determine type of argument
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

torch.compile(keras.ops.max, fullgraph=True, backend="eager")(torch.ones(3))
