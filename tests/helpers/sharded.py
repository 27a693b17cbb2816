"""Promises on eight devices, two by four: see test_layouts.py.

JAX counts devices when it starts, so this is a separate process.
"""

import pathlib
import re
import sys
import tempfile

import jax
import keras
import layout_cases
import numpy as np
import pytest
import small_tasks
from assertions import close
from cases import KINDS, MIXERS
from keras import ops

from keras_synth import models
from keras_synth.attention.routes import sizes

RNG = np.random.default_rng(0)
BATCH, LENGTH = 16, layout_cases.LENGTH
IDS = RNG.integers(1, layout_cases.VOCABULARY, (BATCH, LENGTH)).astype("int32")
REAL = (np.arange(LENGTH) < RNG.integers(3, LENGTH, (BATCH, 1))).astype("int32")
# A mixture of everything, both backbones, and mixers of other kinds.
TRAINED = ("nested", "D shared heads", "heads", "translation")
TRAINED += ("R+V, T5's positions", "linformer(rank=3)")
TRAINED += ("dynamic_conv(width=3)", "gmlp")


def mesh():
    return keras.distribution.DeviceMesh((2, 4), ("batch", "model"))


def model_parallel(layout_map=None):
    layout_map = layout_map or models.SynthesizerBackbone.get_layout_map(mesh())
    return keras.distribution.ModelParallel(
        layout_map=layout_map, batch_dim_name="batch"
    )


def inputs(backbone):
    named = {}
    for name in backbone.input:
        kind = name.removeprefix("encoder_").removeprefix("decoder_")
        found = {"token_ids": IDS, "padding_mask": REAL}
        named[name] = found.get(kind, np.zeros_like(IDS))
    return named


def weights():
    """Weights of two and more axes are cut, or named as replicated."""
    for name in layout_cases.BACKBONES:
        with model_parallel().scope():
            model = layout_cases.backbone(name)
        for weight in model.weights:
            cut = any(axis is not None for axis in weight.value.sharding.spec)
            named = layout_cases.is_replicated(weight.path)
            of_all_heads = name in ("D shared heads", "D linear shared") or (
                weight.name in "EF" and "none" not in name
            )
            if len(weight.shape) > 1 and not of_all_heads:
                assert cut != named, (name, weight.path)
            assert len(weight.value.sharding.device_set) == 8, weight.path


def trained(name):
    """The losses of a few steps of `fit`, and the outputs after them."""
    keras.utils.set_random_seed(0)
    backbone = layout_cases.backbone(name)
    given, x = inputs(backbone), backbone.output
    x = x["decoder_sequence_output"] if isinstance(x, dict) else x
    model = keras.Model(backbone.input, keras.layers.Dense(4)(x))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    labels = np.random.default_rng(1).integers(0, 4, IDS.shape)
    fitted = model.fit(
        given, labels, batch_size=8, epochs=2, shuffle=False, verbose=0
    )
    return fitted.history["loss"], model.predict(given, batch_size=8, verbose=0)


def losses():
    """One device and eight train alike."""
    for name in TRAINED:
        one = trained(name)
        with model_parallel().scope():
            parallel = trained(name)
        with keras.distribution.DataParallel().scope():
            batches = trained(name)
        for found in (parallel, batches):
            close(found[0], one[0], atol=0, rtol=1e-4, err_msg=name)
            close(found[1], one[1], atol=2e-3, err_msg=name)


def gathers():
    """Devices do not receive results of other devices' samples."""
    # Attention in tiles of two rows, as if sequences were long.
    sizes.TILE, sizes.FEWEST_ROWS = 2**6, 2
    features = RNG.normal(size=(BATCH, LENGTH, layout_cases.WIDTH))
    features = features.astype("float32")
    with keras.distribution.DataParallel().scope():
        for name in (*KINDS, *MIXERS):
            layer = layout_cases.mixer(name)
            layer.build(features.shape)
            for mask in (None, REAL.astype("bool")):
                for causal in {False, name in ("V", "R", "R+V")}:
                    options = {"use_causal_mask": True} if causal else {}
                    found = gathered(layer, (features, mask), options)
                    assert not found, (name, mask is None, causal, found)
        for name in ("R", "R+V", "translation"):
            model = layout_cases.backbone(name)
            found = gathered(model, (inputs(model),), {})
            assert not found, (name, found)


def gathered(layer, arguments, options):
    """Transfers between devices in the compiled gradient, except sums."""

    def loss(weights, arguments):
        query, *masks = arguments
        given = dict(zip(("value_mask",), masks, strict=False))
        outputs, _ = layer.stateless_call(
            weights, fixed, query, **given, **options
        )
        return sum(ops.sum(x**2) for x in keras.tree.flatten(outputs))

    weights = [w.value for w in layer.trainable_variables]
    fixed = [w.value for w in layer.non_trainable_variables]
    mesh = keras.distribution.distribution().device_mesh.backend_mesh
    samples = jax.sharding.PartitionSpec("batch")
    arguments = jax.device_put(
        arguments, jax.sharding.NamedSharding(mesh, samples)
    )
    compiled = jax.jit(jax.grad(loss)).lower(weights, arguments).compile()
    sent = "all-gather|all-to-all|collective-permute"
    return re.findall(rf"= .* (?:{sent})(?:-start)?\(", compiled.as_text())


def files():
    """Files of sharded models load unsharded, and the reverse."""
    for name in ("R+V", "D shared heads", "translation"):
        with model_parallel().scope():
            model = layout_cases.backbone(name)
            expected = model.predict(inputs(model), verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.keras"
            model.save(path)
            alone = keras.saving.load_model(path)
            alone.save(path)
            with model_parallel().scope():
                again = keras.saving.load_model(path)
                table = again.token_embedding.embeddings.value
                assert tuple(table.sharding.spec) == ("model", "batch")
                found = again.predict(inputs(model), verbose=0)
        for outputs in (found, alone.predict(inputs(model), verbose=0)):
            close(outputs, expected)


def errors():
    """Batches that devices cannot share are errors before training."""
    nothing = keras.distribution.LayoutMap(mesh())
    nothing["embeddings"] = ("model",)
    with (
        model_parallel(nothing).scope(),
        pytest.raises(ValueError, match="matches no weight"),
    ):
        layout_cases.backbone("R")
    with keras.distribution.DataParallel().scope():
        model = small_tasks.task("classifier")
        model.compile(optimizer="adam", jit_compile=True)
        for batch_size, count in ((8, 20), (12, 24)):
            texts = ["the film is good"] * count
            labels = [0, 1] * (count // 2)
            for method, given in (
                (model.fit, (texts, labels)),
                (model.evaluate, (texts, labels)),
                (model.predict, (texts,)),
            ):
                with pytest.raises(ValueError, match=r"8 devices .*Received:"):
                    method(*given, batch_size=batch_size, verbose=0)
        for kind, method, given in (
            ("causal_lm", "generate", "the film"),
            ("seq2seq_lm", "generate", "the film"),
            ("masked_lm", "fill_mask", "the [MASK]"),
            ("token_classifier", "tag", ["the", "film"]),
        ):
            call = getattr(small_tasks.task(kind), method)
            with pytest.raises(ValueError, match=r"8 devices .*3 examples"):
                call([given] * 3)
            assert len(call([given] * 8)) == 8


if __name__ == "__main__":
    assert len(keras.distribution.list_devices()) == 8
    {f.__name__: f for f in (weights, losses, gathers, files, errors)}[
        sys.argv[1]
    ]()
