"""What is compared: Synthesizers, what users would pick instead, the floor.

Every contender is a function `make(cell) -> Program` whose program takes one
input `(B, T, d)`. `Skipped` says why one cannot run.
"""

import re
from typing import NamedTuple

import keras
import numpy as np
from steps import BACKEND, Program, array, of_layer, on_gpu

import keras_synth
from keras_synth import mixers
from keras_synth.layers import SynthesizerEncoder

SYNTHESIZERS = "V R FR Fix D FD R+FR R+V FR+V D+V R+D".split()
MASKS = ("plain", "padded", "causal")


class Skipped(Exception):
    """Why a contender does not run here."""


class Cell(NamedTuple):
    """One shape, dtype and mask.

    Fields:
        batch: Integer, `B`.
        length: Integer, `T`.
        width: Integer, `d`.
        heads: Integer, `H`.
        dtype: String, of weights and computations.
        mask: `"plain"`, `"padded"` or `"causal"`.
    """

    batch: int
    length: int
    width: int
    heads: int
    dtype: str
    mask: str

    def inputs(self):
        x = np.random.default_rng(0).normal(size=self.shape)
        return array(x, self.dtype)

    @property
    def shape(self):
        return (self.batch, self.length, self.width)

    def padding(self):
        """Boolean `(B, T)`: one full sample, the others at least half full."""
        lengths = np.random.default_rng(1).integers(
            self.length // 2, self.length, self.batch, endpoint=True
        )
        lengths[0] = self.length
        return np.arange(self.length) < lengths[:, None]


def names():
    """All contenders for this backend, in the order of the table."""
    return [*_MAKERS]


def check(parser, wanted):
    """Ends with the parser's error if a name is not known here."""
    unknown = [name for name in wanted if not _is_known(name)]
    if unknown:
        parser.error(
            f"unknown contenders: {unknown}; known on {BACKEND}: {names()}, "
            "whatever keras_synth.mixers.get takes, and fold(X) of these"
        )


def _is_known(name):
    if name in _MAKERS:
        return True
    try:
        mixers.registry.mixer_class(_folded_name(name) or name)
    except ValueError:
        return False
    return True


def make(name, cell):
    """Returns the `Program` of a contender, or raises `Skipped`."""
    maker = _MAKERS.get(name) or _mixer(name)
    return maker(cell)


def _folded_name(name):
    """X of the name `"fold(X)"`, or `None`."""
    found = re.fullmatch(r"fold\((.+)\)", name)
    return found and found[1]


# --- Keras layers -------------------------------------------------------------


def _mixer(name):
    folded = _folded_name(name)

    def program(cell):
        layer = mixers.get(
            folded or name,
            num_heads=cell.heads,
            key_dim=cell.width // cell.heads,
            max_length=cell.length,
            dtype=cell.dtype,
        )
        if folded:
            layer.build(cell.shape)
            layer = keras_synth.fold(layer)
        return _keras_attention(layer, cell)

    return program


def _multi_head(flash):
    def program(cell):
        layer = keras.layers.MultiHeadAttention(
            cell.heads,
            cell.width // cell.heads,
            flash_attention=flash,
            dtype=cell.dtype,
        )
        try:
            return _keras_attention(layer, cell)
        except (ValueError, RuntimeError, ImportError) as error:
            if not flash:
                raise
            # The second paragraph: Keras puts one of its own before it.
            paragraphs = [x for x in str(error).splitlines() if x.strip()]
            why = re.sub(r"\x1b\[\d*m", "", paragraphs[:2][-1])
            raise Skipped(why) from error

    return program


def _keras_attention(layer, cell):
    arguments = {}
    if cell.mask == "padded":
        arguments["value_mask"] = array(cell.padding(), "bool")
    if cell.mask == "causal":
        arguments["use_causal_mask"] = True

    if not isinstance(layer, mixers.Mixer):
        layer = SelfAttention(layer)

    def build():
        layer(keras.ops.zeros(cell.shape, cell.dtype), **arguments)

    return of_layer(layer, build, **arguments)


class SelfAttention(keras.layers.Layer):
    """Calls MultiHeadAttention with its input as query and value."""

    def __init__(self, attention):
        super().__init__(dtype=attention.dtype_policy)
        self.attention = attention

    def build(self, shape):
        self.attention.build(shape, shape)
        self.built = True

    def call(self, x, **arguments):
        return self.attention(x, x, **arguments)


def _block(name):
    def program(cell):
        if name is None:
            try:
                import keras_hub
            except ImportError as error:
                raise Skipped("keras_hub is not installed") from error
            layer = keras_hub.layers.TransformerEncoder(
                4 * cell.width, cell.heads, dtype=cell.dtype
            )
        else:
            layer = SynthesizerEncoder(
                4 * cell.width,
                cell.heads,
                synthesizer=name,
                max_length=cell.length,
                dtype=cell.dtype,
            )
        if cell.mask == "causal":
            raise Skipped("encoder blocks are not causal")
        arguments = {}
        if cell.mask == "padded":
            arguments["padding_mask"] = array(cell.padding(), "bool")

        def build():
            layer(keras.ops.zeros(cell.shape, cell.dtype), **arguments)

        return of_layer(layer, build, **arguments)

    return program


# --- the backends' own --------------------------------------------------------


def _weights(*shapes, dtype):
    random = np.random.default_rng(2)
    return [
        array(random.normal(size=s, scale=s[0] ** -0.5), dtype) for s in shapes
    ]


def _jax_native(cell):
    import jax

    d = cell.width
    split = (cell.batch, cell.length, cell.heads, d // cell.heads)
    weights = _weights(*[(d, d)] * 4, *[(d,)] * 4, dtype=cell.dtype)
    options = {"is_causal": cell.mask == "causal"}
    if cell.mask == "padded":
        options["mask"] = array(cell.padding()[:, None, None], "bool")

    def call(trained, frozen, x):
        q, k, v = (
            (x @ w + b).reshape(split)
            for w, b in zip(trained[:3], trained[4:7], strict=True)
        )
        context = jax.nn.dot_product_attention(q, k, v, **options)
        return context.reshape(cell.shape) @ trained[3] + trained[7]

    return Program(call, weights)


def _torch_sdpa(cell):
    import torch

    d, device = cell.width, "cuda" if on_gpu() else "cpu"
    dtype = getattr(torch, cell.dtype)
    split = (cell.batch, cell.length, cell.heads, d // cell.heads)
    linear = [torch.nn.Linear(d, d, device=device, dtype=dtype) for _ in "qkvo"]
    options = {"is_causal": cell.mask == "causal"}
    if cell.mask == "padded":
        options["attn_mask"] = array(cell.padding()[:, None, None], "bool")

    def call(trained, frozen, x):
        q, k, v = (f(x).view(split).transpose(1, 2) for f in linear[:3])
        context = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, **options
        )
        return linear[3](context.transpose(1, 2).reshape(cell.shape))

    return Program(call, [w for f in linear for w in f.parameters()])


def _torch_multi_head(cell):
    import torch

    device = "cuda" if on_gpu() else "cpu"
    layer = torch.nn.MultiheadAttention(
        cell.width,
        cell.heads,
        batch_first=True,
        device=device,
        dtype=getattr(torch, cell.dtype),
    )
    options = {"need_weights": False}
    if cell.mask == "padded":
        options["key_padding_mask"] = array(~cell.padding(), "bool")
    if cell.mask == "causal":
        later = np.triu(np.ones((cell.length, cell.length), "bool"), 1)
        options["attn_mask"] = array(later, "bool")
        options["is_causal"] = True

    def call(trained, frozen, x):
        return layer(x, x, x, **options)[0]

    return Program(call, list(layer.parameters()))


# --- the floor ----------------------------------------------------------------


def _floor(cell):
    """The matrix products that R cannot avoid, bare, each as it likes it.

    Value projection, one `(H, T, S)` table by the values of the whole batch,
    output projection: no bias, no softmax, no transposition in between.
    """
    batch, length, width, heads, dtype, _ = cell
    tokens = batch * length
    table, values = _weights(
        (heads, length, length),
        (heads, length, batch * width // heads),
        dtype=dtype,
    )
    first, second = _weights(*[(width, width)] * 2, dtype=dtype)
    context = _weights((tokens, width), dtype=dtype)[0]
    matmul = keras.ops.matmul

    def call(trained, frozen, x):
        table, values, first, second, context = trained
        x = keras.ops.reshape(x, (tokens, width))
        return matmul(x, first), matmul(table, values), matmul(context, second)

    trained = [table, values, first, second, context]
    if BACKEND == "torch":
        trained = [x.requires_grad_() for x in trained]
    if BACKEND == "tensorflow":
        import tensorflow as tf

        trained = [tf.Variable(x) for x in trained]
    return Program(call, trained)


_NATIVE = {
    "jax": {"jax.nn": _jax_native},
    "torch": {"torch.sdpa": _torch_sdpa, "torch.nn": _torch_multi_head},
    "tensorflow": {},
}[BACKEND]

_MAKERS = {
    "MultiHeadAttention": _multi_head(None),
    "MultiHeadAttention, flash": _multi_head(True),
    **_NATIVE,
    "floor of R": _floor,
    **{name: _mixer(name) for name in SYNTHESIZERS},
    "TransformerEncoder": _block(None),
    **{f"block {n}": _block(n) for n in ("V", "R", "FR", "R+V", "D")},
}
