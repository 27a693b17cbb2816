"""A file that is written is there as a whole or not at all."""

import pytest

from keras_synth._system.files import writing

pytestmark = pytest.mark.once  # nothing here depends on the backend


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    with writing(path) as file:
        file.write("é\r\n")
        assert not path.exists()
    assert path.read_bytes() == "é\r\n".encode()
    with writing(path, "wb") as file:
        file.write(b"\0")
        assert path.read_bytes() != b"\0"
    assert path.read_bytes() == b"\0"
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_file_as_it_was(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write():
        with writing(path) as file:
            file.write("half of the new")
            file.flush()
            raise error

    with pytest.raises(error):
        write()
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_files_of_one_folder_do_not_share_what_is_half_written(tmp_path):
    """`a.csv` and `a.md` are written at the same time."""
    paths = tmp_path / "a.csv", tmp_path / "a.md"
    with writing(paths[0]) as first, writing(paths[1]) as second:
        first.write("csv")
        second.write("md")
    assert [path.read_text() for path in paths] == ["csv", "md"]
