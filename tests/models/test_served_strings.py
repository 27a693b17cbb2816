"""Raw strings to logits in one SavedModel, served without this library."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
from assertions import close
from backend import only_on
from small_tasks import WORDS, backbone, preprocessor

from keras_synth import models

tf = pytest.importorskip("tensorflow")
pytestmark = [
    pytest.mark.slow,
    only_on("tensorflow", "the tokenizer inside is its own"),
    pytest.mark.filterwarnings("ignore"),
]
TEXTS = ["a good film", "the plot is dull and not good but " * 3, ""]
SERVER = """
import json, sys
import tensorflow as tf
import tensorflow_text  # its operations
served = tf.saved_model.load(sys.argv[1])
assert not {"keras_synth", "keras_hub"} & {*sys.modules}
logits = served.serve(tf.constant(json.loads(sys.argv[2])))
print(json.dumps(logits.numpy().tolist()))
"""


def byte_pairs():
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
        [" ".join(WORDS)] * 4, vocabulary_size=270
    )
    return models.SynthesizerTextClassifierPreprocessor(tokenizer, 8)


@pytest.mark.parametrize(
    "made",
    [lambda: preprocessor("classifier"), byte_pairs],
    ids=["words", "byte pairs"],
)
def test_a_saved_model_of_strings_works_without_this_package(made, tmp_path):
    preprocess = made()
    size = preprocess.tokenizer.vocabulary_size()
    body = backbone("classifier", vocabulary_size=size)
    classifier = models.SynthesizerTextClassifier(body, 2, preprocess)
    archive = keras.export.ExportArchive()
    archive.track(classifier)
    archive.add_endpoint(
        "serve",
        lambda texts: classifier(preprocess(texts)),
        [tf.TensorSpec((None,), "string")],
    )
    archive.write_out(tmp_path / "served", verbose=False)
    found = subprocess.run(
        [sys.executable, "-c", SERVER, tmp_path / "served", json.dumps(TEXTS)],
        check=True,
        capture_output=True,
        text=True,
    )
    close(
        np.array(json.loads(found.stdout.splitlines()[-1])),
        classifier.predict(TEXTS, verbose=0),
        atol=1e-4,
    )
