# Weights that are excluded from weight decay should stay so in a file.
# Keras 3.15.1.
import keras

optimizer = keras.optimizers.AdamW(weight_decay=0.1)
optimizer.exclude_from_weight_decay(var_names=["bias"])
config = optimizer.get_config()
loaded = keras.optimizers.AdamW.from_config(config)
bias = keras.Variable([0.0], name="bias")
for one in (optimizer, loaded):
    one.build([bias])
    assert not one._use_weight_decay(bias), "the bias decays again"
