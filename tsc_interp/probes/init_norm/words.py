"""What the init-norm probe found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.probes.init_norm.result import InitNormResult
from tsc_interp.results.base import Finding


def findings(result: InitNormResult) -> tuple[Finding, ...]:
    statements = [] if result.before is None else [_training(result)]
    statements.append(_growth(result))
    if len(result.embedding_norms.labels["width"]) > 1:
        statements += _spreads(result)
    return tuple(statements)


def _growth(result: InitNormResult) -> Finding:
    widths = [int(width) for width in result.embedding_norms.labels["width"]]
    mean = result.embedding_norms.at(strategy="default", statistic="mean")
    theory = result.embedding_norms.at(strategy="default", statistic="theory")
    small = result.embedding_norms.array[-1, :, 0]
    doublings = [
        float(mean[i + 1] / mean[i])
        for i in range(len(widths) - 1)
        if widths[i + 1] == 2 * widths[i]
    ]
    growth = ""
    if doublings:
        growth = (
            f"; each doubling multiplies it by {min(doublings):.3f} to {max(doublings):.3f} "
            f"(theory: towards √2 = {np.sqrt(2):.3f})"
        )
    return Finding.of(
        f"A fresh standard-normal embedding has mean norm {mean[0]:.4f} at d_model "
        f"{widths[0]} (theory {theory[0]:.4f}) and {mean[-1]:.4f} at {widths[-1]} (theory "
        f"{theory[-1]:.4f}){growth}. With linear_like it stays between {small.min():.4f} and "
        f"{small.max():.4f}.",
        {
            **{f"mean norm at {w}": float(m) for w, m in zip(widths, mean, strict=True)},
            **{f"theory at {w}": float(t) for w, t in zip(widths, theory, strict=True)},
        },
    )


def _spreads(result: InitNormResult) -> list[Finding]:
    """How much larger scores and logits are at a wide default start than at a quieter one."""
    widths = result.logit_spread.labels["width"]
    statements = []
    for name, spread in (("scores", result.score_spread), ("logits", result.logit_spread)):
        if spread is None:
            continue
        loud, quiet = spread.array[0], spread.array[-1]
        statements.append(
            Finding.of(
                f"At initialisation the {name} have standard deviation {loud[0]:.4f} at "
                f"d_model {widths[0]} and {loud[-1]:.4f} at {widths[-1]}; with linear_like and "
                f"output_fan_out {quiet[0]:.4f} and {quiet[-1]:.4f}.",
                {
                    f"default, {widths[-1]}": float(loud[-1]),
                    f"quieter, {widths[-1]}": float(quiet[-1]),
                },
            )
        )
    return statements


def _training(result: InitNormResult) -> Finding:
    assert result.before is not None
    weights = result.after.labels["weight"]
    start, low, high = result.before.array.T
    ratio = result.after.array / np.where(start > 0, start, np.nan)
    most = int(np.nanargmax(ratio))
    outside = int(((result.after.array < low) | (result.after.array > high)).sum())
    return Finding.of(
        f"{outside} of {len(weights)} weight matrices have left the range in which 90 % of "
        f"seeds start (same configuration, d_model {result.d_model}). `{weights[most]}` grew most: "
        f"its norm is {ratio[most]:.2f} times the usual start ({start[most]:.4f} to "
        f"{result.after.array[most]:.4f}).",
        {
            f"{weight} ratio": float(r)
            for weight, r in zip(weights, ratio, strict=True)
            if np.isfinite(r)
        },
    )
