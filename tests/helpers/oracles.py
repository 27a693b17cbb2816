"""The formulas of all mixers in NumPy: token by token, head by head, float64.

Each is a function of a layer, tokens `(B, T, d)`, a source `(B, S, d)`, which
of its tokens are real `(B, S)`, and whether the call is causal. It returns the
output `(B, T, d)`. Weights are found by their paths.
"""

import types

import numpy as np
from backend import numpy


class Weights(dict):
    """Weights as float64 arrays, by the ends of their paths."""

    def __init__(self, layer):
        for weight in layer.weights:
            is_array = isinstance(weight.value, np.ndarray)
            x = weight.value if is_array else numpy(weight.value)
            self[weight.path] = x.astype("float64")

    def __missing__(self, end):
        found = [x for path, x in self.items() if path.endswith(f"/{end}")]
        if not found:
            raise KeyError(end)
        return found[0]

    def has(self, end):
        return any(path.endswith(f"/{end}") for path in self)

    def dense(self, name, x):
        """`x W + b`, where there is a bias."""
        kernel = self[f"{name}/kernel"]
        y = np.tensordot(x, kernel, 1)
        return y + self[f"{name}/bias"] if self.has(f"{name}/bias") else y

    def projected(self, x, source):
        """Queries, keys and values, `(B, T or S, H, k)`."""
        keys, values = self.dense("key", source), self.dense("value", source)
        return self.dense("query", x), keys, values

    def merged(self, context):
        """The output of heads `(B, T, H, v)`."""
        kernel = self["attention_output/kernel"]
        y = np.einsum("bthv,hvd->btd", context, kernel)
        if self.has("attention_output/bias"):
            y = y + self["attention_output/bias"]
        return y


def softmax(logits):
    """Of one row."""
    powers = np.exp(logits - np.max(logits))
    return powers / powers.sum()


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# --- weights of pairs ---------------------------------------------------------


def of_pairs(row, sees=lambda i, j: True):
    """A mixer that weighs the keys that a query sees.

    Args:
        row: Function of the weights, a query `(k,)`, keys `(n, k)` and a head
            that returns `n` weights.
        sees: Function of two positions.
    """

    def formula(layer, x, source, real, causal):
        w = Weights(layer)
        q, k, v = w.projected(x, source)
        context = np.zeros((*q.shape[:3], v.shape[-1]))
        for b, i, h in np.ndindex(q.shape[:3]):
            seen = [
                j
                for j in np.flatnonzero(real[b])
                if sees(i, j) and (j <= i or not causal)
            ]
            if seen:
                weights = row(w, q[b, i, h], k[b, seen, h], h)
                context[b, i, h] = weights @ v[b, seen, h]
        return w.merged(context)

    return formula


def dot_product(w, query, keys, head):
    return softmax(keys @ query / len(query) ** 0.5)


def relu(w, query, keys, head):
    return np.maximum(keys @ query / len(query) ** 0.5, 0) / len(keys)


def additive(w, query, keys, head):
    return softmax(np.tanh(query + keys) @ w["scale"][head])


def linear(w, query, keys, head):
    query, keys = (np.where(x > 0, x + 1, np.exp(x)) for x in (query, keys))
    weights = keys @ query
    return weights / weights.sum()


def performer(w, query, keys, head):
    """With the constant that is added to scaled features."""
    query, keys = (x / len(query) ** 0.25 for x in (query, keys))
    of_query = w["projection"] @ query
    of_keys = keys @ w["projection"].T - (keys**2).sum(-1, keepdims=True) / 2
    largest = of_keys.max(-1)
    of_query = np.exp(of_query - of_query.max()) + 1e-6
    of_keys = np.exp(of_keys - largest[:, None]) + 1e-6
    weights = of_keys @ of_query * np.exp(largest - largest.max())
    return weights / weights.sum()


def longformer(window, tokens):
    """First tokens have other projections, and see all."""
    near = of_pairs(
        dot_product, lambda i, j: abs(i - j) <= window or j < tokens
    )
    every = of_pairs(dot_product)

    def formula(layer, x, source, real, causal):
        output = near(layer, x, source, real, causal)
        first = every(_Global(layer), x, source, real, causal)
        output[:, :tokens] = first[:, :tokens]
        return output

    return formula


class _Global:
    """A layer whose global projections are called as others are."""

    def __init__(self, layer):
        self.weights = [
            types.SimpleNamespace(
                path=w.path.replace("/global_", "/"), value=w.value
            )
            for w in layer.weights
            if "/global_" in w.path or "/attention_output/" in w.path
        ]


# --- sums of keys -------------------------------------------------------------


def of_sums(summed):
    """Attention to sums of the real keys and values of each head.

    Args:
        summed: Function of the layer, its weights, tokens `(n, k)`, a head,
            and whether they are keys, that returns `(m, k)`.
    """

    def formula(layer, x, source, real, causal):
        w = Weights(layer)
        q, k, v = w.projected(x, source)
        context = np.zeros((*q.shape[:3], v.shape[-1]))
        for b, h in np.ndindex(len(x), q.shape[2]):
            n = int(real[b].sum())  # padding is at the end
            if not n:
                continue
            keys = summed(layer, w, k[b, :n, h], h, True)
            values = summed(layer, w, v[b, :n, h], h, False)
            for i in range(x.shape[1]):
                weights = dot_product(w, q[b, i, h], keys, h)
                context[b, i, h] = weights @ values
        return w.merged(context)

    return formula


def linformer(layer, w, tokens, head, are_keys):
    table = w["E" if are_keys or not w.has("F") else "F"]
    return table[head % len(table)][:, : len(tokens)] @ tokens


def compressed(layer, w, tokens, head, are_keys):
    kernel = w["key_kernel" if are_keys else "value_kernel"][:, head]
    return np.array(
        [
            sum(tokens[j] @ kernel[j - m] for j in range(m, len(tokens)))
            if m + len(kernel) > len(tokens)
            else sum(tokens[m + t] @ kernel[t] for t in range(len(kernel)))
            for m in range(0, len(tokens), layer.stride)
        ]
    )


# --- learned patterns ---------------------------------------------------------


def of_real_heads(attended):
    """A mixer of one sequence: `attended` of the real tokens of each head.

    Args:
        attended: Function of the layer, its weights, queries, keys and values
            `(n, k)` of a head, and its number, that returns `(n, v)`.
    """

    def formula(layer, x, source, real, causal):
        w = Weights(layer)
        names = ["query", "key" if w.has("key/kernel") else "query", "value"]
        q, k, v = (w.dense(name, x) for name in names)
        context = np.zeros(v.shape)
        for b, h in np.ndindex(len(x), q.shape[2]):
            n = int(real[b].sum())  # padding is at the end
            if n:
                own = (y[b, :n, h] for y in (q, k, v))
                context[b, :n, h] = attended(layer, w, *own, h)
        return w.merged(context)

    return formula


def seen_in_rounds(layer, w, tokens, head):
    """Visible pairs of Reformer's rounds for tokens `(n, k)`: `(n, n)`."""
    seen = np.zeros((len(tokens), len(tokens)), bool)
    for number in range(layer.hashes):
        buckets = np.zeros(len(tokens), int)
        if w.has("rotations"):
            turned = tokens @ w["rotations"][head, number]
            buckets = np.concatenate([turned, -turned], -1).argmax(-1)
        order = sorted(range(len(tokens)), key=lambda j: (buckets[j], j))
        chunk = {j: at // layer.bucket_size for at, j in enumerate(order)}
        for i, j in np.ndindex(seen.shape):
            near = chunk[i] - chunk[j] in (0, 1)
            seen[i, j] |= near and buckets[i] == buckets[j]
    return seen


def reformer(layer, w, queries, _, values, head):
    seen = seen_in_rounds(layer, w, queries, head)
    context = np.zeros(values.shape)
    for i, query in enumerate(queries):
        others = [j for j in np.flatnonzero(seen[i]) if j != i] or [i]
        context[i] = softmax(unit(queries[others]) @ query) @ values[others]
    return context


def routing(layer, w, queries, keys, values, head):
    size = -(-layer.max_length // layer.clusters)
    found = [[] for _ in queries]
    for centroid in w["centroids"][head]:
        own, seen = (
            np.argsort(-np.round(unit(y) @ centroid * 2**16), kind="stable")
            for y in (queries, keys)
        )
        own, seen = own[:size], seen[:size]
        for i in own:
            weights = dot_product(w, queries[i], keys[seen], head)
            found[i].append(weights @ values[seen])
    nothing = np.zeros(values.shape[-1])
    return [np.mean(own, axis=0) if own else nothing for own in found]


def sorting(layer, w, queries, head):
    """Sinkhorn's matrix, block by block."""
    size = layer.block_size
    blocks = [queries[i : i + size] for i in range(0, len(queries), size)]
    means = np.stack([block.mean(0) for block in blocks])
    kernel = w["sort_kernel"][head, :, : len(blocks)]
    found = np.exp(means @ kernel / layer.temperature)
    for _ in range(layer.iterations):
        found /= found.sum(0, keepdims=True)
        found /= found.sum(1, keepdims=True)
    return found


def sinkhorn(layer, w, queries, keys, values, head):
    P, n, size = (
        sorting(layer, w, queries, head),
        len(queries),
        layer.block_size,
    )
    context = np.zeros(values.shape)
    for i in range(n):
        block = i // size
        own = range(block * size, min((block + 1) * size, n))
        k, v, shares = [*keys[own]], [*values[own]], [1.0] * len(own)
        for place in range(size):
            there = range(place, n, size)  # of each block the one there
            weights = np.array([P[block, j // size] for j in there])
            if weights.sum() > 1e-6:
                shares.append(weights.sum())
                k.append(weights @ keys[there] / weights.sum())
                v.append(weights @ values[there] / weights.sum())
        logits = np.array(k) @ queries[i] / len(queries[i]) ** 0.5
        context[i] = softmax(logits + np.log(shares)) @ np.array(v)
    return context


# --- mixers without queries and keys ------------------------------------------


def convolution(layer, x, source, real, causal):
    """Token by token, head by head, tap by tap."""
    w, heads, width = Weights(layer), layer.num_heads, layer.width
    y = w.dense("value", np.where(real[..., None], x, 0))
    if layer.use_glu:
        y, gate = np.split(y, 2, axis=-1)
        y = y / (1 + np.exp(-gate))
    y = np.where(real[..., None], y, 0)
    context, size = np.zeros(y.shape), y.shape[-1] // heads
    for b, i, h in np.ndindex(*x.shape[:2], heads):
        if w.has("kernel/kernel"):  # each token predicts its own
            taps = (y[b, i] @ w["kernel/kernel"]).reshape(heads, -1)[h]
        else:
            taps = w["kernel"][h]
        first = i - (width - 1 if causal else (width - 1) // 2)
        seen = [
            t
            for t in range(width)
            if 0 <= first + t < x.shape[1] and real[b, first + t]
        ]
        counted = range(width) if layer.border == "zero" else seen
        total = np.exp(taps[counted]).sum() if len(counted) else 1.0
        features = slice(h * size, (h + 1) * size)
        for t in seen:
            weight = np.exp(taps[t]) / total
            context[b, i, features] += weight * y[b, first + t, features]
    return w.dense("output", context)


def pooling(layer, x, source, real, causal):
    y, size = np.zeros(x.shape), layer.size
    for b, i in np.ndindex(*x.shape[:2]):
        first = i - (size - 1 if causal else (size - 1) // 2)
        seen = range(max(0, first), min(x.shape[1], first + size))
        seen = [j for j in seen if real[b, j]]
        if real[b, i]:
            y[b, i] = x[b, seen].mean(0) - x[b, i]
    return y


def _weighed(matrix, bias, x, rows, causal, real=None):
    """Position by position: `sum_j matrix[i, j] x[j] + bias[i]`."""
    y = np.zeros((rows, x.shape[-1]))
    for i in range(rows):
        y[i] = bias[i]
        for j in range(len(x)):
            if (real is None or real[j]) and (j <= i or not causal):
                y[i] += matrix[i, j] * x[j]
    return y


def mlp_mixer(layer, x, source, real, causal):
    w, y = Weights(layer), np.zeros(x.shape)
    for b, own in enumerate(real):
        units = x.shape[1] if causal else layer.hidden_dim
        hidden = _weighed(w["W1"], w["b1"], x[b], units, causal, own)
        hidden = np.tanh(hidden)
        y[b] = _weighed(w["W2"], w["b2"], hidden, x.shape[1], causal)
    return np.where(real[..., None], y, 0)


def gmlp(layer, x, source, real, causal):
    w = Weights(layer)
    u, v = np.split(np.tanh(w.dense("value", x)), 2, axis=-1)
    centred = v - v.mean(axis=-1, keepdims=True)
    v = centred / np.sqrt(v.var(axis=-1, keepdims=True) + 1e-5)
    v = v * w["norm/gamma"] + w["norm/beta"]
    gates = [
        _weighed(w["W"], w["b"], one, x.shape[1], causal, own)
        for one, own in zip(v, real, strict=True)
    ]
    context = np.where(real[..., None], u * np.stack(gates), 0)
    return w.dense("output", context)


def fnet(layer, x, source, real, causal):
    y = np.fft.fft2(np.where(real[..., None], x, 0)).real
    return np.where(real[..., None], y, 0)
