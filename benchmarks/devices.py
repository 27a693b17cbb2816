"""What a device holds and computes of the paper's T5-base variants.

    python benchmarks/devices.py

Computed, not measured: the bytes of the float32 weights by the axes that
`get_layout_map` cuts, four times that in training with Adam (weights,
gradients and two moments; activations come on top), and the multiplications of
a sample of 512 / 512 tokens, of which devices along the model axis share heads
and width evenly.
"""

import math
import re

import measuring

from keras_synth import models
from keras_synth.analysis import multiplications
from keras_synth.models import layouts

VARIANTS = ("V", "R", "D", "R+V", "D+V")
MESHES = ((1, 1), (1, 2), (1, 4), (2, 4), (8, 1))  # batch, model


def entries(model, mesh):
    """Entries of all weights that one device of a mesh holds."""
    sizes = {layouts.DATA: mesh[0], layouts.MODEL: mesh[1], None: 1}
    total = 0
    for weight in model.weights:
        count = math.prod(weight.shape)
        for pattern, axes in layouts.sharded().items():
            if re.fullmatch(pattern, weight.path):
                for axis, length in zip(axes, weight.shape, strict=False):
                    # Tables of one row for all heads are not cut.
                    count //= sizes[axis] if length > 1 else 1
        total += count
    return total


def main():
    measuring.options(__doc__).parse_args()
    rows = []
    for name in VARIANTS:
        config = models.config("t5_base", name)
        model = models.SynthesizerSeq2SeqBackbone(**config)
        found = sum(multiplications(model, 512, 512).values())
        found += 512 * model.vocabulary_size * model.hidden_dim
        sizes = [4 * entries(model, mesh) / 1e9 for mesh in MESHES]
        cells = [f"{size:.2f} / {4 * size:.2f} GB" for size in sizes]
        rows.append([name, f"{found / 1e9:.0f} G", *cells])
        del model
    shapes = [f"{batch} x {model}" for batch, model in MESHES]
    heads = ["variant", "multiplications", *shapes]
    measuring.print_table("T5 base, meshes of batch x model", heads, rows)


if __name__ == "__main__":
    main()
