"""Tasks with classes or numbers: of texts, of pairs, of words."""

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth import datasets
from keras_synth.compare import data
from keras_synth.compare.task import (
    ACCURACY,
    Score,
    Task,
    backbone,
    learn_tokenizer,
    length_buckets,
    majority,
    optimizer,
    tokenizer_notes,
    tokenizer_of,
)


class Classification(Task):
    """Texts, or pairs of them, and their classes.

    Args:
        kind: String, how texts are split into tokens.
        **options: As for `Task`.
    """

    def __init__(self, name, kind="word_pieces", **options):
        own = "lengths keep pooling weight_decay init init_weights "
        own += "metric " if kind == "word_pieces" else ""
        own += "vocabulary_size" if kind == "word_pieces" else ""
        super().__init__(name, own, **options)
        self.kind = kind

    def score(self, settings):
        metric = settings.get("metric", "accuracy")
        names = {"matthews": "Matthews correlation", "f1": "F1"}
        return ACCURACY if metric == "accuracy" else Score(names[metric], 100)

    def read(self, settings, source):
        """Returns the splits, and the names of classes."""
        count = settings["examples"]
        if not source.data:
            if self.generator is datasets.generated_listops:
                splits = data.distinct(
                    self.generator(
                        4_000 + (count or data.GENERATED),
                        max_length=settings["sequence_length"] - 2,
                    ),
                    2_000,
                )
            else:
                splits = data.generated(self.generator, count)
            return splits, list(datasets.CLASS_NAMES[self.generator.__name__])
        splits = data.labelled_splits(source, count)
        texts, labels = zip(*splits, strict=True)
        found, names = numbered(labels)
        return list(zip(texts, found, strict=True)), names

    def texts(self, texts):
        """Texts as this task reads them: two columns are one text."""
        if isinstance(texts, tuple):
            texts = [" ".join(row) for row in zip(*texts, strict=True)]
        if self.kind == "words":  # published ListOps has parentheses, too
            texts = [x.replace("( ", "").replace(" )", "") for x in texts]
        return texts

    def prepare(self, settings, source, log):
        splits, names = self.read(settings, source)
        splits = [(self.texts(x), y) for x, y in splits]
        train, _, test = splits
        every = train[0]
        if isinstance(every, tuple):
            every = [*every[0], *every[1]]
        tokenizer = learn_tokenizer(self.kind, every, settings, log)
        notes = tokenizer_notes(self.kind, tokenizer)
        notes |= {"class_names": names, "pairs": isinstance(train[0], tuple)}
        notes["baseline"] = self.baseline(train[1], test[1], settings)
        preprocessor = self.preprocessor(settings, notes)
        log(f"Tokenizing {sum(len(y) for _, y in splits):,} examples")
        arrays = []
        for texts, labels in splits:
            features, labels = data.in_batches(preprocessor, texts, labels)
            arrays.append({**features, "labels": labels})
        return arrays, notes

    def baseline(self, train, test, settings):
        """The score of a model that knows the labels only."""
        if self.score(settings) is ACCURACY:
            return majority(train, test)
        value = int(np.bincount(train).argmax())
        score = figures_of(settings["metric"], test, np.full(len(test), value))
        return {"name": "the majority", "score": score}

    def preprocessor(self, settings, notes):
        return keras_synth.models.SynthesizerTextClassifierPreprocessor(
            tokenizer_of(notes),
            sequence_length=settings["sequence_length"],
            keep=settings["keep"],
            with_segments=notes["pairs"],
        )

    def batches(self, arrays, settings, seed):
        return length_buckets(arrays, settings, seed)

    def build(self, variant, seed, settings, notes, steps):
        import keras

        models, names = keras_synth.models, notes["class_names"]
        encoder = backbone(
            models.SynthesizerBackbone,
            variant,
            seed,
            settings,
            notes,
            num_segments=2 if notes["pairs"] else 0,
        )
        classifier = models.SynthesizerTextClassifier(
            encoder,
            num_classes=len(names) or 1,
            class_names=names or None,
            dropout=settings["dropout"],
            pooling=settings["pooling"],
        )
        losses = keras.losses
        classifier.compile(
            optimizer=optimizer(settings, steps),
            loss=losses.SparseCategoricalCrossentropy(from_logits=True)
            if names
            else losses.MeanSquaredError(),
            metrics=["accuracy"] if names else [],
        )
        return classifier

    def test(self, model, batches, arrays, settings):
        import keras

        figures = super().test(model, batches, arrays, settings)
        metric = settings.get("metric", "accuracy")
        if metric != "accuracy":
            logits = keras.Model.predict(model, batches, verbose=0)
            labels = np.concatenate([y for _, y in _all(batches)])
            figures["accuracy"] = figures["score"]
            figures["score"] = figures_of(metric, labels, logits.argmax(axis=1))
        return figures


def figures_of(metric, labels, predictions):
    """A score of scikit-learn's."""
    from sklearn import metrics

    scores = {"matthews": metrics.matthews_corrcoef, "f1": metrics.f1_score}
    return float(scores[metric](labels, predictions))


def _all(batches):
    return (batches[i] for i in range(len(batches)))


def numbered(splits):
    """Labels as integers, and the names of classes.

    Args:
        splits: List of lists or arrays of labels, the first to train on.

    Returns:
        List of int32 arrays, and a list of strings, sorted.
    """
    names = np.unique(np.asarray(splits[0]))
    found = []
    for labels in map(np.asarray, splits):
        places = np.searchsorted(names, labels).clip(max=len(names) - 1)
        unknown = labels[names[places] != labels]
        if len(unknown):
            raise ValueError(
                "All labels must occur in the examples to train on: "
                f"{names[:20].tolist()}. Received: {unknown[0]!r}"
            )
        found.append(places.astype("int32"))
    return found, list(map(str, names.tolist()))


class Pairs(Classification):
    """Pairs of texts and their classes."""

    def texts(self, texts):
        if not isinstance(texts, tuple):
            raise ValueError(
                "Pairs need two columns of texts. Received: one, in --text"
            )
        return texts


class Scores(Pairs):
    """Pairs of texts, or texts, and a number for each."""

    validation = "loss"

    def __init__(self, name, **options):
        super().__init__(name, **options)
        del self.defaults["metric"]

    def score(self, settings):
        return Score("Pearson correlation", 100)

    def texts(self, texts):
        return texts

    def read(self, settings, source):
        splits = data.labelled_splits(source, settings["examples"])
        if any(np.asarray(y).dtype.kind not in "fiu" for _, y in splits):
            raise ValueError("All labels must be numbers. Received: texts")
        return [(x, np.asarray(y, "float32")) for x, y in splits], []

    def baseline(self, train, test, settings):
        return {"name": "the mean", "score": 0.0}

    def test(self, model, batches, arrays, settings):
        import keras
        from scipy import stats

        found = keras.Model.predict(model, batches, verbose=0)[:, 0]
        labels = np.concatenate([y for _, y in _all(batches)])
        if not np.ptp(found):  # there is no correlation with a constant
            return {"score": 0.0, "spearman": 0.0}
        return {
            "score": float(stats.pearsonr(labels, found)[0]),
            "spearman": float(stats.spearmanr(labels, found)[0]),
        }


class Tagging(Task):
    """Words and their classes.

    Words beyond `sequence_length` word pieces are neither trained nor tested
    on.
    """

    generator = staticmethod(datasets.generated_entities)

    def score(self, settings):
        return Score("accuracy over words", 100, unit="%")

    def prepare(self, settings, source, log):
        if source.data:
            splits = data.labelled_splits(source, settings["examples"])
        else:
            splits = data.generated(self.generator, settings["examples"])
        flat = [[tag for row in y for tag in row] for _, y in splits]
        found, names = numbered(flat)
        train, _, test = found
        tokenizer = learn_tokenizer(
            "word_pieces", [" ".join(x) for x in splits[0][0]], settings, log
        )
        notes = tokenizer_notes("word_pieces", tokenizer)
        notes |= {"class_names": names, "baseline": majority(train, test)}
        preprocessor = self.preprocessor(settings, notes)
        arrays = []
        for (sentences, tags), ids in zip(splits, found, strict=True):
            ends = np.cumsum([len(row) for row in tags])[:-1]
            ids = [x.tolist() for x in np.split(ids, ends)]
            features, y, weight = data.in_batches(preprocessor, sentences, ids)
            arrays.append({**features, "labels": y, "sample_weight": weight})
        scored = int(arrays[2]["sample_weight"].sum())
        log(f"{scored:,} of {len(test):,} words to test on fit")
        return arrays, notes

    def preprocessor(self, settings, notes):
        return keras_synth.models.SynthesizerTokenClassifierPreprocessor(
            tokenizer_of(notes), settings["sequence_length"]
        )

    def batches(self, arrays, settings, seed):
        return length_buckets(arrays, settings, seed, settings["batch_size"])

    def build(self, variant, seed, settings, notes, steps):
        import keras

        models = keras_synth.models
        tagger = models.SynthesizerTokenClassifier(
            backbone(
                models.SynthesizerBackbone, variant, seed, settings, notes
            ),
            num_classes=len(notes["class_names"]),
            class_names=notes["class_names"],
            dropout=settings["dropout"],
        )
        tagger.compile(
            optimizer=optimizer(settings, steps),
            loss=keras_synth.training.LabelSmoothedCrossentropy(),
            weighted_metrics=[
                keras.metrics.SparseCategoricalAccuracy(name="accuracy")
            ],
        )
        return tagger
