# On PyTorch a model is a `torch.nn.Module`, which should have parameters.
# KerasHub's backbones and tasks have none, and their `state_dict` is empty.
# KerasHub 0.32.0, Keras 3.15.1, PyTorch 2.13.0.
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras_hub

backbone = keras_hub.models.BertBackbone(9, 1, 2, 8, 8)
assert list(backbone.parameters()), "there are no parameters"
