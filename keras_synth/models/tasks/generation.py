"""Text generation: what causal and sequence-to-sequence models share."""

from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_synth._backend.execution import is_eager
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added
from keras_synth.models.data.examples import (
    as_arrays,
    check_extras,
    check_lengths,
)
from keras_synth.models.data.texts import plain_texts
from keras_synth.types import Mixin, Tensor

SAMPLERS = ("beam", "contrastive", "greedy", "random", "top_k", "top_p")


class GenerationMixin(Mixin):
    """Constructor, samplers and prompts of tasks that write.

    Mixed into a task before `TaskMixin`.
    """

    def __init__(
        self,
        backbone: keras.Model,
        preprocessor: keras.Layer | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_fits(preprocessor, backbone)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor

        # === Functional model ===
        inputs = backbone.input
        outputs = backbone.logits(self._hidden_states(backbone(inputs)))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def _hidden_states(self, outputs):
        """What the output layer takes, of what the backbone returns."""
        return outputs

    def _check_compiled(self):
        check_sampler(self.sampler)

    def generate(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Generates text, as `keras_hub.models.CausalLM.generate`.

        Args:
            inputs: A text, or a list, array, string tensor or pandas column of
                texts, or another input of the preprocessor; without
                preprocessor, its outputs.
            *args: Further arguments of KerasHub's method, in its order.
            **kwargs: The same by name, such as `max_length`.

        Returns:
            A string for one prompt, a list of strings for several; without
            preprocessor, a dictionary of token ids and their mask.

        Raises:
            ValueError: There is no prompt, or a prompt has no token.
        """
        if self.preprocessor is not None:
            inputs = _prompts(inputs)
        elif isinstance(inputs, dict):
            _check_tokens_given(inputs)
        return super().generate(inputs, *args, **kwargs)

    def _check_extras(self, y, sample_weight, prefix):
        check_extras(y, sample_weight, prefix)


def _prompts(inputs):
    """Prompts in the form that KerasHub takes, at least one of them."""
    if isinstance(inputs, dict):
        inputs = {
            name: plain_texts(texts, f"inputs[{name!r}]")
            for name, texts in inputs.items()
        }
    else:
        inputs = plain_texts(inputs)
    if isinstance(inputs, (list, tuple)) and not len(inputs):
        raise ValueError(
            "There must be at least one prompt. Received: an empty list"
        )
    if isinstance(inputs, dict) and any(
        not isinstance(texts, str) and np.ndim(texts)
        for texts in inputs.values()
    ):
        check_lengths(inputs=as_arrays(inputs, "inputs"))
    return inputs


def _check_tokens_given(inputs):
    """Raises unless each prompt has a token to go on from."""
    for name in ("padding_mask", "decoder_padding_mask"):
        if name not in inputs:
            continue
        counts = np.sum(ops.convert_to_numpy(inputs[name]) != 0, axis=-1)
        if not counts.size or not counts.all():
            raise ValueError(
                "Each prompt must hold a token, such as the start token. "
                f"Received: {name} with {counts.tolist()} tokens"
            )


def sample_tokens(
    model,
    step,
    prompt,
    prompt_mask,
    caches,
    stop_token_ids,
    hidden_states=None,
):
    """Continues a batch of prompts, which may be of unequal lengths.

    Args:
        model: The task, whose sampler chooses the tokens.
        step: Function of token ids `(B, T)`, caches, the position of the first
            token and, optionally, `padding_mask=`, `(B, T)`; returns hidden
            states `(B, T, d)` and filled caches.
        prompt: Integer tensor `(B, length)`.
        prompt_mask: Tensor `(B, length)`, not 0 for tokens of a prompt.
        caches: Nested tuple of tensors, batch axis first.
        stop_token_ids: Sequence of ids that end a text, or `None`.
        hidden_states: Function that returns the hidden states of the prompt,
            `(B, length, d)`, where caches must be shown each token once;
            `None` where tokens that are read again overwrite what was there.

    Returns:
        `(token_ids, padding_mask)`, both `(B, length)`, the mask being True
        up to the end of each text.
    """
    prompt_mask = ops.cast(prompt_mask, "bool")
    # The shortest prompt ends here; longer ones keep their tokens.
    end = ops.amin(ops.sum(ops.cast(prompt_mask, "int32"), axis=-1))
    if hidden_states is None:
        hidden, caches = _read(step, prompt, caches, end)
    else:
        before = ops.arange(ops.shape(prompt)[1]) < end - 1
        before = ops.broadcast_to(before, ops.shape(prompt))
        _, caches = step(prompt, caches, 0, padding_mask=before)
        hidden = hidden_states()

    def next_token(prompt, caches, index):
        last = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
        hidden, caches = step(last, caches, index - 1)
        return model.backbone.logits(hidden)[:, 0], hidden[:, 0], caches

    token_ids = model.sampler(
        next=next_token,
        prompt=prompt,
        cache=caches,
        index=end,
        mask=prompt_mask,
        stop_token_ids=stop_token_ids,
        hidden_states=hidden,
        model=model,
    )
    ended = after_stop_tokens(token_ids, stop_token_ids, prompt_mask)
    return token_ids, ops.logical_not(ended)


def _read(step, prompt, caches, end):
    """Fills the caches with what all prompts of a batch hold.

    That is up to `end` tokens; the tokens that follow overwrite what stands
    there. Compiled functions read `length` tokens, a number that they know.

    Returns:
        Hidden states `(B, length, d)`, of which those up to `end` count, and
        the caches.
    """
    if not is_eager(prompt):
        return step(prompt, caches, 0)
    end = int(end)
    hidden, caches = step(prompt[:, :end], caches, 0)
    rest = ops.shape(prompt)[1] - end
    return ops.pad(hidden, [[0, 0], [0, rest], [0, 0]]), caches


def after_stop_tokens(token_ids, stop_token_ids, prompt_mask):
    """Returns which positions follow the first stop token generated.

    Args:
        token_ids: Integer tensor `(B, T)`.
        stop_token_ids: Sequence of integers, or `None`: no text ends early.
        prompt_mask: Boolean tensor `(B, T)`, True for tokens of the prompt; a
            stop token among them ends nothing.

    Returns:
        Boolean tensor `(B, T)`.
    """
    if stop_token_ids is None:
        return ops.zeros_like(token_ids, dtype="bool")
    stops = ops.zeros_like(token_ids, dtype="bool")
    for token_id in stop_token_ids:
        stops = ops.logical_or(stops, ops.equal(token_ids, token_id))
    stops = ops.cast(
        ops.logical_and(stops, ops.logical_not(prompt_mask)), "int32"
    )
    return ops.cumsum(stops, axis=-1) - stops > 0


def check_prompts(tokenized, max_tokens, name):
    """Raises if a prompt is too long: packing would cut it silently.

    Args:
        tokenized: List of ids, or of lists of them.
        max_tokens: Integer, the longest prompt allowed.
        name: String, the argument that sets this limit.
    """
    rows = tokenized
    if not len(rows) or not hasattr(rows[0], "__len__"):
        rows = [rows]
    longest = max(map(len, rows))
    if longest > max_tokens:
        raise ValueError(
            f"A prompt has {longest} tokens, but there is room for "
            f"{max_tokens}. Shorten it, or pass a larger {name}. "
            f"Received: {longest} tokens"
        )


def check_sampler(sampler):
    """Raises unless `compile` found a sampler; KerasHub takes any string."""
    if not isinstance(sampler, keras_hub.samplers.Sampler):
        raise ValueError(
            f"sampler must be one of {', '.join(SAMPLERS)}, or a "
            f"keras_hub.samplers.Sampler. Received: sampler={sampler!r}"
        )


@multiplications.register(GenerationMixin)
def _multiplications(task, length, source_length):
    backbone = task.backbone
    table = backbone.vocabulary_size * backbone.hidden_dim
    return added(
        multiplications(backbone, length, source_length),
        {"output layer": length * table},
    )
