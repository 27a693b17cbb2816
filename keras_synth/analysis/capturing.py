"""Attention weights and learned tables of a model, and its inputs."""

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth._backend.execution import without_gradients
from keras_synth._backend.internals import replaced_call, sublayers
from keras_synth.analysis.recording import (
    CapturedAttention,
    Recorder,
    asking_for_scores,
)
from keras_synth.mixers.mixer import Mixer
from keras_synth.synthesizers.synthesizer import Synthesizer

# Only one thread at a time: two would restore each other's functions.
_LOCK = threading.RLock()
KERAS = keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention


@contextlib.contextmanager
def capture(parts: bool = False) -> Iterator[dict[str, CapturedAttention]]:
    """Captures the attention weights of all layers called in a block.

    The layers are `SyntheticAttention` and other mixers with weights, in any
    model or function. Calls in other threads, in compiled functions (`predict`,
    `jax.jit`) and in cached decoding are not captured. For models with Keras'
    attention layers use `attention_weights`.

    Args:
        parts: As for `attention_weights`.

    Yields:
        Dictionary from the paths of `attention_weights` to `CapturedAttention`.

    Example:

    >>> from keras_synth import analysis
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer="V", name="attention")
    >>> with analysis.capture() as seen:
    ...     output = layer(np.ones((3, 10, 16)))
    >>> seen["attention"].weights.shape
    (3, 2, 10, 10)
    """
    seen: dict[str, CapturedAttention] = {}
    with Recorder(seen.__setitem__, parts):
        yield seen


def attention_weights(
    model: Any,
    inputs: Any,
    layers: str | Sequence[str] | None = None,
    parts: bool = False,
) -> dict[str, np.ndarray]:
    """Returns the attention weights of a model's layers for a batch.

    The model is called once, for inference and outside of compiled functions.
    It can contain `SyntheticAttention`, other mixers with weights, and Keras'
    `MultiHeadAttention` or `GroupQueryAttention`, as in KerasHub's BERT,
    RoBERTa, DistilBERT and GPT-2.

    Args:
        model: Keras model or layer.
        inputs: A batch of its inputs, for example from a preprocessor.
        layers: Paths of layers, from the result of this function; all by
            default.
        parts: Whether to also return the separate weights `softmax(S_i)` of
            each part of a mixture such as `"R+V"`.

    Returns:
        Dictionary from the paths of layers, and of parts, to arrays
        `(B, H, T, S)`, in the order of the calls. If a layer is called again,
        `_1` is appended to its path. Rows of padding have no meaning.

    Raises:
        ValueError: If the model has no attention weights, a path is unknown, or
            a layer demands a flash kernel, which does not return weights.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer="R+V", max_length=16, name="attention")
    >>> inputs = keras.Input((10, 16))
    >>> model = keras.Model(inputs, layer(inputs))
    >>> weights = keras_synth.analysis.attention_weights(
    ...     model, np.ones((3, 10, 16)), parts=True)
    >>> [name.split("/")[-1] for name in weights]
    ['attention', 'part_0', 'part_1']
    >>> weights[layer.path].shape
    (3, 2, 10, 10)
    """
    seen: dict[str, CapturedAttention] = {}
    observe(model, inputs, seen.__setitem__, layers, parts)
    return {name: own.weights for name, own in seen.items()}


def observe(
    model: Any,
    inputs: Any,
    keep: Callable[[str, CapturedAttention], None],
    layers: str | Sequence[str] | None = None,
    parts: bool = False,
) -> None:
    """Calls a model, and `keep` with each call of its attention layers."""
    if isinstance(model, keras.Layer) and not model.built:
        model(inputs, training=False)
    wanted = attention_layers(model, layers)
    recorder = Recorder(keep, parts, wanted)
    with _LOCK, without_gradients(), contextlib.ExitStack() as stack:
        for layer in wanted:
            # Other mixers look for an observer in each call.
            if not (
                isinstance(layer, Mixer) and type(layer).call is Mixer.call
            ):
                call = asking_for_scores(layer, recorder)
                stack.enter_context(replaced_call(layer, call))
        stack.enter_context(recorder)
        model(inputs, training=False)
    if not recorder.names:
        raise ValueError(
            "No layer was called outside of a compiled function or a "
            "`keras.RematScope`, in which weights cannot be captured. "
            f"Received: {[x.path for x in wanted]}"
        )


def attention_layers(
    model: Any, layers: str | Sequence[str] | None = None
) -> list[Any]:
    """Returns the layers of a model whose weights can be captured."""
    if not isinstance(model, keras.Layer):
        raise ValueError(
            f"`model` must be a Keras layer or model. Received: {model!r}"
        )
    everything = [model, *sublayers(model)]
    mixers = [x for x in everything if isinstance(x, Mixer)]
    found = [
        x
        for x in everything
        if isinstance(x, KERAS)
        or (isinstance(x, Mixer) and x.supports_attention_scores)
    ]
    if not found:
        without = sorted({type(x).__name__ for x in mixers})
        why = f", whose {without} do not have weights" if without else ""
        raise ValueError(
            "Expected a model with attention weights: with SyntheticAttention, "
            "another mixer with weights, or Keras' MultiHeadAttention or "
            "GroupQueryAttention. For other attention, such as T5's, call "
            f"`keras_synth.surgery.graft` first. Received: {model.name!r} of "
            f"{type(model).__name__}{why}"
        )
    if layers is None:
        return found
    wanted = [layers] if isinstance(layers, str) else list(layers)
    paths = [x.path for x in found]
    if not wanted or not {*wanted} <= {*paths}:
        raise ValueError(
            f"The model's attention layers are {paths}. "
            f"Received: layers={layers!r}"
        )
    return [x for x in found if x.path in wanted]


def tables(model: Any) -> dict[str, np.ndarray]:
    """Returns the learned tables of a model's synthesizers, by name.

    | name ends with | array |
    |---|---|
    | `/R` | logits of Random, FR's `R1 R2^T`: `(H, N, N)` |
    | `/distances` | logits of relative positions, -m to m: `(H, 2 m + 1)` |
    | `/relative_attention_bias` | T5's: `(buckets, H)` |
    | `/W2`, `/b2` | Dense's constant keys `(N, H or 1, k)`, biases |
    | `/alphas` | weights of a mixture's parts: `(parts, H)` or `(parts,)` |

    Alphas are after their softmax, without parts that are biases. For other
    synthesizers the arrays are those of their method `tables`.

    Args:
        model: Keras model or layer with synthesizers.

    Returns:
        Dictionary from the paths of weights to arrays. If layers of two nested
        models have the same path, `_1` is appended to that of the second.

    Raises:
        ValueError: If no synthesizer of a built model learns a table.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer="FR + V", max_length=16)
    >>> layer.build((None, None, 32))
    >>> found = keras_synth.analysis.tables(layer)
    >>> for name, table in found.items():
    ...     print(name.removeprefix(layer.path), table.shape)
    /synthesizer/alphas (2, 2)
    /synthesizer/part_0/R (2, 16, 16)
    """
    found: dict[str, np.ndarray] = {}
    seen: collections.Counter = collections.Counter()
    is_layer = isinstance(model, keras.Layer)
    for layer in (model, *sublayers(model)) if is_layer else ():
        if isinstance(layer, Synthesizer) and layer.built:
            # Layers of two nested models can have the same path.
            number, path = seen[layer.path], layer.path
            seen[layer.path] += 1
            path = f"{path}_{number}" if number else path
            for name, table in layer.tables().items():
                array = np.asarray(ops.convert_to_numpy(table))
                found[f"{path}/{name}"] = array
    if not found:
        raise ValueError(
            "Expected a built model with synthesizers that learn tables, such "
            f'as "R" or "R+V". Received: {model!r}'
        )
    return found


def sample_of(inputs: Mapping[str, Any], sample: int = 0) -> dict[str, Any]:
    """Returns the inputs of one sample, without its padding.

    The attention weights of the result contain only real tokens. Each mask
    named `...padding_mask` cuts the inputs with the same prefix and length:
    `"encoder_padding_mask"` cuts `"encoder_token_ids"`.

    Args:
        inputs: Dictionary of arrays `(B, T, ...)`, as from a preprocessor.
        sample: Integer, index in the batch.

    Returns:
        Dictionary of NumPy arrays `(1, n, ...)`.

    Raises:
        ValueError: If an input has no mask, or `sample` is out of range.

    Example:

    >>> inputs = {"token_ids": np.array([[3, 4, 0], [5, 6, 7]]),
    ...           "padding_mask": np.array([[1, 1, 0], [1, 1, 1]])}
    >>> keras_synth.analysis.sample_of(inputs)["token_ids"]
    array([[3, 4]])
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            "Expected a dictionary of a model's inputs. Received: "
            f"{type(inputs).__name__}"
        )
    arrays = {k: ops.convert_to_numpy(x) for k, x in inputs.items()}
    end = "padding_mask"
    sides = [name.removesuffix(end) for name in arrays if name.endswith(end)]
    found = {}
    for name, x in arrays.items():
        own = [side for side in sides if name.startswith(side)]
        if not own:
            raise ValueError(
                f"{name!r} needs a mask, an input whose name is or ends in "
                f"{end!r}. Received: {[*arrays]}"
            )
        if not -len(x) <= sample < len(x):
            raise ValueError(
                f"The batch has {len(x)} samples. Received: sample={sample}"
            )
        real = np.asarray(arrays[max(own, key=len) + end][sample], bool)
        # Not positions of masked tokens, of which there are fewer.
        is_sequence = x.shape[1:2] == real.shape
        found[name] = (x[sample][real] if is_sequence else x[sample])[None]
    return found
