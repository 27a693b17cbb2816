"""Text generation of causal and sequence-to-sequence models."""

from typing import Any

from keras import ops

from keras_synth._backend.execution import is_eager
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added
from keras_synth.models.preprocessors.checks import check_padding
from keras_synth.types import Mixin


class GenerationMixin(Mixin):
    """Checks the padding of `generate`'s inputs, before it is compiled.

    It comes before the base class of a KerasHub task.
    """

    generate_function: Any

    def make_generate_function(self) -> Any:
        if self.generate_function is None:
            function = super().make_generate_function()

            def checked(inputs, stop_token_ids=None):
                check_padding(inputs)
                return function(inputs, stop_token_ids=stop_token_ids)

            self.generate_function = checked
        return self.generate_function


def sample_tokens(
    model,
    step,
    prompt,
    prompt_mask,
    caches,
    stop_token_ids,
    hidden_states=None,
):
    """Continues prompts of different lengths; returns ids and a mask.

    Args:
        model: The task, with a sampler.
        step: Function of token ids `(B, T)`, caches, the position of the first
            token and, optionally, `padding_mask=`; returns hidden states
            `(B, T, d)` and filled caches.
        prompt: Integer tensor `(B, length)`.
        prompt_mask: Tensor `(B, length)`, nonzero for tokens of a prompt.
        caches: Nested tuple of tensors, batch axis first.
        stop_token_ids: Sequence of ids that end a text, or `None`.
        hidden_states: Function that returns the hidden states of the prompt,
            `(B, length, d)`, if caches accept each token only once; `None` if
            tokens that are read again overwrite the cache.
    """
    prompt_mask = ops.cast(prompt_mask, "bool")
    # The shortest prompt ends here. Longer ones keep their tokens.
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
    """Fills the caches with `end` tokens, the length of the shortest prompt.

    Compiled functions read `length` tokens, a known number, and later tokens
    overwrite the rest.
    """
    if not is_eager(prompt):
        return step(prompt, caches, 0)
    end = int(end)
    hidden, caches = step(prompt[:, :end], caches, 0)
    rest = ops.shape(prompt)[1] - end
    return ops.pad(hidden, [[0, 0], [0, rest], [0, 0]]), caches


def after_stop_tokens(token_ids, stop_token_ids, prompt_mask):
    """Returns which positions follow the first stop token generated.

    Stop tokens of the prompt do not count.
    """
    stops = ops.zeros_like(token_ids, dtype="bool")
    for token_id in () if stop_token_ids is None else stop_token_ids:
        stops = ops.logical_or(stops, ops.equal(token_ids, token_id))
    stops = ops.cast(
        ops.logical_and(stops, ops.logical_not(prompt_mask)), "int32"
    )
    return ops.cumsum(stops, axis=-1) - stops > 0


def multiplications_of_lm(task, length, source_length):
    """Counts multiplications of a backbone and of its output layer."""
    backbone = task.backbone
    table = backbone.vocabulary_size * backbone.hidden_dim
    return added(
        multiplications(backbone, length, source_length),
        {"output layer": length * table},
    )
