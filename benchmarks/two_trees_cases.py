"""Random calls of layers, as dictionaries that JSON holds, and their arrays.

A case says its layer and sizes, options of the layer and arguments of the call
by their names, and how it is called. What it leaves out has its default.
Imports no backend, so that both checkouts are asked the same.
"""

import random

import numpy as np

ATOMS = """V V V R R R D D FR FD Fix V(fixed=True) FR(rank=3) R(gain=30.0)
R(max_length=4,long_inputs='tile') FR(max_length=5,long_inputs='tile')
D(shared_heads=True) D(hidden_dim=None) D(hidden_dim=3,activation='gelu')
D(max_length=4,long_inputs='tile') FD(hidden_dim=None) FD(factors=(4,100))
local_dense(window=2) relative(max_distance=3) gaussian pattern additive
gaussian(offsets=(-2,1),stddev=0.5) pattern(patterns=('current','next'))
""".split()
BIASES = """alibi alibi(trainable=True) t5_relative
t5_relative(num_buckets=8,max_distance=6)
t5_relative(num_buckets=6,max_distance=9,bidirectional=False)""".split()
# {} is a small number.
MIXERS = """fnet pooling(size={}) light_conv(width={}) dynamic_conv(width={})
light_conv(width={},use_glu=False) light_conv(width=4,border='renormalize')
mlp_mixer mlp_mixer(hidden_dim=5) gmlp gmlp(ffn_dim=6) linformer(rank={})
linformer(rank={},share='none') compressed(stride={})
compressed(stride={},kernel=3) linear performer(features=8) additive relu
reformer(bucket_size=4,hashes=2) routing(clusters={}) sinkhorn(block_size={})
local(window={}) local(window={},synthesizer='R+V') local_dense(window={})
local(window={},synthesizer='D') strided(stride={}) strided(stride=3,window={})
longformer(window={}) longformer(window={},global_tokens=2)
big_bird(block_size={}) big_bird(block_size=2,random_blocks=1,seed=1)""".split()
PATTERNS = """local(window={}) local(window={},dilation=2) first(tokens={})
global(tokens={}) stride(stride={}) blocks(number=1,block_size={})
blocks(number=3,block_size=2) random(number={},block_size=3)
random(number=1,block_size={})""".split()
# What mixers cannot, by the beginnings of their names.
OF_TOKENS = "fnet pooling light_ dynamic_ mlp_ gmlp reformer routing sinkhorn"
OF_ONE = (*OF_TOKENS.split(), "longformer", "local(", "strided", "big_bird")
LOW_RANK = ("linformer", "compressed", "linear", "performer")
NO_PAIRS = (*OF_TOKENS.split(), *LOW_RANK, "longformer")
NOT_CAUSAL = ("fnet", "linformer", "compressed", *OF_TOKENS.split()[6:])
OPTIONS = """dtype seed value_dim use_bias sliding_window use_gate output_shape
normalizer flash_attention dropout kernel_initializer pattern attention_axes
windows""".split()
# Axes of what is given for pairs of tokens; B1S and B11S are padding.
MASKS = "TS BTS 1TS B1TS BHTS 11TS 1HTS B1S B11S".split()
BIAS_AXES = "11TS 1HTS BHTS B1TS B11S 111S BH1S TS".split()
LOW = [-1e9, -1e30, float(np.finfo("float32").min), -np.inf]
HOWS = {"gradients": 45, "inference": 14, "cache": 20, "remember": 8}
HOWS |= {"compiled": 7, "fold": 6}
# What should be refused, or lies at the edge of it.
SPOILS = [
    *({"layer": name} for name in ["R+", "", "Q", "R+fnet", "R(rank=3)"]),
    *({"layer": name} for name in ["heads(V=9)", "linear+V", "local"]),
    *({"max_length": value} for value in [None, 0, 1, 2.5]),
    *({"heads": value} for value in [0, -1, 2.5]),
    *({"key_dim": value} for value in [0, None]),
    *({"spoil": x} for x in ["longer mask", "wider bias", "integers"]),
    *({"spoil": x} for x in ["rank 2", "unknown argument"]),
    *({"pattern": x} for x in ["lokal(window=2)", "local(window=-1)", 3]),
    *({"sliding_window": 0}, {"sliding_window": 2.5}, {"value_dim": 0}),
    *({"dropout": 1.5}, {"normalizer": "softmin"}, {"output_shape": []}),
    *({"attention_axes": [0]}, {"flash_attention": True}, {"seed": "one"}),
    *({"kernel_initializer": "glorot"}, {"windows": 3}),
]


def draw(seed, number):
    """Returns the case of this number."""
    r = random.Random(f"{seed}/{number}")
    is_mixer, block = r.random() < 0.3, None
    if r.random() < 0.1:
        block = r.choice(["encoder", "decoder"])
    layer = _filled(r, MIXERS) if is_mixer else _synthesizer(r)
    heads = 4 if layer.startswith("heads(") else r.choice([1, 2, 3, 4, 4])
    case = {
        "layer": layer,
        "draw": r.randrange(2**20),
        **_sizes(r, heads, block, is_mixer or block),
        **_options(r, is_mixer or block),
        **_arguments(r),
        "how": r.choices([*HOWS], [*HOWS.values()])[0],
    }
    if case["how"] == "cache":
        case |= _chunks(r, case["T"])
    _leave_out(case)
    case = {key: x for key, x in case.items() if x is not None}
    if r.random() < 0.06:
        case |= {"spoiled": True, **r.choice(SPOILS)}
    return case


def _filled(r, names):
    return r.choice(names).replace("{}", str(r.randint(1, 4)))


def _some(r, **options):
    """Options with their probabilities and functions that draw a value."""
    return {key: f() for key, (p, f) in options.items() if r.random() < p}


def _synthesizer(r):
    def atoms(number):
        return [r.choice(ATOMS) for _ in range(number)]

    kind = r.random()
    if kind < 0.1:
        first, (a, b) = r.randint(1, 3), atoms(2)
        return f"heads({first} * {a} + {4 - first} * {b})"
    if kind < 0.2:
        one, two = atoms(2)
        other = "mixture(D + V, share_queries=True)"
        parts = [r.choice([f"mixture({one} + {two}, per_head=False)", other])]
    else:
        parts = atoms(r.choice([1, 1, 2, 2, 3]))
    if r.random() < 0.2:
        parts.append(r.choice(BIASES))
        r.shuffle(parts)
    return " + ".join(parts)


def _sizes(r, heads, block, plain):
    longest = r.choices([12, 40, 300], [80, 17, 3])[0]
    T = r.choice([1, *[r.randint(1 + longest // 4, longest)] * 9])
    S = r.choice([None, None, 1, T, r.randint(1, longest)])
    key_dim, sides = r.randint(1, 5), r.random() < 0.04 and not plain
    return {
        "heads": heads,
        "key_dim": key_dim,
        "width": heads * (key_dim if block else r.choice([1, 2, 2, 3])),
        "max_length": max(T, S or 0) * (3 if sides else 1)
        + r.choice([0, 1, 9]),
        "B": r.choice([1, 2, 3]),
        "T": T,
        "S": S,
        "A": r.randint(1, 3) if sides else None,
        "block": block,
    }


def _options(r, plain):
    halves = ["mixed_float16", "mixed_bfloat16", "float16"]
    options = _some(
        r,
        dtype=(0.15, lambda: r.choice(halves)),
        seed=(0.3, lambda: r.randrange(9)),
    )
    if plain:
        return options

    def pattern():
        names = [_filled(r, PATTERNS) for _ in range(r.choice([1, 1, 2, 3]))]
        return r.choice([" | ".join(names)] * 7 + ["array"])

    return options | _some(
        r,
        value_dim=(0.3, lambda: r.randint(1, 5)),
        use_bias=(0.2, lambda: False),
        sliding_window=(0.15, lambda: r.randint(1, 8)),
        use_gate=(0.1, lambda: True),
        output_shape=(0.1, lambda: r.choice([3, [2, 3]])),
        normalizer=(0.35, lambda: r.choice(["softmax1", "relu", "sigmoid"])),
        flash_attention=(0.1, lambda: False),
        dropout=(0.1, lambda: 0.3),
        kernel_initializer=(0.05, lambda: "he_normal"),
        pattern=(0.4, pattern),
        attention_axes=(1.0, lambda: r.choice([None, [1], [2], [1, 2], [-2]])),
    )


def _arguments(r):
    """Arguments of the call, and what is done with them."""
    many = 0.0 if r.random() < 0.3 else 0.35

    def padding():
        return r.choice(["right", "right", "left", "holes", "none"])

    return _some(
        r,
        value_mask=(many, padding),
        key_mask=(many / 2, padding),
        query_mask=(many, padding),
        mask=(many, padding),
        attention_mask=(many, lambda: r.choice(MASKS)),
        mask_dtype=(0.1, lambda: r.choice(["int32", "float32"])),
        attention_bias=(0.3, lambda: r.choice(BIAS_AXES)),
        low=(0.05, lambda: [r.choice(["left", "right"]), r.choice(LOW)]),
        use_causal_mask=(0.3, lambda: True),
        return_attention_scores=(0.15, lambda: True),
        training=(0.2, lambda: True),
        separate_key=(0.2, lambda: True),
        carried_mask=(0.1, lambda: True),
        nonfinite=(0.2, lambda: r.choice(["nan", "inf"])),
        scale=(0.15, lambda: r.choice([0.1, 1.5, 3.0])),
        route=(0.3, lambda: r.randrange(60)),
        group=(0.3, lambda: r.choice([4, 12, 24, 100])),
        spec=(0.1, lambda: True),
    )


def _chunks(r, left):
    """How many tokens are read at once, from where, and the mask's kind."""
    chunks, most = [], r.choice([1, 1, left, left, left])
    while left and len(chunks) < 12:
        chunks.append(r.randint(1, min(most, left)))
        left -= chunks[-1]
    return {"chunks": chunks, "S": None} | _some(
        r,
        room=(0.4, lambda: r.choice([1, 4])),
        begin=(0.2, lambda: 2),
        all_places=(0.3, lambda: True),
        not_causal=(0.1, lambda: True),
        tensor_start=(0.3, lambda: True),
    )


def _leave_out(case):
    """Takes away what the layer is known to refuse."""
    layer, block = case["layer"], case.get("block")

    def leave(*names):
        for name in names:
            case.pop(name, None)

    if layer.startswith(OF_ONE) or "local_dense" in layer or "pattern" in case:
        leave("S", "separate_key")
    if case["S" if "S" in case else "A"] is None and block:
        leave("S")
    if layer.startswith(NO_PAIRS):
        leave("return_attention_scores", "attention_bias")
        leave("attention_mask")
    if layer.startswith(NOT_CAUSAL):
        leave("use_causal_mask")
    if layer.startswith(("fnet", "pooling")) or "seed=" in layer or block:
        leave("seed")
    if case.get("A") is None:
        leave("attention_axes")
    else:
        leave("attention_mask", "attention_bias", "nonfinite", "spec")
    if "S" in case and case["S"] is not None:
        leave("mask")
    if "dropout" in case:
        leave("flash_attention")
    if block:
        leave("separate_key", "key_mask", "query_mask", "carried_mask", "spec")
    if block == "encoder":
        leave("S", "use_causal_mask", "value_mask")
    if block == "decoder" and layer.startswith(NOT_CAUSAL):
        case["block"] = "encoder"
        leave("S", "value_mask")
    if case["how"] == "remember":
        leave("key_mask", "query_mask", "mask", "mask_dtype")
    no_cache = layer.startswith(NOT_CAUSAL) or case.get("block") == "encoder"
    no_source = layer.startswith(OF_ONE) or "pattern" in case or block
    if (case["how"] == "cache" and no_cache) or (
        case["how"] == "remember" and no_source
    ):
        case["how"] = "gradients"
        leave("chunks")
    if block and case["how"] == "fold":
        case["how"] = "inference"


class Arrays:
    """What a layer is called with.

    Attributes:
        rng: NumPy's generator, after the arrays.
        sizes: Dictionary from letters of axes to sizes.
        inputs: List of arrays: query, and value and key where they differ.
        given: Dictionary of arguments: masks, and what is no array.
        bias: The `attention_bias`, or `None`.
        is_token: Boolean `(B, T)`, the rows whose outputs count; `None` for
            all of them.
    """

    def __init__(self, case):
        self.rng = np.random.default_rng(case["draw"])
        self.sizes = {"1": 1, "H": case["heads"], "S": case["T"], **case}
        self.dtype = case.get("mask_dtype", "bool")
        sides = ["A"] if "A" in case else []
        shape = ["B", *sides]
        lengths = ["T"]
        if "S" in case or case.get("separate_key"):
            lengths += ["S", "S"] if case.get("separate_key") else ["S"]
        self.inputs = [self.normal([*shape, n, "width"]) for n in lengths]
        self.given = {}
        for name in ("value_mask", "key_mask", "query_mask", "mask"):
            if name in case:
                length = "S" if name in ("value_mask", "key_mask") else "T"
                self.given[name] = self._padding(case[name], [*shape, length])
        if "attention_mask" in case:
            self.given["attention_mask"] = self.holes(case["attention_mask"])
        for name in ("use_causal_mask", "training", "return_attention_scores"):
            if name in case:
                self.given[name] = case[name]
        self.bias = None
        if "attention_bias" in case:
            self.bias = self.normal(case["attention_bias"])
            if "low" in case:
                side, value = case["low"]
                part = self.bias.shape[-1] // 3
                columns = slice(part) if side == "left" else slice(-part, None)
                self.bias[..., columns] = value
        self.is_token = None
        if "nonfinite" in case and "chunks" not in case:
            self._spread(float(case["nonfinite"]))
        if "spoil" in case:
            self._spoil(case["spoil"])

    def shape(self, axes):
        return [self.sizes[axis] for axis in axes]

    def normal(self, axes):
        return self.rng.normal(size=self.shape(axes)).astype("float32")

    def holes(self, axes):
        return (self.rng.random(self.shape(axes)) < 0.7).astype(self.dtype)

    def _padding(self, kind, axes):
        if kind == "holes":
            return self.holes(axes)
        *shape, length = self.shape(axes)
        counts = self.rng.integers(1, length + 1, size=(*shape, 1))
        if kind == "none":  # the first sample is padding only
            counts[0] = 0
        places = np.arange(length)
        if kind == "left":
            places = places[::-1]
        return (places < counts).astype(self.dtype)

    def _spread(self, value):
        """Puts NaN or inf where there is padding."""

        def padding(*names):
            masks = [self.given[n] for n in names if n in self.given]
            return ~np.all(masks, axis=0) if masks else None

        queries = padding("query_mask", "mask")
        keys = padding("value_mask", "key_mask")
        if len(self.inputs) == 1:
            keys = padding("value_mask", "key_mask", "mask")
            both = queries is not None and keys is not None
            queries = queries & keys if both else None
        if queries is not None:
            self.inputs[0][queries] = value
            self.is_token = ~queries
        if keys is not None:
            for x in self.inputs[1:]:
                x[keys] = value
            if self.bias is not None and self.bias.ndim == 4:
                every = (
                    keys if len(self.bias) == len(keys) else keys.all(0)[None]
                )
                every = np.broadcast_to(every[:, None, None], self.bias.shape)
                self.bias[every] = value

    def _spoil(self, how):
        length = self.sizes["S"]
        if how == "longer mask":
            self.given["value_mask"] = np.ones((self.sizes["B"], length + 1))
        elif how == "wider bias":
            self.bias = np.zeros((1, 5, 1, length), "float32")
        elif how == "integers":
            self.inputs[0] = self.inputs[0].astype("int32")
        elif how == "rank 2":
            self.inputs[0] = self.inputs[0][:, 0]
        else:
            self.given["values"] = 1
