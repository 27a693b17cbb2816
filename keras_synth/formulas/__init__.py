"""Every formula of this package in a few lines of `keras.ops`.

Attention has three steps. Each choice for a step is a function on one of the
pages of this folder:

1. `synthesizers`: functions from tokens, or from nothing, to **logits** `S`,
   one number for each pair of tokens;
2. `weights`: normalizers, which turn logits into **weights** `A`, and patterns,
   which say which pairs are allowed;
3. `attention_mixers`: **attention**, the product `A V` with the values, and
   mixers that compare fewer pairs or compare them in another way.

`token_mixers` use no attention: they mix tokens by convolutions, MLPs and
Fourier transforms.

The layers of `keras_synth` compute the same numbers. They also handle masks,
padding, caches, dropout and half precision, and they avoid large tensors. A
test compares each layer with its formula.

One letter per axis: `B` samples, `T` tokens of the query, `S` tokens of the
source, `H` heads, `k` features of keys, `v` features of values, `d` features of
a token, `N` the longest sequence of a table.

Example:

>>> from keras_synth import formulas
>>> x = keras.random.normal((2, 10, 64))  # (B, T, d)
>>> R = keras.random.normal((4, 16, 16))  # (H, N, N)
>>> Wv, Wo = keras.random.normal((64, 4, 8)), keras.random.normal((4, 8, 64))
>>> logits = formulas.random(R, T=10, S=10)
>>> values = formulas.split_heads(x, Wv)
>>> context = formulas.attention(logits, values, formulas.causal(10, 10))
>>> formulas.merge_heads(context, Wo).shape
(2, 10, 64)
"""

from keras_synth.formulas.attention_mixers import (
    attention,
    compressed,
    linear,
    linformer,
    longformer,
    merge_heads,
    performer,
    reformer,
    routing,
    sinkhorn,
)
from keras_synth.formulas.synthesizers import (
    additive,
    alibi,
    compare,
    dense,
    dot_product,
    factorized_dense,
    factorized_random,
    gaussian,
    local_dense,
    mixture,
    pattern,
    random,
    relative,
    rotate,
    split_heads,
    t5_relative,
)
from keras_synth.formulas.token_mixers import (
    dynamic_conv,
    fnet,
    gmlp,
    light_conv,
    mlp_mixer,
    pooling,
)
from keras_synth.formulas.weights import (
    block_window,
    causal,
    first_tokens,
    global_tokens,
    random_blocks,
    relu,
    sigmoid,
    softmax,
    softmax1,
    stride,
    window,
)

__all__ = [
    "additive",
    "alibi",
    "attention",
    "block_window",
    "causal",
    "compare",
    "compressed",
    "dense",
    "dot_product",
    "dynamic_conv",
    "factorized_dense",
    "factorized_random",
    "first_tokens",
    "fnet",
    "gaussian",
    "global_tokens",
    "gmlp",
    "light_conv",
    "linear",
    "linformer",
    "local_dense",
    "longformer",
    "merge_heads",
    "mixture",
    "mlp_mixer",
    "pattern",
    "performer",
    "pooling",
    "random",
    "random_blocks",
    "reformer",
    "relative",
    "relu",
    "rotate",
    "routing",
    "sigmoid",
    "sinkhorn",
    "softmax",
    "softmax1",
    "split_heads",
    "stride",
    "t5_relative",
    "window",
]
