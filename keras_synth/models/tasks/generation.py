"""Text generation of causal and sequence-to-sequence models."""

import numpy as np
from keras import ops

from keras_synth._backend.execution import is_eager
from keras_synth.analysis import multiplications
from keras_synth.analysis.counts import added
from keras_synth.models.preprocessors.columns import column, decoded
from keras_synth.models.tasks.examples import check_batches, is_dataset


def checked_prompts(model, inputs):
    """Returns inputs of `generate`, or raises if their numbers are wrong.

    A preprocessor receives strings and lists of them, in a new dictionary,
    because KerasHub changes it.
    """
    if is_dataset(inputs):
        return inputs
    if model.preprocessor is not None:
        inputs = _texts(inputs, "inputs")
    parts = inputs if isinstance(inputs, dict) else {"inputs": inputs}
    counts = {name: [*np.shape(x), 1][0] for name, x in parts.items()}
    if len({*counts.values()}) != 1 or 0 in counts.values():
        raise ValueError(
            "`generate` needs at least one prompt, and one for each source. "
            f"Received: {counts}"
        )
    # KerasHub distributes inputs before it calls the generate function.
    (count,) = {*counts.values()}
    check_batches(count, count)
    return inputs


def _texts(prompts, name):
    """A string, or a list of them, from any form of texts."""
    if isinstance(prompts, dict):
        return {k: _texts(x, f"{name}[{k!r}]") for k, x in prompts.items()}
    if isinstance(prompts, bytes) or getattr(prompts, "shape", None) == ():
        prompts = decoded(np.asarray(prompts))
    if isinstance(prompts, str):
        return prompts
    return decoded(column(prompts, name))


def sample_tokens(
    model, stack, step, prompt, prompt_mask, caches, stop_token_ids
):
    """Continues prompts of different lengths; returns ids and a mask.

    `step` is a function of token ids `(B, T)`, caches, the position of the
    first token and, optionally, `padding_mask=`. It returns hidden states
    `(B, T, d)` and filled caches, which are nested tensors, batch axis first.
    """
    prompt_mask = ops.cast(prompt_mask, "bool")
    # The shortest prompt ends here. Longer ones keep their tokens.
    end = ops.amin(ops.sum(ops.cast(prompt_mask, "int32"), axis=-1))
    length = ops.shape(prompt)[1]
    if all(block.attention.overwrites_cache for block in stack.blocks):
        # Compiled functions read `length` tokens, a known number. Later tokens
        # overwrite the rest.
        count = int(end) if is_eager(prompt) else length
        hidden, caches = step(prompt[:, :count], caches, 0)
        hidden = ops.pad(hidden, [[0, 0], [0, length - count], [0, 0]])
    else:
        # These caches accept each token once, and the last one is read below.
        places = ops.broadcast_to(ops.arange(length), ops.shape(prompt))
        hidden, _ = step(prompt, caches, 0, padding_mask=places < end)
        _, caches = step(prompt, caches, 0, padding_mask=places < end - 1)

    # A vocabulary that was rounded up has ids without a token.
    tokenizer = getattr(model.preprocessor, "tokenizer", None)
    size = tokenizer and tokenizer.vocabulary_size()

    def next_token(prompt, caches, index):
        last = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
        hidden, caches = step(last, caches, index - 1)
        logits = model.backbone.logits(hidden)[:, 0, :size]
        return logits, hidden[:, 0], caches

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
