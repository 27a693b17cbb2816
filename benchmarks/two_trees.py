"""Compares two checkouts of this package, one random call after the other.

Each checkout answers in a process of its own. Compared are outputs, scores,
gradients, the weights' paths, configs, and refusals. The exit status is 1 if
something differs that `INTENDED` does not explain.

    python benchmarks/two_trees.py OLD NEW --calls 2000
    python benchmarks/two_trees.py OLD NEW --case '{"layer": "R", ...}'
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import sys

import numpy as np
from checkouts import Side

WORKER = pathlib.Path(__file__).resolve().with_name("two_trees_worker.py")
FRESH = 400  # cases that a process answers before another one takes over
TOLERANCES = {"float32": 1e-4, "float16": 0.05, "bfloat16": 0.2}

ATOMS = """V V V R R R D D FR FD Fix V(fixed=True) FR(rank=3) R(gain=30.0)
R(max_length=4,long_inputs='tile') FR(max_length=5,long_inputs='tile')
D(shared_heads=True) D(hidden_dim=None) D(hidden_dim=3,activation='gelu')
D(max_length=4,long_inputs='tile') FD(hidden_dim=None) FD(factors=(4,100))
local_dense(window=2) relative(max_distance=3) gaussian pattern additive
mixture(R+V,per_head=False) mixture(D+V,share_queries=True) alibi
alibi(trainable=True) t5_relative(num_buckets=8,max_distance=6)""".split()
# {} is a small number.
MIXERS = """fnet pooling(size={}) light_conv(width={}) dynamic_conv(width={})
mlp_mixer gmlp(ffn_dim=6) linformer(rank={}) compressed(stride={}) linear
performer(features=8) additive relu reformer(bucket_size=4,hashes=2)
routing(clusters={}) sinkhorn(block_size={}) local(window={})
local(window={},synthesizer='R+V') local_dense(window={}) longformer(window={})
strided(stride={}) longformer(window={},global_tokens=2)
big_bird(block_size={},seed=1)""".split()
WINDOWS = [
    "local(window={})",
    "local_dense(window={})",
    "longformer(window={})",
]
PATTERNS = """local(window={}) local(window={},dilation=2) first(tokens={})
global(tokens={}) stride(stride={}) blocks(number=3,block_size=2)
random(number=1,block_size={})""".split()
# Axes of what is given for pairs of tokens; B1S and B11S are padding.
MASKS = "TS BTS 1TS B1TS BHTS 11TS 1HTS B1S B11S".split()
BIASES = "11TS 1HTS BHTS B1TS B11S 111S BH1S TS".split()
LOW = [-1e9, -1e30, float(np.finfo("float32").min), -np.inf]
HOWS = {"gradients": 4, "inference": 2, "cache": 3, "remember": 1, "fold": 1}
# What should be refused, or lies at the edge of it.
SPOILS = [
    *({"layer": x} for x in ["R+", "", "Q", "R+fnet", "R(rank=3)", "linear+V"]),
    *({"max_length": x} for x in [None, 0, 1, 2.5]),
    *({"num_heads": x} for x in [0, -1, 2.5]),
    *({"key_dim": x} for x in [0, None]),
    *({"pattern": x} for x in ["lokal(window=2)", "local(window=-1)", 3]),
    *({"sliding_window": 0}, {"value_dim": 0}, {"dropout": 1.5}),
    *({"normalizer": "softmin"}, {"output_shape": []}, {"seed": "one"}),
    *({"attention_axes": [0]}, {"windows": 3}, {"attention_mask": "BB"}),
]


def draw(seed, number):
    """Returns a random call: a dictionary that JSON holds.

    It has the layer's name and options, sizes by the letters of axes, the axes
    or the kind of arguments, and `how` the layer is called.
    """
    r = random.Random(f"{seed}/{number}")
    longest = r.choices([12, 40, 300], [80, 17, 3])[0]
    T, how = r.randint(1, longest), r.choices([*HOWS], [*HOWS.values()])[0]
    case = {
        "draw": r.randrange(2**20),
        "how": how,
        "num_heads": 4,
        "key_dim": r.randint(1, 5),
        "max_length": longest + r.choice([0, 1, 9]),
        **{"B": r.choice([1, 2, 3]), "T": T, "d": r.choice([4, 8])},
    }
    if r.random() < 0.3:
        names = WINDOWS if how == "cache" and r.random() < 0.5 else MIXERS
        case["layer"] = _filled(r, names)
    else:
        case |= {"layer": _synthesizer(r), **_options(r)}
        if how != "cache" and "pattern" not in case and r.random() < 0.3:
            case["S"] = r.randint(1, longest)
    if r.random() < 0.15:
        halves = ["mixed_float16", "mixed_bfloat16", "float16"]
        case["dtype"] = r.choice(halves)
    case |= _arguments(r)
    if how == "cache":  # how many tokens are read at once, and from where
        left, most, case["chunks"] = T, r.choice([1, T, T]), []
        while left and len(case["chunks"]) < 12:
            case["chunks"].append(r.randint(1, min(most, left)))
            left -= case["chunks"][-1]
        case |= _some(r, begin=(0.2, [2]), tensor_start=(0.3, [True]))
    return case | (r.choice(SPOILS) if r.random() < 0.05 else {})


def _filled(r, names):
    return r.choice(names).replace("{}", str(r.randint(1, 4)))


def _some(r, **options):
    """Options of which each has a probability and a list of values."""
    drawn = {k: (r.random() < p, r.choice(x)) for k, (p, x) in options.items()}
    return {k: x for k, (is_in, x) in drawn.items() if is_in}


def _synthesizer(r):
    if r.random() < 0.1:
        a, b = r.sample(ATOMS, 2)
        return f"heads(1 * {a} + 3 * {b})"
    return " + ".join(r.choices(ATOMS, k=r.choice([1, 1, 2, 2, 3])))


def _options(r):
    union = [_filled(r, PATTERNS) for _ in range(r.choice([1, 2, 3]))]
    return _some(
        r,
        seed=(0.3, range(9)),
        value_dim=(0.3, [1, 2, 5]),
        use_bias=(0.2, [False]),
        sliding_window=(0.15, range(1, 9)),
        use_gate=(0.1, [True]),
        output_shape=(0.1, [3, [2, 3]]),
        normalizer=(0.4, ["softmax1", "softmax1", "relu", "sigmoid"]),
        flash_attention=(0.1, [False]),
        pattern=(0.4, [" | ".join(union)]),
    )


def _arguments(r):
    padding = ["right", "right", "left", "holes", "none"]
    many = r.choice([0.0, 0.35, 0.35])
    return _some(
        r,
        value_mask=(many, padding),
        key_mask=(many / 2, padding),
        query_mask=(many, padding),
        attention_mask=(many, MASKS),
        attention_bias=(0.3, BIASES),
        low=(0.05, LOW),
        use_causal_mask=(0.3, [True]),
        return_attention_scores=(0.15, [True]),
        nonfinite=(0.2, ["nan", "inf"]),
        scale=(0.15, [0.1, 1.5, 3.0]),
        route=(0.3, range(60)),
    )


# Why what differs may: patterns of "name: how {case}".
INTENDED = {
    "a synthesizer's dtype is its layer's, unless it is given": (
        r"config .*dtype[^:]*: "
    ),
    "V has options for rotary positions and shared heads": (
        r"config .*(rotary\w*|num_key_value_heads): "
    ),
    "the config of sinkhorn names its default initializer": (
        r"config sort_initializer"
    ),
    "what a mask forbids lies below what a bias hides": r'.*"low": ',
    "mixtures with Local Dense can be folded": (
        r'refusal: TypeError / None .*"how": "fold".*local_dense'
    ),
    "additive, relu, local, strided and big_bird are SyntheticAttention": (
        r"(config|weights|paths|supports|refusal).*"
        r'"layer": "(additive|relu|local\(|strided|big_bird)'
    ),
}


def differences(case, old, new):
    """Returns pairs of what differs and how."""
    if "refusal" in old or "refusal" in new:
        names = ["refusal"]
    elif old["weights"] != new["weights"]:
        names = ["weights"]
    else:
        names = [*dict.fromkeys([*old, *new])]
    pairs = [(name, _how(case, name, old, new)) for name in names]
    return [(name, how) for name, how in pairs if how]


def _how(case, name, old, new):
    x, y = old.get(name), new.get(name)
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return "" if type(x) is type(y) and x == y else f"{x} / {y}"
    if x.shape != y.shape:
        return f"{x.shape} / {y.shape}"
    allowed = rounding(case, name, old)
    if {"nonfinite", "low"} & {*case}:  # padding brings no NaN any more
        x = np.where(np.isnan(x), y, x)
    return unequal(x, y, allowed)


def rounding(case, name, old):
    """The largest difference that is rounding, of all arrays of a kind."""
    policy = case.get("dtype", "float32").removeprefix("mixed_")
    alike = [x for k, x in old.items() if k.split()[0] == name.split()[0]]
    every = max(_largest(x) for x in alike if isinstance(x, np.ndarray))
    return TOLERANCES[policy] * (0.1 + _largest(old[name]) + every / 10)


def _largest(x):
    return np.abs(x[np.isfinite(x)]).max(initial=0.0)


def unequal(x, y, allowed):
    """How two arrays differ by more than rounding, or an empty string."""
    with np.errstate(invalid="ignore"):
        near = (np.abs(x - y) <= allowed) | (x == y)
    bad = ~(near | (np.isnan(x) & np.isnan(y)))
    if not bad.any():
        return ""
    first = tuple(map(int, np.argwhere(bad)[0]))
    pair = f"{x[first]:.5g} / {y[first]:.5g}"
    most = f"the largest is {_largest(x):.3g}"
    return f"{bad.sum()} of {bad.size}, at {first} {pair}, {most}"


def compared(sides, case):
    """Returns both answers and what differs: triples with why it may."""
    for side in sides:
        if side.answered == FRESH:
            side.end()
        side.send(case)
    answers = []
    for side in sides:
        try:
            answers.append(side.receive())
        except EOFError:
            answers.append({"refusal": f"end of the process: {side.end()}"})
    found = []
    for name, how in differences(case, *answers):
        text = f"{name}: {how} {json.dumps(case)}"
        whys = [k for k, x in INTENDED.items() if re.match(x, text)]
        found.append((name, how, whys[0] if whys else None))
    return answers, found


def main():
    args = parsed()
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    sides = [Side(x, [WORKER]) for x in (args.old, args.new)]
    numbers = range(args.first, args.first + args.calls)
    cases = [draw(args.seed, number) for number in numbers]
    if args.case:
        cases = [json.loads(args.case)]
    cases = [c for c in cases if re.search(args.only, json.dumps(c))]
    hows, whys, refused = (collections.Counter() for _ in range(3))
    for number, case in enumerate(cases, 1):
        answers, found = compared(sides, case)
        hows[case["how"]] += 1
        whys.update({why for _, _, why in found})
        if all("refusal" in x for x in answers):
            refused[answers[1]["words"].strip().partition("\n")[0][:90]] += 1
        faults = [f"{name}: {how[:300]}" for name, how, why in found if not why]
        if faults:
            print(*faults[:4], f"    --case '{json.dumps(case)}'", sep="\n")
        if args.case:
            print(*answers, sep="\n")
        if number % 100 == 0:
            print(number, "calls", file=sys.stderr, flush=True)
    print(f"{hows.total()} calls: {dict(hows)}")
    print(f"{refused.total()} refused by both:")
    for words, count in refused.most_common(10):
        print(f"{count:5} {words}")
    unexplained = whys.pop(None, 0)
    print(f"{unexplained} differ without a reason; as intended:")
    for why, count in whys.most_common():
        print(f"{count:5} {why}")
    sys.exit(bool(unexplained))


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("old", type=pathlib.Path, help="a checkout")
    add("new", type=pathlib.Path, help="another one")
    add("--calls", type=int, default=200, metavar="N", help="how many")
    add("--first", type=int, default=0, metavar="N", help="the first call")
    add("--seed", type=int, default=0, metavar="N", help="of the cases")
    add("--only", default="", metavar="REGEX", help="cases whose JSON has it")
    add("--case", metavar="JSON", help="show the answers to one case")
    return parser.parse_args()


if __name__ == "__main__":
    main()
