"""Our mixers beside published PyTorch packages, at equal shapes, in one run.

    pip install -c constraints.txt -e ".[all,parity]"
    KERAS_BACKEND=torch python benchmarks/published.py --sequence-length 4096

Each pair is timed in turn, one sample, no padding: a forward pass or a training
step with the projections of queries, keys, values and outputs, with biases
where the package has them. Packages that are not installed are left out, and
named. Ratios above 1: ours is faster.

local-attention lets a token see its own block and both beside it, 3 w tokens;
ours sees 2 w + 1.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import measuring
import steps


def _program(call, *modules):
    """A program of a function and the PyTorch modules of its weights."""
    weights = [w for x in modules for w in x.parameters() if w.requires_grad]
    return steps.Program(lambda trained, frozen, x: call(x), weights)


def _local(cell):
    from local_attention import LocalMHA

    layer = LocalMHA(
        dim=cell.width,
        window_size=64,
        heads=cell.heads,
        dim_head=cell.width // cell.heads,
        use_rotary_pos_emb=False,
    )
    return _program(layer, layer)


def _performer(cell):
    from performer_pytorch import SelfAttention

    layer = SelfAttention(
        cell.width,
        heads=cell.heads,
        dim_head=cell.width // cell.heads,
        nb_features=64,
        feature_redraw_interval=None,
        qkv_bias=True,
    )
    return _program(layer, layer)


def _linformer(cell):
    from linformer import LinformerSelfAttention

    sizes = {"k": 64, "heads": cell.heads}
    layer = LinformerSelfAttention(cell.width, cell.length, **sizes)
    return _program(layer, layer)


def _longformer(cell):
    import torch
    from transformers import LongformerConfig
    from transformers.models.longformer import modeling_longformer

    config = LongformerConfig(
        hidden_size=cell.width,
        num_attention_heads=cell.heads,
        attention_window=[128],  # 64 on each side
        attention_probs_dropout_prob=0.0,
    )
    layer = modeling_longformer.LongformerSelfAttention(config, 0)
    output = torch.nn.Linear(cell.width, cell.width)
    mask = torch.zeros(cell.batch, cell.length)
    mask[:, 0] = 10000.0  # global

    def attend(x):
        context = layer(
            x,
            attention_mask=mask,
            is_index_masked=mask < 0,
            is_index_global_attn=mask > 0,
            is_global_attn=True,
        )[0]
        return output(context)

    return _program(attend, layer, output)


def _big_bird(cell):
    import torch
    from transformers import BigBirdConfig
    from transformers.models.big_bird import modeling_big_bird

    config = BigBirdConfig(
        hidden_size=cell.width,
        num_attention_heads=cell.heads,
        block_size=64,
        num_random_blocks=3,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=cell.length,
    )
    layer = modeling_big_bird.BigBirdBlockSparseAttention(config, seed=0)
    output = torch.nn.Linear(cell.width, cell.width)
    model = modeling_big_bird.BigBirdModel
    blocked, band, rows, columns = model.create_masks_for_block_sparse_attn(
        torch.ones(cell.batch, cell.length), config.block_size
    )

    def attend(x):
        context = layer(
            x,
            band_mask=band,
            from_mask=rows,
            to_mask=columns,
            from_blocked_mask=blocked,
            to_blocked_mask=blocked,
        )
        context = context[0] if isinstance(context, tuple) else context
        return output(context)

    return _program(attend, layer, output)


# Ours, the package, and what makes the package's program.
PAIRS = {
    "local(window=64, use_bias=False)": ("local-attention", _local),
    "performer(features=64)": ("performer-pytorch", _performer),
    "linformer(rank=64, use_bias=False)": ("linformer", _linformer),
    "longformer(window=64)": ("transformers, Longformer", _longformer),
    "big_bird(block_size=64)": ("transformers, BigBird", _big_bird),
}


def main():
    parser = measuring.options(
        __doc__, sequence_length=4096, hidden_dim=256, num_heads=4, rounds=7
    )
    settings = parser.parse_args()
    if steps.BACKEND != "torch":
        parser.error(
            "the packages are for PyTorch; set KERAS_BACKEND=torch. "
            f"Received: {steps.BACKEND}"
        )
    cell = steps.Cell(
        1, settings.sequence_length, settings.hidden_dim, settings.num_heads
    )
    x, rows = cell.inputs(), []
    for mixer, (package, make) in PAIRS.items():
        try:
            theirs = make(cell)
        except ImportError as error:
            measuring.progress(f"{package} is left out: {error}")
            continue
        programs = {mixer: steps.make(mixer, cell), package: theirs}
        row = [mixer, package]
        for mode in steps.MODES.values():
            timed = measuring.interleaved(
                {name: mode(program, x) for name, program in programs.items()},
                settings.rounds,
            )
            ours, other = (timed[name].median for name in programs)
            row += [f"{1000 * ours:.0f}", f"{1000 * other:.0f}"]
            row.append(f"{other / ours:.2f}")
        rows.append(row)
    heads = ["ours", "theirs"]
    for mode in steps.MODES:
        heads += [f"{mode}, ms", "theirs", "ratio"]
    title = f"T {cell.length}, d {cell.width}, H {cell.heads}"
    measuring.print_table(title, heads, rows)


if __name__ == "__main__":
    main()
