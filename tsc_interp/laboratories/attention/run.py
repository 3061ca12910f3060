"""What can one head do by construction, and what takes two?

**Copying.** A head returns v_i when its score q·k_i is larger than all others. Among n keys whose
other scores are equal, the weight is 1 - ε when the lead is log((n - 1)(1 - ε) / ε).

**Averaging.** With orthonormal keys, q = C(k_a + k_b) puts 2 / (2 + (n - 2) exp(-C)) of the weight
on a and b, half each. With keys drawn from N(μ, αI) the share of v_a is the logistic of
N(0, 4αC²), so the head averages while C √α is small.

**Keys whose norm varies.** Let k_a ~ N(μ_a, αI + s μ_a μ_aᵀ): its direction is (nearly) fixed, its
norm is not. Let k_b be drawn in the same way or from N(μ_b, αI). One head with q = C(μ_a + μ_b)
gives v_a a share of the pair's weight that is the logistic of N(0, C²(s + 4α)) if only k_a varies
and of N(0, C²(2s + 4α)) if both do. So its output swings between v_a and v_b from draw to draw. Two
heads with queries C μ_a and C μ_b each look for one key. Their mean stays near (v_a + v_b) / 2,
unless a norm is drawn below zero. The laboratory draws keys, applies softmax and compares the
results with these closed forms.

**Construction.** Let x_1 = u_d + u_b, x_2 = u_a, x_3 = u_c + u_b with orthogonal u of norm γ. The
wanted outputs are c_1 = u_b - u_c and c_2 = u_b. V = (u_b u_bᵀ - u_c u_cᵀ)/γ², K = I and
Q = (u_d u_aᵀ + u_c u_dᵀ)/γ² give them. The source prints a minus before u_c u_dᵀ; both versions are
computed.

**Look-up.** As the temperature T falls, attention becomes the look-up of the best key, and the
error falls like exp(-gap / T). Without matrices, queries must use the code of the keys; learned
matrices translate between two codes (`lookup.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from scipy.stats import kstest

from tsc_interp.laboratories.attention import closed_forms, construction, lookup
from tsc_interp.laboratories.attention.result import (
    CASES,
    DESIGNS,
    AttentionOptions,
    AttentionResult,
)
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.model.threads import one_thread

Floats = closed_forms.Floats
SHOWN = 16.0
"""The scale C whose distributions are drawn, or the nearest of those asked for."""
EDGES = np.linspace(0, 1, 26)
MULTIPLES = np.linspace(-2, 2, 41)
STATISTICS = ("mean", "mean drawn", "variance", "variance drawn")
FORMS = ("one head, closed form", "one head", "two heads")
CLOSED = {"one head": closed_forms.one_head, "two heads": closed_forms.two_heads}


@one_thread()
def run(asked: AttentionOptions, progress: Progress) -> AttentionResult:
    progress("copying and averaging")
    margins = [[closed_forms.margin_for(e, n) for n in asked.keys] for e in asked.epsilons]
    # Orthonormal keys have scores C, C, 0, 0, ...
    averaging = [
        [
            (closed_forms.weight_on_pair(c, n), softmax(c * (np.arange(n) < 2))[:2].sum())
            for c in asked.scales
        ]
        for n in asked.keys
    ]
    fields: dict[str, Any] = {
        "margins": LabeledArray.of(margins, epsilon=asked.epsilons, keys=asked.keys),
        "averaging": LabeledArray.of(
            averaging, keys=asked.keys, scale=asked.scales, statistic=("closed", "computed")
        ),
    }
    fields |= _drawn(asked, progress)
    progress("the construction")
    fields |= _construction(asked)
    progress("look-ups, sharp and learned")
    fields["lookup"] = lookup.study(asked)
    return AttentionResult(options=asked, **fields)


# -- keys drawn at random --------------------------------------------------------------------------


def draw_keys(
    rng: np.random.Generator, draws: int, spread: float, alpha: float, *, varying: int
) -> Floats:
    """`[draw key direction]`: k_a and k_b around μ_a and μ_b, the first two directions of four."""
    means = np.eye(2, 4)
    noise = np.sqrt(alpha) * rng.standard_normal((draws, 2, 4))
    norms = np.sqrt(spread) * rng.standard_normal((draws, 2, 1))
    norms[:, varying:] = 0.0
    return np.asarray(means * (1 + norms) + noise)


def share_of_a(keys: Floats, scale: float, design: str) -> Floats:
    """`[draw]`: v_a's share of the output, by softmax, meaned over the heads."""
    a, b = np.eye(2, 4)
    queries = [a + b] if design == "one head" else [a, b]
    weights = [softmax(scale * keys @ query, axis=1)[:, 0] for query in queries]
    return np.asarray(np.mean(weights, axis=0))


def logit_of_share(keys: Floats, scale: float) -> Floats:
    """`[draw]`: the same of one head, where a share itself would be rounded to 0 or 1."""
    weights = log_softmax(scale * keys @ np.eye(2, 4).sum(axis=0), axis=1)
    return np.asarray(weights[:, 0] - weights[:, 1])


def _drawn(asked: AttentionOptions, progress: Progress) -> dict[str, Any]:
    shown = min(asked.scales, key=lambda scale: abs(scale - SHOWN))
    shape = (len(CASES), len(DESIGNS), len(asked.scales), len(asked.alphas), len(STATISTICS))
    moments, distance = np.zeros(shape), np.zeros((len(CASES), len(asked.scales)))
    bins = np.zeros((len(CASES), len(FORMS), len(EDGES) - 1))
    for i, m in np.ndindex(len(CASES), len(asked.alphas)):
        alpha, varying = asked.alphas[m], i + 1
        progress(f"drawing keys: {CASES[i]}, alpha {alpha:g}")
        rng = np.random.default_rng([asked.seed, i, m])
        keys = draw_keys(rng, asked.draws, asked.spread, alpha, varying=varying)
        for j, k in np.ndindex(len(DESIGNS), len(asked.scales)):
            scale = asked.scales[k]
            closed = CLOSED[DESIGNS[j]](scale, asked.spread, alpha, varying=varying)
            shares = share_of_a(keys, scale, DESIGNS[j])
            moments[i, j, k, m] = closed[0], shares.mean(), closed[1], shares.var()
            if m:
                continue
            wide = closed_forms.deviation(scale, asked.spread, alpha, varying=varying)
            if DESIGNS[j] == "one head":
                distance[i, k] = kstest(logit_of_share(keys, scale), "norm", (0, wide)).statistic
            if scale == shown:
                bins[i, 0] = np.diff(closed_forms.share_at_most(EDGES, wide))
                bins[i, j + 1] = np.histogram(shares, EDGES)[0] / asked.draws
    axes = {"case": CASES, "scale": asked.scales}
    return {
        "steady": _steady(asked),
        "shown": shown,
        "turned": closed_forms.turned(asked.spread),
        "moments": LabeledArray.of(
            moments, case=CASES, design=DESIGNS, scale=asked.scales, alpha=asked.alphas,
            statistic=STATISTICS,
        ),
        "distance": LabeledArray.of(distance, **axes),
        "distribution": LabeledArray.of(
            bins, case=CASES, form=FORMS, share=[f"{edge:.2f}" for edge in EDGES[:-1]]
        ),
    }  # fmt: skip


def _steady(asked: AttentionOptions) -> LabeledArray:
    """Keys N(μ, αI): how far an average holds while C √α is small."""
    variances = np.zeros((len(asked.scales), len(asked.alphas), 2))
    for m, alpha in enumerate(asked.alphas):
        rng = np.random.default_rng([asked.seed, len(CASES), m])
        keys = draw_keys(rng, asked.draws, asked.spread, alpha, varying=0)
        for k, scale in enumerate(asked.scales):
            closed = closed_forms.one_head(scale, asked.spread, alpha, varying=0)
            variances[k, m] = closed[1], share_of_a(keys, scale, "one head").var()
    return LabeledArray.of(
        variances, scale=asked.scales, alpha=asked.alphas, statistic=("variance", "variance drawn")
    )


# -- the construction ------------------------------------------------------------------------------


def _construction(asked: AttentionOptions) -> dict[str, Any]:
    gammas, signs = sorted(asked.gammas), construction.SIGNS
    coefficients = np.array([[construction.outputs(s, g) for g in gammas] for s in signs.values()])
    misses = np.linalg.norm(coefficients - construction.WANTED, axis=-1)
    added = {"u_c": construction.U_C, "u_d": construction.U_D}
    tried = [[construction.plain(u, m, gammas[-1]) for m in MULTIPLES] for u in added.values()]
    outputs, vectors = construction.OUTPUTS, construction.VECTORS
    multiples = [f"{multiple:.1f}" for multiple in MULTIPLES]
    return {
        "coefficients": LabeledArray.of(
            coefficients[:, -1], sign=signs, output=outputs, vector=vectors
        ),
        "misses": LabeledArray.of(
            np.swapaxes(misses, 1, 2), sign=signs, output=outputs, gamma=gammas
        ),
        "plain": LabeledArray.of(
            [[c_2 for c_2, _ in row] for row in tried],
            added=added, multiple=multiples, vector=vectors,
        ),
        "leads": LabeledArray.of(
            [[lead for _, lead in row] for row in tried], added=added, multiple=multiples
        ),
    }  # fmt: skip
