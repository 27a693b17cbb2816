"""Files of every kind, made by older versions, load and give what they gave."""

import json

import kept_files
import pytest
from assertions import close

pytestmark = pytest.mark.each_backend

OUTPUTS = json.loads(kept_files.OUTPUTS.read_text())


@pytest.mark.parametrize("kind", kept_files.FILES)
def test_a_kept_file_loads_and_has_its_outputs(kind, tmp_path):
    loaded = kept_files.load(kind, tmp_path)
    found = kept_files.outputs(kind, loaded)
    close(found, OUTPUTS[kind], atol=1e-4)
