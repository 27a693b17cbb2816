"""
Title: What attention does, with and without comparing tokens
Author: The keras_synth authors
Date created: 2026/11/24
Last modified: 2026/11/24
Description: Draw and measure the attention weights of trained models.
Accelerator: None
"""

"""
## Introduction

The [Synthesizer paper](https://arxiv.org/abs/2005.00743) looks at attention
weights in its Figures 2 to 7: histograms before training and after it,
pictures of what encoder and decoder of a translator do, and of a language
model, in which attention by position alone learns a local window. This example
draws their counterparts from Multi30K and WikiText-2, and the sheet of all
heads of a BERT encoder such as
[all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2).

```shell
python examples/attention_analysis.py --multi30k task1/raw
python examples/attention_analysis.py --wikitext2 wikitext-2
python examples/attention_analysis.py --encoder all-MiniLM-L6-v2/
```

It trains small models, for minutes. Those of `examples/translation.py` and
`examples/language_model.py`, trained for longer, take their place:
`--translators translation/V translation/R`. Choose the backend with
`KERAS_BACKEND=jax`, `tensorflow` or `torch`.

## Setup
"""

import argparse
import functools
import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

TRANSLATORS, LANGUAGE_MODELS = ["V", "R", "D"], ["V", "R"]
LENGTH, WINDOW_LENGTH = 24, 48  # in tokens: sentences, windows of text
VOCABULARY_SIZE, BATCH_SIZE = 1_500, 32
SIZES = {"num_layers": 3, "num_heads": 4, "hidden_dim": 64}
SIZES |= {"intermediate_dim": 128}
SENTENCE = "A man is playing a large flute on the street."

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add("--multi30k", metavar="FOLDER", help="with train.en, train.de, ...")
add("--wikitext2", metavar="FOLDER", help="with wiki.train.tokens, ...")
add("--encoder", metavar="PRESET", help="of a KerasHub BERT, or its folder")
add("--translators", nargs="+", metavar="PRESET", help="trained before")
add("--language-models", nargs="+", metavar="PRESET", help="trained before")
add("--steps", type=int, default=400, help="of training, where none is given")
add("--seed", type=int, default=0, help="of weights and batches")
add("--output", default="attention_analysis", help="folder for the pictures")
settings = parser.parse_args()
command_line.require_at_least(parser, settings, steps=1)
if not (settings.multi30k or settings.wikitext2 or settings.encoder):
    parser.error(
        "nothing to look at: name --multi30k, --wikitext2 or --encoder"
    )

# After the command line: --help does not wait for Keras.
from keras_synth import (
    analysis,
    datasets,
    files,
    models,
    optimizers,
    reporting,
    schedules,
    vocabulary,
)

# isort: split
import keras
import keras_hub

output = pathlib.Path(settings.output)
rows = []

"""
## Numbers and pictures

What is drawn is also counted: the mean entropy of a query's weights, in nats;
their mean distance, in tokens; the share of the weight that is at most two
tokens away, and that on the first token; and the share of the weights' variance
that their average over all inputs does not explain.
"""


def save(picture, name):
    with files.writing(output / f"{name}.png", "wb") as file:
        picture.savefig(file, format="png", dpi=110)


def count(model, statistics):
    for layer, own in statistics.items():
        numbers = (
            own.entropy(),
            own.mean_distance(),
            own.window_share(2),
            own.first_share(),
            own.input_dependence(),
        )
        name = f"{model}: {layer}"
        rows.append([name, *(f"{x.mean():.2f}" for x in numbers)])


def arrays(tensors):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, tensors)


def first_of(inputs):
    """The first sample of a batch, without padding."""
    found = {}
    for name, x in inputs.items():
        side = name.rpartition("_")[0].rpartition("_")[
            0
        ]  # of encoder_token_ids
        mask = inputs[f"{side}_padding_mask".removeprefix("_")]
        found[name] = x[:1, : int(mask[0].sum())]
    return found


def of_side(side, things):
    return {k: x for k, x in things.items() if k.startswith(side)}


def fit(model, data, steps, **options):
    """Trains on batches, or on a tuple of arrays."""
    schedule = schedules.cosine_with_warmup(3e-3, steps)
    model.compile(
        optimizer=optimizers.adamw(schedule, 0.01), weighted_metrics=[]
    )
    data = data if isinstance(data, tuple) else (data,)
    names = ("x", "y", "sample_weight")
    model.fit(**dict(zip(names, data, strict=False)), verbose=2, **options)


def preset_or_trained(cls, presets, names, train):
    """Models by name: those of presets, or else some trained here."""
    if presets:
        return {pathlib.Path(x).name: cls.from_preset(x) for x in presets}
    found = {}
    for name in names:
        keras.utils.set_random_seed(settings.seed)
        print(f"\nTraining {name} on {keras.backend.backend()}")
        found[name] = train(name)
    return found


"""
## Translators

Figure 2 of the paper has the weights of decoders before training, Figure 3
those of encoders and decoders after it. Weights of R are the same for all
sentences; those of D depend on one token, those of V on two.
"""


@functools.cache
def training_pairs():
    """The preprocessor, and what it makes of the pairs to train on."""
    number = BATCH_SIZE * settings.steps
    sources, targets = (
        side[:number] for side in datasets.load_multi30k(settings.multi30k)[0]
    )
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
        [*sources, *targets], VOCABULARY_SIZE
    )
    preprocessor = models.SynthesizerSeq2SeqLMPreprocessor(
        tokenizer, LENGTH, LENGTH
    )
    pairs = {"encoder_text": sources, "decoder_text": targets}
    return preprocessor, arrays(preprocessor(pairs))


def train_translator(name):
    preprocessor, data = training_pairs()
    backbone = models.SynthesizerSeq2SeqBackbone(
        **SIZES,
        vocabulary_size=preprocessor.tokenizer.vocabulary_size(),
        synthesizer=name,
        max_sequence_length=LENGTH,
    )
    model = models.SynthesizerSeq2SeqLM(backbone)
    epochs = -(-BATCH_SIZE * settings.steps // len(data[1]))
    fit(model, data, settings.steps, batch_size=BATCH_SIZE, epochs=epochs)
    model.preprocessor = preprocessor
    return model


def look_at_translators():
    found = preset_or_trained(
        models.SynthesizerSeq2SeqLM,
        settings.translators,
        TRANSLATORS,
        train_translator,
    )
    sources, references = datasets.load_multi30k(settings.multi30k)[2]
    targets = [x if isinstance(x, str) else x[0] for x in references]
    before, after = {}, {}
    for name, model in found.items():
        pairs = {"encoder_text": sources[:256], "decoder_text": targets[:256]}
        inputs = arrays(model.preprocessor(pairs)[0])
        backbone = model.backbone
        new = type(backbone).from_config(backbone.get_config())
        before[name] = of_side(
            "decoder", analysis.attention_statistics(new, inputs)
        )
        statistics = analysis.attention_statistics(backbone, inputs)
        count(name, statistics)
        for side in ("encoder", "decoder"):
            after[f"{name}, {side}"] = of_side(side, statistics)
        weights = analysis.attention_weights(backbone, first_of(inputs))
        save(analysis.plot_heads(weights), f"figures_4_5_translator_{name}")
    save(analysis.plot_histograms(before), "figure_2_before_training")
    save(analysis.plot_histograms(after), "figure_3_after_training")


"""
## Language models

Figures 6 and 7: does attention by position alone learn a local window? The
sheets show averages over windows of text, the profile the mean weight of the
tokens at each distance.
"""


vocabularies = {}


def train_language_model(name):
    text = datasets.load("wikitext2", settings.wikitext2)[0]
    words = vocabulary.WordVocabulary.from_text(text).words
    words = vocabulary.WordVocabulary(words[:VOCABULARY_SIZE])
    tokens = text[: BATCH_SIZE * WINDOW_LENGTH * settings.steps // 2 + 1]
    backbone = models.SynthesizerBackbone(
        **SIZES,
        vocabulary_size=VOCABULARY_SIZE,
        synthesizer=name,
        max_sequence_length=WINDOW_LENGTH,
        causal=True,
    )
    model = models.SynthesizerCausalLM(backbone)
    vocabularies[name] = words
    windows = datasets.TokenWindows(
        words.encode(tokens), WINDOW_LENGTH, BATCH_SIZE // 4
    )
    fit(model, windows, len(windows))
    return model


def words_of(name):
    """The words of a model trained here, or of examples/language_model.py."""
    if name in vocabularies:
        return vocabularies[name]
    (folder,) = (
        x for x in settings.language_models if pathlib.Path(x).name == name
    )
    text = (pathlib.Path(folder) / "vocabulary.txt").read_text("utf-8")
    return vocabulary.WordVocabulary(text.split("\n"))


def look_at_language_models():
    found = preset_or_trained(
        models.SynthesizerCausalLM,
        settings.language_models,
        LANGUAGE_MODELS,
        train_language_model,
    )
    text = datasets.load("wikitext2", settings.wikitext2)[2]
    profiles = {}
    for name, model in found.items():
        length = model.backbone.max_sequence_length
        windows = datasets.TokenWindows(
            words_of(name).encode(text[: 128 * length + 1]), length, 32
        )
        statistics = analysis.attention_statistics(model, windows)
        count(f"{name}, WikiText-2", statistics)
        profiles[name] = statistics
        averages = {k: own.averages() for k, own in statistics.items()}
        save(analysis.plot_heads(averages), f"figures_6_7_averages_{name}")
    save(
        analysis.plot_distance_profile(profiles, reach=16),
        "figures_6_7_distance_profile",
    )


"""
## All heads of an encoder

What heads of a trained BERT do in one sentence, and how much of it depends on
the sentence: heads of little input dependence can become tables, see
`keras_synth.surgery.synthesize`.
"""


def tokenizer_of(preset):
    """A preset's; of a folder without `vocab.txt`, that of `tokenizer.json`."""
    path = pathlib.Path(preset) / "tokenizer.json"
    if not path.exists() or path.with_name("vocab.txt").exists():
        return keras_hub.models.BertTokenizer.from_preset(preset)
    words = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    words = sorted(words, key=words.get)
    return keras_hub.models.BertTokenizer(words, lowercase=True)


def look_at_encoder():
    backbone = keras_hub.models.Backbone.from_preset(settings.encoder)
    tokenizer = tokenizer_of(settings.encoder)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=32
    )
    if settings.multi30k:
        texts = datasets.load_multi30k(settings.multi30k)[2][0][:256]
    else:
        texts = datasets.generated_reviews(256)[0]
    inputs = arrays(preprocessor([SENTENCE, *texts]))
    one = first_of(inputs)
    weights = analysis.attention_weights(backbone, one)
    tokens = [tokenizer.id_to_token(int(i)) for i in one["token_ids"][0]]
    first, *_ = weights.values()
    save(analysis.plot_heads(weights), "encoder_heads")
    save(
        analysis.plot_attention(first[0], tokens, heads=range(4)),
        "encoder_sentence",
    )
    statistics = analysis.attention_statistics(backbone, inputs)
    count("encoder", statistics)
    save(analysis.plot_input_dependence(statistics), "encoder_input_dependence")


"""
## Run
"""

if settings.multi30k:
    look_at_translators()
if settings.wikitext2:
    look_at_language_models()
if settings.encoder:
    look_at_encoder()
reporting.print_table(
    f"Attention, means over heads, {keras.backend.backend()} backend",
    ["layer", "entropy", "distance", "|i-j|<=2", "first", "input"],
    rows,
)
print(f"The pictures are in {output}/")

"""
## What to look for

Weights that R makes are the same for every sentence, those of D for every token
wherever it stands, those of V for none. The more a head's weights depend on the
input, the more is lost where a table takes its place. `docs/analysis.md` reads
the pictures.
"""
