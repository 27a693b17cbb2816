"""What `write_model_card` writes."""

import pytest

from keras_synth.model_card import write_model_card

pytestmark = pytest.mark.once  # nothing here depends on the backend


def test_a_card_says_all_that_it_is_given(tmp_path):
    write_model_card(
        tmp_path / "preset",
        "A tagger",
        "It *tags*.\n",
        "Ten sentences.",
        [("accuracy", 0.5), ("F1", "25%")],
        "import keras_synth\n",
        licence="cc-by-sa-4.0",
    )
    card = """\
---
library_name: keras-hub
license: cc-by-sa-4.0
---

# A tagger

It *tags*.

## Data

Ten sentences.

## Results

| figure | value |
|---|---|
| accuracy | 0.5 |
| F1 | 25% |

## Usage

```python
import keras_synth
```
"""
    path = tmp_path / "preset" / "README.md"
    assert path.read_text("utf-8") == card
    write_model_card(path.parent, "T", "It.", "D", {"accuracy": 1}, "pass")
    assert "license" not in path.read_text("utf-8")
    assert "| accuracy | 1 |" in path.read_text("utf-8")


def test_an_earlier_card_stays_where_writing_fails(tmp_path):
    (tmp_path / "README.md").write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_model_card(tmp_path, "\ud800", "", "", {}, "")
    assert [*tmp_path.iterdir()] == [tmp_path / "README.md"]
    assert (tmp_path / "README.md").read_text() == "before"
