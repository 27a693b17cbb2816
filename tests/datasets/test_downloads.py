import gzip
import hashlib
import zipfile

import keras
import pytest

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend


@pytest.fixture
def asked(monkeypatch):
    """Records what `keras.utils.get_file` is asked for."""
    calls = []

    def get_file(**arguments):
        calls.append(arguments)
        return "path"

    monkeypatch.setattr(keras.utils, "get_file", get_file)
    return calls


@pytest.mark.parametrize(
    ("name", "file", "extract"),
    [
        ("imdb", "aclImdb_v1.tar.gz", False),
        ("IMDB", "aclImdb_v1.tar.gz", False),
        ("CoLA", "CoLA.zip", True),
        ("sst2", "SST-2.zip", True),
        ("rte", "RTE.zip", True),
        ("STS-B", "STS-B.zip", True),
        ("wnli", "WNLI.zip", True),
    ],
)
def test_the_published_checksum_is_asked_for(asked, name, file, extract):
    assert datasets.download(name) == "path"
    (call,) = asked
    assert call["fname"] == file
    assert call["origin"].endswith("/" + file)
    assert call["cache_subdir"] == "datasets"
    assert call["hash_algorithm"] == "sha256"
    assert len(bytes.fromhex(call["file_hash"])) == 32
    assert call["extract"] == extract


def test_all_files_of_a_set_come_to_one_folder(asked, data):
    assert datasets.download("ag_news", "/here") == "."
    assert [call["fname"] for call in asked] == ["train.csv", "test.csv"]
    assert {call["cache_subdir"] for call in asked} == {"/here/ag_news"}
    published = gzip.decompress((data / "ag_news/test.csv.gz").read_bytes())
    assert asked[1]["file_hash"] == hashlib.sha256(published).hexdigest()


def test_an_extracted_task_is_what_load_glue_takes(tmp_path, monkeypatch):
    source = tmp_path / "source.zip"
    folder = tmp_path / "new" / "folder"
    rows = "sentence\tlabel\ngood\t1\nbad\t0\n"
    with zipfile.ZipFile(source, "w") as archive:
        for name in ("train.tsv", "dev.tsv"):
            archive.writestr(f"SST-2/{name}", rows)
    checksum = hashlib.sha256(source.read_bytes()).hexdigest()

    def publish(url, checksum):
        entry = datasets.DATASETS["SST-2"]._replace(urls={url: checksum})
        monkeypatch.setitem(datasets.DATASETS, "SST-2", entry)

    publish(source.as_uri(), checksum)
    for _ in range(2):  # the second time, it is there
        path = datasets.download("SST-2", folder)
        train, dev = datasets.load_glue(path, "SST-2")
        assert train[0] == dev[0] == ["good", "bad"]
    assert (folder / "source.zip").is_file()
    publish(source.as_uri(), "0" * 64)
    with pytest.raises(ValueError, match=r"not the published one: .*00000"):
        datasets.download("SST-2", folder)
    publish(source.with_name("gone.zip").as_uri(), checksum)
    with pytest.raises(OSError, match=r"gone\.zip cannot be downloaded"):
        datasets.download("SST-2", folder)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Exception("URL fetch failure:\n no network"), OSError),
        (TimeoutError("timed\nout"), OSError),
        (ValueError("corrupted\nfile"), ValueError),
    ],
)
def test_a_failure_is_one_line_with_the_way_out(monkeypatch, failure, kind):
    def get_file(**_):
        raise failure

    monkeypatch.setattr(keras.utils, "get_file", get_file)
    with pytest.raises(kind) as error:
        datasets.download("imdb")
    message = str(error.value)
    assert "\n" not in message
    assert "http://ai.stanford.edu/" in message
    assert message.endswith(
        "Download it yourself and pass its path to load_imdb."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "AGNews2",
            "one of imdb, CoLA, SST-2, RTE, STS-B, WNLI, ag_news. Received",
        ),
        ("rt-polarity", "without a checksum.* load_rt_polarity"),
        ("mrpc", "several files.* load_glue"),
        ("scitail", "one of imdb, .*Other data"),
        (None, "Received: None"),
    ],
)
def test_sets_that_are_not_offered_are_refused(asked, name, message):
    with pytest.raises(ValueError, match=message):
        datasets.download(name)
    assert not asked
