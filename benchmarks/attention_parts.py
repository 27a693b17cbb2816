"""What streamed attention takes beside PyTorch's kernel, product by product.

    KERAS_BACKEND=torch python benchmarks/attention_parts.py
    KERAS_BACKEND=torch python benchmarks/attention_parts.py --batch-size 16 \
        --sequence-length 256

Attention proper, without projections, on a CPU: the context and the gradients
of V and of R+V by pieces, of V by the kernel, and the products of pairs alone,
two of the context and five of the gradients, into tensors at hand. What pieces
take above their products are passes over the weights.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import command
import steps
from measuring import interleaved
from rich.console import Console
from rich.table import Table

from keras_synth.attention.routes.in_place import threads
from keras_synth.command_line import require_at_least
from keras_synth.routes import pieces


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add("--batch-size", type=int, default=4)
    add("--sequence-length", type=int, default=1024)
    add("--num-heads", type=int, default=8)
    add("--key-dim", "width of a head, k", type=int, default=64)
    add("--rounds", type=int, default=11)
    settings = command.parse(parser)
    names = "batch_size", "sequence_length", "num_heads", "key_dim", "rounds"
    require_at_least(parser, settings, **dict.fromkeys(names, 1))
    if steps.BACKEND != "torch" or steps.on_gpu():
        parser.error(
            "Pieces are compared with PyTorch's kernel for CPUs: set "
            f"KERAS_BACKEND=torch. Received: {steps.device()}"
        )
    return settings


class Products:
    """The products of pairs of each head, and nothing else."""

    def __init__(self, queries, keys, values, upstream):
        self.given = [
            x.transpose(1, 2).contiguous()
            for x in (queries, keys, values, upstream)
        ]

    def context(self):
        self._share(self._context_of)

    def gradient(self):
        self._share(self._gradient_of)

    def _share(self, of_head):
        batch, heads, length, width = self.given[0].shape

        def of_heads(taken):
            scores = self.given[0].new_empty((2, length, length))
            features = self.given[0].new_empty((3, length, width))
            for h in taken:
                for b in range(batch):
                    own = (x[b, h] for x in self.given)
                    of_head(*own, scores, features)

        threads.share(list(range(heads)), of_heads)

    @staticmethod
    def _context_of(queries, keys, values, _, scores, features):
        _product(queries, keys.T, scores[0])
        _product(scores[0], values, features[0])

    @staticmethod
    def _gradient_of(queries, keys, values, upstream, scores, features):
        _product(queries, keys.T, scores[0])
        _product(upstream, values.T, scores[1])
        _product(scores[1], keys, features[0])
        # Transposed, as pieces sum them: a large matrix is better left alone.
        by_keys, by_values = (x.view(x.shape[::-1]) for x in features[1:])
        _product(queries.T, scores[1], by_keys)
        _product(upstream.T, scores[0], by_values)


def _product(x, y, out):
    import torch

    torch.mm(x, y, out=out)


def contenders(settings):
    """Returns `{name: (context, gradient)}`, functions without arguments."""
    import torch

    torch.manual_seed(0)
    batch, length = settings.batch_size, settings.sequence_length
    heads, width = settings.num_heads, settings.key_dim
    shape = batch, length, heads, width
    queries, keys, values, upstream = (torch.randn(shape) for _ in range(4))
    queries *= width**-0.5
    table = torch.randn(1, heads, length, length)
    alpha = torch.full((1, 1, 1, 1), 0.5)
    products = Products(queries, keys, values, upstream)
    return {
        "products alone": (products.context, products.gradient),
        "PyTorch's kernel": _kernel(queries, keys, values, upstream),
        "V by pieces": _pieces(queries, keys, None, values, None, upstream),
        "R+V by pieces": _pieces(queries, keys, table, values, alpha, upstream),
    }


def _kernel(*given):
    import torch

    queries, keys, values, upstream = (x.transpose(1, 2) for x in given)
    operands = [x.detach().requires_grad_() for x in (queries, keys, values)]
    attend = torch.nn.functional.scaled_dot_product_attention
    context = attend(*operands, scale=1.0)

    def forward():
        with torch.no_grad():
            attend(*operands, scale=1.0)

    def backward():
        torch.autograd.grad(context, operands, upstream, retain_graph=True)

    return forward, backward


def _pieces(queries, keys, bias, values, scale, upstream):
    import torch

    operands = pieces.Operands(queries, keys, bias, values, scale)
    constants = pieces.Constants()
    output = pieces.context(operands, constants)

    def forward():
        with torch.no_grad():
            pieces.context(operands, constants)

    def backward():
        with torch.no_grad():
            pieces.gradient(upstream, output, operands, constants)

    return forward, backward


def main():
    settings = parse()
    calls = contenders(settings)
    contexts = {name: pair[0] for name, pair in calls.items()}
    gradients = {name: pair[1] for name, pair in calls.items()}
    found = [interleaved(x, settings.rounds) for x in (contexts, gradients)]
    table = Table(
        title=f"{steps.device()}: milliseconds, B {settings.batch_size}, "
        f"T {settings.sequence_length}, H {settings.num_heads}, "
        f"k {settings.key_dim}"
    )
    table.add_column("")
    for column in ("context", "gradients"):
        table.add_column(column, justify="right")
    for name in calls:
        timings = [timing[name] for timing in found]
        table.add_row(
            name,
            *(f"{1000 * t.median:.1f} ±{1000 * t.spread:.0f}" for t in timings),
        )
    Console().print(table)


if __name__ == "__main__":
    main()
