# A model compiled with "auto" should also be "auto" for the backend that loads
# it. Files contain the decision for the backend that saved it, so that PyTorch
# runs `torch.compile`, or JAX does not compile.
# Keras 3.15.1 on TensorFlow 2.21.0, JAX 0.10.2 and PyTorch 2.13.0.
import keras

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile="auto")
saved = model.get_compile_config()["jit_compile"]
assert saved == "auto", f"jit_compile is {saved}"
