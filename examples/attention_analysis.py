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
weights in its Figures 2 to 7. This example draws their counterparts of models
that you trained, and all heads of a BERT encoder:

```shell
python examples/attention_analysis.py --encoder all-MiniLM-L6-v2/
python examples/attention_analysis.py --translators translation/* --data FOLDER
python examples/attention_analysis.py --language-models V/ R/ --data wikitext-2
```

## Setup
"""

import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras_synth_command

script = keras_synth_command.script(__doc__, epochs=0, output="analysis")
add = script.parser.add_mutually_exclusive_group(required=True).add_argument
presets = {"nargs": "+", "default": [], "metavar": "PRESET"}
add("--encoder", metavar="PRESET", help="of KerasHub's BERT, or its folder")
add("--translators", **presets, help="such as translation.py makes")
add("--language-models", **presets, help="such as language_model.py makes")
script.add("--data", metavar="FOLDER", help="Multi30K or WikiText-2, for these")
settings = script.parse()
if bool(settings.data) == bool(settings.encoder):
    script.parser.error("--data is what all but an --encoder read")

import keras
import keras_hub

import keras_synth
from keras_synth import analysis, batches, datasets, models, reporting

SENTENCE = "A man is playing a large flute on the street."
SAMPLES = 256  # sentences, or windows of text, to count over
WINDOW, REACH = 2, 16  # tokens: what is near, and how far profiles go

"""
## Translators

Figure 2 of the paper has the weights of decoders before training, Figure 3
those of encoders and decoders after it, Figures 4 and 5 pictures.
"""

found, before, after = {}, {}, {}  # statistics of layers, for each model
for name, preset in script.named(settings.translators).items():
    with script.errors():
        test = datasets.load_multi30k(settings.data)[2]
        model = models.SynthesizerSeq2SeqLM.from_preset(preset)
    pairs = zip(("encoder_text", "decoder_text"), test, strict=True)
    inputs = model.preprocessor({k: x[:SAMPLES] for k, x in pairs})[0]
    backbone = model.backbone
    found[name] = analysis.attention_statistics(backbone, inputs)
    for side in ("encoder", "decoder"):
        own = {k: x for k, x in found[name].items() if side in k}
        after[f"{name}, {side}"] = own
    keras.utils.set_random_seed(0)
    new = type(backbone).from_config(backbone.get_config())
    before[name] = analysis.attention_statistics(new, inputs, layers=[*own])
    weights = analysis.attention_weights(backbone, analysis.sample_of(inputs))
    script.draw(analysis.plot_heads(weights), f"figures_4_5_translator_{name}")
if after:
    script.draw(analysis.plot_histograms(before), "figure_2_before_training")
    script.draw(analysis.plot_histograms(after), "figure_3_after_training")

"""
## Language models

Figures 6 and 7: does attention by position alone learn a local window? Models
of words have these in a file of their own; others have byte pairs.
"""

for name, preset in script.named(settings.language_models).items():
    file = pathlib.Path(preset, "vocabulary.txt")
    with script.errors():
        test = datasets.load_wikitext2(settings.data)[2]
        model = models.SynthesizerCausalLM.from_preset(preset)
    length = model.backbone.max_sequence_length
    number = SAMPLES * length + 1
    if file.exists():
        words = file.read_text("utf-8").split("\n")
        ids = keras_synth.vocabulary.WordVocabulary(words).encode(test[:number])
    else:
        text = " ".join(test[:number]).replace(" <eos>", "\n")
        ids = keras.ops.convert_to_numpy(model.preprocessor.tokenizer(text))
    windows = batches.TokenWindows(ids[:number], length, 32, shuffle=False)
    found[name] = analysis.attention_statistics(model, windows)
    averages = {k: own.averages() for k, own in found[name].items()}
    script.draw(analysis.plot_heads(averages), f"figures_6_7_averages_{name}")
if settings.language_models:
    picture = analysis.plot_distance_profile(found, reach=REACH)
    script.draw(picture, "figures_6_7_distance_profile")

"""
## All heads of an encoder

What they do in one sentence, and how much of that depends on the sentence.
"""

if preset := settings.encoder:
    file = pathlib.Path(preset, "tokenizer.json")
    with script.errors():
        backbone = keras_hub.models.Backbone.from_preset(preset)
        if file.exists() and not file.with_name("assets").exists():
            ids = json.loads(file.read_text("utf-8"))["model"]["vocab"]
            words = sorted(ids, key=ids.get)
            tokenizer = keras_hub.models.BertTokenizer(words, lowercase=True)
        else:
            tokenizer = keras_hub.models.BertTokenizer.from_preset(preset)
    make = keras_hub.models.BertTextClassifierPreprocessor
    texts = [SENTENCE, *datasets.generated_reviews(SAMPLES)[0]]
    inputs = make(tokenizer, sequence_length=32)(texts)
    one = analysis.sample_of(inputs)
    tokens = [tokenizer.id_to_token(int(i)) for i in one["token_ids"][0]]
    weights = analysis.attention_weights(backbone, one)
    script.draw(analysis.plot_heads(weights), "encoder_heads")
    first = next(iter(weights.values()))[0]
    picture = analysis.plot_attention(first, tokens, heads=range(4))
    script.draw(picture, "encoder_sentence")
    found["encoder"] = analysis.attention_statistics(backbone, inputs)
    picture = analysis.plot_input_dependence(found["encoder"])
    script.draw(picture, "encoder_input_dependence")

"""
## What to look for

Where weights depend on the input least, a table can take their place: see
`keras_synth.surgery.synthesize`. `docs/analysis.md` reads the pictures.
"""

reporting.print_attention(found, WINDOW)
print(f"The pictures are in {settings.output}/")
