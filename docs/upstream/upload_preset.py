# `upload_preset` should upload the model card of a folder. If the repository on
# Hugging Face has no card, it writes another one over it and then deletes it.
# KerasHub 0.32.0. (Nothing is uploaded here.)
import pathlib
import tempfile
from unittest import mock

import keras_hub

folder = tempfile.mkdtemp()
keras_hub.models.BertBackbone(9, 1, 2, 8, 8).save_to_preset(folder)
card = pathlib.Path(folder, "README.md")
card.write_text("A description of the model")
with mock.patch("keras_hub.src.utils.preset_utils.huggingface_hub") as hub:
    hub.file_exists.return_value = False
    keras_hub.upload_preset("hf://user/model", folder)
assert card.exists(), "the model card is deleted"
