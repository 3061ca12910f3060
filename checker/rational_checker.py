"""A second checker of tsc-interp proofs. It shares nothing with the package.

    python rational_checker.py PROOF.json MODEL.safetensors [MODEL.safetensors] [SECONDS [SEED]]

Standard library only, and no floating-point arithmetic: an interval is a pair of integers (lo, hi)
that stands for [lo / 2^p, hi / 2^p], lower ends rounded down and upper ends up. There is no NaN, so
a comparison is what it looks like. What is proved is about the real-number classifier whose weights
are the float32 numbers of the file. Exit 0: accepted, with what is proved. 3: rejected, with the
reason. 2: wrong usage, or a file that cannot be opened.
"""

import base64
import hashlib
import json
import math
import random
import struct
import sys
import time
import zlib
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

MAX_BYTES, MAX_LETTERS, MAX_LENGTH, SECONDS = 16 << 20, 12, 1000, 600.0
MAX_EDGES, EACH, LEAVES, PIECES = 500_000, 4096, 2000, 4000
PRECISIONS, GUARD = (192, 1024, 8192), 64  # p is at least 149, so that every float32 is exact
NODES = 16
SCALES = {"sqrt_d_head": False, "sqrt_d_head_log_n": True}
OPTIONS = {
    "n_letters": int, "n_layers": int, "d_model": int, "d_head": int, "n_heads": int, "d_mlp": int,
    "n_positions": int, "attend_cls": bool, "norm": str, "norm_eps": float, "score_scale": str,
    "task": dict, "dropout": float, "embedding_init": str, "attention_init": str, "mlp_init": str,
}  # fmt: skip
WIDER = {"biases": bool, "act_fn": str, "reads": str, "n_outputs": int, "token_names": list}


class Rejected(Exception):
    """The proof is not accepted, and why."""


def require(holds, problem):
    if holds is not True:
        raise Rejected(problem)


# -- enclosures: lo <= 2^p f(x / 2^p) <= hi for an integer x -------------------------------------


def ceil(a, b):
    return -(-a // b)


@lru_cache(1 << 16)
def exp_bounds(x, p):
    """e^x. Beyond e^p the upper end is None: unbounded.

    e^-x = 1 / e^x. For x >= 0 and t = x / 2^r <= 2^-8, e^x = (e^t)^(2^r), and the terms t^i / i! of
    e^t are positive and at least halve each time, so those left out sum to at most the last taken.
    """
    if abs(x) > p << p:  # e^p > 2^p
        return (1 << 2 * p, None) if x > 0 else (0, 1)
    r = max(0, x.bit_length() - p + 8)
    w, t = p + GUARD + r, abs(x) << GUARD  # t / 2^w is exactly |x| / 2^p / 2^r
    i, lo, hi, low, high = 0, *[1 << w] * 4
    while high > 1:
        i += 1
        low, high = low * t // (i << w), ceil(high * t, i << w)
        lo, hi = lo + low, hi + high
    hi += high
    for _ in range(r):
        lo, hi = lo * lo >> w, ceil(hi * hi, 1 << w)
    if x < 0:
        return (1 << w + p) // hi, ceil(1 << w + p, lo)
    return lo >> w - p, ceil(hi, 1 << w - p)


def artanh_bounds(num, den, p):
    """The sum of z^(2i+1) / (2i+1) for 0 <= z = num / den <= 1/3.

    What is left out is at most the next power of z times 1 + z^2 + z^4 + ... <= 9/8.
    """
    lo, hi, i, low, high = 0, 0, 1, (num << p) // den, ceil(num << p, den)
    while high > 1:
        lo, hi, i = lo + low // i, hi + ceil(high, i), i + 2
        low, high = low * num * num // (den * den), ceil(high * num * num, den * den)
    return lo, hi + 2 * high


def log_bounds(n, p):
    """log n for a whole number n = 2^e m, 1 <= m < 2, as log m = 2 artanh((m - 1) / (m + 1))."""
    e, w = n.bit_length() - 1, p + GUARD
    two, m = artanh_bounds(1, 3, w), artanh_bounds(n - (1 << e), n + (1 << e), w)
    return 2 * (e * two[0] + m[0]) >> GUARD, ceil(2 * (e * two[1] + m[1]), 1 << GUARD)


@lru_cache(1 << 16)
def bell_bounds(a, p):
    """G(a), the integral of e^(-t^2 / 2) from 0 to a >= 0, where a^2 / 2 < p.

    G = e^(-a^2 / 2) g, g = sum a^(2i+1) / (1 3 5 ... (2i+1)): both sides vanish at 0, and g' = 1 +
    a g makes their derivatives equal. Terms are positive, and at least halve once 2i + 1 >= 2 a^2.
    """
    square, i, lo, hi, low, high = a * a, 1, a, a, a, a  # the square is at scale 2p
    while high > 1 or i << 2 * p < 2 * square:
        i += 2
        low, high = low * square // (i << 2 * p), ceil(high * square, i << 2 * p)
        lo, hi = lo + low, hi + high
    half = square >> p + 1
    least, most = exp_bounds(half, p)[0], exp_bounds(half + 1, p)[1]
    return (lo << p) // most, ceil(hi + high << p, least)


@lru_cache(1 << 16)
def gelu_bounds(x, p):
    """x Phi(x): -a A for x = -a and a - a A for x = a >= 0, A the normal area beyond a.

    Let F be G(infinity) and R(a) the integral of e^(-t^2 / 2) from a on: A = R / 2F = (F - G) / 2F.
    a R(a) is at most the integral of t e^(-t^2 / 2), which is e^(-a^2 / 2): below 2^-p if a^2 / 2
    >= p. So there 0 <= a A < 2^-p, as 2F > 1; and F is G up to 2^-w where a^2 / 2 is about w.
    """
    a, w = abs(x), p + GUARD
    if a * a >= 2 * p << 2 * p:
        return (x - 1, x) if x > 0 else (-1, 0)
    full, part = bell_bounds(math.isqrt(2 * w << 2 * w) - 1, w), bell_bounds(a << GUARD, w)
    rest, double = (full[0] - part[1], full[1] + 2 - part[0]), (2 * full[0], 2 * full[1] + 4)
    lost = max(0, a * rest[0] // double[1]), ceil(a * rest[1], double[0])
    return (a - lost[1], a - lost[0]) if x > 0 else (-lost[1], -lost[0])


def gelu(interval, p):
    """Over an interval. gelu' = Phi + x phi and gelu'' = (2 - x^2) phi, where phi = Phi'.

    Up to -sqrt 2 gelu' falls from 0, so gelu falls; from sqrt 2 on it rises; between it is convex.
    So it falls, then rises: it is largest at an end, and least at an end or at its minimum. If the
    middle of three equidistant points is lowest, the minimum lies between the outer ones, and is by
    convexity no further below the middle than the higher of them is above it. |gelu'| is below 2.
    """
    (lo, hi), c, step = interval, -(751791524694 << p) // 10**12, (1 << p) // 10**9
    at_lo, at_hi, left, middle, right = (gelu_bounds(x, p) for x in (lo, hi, c - step, c, c + step))
    require(middle[1] < min(left[0], right[0]), "the minimum of gelu is not where it should be")
    outside = hi <= c - step or lo >= c + step
    least = min(at_lo[0], at_hi[0]) if outside else 2 * middle[0] - max(left[1], right[1])
    return max(least, at_lo[0] - 2 * (hi - lo)), max(at_lo[1], at_hi[1])


def relu(interval, p):
    return max(interval[0], 0), max(interval[1], 0)


def dot(a, b, p):
    lo = hi = 0
    for (al, ah), (bl, bh) in zip(a, b, strict=True):
        ends = (al * bl, ah * bl) if bl == bh else (al * bl, al * bh, ah * bl, ah * bh)
        lo, hi = lo + min(ends), hi + max(ends)
    return lo >> p, ceil(hi, 1 << p)


def plus(a, b):
    return [(al + bl, ah + bh) for (al, ah), (bl, bh) in zip(a, b, strict=True)]


def largest_mean(weights, tops):
    """A bound of sum w v / sum w, w > 0 between its light and heavy end, v at most its top.

    The mean rises with each v, so let v be its top. In falling order of v, a cut makes the first
    weights heavy and the rest light. Let m be the largest mean among the n + 1 cuts. For any w,
    sum w (v - m) <= the same sum at the cut where v falls below m = total (its mean - m) <= 0, so
    the mean is at most m. If a weight has no heavy end (None), the mean lies between the one where
    it is light and its own v. If all light ends are 0, the mean is still at most the largest v.
    """
    order = sorted(zip(tops, weights, strict=True), key=lambda pair: -pair[0])
    total, mass = sum(w[0] for _, w in order), sum(w[0] * v for v, w in order)
    means = [ceil(mass, total) if total > 0 else max(tops)]
    for v, (light, heavy) in order if total > 0 else ():
        if heavy is not None:
            total, mass = total + heavy - light, mass + (heavy - light) * v
        means.append(v if heavy is None else ceil(mass, total))
    return max(means)


def attention_weights(scores, ends, logs, tail, p):
    """A key's weight is m e^(s log n) with m in `ends`, log n in `logs` (1 if scores do not grow).

    A constant c subtracted from all scores changes no mean, and keeps the numbers small. In the
    tail (any counts, n >= N) weights are over that of the key with the best score: one that is at
    least 1 + g lower counts at most n times, so it weighs at most n n^(-1 - g) <= N^-g.
    """
    if tail:
        best = max(range(len(scores)), key=lambda k: scores[k][0])
        for k, (_, hi) in enumerate(scores):
            power = (1 << p) + hi - scores[best][0]
            reach = exp_bounds(ceil(power * logs[0], 1 << p), p)[1] if power < 0 else None
            yield (1 << p, 1 << p) if k == best else (0, reach)
    else:
        c = max(score[0] for score, m in zip(scores, ends, strict=True) if m[0])
        for (lo, hi), (light, heavy) in zip(scores, ends, strict=True):
            gap = dot([(lo - c, hi - c)], [logs], p)
            least, most = exp_bounds(gap[0], p)[0], exp_bounds(gap[1], p)[1]
            yield light * least >> p, None if most is None else ceil(heavy * most, 1 << p)


class Box:
    """Keys (places among the tokens) and how often each occurs; scores may be scaled by log n."""

    def __init__(self, keys, ends, logs=None, tail=False):
        kept = [(k, end) for k, end in zip(keys, ends, strict=True) if end[1]]
        self.keys, self.ends = [k for k, _ in kept], [end for _, end in kept]
        self.logs, self.tail, self.highest = logs, tail, largest_mean

    def weights(self, scores, p):
        return list(attention_weights(scores, self.ends, self.logs or (1 << p,) * 2, self.tail, p))


class Paths:
    """Paths through edges (from, to, keys) of stages; beside their keys all have those in `common`.

    Let T be the largest sum of w (v - level) of a path: every mean is at most level + T / W for the
    least W if T > 0, else the largest. Any level is good; the next is near the best path's mean.
    """

    def __init__(self, stages, common, logs):
        placed = {k for stage in stages for _, _, some in stage for k in some}
        self.stages, self.common, self.keys = stages, common, sorted({*common, *placed})
        self.box = Box(self.keys, [(1, 1)] * len(self.keys), logs)

    def weights(self, scores, p):
        self.box.ends = [(1 << p, 1 << p)] * len(self.keys)
        return dict(zip(self.keys, self.box.weights(scores, p), strict=True))

    def best(self, terms, masses, pick=max):
        """The extreme path's sum of terms, and its sum of masses."""
        ends = {0: (sum(terms[k] for k in self.common), sum(masses[k] for k in self.common))}
        for stage in self.stages:
            after = {}
            for source, target, keys in stage:
                total, mass = ends[source]
                for k in keys:
                    total, mass = total + terms[k], mass + masses[k]
                now = after.get(target)
                after[target] = (total, mass) if now is None else pick(now, (total, mass))
            ends = after
        return pick(ends.values())

    def highest(self, weights, tops):
        top = dict(zip(self.keys, tops, strict=True))
        light, heavy = ({k: w[end] for k, w in weights.items()} for end in (0, 1))
        least, most = self.best(light, light, min)[0], self.best(heavy, heavy)[0]
        bound = max(tops)
        level = sum(light[k] * v for k, v in top.items()) // (sum(light.values()) or 1)
        for _ in range(8 if least > 0 else 0):
            used = {k: weights[k][v > level] for k, v in top.items()}
            total, mass = self.best({k: used[k] * (v - level) for k, v in top.items()}, used)
            over = ceil(total, least if total > 0 else most)
            bound, moved = min(bound, level + over), total // mass
            if total >= 0 and over - moved <= 1 + (abs(bound) >> 40):
                break
            level += moved
        return bound


# -- the model -----------------------------------------------------------------------------------


class Model:
    """Differences of outputs over regions of inputs, at scale 2^-p.

    Every state is extended by what is read from it in the end, which is linear: the outputs and the
    last MLP's arguments. So embeddings and whatever is added to a state (W_V W_O, W_out) are
    extended once, and bounds on what is read stay tight. One output is as good as two, of which the
    first is always zero.
    """

    def __init__(self, config, tensors, p, tick):
        self.config, self.p, self.tick, self.first, self.w = config, p, tick, {}, (w := {})
        for name, (shape, flat) in tensors.items():
            w[name] = [(v << p - 149, v << p - 149) for v in flat]
            for size in reversed(shape[1:]):
                w[name] = [w[name][i : i + size] for i in range(0, len(w[name]), size)]

        def bias(name, *shape):  # zero where there is none
            zero = [(0, 0)] * shape[-1]
            return w.get(name, [zero] * shape[0] if len(shape) > 1 else zero)

        d, k, h, m = (config[name] for name in ("d_model", "d_head", "n_heads", "d_mlp"))
        alone = [(0, 0)] * (config.get("n_outputs", 1) == 1)
        readout, last = w["unembed.W_U"], w.get(f"blocks.{config['n_layers'] - 1}.mlp.W_in")
        readout = [alone + row for row in readout]
        self.offset = alone + bias("unembed.b_U", len(readout[0]) - len(alone))
        self.classes, self.read_at = len(readout[0]), d + len(readout[0])
        columns = list(zip(*readout, self.offset, strict=True))
        self.same = {(i, j) for i, a in enumerate(columns) for j, b in enumerate(columns) if a == b}
        if last:
            readout = [[*a, *b] for a, b in zip(readout, last, strict=True)]

        def extended(rows):
            return [[*a, *b] for a, b in zip(rows, self.times(rows, readout), strict=True)]

        self.embed, self.layers = extended(w["embed.W_E"]), []
        self.places = extended(w.get("pos_embed.W_pos", []))
        for block in (f"blocks.{layer}." for layer in range(config["n_layers"])):
            parts = [w.get(f"{block}attn.W_{part}", ()) for part in "QKVO"]
            parts += [bias(f"{block}attn.b_{part}", h, k) for part in "QKV"]
            heads = []
            for w_q, w_k, w_v, w_o, b_q, b_k, b_v in zip(*parts, strict=True):
                held, (own,) = (extended(self.times(rows, w_o)) for rows in (w_v, [b_v]))
                heads.append((w_q, w_k, held, b_q, b_k, own))
            w_in, w_out = w.get(f"{block}mlp.W_in"), w.get(f"{block}mlp.W_out", ())
            b_o, b_out = extended([bias(f"{block}{name}", d) for name in ("attn.b_O", "mlp.b_out")])
            b_in = bias(f"{block}mlp.b_in", m)
            self.layers.append((heads, b_o, w_in, b_in, extended(w_out), b_out))
        self.act = relu if config.get("act_fn") == "relu" else gelu

    def times(self, rows, matrix):
        self.tick()
        columns = list(zip(*matrix, strict=True))
        return [[dot(row, column, self.p) for column in columns] for row in rows]

    def tables(self, heads, x, queries):
        """For each head its scores [query][key] and what each key adds [key][channel]."""
        p, d_head = self.p, self.config["d_head"]
        root = math.isqrt((1 << 2 * p) // d_head)  # 2^p / sqrt(d_head), rounded down
        scale = [(root, root + (root * root * d_head < 1 << 2 * p))]
        read = [row[: self.config["d_model"]] for row in x]
        for w_q, w_k, w_value, b_q, b_k, b_value in heads:
            asked = [plus(row, b_q) for row in self.times(read[:queries], w_q)]
            keys = [plus(row, b_k) for row in self.times(read, w_k)]
            scores = [[dot([dot(q, k, p)], scale, p) for k in keys] for q in asked]
            yield scores, [plus(row, b_value) for row in self.times(read, w_value)]

    def start(self, spots, heads, queries):
        """Embeddings of tokens at their places, and the first layer's tables: no region counts."""
        if spots not in self.first:
            x = [self.embed[token] for token, _ in spots]
            if self.places:
                x = [plus(row, self.places[at]) for row, (_, at) in zip(x, spots, strict=True)]
            self.first = dict(list(self.first.items())[-31:])
            self.first[spots] = x, list(self.tables(heads, x, queries))
        return self.first[spots]

    def lows(self, spots, region, winner, losers):
        """Below the winner's output minus each loser's; the first token is the one that reads."""
        d, end, tables = self.config["d_model"], self.read_at, None
        for number, (heads, b_o, w_in, b_in, w_out, b_out) in enumerate(self.layers, 1):
            last = number == len(self.layers)
            queries = 1 if last else len(spots)
            x, tables = (self.start(spots, heads, queries) if tables is None
                         else (x, list(self.tables(heads, x, queries))))  # fmt: skip
            base = [plus(row, b_o) for row in x[:queries]]
            x, met, unread = [list(row) for row in base], [], end if last else 0
            for scores, values in tables:
                columns = list(zip(*(values[k] for k in region.keys), strict=True))
                for query, row in enumerate(x):
                    weights = region.weights([scores[query][k] for k in region.keys], self.p)
                    some = [self.mean(region, weights, column) for column in columns[unread:]]
                    row[unread:] = plus(row[unread:], some)
                met.append((weights, columns))
            if w_in and not last:
                read = self.times([row[:d] for row in x], w_in)
                post = [[self.act(v, self.p) for v in plus(row, b_in)] for row in read]
                pairs = zip(x, self.times(post, w_out), strict=True)
                x = [plus(plus(a, b), b_out) for a, b in pairs]
        fixed, pre = plus(base[0][d:end], self.offset), plus(x[0][end:], b_in) if w_in else []
        if w_in:
            fixed = plus(fixed, b_out[d:end]) + plus(base[0][end:], b_in)
        flat = [((0, 0), self.act(v, self.p)) for v in pre]
        chords = []
        for loser in losers:
            given = region, met, fixed, pre, w_out, winner, loser
            low = self.low(*given, flat)
            if low <= 0 and pre:
                chords = chords or [self.chord(v) for v in pre]
                low = max(low, self.low(*given, chords))
            yield low

    def low(self, region, met, fixed, pre, w_out, winner, loser, lines):
        """Each neuron passes on a multiple of its argument (slope), and something in an interval.

        What is left is a linear function of the state: one mean for each head.
        """
        p, d, n = self.p, self.config["d_model"], self.classes
        both = [(row[d + winner], row[d + loser]) for row in w_out]
        gains = [(a[0] - b[1], a[1] - b[0]) for a, b in both]
        steep = [dot([gain], [line[0]], p) for gain, line in zip(gains, lines, strict=True)]
        rest = dot(gains, [line[1] for line in lines], p)[0]
        rest += dot([(0, hi - lo) for lo, hi in steep], pre, p)[0]

        def along(row):
            lo = (row[winner][0] - row[loser][1]) << p
            for (c, _), (a, b) in zip(steep, row[n:], strict=True):
                lo += c * (a if c > 0 else b)
            return lo >> p

        total = along(fixed) + rest
        for weights, columns in met:
            rows = zip(*columns[d:], strict=True)
            total -= region.highest(weights, [-along(row) for row in rows])
        return total

    def mean(self, region, weights, column):
        """The weighted mean of intervals: its least is minus the largest of the negatives."""
        least, most = [-lo for lo, _ in column], [hi for _, hi in column]
        return -region.highest(weights, least), region.highest(weights, most)

    def chord(self, interval):
        """A slope, and where the activation lies beside that multiple of its argument.

        By its values at nodes: between two it is at most h^2 / 8 times its second derivative below
        or above their chord. gelu'' = (2 - x^2) phi is at most 0.8 and at least -0.11 (at 0 and at
        the roots of x^2 = 4); ReLU is straight but at 0.
        """
        (lo, hi), p, curved = interval, self.p, self.act is gelu
        points = [lo + (hi - lo) * i // NODES for i in range(NODES + 1)]
        points = points if curved else [lo, *([0] if lo < 0 < hi else []), hi]
        step = ceil(hi - lo, NODES) + 1
        bend = ceil(step * step, 8 << p) * curved
        values = [gelu_bounds(x, p) if curved else relu((x, x), p) for x in points]
        slope = ((values[-1][0] - values[0][0]) << p) // (hi - lo) if hi > lo else 0
        beside = [(a - ceil(slope * x, 1 << p), b - (slope * x >> p))
                  for (a, b), x in zip(values, points, strict=True)]  # fmt: skip
        low, high = min(a for a, _ in beside), max(b for _, b in beside)
        return (slope, slope), (low - ceil(80 * bend, 100), high + ceil(11 * bend, 100))


# -- the files -----------------------------------------------------------------------------------


def read_json(text, what):
    def once(pairs):
        require(len(dict(pairs)) == len(pairs), f"{what} names a key twice")
        return dict(pairs)

    try:  # int("NaN") is an error
        return json.loads(text, object_pairs_hook=once, parse_constant=int)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{what} is not JSON that can be read: {type(error).__name__}") from None


def read_config(text):
    config = read_json(text, "the configuration")
    sizes = [config[name] for name in OPTIONS][:7]
    if config.get("positions") == "learned":
        del config["positions"]
    beyond = ", ".join(sorted(config.keys() - {*OPTIONS, *WIDER}))
    require(not beyond, f"models with {beyond} are not known here")
    wider = {name: kind for name, kind in WIDER.items() if name in config}
    require({name: type(config[name]) for name in config} == OPTIONS | wider, "unknown options")
    act, norm, scale = config.get("act_fn", "gelu"), config["norm"], config["score_scale"]
    reads, outputs = config.setdefault("reads", "first"), config.get("n_outputs", 1)
    require(act in ("gelu", "relu"), f"the activation {act!a:.40} is not known here")
    require(norm == "off", f"the norm {norm!a:.40} is not known here")
    require(scale in SCALES, f"scores scaled by {scale!a:.40} are not known here")
    require(reads in ("first", "last", "last_letter"), "what reads is not known here")
    causal = reads != "first"
    require(not causal or config["attend_cls"], "the token that reads attends to itself, too")
    require(not (causal and SCALES[scale]), "scores grow with log n only where CLS reads first")
    require(min(sizes[:4]) > 0 <= min(sizes) and max(sizes) <= 1 << 16, "an impossible size")
    require(0 < outputs <= 1 << 10, "an impossible number of outputs")
    order = config["n_positions"] or reads == "last_letter" or (causal and sizes[1] > 1)
    return {**config, "order": bool(order), "log_n": SCALES[scale]}, sizes[:6]


def read_model(content):
    """Configuration, tensors as (shape, integers at scale 2^-149), and the hash of all of it."""
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header, data = read_json(content[8:end], "the model's header"), content[end:]
    config, (n, depth, d, k, h, m) = read_config(text := header.pop("__metadata__")["config"])
    each = {f"attn.W_{part}": [h, d, k] for part in "QKV"} | {"attn.W_O": [h, k, d]}
    each |= {"mlp.W_in": [d, m], "mlp.W_out": [m, d]}
    outputs = config.get("n_outputs", 1)
    shapes = {"embed.W_E": [2 + n, d], "unembed.W_U": [d, outputs]}
    shapes |= {"pos_embed.W_pos": [config["n_positions"], d]} if config["n_positions"] else {}
    if config.get("biases"):
        shapes["unembed.b_U"] = [outputs]
        each |= {f"attn.b_{part}": [h, k] for part in "QKV"} | ({"attn.b_O": [d]} if h else {})
        each |= {"mlp.b_in": [m], "mlp.b_out": [d]} if m else {}
    for layer in range(depth):
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in each.items() if all(shape)}
    require(header.keys() == shapes.keys(), "the tensors do not fit the configuration")
    spans = sorted(entry["data_offsets"] for entry in header.values())
    joined = [0, *(b for _, b in spans)] == [*(a for a, _ in spans), len(data)]
    tensors, sha = {}, hashlib.sha256(text.encode())
    for name, shape in sorted(shapes.items()):
        begin, end = place = header[name]["data_offsets"]
        good = {"dtype": "F32", "shape": shape, "data_offsets": place} == header[name]
        require(joined and good, f"{name} is not float32 of shape {shape} in its place")
        values = struct.unpack(f"<{math.prod(shape)}f", data[begin:end])
        require(all(map(math.isfinite, values)), f"{name} has values that are NaN or infinite")
        tensors[name] = shape, [int(math.ldexp(value, 149)) for value in values]
        sha.update(f"\0{name}{shape}\0".encode() + data[begin:end])
    return config, tensors, sha.hexdigest()


# -- the claims ----------------------------------------------------------------------------------


def whole(value, below=10**12 + 1):
    require(type(value) is int and 0 <= value < below, f"{value!a:.40} is no such number")
    return value


def support_of(letters, n):
    support = tuple(whole(letter, n) for letter in letters)
    require(list(support) == sorted({*support}) != [], f"{letters!a:.40} is not a set of letters")
    return support


def leaf_of(node, classes):
    """A leaf's kind and classes; that it is said of float32, too, is not counted here."""
    words = node[:-1] if node[-1] == "float32" and node[0] != "open" else node
    sizes = {"is": 1, "wrong": 1, "apart": 2, "each": 0, "open": 0}
    require(sizes.get(str(words[0])) == len(words) - 1, f"an unknown node {node!a:.40}")
    return words[0], tuple(whole(j, classes) for j in words[1:])


def leaves_of(tree, root, cut, holds, classes, tick):
    """The leaves of a tree in preorder, with their regions, which cover the root."""
    waiting = [root] if holds(root) else []
    for node in tree:
        tick()
        require(bool(waiting), "the tree goes on after its last leaf")
        region = waiting.pop()
        if node[0] == "cut":
            require(len(node) == 3, "a cut has three parts")
            waiting += [part for part in reversed(cut(region, *node[1:])) if holds(part)]
        else:
            yield *leaf_of(node, classes), region
    require(not waiting, "the tree ends before its last leaf")


def halves(box, axis, where, counted):
    """A box (low, high) below and above: up to `where` and from the next count, or from there."""
    low, high = box
    inside = low[axis] < where or (counted and low[axis] == where)
    require(inside and where < high[axis], "a cut outside of its region")
    below = (*high[:axis], where, *high[axis + 1 :])
    return [(low, below), ((*low[:axis], where + counted, *low[axis + 1 :]), high)]


def halved(box, counted):
    """Cut where it is widest, counts by their ratio; nothing of a single point."""
    sides = list(zip(*box, strict=True))
    width = [Fraction(b, a) if counted else b - a for a, b in sides]
    axis = max(range(len(sides)), key=width.__getitem__)
    low, high = sides[axis]
    where = math.isqrt(low * high) if counted else (low + high) * Fraction(1, 2)
    return [] if low == high else halves(box, axis, where, counted)


class Judge:
    """What one model answers; more bits where a few decide nothing."""

    def __init__(self, config, tensors, tick):
        self.config = config
        self.model = lru_cache(None)(lambda p: Model(config, tensors, p, tick))
        self.classes, self.same = self.model(PRECISIONS[0]).classes, self.model(PRECISIONS[0]).same

    def beats(self, spots, make, winner, losers, precisions=PRECISIONS[:1], strict=False):
        """Whether the winner is the answer rather than each loser, in the region `make(p)`.

        Of equal outputs the one of lower index is the answer, unless it has to be above `strict`ly.
        """
        left = [k for k in losers if (k, winner) not in self.same or k < winner or strict]
        for p in precisions:
            lows = self.model(p).lows(spots, make(p), winner, left)
            pairs = list(zip(left, lows, strict=True))
            ties = {k for k in left if winner < k and not strict}
            left = [k for k, low in pairs if low < 0 or (low == 0 and k not in ties)]
            if not left:
                return True
        return False

    def others(self, winner):
        return [k for k in range(self.classes) if k != winner]


def settle(whole_region, shown, parts, problem):
    """Show a region, or all parts of it where the bounds here do not suffice as it stands."""
    waiting, tried = [whole_region], 0
    while waiting:
        region, tried = waiting.pop(), tried + 1
        if not shown(region, tried == 1):
            pieces = parts(region) if tried < PIECES else []
            require(bool(pieces), problem)
            waiting += pieces


RULES = {
    "contains_all": {"letters"}, "at_least": {"letter", "k"}, "majority": {"letter"},
    "parity": {"letter", "odd"}, "most_frequent": set(), "maximum": set(),
    "listed": {"supports", "inputs"},
}  # fmt: skip


class Rule:
    """Labels of letter counts. A listed rule is written out, by supports and by single inputs."""

    def __init__(self, data, n):
        self.kind, self.letter, self.n = data["rule"], whole(data.get("letter", 0), n), n
        require({*data} == {"rule"} | RULES.get(self.kind, {"?"}), "the rule is not known here")
        self.k, self.odd = whole(data.get("k", 1)), data.get("odd", True)
        require(type(self.odd) is bool, "odd is true or false")
        self.letters = support_of(data.get("letters", [0]), n)
        supports, inputs = data.get("supports", ()), data.get("inputs", ())
        self.supports = {support_of(s, n): whole(label) for s, label in supports}
        self.inputs = {tuple(map(whole, counts)): whole(label) for counts, label in inputs}
        once = len(self.supports) == len(supports) and len(self.inputs) == len(inputs)
        require(once, "an input is listed twice")
        for counts, label in self.inputs.items():
            support = tuple(i for i, k in enumerate(counts) if k)
            fits = len(counts) == n and support and self.supports.get(support, label) == label
            require(bool(fits), "an input contradicts its support")

    def shared(self, support):
        """The label of all strings over exactly these letters; None if it is not the same."""
        if self.kind in ("contains_all", "maximum"):
            every = {*self.letters} <= {*support}
            return int(every) if self.kind == "contains_all" else support[-1]
        if self.kind in ("most_frequent", "listed"):
            alone = support[0] if len(support) == 1 else None
            return self.supports.get(support) if self.kind == "listed" else alone
        if self.letter not in support:
            return int(self.kind == "parity" and not self.odd)
        return 1 if self.kind == "majority" and len(support) == 1 else None

    def label(self, support, low, high):
        """The label from `low` to `high`. Three rules rise with one letter and fall with others."""
        shared, kind = self.shared(support), self.kind
        if shared is not None:
            return shared
        if kind == "listed":
            full = dict(zip(support, low, strict=True))
            one = tuple(full.get(i, 0) for i in range(self.n))
            return self.inputs.get(one) if low == high else None
        sides = list(zip(support, low, high, strict=True))
        if kind == "most_frequent":
            wins = [i for i, a, _ in sides
                    if all(a > b if j < i else a >= b for j, _, b in sides if j != i)]  # fmt: skip
            return wins[0] if wins else None
        ((a, b),) = [(a, b) for i, a, b in sides if i == self.letter]
        if kind == "parity":
            return int((a % 2 == 1) == self.odd) if a == b else None
        if kind == "at_least":
            ends = {a >= self.k, b >= self.k}
        else:
            ends = {a > sum(high) - b, b > sum(low) - a}
        return int(ends.pop()) if len(ends) == 1 else None


class Counts:
    """Parts whose inputs are counts of letters, then what follows from all of them."""

    def __init__(self, judges, rule, tick):
        self.judges, self.rule, self.tick, config = judges, rule, tick, judges[0].config
        self.n, self.cls = config["n_letters"], int(config["attend_cls"])
        require(self.n <= MAX_LETTERS, f"only up to {MAX_LETTERS} letters of counts are checked")
        for judge in judges:
            require(not judge.config["order"], "the order of letters counts for the model")
        self.log_n = any(judge.config["log_n"] for judge in judges)
        self.classes, self.through, self.beyond = judges[0].classes, {}, {}
        self.always, self.failures, self.limits = set(), set(), set()

    def name(self, support):
        return "".join(chr(97 + i) for i in support)

    def answered(self, support, answers, low, high, lengths=(2, 2), tail=False, **more):
        """Whether each model answers so where letters (and CLS, if given) weigh `low` to `high`."""

        def make(p):
            own, one = (int(judge.config["attend_cls"]),) * (len(low) == len(support)), 1 << p
            pairs = zip((*own, *low), (*own, *high), strict=True)
            ends = [(math.floor(Fraction(a) * one), math.ceil(Fraction(b) * one)) for a, b in pairs]
            logs = (log_bounds(lengths[0], p)[0], log_bounds(lengths[1], p)[1])
            return Box(range(len(ends)), ends, logs if judge.config["log_n"] else None, tail)

        spots = tuple((token, 0) for token in (0, *(2 + i for i in support)))
        for judge, answer in zip(self.judges, answers, strict=True):
            if not judge.beats(spots, make, answer, judge.others(answer), **more):
                return False
        return True

    def one(self, support, counts, answers):
        return self.answered(support, answers, counts, counts, (sum(counts),) * 2,
                             precisions=PRECISIONS)  # fmt: skip

    def add(self, part):
        if {*part} == {"counts", "tree"}:
            return self.single([whole(k) for k in part["counts"]], part["tree"])
        names = {"up_to": self.up_to, "ever": self.ever, "from": self.tail, "limit": self.limit}
        ((kind, derive),) = ((k, names[k]) for k in part if k in names)
        tree = "trees" if kind == "ever" else "tree"
        require({*part} == {"letters", kind, tree}, "a part of no kind")
        return derive(support_of(part["letters"], self.n), part[kind], part[tree])

    def said(self, support, leaf, box, label):
        """That a leaf says the label of its box, if there is a rule."""
        fits = self.rule is None or leaf == (label,)
        require(fits, f"a leaf over {self.name(support)} is not of the class it says")
        return leaf * (len(self.judges) if len(leaf) == 1 else 1)

    def up_to(self, support, length, tree):
        size, most = len(support), max(1, whole(length) - len(support) + 1)

        def short(box):
            return sum(box[0]) <= length

        def cut(box, axis, where):
            return halves(box, whole(axis, size), whole(where), 1)

        def shown(box, first):
            low, high, room = *box, length - sum(box[0])
            if low == high:
                return self.one(support, low, answers)
            high = tuple(min(b, a + room) for a, b in zip(low, high, strict=True))
            lengths = sum(low), min(sum(high), length)
            return self.answered(support, answers, low, high, lengths,
                                 precisions=PRECISIONS[: 1 + first])  # fmt: skip

        def parts(box):
            return [part for part in halved(box, 1) if short(part)]

        root = (1,) * size, (most,) * size
        for kind, leaf, box in leaves_of(tree, root, cut, short, self.classes, self.tick):
            boxes, told = [box], kind == "is"
            if kind == "each" and self.rule is not None:
                sides = [range(a, b + 1) for a, b in zip(*box, strict=True)]
                told = math.prod(map(len, sides)) <= EACH
                boxes = [(c, c) for c in product(*sides) if sum(c) <= length] if told else []
            require(told, "a part up to a length says what the answers are")
            for inner in boxes:
                label = self.rule and self.rule.label(support, *inner)
                answers = self.said(support, leaf if kind == "is" else (label or 0,), inner, label)
                settle(inner, shown, parts, f"{inner} over {self.name(support)} is not proved")
        self.through[support] = max(length, self.through.get(support, 0))
        return f"over exactly {self.name(support)} up to length {length}"

    def ever(self, support, ever, trees):
        """Scores that do not grow see ratios of counts only: in each tree one letter weighs 1."""
        require(ever is True and not self.log_n, "ratios alone do not decide growing scores")
        require(len({j.config["attend_cls"] for j in self.judges}) == 1, "one attends to CLS")
        require(len(trees) == len(support), "one tree for each letter that occurs most")
        free, label = len(support) - 1 + self.cls, self.of_support(support)

        def cut(box, axis, where):
            require(type(where) is float, f"{where!a:.40} is not a ratio")
            return halves(box, whole(axis, free), Fraction(where), 0)

        def shown(box, first):
            low, high = ((*[0] * (1 - self.cls), *end) for end in box)
            low, high = ((*end[: 1 + column], 1, *end[1 + column :]) for end in (low, high))
            return self.answered(support, answers, low, high, precisions=PRECISIONS[: 1 + first])

        def parts(box):
            return halved(box, 0) if free else []

        for column, tree in enumerate(trees):  # noqa: B007, as `shown` reads it
            root = (0,) * free, (1,) * free
            for kind, leaf, box in leaves_of(tree, root, cut, bool, self.classes, self.tick):
                require(kind == "is", "ratios say what the answer is")
                answers = self.said(support, leaf, box, label)
                settle(box, shown, parts, f"ratios over {self.name(support)} are not proved")
        self.always.add(support)
        return f"over exactly {self.name(support)} at every length"

    def tail(self, support, start, tree):
        require(all(j.config["log_n"] for j in self.judges), "the tail needs scores with log n")
        ((kind, leaf, _),) = leaves_of(tree, 0, None, lambda _: True, self.classes, self.tick)
        answers = self.said(support, leaf, None, self.of_support(support))
        require(kind == "is" and whole(start) >= 2, "from a length on: an answer")
        ones = (1,) * len(support)
        shown = self.answered(support, answers, ones, ones, (start, start), tail=True,
                              precisions=PRECISIONS[:2])  # fmt: skip
        require(shown, f"the tail over {self.name(support)} is not proved")
        self.beyond[support] = min(start, self.beyond.get(support, start))
        return f"over exactly {self.name(support)} from length {start} on"

    def limit(self, support, limit, tree):
        """With ever more of one letter all attention goes to it, and outputs are continuous."""
        require(limit is True and len(support) == len(self.judges) == 1, "one letter, one model")
        require(not self.log_n, "the limit argument needs scores that do not grow")
        ((kind, answers, _),) = leaves_of(tree, 0, None, lambda _: True, self.classes, self.tick)
        shown = kind == "is" and self.answered(support, answers, (0, 1), (0, 1), strict=True)
        require(shown, f"the limit of {self.name(support)} is not proved")
        self.limits.add(support[0])
        return f"in the limit of ever more {self.name(support)}"

    def single(self, counts, tree):
        support, own = zip(*((i, k) for i, k in enumerate(counts) if k), strict=True)
        ((kind, answers, _),) = leaves_of(tree, 0, None, lambda _: True, self.classes, self.tick)
        if self.rule is None:
            wrong = kind == "apart" and len({*answers}) == 2
        else:
            label = self.rule.label(support, own, own)
            wrong = kind == "is" and label is not None and answers != (label,)
        text = " ".join(f"{self.name((i,))}{{{k}}}" for i, k in zip(support, own, strict=True))
        good = len(counts) == self.n and wrong and self.one(support, own, answers)
        require(good, f"{text} is not proved wrong")
        self.failures.add(tuple(counts))
        return f"on {text}, {'where they differ' if len(answers) == 2 else 'wrongly'}"

    def of_support(self, support):
        label = self.rule and self.rule.shared(support)
        require(self.rule is None or label is not None, "strings that share no label")
        return label

    def conclude(self, stated):
        """What follows from the parts, as a proof states it, and in words."""
        reach = {}
        sizes = range(1, self.n + 1)
        for support in (s for size in sizes for s in combinations(range(self.n), size)):
            known = max(self.through.get(support, 0), len(support) - 1)
            joined = support in self.always or known + 1 >= self.beyond.get(support, math.inf)
            reach[support] = None if joined else known
        for counts in self.failures:
            end = reach[tuple(i for i, k in enumerate(counts) if k)]
            require(end is not None and end < sum(counts), f"{counts} is claimed to hold and fail")
        pairs = [(x, s) for x in self.limits for s in reach if x in s and self.rule is not None]
        labels = [{self.rule.shared((x,)), self.rule.shared(s)} for x, s in pairs]
        limited = any(len(both - {None}) == 2 for both in labels)
        ends = [end for end in reach.values() if end is not None]
        finite, first = bool(self.failures) or limited, min(map(sum, self.failures), default=None)
        require(bool(ends) or not finite, "the parts contradict each other")
        horizon = min(ends) if ends and min(ends) + 1 == first else None
        failures = sorted(map(list, self.failures), key=lambda c: (sum(c), [-k for k in c]))
        found = {"verified_length": [[list(s), end] for s, end in reach.items()],
                 "failures": failures, "horizon": horizon, "infinite": not ends,
                 "finite": finite}  # fmt: skip
        require_same({k: v for k, v in stated.items() if k != "float32"}, found)
        said = "both answer alike" if len(self.judges) == 2 else "every answer is right"
        words = [f"{said} up to length {min(ends)}"] if ends else [f"{said} at every length"]
        return words + ([f"the horizon is {horizon}"] if horizon is not None else [])


def require_same(stated, found):
    stated, found = (json.dumps(it, sort_keys=True) for it in (stated, found))
    require(stated == found, f"the conclusion does not follow: {found:.300} does")


def inflated(text, most):
    unzip = zlib.decompressobj()
    content = unzip.decompress(base64.b64decode(text, validate=True), most + 1)
    good = len(content) <= most and unzip.eof and not unzip.unused_data
    require(good, "packed numbers are too long")
    return content


def unpacked(text, columns, most):
    content = inflated(text, 4 * columns * most)
    rows = struct.iter_unpack(f"<{columns}i", content)  # an error where a row is cut off
    return [tuple(whole(x) for x in row) for row in rows]


class Table:
    """A deterministic trellis: stages of edges (from, to, letters); a path is an input."""

    def __init__(self, data, n, classes):
        ((self.kind, self.number),) = data["name"].items()
        require({*data} == {"name", "length", "fixed", "stages", "label_stage", "labels"}, "fields")
        self.length = whole(data["length"], MAX_LENGTH + 1)
        self.fixed = [(whole(at, self.length), whole(x, n)) for at, x in data["fixed"]]
        self.places, self.stages, states, left = [], [], {0}, MAX_EDGES
        for stage in data["stages"]:
            places = [whole(at, self.length) for at in stage["places"]]
            rows = unpacked(stage["edges"], 2 + len(places), left)
            left -= len(rows)
            require(all(x < n for row in rows for x in row[2:]), "a letter that does not exist")
            require(len({(row[0], *row[2:]) for row in rows}) == len(rows),
                    "two edges of a state place the same letters")  # fmt: skip
            require({row[0] for row in rows} == states, "a state without edges, or never reached")
            states = {row[1] for row in rows}
            require(states == {*range(len(states))}, "states are numbered from 0")
            self.places.append(places)
            self.stages.append([(row[0], row[1], row[2:]) for row in rows])
        placed = sorted([at for at, _ in self.fixed] + [at for some in self.places for at in some])
        require(placed == [*range(self.length)], "a place belongs to no stage, or to several")
        named = self.kind == "step" or self.number in (self.length, self.length - len(self.fixed))
        require(named and self.kind in ("step", "length"), "a table of another name")
        self.at = whole(data["label_stage"], len(self.stages))
        self.labels = [x for (x,) in unpacked(data["labels"], 1, MAX_EDGES)]
        require(len(self.labels) == len(self.stages[self.at]), "one label for each edge")
        require(max(self.labels) < classes, "a class without an output")
        self.inputs = self.count(self.whole(self.stages))

    def whole(self, stages):
        return [range(len(stage)) for stage in stages]

    def count(self, edges, stages=None):
        """How many paths go through these edges of each stage."""
        ways = {0: 1}
        for stage, some in zip(stages or self.stages, edges, strict=True):
            after = {}
            for source, target, _ in map(stage.__getitem__, some):
                after[target] = after.get(target, 0) + ways.get(source, 0)
            ways = after
        return sum(ways.values())

    def of_labels(self, labels):
        """The stages of the inputs with these labels, and their labels; equal states are merged.

        From the end: states whose edges place the same letters with the same labels and lead to
        the same states. Edges are in order of source, target, letters.
        """
        kept = self.whole(self.stages)
        kept[self.at] = [e for e in kept[self.at] if self.labels[e] in labels]
        kept, stages = trimmed(self.stages, kept), []
        merged = dict.fromkeys((edge[1] for edge in self.stages[-1]), 0)
        for number in reversed(range(len(kept))):
            leaving = {}
            for e in kept[number]:
                source, target, letters = self.stages[number][e]
                label = self.labels[e] if number == self.at else 0
                leaving.setdefault(source, []).append((letters, label, merged[target]))
            names, merged = {}, {}
            for source in sorted(leaving):
                key = tuple(sorted(leaving[source]))
                merged[source] = names.setdefault(key, len(names))
            rows = sorted((source, target, letters, label) for key, source in names.items()
                          for letters, label, target in key)  # fmt: skip
            stages.insert(0, [row[:3] for row in rows])
            if number == self.at:
                told = [row[3] for row in rows]
        return stages, told


def trimmed(stages, edges):
    """Those edges that lie on a path of them from the first stage to the last."""
    kept, reached = [], {0}
    for stage, some in zip(stages, edges, strict=True):
        kept.append([e for e in some if stage[e][0] in reached])
        reached = {stage[e][1] for e in kept[-1]}
    for number in reversed(range(len(kept))):
        kept[number] = [e for e in kept[number] if stages[number][e][1] in reached]
        reached = {stages[number][e][0] for e in kept[number]}
    return kept


class Tables:
    """Parts whose inputs are the paths of tables. Of many leaves a sample is derived again."""

    def __init__(self, judges, data, tick, draw, document):
        self.judges, self.tick, self.draw = judges, tick, draw
        self.n, self.classes = judges[0].config["n_letters"], judges[0].classes
        self.tables = [Table(one, self.n, self.classes) for one in data]
        names = [(table.kind, table.number) for table in self.tables]
        require(names == sorted({*names}) and len({kind for kind, _ in names}) == 1, "their names")
        for table, judge in product(self.tables, judges):
            config = judge.config
            tokens = table.length + (config["reads"] != "last_letter")
            fits = config["n_layers"] == 1 and tokens <= (config["n_positions"] or tokens)
            require(fits, "the model has more layers, or lacks positions")
        leaves = sum(node[0] not in ("cut", "open") for part in document for node in part["tree"])
        self.share, self.of, self.derived = min(1, Fraction(LEAVES, max(1, leaves))), leaves, 0
        self.tally = [{"right": 0, "wrong": 0, "unknown": 0, "first": []} for _ in self.tables]
        self.seen = set()

    def add(self, part):
        require({*part} == {"table", "labels", "tree"}, "a part has a table, labels and a tree")
        number = whole(part["table"], len(self.tables))
        table, tally, labels = self.tables[number], self.tally[number], part["labels"]
        names = {(number, whole(label)) for label in labels}
        once = len(names) == len(labels) > 0 and not names & self.seen
        require(once and {*labels} <= {*table.labels}, "a label of no input, or twice")
        self.seen |= names
        stages, told = table.of_labels({*labels})

        def cut(region, stage, packed):
            stage, some = whole(stage, len(stages)), region[:]
            size = len(stages[stage])
            bits = int.from_bytes(inflated(packed, -(-size // 8)), "big")
            bits, over = divmod(bits, 1 << (-size % 8))
            require(over == 0, "a cut has one bit per edge of its stage")
            chosen = [e for e in region[stage] if bits >> (size - 1 - e) & 1]
            other = {*region[stage]} - {*chosen}
            return [[*some[:stage], one, *some[stage + 1 :]] for one in (chosen, sorted(other))]

        root = table.whole(stages)
        for kind, leaf, edges in leaves_of(part["tree"], root, cut, bool, self.classes, self.tick):
            edges = trimmed(stages, edges)
            require(bool(edges[0]), "a cut leaves inputs on both sides")
            inputs, (*found,) = table.count(edges, stages), {told[e] for e in edges[table.at]}
            label = found[0] if len(found) == 1 else None
            sampled = kind != "open" and (self.share == 1 or self.draw.random() < self.share)
            self.derived += sampled
            where = Region(table, stages, told, self, edges)
            if kind == "each":
                require(inputs <= EACH and len(self.judges) == 1, f"{inputs} inputs, one by one")
                tally["unknown"] += 0 if sampled else inputs
                for one in where.singles() if sampled else ():
                    answer = one.answer()
                    if answer is not None:
                        right = answer == told[one.edges[table.at][0]]
                        tally["right" if right else "wrong"] += 1
                        tally["first"] += [] if right else [one.first()]
            elif kind != "open":
                pair = len(self.judges) == 2
                fits = label is not None and not (kind == "wrong" and leaf == (label,))
                fits = (kind in ("is", "wrong") and fits) if not pair else (
                    kind == "is" or (kind == "apart" and len({*leaf}) == 2))  # fmt: skip
                require(fits, f"a leaf of {inputs} inputs cannot be {kind}")
                if sampled:
                    where.settle(leaf, [label] if kind == "wrong" else None, f"{kind} {leaf}")
                right = kind == "is" and (pair or leaf == (label,))
                tally["right" if right else "wrong"] += inputs
                tally["first"] += [] if right else [where.first()]
        return f"labels {labels} of table {number}"

    def conclude(self, stated):
        words = []
        require({*stated} == {"tables"} and len(stated["tables"]) == len(self.tables), "tables")
        for table, tally, given in zip(self.tables, self.tally, stated["tables"], strict=True):
            every, first = table.inputs == self.n**table.length, min(tally["first"], default=None)
            given = {k: v for k, v in given.items() if k != "float32"}
            right, wrong = tally["right"], tally["wrong"]
            if tally["unknown"]:  # of leaves that were not drawn; what is stated has to be possible
                right, wrong = (max(right, int(given["right"])), max(wrong, int(given["wrong"])))
                fits = right + wrong <= tally["right"] + tally["wrong"] + tally["unknown"]
                require(fits, "the conclusion does not follow from the leaves")
                first = given["first_wrong"]
            left, name = table.inputs - right - wrong, f"{table.kind} {table.number}"
            require_same(given, {
                table.kind: table.number, "inputs": str(table.inputs), "all_strings": every,
                "right": str(right), "wrong": str(wrong), "undecided": str(left),
                "first_wrong": first and list(first),
            })  # fmt: skip
            known = f"{right:,} right, {wrong:,} wrong, {left:,} undecided"
            words.append(f"{name}: {table.inputs:,} inputs{', all strings' * every}; {known}")
        return words


class Region:
    """Paths of a table through some edges, none of them without a path."""

    def __init__(self, table, stages, told, owner, edges):
        self.table, self.stages, self.told, self.owner = table, stages, told, owner
        self.edges = edges

    def of(self, edges):
        return Region(self.table, self.stages, self.told, self.owner, trimmed(self.stages, edges))

    def parts(self):
        """Two halves, at the stage with the most edges; nothing of a single path."""
        number = max(range(len(self.edges)), key=lambda i: len(self.edges[i]))
        some = self.edges[number]
        if len(some) == 1:
            return []
        halved = some[: len(some) // 2], some[len(some) // 2 :]
        return [self.of([*self.edges[:number], half, *self.edges[number + 1 :]]) for half in halved]

    def singles(self):
        return [one for part in self.parts() for one in part.singles()] or [self]

    def letters(self, at):
        """The letters that may stand at a place, each with the number of their stage."""
        for number, places in enumerate(self.table.places):
            if at in places:
                i = places.index(at)
                return {self.stages[number][e][2][i]: number for e in self.edges[number]}
        return {dict(self.table.fixed)[at]: None}

    def first(self):
        """The first path in the order of the alphabet."""
        region, string = self, []
        for at in range(self.table.length):
            letter, number = min(region.letters(at).items())
            if number is not None:
                i = self.table.places[number].index(at)
                edges = region.edges[:]
                edges[number] = [e for e in edges[number] if self.stages[number][e][2][i] == letter]
                region = region.of(edges)
            string.append(letter)
        return tuple(string)

    def shown(self, leaf, losers, precisions=None):
        """Whether each model answers so on every path, or at least beats the losers."""
        alone = all(len(some) == 1 for some in self.edges)
        answers = leaf * (len(self.owner.judges) if len(leaf) == 1 else 1)
        for judge, answer in zip(self.owner.judges, answers, strict=True):
            asked = self.asked(judge)
            beaten = judge.others(answer) if losers is None else losers
            bits = precisions or (PRECISIONS if alone else PRECISIONS[:1])
            if asked is None or not judge.beats(*asked, answer, beaten, bits):
                return False
        return True

    def settle(self, leaf, losers, what):
        settle(self, lambda some, first: some.shown(leaf, losers), Region.parts,
               f"some of the inputs of a leaf are not proved {what}")  # fmt: skip

    def answer(self):
        """The class that the one path is answered with, if that can be told."""
        tries = ((j, p) for p in PRECISIONS for j in range(self.owner.classes))
        return next((j for j, p in tries if self.shown((j,), None, (p,))), None)

    def asked(self, judge):
        """The tokens at their places, the reader first, and the region; None of several readers."""
        length, n, config = self.table.length, self.owner.n, judge.config
        placed, last = bool(config["n_positions"]), config["reads"] == "last_letter"
        shift = config["reads"] == "first"
        reader = 0, length * placed * (config["reads"] == "last")
        if last:
            ends = self.letters(length - 1)
            if len(ends) > 1:
                return None
            reader = 2 + min(ends), placed * (length - 1)
        at = {(x, i): 1 + i * n + x for i in range(length) for x in range(n)}
        spots = reader, *((2 + x, placed * (i + shift)) for x, i in at)
        common = [at[x, i] for i, x in self.table.fixed]
        common += [0] * (config["attend_cls"] and not last)
        stages = []
        for stage, places, some in zip(self.stages, self.table.places, self.edges, strict=True):
            edges = [stage[e] for e in some]
            stages.append([(a, b, [at[pair] for pair in zip(letters, places, strict=True)])
                           for a, b, letters in edges])  # fmt: skip
        grows = config["log_n"]
        return spots, lambda p: Paths(stages, common, log_bounds(length, p) if grows else None)


def check(proof, models, seconds=SECONDS, seed=None):
    """What the proof shows about the models, a sentence each; all are contents of files."""
    document, until = read_json(proof, "the proof"), time.monotonic() + seconds
    read = [read_model(model) for model in models]
    digest = document.pop("digest")
    rest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    require(digest == rest, "the digest does not fit the content")
    schema, language, parts = (document[name] for name in ("schema", "language", "parts"))
    require(schema == "tsc-interp/proof/1", f"the schema {schema!a:.60} is not known here")
    fields = {"schema", "models", "float32", "language", "parts", "conclusion"}
    require({*document} == fields, "a proof has other fields")
    require(document["float32"] in (None, "tokens", "compressed"), "float32 names a form of input")
    require(document["models"] == [one[2] for one in read], "the proof is about other models")

    def tick():
        require(time.monotonic() < until, "there was not enough time")

    judges = [Judge(config, tensors, tick) for config, tensors, _ in read]
    sizes = {(judge.config["n_letters"], judge.classes) for judge in judges}
    require(len(sizes) == 1 and len(judges) in (1, 2), "the models have other letters or classes")
    seed = random.SystemRandom().getrandbits(32) if seed is None else int(seed)
    if language is not None and {*language} == {"tables"}:
        replay = Tables(judges, language["tables"], tick, random.Random(seed), parts)
    else:
        given = language is not None and {*language} == {"counts"}
        require(given or (language is None and len(judges) == 2), "a language of no kind")
        rule = Rule(language["counts"], judges[0].config["n_letters"]) if given else None
        replay = Counts(judges, rule, tick)
    said = [replay.add(part) for part in parts]
    words = replay.conclude(document["conclusion"])
    if getattr(replay, "share", 1) != 1:
        drawn = f"{replay.derived} of {replay.of} leaves hold, drawn with seed {seed}"
        said, words = [], [f"{drawn}; the others are not checked", *(f"stated: {w}" for w in words)]
    return said + words + ["nothing it says of float32 is checked"] * bool(document["float32"])


if __name__ == "__main__":
    status = 2
    try:
        paths = [word for word in sys.argv[1:] if not word.replace(".", "", 1).isdecimal()]
        limits = [float(word) for word in sys.argv[1 + len(paths) :]]
        contents = []
        for path in paths[: 3 if len(paths) > 1 else 0]:
            with open(path, "rb") as file:
                contents.append(file.read(MAX_BYTES))  # what is longer is cut off
        proof, *models = contents
        status = 3
        print("accepted:", *check(proof, models, *limits), sep="\n  ")
        status = 0
    except Exception as error:  # whatever it is, nothing is proved
        reason = error if isinstance(error, Rejected) else repr(error)
        usage = "usage: rational_checker.py PROOF.json MODEL.safetensors [MODEL] [SECONDS [SEED]]"
        print("rejected:" if status == 3 else usage, f"{reason!s:.300}", file=sys.stderr)
    sys.exit(status)
