"""Mixers compared with published packages of their authors or others.

`make test-full` installs these packages.
"""

import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import beside, numpy
from cases import randomized
from keras import ops

from keras_synth import mixers
from keras_synth.masks import AttentionMask

H, K, D, N, T = 2, 4, 8, 9, 7


def made(name, **options):
    return randomized(mixers.get(name, H, K, N, **options), 0.5)


@beside("transformers")
def test_longformer_is_that_of_transformers():
    import torch
    from transformers import LongformerConfig
    from transformers.models.longformer import modeling_longformer

    config = LongformerConfig(
        hidden_size=D,
        num_attention_heads=H,
        attention_window=[4],
        attention_probs_dropout_prob=0.0,
    )
    theirs = modeling_longformer.LongformerSelfAttention(config, 0).eval()
    ours = made("longformer(window=2, global_tokens=2)")
    # Their module ends before the output projection.
    ours.attention_output.set_weights([np.eye(D).reshape(H, K, D), np.zeros(D)])
    for name in ("query", "key", "value"):
        for their_name, our_name in (
            (name, name),
            (f"{name}_global", f"global_{name}"),
        ):
            linear, dense = getattr(theirs, their_name), getattr(ours, our_name)
            kernel = numpy(dense.kernel).reshape(D, D).T
            linear.weight.data = torch.tensor(kernel)
            linear.bias.data = torch.tensor(numpy(dense.bias).reshape(D))
    x, real = normal(3, 8, D), padding(8, 7, 3, size=8)
    kinds = np.where(real, 0.0, -10000.0).astype("float32")
    kinds[:, :2] = 10000.0
    kinds = torch.tensor(kinds)
    expected = theirs(
        torch.tensor(x),
        attention_mask=kinds,
        is_index_masked=kinds < 0,
        is_index_global_attn=kinds > 0,
        is_global_attn=True,
    )[0]
    found = numpy(ours(x, mask=real))
    close(found[real], numpy(expected)[real])


@pytest.mark.filterwarnings("ignore:distutils Version classes")
@beside("performer_pytorch")
def test_performer_is_that_of_performer_pytorch():
    from performer_pytorch import performer_pytorch as package

    mixer = made("performer(features=6)")
    q, k, v = (
        ops.convert_to_tensor(normal(2, T, H, K, seed=i)) for i in range(3)
    )
    projection = mixer.projection.value
    features = [
        package.softmax_kernel(
            x.transpose(1, 2),
            projection_matrix=projection,
            is_query=is_query,
            eps=0,
        )
        for x, is_query in ((q, True), (k, False))
    ]
    expected = package.linear_attention(*features, v.transpose(1, 2))
    found = mixer.attend(q, k, v, AttentionMask())
    close(found, expected.transpose(1, 2), atol=1e-4)


@beside("linformer")
@pytest.mark.parametrize("share", ["heads", "key_value"])
def test_linformer_is_that_of_its_package(share):
    import linformer as package
    import torch

    mixer = made("linformer(rank=3)", share=share, use_bias=False)
    # Its keys are its values where they share a table.
    theirs = package.LinformerSelfAttention(
        D, N, k=3, heads=H, share_kv=share == "key_value"
    )
    with torch.no_grad():
        for ours, linear in (("query", "to_q"), ("key", "to_k")):
            kernel = getattr(mixer, ours).kernel.value.reshape(D, H * K)
            getattr(theirs, linear).weight.copy_(kernel.T)
        theirs.proj_k.copy_(mixer.E.value[0].T)
        if share == "key_value":
            mixer.value.kernel.assign(mixer.key.kernel)
        else:
            kernel = mixer.value.kernel.value.reshape(D, H * K)
            theirs.to_v.weight.copy_(kernel.T)
            theirs.proj_v.copy_(mixer.F.value[0].T)
        kernel = mixer.attention_output.kernel.value.reshape(H * K, D)
        theirs.to_out.weight.copy_(kernel.T)
        theirs.to_out.bias.zero_()
        for length in (T, N):
            x = torch.tensor(normal(3, length, D))
            close(mixer(x), theirs(x))


@beside("g_mlp_pytorch")
@pytest.mark.parametrize("causal", [False, True])
def test_gmlp_is_that_of_g_mlp_pytorch(causal):
    """Of full length, the only one that it mixes when not causal."""
    import torch
    from g_mlp_pytorch import g_mlp_pytorch as package

    theirs = package.gMLPBlock(dim=D, dim_ff=12, seq_len=N, causal=causal)
    ours = made("gmlp", ffn_dim=12)
    torch.manual_seed(0)
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight)
    weights = {name: numpy(w) for name, w in theirs.named_parameters()}
    ours.value.kernel.assign(weights["proj_in.0.weight"].T)
    ours.value.bias.assign(weights["proj_in.0.bias"])
    ours.norm.gamma.assign(weights["sgu.norm.weight"])
    ours.norm.beta.assign(weights["sgu.norm.bias"])
    ours.W.assign(weights["sgu.weight"][0])
    ours.b.assign(weights["sgu.bias"][0])
    ours.output_dense.kernel.assign(weights["proj_out.weight"].T)
    ours.output_dense.bias.assign(weights["proj_out.bias"])
    x = ops.convert_to_tensor(normal(3, N, D))
    expected = theirs.to(x.device)(x)
    found = ours(x, use_causal_mask=causal)
    close(found, expected, atol=1e-4)
