"""The trained model in examples."""

import pytest
from places import ROOT

from keras_synth.models import SynthesizerTokenClassifier


@pytest.mark.each_backend
def test_it_tags_as_its_card_says():
    folder = ROOT / "examples" / "english_tags"
    tagger = SynthesizerTokenClassifier.from_preset(str(folder))
    words = "The quick fox jumps over my dog .".split()
    expected = "DET ADJ NOUN VERB ADP PRON NOUN PUNCT".split()
    assert tagger.tag([words]) == [expected]
