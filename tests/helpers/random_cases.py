"""Random attention layers, and their results in NumPy.

A `Case` says everything about one call of a layer. `expected` is its output
by the formulas of `reference.py` in float64, from the layer's weights by their
paths; `Run` is the layer itself, whose output and gradients it returns.
"""

import contextlib
import functools
from typing import Any, NamedTuple
from unittest import mock

import cases
import keras
import numpy as np
import reference
from arrays import normal
from backend import derived
from keras import ops

from keras_synth import mixers, routes
from keras_synth.attention.routes import sizes
from keras_synth.mixers import kernel_sums

LOCAL, REACH = "local_dense(window=2)", 2
TILED = "max_length=3, long_inputs='tile'"
# Sums of synthesizers, and groups of heads where one name has a bracket.
SYNTHESIZERS = [
    ("V",),
    ("D",),
    ("FD",),
    (LOCAL,),
    ("R",),
    ("FR",),
    ("Fix",),
    ("gaussian",),
    ("relative(max_distance=3)",),
    ("R", "V"),
    ("D", "V"),
    ("FD", "V"),
    ("R", "FD"),
    ("R", "FR", "D"),
    ("gaussian", "V"),
    ("relative(max_distance=3)", "V"),
    ("alibi", "V"),
    ("alibi", "FD"),
    ("alibi", "R", "V"),
    ("alibi(trainable=True)", "V"),
    ("D(hidden_dim=None)",),
    ("D(shared_heads=True)",),
    ("FD(hidden_dim=None)",),
    ("FD(factors=(3, 6))",),
    (f"R({TILED})",),
    (f"Fix({TILED})",),
    (f"FR(rank=2, {TILED})",),
    (f"D({TILED})",),
    (f"FD({TILED})",),
    ("mixture(D + V, share_queries=True)",),
    ("mixture(R + V, per_head=False)",),
]
MIXERS = [name for name in cases.MIXERS if name.split("(")[0] in mixers.names()]
LENGTHS = range(1, 13)  # tokens
BIASES = [None, None, "table", "samples"]
POLICIES = ["float32", "float32", "mixed_bfloat16", "mixed_float16"]
ROUTES = ["shared", "kernel", "tiles", "torch_cpu"]
# Entries of a piece's weights: a row or so, a head or so.
PIECES = [None, 4, 12, 24]


class Case(NamedTuple):
    """One call of one layer.

    Fields:
        parts: Tuple of names that are added up; or the name of a mixer.
        heads: Integer, `H`.
        key_dim: Integer, `k`.
        max_length: Integer, `N`.
        value_dim: Integer, `v`; `None` for other mixers.
        batch: Integer, `B`.
        target: Integer, `T`.
        source: Integer, `S`; `None` for self-attention.
        causal: Whether no token sees a later one.
        window: `sliding_window` or `None`.
        masks: Set of names: `"value"`, `"query"`, and `"pairs"` or
            `"pairs of samples"`.
        bias: Leading axes of an `attention_bias`: `"table"`, `"samples"` or
            `None`.
        policy: String, the dtype policy.
        route: Name of the route that is asked first, or `None`.
        piece: Integer, entries of a piece's weights where layers cut; `None`
            for as many as they take by themselves.
        seed: Integer, of weights, tokens and masks.
    """

    parts: Any
    heads: int
    key_dim: int
    max_length: int
    batch: int
    target: int
    seed: int
    value_dim: int | None = None
    source: int | None = None
    causal: bool = False
    window: int | None = None
    masks: frozenset = frozenset()
    bias: str | None = None
    policy: str = "float32"
    route: str | None = None
    piece: int | None = None

    @property
    def is_mixer(self):
        return isinstance(self.parts, str)

    @property
    def length(self):
        """The source's length, `S`."""
        return self.target if self.source is None else self.source

    @property
    def width(self):
        """Model width, `d`."""
        return self.heads * self.key_dim


def attention_case(parts, choose):
    """A `Case` of `SyntheticAttention`; every second one is a single sample.

    Args:
        parts: Tuple of names, as in `SYNTHESIZERS`.
        choose: Function that returns one of a sequence, as `random.choice`.
    """
    target, source = choose(LENGTHS), choose([None, *LENGTHS])
    if parts == (LOCAL,):
        source = None  # neighbours are of one sequence
    longest = max(target, source or 0)
    return Case(
        parts=parts,
        heads=choose([1, 2, 3, 4]),
        key_dim=choose([1, 2, 3, 4]),
        max_length=longest + choose([0, 1, 3, 4]),
        value_dim=choose([1, 2, 3, 4]),
        batch=choose([1, 1, 2, 3]),
        target=target,
        source=source,
        causal=choose([False, True]),
        window=choose([None, None, *LENGTHS]),
        masks=_masks(choose, True),
        bias=choose(BIASES),
        policy=choose(POLICIES),
        route=choose([None, None, *ROUTES]),
        piece=choose(PIECES),
        seed=choose(range(2**16)),
    )


def mixer_case(name, choose):
    """A `Case` of another mixer, with supported arguments."""
    supported = supports(name)
    lengths = [None, *LENGTHS] if "cross_attention" in supported else [None]
    return Case(
        parts=name,
        heads=choose([1, 2, 3]),
        key_dim=choose([1, 2, 3, 4]),
        max_length=max(LENGTHS),
        batch=choose([1, 1, 2]),
        target=choose(LENGTHS),
        source=choose(lengths),
        causal="causal_mask" in supported and choose([False, True]),
        masks=_masks(choose, "attention_mask" in supported),
        bias=choose(BIASES) if "attention_bias" in supported else None,
        policy=choose(
            POLICIES[:1] if "jumps" in cases.MIXERS[name] else POLICIES
        ),
        piece=choose(PIECES),
        seed=choose(range(2**16)),
    )


def _masks(choose, pairs):
    found = {choose([None, "value"]), choose([None, "query"])}
    if pairs:
        found.add(choose([None, None, "pairs", "pairs of samples"]))
    return frozenset(found - {None})


@functools.cache
def supports(name):
    """Names of a mixer's true attributes, without `supports_`."""
    mixer = mixers.get(name, 2, 4, max(LENGTHS))
    found = [x for x in dir(mixer) if x.startswith("supports_")]
    names = {x.removeprefix("supports_") for x in found if getattr(mixer, x)}
    # A pattern is of one sequence.
    patterned = getattr(mixer, "pattern", None) is not None
    return names - {"cross_attention"} if patterned else names


# --- the layer itself ---------------------------------------------------------


class Run:
    """The layer of a `Case`, and the arguments of its call.

    Attributes:
        arrays: List of float32 arrays by which gradients are taken: query,
            value if it is another tensor, bias if there is one, then trained
            weights.
        masks: Dictionary of boolean arrays, masks of the call.
        direction: Array `(B, T, d)`; the loss is its product with the output.
    """

    def __init__(self, case):
        self.case = case
        self.layer = self._made()
        rng = np.random.default_rng(case.seed)
        shape = (case.batch, case.target, case.width)
        self.direction = rng.normal(size=shape).astype("float32")
        x = [normal(*shape, seed=case.seed)]
        if case.source is not None:
            shape = (case.batch, case.source, case.width)
            x.append(normal(*shape, seed=case.seed + 1))
        self.number_of_inputs = len(x)
        self.layer.build(*(array.shape for array in x))
        for weight in self.layer.weights:
            value = 0.5 * rng.normal(size=weight.shape)
            if weight.dtype == "float32":
                weight.assign(value)
        self.masks = self._masks(rng)
        if case.bias is not None:
            batch = 1 if case.bias == "table" else case.batch
            pairs = (batch, case.heads, case.target, case.length)
            x.append(rng.normal(size=pairs).astype("float32"))
        trained = [_array(w) for w in self.layer.trainable_variables]
        self.arrays = [*x, *trained]

    def _made(self):
        case = self.case
        if case.is_mixer:
            return mixers.get(
                case.parts,
                case.heads,
                case.key_dim,
                case.max_length,
                dtype=case.policy,
            )
        return mixers.SyntheticAttention(
            case.heads,
            case.key_dim,
            case.value_dim,
            sliding_window=case.window,
            synthesizer=" + ".join(case.parts),
            max_length=case.max_length,
            dtype=case.policy,
        )

    def _masks(self, rng):
        case = self.case
        sizes = {
            "value": ("value_mask", (case.batch, case.length)),
            "query": ("query_mask", (case.batch, case.target)),
            "pairs": ("attention_mask", (1, case.target, case.length)),
            "pairs of samples": (
                "attention_mask",
                (case.batch, case.target, case.length),
            ),
        }
        return {
            name: rng.random(shape) < 0.7
            for name, shape in map(sizes.get, sorted(case.masks))
        }

    def loss(self, masks, direction):
        """The loss as a function of `arrays`, and the output."""
        layer, count = self.layer, self.number_of_inputs
        trained, fixed = (
            layer.trainable_variables,
            layer.non_trainable_variables,
        )
        fixed = [(v, v.value) for v in fixed]
        given = {"use_causal_mask": True} if self.case.causal else {}
        given |= {k: ops.convert_to_tensor(mask) for k, mask in masks.items()}
        direction = ops.convert_to_tensor(direction)

        def loss(*tensors):
            inputs, rest = tensors[:count], tensors[count:]
            own = dict(given)
            if self.case.bias is not None:
                own["attention_bias"], rest = rest[0], rest[1:]
            mapping = [*zip(trained, rest, strict=True), *fixed]
            with keras.StatelessScope(state_mapping=mapping):
                output = layer(*inputs, **own)
            output = ops.cast(output, "float32")
            return ops.sum(output * direction), output

        return loss

    def found(self, compiled):
        """The output `(B, T, d)`, and gradients by `arrays`.

        Args:
            compiled: Whether XLA compiles forward and backward pass.
        """
        with self._ways():
            loss = self.loss(self.masks, self.direction)
            return derived(loss, self.arrays, compiled)

    def found_twice(self, compiled):
        """The same, from each sample twice with half the loss each."""
        masks = {
            name: mask if len(mask) != self.case.batch else _twice(mask)
            for name, mask in self.masks.items()
        }
        count = self.number_of_inputs
        if self.case.bias == "samples":
            count += 1
        arrays = [*map(_twice, self.arrays[:count]), *self.arrays[count:]]
        with self._ways():
            loss = self.loss(masks, _twice(self.direction) / 2)
            output, slopes = derived(loss, arrays, compiled)
        first, second = np.split(output, 2)
        slopes[:count] = [sum(np.split(x, 2)) for x in slopes[:count]]
        return first, second, slopes

    @contextlib.contextmanager
    def _ways(self):
        """Asks for the case's route first, and for pieces of its size."""
        with contextlib.ExitStack() as stack:
            if self.case.piece is not None:
                for module, name, number in self._sizes():
                    patch = mock.patch.object(module, name, number)
                    stack.enter_context(patch)
            if self.case.route is not None:
                first = Preferred(routes.get(self.case.route))
                stack.enter_context(routes.using(first))
            yield

    def _sizes(self):
        """Constants from which on layers cut, made small."""
        entries = self.case.piece
        yield sizes, "TILE", entries
        yield sizes, "FEWEST_ROWS", 2
        yield sizes, "LARGE_TABLE", 1
        yield kernel_sums, "CHUNK", 4


class Preferred(routes.Route):
    """Another route, chosen for all requests that it supports."""

    def __init__(self, route):
        self.route, self.name = route, f"preferred {route.name}"
        self.takes_weights = route.takes_weights

    def serves(self, request):
        return self.route.serves(request)

    def cost(self, request):
        return -1.0

    def run(self, request):
        return self.route.run(request)


def _twice(x):
    return np.concatenate([x, x])


def _array(variable):
    return np.array(ops.convert_to_numpy(variable.value), "float32")


# --- the oracle ---------------------------------------------------------------


def expected(case, arrays, run):
    """The output `(B, T, d)` in float64, of `Run.arrays` or others like them.

    Args:
        case: `Case` of synthesizers.
        arrays: List of arrays, as `Run.arrays`.
        run: `Run`, for its masks and its weights that are not trained.
    """
    count = run.number_of_inputs
    inputs, rest = arrays[:count], arrays[count:]
    added = 0.0
    if case.bias is not None:
        added, rest = rest[0], rest[1:]
    trained = run.layer.trainable_variables
    weights = {_path(v): _array(v) for v in run.layer.weights}
    weights |= {_path(v): x for v, x in zip(trained, rest, strict=True)}
    query, source = inputs[0], inputs[-1]
    logits = _logits(case, weights, query, source) + added
    mask = reference.combine_masks(
        case.batch,
        case.heads,
        case.target,
        case.length,
        causal=case.causal,
        **run.masks,
    )
    if case.window is not None:
        distance = _distances(case)
        mask &= np.abs(distance) < case.window
    if case.parts == (LOCAL,):
        mask &= np.abs(_distances(case)) <= REACH
    names = ("kernel", "bias")
    values, outputs = (
        [weights[f"{name}/{end}"] for end in names]
        for name in ("value", "attention_output")
    )
    return reference.layer(source, *values, *outputs, logits, mask)


def along(run, slopes, formula):
    """Gradients times a random direction, and the sum that they should have.

    Args:
        run: `Run`.
        slopes: List of arrays, the gradients of the loss by `run.arrays`.
        formula: Function of arrays like them that returns the output.
    """
    rng, step = np.random.default_rng(run.case.seed), 1e-5
    directions = [rng.normal(size=x.shape) for x in run.arrays]
    pairs = [*zip(run.arrays, directions, strict=True)]
    ahead, behind = (
        np.sum(run.direction * formula([x + s * d for x, d in pairs]))
        for s in (step, -step)
    )
    products = [x * d for x, d in zip(slopes, directions, strict=True)]
    return products, (ahead - behind) / (2 * step)


def _path(variable):
    return variable.path.split("/", 1)[1]


def _distances(case):
    """`j - i`, `(T, S)`."""
    return np.arange(case.length) - np.arange(case.target)[:, None]


def _logits(case, weights, query, source):
    """The logits of all parts, `(B or 1, H, T, S)`."""
    single = len(case.parts) == 1
    whole = _below(weights, "synthesizer")
    biases, mixed = [], []
    for number, name in enumerate(case.parts):
        own = whole if single else _part(whole, number)
        logits = FORMULAS[name](own, query, source, case)
        (biases if name.startswith("alibi") else mixed).append(logits)
    if len(mixed) > 1:
        mixed = [reference.mixture_logits(mixed, whole["alphas"])]
    return sum(biases + mixed)


def _below(weights, name):
    """The weights of a layer, by their paths in it."""
    start = f"{name}/"
    return {
        path.removeprefix(start): x
        for path, x in weights.items()
        if path.startswith(start)
    }


def _part(own, number):
    return _below(own, f"part_{number}")


def _dot_product(own, query, source, case):
    names = ["query/kernel", "query/bias", "key/kernel", "key/bias"]
    return reference.dot_product_logits(query, source, *map(own.get, names))


def _dense(own, query, source, case):
    names = ["hidden/kernel", "hidden/bias", "W2", "b2"]
    return reference.dense_logits(query, *map(own.get, names), case.length)


def _linear_dense(own, query, source, case):
    return reference.linear_dense_logits(
        query, own["W_a"], own["b2"], case.length
    )


def _tiled_dense(own, query, source, case):
    logits = _dense(own, query, source, case._replace(source=3))
    return reference.tiled_columns(logits, case.length)


def _local_dense(own, query, source, case):
    names = ["hidden/kernel", "hidden/bias"]
    hidden = reference.relu(reference.project(query, *map(own.get, names)))
    offsets = np.clip(_distances(case), -REACH, REACH) + REACH
    logits = np.einsum("bthk,tshk->bhts", hidden, own["W2"][offsets])
    return logits + own["b2"][:, offsets]


def _factorized_dense(own, query, source, case):
    names = ["hidden/kernel", "hidden/bias", "A", "b_A", "B", "b_B"]
    return reference.factorized_dense_logits(
        query, *map(own.get, names), case.length
    )


def _tiled_factorized_dense(own, query, source, case):
    logits = _factorized_dense(own, query, source, case._replace(source=3))
    return reference.tiled_columns(logits, case.length)


def _random(own, query, source, case):
    return reference.random_logits(own["R"], case.target, case.length)


def _factorized_random(own, query, source, case):
    return reference.factorized_random_logits(
        own["R1"], own["R2"], case.target, case.length
    )


def _tiled_random(own, query, source, case):
    return reference.tiled_random_logits(own["R"], case.target, case.length)


def _tiled_factorized_random(own, query, source, case):
    return reference.tiled_factorized_random_logits(
        own["R1"], own["R2"], case.target, case.length
    )


def _relative(own, query, source, case):
    table = own["distances"]
    most = table.shape[1] // 2
    return table[:, np.clip(_distances(case), -most, most) + most][None]


def _shared_queries(own, query, source, case):
    """D's hidden layer is the query projection of V, before its scaling."""
    dense, pairs = _part(own, 0), _part(own, 1)
    dense["hidden/kernel"] = pairs["query/kernel"]
    dense["hidden/bias"] = pairs["query/bias"]
    logits = [
        _dense(dense, query, source, case),
        _dot_product(pairs, query, source, case),
    ]
    return reference.mixture_logits(logits, own["alphas"])


def _shared_alphas(own, query, source, case):
    assert own["alphas"].shape == (2,)
    logits = [
        _random(_part(own, 0), query, source, case),
        _dot_product(_part(own, 1), query, source, case),
    ]
    return reference.mixture_logits(logits, own["alphas"])


def _gaussian(own, query, source, case):
    offsets = np.resize([-1, 0, 1], case.heads)[:, None, None]
    return -((_distances(case) - offsets) ** 2)[None] / 2.0


def _alibi(own, query, source, case):
    """Press et al., 2022: for 3 heads those of 2, then the first of 4."""
    slopes = {
        1: [2**-8],
        2: [2**-4, 2**-8],
        3: [2**-4, 2**-8, 2**-2],
        4: [2**-2, 2**-4, 2**-6, 2**-8],
    }[case.heads]
    slopes = np.array(slopes)[:, None, None]
    return -slopes * np.abs(_distances(case))[None]


def _learned_alibi(own, query, source, case):
    slopes = np.exp(own["log_slopes"])[:, None, None]
    return -slopes * np.abs(_distances(case))[None]


FORMULAS = {
    "V": _dot_product,
    "D": _dense,
    "FD": _factorized_dense,
    LOCAL: _local_dense,
    "R": _random,
    "Fix": _random,
    "FR": _factorized_random,
    "relative(max_distance=3)": _relative,
    "gaussian": _gaussian,
    "alibi": _alibi,
    "alibi(trainable=True)": _learned_alibi,
    "D(hidden_dim=None)": _linear_dense,
    "D(shared_heads=True)": _dense,
    "FD(hidden_dim=None)": _factorized_dense,
    "FD(factors=(3, 6))": _factorized_dense,
    f"R({TILED})": _tiled_random,
    f"Fix({TILED})": _tiled_random,
    f"FR(rank=2, {TILED})": _tiled_factorized_random,
    f"D({TILED})": _tiled_dense,
    f"FD({TILED})": _tiled_factorized_dense,
    "mixture(D + V, share_queries=True)": _shared_queries,
    "mixture(R + V, per_head=False)": _shared_alphas,
}
