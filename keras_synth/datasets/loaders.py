"""A function for each published data set, beside `load`, which reads any."""

from keras_synth.datasets.published import DATASETS, find, load


def load_imdb(path):
    """Reads the Large Movie Review Dataset (IMDB), all labelled reviews.

    Reviews come sorted by class name, negative ones first, then by their
    numeric id; the folder and the archive give the same lists. Each `<br />`
    tag becomes a space. Unlabelled reviews and all other files are skipped.

    Args:
        path: String or path-like: the extracted folder `aclImdb`, a folder
            that contains it, or the archive, `.tar` or `.tar.gz`. The archive
            is read once, in memory; nothing is written to disk.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`. Texts are
        lists of strings, labels int32 arrays: 0 negative, 1 positive.

    Raises:
        ValueError: The archive is damaged, a part such as `train/pos` is
            missing or empty, or a review is not UTF-8.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_imdb("aclImdb_v1.tar.gz")
    len(texts), labels.mean()  # 25000, 0.5
    ```

    References:
        - [Maas et al., 2011](https://aclanthology.org/P11-1015/)
    """
    return load("imdb", path)


def load_ag_news(path):
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
        path: String or path-like: the folder with `test.csv` and `train.csv`,
            or with the samples, all of them plain or `.gz`; or a folder that
            contains it as `ag_news_csv`.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, always in the
        same order. Texts are lists of strings, labels int32 arrays: 0 World,
        1 Sports, 2 Business, 3 Sci/Tech.

    Raises:
        ValueError: A file is damaged, or not as published.

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


def load_rt_polarity(path, test_fraction=0.1, seed=0):
    """Reads the sentence polarity data set, "MR", and splits it.

    One lower-cased, tokenized sentence of a review each. There is no official
    split, so figures compare only where the fraction and the seed agree.

    Many of these sentences are in SST-2, too: do not train on the one and
    test on the other.

    Args:
        path: String or path-like, the folder with `rt-polarity.neg` and
            `rt-polarity.pos`, plain or `.gz`, in UTF-8 or, as originally
            published, in windows-1252.
        test_fraction: Float in (0, 1), the share of the test sentences.
        seed: Integer, not negative. The same seed gives the same split.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, both
        shuffled, copies of a sentence on one side. Texts are lists of strings,
        labels int32 arrays: 0 negative, 1 positive.

    Raises:
        ValueError: A file is empty or damaged, or the fraction out of range.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_rt_polarity("rt_polarity")
    len(texts), len(test_texts)  # 9596, 1066
    ```

    References:
        - [Pang and Lee, 2005](https://aclanthology.org/P05-1015/)
    """
    return load("rt_polarity", path, test_fraction=test_fraction, seed=seed)


def load_glue(path, task):
    """Reads the training and the development set of a task of GLUE.

    | task | texts | label 0 | label 1 |
    |---|---|---|---|
    | CoLA | sentences | unacceptable | acceptable |
    | SST-2 | phrases (training), sentences | negative | positive |
    | RTE | pairs | entailment | not_entailment |
    | MRPC | pairs | not_equivalent | equivalent |

    The test sets of GLUE have no labels; what is usually reported is the
    result on the development set.

    Args:
        path: String or path-like: the folder with `train.tsv` and `dev.tsv`,
            or `train.tsv.gz` and `dev.tsv.gz`, or the folder that contains it
            under the name of the task.
        task: String, "CoLA", "SST-2", "RTE" or "MRPC", in any case, with or
            without hyphen.

    Returns:
        `(train_texts, train_labels), (dev_texts, dev_labels)`. Texts are lists
        of strings, pairs tuples of two such lists; labels are int32 arrays.

    Raises:
        ValueError: The task is unknown, or a file is not as GLUE has it.

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


def load_multi30k(path, source="en", target="de"):
    """Reads Multi30K, captions of pictures with professional translations.

    Args:
        path: String or path-like, the folder with `train.*`, `val.*` and
            `test_2016_flickr.*`, plain or `.gz`, where `*` is a language, as
            in `data/task1/raw` of the published set.
        source: String, the language to translate from.
        target: String, the language to translate to.

    Returns:
        `train, validation, test`, each `(sources, targets)`, two lists of
        strings, in the published order.

    Raises:
        ValueError: The languages are the same, or there is no file of one, or
            a file is not as published.

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


def load_tatoeba(path, validation_fraction=0.02, test_fraction=0.02, seed=0):
    """Reads sentence pairs of Tatoeba, as selected by manythings.org.

    All translations of an English sentence are on one side of the split. The
    other way round this does not hold: one in nine German sentences to test
    on translates another English one in training, too. To translate into
    English, swap the two lists, and leave those out of the test.

    Pairs that occur twice are kept once. There is no official split, so
    figures compare only where the fractions and the seed agree.

    Args:
        path: String or path-like, the file, plain or `.gz`, of any language;
            or the folder with `deu.txt` or `deu.txt.gz`.
        validation_fraction: Float in (0, 1), the share of the distinct English
            sentences to validate on.
        test_fraction: Float in (0, 1), the share of those to test on.
        seed: Integer, not negative. The same seed gives the same split.

    Returns:
        `train, validation, test`, each `(sources, targets)`, two lists of
        strings, shuffled.

    Raises:
        ValueError: A fraction is out of range, or the file is not as
            published.

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


def load_dialogsum(path, validation_fraction=None):
    r"""Reads DialogSum, spoken dialogues with summaries.

    A dialogue has a turn per line, `#Person1#: ` and what is said.

    The training set is `dialogsum.train.jsonl` if the folder holds it, as
    published. **If not, the 500 dialogues of `dialogsum.dev.jsonl` take its
    place**, and results do not compare with published ones.

    Args:
        path: String or path-like: the folder with `dialogsum.test.jsonl` and
            at least one of the two others, plain or `.gz`; or a folder that
            contains it as `DialogSum_Data`.
        validation_fraction: `None`, or a float in (0, 1): then there is a
            split to validate on, too, `dialogsum.dev.jsonl` as published, or
            this share of the dialogues where that file is trained on or
            missing.

    Returns:
        `(dialogues, summaries), (test_dialogues, references)`, in the order
        of the files, or `train, validation, test` of the same form. Dialogues
        and summaries are lists of strings; `references` is a list of lists of
        three summaries each, by different people.

    Raises:
        ValueError: A line is no JSON object, or lacks a text, or the fraction
            is out of range.

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
    path, test_fraction=0.1, seed=0, turns=2, validation_fraction=None
):
    """Reads Persona-Chat, small talk of people who play a role, and splits it.

    A context is what the one who replies knows, joined by `" | "`: the four
    or five sentences of the own persona, then the last utterances, oldest
    first. The last one is always the partner's.

    All of a dialogue is on one side of the split, but a persona may be on
    both, as many have several dialogues. Figures compare only where fraction
    and seed agree.

    Args:
        path: String or path-like, a file in the text format of ParlAI, plain
            or `.gz`; or the folder with `valid_self_original_no_cands.txt`,
            plain or `.gz`. Candidate replies, if any, are ignored.
        test_fraction: Float in (0, 1), the share of the test dialogues.
        seed: Integer, not negative. The same seed gives the same split.
        turns: Integer, the number of utterances of a context, fewer only at
            the start of a dialogue.
        validation_fraction: Float in (0, 1), the share of the dialogues to
            validate on, or `None`. Those to test on are the same.

    Returns:
        `train, test`, or `train, validation, test`, each `(contexts,
        replies)`, two lists of strings, shuffled.

    Raises:
        ValueError: A line is not as expected, or an argument out of range.

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


def load_wikitext2(path):
    """Reads WikiText-2, articles of Wikipedia with rare words as `<unk>`.

    Tokens are what stands between spaces, and `"<eos>"` for each end of a
    line, of an empty one, too. So published perplexities count: 2,088,628,
    217,646 and 245,569 tokens, of 33,278 different ones.

    Args:
        path: String or path-like: the folder with `wiki.train.tokens`,
            `wiki.valid.tokens` and `wiki.test.tokens`, all of them plain or
            `.gz`; or a folder that contains it as `wikitext-2`.

    Returns:
        `train, validation, test`, three lists of strings, one per token.

    Raises:
        ValueError: A file is empty, damaged or not UTF-8.

    Example:

    ```python
    train, validation, test = load_wikitext2("wikitext-2")
    train[:5]  # ["<eos>", "=", "Valkyria", "Chronicles", "III"]
    ```

    References:
        - [Merity et al., 2016](https://arxiv.org/abs/1609.07843)
    """
    return load("wikitext2", path)


def load_tinyshakespeare(path):
    """Reads Tiny Shakespeare, plays of Shakespeare as one text of 1.1 MB.

    The split is the usual one by position: the first 90 % of the characters,
    the next 5 %, the last 5 %.

    Args:
        path: String or path-like, the file, or the folder with `input.txt` or
            `input.txt.gz`.

    Returns:
        `train, validation, test`, three strings; joined, they are the file.

    Raises:
        ValueError: The file is too short to split, damaged or not UTF-8.

    Example:

    ```python
    train, validation, test = load_tinyshakespeare("tinyshakespeare")
    len(train), len(validation), len(test)  # 1003854, 55770, 55770
    ```

    References:
        - [Karpathy, 2015](https://karpathy.github.io/2015/05/21/rnn-effectiveness/)
    """
    return load("tinyshakespeare", path)
