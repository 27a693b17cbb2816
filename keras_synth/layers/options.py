"""`BlockOptions`: what all blocks of a stack are made of."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from keras_synth.types import Identifier


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Arguments of `SynthesizerBlock` that the blocks of a stack share.

    Each has a synthesizer, a length and a name of its own. See
    `SynthesizerEncoder` for what they are.
    """

    intermediate_dim: int
    num_heads: int
    dropout: float
    activation: Identifier
    layer_norm_epsilon: float
    normalize_first: bool
    attention_use_bias: bool
    key_dim: int | None
    normalization: str
    feed_forward_use_bias: bool
    use_gated_activation: bool
    feed_forward_dropout: float
    dtype: Identifier | None

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns those that are among the arguments of a backbone."""
        fields = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: arguments[name] for name in fields})

    def make(self, cls: type, **own: Any) -> Any:
        """Makes a block of them.

        Args:
            cls: `SynthesizerEncoder` or `SynthesizerDecoder`.
            **own: Its other arguments.
        """
        return cls(**vars(self), **own)
