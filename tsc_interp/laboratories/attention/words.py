"""What the attention laboratory found, in sentences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tsc_interp.laboratories.attention.result import AttentionResult, Lookup
from tsc_interp.laboratories.base import Cell, Finding
from tsc_interp.results.intervals import told_share


def findings(result: AttentionResult) -> tuple[Finding, ...]:
    return (
        _swing(result),
        _turned(result),
        _two_peaks(result),
        _printed(result),
        _mended(result),
        _plain(result),
        _copying(result),
        _averaging(result),
        _steady(result),
        _agreement(result),
        *((_sharp(result.lookup), _matrices(result.lookup)) if result.lookup else ()),
    )


def _swing(result: AttentionResult) -> Finding:
    """At the scale that is drawn, alpha the first: one head against two."""
    alpha = result.options.alphas[0]
    cells = {
        (case, design): result.moments.at(case=case, design=design, scale=result.shown, alpha=alpha)
        for case in result.moments.labels["case"]
        for design in result.moments.labels["design"]
    }
    one, two = (math.sqrt(cells["both vary", d][2]) for d in ("one head", "two heads"))
    single, pair = (math.sqrt(cells["only a varies", d][2]) for d in ("one head", "two heads"))
    swings = result.swings
    verb = "does not return their average but swings between" if swings else "mixes"
    return Finding.of(
        f"When the norms of k_a and k_b vary (variance {result.options.spread:g}), one head "
        f"whose query asks for both with C = {result.shown:g} {verb} v_a and v_b: the share of v_a "
        f"has standard deviation {one:.3f} (a coin flip between the two has 0.5). With two heads, "
        f"one for each key, it is {two:.3f}. If only k_a varies: {single:.3f} and {pair:.3f}.",
        {"one head": one, "two heads": two, "one head, a": single, "two heads, a": pair},
        "warning" if swings else "note",
    )


def _turned(result: AttentionResult) -> Finding:
    """Why two heads do not hold the average always: a norm below zero."""
    spread, lost = result.options.spread, result.turned
    limit = math.sqrt(2 * lost * (1 - lost) / 4)
    return Finding.of(
        f"Two heads are not perfect either: a norm drawn from N(1, {spread:g}) is below zero "
        f"in {lost:.2%} of the draws, and then a head turns away from its key for every C. If both "
        f"keys vary, the standard deviation of two heads tends to {limit:.3f} as C grows, that of "
        "one head to 0.5.",
        {"below zero": lost, "limit of two heads": limit, "limit of one head": 0.5},
    )


def _two_peaks(result: AttentionResult) -> Finding:
    """The logistic of N(0, s²) has two peaks exactly when s² > 2."""
    spread = result.options.spread
    only_a, both = math.sqrt(2 / spread), math.sqrt(1 / spread)
    return Finding.of(
        "In one head the share of v_a is the logistic of a normal variable. Its density has "
        "one peak (at ½) up to variance 2 and two peaks beyond. So with alpha = 0 the head mixes "
        f"up to C = {only_a:.3f} and swings above it if only k_a varies; if both vary, the "
        f"threshold is C = {both:.3f}.",
        {"C, only a varies": only_a, "C, both vary": both},
    )


def _printed(result: AttentionResult) -> Finding:
    gamma = float(result.misses.labels["gamma"][-1])
    c_1 = result.coefficients.at(sign="as printed (-)", output="c_1")
    miss = result.misses.at(sign="as printed (-)", gamma=gamma)
    return Finding.of(
        "With the sign that the source prints, Q = (u_d u_aᵀ - u_c u_dᵀ)/γ², the first output "
        f"fails: at γ = {gamma:g} it is {_sum(c_1)} instead of u_b - u_c ({miss[0]:.3f} γ away), "
        "because q_1 = -u_c turns away from x_3. The second output is right "
        f"({miss[1]:.1e} γ away from u_b).",
        {"c_1": float(miss[0]), "c_2": float(miss[1])},
        "failure",
    )


def _mended(result: AttentionResult) -> Finding:
    gammas = [f"{float(gamma):g}" for gamma in result.misses.labels["gamma"]]
    miss = result.misses.at(sign="mended (+)")
    return Finding.of(
        "A plus before u_c u_dᵀ corrects this: both outputs are close to the wanted ones, "
        f"{miss[0, 0]:.3f} γ and {miss[1, 0]:.3f} γ away at γ = {gammas[0]}, "
        f"{miss[0, -1]:.1e} γ and {miss[1, -1]:.1e} γ at γ = {gammas[-1]}.",
        {"c_1": float(miss[0, -1]), "c_2": float(miss[1, -1])},
        "good",
    )


def _plain(result: AttentionResult) -> Finding:
    multiples = result.plain.labels["multiple"]
    alone = result.plain.at(added="u_d", multiple="0.0")
    most = float(result.plain.at(vector="u_b").max())
    least = float(result.leads.array.min())
    return Finding.of(
        f"Without matrices, with x as query, key and value, c_2 is {_sum(alone)}: x_2 attends "
        "to itself. Adding any multiple s of u_d (or u_c) cannot make it u_b: "
        f"x_2·x_2 = (1 + s²)γ² leads x_2·x_1 = sγ² by at least ¾ γ² (least among {len(multiples)} "
        f"multiples from {multiples[0]} to {multiples[-1]}: {least:.2f}), and u_b's coefficient "
        f"stays below {most:.1e}.",
        {"u_b at most": most, "least lead": least},
    )


def _copying(result: AttentionResult) -> Finding:
    epsilons, keys = result.margins.labels["epsilon"], result.margins.labels["keys"]
    first, last = result.margins.array[-1, 0], result.margins.array[-1, -1]
    return Finding.of(
        f"To copy with weight {1 - float(epsilons[-1]):g} a score must lead by {first:.3f} "
        f"among {keys[0]} keys and by {last:.3f} among {int(keys[-1]):,}: "
        "log((n - 1)(1 - ε)/ε), so log 2 = 0.693 more for every doubling of the other keys.",
        {f"margin, {keys[0]} keys": float(first), f"{keys[-1]} keys": float(last)},
    )


def _averaging(result: AttentionResult) -> Finding:
    keys = result.averaging.labels["keys"]
    scales = [f"{float(scale):g}" for scale in result.averaging.labels["scale"]]
    closed = result.averaging.at(statistic="closed", keys=keys[-1])
    apart = float(np.abs(np.diff(result.averaging.array, axis=-1)).max())
    held = [scale for scale, weight in zip(scales, closed, strict=True) if weight >= 0.99]
    least = f"C = {held[0]} is the first tried with 0.99 or more" if held else "no C tried has 0.99"
    return Finding.of(
        f"With fixed orthonormal keys, q = C(k_a + k_b) averages v_a and v_b; among "
        f"{int(keys[-1]):,} keys the two have {closed[0]:.4f} of the weight at C = {scales[0]}, "
        f"and {least}. Closed form and softmax differ by at most {apart:.1e}.",
        {"largest difference": apart},
    )


def _steady(result: AttentionResult) -> Finding:
    """Noise in every direction and none in the norm, beside what the norm does."""
    deviations: list[str] = []
    numbers: dict[str, Cell] = {}
    for alpha in result.options.alphas:
        cell = result.steady.at(scale=result.shown, alpha=alpha, statistic="variance")
        deviation = math.sqrt(float(cell))
        numbers[f"alpha {alpha:g}"] = deviation
        deviations.append(f"{deviation:.3f} at alpha {alpha:g}")
    apart = float(np.abs(np.diff(result.steady.array, axis=-1)).max())
    return Finding.of(
        "Keys that vary equally in every direction, N(μ, αI), with no extra variation of "
        f"norms, keep the average while C √α is small: with C = {result.shown:g} the share of v_a "
        f"has standard deviation {', '.join(deviations)} (sampled variances differ by at most "
        f"{apart:.4f}).",
        numbers,
    )


def _agreement(result: AttentionResult) -> Finding:
    draws = result.options.draws
    mean, mean_drawn, variance, drawn = np.moveaxis(result.moments.array, -1, 0)
    apart = float(np.abs(mean - mean_drawn).max()), float(np.abs(variance - drawn).max())
    worst = float(result.distance.array.max())
    likely = 1.63 / math.sqrt(draws)
    return Finding.of(
        f"Closed forms against {draws:,} draws of the keys: means differ by at most "
        f"{apart[0]:.4f} and variances by {apart[1]:.4f} over {mean.size} cells of C and alpha; "
        f"one head's logits are at most {worst:.4f} away (Kolmogorov-Smirnov; chance alone "
        f"exceeds {likely:.4f} once in a hundred).",
        {"means": apart[0], "variances": apart[1], "distribution": worst},
    )


def _sharp(lookup: Lookup) -> Finding:
    temperatures = [float(t) for t in lookup.sharp.labels["temperature"]]
    missed = lookup.sharp.at(quantity="missed")
    first, last = (float(np.median(missed[i])) for i in (0, -1))
    ratio = max(lookup.of_bound(t) for t in lookup.sharp.labels["temperature"])
    return Finding.of(
        f"A look-up of the best of {lookup.keys} keys is the limit of sharp attention: over "
        f"{missed.shape[1]:,} tables the median distance from the look-up is {first:.3f} D at "
        f"T = {temperatures[0]:g} and {last:.1e} D at T = {temperatures[-1]:g} (D is the farthest "
        "that a value is from the one looked up). With a lead g the distance is at most "
        f"r/(1 + r) D, r = {lookup.keys - 1} exp(-g/T); the nearest that a table comes to this "
        f"bound is {ratio:.2f} of it. Where two keys nearly tie, no temperature here is sharp: the "
        f"worst table at T = {temperatures[-1]:g} misses by {missed[-1].max():.3f} D.",
        {"first": first, "last": last, "most of the bound": ratio},
        "good" if ratio <= 1 + 1e-9 else "failure",
    )


def _matrices(lookup: Lookup) -> Finding:
    plain, learned, written = lookup.matrices.array
    return Finding.of(
        "If queries use another code than keys, attention finds the right item in "
        f"{told_share(round(plain[0] * lookup.tested), lookup.tested, 1)} tables without "
        f"matrices (chance: {1 / lookup.keys:.1%}), in "
        f"{told_share(round(learned[0] * lookup.tested), lookup.tested, 1)} with W_Q, W_K and W_V "
        f"learned from answers, and in {written[0]:.1%} with the matrices written down. The "
        f"learned W_QᵀW_K is the rotation between the codes (cosine {lookup.alike:.3f}) times "
        f"{lookup.strength:.1f}; its answers are {learned[1]:.3f} away, root mean square.",
        {"plain": float(plain[0]), "learned": float(learned[0]), "cosine": lookup.alike},
    )


def _sum(coefficients: NDArray[np.float64]) -> str:
    """`0.50 u_b - 1.00 u_c`, parts below 0.005 left out."""
    parts = [
        f"{'-' if c < 0 else '+'} {abs(c):.2f} {name}"
        for c, name in zip(coefficients, ("u_a", "u_b", "u_c", "u_d"), strict=True)
        if abs(c) >= 0.005
    ]
    return " ".join(parts).removeprefix("+ ") or "0"
