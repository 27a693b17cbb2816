"""A function for each published data set, beside `load`, which reads any.

All of them take a `path`, a string or path-like. Files are plain or `.gz`; in
the place of a folder, the one that contains it under its published name will
do. They return a tuple of splits, as `load` says, and raise a
`FileNotFoundError` where a file is missing and a `ValueError` where one is
empty, damaged, not UTF-8 or not as published, or an argument is out of range.

Where a set has no official split, a fraction, in (0, 1), is the share of what
is held out, and the same `seed`, an integer that is not negative, gives the
same split. Figures compare only where fractions and seed agree.
"""

from typing import Any

from keras_synth.datasets.published import DATASETS, find, load
from keras_synth.types import FilePath


def load_imdb(path: FilePath) -> tuple[Any, ...]:
    """Reads the Large Movie Review Dataset (IMDB), all labelled reviews.

    Reviews come sorted by class name, negative ones first, then by their
    numeric id; the folder and the archive give the same lists. Each `<br />`
    tag becomes a space. Unlabelled reviews and all other files are skipped.

    Args:
        path: The extracted folder `aclImdb`, or the archive, `.tar` or
            `.tar.gz`, which is read once, in memory; nothing is written.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, labels 0
        negative, 1 positive.

    Raises:
        ValueError: A part such as `train/pos` is missing or empty.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_imdb("aclImdb_v1.tar.gz")
    len(texts), labels.mean()  # 25000, 0.5
    ```

    References:
        - [Maas et al., 2011](https://aclanthology.org/P11-1015/)
    """
    return load("imdb", path)


def load_ag_news(path: FilePath) -> tuple[Any, ...]:
    r"""Reads AG's News, titles and descriptions with one of four topics.

    A text is the title, a space and the description. In all texts the traces
    of web pages are mended: ` #39;`, ` quot;` and `&lt;` are the characters
    they stand for, tags are gone, `\$` is `$`. Any other backslash (a
    lost line break), full stops between spaces and any run of spaces are one
    space.

    Where `train.csv` is missing, the training set is put together from
    published samples of it, as far as they are there: those of NoisyAG-News
    (`train_part_noisyag_*`, with the true class, `gt`), of ALPS
    (`train_part_alps_*`, descriptions only) and one of "title description"
    and class 0 to 3 (`train_part_<number>*`). They overlap: a text is left out
    if an earlier one, or one of the test set, equals it or ends with it, all
    but letters and digits aside. Results do not compare with published ones,
    which come from all 120,000 examples.

    Args:
        path: The folder `ag_news_csv` with `test.csv` and `train.csv`, or with
            the samples.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, always in the
        same order, labels 0 World, 1 Sports, 2 Business, 3 Sci/Tech.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_ag_news("ag_news_csv")
    len(texts), len(test_texts)  # 120000, 7600
    ```

    References:
        - [Zhang et al., 2015](https://arxiv.org/abs/1509.01626)
        - NoisyAG-News: [Huang et al., 2024](https://arxiv.org/abs/2407.06579)
        - ALPS: [Yuan et al., 2020](https://aclanthology.org/2020.emnlp-main.637/)
    """
    return load("ag_news", path)


def load_rt_polarity(
    path: FilePath, test_fraction: float = 0.1, seed: int = 0
) -> tuple[Any, ...]:
    """Reads the sentence polarity data set, "MR", and splits it.

    One lower-cased, tokenized sentence of a review each. Many of them are in
    SST-2, too: do not train on the one and test on the other.

    Args:
        path: The folder with `rt-polarity.neg` and `rt-polarity.pos`, in UTF-8
            or, as originally published, in windows-1252.
        test_fraction: Float, the share of the test sentences.
        seed: Integer, of the split; there is no official one.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, both
        shuffled, copies of a sentence on one side, labels 0 negative, 1
        positive.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_rt_polarity("rt_polarity")
    len(texts), len(test_texts)  # 9596, 1066
    ```

    References:
        - [Pang and Lee, 2005](https://aclanthology.org/P05-1015/)
    """
    return load("rt_polarity", path, test_fraction=test_fraction, seed=seed)


def load_glue(path: FilePath, task: str) -> tuple[Any, ...]:
    """Reads the training and the development set of a task of GLUE.

    | task | texts | label 0 | label 1 |
    |---|---|---|---|
    | CoLA | sentences | unacceptable | acceptable |
    | SST-2 | phrases (training), sentences | negative | positive |
    | RTE | pairs | entailment | not_entailment |
    | MRPC | pairs | not_equivalent | equivalent |
    | WNLI | pairs | not_entailment | entailment |
    | STS-B | pairs | scores from 0, unrelated, to 5, equivalent | |

    The test sets of GLUE have no labels; what is usually reported is the
    result on the development set. That goes for STS-B, too, although its
    original test file, `sts-test.tsv`, is public: it is not read.

    In WNLI, 65 of the 71 sentences to develop on are in the training set, too,
    54 of them with the other label alone: what learns them by heart falls
    below chance, and always saying 0 gives 56.3%.

    Args:
        path: The folder of the task, with `train.tsv` and `dev.tsv`, or the
            one that contains it.
        task: String, "CoLA", "SST-2", "RTE", "MRPC", "STS-B" or "WNLI", in
            any case, with or without hyphen.

    Returns:
        `(train_texts, train_labels), (dev_texts, dev_labels)`, labels int32,
        those of STS-B float32.

    Raises:
        ValueError: The task is unknown.

    Example:

    ```python
    train, dev = load_glue("glue_data", "RTE")
    (premises, hypotheses), labels = train
    ```

    References:
        - [Wang et al., 2018](https://arxiv.org/abs/1804.07461)
    """
    tasks = [x for x in DATASETS if DATASETS[x].loader == "load_glue"]
    if find(task, tasks) is None:
        raise ValueError(
            f"task must be one of {', '.join(tasks)}. Received: {task!r}. "
            "Other tables can be read with load_csv."
        )
    return load(task, path)


def load_scitail(path: FilePath) -> tuple[Any, ...]:
    """Reads SciTail, sentences of the web and answers to science questions.

    `train.tsv` and `dev.tsv` are tables without quoting, `test.csv` is one
    with; all have the columns premise, hypothesis and label. Classes are
    called "entails" and "neutral", "entailment" and "not_entailment", or 1 and
    0, whichever a row has. Copies without a header, or with other names of
    files, can be read with `load_csv`.

    Many premises share a hypothesis: to hold out more of the training set,
    split it by hypothesis. Ten of its pairs are in the test set, too.

    Args:
        path: The folder with the three files.

    Returns:
        `train, validation, test`, each `((premises, hypotheses), labels)`, in
        the published order, labels 0 entails, 1 neutral.

    Raises:
        ValueError: A label is none of these.

    Example:

    ```python
    train, validation, test = load_scitail("scitail")
    (premises, hypotheses), labels = train
    len(labels)  # 23596
    ```

    References:
        - [Khot et al., 2018](https://doi.org/10.1609/aaai.v32i1.12022)
    """
    return load("scitail", path)


def load_multi30k(
    path: FilePath, source: str = "en", target: str = "de"
) -> tuple[Any, ...]:
    """Reads Multi30K, captions of pictures with professional translations.

    Args:
        path: The folder with `train.*`, `val.*` and `test_2016_flickr.*`,
            where `*` is a language, `data/task1/raw` of the published set.
        source: String, the language to translate from.
        target: String, the language to translate to.

    Returns:
        `train, validation, test`, each `(sources, targets)`, in the published
        order.

    Raises:
        ValueError: The languages are the same, or there is no file of one.

    Example:

    ```python
    train, validation, test = load_multi30k("multi30k", "en", "fr")
    sources, targets = train
    len(sources)  # 29000
    ```

    References:
        - [Elliott et al., 2016](https://aclanthology.org/W16-3210/)
    """
    return load("multi30k", path, source=source, target=target)


def load_tatoeba(
    path: FilePath,
    validation_fraction: float = 0.02,
    test_fraction: float = 0.02,
    seed: int = 0,
) -> tuple[Any, ...]:
    """Reads sentence pairs of Tatoeba, as selected by manythings.org.

    All translations of an English sentence are on one side of the split. The
    other way round this does not hold: one in nine German sentences to test
    on translates another English one in training, too. To translate into
    English, swap the two lists, and leave those out of the test.

    Args:
        path: The file, of any language, or the folder with `deu.txt`.
        validation_fraction: Float, the share of the distinct English sentences
            to validate on.
        test_fraction: Float, the share of those to test on.
        seed: Integer, of the split; there is no official one.

    Returns:
        `train, validation, test`, each `(sources, targets)`, shuffled; pairs
        that occur twice are there once.

    Example:

    ```python
    train, validation, test = load_tatoeba("deu.txt")
    sources, targets = train
    targets, sources = train  # from German to English
    ```

    References:
        - [Tatoeba](https://tatoeba.org) and
          [manythings.org/anki](https://www.manythings.org/anki), CC BY 2.0:
          whoever passes the sentences on has to name both.
    """
    return load(
        "tatoeba",
        path,
        validation_fraction=validation_fraction,
        test_fraction=test_fraction,
        seed=seed,
    )


def load_dialogsum(
    path: FilePath, validation_fraction: float | None = None
) -> tuple[Any, ...]:
    r"""Reads DialogSum, spoken dialogues with summaries.

    A dialogue has a turn per line, `#Person1#: ` and what is said.

    The training set is `dialogsum.train.jsonl` if the folder holds it, as
    published. **If not, the 500 dialogues of `dialogsum.dev.jsonl` take its
    place**, and results do not compare with published ones.

    Args:
        path: The folder `DialogSum_Data` with `dialogsum.test.jsonl` and at
            least one of the two others.
        validation_fraction: `None`, or a float: then there is a split to
            validate on, too, `dialogsum.dev.jsonl` as published, or this share
            of the dialogues where that file is trained on or missing.

    Returns:
        `(dialogues, summaries), (test_dialogues, references)`, in the order
        of the files, or `train, validation, test` of the same form. Each of
        `references` is a list of three summaries, by different people.

    Example:

    ```python
    (dialogues, summaries), (test_dialogues, references) = load_dialogsum(
        "DialogSum_Data"
    )
    len(test_dialogues), len(references[0])  # 500, 3
    ```

    References:
        - [Chen et al., 2021](https://aclanthology.org/2021.findings-acl.449/)
    """
    return load("dialogsum", path, validation_fraction=validation_fraction)


def load_personachat(
    path: FilePath,
    test_fraction: float = 0.1,
    seed: int = 0,
    turns: int = 2,
    validation_fraction: float | None = None,
) -> tuple[Any, ...]:
    """Reads Persona-Chat, small talk of people who play a role, and splits it.

    A context is what the one who replies knows, joined by `" | "`: the four
    or five sentences of the own persona, then the last utterances, oldest
    first. The last one is always the partner's.

    All of a dialogue is on one side of the split, but a persona may be on
    both, as many have several dialogues.

    Args:
        path: A file in the text format of ParlAI, or the folder with
            `valid_self_original_no_cands.txt`. Candidate replies are ignored.
        test_fraction: Float, the share of the test dialogues.
        seed: Integer, of the split; there is no official one.
        turns: Integer, the number of utterances of a context, fewer only at
            the start of a dialogue.
        validation_fraction: Float, the share of the dialogues to validate on,
            or `None`. Those to test on are the same.

    Returns:
        `train, test`, or `train, validation, test`, each `(contexts,
        replies)`, shuffled.

    Example:

    ```python
    train, test = load_personachat("convai2", turns=1)
    contexts, replies = train
    ```

    References:
        - [Zhang et al., 2018](https://arxiv.org/abs/1801.07243)
        - [Dinan et al., 2019](https://arxiv.org/abs/1902.00098)
    """
    return load(
        "personachat",
        path,
        test_fraction=test_fraction,
        seed=seed,
        turns=turns,
        validation_fraction=validation_fraction,
    )


def load_wikitext2(path: FilePath) -> tuple[Any, ...]:
    """Reads WikiText-2, articles of Wikipedia with rare words as `<unk>`.

    Tokens are what stands between spaces, and `"<eos>"` for each end of a
    line, of an empty one, too. So published perplexities count: 2,088,628,
    217,646 and 245,569 tokens, of 33,278 different ones.

    Args:
        path: The folder `wikitext-2` with `wiki.train.tokens`,
            `wiki.valid.tokens` and `wiki.test.tokens`.

    Returns:
        `train, validation, test`, three lists of strings, one per token.

    Example:

    ```python
    train, validation, test = load_wikitext2("wikitext-2")
    train[:5]  # ["<eos>", "=", "Valkyria", "Chronicles", "III"]
    ```

    References:
        - [Merity et al., 2016](https://arxiv.org/abs/1609.07843)
    """
    return load("wikitext2", path)


def load_ud_ewt(path: FilePath) -> tuple[Any, ...]:
    """Reads UD English EWT, words of web texts with their parts of speech.

    Words are those of the syntax: "don't" is "do" and "n't". Figures depend on
    the release, since the treebank is corrected with each of them.

    Args:
        path: The folder `UD_English-EWT` with `en_ewt-ud-train.conllu`,
            `en_ewt-ud-dev.conllu` and `en_ewt-ud-test.conllu`.

    Returns:
        `train, validation, test`, each `(sentences, labels)`, two lists of
        lists of strings. `CLASS_NAMES["ud_ewt"]` are the 17 labels.

    Raises:
        ValueError: A line has not ten fields, or an unknown part of speech.

    Example:

    ```python
    (sentences, labels), validation, test = load_ud_ewt("UD_English-EWT")
    sentences[0][:3], labels[0][:3]  # ["Al", "-", "Zaman"], ["PROPN", ...]
    ```

    References:
        - [Silveira et al., 2014](https://aclanthology.org/L14-1067/)
    """
    return load("ud_ewt", path)


def load_tinyshakespeare(path: FilePath) -> tuple[Any, ...]:
    """Reads Tiny Shakespeare, plays of Shakespeare as one text of 1.1 MB.

    The split is the usual one by position: the first 90 % of the characters,
    the next 5 %, the last 5 %.

    Args:
        path: The file, or the folder with `input.txt`.

    Returns:
        `train, validation, test`, three strings; joined, they are the file.

    Raises:
        ValueError: The file is too short to split.

    Example:

    ```python
    train, validation, test = load_tinyshakespeare("tinyshakespeare")
    len(train), len(validation), len(test)  # 1003854, 55770, 55770
    ```

    References:
        - [Karpathy, 2015](https://karpathy.github.io/2015/05/21/rnn-effectiveness/)
    """
    return load("tinyshakespeare", path)
