"""`upload_preset`: a preset, its own model card included, to a hub."""

import pathlib

import huggingface_hub
import keras_hub

from keras_synth.types import FilePath

_HUGGING_FACE = "hf://"
_CARD = "README.md"


def upload_preset(uri: str, folder: FilePath) -> None:
    """Uploads a preset folder as `keras_hub.upload_preset`, with its card.

    KerasHub writes a model card of its own over that of the folder when the
    repository on Hugging Face has none, and deletes it after the upload. So
    the folder's card is uploaded first.

    Args:
        uri: String, `"hf://user/model"`, or
            `"kaggle://user/model/keras/variation"`.
        folder: Path of the preset, with a `README.md` in it.

    Raises:
        FileNotFoundError: If configuration, weights or model card are missing.

    Example:

    ```python
    def publish(user):
        keras_synth.models.upload_preset(f"hf://{user}/reviews", "reviews")
    ```
    """
    folder = pathlib.Path(folder)
    for name in ("config.json", _CARD):
        if not (folder / name).exists():
            raise FileNotFoundError(
                "A preset to upload has a config.json, which `save_to_preset` "
                f"writes, and a {_CARD}, which "
                "`keras_synth.model_card.write_model_card` writes. "
                f"Received: folder={str(folder)!r} without {name}"
            )
    if uri.startswith(_HUGGING_FACE):
        repository = huggingface_hub.create_repo(
            uri.removeprefix(_HUGGING_FACE), exist_ok=True
        )
        huggingface_hub.upload_file(
            path_or_fileobj=folder / _CARD,
            path_in_repo=_CARD,
            repo_id=repository.repo_id,
        )
    keras_hub.upload_preset(uri, str(folder))
