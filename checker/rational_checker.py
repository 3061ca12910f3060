"""A second checker of tsc-interp certificates. It shares nothing with the package.

    python rational_checker.py CERTIFICATE.json MODEL.safetensors

Standard library only, and no floating-point arithmetic: an interval is a pair of integers (lo, hi)
that stands for [lo / 2^p, hi / 2^p], lower ends rounded down and upper ends up. There is no NaN, so
a comparison is what it looks like. What is proved is about the real-number classifier whose weights
are the float32 numbers of the file. Exit 0: accepted, with what is proved. 3: rejected, with the
reason. 2: wrong usage, or a file that cannot be opened.
"""

import hashlib
import json
import math
import re
import struct
import sys
import time
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

MAX_BYTES, MAX_LETTERS, MAX_LENGTH, EVER, SECONDS = 16 << 20, 12, 10**12, 10**13, 600.0
PRECISIONS, GUARD = (192, 1024, 8192), 64  # p is at least 149, so that every float32 is exact
ALPHABET, NORMS = "abcdefghijklmnopqrstuvwxyz", {"off": "", "rms": "w", "layer": "wb"}
SCALES = {"sqrt_d_head": False, "sqrt_d_head_log_n": True}
KINDS = "wrong", "right_up_to", "right_at_all_lengths", "right_beyond", "limit"
OPTIONS = {
    "n_letters": int, "n_layers": int, "d_model": int, "d_head": int, "n_heads": int, "d_mlp": int,
    "n_positions": int, "attend_cls": bool, "norm": str, "norm_eps": float, "score_scale": str,
    "task": dict, "dropout": float, "embedding_init": str, "attention_init": str, "mlp_init": str,
}  # fmt: skip
WIDER = {"biases": bool, "act_fn": str, "reads": str, "token_names": list}  # if not the default
TASKS = {"contains_all": {"letters": str}, "at_least": {"letter": str, "k": int},
         "majority": {"letter": str}, "parity": {"letter": str, "odd": bool}}  # fmt: skip


class Rejected(Exception):
    """The certificate is not accepted, and why."""


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


def normalise(row, eps, p):
    """v / sqrt(mean(v^2) + eps) = v sqrt(d / (v^2 + rest)), rest: the other squares and d eps.

    It rises with v whatever the rest, so its ends are at the ends of v; its size falls with rest.
    """

    def lower(v, i):
        rest = most - high[i] if v > 0 else least - low[i]
        size = math.isqrt((v * v * len(row) << 2 * p) // (v * v + rest or 1))
        return size if v > 0 else -size - 1

    low = [0 if lo < 0 < hi else min(lo * lo, hi * hi) for lo, hi in row]
    high = [max(lo * lo, hi * hi) for lo, hi in row]
    least = sum(low) + (len(row) * eps[0] << 2 * p) // eps[1]
    most = sum(high) + ceil(len(row) * eps[0] << 2 * p, eps[1])
    return [(lower(lo, i), -lower(-hi, i)) for i, (lo, hi) in enumerate(row)]


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


def mean(weights, column):
    """The weighted mean of intervals: its least is minus the largest of the negatives."""
    least, most = [-lo for lo, _ in column], [hi for _, hi in column]
    return -largest_mean(weights, least), largest_mean(weights, most)


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


# -- the model -----------------------------------------------------------------------------------


class Model:
    """The logit over boxes of multiplicities, at scale 2^-p.

    Every state is extended by what is read from it in the end, which is linear: the logit and, if
    no norm stands in between, the last MLP's arguments. So embeddings and whatever is added to a
    state (W_V W_O, W_out) are extended once, and bounds on what is read stay tight.
    """

    def __init__(self, config, tensors, p, tick):
        self.config, self.p, self.tick, self.first, self.w = config, p, tick, {}, (w := {})
        for name, (shape, flat) in tensors.items():
            w[name] = [(v << p - 149, v << p - 149) for v in flat]
            for size in reversed(shape[1:]):
                w[name] = [w[name][i : i + size] for i in range(0, len(w[name]), size)]
        readout, last = w["unembed.W_U"], w.get(f"blocks.{config['n_layers'] - 1}.mlp.W_in")
        self.direct = last is None or config["norm"] == "off"
        if last and self.direct:
            readout = [[*a, *b] for a, b in zip(readout, last, strict=True)]

        def extended(rows):
            return [[*a, *b] for a, b in zip(rows, self.times(rows, readout), strict=True)]

        def bias(name, *shape):  # zero where there is none
            zero = [(0, 0)] * shape[-1]
            return w.get(name, [zero] * shape[0] if len(shape) > 1 else zero)

        d, k, h, m = (config[name] for name in ("d_model", "d_head", "n_heads", "d_mlp"))
        self.embed, self.layers, self.offset = extended(w["embed.W_E"]), [], bias("unembed.b_U", 1)
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
            self.layers.append((block, heads, b_o, w_in, b_in, extended(w_out), b_out))

    def times(self, rows, matrix):
        self.tick()
        columns = list(zip(*matrix, strict=True))
        return [[dot(row, column, self.p) for column in columns] for row in rows]

    def read(self, name, row):
        """A state without its extension, after the norm if there is one."""
        row, kind = row[: self.config["d_model"]], self.config["norm"]
        if kind == "off":
            return row
        if kind == "layer":
            low, high = map(sum, zip(*row, strict=True))
            row = [(lo - ceil(high, len(row)), hi - low // len(row)) for lo, hi in row]
        row = normalise(row, self.config["norm_eps"].as_integer_ratio(), self.p)
        row = [dot([v], [w], self.p) for v, w in zip(row, self.w[f"{name}.w"], strict=True)]
        return plus(row, self.w[f"{name}.b"]) if kind == "layer" else row

    def tables(self, block, heads, x, queries):
        """For each head its scores [query][key] and what each key adds [key][channel]."""
        p, d_head = self.p, self.config["d_head"]
        root = math.isqrt((1 << 2 * p) // d_head)  # 2^p / sqrt(d_head), rounded down
        scale = [(root, root + (root * root * d_head < 1 << 2 * p))]
        read = [self.read(f"{block}ln1", row) for row in x] if heads else []
        for w_q, w_k, w_value, b_q, b_k, b_value in heads:
            asked = [plus(row, b_q) for row in self.times(read[:queries], w_q)]
            keys = [plus(row, b_k) for row in self.times(read, w_k)]
            scores = [[dot([dot(q, k, p)], scale, p) for k in keys] for q in asked]
            yield scores, [plus(row, b_value) for row in self.times(read, w_value)]

    def bound(self, face, ends, logs, tail):
        """The logit's interval; `ends` are the multiplicities of CLS and of the face's letters."""
        x = [self.embed[token] for token in (0, *(2 + i for i in face))]
        keys, d = [k for k, (_, heavy) in enumerate(ends) if heavy], self.config["d_model"]
        act = relu if self.config.get("act_fn") == "relu" else gelu
        for block, heads, b_o, w_in, b_in, w_out, b_out in self.layers:
            last = block == self.layers[-1][0]
            tables = self.tables(block, heads, x, 1 if last else len(x))
            if block == self.layers[0][0]:
                tables = self.first.get(face) or list(tables)
                self.first = {face: tables}  # of one face at a time: it does not depend on the box
            x, unread = [list(row) for row in (x[:1] if last else x)], d * (last and self.direct)
            for scores, values in tables:
                columns = list(zip(*(values[k] for k in keys), strict=True))[unread:]
                for query, row in enumerate(x):
                    near, times = [scores[query][k] for k in keys], [ends[k] for k in keys]
                    weights = list(attention_weights(near, times, logs, tail, self.p))
                    row[unread:] = plus(row[unread:], [mean(weights, column) for column in columns])
            x = [plus(row, b_o) for row in x]
            if w_in:
                pre = [row[d + 1 :] for row in x]
                if not (last and self.direct):
                    pre = self.times([self.read(f"{block}ln2", row) for row in x], w_in)
                post = [[act(v, self.p) for v in plus(row, b_in)] for row in pre]
                post = self.times(post, w_out)
                x = [plus(plus(a, b), b_out) for a, b in zip(x, post, strict=True)]
        return plus([x[0][d]], self.offset)[0]


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
    task, sizes = config["task"], [config[name] for name in OPTIONS][:6]
    beyond = ", ".join(sorted(config.keys() - {*OPTIONS, *WIDER}))
    require(not beyond, f"models with {beyond} are not known here")
    require(task["kind"] in TASKS, f"the task {task['kind']!a:.40} is not known here")
    wider = {name: kind for name, kind in WIDER.items() if name in config}
    for given, options in (config, OPTIONS | wider), (task, {"kind": str, **TASKS[task["kind"]]}):
        require({name: type(given[name]) for name in given} == options, "unknown options")
    act, norm, scale = config.get("act_fn", "gelu"), config["norm"], config["score_scale"]
    require(act in ("gelu", "relu"), f"the activation {act!a:.40} is not known here")
    last = config.get("reads") == "last" and sizes[1] == 1  # CLS at the end: it sees all, once
    require("reads" not in config or last, "causal attention makes the order of letters count")
    require(norm in NORMS, f"the norm {norm!a:.40} is not known here")
    require(scale in SCALES, f"scores scaled by {scale!a:.40} are not known here")
    require(text == json.dumps(config, sort_keys=True, separators=(",", ":")), "not as saved")
    require(min(sizes[:4]) > 0 <= min(sizes) and max(sizes) <= 1 << 16, "an impossible size")
    require(sizes[0] <= MAX_LETTERS, f"only alphabets of up to {MAX_LETTERS} letters are checked")
    require(config["n_positions"] == 0, "with positions the logit depends on the order of letters")
    require(0 < config["norm_eps"] < 1e300, "norm_eps is no positive number")
    named = task.get("letters") or task["letter"]
    known = list(named) == sorted({*named} & {*ALPHABET[: sizes[0]]}) != []
    require(known and ("letters" in task or len(named) == 1), "the task's letters are not letters")
    return config, sizes


def read_model(content):
    """Configuration, tensors as (shape, integers at scale 2^-149), and the hash of all of it."""
    end = 8 + struct.unpack("<Q", content[:8])[0]
    header, data = read_json(content[8:end], "the model's header"), content[end:]
    config, (n, depth, d, k, h, m) = read_config(text := header.pop("__metadata__")["config"])
    each = {f"attn.W_{part}": [h, d, k] for part in "QKV"} | {"attn.W_O": [h, k, d]}
    each |= {"mlp.W_in": [d, m], "mlp.W_out": [m, d]}
    shapes, parts = {"embed.W_E": [2 + n, d], "unembed.W_U": [d, 1]}, NORMS[config["norm"]]
    each |= {f"ln{i}.{part}": [d] for i, on in ((1, h), (2, m)) if on for part in parts}
    if config.get("biases"):
        shapes["unembed.b_U"] = [1]
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


def require_cover(whole, boxes, length, tick):
    """That boxes cover `whole`, except where the lower ends' sum exceeds `length`.

    All are lists of sides [a, b). A piece is cut at sides of boxes until there are none inside it:
    then a box with a point of it contains it. Cuts are at the median side, on the axis where it
    crosses the fewest boxes. For real numbers, closed boxes then cover the closed whole.
    """
    waiting = [(whole, boxes)]
    while waiting:
        tick()
        piece, boxes = waiting.pop()
        if length is not None and sum(a for a, _ in piece) > length:
            continue
        pairs = [(box, zip(piece, box, strict=True)) for box in boxes]
        boxes = [box for box, both in pairs if all(a < t and s < b for (a, b), (s, t) in both)]
        cuts = []
        for axis, (a, b) in enumerate(piece):
            inside = sorted(side for box in boxes for side in box[axis] if a < side < b)
            for at in inside[len(inside) // 2 :][:1]:
                cuts += [(sum(box[axis][0] < at < box[axis][1] for box in boxes), axis, at)]
        require(bool(boxes), f"the boxes leave out the piece {piece}")
        if cuts:
            _, axis, at = min(cuts)
            parts = (piece[axis][0], at), (at, piece[axis][1])
            waiting += [([*piece[:axis], part, *piece[axis + 1 :]], boxes) for part in parts]


def label_of(task, counts):
    """The true label of a string with these counts."""
    own, kind = counts.get(task.get("letter"), 0), task["kind"]
    if kind in ("at_least", "majority"):
        return own >= task["k"] if kind == "at_least" else 2 * own > sum(counts.values())
    return (own % 2 == 1) is task["odd"] if kind == "parity" else {*task["letters"]} <= {*counts}


def box_label(task, letters, low, high):
    """The label of all strings over exactly these letters in a box; None if they may differ.

    Contains-all sees which letters occur, parity the number of its own. The other two rules rise
    with their own letter and never with another, so their extremes are at two corners.
    """
    box, own = list(zip(letters, low, high, strict=True)), task.get("letter")
    least, most = ({c: b if (c == own) is top else a for c, a, b in box} for top in (False, True))
    labels = {label_of(task, least), label_of(task, most)}
    unknown = task["kind"] == "parity" and least.get(own) != most.get(own)
    return None if unknown or len(labels) > 1 else labels.pop()


def number(value, types, least, most):
    require(type(value) in types and least <= value <= most, f"{value!a:.40} is not such a number")
    return value


def sides(given, size, *limits):
    """Boxes as lists of sides, every end a number within limits."""
    for low, high in given:
        box = [(number(a, *limits), number(b, *limits)) for a, b in zip(low, high, strict=True)]
        require(len(box) == size and all(a <= b for a, b in box), f"{low}..{high} is no such box")
        yield box


class Check:
    """Claims in turn, then what follows from all of them."""

    def __init__(self, config, tensors, seconds):
        self.letters, self.task = ALPHABET[: config["n_letters"]], config["task"]
        self.log_n, self.cls = SCALES[config["score_scale"]], (int(config["attend_cls"]),) * 2
        self.wrong, self.right, self.beyond, self.limited = {}, {}, {}, False
        until = time.monotonic() + seconds
        tick = self.tick = lambda: require(time.monotonic() < until, "there was not enough time")
        self.model = lru_cache(None)(lambda p: Model(config, tensors, p, tick))

    def proved(self, label, face, ends, n=(1, 1), bound=0, tail=False, precisions=PRECISIONS[:2]):
        """Whether the logit is positive and at least `bound`; for label 0, at most `bound`."""
        require(label is not None, "strings that share no label are claimed right together")
        for p in precisions:
            exact, one = [(Fraction(a), Fraction(b)) for a, b in ends], 1 << p
            scaled = [(math.floor(a * one), math.ceil(b * one)) for a, b in exact]
            logs = (log_bounds(n[0], p)[0], log_bounds(n[1], p)[1]) if self.log_n else (one, one)
            lo, hi = self.model(p).bound(face, scaled, logs, tail)
            if lo > 0 or hi <= 0:  # decided; more bits would not change it
                return lo >= max(1, Fraction(bound) * one) if label else hi <= Fraction(bound) * one
        return False

    def face(self, letters):
        """Places in the alphabet, and the label of all strings over exactly these letters, if any.

        Up to these counts every rule takes all the values it can.
        """
        valid = type(letters) is str and list(letters) == sorted({*letters} & {*self.letters}) != []
        require(valid, f"{letters!a:.40} is not a set of letters")
        ones, many = [1] * len(letters), [2 * len(letters) + self.task.get("k", 1)] * len(letters)
        return tuple(map(self.letters.index, letters)), box_label(self.task, letters, ones, many)

    def check_wrong(self, string):
        runs = re.findall(r"([a-z])(?:\{([0-9]{1,10})\})?", string)
        counts = {c: sum(int(k or 1) for d, k in runs if d == c) for c in sorted(dict(runs))}
        n, letters = sum(counts.values()), "".join(counts)
        written = "".join(c * k if n <= 4 or k == 1 else f"{c}{{{k}}}" for c, k in counts.items())
        require(written == string, f"{string!a:.40} is not a sorted run-length string")
        label, ends = label_of(self.task, counts), [self.cls, *((k, k) for k in counts.values())]
        proved = self.proved(not label, self.face(letters)[0], ends, (n, n), precisions=PRECISIONS)
        require(proved, f"{string} is not proved misclassified")
        self.wrong[string] = letters, n
        return f"{string} is a false {'negative' if label else 'positive'}"

    def check_right_up_to(self, letters, length, boxes):
        (face, _), half_open, _ = self.face(letters), [], number(length, (int,), 0, MAX_LENGTH)
        for box in sides(boxes, len(face), (int,), 1, MAX_LENGTH):
            low, high = zip(*box, strict=True)
            require(sum(low) <= length, f"{letters}: {low}..{high} holds no string of the claim")
            label = box_label(self.task, letters, low, high)
            proved = self.proved(label, face, [self.cls, *box], (sum(low), sum(high)))
            require(proved, f"{letters}: {low}..{high} is not proved right")
            half_open.append([(a, b + 1) for a, b in box])
        require_cover([(1, length + 1)] * len(face), half_open, length, self.tick)
        self.right[letters] = max(length, self.right.get(letters, 0))
        return f"every string over exactly {letters} up to length {length} is right"

    def check_right_at_all_lengths(self, letters, bound, charts):
        """Scores that do not grow see ratios of counts only: in each chart one letter weighs 1."""
        (face, label), real = self.face(letters), (int, float)
        require(not self.log_n, "ratios alone do not decide a model scaled by log n")
        number(bound, real, *((5e-324, 1e300) if label else (-1e300, 0)))
        largest = [chart["largest"] for chart in charts if len(chart) == 2]
        require(largest == [*letters], f"{letters}: not one chart per letter")
        for column, chart in enumerate(charts):
            boxes = list(sides(chart["boxes"], len(face) - 1 + self.cls[0], real, 0, 1))
            for box in boxes:
                ends = box if self.cls[0] else [(0, 0), *box]
                ends = [*ends[: 1 + column], (1, 1), *ends[1 + column :]]
                proved = self.proved(label, face, ends, bound=bound)
                require(proved, f"{letters}: the logit is not proved to stay beyond {bound}")
            require_cover([(0, 1)] * (len(face) - 1 + self.cls[0]), boxes, None, self.tick)
        self.right[letters] = EVER
        side = ">=" if label else "<="
        return f"every string over exactly {letters} is right: logit {side} {bound:.6g}"

    def check_right_beyond(self, letters, length):
        (face, label), n = self.face(letters), number(length, (int,), 2, MAX_LENGTH)
        require(self.log_n, "the tail bound needs scores scaled by log n")
        ends = [self.cls] + [(1, 1)] * len(face)
        require(self.proved(label, face, ends, (n, n), tail=True), f"{letters}: the tail is open")
        self.beyond[letters] = min(n, self.beyond.get(letters, n))
        return f"every string over exactly {letters} of {n} letters or more is right"

    def check_limit(self, letter, letters):
        """With ever more of one letter all attention goes to it, and the logit is continuous."""
        (face, label), (faces, other) = self.face(letter), self.face(letters)
        require(not self.log_n, "the limit argument needs scores that do not grow")
        require(len(face) == 1 and face[0] in faces, "the letter is not one of the letters")
        require({label, other} == {True, False}, "the two sets of letters must differ in label")
        ends, below = [(0, 0), (1, 1)], -1e-30
        proved = self.proved(True, face, ends) or self.proved(False, face, ends, bound=below)
        require(proved, f"the limit for {letter} may be zero")
        self.limited = True
        return f"{letter}^n and {letters} with ever more {letter} share a limit other than zero"

    def conclude(self):
        """What follows from the claims, as a certificate states it, and in words."""
        through, sizes = {}, range(1, len(self.letters) + 1)
        for letters in ("".join(f) for size in sizes for f in combinations(self.letters, size)):
            known = max(self.right.get(letters, 0), len(letters) - 1)
            through[letters] = EVER if known + 1 >= self.beyond.get(letters, EVER) else known
        faces, lengths = {f for f, _ in self.wrong.values()}, [n for _, n in self.wrong.values()]
        require(all(through[f] < n for f, n in self.wrong.values()), "a string right and wrong")
        negative = {f: n == EVER or None for f, n in through.items() if self.face(f)[1] is False}
        negative |= {f: False for f in faces if f in negative}
        holding = ", ".join(f for f, holds in negative.items() if holds)
        right, finite = min(through.values()), self.limited or bool(lengths)
        said = [f"the horizon is {right}"] if right + 1 in lengths else []
        said += [f"no false positive of any length over {holding}"] if holding else []
        said += ["no string of any length is misclassified"] if right == EVER else []
        found = {"horizon": right if right + 1 in lengths else None, "infinite": right == EVER}
        return {**found, "finite": finite, "negative_faces": negative}, said


def check(certificate, model, seconds=SECONDS):
    """What the certificate proves about the model, a sentence each; both are contents of files."""
    document = read_json(certificate, "the certificate")
    config, tensors, weight_hash = read_model(model)
    digest = document.pop("digest")
    rest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    require(digest == rest, "the digest does not fit the content")
    schema = document.pop("schema")
    require(schema != "tsc-interp/certificate/2", "several classes and float32 are not known here")
    require(schema == "tsc-interp/certificate/1", "the schema is another one")
    require(document.pop("weight_hash") == weight_hash, "the certificate is about another model")
    checker, said = Check(config, tensors, seconds), []
    for claim in document.pop("claims"):
        kind = claim.pop("kind")
        require(kind in KINDS, f"unknown kind of claim {kind!a:.40}")
        said.append(getattr(checker, f"check_{kind}")(**claim))
    found, words = checker.conclude()
    stated, derived = (json.dumps(it, sort_keys=True) for it in (document, {"conclusion": found}))
    require(stated == derived, f"the conclusion does not follow from the claims: {derived} does")
    return said + words


if __name__ == "__main__":
    status = 2
    try:
        certificate, model, *limit = sys.argv[1:]
        with open(certificate, "rb") as first, open(model, "rb") as second:
            contents = first.read(MAX_BYTES), second.read(MAX_BYTES)  # what is longer is cut off
        status = 3
        print("accepted:", *check(*contents, *map(float, limit)), sep="\n  ")
        status = 0
    except Exception as error:  # whatever it is, nothing is proved
        reason = error if isinstance(error, Rejected) else repr(error)
        usage = "usage: python rational_checker.py CERTIFICATE.json MODEL.safetensors [SECONDS]"
        print("rejected:" if status == 3 else usage, f"{reason!s:.300}", file=sys.stderr)
    sys.exit(status)
