"""Keras' own tests of MultiHeadAttention, with SyntheticAttention in its place.

They are those of the installed Keras. Private members that they use are defined
here if possible.
"""

import types

import keras
import pytest

from keras_synth.layers import SyntheticAttention

suite = pytest.importorskip(
    "keras.src.layers.attention.multi_head_attention_test",
    reason="Keras is installed without its tests, as 3.15.0 is",
)

# Keras' tests are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


@keras.saving.register_keras_serializable(package="tests")
class DotProductAttention(SyntheticAttention):
    """MultiHeadAttention by another name, under which Keras' tests look."""

    def __init__(self, *args, synthesizer="dot_product", **kwargs):
        super().__init__(*args, synthesizer=synthesizer, **kwargs)

    _query_dense = SyntheticAttention.query_dense
    _key_dense = SyntheticAttention.key_dense
    _value_dense = SyntheticAttention.value_dense
    _output_dense = SyntheticAttention.output_dense
    _gate_dense = property(lambda self: self.gate)
    _sliding_window = property(lambda self: self.sliding_window)
    _flash_attention = property(lambda self: self.flash_attention)


# Tests that do not apply, and why.
PRIVATE = {
    "test_causal_only_skipped_for_subclass": "overrides _compute_attention",
    "test_compute_attention_combines_causal_and_explicit_mask_fused_fallback": (
        "calls _compute_attention"
    ),
    "test_compute_attention_combines_causal_and_explicit_mask_manual_path": (
        "calls _compute_attention"
    ),
    "test_dtype_policy_map": "names the path of the query's projection",
}


class TestKerasSuite(suite.MultiHeadAttentionTest):
    @pytest.fixture(autouse=True)
    def _in_its_place(self, monkeypatch, request):
        name = request.node.name
        if name in PRIVATE:
            pytest.skip(PRIVATE[name])
        layers = types.SimpleNamespace(**vars(keras.layers))
        layers.MultiHeadAttention = DotProductAttention
        monkeypatch.setattr(suite, "layers", layers)
