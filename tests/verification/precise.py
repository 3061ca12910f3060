"""A third forward pass, at as many digits as asked for: mpmath, plain loops, letter counts.

Neither NumPy's floats nor flint's balls: what the search and the checker are held against where
float64 is too coarse. mpmath's exponents have no limit, so nothing overflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
from mpmath import mpf

from tsc_interp.checkpoints import Checkpoint


def logit(checkpoint: Checkpoint, counts: Sequence[int], digits: int = 120) -> Any:
    """The real logit of a count vector, to about `digits` digits of its largest term."""
    with mpmath.workdps(digits):
        return +_outputs(checkpoint, [int(count) for count in counts])[0]


def outputs(checkpoint: Checkpoint, counts: Sequence[int], digits: int = 80) -> list[Any]:
    """Every output of a model that has several."""
    with mpmath.workdps(digits):
        return [+value for value in _outputs(checkpoint, [int(count) for count in counts])]


def answer(checkpoint: Checkpoint, counts: Sequence[int]) -> int | None:
    """The largest output's index where two precisions agree on it, else None."""
    coarse, fine = outputs(checkpoint, counts, 40), outputs(checkpoint, counts, 70)
    best = max(range(len(fine)), key=lambda j: (fine[j], -j))
    others = [abs(fine[best] - value) for j, value in enumerate(fine) if j != best]
    moved = max(abs(a - b) for a, b in zip(coarse, fine, strict=True))
    return best if min(others) > 4 * moved else None


def sign(checkpoint: Checkpoint, counts: Sequence[int]) -> int | None:
    """+1 or -1 where two precisions agree on it, else None."""
    coarse, fine = logit(checkpoint, counts, 40), logit(checkpoint, counts, 70)
    if coarse * fine <= 0 or abs(coarse - fine) > abs(fine) / 2:
        return None
    return 1 if fine > 0 else -1


class _Remembered:
    """What was computed of the last model: forgeries ask for the same few vectors all the time."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.checkpoint, self.found = checkpoint, dict[tuple[int, ...], list[Any]]()


_last = _Remembered(None)


def _outputs(checkpoint: Checkpoint, counts: list[int]) -> list[Any]:
    global _last
    if _last.checkpoint is not checkpoint:
        _last = _Remembered(checkpoint)
    key = mpmath.mp.prec, *counts
    if key not in _last.found:
        _last.found[key] = _computed(checkpoint, counts)
    return _last.found[key]


def _computed(checkpoint: Checkpoint, counts: list[int]) -> list[Any]:
    config = checkpoint.config
    w = {name: _exact(array.tolist()) for name, array in checkpoint.weights.items()}
    present = [letter for letter, count in enumerate(counts) if count]
    copies = [int(config.attend_cls), *(counts[letter] for letter in present)]
    stretch = mpmath.log(sum(counts) + config.cls_counted) if config.log_n else mpf(1)
    x = [w["embed.W_E"][token] for token in (0, *(2 + letter for letter in present))]
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        if config.n_heads:
            read = [_norm(config, w, f"{block}.ln1", row) for row in x]
            for head in range(config.n_heads):
                parts = [w[f"{block}.attn.W_{part}"][head] for part in "QKVO"]
                if config.biases:
                    parts += [w[f"{block}.attn.b_{part}"][head] for part in "QKV"]
                norms = [w.get(f"{block}.attn.{x}_norm.w") for x in "qk"]
                added = _head(config, parts, read, copies, stretch, norms)
                x = [_plus(row, more) for row, more in zip(x, added, strict=True)]
            x = [_biased(config, row, w, f"{block}.attn.b_O") for row in x]
        if config.d_mlp:
            for i, row in enumerate(x):
                seen = _norm(config, w, f"{block}.ln2", row)
                pre = _times(seen, w[f"{block}.mlp.W_in"])
                if config.gated_mlp:
                    gates = _times(seen, w[f"{block}.mlp.W_gate"])
                    pairs = zip(gates, pre, strict=True)
                    post = [ACTIVATIONS[config.act_fn](gate) * t for gate, t in pairs]
                    post = _biased(config, post, w, f"{block}.mlp.b_in")
                else:
                    pre = _biased(config, pre, w, f"{block}.mlp.b_in")
                    post = [ACTIVATIONS[config.act_fn](t) for t in pre]
                x[i] = _plus(row, _times(post, w[f"{block}.mlp.W_out"]))
                x[i] = _biased(config, x[i], w, f"{block}.mlp.b_out")
    read_out = _norm(config, w, "ln_final", x[0]) if config.final_norm else x[0]
    return _biased(config, _times(read_out, w["unembed.W_U"]), w, "unembed.b_U")


ACTIVATIONS = {
    "gelu": lambda t: t * mpmath.erfc(-t / mpmath.sqrt(2)) / 2,
    "gelu_new": lambda t: _gelu_new(t),
    "relu": lambda t: max(t, mpf(0)),
    "silu": lambda t: t / (1 + mpmath.exp(-t)),
}


def _gelu_new(t: Any) -> Any:
    inner = mpmath.sqrt(2 / mpmath.pi) * (t + mpf(44715) / 10**6 * t**3)
    # 1 + tanh loses its digits far to the left.
    return t / 2 * (1 + mpmath.tanh(inner) if inner > -9 else 2 / (1 + mpmath.exp(-2 * inner)))


def _biased(config: Any, row: list[Any], w: Any, name: str) -> list[Any]:
    return _plus(row, w[name]) if config.biases else row


def _head(
    config: Any, parts: list[Any], read: list[Any], copies: list[int], stretch: Any, norms: Any
) -> Any:
    w_q, w_k, w_v, w_o, *biases = parts
    b_q, b_k, b_v = biases or [[mpf(0)] * config.d_head] * 3
    keys = [_met(config, _plus(_times(row, w_k), b_k), norms[1]) for row in read]
    values = [_times(_plus(_times(row, w_v), b_v), w_o) for row in read]
    out = []
    for row in read:
        query = _met(config, _plus(_times(row, w_q), b_q), norms[0])
        scores = [mpmath.fdot(query, key) * stretch / mpmath.sqrt(config.d_head) for key in keys]
        top = max(score for score, copy in zip(scores, copies, strict=True) if copy)
        shares = [
            copy * mpmath.exp(score - top) if copy else mpf(0)
            for score, copy in zip(scores, copies, strict=True)
        ]
        total = mpmath.fsum(shares)
        out.append(
            [
                mpmath.fsum(s * v[c] for s, v in zip(shares, values, strict=True)) / total
                for c in range(config.d_model)
            ]
        )
    return out


def _met(config: Any, row: list[Any], scale: Any) -> list[Any]:
    """A query or key after its norm."""
    if config.qk_norm == "off":
        return row
    root = mpmath.sqrt(mpmath.fsum(v * v for v in row) / len(row) + mpf(config.norm_eps))
    return [v / root * (mpf(1) if scale is None else scale[i]) for i, v in enumerate(row)]


def _norm(config: Any, w: Any, name: str, row: list[Any]) -> list[Any]:
    if config.norm == "off":
        return row
    if config.norm in ("layer", "layer_pre"):
        mean = mpmath.fsum(row) / len(row)
        row = [value - mean for value in row]
    root = mpmath.sqrt(mpmath.fsum(v * v for v in row) / len(row) + mpf(config.norm_eps))
    row = [v / root for v in row]
    if config.norm in ("layer", "rms"):
        row = [v * scale for v, scale in zip(row, w[f"{name}.w"], strict=True)]
    return _plus(row, w[f"{name}.b"]) if config.norm == "layer" else row


def _plus(a: list[Any], b: list[Any]) -> list[Any]:
    return [p + q for p, q in zip(a, b, strict=True)]


def _times(row: list[Any], matrix: list[Any]) -> list[Any]:
    return [
        mpmath.fsum(p * line[j] for p, line in zip(row, matrix, strict=True))
        for j in range(len(matrix[0]))
    ]


def _exact(value: Any) -> Any:
    return [_exact(entry) for entry in value] if isinstance(value, list) else mpf(value)
