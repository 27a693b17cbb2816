"""Trains every synthesizer and mixer on three questions, for the gallery.

    python docs/draw_gallery.py          # what is new in ENTRIES
    python docs/draw_gallery.py --again  # everything, in half an hour
    python docs/draw_gallery.py --pages  # the pages alone, of what was trained

The questions are those of the tutorial First steps: 16 tokens have a key and a
value each, and the model says another token's value. `docs/gallery/` gets a
picture of a pixel for each pair of tokens, which pages enlarge, and
`trained.json` with the accuracies. Between two marks, index.md and gallery.md
show them.
"""

import argparse
import json
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent
FOLDER = DOCS / "gallery"
LENGTH, KEYS, VALUES = 16, 8, 10
QUESTIONS = ("mirror", "pointer", "partner")
EPOCHS = 2
# Group -> name and the page that describes it.
ENTRIES = {
    "Synthesizers": {
        "V": "synthesizers/dot_product",
        "D": "synthesizers/dense",
        "FD": "synthesizers/dense",
        "R": "synthesizers/random",
        "FR": "synthesizers/random",
        "Fix": "synthesizers/random",
        "R+V": "synthesizers/mixtures",
        "D+V": "synthesizers/mixtures",
        "R+D": "synthesizers/mixtures",
        "relative": "synthesizers/distances",
        "alibi + V": "synthesizers/distances",
        "t5_relative + V": "synthesizers/distances",
        "gaussian": "synthesizers/hand_made",
        "additive": "mixers/pairs",
        "local_dense(window=3)": "synthesizers/dense",
    },
    "Patterns and normalizers": {
        "attention(V, pattern='local(window=3)')": "attention",
        "attention(V, pattern='stride(stride=4)')": "attention",
        "attention(V, pattern='blocks(number=1, block_size=4)')": "attention",
        "attention(V, normalizer='relu')": "attention",
        "attention(V, normalizer='sigmoid')": "attention",
        "attention(V, normalizer='softmax1')": "attention",
    },
    "Mixers": {
        "local(window=3)": "mixers/sparse",
        "strided(stride=4)": "mixers/sparse",
        "longformer(window=2)": "mixers/sparse",
        "big_bird(block_size=2)": "mixers/sparse",
        "linformer(rank=8)": "mixers/linformer",
        "linear": "mixers/kernels",
        "performer": "mixers/kernels",
        "relu": "mixers/pairs",
        "light_conv(width=7)": "mixers/convolutions",
        "dynamic_conv(width=7)": "mixers/convolutions",
        "mlp_mixer": "mixers/mlp",
        "gmlp": "mixers/mlp",
        "fnet": "mixers/fnet",
        "pooling(size=3)": "mixers/pooling",
        "compressed(stride=2)": "mixers/compressed",
        "reformer(bucket_size=4)": "mixers/learned_patterns",
        "routing(clusters=4)": "mixers/learned_patterns",
        "sinkhorn(block_size=4)": "mixers/learned_patterns",
    },
}
HOME = ("V", "D", "R", "FR", "R+V")
BEGIN = "<!-- made by docs/draw_gallery.py from docs/gallery/trained.json -->"
END = "<!-- end of what docs/draw_gallery.py made -->"


def make_data(count, rng):
    """Tokens and, for each question, answers: see the tutorial First steps."""
    import numpy as np

    twice = np.tile(np.repeat(np.arange(KEYS), 2), (count, 1))
    keys = rng.permuted(twice, axis=1)
    values = rng.integers(VALUES, size=(count, LENGTH))
    same = keys[:, :, None] == keys[:, None, :]
    places = {
        "mirror": np.broadcast_to(np.arange(LENGTH)[::-1], keys.shape),
        "pointer": keys,
        "partner": np.argmax(same & ~np.eye(LENGTH, dtype=bool), axis=-1),
    }
    answers = {
        question: np.take_along_axis(values, place, axis=1)
        for question, place in places.items()
    }
    return 10 * keys + values, answers


def train(name, tokens, answers, tests, expected):
    """The accuracy of one mixer on one question, and its matrix `(T, T)`."""
    import keras

    from keras_synth import mixers

    keras.utils.set_random_seed(1)
    mixer = mixers.get(name, num_heads=1, key_dim=32, max_length=LENGTH)
    inputs = keras.Input((LENGTH,), dtype="int32")
    embedded = keras.layers.Embedding(KEYS * VALUES, 32)(inputs)
    x = keras.layers.LayerNormalization()(embedded + mixer(embedded))
    x = keras.layers.Dense(64, activation="relu")(x)
    outputs = keras.layers.Dense(VALUES, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(tokens, answers, batch_size=64, epochs=EPOCHS, verbose=0)
    _, accuracy = model.evaluate(tests, expected, batch_size=500, verbose=0)
    sample = keras.Model(inputs, embedded)(tests[:1])
    return accuracy, matrix(mixer, keras.ops.convert_to_numpy(sample))


def matrix(mixer, x):
    """Weights of attention or, where there are none, influences."""
    import keras
    import numpy as np

    if getattr(mixer, "supports_attention_scores", False):
        _, weights = mixer(x, return_attention_scores=True)
        return keras.ops.convert_to_numpy(weights)[0, 0]
    tokens = np.arange(LENGTH)
    changed = np.repeat(x, LENGTH, axis=0)
    noise = np.random.default_rng(0).normal(size=x.shape[1:])
    changed[tokens, tokens] += x.std() * noise
    moved = keras.ops.convert_to_numpy(mixer(changed) - mixer(x))
    moved = np.linalg.norm(moved, axis=-1).T  # (outputs, inputs)
    return moved / moved.max()


def slug(name):
    words = re.sub(r"[^\w+]+", "_", name.replace("+", "_plus_"))
    return re.sub("_+", "_", words).strip("_")


def draw(again=False):
    """Trains what is not in trained.json yet."""
    import numpy as np
    from matplotlib import image

    from keras_synth.compare.files import writing

    rng = np.random.default_rng(0)
    tokens, answers = make_data(16_000, rng)
    tests, expected = make_data(1_000, rng)
    known = {} if again else json.loads((FOLDER / "trained.json").read_text())
    trained = {}
    for name in [name for group in ENTRIES.values() for name in group]:
        if name in known:
            trained[name] = known[name]
            continue
        trained[name] = {}
        for question in QUESTIONS:
            accuracy, found = train(
                name, tokens, answers[question], tests, expected[question]
            )
            file = f"{slug(name)}_{question}.png"
            # Square roots show small weights beside large ones.
            with writing(FOLDER / file, "wb") as picture:
                root = np.clip(found, 0, 1) ** 0.5
                image.imsave(picture, root, vmin=0, vmax=1, cmap="viridis")
            trained[name][question] = {
                "accuracy": round(accuracy, 4),
                "file": file,
            }
            print(f"{name:55} {question:8} {accuracy:.0%}", flush=True)
    with writing(FOLDER / "trained.json") as file:
        json.dump(trained, file, indent=1)
        file.write("\n")


def cell(name, question, result):
    percent = f"{result['accuracy']:.0%}"
    return (
        f'<figure><img src="gallery/{result["file"]}" width="16" height="16" '
        f'alt="{name} after training on {question}: {percent}">'
        f"<figcaption>{question} {percent}</figcaption></figure>"
    )


def card(name, page, results):
    cells = "".join(cell(name, *item) for item in results.items())
    return (
        '<div class="matrix-card" markdown="block">\n'
        f"[`{name}`]({page}.md)\n\n"
        f'<div class="matrix-row">{cells}</div>\n</div>'
    )


def gallery(trained):
    """The cards of all entries, by groups."""
    parts = []
    for title, entries in ENTRIES.items():
        cards = [card(k, page, trained[k]) for k, page in entries.items()]
        text = "\n".join(cards)
        box = f'<div class="matrix-cards" markdown="block">\n{text}\n</div>'
        parts += [f"## {title}", box]
    return "\n\n".join(parts)


def home(trained):
    """A row for each question, a column for each of some synthesizers."""
    lines = ['<div class="matrix-grid">', "<span></span>"]
    lines += [f"<b>{name}</b>" for name in HOME]
    for question in QUESTIONS:
        lines.append(f"<b>{question}</b>")
        for name in HOME:
            result = trained[name][question]
            lines.append(
                f'<figure><img src="gallery/{result["file"]}" width="16" '
                f'height="16" alt="{name} on {question}">'
                f"<figcaption>{result['accuracy']:.0%}</figcaption></figure>"
            )
    return "\n".join([*lines, "</div>"])


def pages():
    """Path -> its text, with what is between the marks made anew."""
    trained = json.loads((FOLDER / "trained.json").read_text())
    made = {}
    for name, text in (("index", home(trained)), ("gallery", gallery(trained))):
        path = DOCS / f"{name}.md"
        before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise SystemExit(f"{path} must hold the marks {BEGIN} and {END}.")
        made[path] = f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--pages", action="store_true", help="train nothing; write the pages"
    )
    parser.add_argument(
        "--again", action="store_true", help="train everything anew"
    )
    settings = parser.parse_args()
    if not settings.pages:
        draw(settings.again)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
