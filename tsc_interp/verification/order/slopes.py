"""Slopes of the margins by the residual stream before the MLP, in balls: what tangent.py needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import arb, arb_mat, arb_series

from tsc_interp.verification.bounds.exact import ACTIVATIONS
from tsc_interp.verification.order.exact import Matrix, OrderedExact, scaled


def tangent(
    exact: OrderedExact, string: Sequence[int], label: int, around: Sequence[float]
) -> tuple[list[Any], list[list[Any]]]:
    """`differences` times the final norm's scale, and their slopes within a reach.

    Returns:
        Margins of the string `[class]`, and enclosures `[d class]` of their derivatives by the
        residual stream before the MLP, wherever it is moved by at most `around [d]`.
    """
    x = exact.stream(string)
    box = x + arb_mat([[arb(0, radius) for radius in around]])
    return scaled_gaps(exact, x, label)[0].tolist()[0], scaled_gaps(exact, box, label)[1].tolist()


def scaled_gaps(exact: OrderedExact, x: Matrix, label: int) -> tuple[Matrix, Matrix]:
    """Margins times the final norm's scale, and their slopes; x is one row."""
    config, d = exact.config, exact.config.d_model
    y, moved = x, arb_mat([[int(i == j) for j in range(d)] for i in range(d)])
    if config.has_mlp:
        post, slopes = _mlp_slopes(exact, *_norm_slopes(exact, x, moved))
        out = exact.matrix("blocks.0.mlp.W_out")
        y, moved = y + post * out + exact.mlp_bias(), moved + slopes * out
    columns, bias = (part.tolist() for part in exact.unembedding())
    # Subtract weights first: equal columns then give exactly zero.
    gaps = arb_mat([[row[label] - value for value in row] for row in columns])
    constant = arb_mat([[bias[0][label] - value for value in bias[0]]])
    if not config.final_norm:
        return y * gaps + constant, moved * gaps
    scale, shift = exact.norm_weights("ln_final")
    y, moved = y * exact.centring(), moved * exact.centring()
    root = _root(exact, y)
    constant = constant + arb_mat([shift]) * gaps
    gaps = scaled(scale, gaps)
    toward = moved * y.transpose() * (1 / (d * root))
    return y * gaps + constant * root, moved * gaps + toward * constant


def _root(exact: OrderedExact, state: Matrix) -> Any:
    square = (state * state.transpose())[0, 0] / state.ncols()
    return (square + arb(exact.config.norm_eps)).sqrt()


def _norm_slopes(exact: OrderedExact, x: Matrix, moved: Matrix) -> tuple[Matrix, Matrix]:
    """The norm before the MLP of one row, and its slopes."""
    if not exact.config.has_norm:
        return x, moved
    scale, shift = exact.norm_weights("blocks.0.ln2")
    state, moved = x * exact.centring(), moved * exact.centring()
    t = 1 / _root(exact, state)
    toward = moved * state.transpose() * state * (t**3 / state.ncols())
    weights = arb_mat([[w if i == j else 0 for j in range(len(scale))]
                       for i, w in enumerate(scale)])  # fmt: skip
    return state * t * weights + arb_mat([shift]), (moved * t - toward) * weights


def _mlp_slopes(exact: OrderedExact, read: Matrix, moved: Matrix) -> tuple[Matrix, Matrix]:
    """Activations of one row, and their slopes."""
    name, act = "blocks.0.mlp", ACTIVATIONS[exact.config.act_fn]
    into, gated = exact.matrix(f"{name}.W_in"), exact.config.gated_mlp
    pre, slopes = read * into, moved * into
    if not gated:
        pre = exact.biased(pre, f"{name}.b_in")
    opened = read * exact.matrix(f"{name}.W_gate") if gated else pre
    row = opened.tolist()[0]
    value = [act(z) for z in row]
    steep = [_slope(exact.config.act_fn, z) for z in row]
    if not gated:
        return arb_mat([value]), _columns(slopes, steep)
    more = _columns(moved * exact.matrix(f"{name}.W_gate"), steep)
    plain = pre.tolist()[0]
    post = arb_mat([[a * b for a, b in zip(value, plain, strict=True)]])
    return exact.biased(post, f"{name}.b_in"), _columns(slopes, value) + _columns(more, plain)


def _slope(name: str, x: Any) -> Any:
    """Of an activation, wherever in the ball x."""
    if name == "relu":
        return arb(1) if x > 0 else arb(0) if x < 0 else arb(0.5, 0.5)
    try:
        return ACTIVATIONS[name](arb_series([x, 1], 2))[1]
    except ValueError:  # a ball so wide that a denominator may be zero
        return arb("nan")


def _columns(matrix: Matrix, scale: Sequence[Any]) -> Matrix:
    """Each column times a number."""
    rows = matrix.tolist()
    return arb_mat([[a * b for a, b in zip(row, scale, strict=True)] for row in rows])
