"""Shows in exact fractions that two one-layer classifiers are the same function of counts.

On one set of letters the logit of such a model is

    base + Σ_h Σ_t p_ht u_ht + Σ_n c_n GELU(base_n + Σ_h Σ_t p_ht u_hnt)

with attention weights p_h that depend on score differences alone. All these numbers are sums of
products of float32 weights, so they are fractions and can be compared without rounding. A head's
contribution at one token can be moved into the base (the weights of a head sum to 1), heads with
equal score differences can be added up, and so can neurons that read the same; what is left over is
a form in which equal entries mean equal logits on every string. (Unequal entries mean nothing.)

What is shown here is no part of a proof: `diff` says *shown*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.strings import CLS, FIRST_LETTER

Vector = list[Fraction]
Form = tuple[Any, ...]


def has_form(checkpoint: Checkpoint) -> bool:
    """Whether this argument applies: a classifier of the report, one layer, no norms."""
    config = checkpoint.config
    plain = not (config.has_norm or config.has_positions or config.beyond_report)
    return config.n_layers == 1 and plain


def exact_form(
    checkpoint: Checkpoint, support: Sequence[int], pay: Callable[[], None] = lambda: None
) -> Form:
    """The form of the logit on strings over exactly these letters; `pay` is called per head."""
    config = checkpoint.config
    weights = {name: _fractions(w.tolist()) for name, w in checkpoint.weights.items()}
    cls = weights["embed.W_E"][CLS]
    letters = [weights["embed.W_E"][FIRST_LETTER + letter] for letter in support]
    tokens = [cls, *letters] if config.attend_cls else letters
    readers, outputs = _readers(checkpoint, weights)
    base = [_dot(cls, reader) for reader in readers]
    heads: dict[tuple[Fraction, ...], list[Vector]] = {}
    for head in range(config.n_heads):
        pay()
        gaps, heard = _head(weights, head, cls, tokens, readers)
        # What the first token would give goes to the base; only differences from it remain.
        base = _plus(base, heard[0])
        differences = [_minus(row, heard[0]) for row in heard]
        if any(any(row) for row in differences):
            known = heads.get(gaps)
            if known is not None:
                differences = [_plus(a, b) for a, b in zip(known, differences, strict=True)]
            heads[gaps] = differences
    order = sorted(gaps for gaps, rows in heads.items() if any(any(row) for row in rows))
    columns = [
        tuple(row[reader] for gaps in order for row in heads[gaps])
        for reader in range(len(readers))
    ]
    neurons: dict[tuple[Any, ...], Fraction] = {}
    for reader, output in enumerate(outputs, start=1):
        key = (base[reader], columns[reader])
        neurons[key] = neurons.get(key, Fraction(0)) + output
    kept = tuple(sorted((key, c) for key, c in neurons.items() if c))
    used = (columns[0], *(key[1] for key, _ in kept))
    # A head that only dropped neurons read has no say any more.
    size = len(tokens)
    alive = [k for k in range(len(order)) if any(any(c[k * size : (k + 1) * size]) for c in used)]

    def cut(column: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return tuple(x for k in alive for x in column[k * size : (k + 1) * size])

    options = (config.attend_cls, config.log_n, config.d_head if alive else 0)
    return (
        options,
        tuple(order[k] for k in alive),
        base[0],
        cut(columns[0]),
        tuple(sorted(((b, cut(column)), c) for (b, column), c in kept)),
    )


def _readers(checkpoint: Checkpoint, weights: Any) -> tuple[list[Vector], Vector]:
    """What reads the residual before the MLP, the logit first; and each neuron's output weight."""
    readout = [row[0] for row in weights["unembed.W_U"]]
    if not checkpoint.config.has_mlp:
        return [readout], []
    w_in, w_out = weights["blocks.0.mlp.W_in"], weights["blocks.0.mlp.W_out"]
    neurons = [[row[n] for row in w_in] for n in range(checkpoint.config.d_mlp)]
    return [readout, *neurons], [_dot(row, readout) for row in w_out]


def _head(
    weights: Any, head: int, cls: Vector, tokens: list[Vector], readers: list[Vector]
) -> tuple[tuple[Fraction, ...], list[Vector]]:
    """Score differences from the first token, and what each token's value gives each reader."""
    w_q, w_k, w_v, w_o = (weights[f"blocks.0.attn.W_{name}"][head] for name in "QKVO")
    query = _times(cls, w_q)
    scores = [_dot(query, _times(token, w_k)) for token in tokens]
    written = [_times(_times(token, w_v), w_o) for token in tokens]
    heard = [[_dot(row, reader) for reader in readers] for row in written]
    return tuple(score - scores[0] for score in scores), heard


def _fractions(value: Any) -> Any:
    return [_fractions(v) for v in value] if isinstance(value, list) else Fraction(value)


def _dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _times(row: Vector, matrix: list[Vector]) -> Vector:
    return [_dot(row, [line[j] for line in matrix]) for j in range(len(matrix[0]))]


def _plus(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def _minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]
