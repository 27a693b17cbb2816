"""Tasks with classes or numbers for texts, pairs or words."""

import keras
import numpy as np

from keras_synth import datasets
from keras_synth.compare import data
from keras_synth.compare.task import Score, Task, learn_tokenizer


class Classification(Task):
    """Texts or pairs of texts, and their classes.

    Two columns of texts are required for `pairs`, and otherwise joined.
    """

    own = "vocabulary_size lengths keep pooling weight_decay init init_weights"
    model = "SynthesizerTextClassifier"
    head = ("dropout", "pooling")

    def __init__(self, name, kind="word_pieces", pairs=False, **options):
        super().__init__(name, **options)
        self.kind, self.pairs = kind, pairs
        if kind != "word_pieces":
            del self.defaults["vocabulary_size"]

    def score(self, settings):
        metric = settings.get("metric", "accuracy")
        names = {"matthews": "Matthews correlation", "f1": "F1"}
        unit = "" if metric in names else "%"
        return Score(names.get(metric, metric), 100, unit=unit)

    def examples(self, settings, source):
        """Returns splits of texts and numbers, and names of classes."""
        splits = data.examples(self, settings, source)
        texts, labels = zip(*splits, strict=True)
        texts = [self.columns(x) for x in texts]
        if source.data:
            labels, names = numbered(labels)
        else:
            names = [*datasets.CLASS_NAMES[self.generator.__name__]]
        return list(zip(texts, labels, strict=True)), names

    def columns(self, texts):
        """Returns texts in the form for this task."""
        number = len(texts) if isinstance(texts, tuple) else 1
        if self.pairs and number != 2:
            raise ValueError(
                f"Pairs need two columns of texts. Received: {number} in --text"
            )
        if isinstance(texts, tuple) and not self.pairs:
            texts = [" ".join(row) for row in zip(*texts, strict=True)]
        if self.kind == "words":  # published ListOps also has parentheses
            texts = [x.replace("( ", "").replace(" )", "") for x in texts]
        return texts

    def prepare(self, settings, source, log):
        splits, names = self.examples(settings, source)
        (texts, labels), _, (_, references) = splits
        pairs = isinstance(texts, tuple)
        known = [*texts[0], *texts[1]] if pairs else texts
        notes = {
            "class_names": names,
            "pairs": pairs,
            "baseline": self.baseline(labels, references, settings),
        }
        notes |= learn_tokenizer(self.kind, known, settings, log)
        preprocessor = self.preprocessor(settings, notes)
        return data.tokenized(preprocessor, splits, log), notes

    def baseline(self, labels, references, settings):
        """Returns the score of a model that sees only labels, and its name."""
        if settings.get("metric") == "f1" and max(labels) > 1:
            raise ValueError(
                "--metric f1 needs two classes. Use accuracy or matthews. "
                f"Received: {max(labels) + 1} classes"
            )
        return most_frequent(labels, references, settings.get("metric"))

    def preprocessor(self, settings, notes):
        return super().preprocessor(
            settings,
            notes,
            keep=settings["keep"],
            with_segments=notes["pairs"],
        )

    def use(self, notes):
        if notes["pairs"]:
            return 'print(model.predict((["a text"], ["another text"])))'
        return 'print(model.predict(["a text"]))'

    def test(self, model, batches, arrays, settings):
        figures = super().test(model, batches, arrays, settings)
        metric = settings.get("metric", "accuracy")
        if metric != "accuracy":
            labels, logits = predicted(model, batches)
            figures["score"] = figure(metric, labels, logits.argmax(axis=1))
        return figures


class Scores(Classification):
    """Texts or pairs of texts, and a number for each."""

    validation = "loss"

    def score(self, settings):
        return Score("Pearson correlation", 100)

    def examples(self, settings, source):
        splits = data.examples(self, settings, source)
        if any(np.asarray(y).dtype.kind not in "fiu" for _, y in splits):
            raise ValueError("All labels must be numbers. Received: strings")
        return [(x, np.asarray(y, "float32")) for x, y in splits], []

    def baseline(self, labels, references, settings):
        return {"name": "the mean", "score": 0.0}

    def loss(self, settings):
        return "mean_squared_error"

    def test(self, model, batches, arrays, settings):
        from scipy import stats

        labels, found = predicted(model, batches)
        found = found[:, 0]
        if not np.ptp(found) or not np.ptp(labels):  # no correlation
            return {"score": 0.0, "spearman": 0.0}
        return {
            "score": float(stats.pearsonr(labels, found)[0]),
            "spearman": float(stats.spearmanr(labels, found)[0]),
        }


class Tagging(Task):
    """Words and their classes.

    Training and test ignore words beyond `sequence_length` word pieces.
    """

    own = "vocabulary_size lengths weight_decay init init_weights"
    model = "SynthesizerTokenClassifier"
    head = ("dropout",)

    def score(self, settings):
        return Score("accuracy over words", 100, unit="%")

    def prepare(self, settings, source, log):
        splits = data.examples(self, settings, source)
        for texts, tags in splits:
            for part in (texts, tags):
                if not isinstance(part, list) or isinstance(part[0], str):
                    raise ValueError(
                        "The task tagging needs sentences of words and their "
                        f"tags (.conllu). Received: {part[0]!r:.60}"
                    )
        found, names = numbered(
            [[tag for row in y for tag in row] for _, y in splits]
        )
        texts = [" ".join(words) for words in splits[0][0]]
        notes = learn_tokenizer("word_pieces", texts, settings, log)
        baseline = most_frequent(found[0], found[2])
        notes |= {"class_names": names, "baseline": baseline}
        for i, (sentences, tags) in enumerate(splits):
            ends = np.cumsum([len(row) for row in tags])[:-1]
            ids = [x.tolist() for x in np.split(found[i], ends)]
            splits[i] = sentences, ids
        preprocessor = self.preprocessor(settings, notes)
        arrays = data.tokenized(preprocessor, splits, log)
        scored = int(arrays[2]["sample_weight"].sum())
        log(f"{scored:,} of {len(found[2]):,} words to test on fit")
        return arrays, notes

    def use(self, notes):
        return 'print(model.tag([["a", "sentence"]]))'


def figure(metric, labels, predictions):
    """Returns a score from scikit-learn, or the accuracy."""
    if metric in (None, "accuracy"):
        return float(np.mean(labels == predictions))
    from sklearn import metrics

    scores = {"matthews": metrics.matthews_corrcoef, "f1": metrics.f1_score}
    return float(scores[metric](labels, predictions))


def most_frequent(labels, references, metric=None):
    """Returns the baseline that predicts the most frequent label."""
    value = int(np.bincount(labels).argmax())
    score = figure(metric, references, np.full(len(references), value))
    return {"name": "the majority", "score": score}


def predicted(model, batches):
    """Returns labels and logits, in the order of the batches."""
    labels = [batches[i][1] for i in range(len(batches))]
    logits = keras.Model.predict(model, batches, verbose=0)
    return np.concatenate(labels), logits


def numbered(splits):
    """Returns labels as int32 arrays, and the sorted names of classes."""
    splits = [*map(np.asarray, splits)]
    if any(labels.dtype.kind not in "biuf" for labels in splits):
        # With one other label, a column of numbers is one of strings.
        splits = [labels.astype(str) for labels in splits]
    names = np.unique(splits[0])
    hint = ""
    if names.dtype.kind == "f":
        hint = " For numbers instead of classes, pass --task scores."
    if len(names) < 2:
        raise ValueError(
            "The training examples must have at least two classes. Received: "
            f"only {names.tolist()}"
        )
    found = []
    for labels in splits:
        places = np.searchsorted(names, labels).clip(max=len(names) - 1)
        unknown = labels[names[places] != labels]
        if len(unknown):
            raise ValueError(
                "All labels must occur in the training examples: "
                f"{names[:20].tolist()}.{hint} Received: {unknown[0].item()!r}"
            )
        found.append(places.astype("int32"))
    return found, list(map(str, names.tolist()))
