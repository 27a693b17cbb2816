"""KerasHub's ViT and CLIP."""

import keras
from keras import ops

from keras_synth._backend.internals import keras_hub_part
from keras_synth.folding import plain_layer
from keras_synth.layers import SynthesizerEncoder, SyntheticAttention
from keras_synth.surgery.conversions import attention_pairs, register


def _vit_encoder(layer, clone):
    blocks = [clone(block) for block in layer.encoder_layers]
    made = keras.Sequential(
        [clone(layer.dropout), *blocks, clone(layer.layer_norm)],
        name=layer.name,
    )
    made.build_from_config(layer.get_build_config())
    return made, []


def _vit_encoder_block(layer, clone):
    attention = SyntheticAttention(
        layer.num_heads,
        layer.key_dim,
        dropout=layer.attention_dropout,
        use_bias=layer.use_mha_bias,
        synthesizer="V",
    )
    mixed = layer.attention_dropout != layer.dropout_rate
    made = SynthesizerEncoder(
        layer.mlp_dim,
        layer.num_heads,
        synthesizer=attention if mixed else "V",
        dropout=layer.dropout_rate,
        activation="gelu",
        layer_norm_epsilon=layer.layer_norm_epsilon,
        normalize_first=True,
        attention_use_bias=layer.use_mha_bias,
        feed_forward_use_bias=layer.use_mlp_bias,
        feed_forward_dropout=layer.dropout_rate,
        dtype=layer.dtype_policy,
        name=layer.name,
    )
    made.build((None, None, layer.hidden_dim))
    return made, [
        *attention_pairs(layer.mha, made.attention),
        (layer.layer_norm_1, made.attention_residual.norm),
        (layer.layer_norm_2, made.feed_forward_residual.norm),
        (layer.mlp.dense_1, made.feed_forward.intermediate),
        (layer.mlp.dense_2, made.feed_forward.output_dense),
    ]


def _vit_patches(layer, clone):
    made = _Patches.from_config(_Patches.get_config(layer))
    made.build_from_config(layer.get_build_config())
    return made, [(layer, made)]


_VIT = [
    keras_hub_part("models.vit.vit_layers", name)
    for name in ("ViTEncoder", "ViTEncoderBlock", "ViTPatchingAndEmbedding")
]
if None not in _VIT:

    @keras.saving.register_keras_serializable(package="keras_synth")
    class _Patches(_VIT[2]):  # type: ignore[misc, valid-type]
        """KerasHub's, with the arguments that its config lacks (0.32)."""

        def get_config(self):
            config = _VIT[2].get_config(self)
            names = ("use_patch_bias", "data_format")
            config |= {name: getattr(self, name) for name in names}
            del config["num_patches"], config["num_positions"]
            return config

    @plain_layer.register(_Patches)
    @plain_layer.register(_VIT[2])
    def _plain_patches(layer, graph):
        """Of stock layers, because files of KerasHub's class do not load."""

        def call(x):
            x = graph.copy(layer.patch_embedding, x)
            if layer.data_format == "channels_first":
                x = ops.transpose(x, (0, 2, 3, 1))
            x = ops.reshape(x, (-1, layer.num_patches, layer.hidden_dim))
            if layer.use_class_token:
                token = graph.constant(ops.convert_to_numpy(layer.class_token))
                first = ops.zeros_like(x[:, :1]) + token
                x = ops.concatenate([first, x], axis=1)
            table = layer.position_embedding.embeddings
            return x + graph.constant(ops.convert_to_numpy(table)[None])

        return call

    for _class, _row in zip(
        _VIT, (_vit_encoder, _vit_encoder_block, _vit_patches), strict=True
    ):
        register(_class, _row)


def _clip_encoder_layer(layer, clone):
    """A block of CLIP's encoders, of images and of texts."""
    shape = layer.get_build_config()["input_shape"]
    x = keras.Input(shape[1:], dtype=layer.compute_dtype)
    y = clone(layer.layer_norm_1)(x)
    y = clone(layer.attention)(y, y, use_causal_mask=layer.use_causal_mask)
    x1 = keras.layers.Add()([x, y])
    y = clone(layer.dense_1)(clone(layer.layer_norm_2)(x1))
    if layer.intermediate_activation == "quick_gelu":
        y *= ops.sigmoid(1.702 * y)  # files cannot name KerasHub's function
    else:
        y = clone(layer.activation)(y)
    y = keras.layers.Add()([x1, clone(layer.dense_2)(y)])
    return keras.Model(x, y, name=layer.name), []


_CLIP = keras_hub_part("models.clip.clip_layers", "CLIPEncoderLayer")
if _CLIP is not None:
    register(_CLIP, _clip_encoder_layer)
