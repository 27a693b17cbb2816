"""Made the files in this folder, with version 0.2.0, on PyTorch.

Every synthesizer and mixer in one model, one file for each task and treatment,
and a preset of each kind of backbone.
"""

import pathlib
import zipfile

import keras
import numpy as np

import keras_synth
from keras_synth import layers, mixers, models

FOLDER = pathlib.Path(__file__).parent
RNG = np.random.default_rng(0)
H, K, D, N = 2, 4, 8, 8
EXPECTED = {
    "token_ids": RNG.integers(5, 19, (2, 8)).astype("int32"),
    "padding_mask": (np.arange(8) < [[8], [5]]).astype("int32"),
    "x": RNG.normal(size=(2, 8, D)).astype("float32"),
    "source": RNG.normal(size=(2, 6, D)).astype("float32"),
    "mask_positions": np.array([[1, 3], [0, 2]], "int32"),
}
SYNTHESIZERS = [
    *("V", "D", "FD", "R", "Fix", "FR", "R + V", "D + V", "FD + R + V"),
    *("relative(max_distance=3)", "gaussian", "alibi + V"),
    "t5_relative(num_buckets=8, max_distance=6) + R + V",
    "pattern(patterns=('current', 'next')) + V",
    "heads(1 * D + 1 * mixture(relative(max_distance=2) + V))",
    "mixture(dense(shared_heads=True) + V, share_queries=True)",
    "factorized_dense(factors=(2, 5)) + random(long_inputs='tile')",
]
MIXERS = [
    *("fnet", "light_conv(width=3)", "dynamic_conv(width=3)", "mlp_mixer"),
    "light_conv(width=4, border='renormalize')",
    *("gmlp", "linformer(rank=3)", "linear", "performer(features=8, seed=1)"),
    *("additive", "relu", "local(window=2)", "strided(stride=3)"),
    "local(window=2, synthesizer='R + V')",
    *(
        "longformer(window=1)",
        "big_bird(block_size=2, random_blocks=1, seed=1)",
    ),
]
OPTIONS = {
    "gate and window": {"use_gate": True, "sliding_window": 3},
    "another output": {"output_shape": 5, "use_bias": False, "value_dim": 3},
}
WORDS = "the film plot is good dull not but and a very so it was".split()
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]


def every_synthesizer():
    x = keras.Input((None, D))
    return keras.Model(
        x,
        {
            **{
                name: layers.SyntheticAttention(
                    H, K, synthesizer=name, max_length=N
                )(x)
                for name in SYNTHESIZERS
            },
            **{
                name: layers.SyntheticAttention(
                    H, K, synthesizer="R + V", max_length=N, **options
                )(x)
                for name, options in OPTIONS.items()
            },
        },
    )


def every_mixer():
    x = keras.Input((None, D))
    return keras.Model(
        x, {name: mixers.get(name, H, K, N)(x) for name in MIXERS}
    )


def blocks():
    x, source = keras.Input((None, D)), keras.Input((None, D))
    y = x
    for synthesizer in ("R + V", "gmlp", "longformer(window=1)"):
        y = layers.SynthesizerEncoder(
            D, H, synthesizer=synthesizer, max_length=N
        )(y)
    y = layers.SynthesizerDecoder(
        D, H, synthesizer="D + V", max_length=N, cross_synthesizer="R"
    )(y, source)
    return keras.Model([x, source], y)


def tokenizer():
    return models.SynthesizerTokenizer([*SPECIAL, *WORDS])


def backbone(synthesizer, **options):
    return models.SynthesizerBackbone(
        tokenizer().vocabulary_size(),
        2,
        H,
        D,
        D,
        synthesizer,
        max_sequence_length=N,
        **options,
    )


def classifier():
    return models.SynthesizerTextClassifier(
        backbone(["R + V", "FD"]),
        3,
        preprocessor=models.SynthesizerTextClassifierPreprocessor(
            tokenizer(), N
        ),
    )


def token_classifier():
    return models.SynthesizerTokenClassifier(backbone("D + V"), 4)


def masked_lm():
    return models.SynthesizerMaskedLM(backbone(["FR", "linear"]))


def causal_lm():
    return models.SynthesizerCausalLM(
        backbone(["R", "local(window=2)"], causal=True),
        models.SynthesizerCausalLMPreprocessor(tokenizer(), N),
    )


def translator():
    return models.SynthesizerSeq2SeqLM(
        models.SynthesizerSeq2SeqBackbone(
            tokenizer().vocabulary_size(),
            1,
            H,
            D,
            D,
            "D + V",
            "R",
            "FR + V",
            max_sequence_length=N,
        ),
        models.SynthesizerSeq2SeqLMPreprocessor(tokenizer(), N, N),
    )


def quantized(mode):
    def make():
        model = drawn(backbone(["R + V", "gmlp"]))
        model.quantize(mode)
        return model

    return make


def adapted():
    model = drawn(backbone(["R + V", "D"]))
    model.enable_lora(2)
    return drawn(model)


def folded():
    return keras_synth.fold(drawn(backbone(["R", "FR + V"])), max_length=N)


MODELS = {
    "synthesizers": every_synthesizer,
    "mixers": every_mixer,
    "blocks": blocks,
    "classifier": classifier,
    "token_classifier": token_classifier,
    "masked_lm": masked_lm,
    "causal_lm": causal_lm,
    "translator": translator,
    "int8": quantized("int8"),
    "int4": quantized("int4"),
    "lora": adapted,
    "folded": folded,
}
READY = ("int8", "int4", "lora", "folded")  # whose weights are drawn already
PRESETS = ("classifier", "translator")


def drawn(model):
    """Draws all weights: zeros would hide mistakes."""
    for weight in model.weights:
        if keras.backend.is_float_dtype(weight.dtype):
            value = RNG.normal(scale=0.4, size=weight.shape)
            weight.assign(value)
    return model


def inputs_of(model, given):
    """What a model of these files is called with.

    Args:
        model: Keras model.
        given: Mapping of arrays, as in `expected.npz`.
    """
    if not isinstance(model.input, dict):
        several = isinstance(model.input, list)
        return [given["x"], given["source"]] if several else given["x"]
    found = {}
    for name in model.input:
        own = name.removeprefix("encoder_").removeprefix("decoder_")
        found[name] = (
            np.zeros_like(given["token_ids"])
            if own == "segment_ids"
            else given[own]
        )
    return found


def save(name, model):
    found = keras.tree.map_structure(
        lambda x: keras.ops.convert_to_numpy(x.detach()),
        model(inputs_of(model, EXPECTED)),
    )
    if isinstance(found, dict):
        EXPECTED.update({f"{name}: {k}": x for k, x in found.items()})
    else:
        EXPECTED[name] = found
    file = FOLDER / f"{name}.keras"
    model.save(file)
    with zipfile.ZipFile(file) as parts:
        contents = {part: parts.read(part) for part in parts.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as parts:
        for part, content in contents.items():
            parts.writestr(part, content)


if __name__ == "__main__":
    assert keras_synth.__version__ == "0.2.0"
    keras.utils.set_random_seed(1)
    for name, make in MODELS.items():
        model = make() if name in READY else drawn(make())
        save(name, model)
        if name in PRESETS:
            model.save_to_preset(FOLDER / "presets" / name)
        if name == "lora":
            model.save_lora_weights(FOLDER / "adapted.lora.h5")
    np.savez_compressed(FOLDER / "expected.npz", **EXPECTED)
