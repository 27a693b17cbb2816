"""Copies of weights between backbones of the same form."""

import keras


def copy_weights(source: keras.Model, target: keras.Model) -> list[str]:
    """Copies the weights of a pre-trained backbone to another.

    Weights are matched by their paths. Weights that only the target has, such
    as an embedding of segments, keep their values.

    Args:
        source: A built `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone`.
        target: Another backbone.

    Returns:
        List of strings, the paths of the target's weights that kept their
        values.

    Raises:
        ValueError: If the target lacks a weight of the source, or has it with
            another shape. The target then does not change.

    Example:

    ```python
    options = dict(
        vocabulary_size=100, num_layers=1, num_heads=2, hidden_dim=16,
        intermediate_dim=32, synthesizer="R", max_sequence_length=16,
    )
    pretrained = keras_synth.models.SynthesizerBackbone(**options)
    for_pairs = keras_synth.models.SynthesizerBackbone(
        **options, num_segments=2
    )
    kept = keras_synth.models.copy_weights(pretrained, for_pairs)
    print(kept)  # ['segment_embedding/embeddings']
    ```
    """
    given = {weight.path: weight for weight in source.weights}
    own = {weight.path: weight for weight in target.weights}
    wrong = [
        f"{path} {tuple(weight.shape)}, not "
        f"{tuple(own[path].shape) if path in own else 'there'}"
        for path, weight in given.items()
        if path not in own or own[path].shape != weight.shape
    ]
    if wrong:
        raise ValueError(
            "Both backbones must have the same synthesizer, width, length and "
            "vocabulary. Build the target from the source's config. Received: "
            f"{'; '.join(wrong[:3])}"
            + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        )
    for path, weight in given.items():
        # A copy, because JAX would share memory, which training frees.
        own[path].assign(keras.ops.convert_to_numpy(weight))
    target.pretrained = True
    return [path for path in own if path not in given]
