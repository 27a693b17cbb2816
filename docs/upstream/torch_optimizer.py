# Optimizers in a file should be those of the backend that loads it. A file from
# PyTorch names PyTorch's classes: without PyTorch it does not load, and with it
# training raises an error on other backends.
# Keras 3.15.1, PyTorch 2.13.0.
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras

config = keras.saving.serialize_keras_object(keras.optimizers.Adam())
module = config["module"]
assert not module.startswith("keras.src.backend.torch"), module
