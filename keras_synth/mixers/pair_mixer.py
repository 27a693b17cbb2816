"""`PairMixer`: dot products of pairs, with weights as MultiHeadAttention's."""

from keras_synth.attention.attend import attend
from keras_synth.attention.logits import Logits
from keras_synth.attention.normalizers import SOFTMAX, Normalizer
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Tensor


class PairMixer(MultiHeadMixer):
    """Attention by dot products, with a pattern and a normalizer.

    Attributes:
        pattern: `Pattern`, or `None` for all pairs.
        normalizer: `Normalizer`.
    """

    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True
    pattern = None
    normalizer: Normalizer = SOFTMAX

    def logits(self, queries: Tensor, keys: Tensor) -> Logits:
        """Returns the `Logits` of projected queries and keys."""
        return Logits(queries * self.key_dim**-0.5, keys)

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        *,
        bias: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        logits = self.logits(queries, keys)
        if bias is not None:
            logits = logits + Logits(bias=bias)
        return attend(
            logits,
            values,
            self._limited(mask),
            dropout=self._active_dropout(training),
            return_weights=return_weights,
            normalizer=self.normalizer,
        )

    def _limited(self, mask):
        """The mask with the pattern, if there is one."""
        return mask
