"""Every type of synthesizer and mixer counts its multiplications."""

import pytest

from keras_synth import mixers, synthesizers
from keras_synth.attention import multiplications as counts

pytestmark = pytest.mark.once  # nothing here depends on the backend


def public(module, base):
    """The public classes of a module that are of a base."""
    found = (getattr(module, name) for name in module.__all__)
    return [
        cls for cls in found if isinstance(cls, type) and issubclass(cls, base)
    ]


BASES = {
    mixers.Mixer,
    mixers.MultiHeadMixer,
    mixers.SelfMixer,
    synthesizers.Synthesizer,
}
SYNTHESIZERS = public(synthesizers, synthesizers.Synthesizer)
MIXERS = public(mixers, mixers.Mixer)


def counted(count, cls):
    return count.dispatch(cls) is not count.dispatch(object)


@pytest.mark.parametrize(
    "cls",
    [cls for cls in (*SYNTHESIZERS, *MIXERS) if cls not in BASES],
    ids=lambda cls: cls.__name__,
)
def test_every_class_has_a_count(cls):
    if issubclass(cls, synthesizers.Synthesizer):
        assert counted(counts.of_synthesizer, cls)
    elif issubclass(cls, mixers.MultiHeadMixer):
        assert counted(counts.of_projections, cls)
        assert counted(counts.of_attend, cls)
    else:
        assert counted(counts.of_mixer, cls)


class OneMore(mixers.LinformerAttention):
    def attend_multiplications(self, query_length, source_length):
        counted = super().attend_multiplications(query_length, source_length)
        return {**counted, "softmax": counted["softmax"] + 1}


def test_a_class_of_your_own_adds_to_the_count_of_its_base():
    layers = [
        cls(num_heads=2, key_dim=4, max_length=8, rank=2)
        for cls in (mixers.LinformerAttention, OneMore)
    ]
    for layer in layers:
        layer.build((None, None, 8))
    plain, own = (layer.multiplications(5, 5) for layer in layers)
    assert own == {**plain, "softmax": plain["softmax"] + 1}
    assert plain["softmax"] == 2 * 5 * 2


class Silent(synthesizers.Synthesizer):
    def call(self, query, keys=None, *, start=0, length=None):
        raise NotImplementedError


def test_a_synthesizer_without_a_count_says_what_to_implement():
    with pytest.raises(ValueError, match=r"Silent does not .*pairs=None\)` th"):
        Silent(num_heads=2).multiplications(5, 5)
