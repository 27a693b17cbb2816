"""Small models of the kinds that people have, and inputs for them.

Run as `python small_models.py FOLDER`, with KERAS_BACKEND set: loads the files
in FOLDER and writes what the models give to FOLDER/<backend>.npz.
"""

import pathlib
import sys

import keras
import keras_hub
import numpy as np
from backend import numpy
from keras import layers
from noise import noisy

from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)

N, D, H = 12, 16, 2  # longest sequence, width, heads
SIZES = {
    "num_layers": 2,
    "num_heads": H,
    "hidden_dim": D,
    "intermediate_dim": 24,
    "max_sequence_length": N,
}
TEXTS = ["the film is good", "a dull plot and a dull film but", "good"]
WORDS = "the film plot is good dull not but and a".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def _word_pieces(family):
    tokenizer = getattr(keras_hub.models, f"{family}Tokenizer")
    return tokenizer([*SPECIAL, *WORDS])


def _bytes(family):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "\u0120", "go", "oo"]
    tokens += sorted({*"".join(WORDS)})
    tokenizer = getattr(keras_hub.models, f"{family}Tokenizer")
    return tokenizer({x: i for i, x in enumerate(tokens)}, ["g o", "o o"])


def _task(family, kind, tokenizer=_word_pieces, **options):
    """A task with its backbone and preprocessor."""
    hub = keras_hub.models
    preprocessor = getattr(hub, f"{family}{kind}Preprocessor")
    if kind == "TextClassifier":
        options["num_classes"] = 3
    length = {"sequence_length": N}
    if kind == "MaskedLM":
        length |= {"mask_selection_length": 3}
    backbone = getattr(hub, f"{family}Backbone")(50, **SIZES)
    return getattr(hub, f"{family}{kind}")(
        backbone,
        preprocessor=preprocessor(tokenizer(family), **length),
        **options,
    )


def vit():
    backbone = keras_hub.models.ViTBackbone(
        (8, 8, 3), 4, 2, H, D, 24, dropout_rate=0.1, attention_dropout=0.2
    )
    return keras_hub.models.ViTImageClassifier(backbone, 3)


def clip():
    hub = keras_hub.models
    images = hub.CLIPVisionEncoder(4, D, 2, H, 24, image_shape=(8, 8, 3))
    texts = hub.CLIPTextEncoder(50, D, D, 2, H, 24, max_sequence_length=N)
    return hub.CLIPBackbone(images, texts, projection_dim=D)


def text_classification():
    """A custom Transformer, as a functional graph, with Keras masks."""
    tokens = keras.Input((N,), dtype="int32", name="tokens")
    x = layers.Embedding(50, D, mask_zero=True)(tokens)
    for _ in range(2):
        y = layers.MultiHeadAttention(H, D // H, dropout=0.1)(x, x)
        x = layers.LayerNormalization(epsilon=1e-6)(x + y)
        y = layers.Dense(24, activation="relu")(x)
        y = layers.Dropout(0.1)(layers.Dense(D)(y))
        x = layers.LayerNormalization(epsilon=1e-6)(x + y)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, layers.Dense(3, activation="softmax")(x))


def own_vit():
    """keras.io's: patches, pre-norm blocks, a head on all tokens."""
    images = keras.Input((8, 8, 3))
    x = layers.Conv2D(D, 4, 4)(images)
    x = layers.Reshape((4, D))(x)
    for _ in range(2):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.MultiHeadAttention(H, D, dropout=0.1)(y, y)
        x = layers.Add()([y, x])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.Dense(24, activation="gelu")(y)
        x = layers.Add()([layers.Dense(D)(y), x])
    x = layers.Flatten()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(images, layers.Dense(3)(x))


def time_series():
    """keras.io's: attention over a series, with one block called twice."""
    series = keras.Input((None, D))
    block = keras.Sequential(
        [keras_hub.layers.TransformerEncoder(24, H, normalize_first=True)]
    )
    x = block(block(series))
    seen = keras.ops.cast(series[:, None, :, 0] > -1, "float32")
    x = layers.MultiHeadAttention(H, 4, use_bias=False)(
        x, x, attention_mask=seen, use_causal_mask=True
    )
    pooled = layers.GlobalAveragePooling1D()(x)
    summary = layers.Reshape((1, D))(pooled)
    y = layers.MultiHeadAttention(H, 4)(query=summary, value=x)
    return keras.Model(series, layers.Dense(3)(layers.Flatten()(y)))


def decoder():
    """KerasHub's decoder between two sequences, and a nested backbone."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    mask = keras.Input((None,), dtype="int32", name="padding_mask")
    backbone = keras_hub.models.DistilBertBackbone(50, **SIZES)
    encoded = backbone({"token_ids": tokens, "padding_mask": mask})
    x = backbone.token_embedding(tokens)
    x = keras_hub.layers.TransformerDecoder(24, H)(
        x, encoded, encoder_padding_mask=mask
    )
    logits = backbone.token_embedding(x, reverse=True)
    return keras.Model({"token_ids": tokens, "padding_mask": mask}, logits)


def grouped_heads():
    """Keras' heads that share keys, and layers of this package."""
    series = keras.Input((N, D))
    x = layers.GroupQueryAttention(4, 4, 2)(series, series)
    x = SyntheticAttention(H, 4, synthesizer="V")(x)
    x = SynthesizerEncoder(24, H, synthesizer="V")(x)
    x = SynthesizerDecoder(24, H, synthesizer="V")(x, series)
    return keras.Model(series, layers.Dense(3)(layers.Flatten()(x)))


MADE = {
    "BertTextClassifier": lambda: _task("Bert", "TextClassifier"),
    "BertTextEmbedder": lambda: _task("Bert", "TextEmbedder"),
    "BertMaskedLM": lambda: _task("Bert", "MaskedLM"),
    "RobertaTextClassifier": lambda: _task("Roberta", "TextClassifier", _bytes),
    "DistilBertTextClassifier": lambda: _task("DistilBert", "TextClassifier"),
    "ViTImageClassifier": vit,
    "CLIPBackbone": clip,
    "text classification": text_classification,
    "own ViT": own_vit,
    "time series": time_series,
    "decoder": decoder,
    "grouped heads": grouped_heads,
}
TASKS = [
    name for name in MADE if name.endswith(("Classifier", "Embedder", "LM"))
]
LENGTHS = {"time series": N, "CLIPBackbone": N}  # of any length


def made(name):
    """A model none of whose weights is 0 or 1 by default."""
    keras.utils.set_random_seed(0)
    return noisy(MADE[name](), seed=1)


def inputs_of(name):
    """Arrays of a batch of three, sequences of unequal lengths."""
    rng = np.random.default_rng(2)
    ids = rng.integers(5, 15, (3, N)).astype("int32")
    real = (np.arange(N) < [[N], [7], [3]]).astype("int32")
    if name in ("ViTImageClassifier", "own ViT", "CLIPBackbone"):
        images = rng.normal(size=(3, 8, 8, 3)).astype("float32")
        both = {"images": images, "token_ids": ids}
        return both if name == "CLIPBackbone" else images
    if name == "text classification":
        return ids * real
    if name in ("time series", "grouped heads"):
        return rng.normal(size=(3, N, D)).astype("float32")
    given = {"token_ids": ids, "padding_mask": real}
    if name.startswith("Bert"):
        given["segment_ids"] = (np.arange(N) > 2) + 0 * ids
    if name.endswith("MaskedLM"):
        given["mask_positions"] = np.array([[1, 2], [0, 4], [2, 1]], "int32")
    return given


def outputs(model, name):
    found = keras.tree.flatten(model(inputs_of(name), training=False))
    return np.concatenate([numpy(x).ravel() for x in found])


def load(path):
    """A model of a `.keras` file, or of the preset of a task."""
    if path.suffix == ".keras":
        return keras.saving.load_model(path)
    return getattr(keras_hub.models, path.name).from_preset(str(path))


def main(folder):
    from keras_synth import surgery  # noqa: F401 (names of classes)

    results = {}
    for path in sorted(folder.iterdir()):
        results[path.name] = outputs(load(path), path.stem)
    np.savez(folder / f"{keras.backend.backend()}.npz", **results)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
