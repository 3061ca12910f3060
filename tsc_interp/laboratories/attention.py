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
results with these closed forms. The source prints the weight as 1 / exp((ε_a - ε_b) C), which is
not below 1; softmax gives the logistic of (ε_a - ε_b) C.

**Construction.** Let x_1 = u_d + u_b, x_2 = u_a, x_3 = u_c + u_b with orthogonal u of norm γ. The
wanted outputs are c_1 = u_b - u_c and c_2 = u_b. V = (u_b u_bᵀ - u_c u_cᵀ)/γ², K = I and
Q = (u_d u_aᵀ + u_c u_dᵀ)/γ² give them. The source prints a minus before u_c u_dᵀ; both versions are
computed.

**Look-up.** A look-up returns the value v_* of the key with the highest score. Attention at
temperature T returns Σ w_i v_i with w = softmax(s / T). If s_* leads every other of n scores by at
least g, then 1 - w_* ≤ r / (1 + r) with r = (n - 1) exp(-g/T), and the output is at most
(1 - w_*) D from v_*, where D is the farthest that a value is from v_*.

**Matrices.** Items are x_i = [k_i ; v_i]. A query [R k_j ; 0] asks for v_j in a code of its own: R
is one unknown rotation. With x itself as queries, keys and values, scores are R k_j · k_i, which
says nothing about j. W_Q, W_K and W_V are learned from answers alone; W_Q = C Rᵀ, W_K = I does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    option,
)
from tsc_interp.results.intervals import told_share
from tsc_interp.results.views import Heat, Lines, Rows, shown

Floats = NDArray[np.float64]
Whole = Annotated[int, Field(ge=2, le=1_000_000)]
Scale = Annotated[float, Field(gt=0, le=200)]
Small = Annotated[float, Field(ge=0, le=10)]
Temperature = Annotated[float, Field(ge=1e-4, le=100)]

CASES = ("none varies", "only a varies", "both vary")
"""How many of the two keys vary in norm."""
DESIGNS = ("one head", "two heads")
MOMENTS = ("mean", "mean drawn", "deviation", "deviation drawn")
VECTORS = ("u_a", "u_b", "u_c", "u_d")
U_A, U_B, U_C, U_D = np.eye(4)
WANTED = np.array([U_B - U_C, U_B])
SIGNS = {"as printed (-)": -1.0, "mended (+)": 1.0}
GAMMA = 6.0
MULTIPLES = np.linspace(-2, 2, 41)
FORMS = ("x itself", "learned", "written down")
"""Queries, keys and values without matrices, with learned ones, and with those that do it."""
KEYS, CODE, VALUE = 16, 6, 4
"""Items of a table, and the sizes of k_i and v_i."""
SHARP = 32.0
"""C, where the matrices are written down."""
TESTED = 500


class AttentionOptions(LabOptions):
    QUICK: ClassVar = {"draws": 2_000, "lookups": 60, "learning_steps": 300}

    draws: int = option(40_000, "Draws of the keys per cell.", ge=100, le=2_000_000)
    seed: int = option(0, "Of the draws.", ge=0)
    spread: float = option(0.5, "The variance of a key's norm.", gt=0, le=10)
    scales: tuple[Scale, ...] = option(
        (0.5, 1, 2, 4, 8, 16, 32, 64), "C, the queries' scale.", min_length=1
    )
    alphas: tuple[Small, ...] = option((0.0, 0.01), "Variance in every direction.", min_length=1)
    keys: tuple[Whole, ...] = option((2, 16, 256, 1024), "Numbers of keys.", min_length=1)
    temperatures: tuple[Temperature, ...] = option(
        (1, 0.3, 0.1, 0.03, 0.01), "T of softmax(s / T).", min_length=1
    )
    lookups: int = option(300, "Tables looked up in.", ge=10, le=5000)
    learning_steps: int = option(1000, "To learn W_Q, W_K and W_V in.", ge=1, le=50_000)


class AttentionResult(LabResult):
    probe: ClassVar[str] = "attention"

    options: AttentionOptions
    moments: Annotated[LabeledArray, Rows("The share of v_a in the output (a half is wanted)")]
    """`[case design alpha scale statistic]`."""
    coefficients: LabeledArray
    """`[output sign vector]`."""
    plain: LabeledArray
    """`[added multiple vector]`: c_2 without matrices, for x_2 = u_a + multiple * added."""
    leads: LabeledArray
    """`[added multiple]`: by how much x_2's score of itself leads, in units of gamma squared."""
    margins: Annotated[LabeledArray, Rows("The lead that a copy needs, by number of keys")]
    """`[weight keys]`."""
    sharp: LabeledArray
    """`[temperature table quantity]`: lead over T, distance from the look-up, its bound; in D."""
    matrices: Annotated[LabeledArray, Rows("A look-up in another code, without and with matrices")]
    """`[form statistic]`: how often the right item leads, and the output's distance from its value
    (root mean square, 1 for an answer of zero)."""
    alike: float
    """The cosine of the learned W_QᵀW_K and the rotation that has to be undone."""
    strength: float
    """The size of the learned W_QᵀW_K, as the C of a rotation."""

    @shown(Lines(
        "One head swings, two heads hold",
        "The standard deviation of v_a's share over draws of keys whose norm varies (both vary, "
        "alpha {result.options.alphas[0]:g}): closed forms and draws. Wanted is 0; one head that "
        "gives all to v_a or to v_b has 0.5.",
        x="C", y="deviation of v_a's share", form=".3f", log_x=True, table=False, name="swing",
    ))  # fmt: skip
    def swing(self) -> LabeledArray:
        alpha, statistics = self.options.alphas[0], MOMENTS[2:]
        rows = {
            f"{design}{statistic.removeprefix('deviation').replace(' ', ', ')}":
            self.moments.at(case="both vary", design=design, alpha=alpha, statistic=statistic)
            for design in DESIGNS
            for statistic in statistics
        }  # fmt: skip
        scales = self.moments.labels["scale"]
        return LabeledArray.of(list(rows.values()), design=list(rows), scale=scales)

    @shown(Heat(
        "The construction at γ = 6",
        "Coefficients of the outputs. Wanted are c_1 = u_b - u_c and c_2 = u_b. With the printed "
        "minus c_1 is half of u_b and has no u_c; c_2 does not depend on that sign.",
        form=".2f", name="construction",
    ))  # fmt: skip
    def construction(self) -> LabeledArray:
        return self.coefficients

    @shown(Lines(
        "A look-up as the limit of sharp attention",
        "Medians over {result.options.lookups} tables of 16 keys, in units of the farthest value. "
        "No table misses by more than its own bound.",
        x="temperature T", y="distance from the look-up", log_x=True, log_y=True, name="look-up",
    ))  # fmt: skip
    def by_temperature(self) -> LabeledArray:
        medians = np.median(self.sharp.array[..., 1:], axis=1).T
        temperatures = self.sharp.labels["temperature"]
        return LabeledArray.of(
            np.maximum(medians, 1e-12), quantity=("missed", "bound"), temperature=temperatures
        )

    @property
    def shown_scale(self) -> float:
        """The scale that findings speak of: 16, or the nearest of those asked for."""
        return min(self.options.scales, key=lambda scale: abs(scale - 16))

    @property
    def swings(self) -> bool:
        """Whether one head's shares have two peaks, at the scale that is shown."""
        norms = 2 * self.options.spread + 4 * self.options.alphas[0]
        return self.shown_scale**2 * norms > 2

    def deviation(self, case: str, design: str, alpha: float) -> float:
        at = {"case": case, "design": design, "alpha": alpha, "scale": self.shown_scale}
        return float(self.moments.at(**at, statistic="deviation"))

    def of_bound(self) -> float:
        """The most that any table misses of its bound, where rounding cannot decide that."""
        missed, bound = (self.sharp.at(quantity=name) for name in ("missed", "bound"))
        seen = bound > 1e-12
        return float((missed[seen] / bound[seen]).max(initial=0.0))

    # -- findings ----------------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        yield self._swing()
        yield self._turned()
        yield from self._construction()
        yield self._plain()
        yield self._copying()
        yield self._agreement()
        yield self._sharp()
        yield self._matrices()

    def _swing(self) -> Finding:
        alpha, spread = self.options.alphas[0], self.options.spread
        one, two, single, pair = (
            self.deviation(case, design, alpha) for case in CASES[:0:-1] for design in DESIGNS
        )
        swings = self.swings
        verb = "does not return their average but swings between" if swings else "mixes"
        return Finding.of(
            f"When the norms of k_a and k_b vary (variance {spread:g}), one head whose query asks "
            f"for both with C = {self.shown_scale:g} {verb} v_a and v_b: the share of v_a has "
            f"standard deviation {one:.3f} (a coin flip between the two has 0.5). With two heads, "
            f"one for each key, it is {two:.3f}. If only k_a varies: {single:.3f} and {pair:.3f}. "
            "The density of one head's share has two peaks where the variance of its logit "
            f"exceeds 2, so from C = {math.sqrt(1 / spread):.3f} on if both vary, and from "
            f"{math.sqrt(2 / spread):.3f} if only k_a does.",
            {"one head": one, "two heads": two, "one head, a": single, "two heads, a": pair},
            "warning" if swings else "note",
        )

    def _turned(self) -> Finding:
        """Why two heads do not hold the average always: a norm below zero."""
        spread, lost = self.options.spread, turned(self.options.spread)
        limit = math.sqrt(2 * lost * (1 - lost) / 4)
        return Finding.of(
            f"Two heads are not perfect either: a norm drawn from N(1, {spread:g}) is below zero "
            f"in {lost:.2%} of the draws, and then a head turns away from its key for every C. If "
            f"both keys vary, the standard deviation of two heads tends to {limit:.3f} as C grows, "
            "that of one head to 0.5.",
            {"below zero": lost, "limit of two heads": limit},
        )

    def _construction(self) -> Iterator[Finding]:
        printed, mended = (self.coefficients.at(sign=sign) for sign in SIGNS)
        far, near = (np.linalg.norm(outputs - WANTED, axis=1) for outputs in (printed, mended))
        yield Finding.of(
            "With the sign that the source prints, Q = (u_d u_aᵀ - u_c u_dᵀ)/γ², the first output "
            f"fails: at γ = {GAMMA:g} it is {_sum(printed[0])} instead of u_b - u_c "
            f"({far[0]:.3f} γ away), because q_1 = -u_c turns away from x_3. The second output is "
            f"right ({far[1]:.1e} γ away from u_b).",
            {"c_1": float(far[0]), "c_2": float(far[1])},
            "failure",
        )
        yield Finding.of(
            "A plus before u_c u_dᵀ corrects this: both outputs are close to the wanted ones, "
            f"{near[0]:.1e} γ and {near[1]:.1e} γ away.",
            {"c_1": float(near[0]), "c_2": float(near[1])},
            "good",
        )

    def _plain(self) -> Finding:
        alone = self.plain.at(added="u_d", multiple="0.0")
        most = float(self.plain.at(vector="u_b").max())
        least = float(self.leads.array.min())
        return Finding.of(
            f"Without matrices, with x as query, key and value, c_2 is {_sum(alone)}: x_2 attends "
            "to itself. Adding any multiple s of u_d (or u_c) cannot make it u_b: x_2·x_2 = "
            "(1 + s²)γ² leads x_2·x_1 = sγ² by at least ¾ γ² (least among "
            f"{len(MULTIPLES)} multiples from -2 to 2: {least:.2f}), and u_b's coefficient stays "
            f"below {most:.1e}.",
            {"u_b at most": most, "least lead": least},
        )

    def _copying(self) -> Finding:
        keys, scale = self.margins.labels["keys"], self.shown_scale
        first, last = self.margins.array[-1, 0], self.margins.array[-1, -1]
        spread = "; ".join(
            f"{self.deviation('none varies', 'one head', alpha):.3f} at alpha {alpha:g}"
            for alpha in self.options.alphas
        )
        return Finding.of(
            f"To copy with weight 0.999 a score must lead by {first:.3f} among {keys[0]} keys and "
            f"by {last:.3f} among {int(keys[-1]):,}: log 2 = 0.693 more for every doubling of the "
            f"other keys. To average two of {int(keys[-1]):,} orthonormal keys, C = {scale:g} puts "
            f"{weight_on_pair(scale, int(keys[-1])):.4f} of the weight on them. Keys N(μ, αI) keep "
            f"that average while C √α is small: the share of v_a has deviation {spread}.",
            {f"margin, {keys[0]} keys": float(first), f"{keys[-1]} keys": float(last)},
        )

    def _agreement(self) -> Finding:
        mean, mean_drawn, deviation, drawn = np.moveaxis(self.moments.array, -1, 0)
        apart = float(np.abs(mean - mean_drawn).max()), float(np.abs(deviation - drawn).max())
        return Finding.of(
            f"Closed forms against {self.options.draws:,} draws of the keys: means of v_a's share "
            f"differ by at most {apart[0]:.4f} and deviations by {apart[1]:.4f} over {mean.size} "
            "cells of norms, heads, C and alpha.",
            {"means": apart[0], "deviations": apart[1]},
        )

    def _sharp(self) -> Finding:
        first, last = self.options.temperatures[0], self.options.temperatures[-1]
        missed, ratio = self.sharp.at(quantity="missed"), self.of_bound()
        return Finding.of(
            f"A look-up of the best of {KEYS} keys is the limit of sharp attention: over "
            f"{missed.shape[1]:,} tables the median distance from the look-up is "
            f"{np.median(missed[0]):.3f} D at T = {first:g} and {np.median(missed[-1]):.1e} D at "
            f"T = {last:g} (D is the farthest that a value is from the one looked up). With a lead "
            f"g the distance is at most r/(1 + r) D, r = {KEYS - 1} exp(-g/T); the nearest that a "
            f"table comes to this bound is {ratio:.2f} of it. Where two keys nearly tie, no "
            f"temperature here is sharp: the worst table at T = {last:g} misses by "
            f"{missed[-1].max():.3f} D.",
            {"most of the bound": ratio},
            "good" if ratio <= 1 + 1e-9 else "failure",
        )

    def _matrices(self) -> Finding:
        plain, learned, by_hand = self.matrices.array
        found = (told_share(round(row[0] * TESTED), TESTED, 1) for row in (plain, learned))
        return Finding.of(
            "If queries use another code than keys, attention finds the right item in "
            f"{next(found)} tables without matrices (chance: {1 / KEYS:.1%}), in {next(found)} "
            f"with W_Q, W_K and W_V learned from answers, and in {by_hand[0]:.1%} with the "
            "matrices written down. The learned W_QᵀW_K is the rotation between the codes (cosine "
            f"{self.alike:.3f}) times {self.strength:.1f}; its answers are {learned[1]:.3f} away, "
            "root mean square.",
            {"plain": float(plain[0]), "learned": float(learned[0]), "cosine": self.alike},
        )


def _sum(coefficients: Floats) -> str:
    """`0.50 u_b - 1.00 u_c`, parts below 0.005 left out."""
    parts = [
        f"{'-' if c < 0 else '+'} {abs(c):.2f} {name}"
        for c, name in zip(coefficients, VECTORS, strict=True)
        if abs(c) >= 0.005
    ]
    return " ".join(parts).removeprefix("+ ") or "0"


# -- closed forms ----------------------------------------------------------------------------------
#
# The logistic of a normal number with standard deviation s: its moments are integrals of a smooth
# function against the normal density, for which the trapezoidal rule is exact to rounding once its
# step is small beside 1 / s.


def margin_for(epsilon: float, keys: int) -> float:
    """By how much a score must lead `keys - 1` others for a weight of 1 - epsilon."""
    return math.log(keys - 1) + math.log1p(-epsilon) - math.log(epsilon)


def weight_on_pair(scale: float, keys: int) -> float:
    """On a and b together, for orthonormal keys and the query C (k_a + k_b)."""
    return 2 / (2 + (keys - 2) * math.exp(-scale))


def logistic_moments(mean: float, deviation: float) -> tuple[float, float]:
    """Mean and variance of the logistic of a normal number."""
    from scipy.special import expit

    z = np.linspace(-10, 10, 40_001)
    density = np.exp(-(z**2) / 2)
    density /= density.sum()
    shares = expit(mean + deviation * z)
    first = float(density @ shares)
    return first, float(density @ (shares - first) ** 2)


def one_head(scale: float, spread: float, alpha: float, *, varying: int) -> tuple[float, float]:
    """Mean and variance of v_a's share of the output, two keys, one query for both."""
    return logistic_moments(0.0, scale * math.sqrt(varying * spread + 4 * alpha))


def two_heads(scale: float, spread: float, alpha: float, *, varying: int) -> tuple[float, float]:
    """The same for the mean of two heads, with queries C μ_a and C μ_b.

    Head 1's weight of a is the logistic of C μ_a·(k_a - k_b), head 2's weight of b that of
    C μ_b·(k_b - k_a). Both have mean C, and they are independent: noise along μ_a is none of μ_b's.
    """
    of_a, of_b = (
        logistic_moments(scale, scale * math.sqrt(own * spread + 2 * alpha))
        for own in (varying >= 1, varying >= 2)
    )
    return (of_a[0] + 1 - of_b[0]) / 2, (of_a[1] + of_b[1]) / 4


def turned(spread: float) -> float:
    """How often a key drawn around norm 1 points the other way: its head then turns from it."""
    from scipy.special import ndtr

    return float(ndtr(-1 / math.sqrt(spread)))


# -- keys drawn at random --------------------------------------------------------------------------


def draw_keys(
    rng: np.random.Generator, draws: int, spread: float, alpha: float, *, varying: int
) -> Floats:
    """`[draw key direction]`: k_a and k_b around μ_a and μ_b, the first two directions of four."""
    noise = np.sqrt(alpha) * rng.standard_normal((draws, 2, 4))
    norms = np.sqrt(spread) * rng.standard_normal((draws, 2, 1))
    norms[:, varying:] = 0.0
    return np.asarray(np.eye(2, 4) * (1 + norms) + noise)


def share_of_a(keys: Floats, scale: float, design: str) -> Floats:
    """`[draw]`: v_a's share of the output, by softmax, meaned over the heads."""
    a, b = np.eye(2, 4)
    queries = [a + b] if design == "one head" else [a, b]
    weights = [_softmax(scale * keys @ query)[:, 0] for query in queries]
    return np.asarray(np.mean(weights, axis=0))


def _softmax(scores: ArrayLike) -> Floats:
    from scipy.special import softmax

    return np.asarray(softmax(scores, axis=-1))


def _moments(asked: AttentionOptions, progress: Progress) -> LabeledArray:
    alphas, scales = asked.alphas, asked.scales
    moments = np.zeros((len(CASES), len(DESIGNS), len(alphas), len(scales), len(MOMENTS)))
    for varying, m in np.ndindex(len(CASES), len(alphas)):
        progress(f"drawing keys: {CASES[varying]}, alpha {alphas[m]:g}")
        rng = np.random.default_rng([asked.seed, varying, m])
        keys = draw_keys(rng, asked.draws, asked.spread, alphas[m], varying=varying)
        for (j, closed), k in (
            (design, k) for design in enumerate((one_head, two_heads)) for k in range(len(scales))
        ):
            mean, variance = closed(scales[k], asked.spread, alphas[m], varying=varying)
            shares = share_of_a(keys, scales[k], DESIGNS[j])
            moments[varying, j, m, k] = mean, shares.mean(), math.sqrt(variance), shares.std()
    return LabeledArray.of(
        moments, case=CASES, design=DESIGNS, alpha=alphas, scale=scales, statistic=MOMENTS
    )


# -- the construction, in units of the u: a vector is four coefficients, and u·u is γ² -------------


def attend(queries: Floats, keys: Floats, values: Floats, gamma: float) -> Floats:
    """Rows are positions; scores are dot products of the vectors themselves."""
    return np.asarray(_softmax(gamma**2 * queries @ keys.T) @ values)


def inputs(x_2: Floats = U_A) -> Floats:
    return np.array([U_D + U_B, x_2, U_C + U_B])


def outputs(sign: float, gamma: float) -> Floats:
    """`[output vector]`: c_1 and c_2 with the matrices; `sign` stands before u_c u_dᵀ."""
    x = inputs()
    q = np.outer(U_D, U_A) + sign * np.outer(U_C, U_D)
    v = np.outer(U_B, U_B) - np.outer(U_C, U_C)
    return attend(x @ q.T, x, x @ v.T, gamma)[:2]


def without_matrices(added: Floats, multiple: float, gamma: float) -> tuple[Floats, float]:
    """c_2 with x itself as queries, keys and values, and by how much x_2's own score leads."""
    x = inputs(U_A + multiple * added)
    scores = x[1] @ x.T
    return attend(x, x, x, gamma)[1], float(scores[1] - max(scores[0], scores[2]))


# -- look-ups --------------------------------------------------------------------------------------


def bound(gap: Floats, keys: int) -> Floats:
    """Return the most that 1 - w_* can be, for leads `gap` in units of the temperature."""
    rest = (keys - 1) * np.exp(-gap)
    return np.asarray(rest / (1 + rest))


def draw_tables(rng: np.random.Generator, tables: int) -> tuple[Floats, Floats, Floats]:
    """Return unit keys `[table key direction]`, values, and a query near the first key."""
    keys = rng.standard_normal((tables, KEYS, CODE))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    values = rng.standard_normal((tables, KEYS, VALUE))
    return keys, values, keys[:, 0] + 0.3 * rng.standard_normal((tables, CODE))


def sharpen(asked: AttentionOptions) -> LabeledArray:
    """Return, by table and temperature, the lead over T, the distance from v_* and its bound."""
    keys, values, queries = draw_tables(np.random.default_rng([asked.seed, 9]), asked.lookups)
    scores = np.einsum("tkd,td->tk", keys, queries)
    order = np.sort(scores, axis=1)
    best = np.take_along_axis(values, scores.argmax(axis=1)[:, None, None], axis=1)
    widest = np.linalg.norm(values - best, axis=-1).max(axis=1)
    measured = []
    for temperature in asked.temperatures:
        found = np.einsum("tk,tkv->tv", _softmax(scores / temperature), values)
        missed = np.linalg.norm(found - best[:, 0], axis=-1) / widest
        lead = (order[:, -1] - order[:, -2]) / temperature
        measured.append(np.stack([lead, missed, bound(lead, KEYS)], axis=-1))
    return LabeledArray.of(
        measured, temperature=asked.temperatures, table=range(asked.lookups),
        quantity=("lead", "missed", "bound"),
    )  # fmt: skip


def rotation(rng: np.random.Generator) -> Floats:
    """Return a random orthogonal matrix of the keys' size."""
    return np.asarray(np.linalg.qr(rng.standard_normal((CODE, CODE)))[0])


def look_up(weights: Any, items: Any, queries: Any) -> tuple[Any, Any]:
    """Return outputs `[table value]` and weights `[table key]` with W_Q, W_K and W_V."""
    import torch

    query, key, value = weights
    shares = torch.einsum("td,tkd->tk", queries @ query.T, items @ key.T).softmax(-1)
    return torch.einsum("tk,tkd->td", shares, items @ value.T)[:, CODE:], shares


def written(turn: Floats) -> Any:
    """Return the matrices that look up exactly as C grows: C Rᵀ, I and I on their parts."""
    import torch

    query, key, value = (torch.zeros(CODE + VALUE, CODE + VALUE) for _ in range(3))
    query[:CODE, :CODE] = SHARP * torch.from_numpy(turn.T)
    key[:CODE, :CODE] = torch.eye(CODE)
    value[CODE:, CODE:] = torch.eye(VALUE)
    return query, key, value


def learn(asked: AttentionOptions, turn: Floats) -> Any:
    """Adam on the squared distance from v_j, new tables at every step, from the identity."""
    import torch

    rng = np.random.default_rng([asked.seed, 10])
    weights = [torch.eye(CODE + VALUE).requires_grad_() for _ in range(3)]
    optimiser = torch.optim.Adam(weights, lr=0.02)
    for _ in range(asked.learning_steps):
        items, queries = _asked(rng, turn, 64)
        found, _ = look_up(weights, items, queries)
        loss = ((found - items[:, 0, CODE:]) ** 2).sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return [weight.detach() for weight in weights]


def _asked(rng: np.random.Generator, turn: Floats, tables: int) -> tuple[Any, Any]:
    """Items `[table key part]` and queries for the first of each, in the code R."""
    import torch

    keys, values, _ = draw_tables(rng, tables)
    queries = np.concatenate([keys[:, 0] @ turn.T, np.zeros((tables, VALUE))], axis=-1)
    items = np.concatenate([keys, values], axis=-1)
    return torch.from_numpy(items).float(), torch.from_numpy(queries).float()


def _matrices(asked: AttentionOptions) -> dict[str, Any]:
    import torch

    turn = rotation(np.random.default_rng([asked.seed, 11]))
    learned = learn(asked, turn)
    items, queries = _asked(np.random.default_rng([asked.seed, 12]), turn, TESTED)
    rows = []
    for weights in ((torch.eye(CODE + VALUE),) * 3, learned, written(turn)):
        found, shares = look_up(weights, items, queries)
        apart = float((found - items[:, 0, CODE:]).norm(dim=-1).square().mean().sqrt())
        rows.append([float((shares.argmax(-1) == 0).double().mean()), apart / math.sqrt(VALUE)])
    # Scores are q · k = x_qᵀ W_Qᵀ W_K x: with queries R k, the wanted product is a multiple of R.
    product = (learned[0].T @ learned[1])[:CODE, :CODE].double().numpy()
    size = float(np.linalg.norm(product))
    return {
        "matrices": LabeledArray.of(rows, form=FORMS, statistic=("right item", "distance")),
        "alike": float((product * turn).sum() / size / np.linalg.norm(turn)),
        "strength": size / math.sqrt(CODE),
    }


def run(asked: AttentionOptions, progress: Progress) -> AttentionResult:
    from tsc_interp.model.threads import one_thread

    added = {"u_c": U_C, "u_d": U_D}
    tried = [[without_matrices(u, m, GAMMA) for m in MULTIPLES] for u in added.values()]
    multiples = [f"{multiple:.1f}" for multiple in MULTIPLES]
    built = np.array([outputs(sign, GAMMA) for sign in SIGNS.values()])
    with one_thread():
        moments = _moments(asked, progress)
        progress("look-ups, sharp and learned")
        return AttentionResult(
            options=asked,
            moments=moments,
            coefficients=LabeledArray.of(
                built.swapaxes(0, 1), output=("c_1", "c_2"), sign=SIGNS, vector=VECTORS
            ),
            plain=LabeledArray.of(
                [[c_2 for c_2, _ in row] for row in tried],
                added=added, multiple=multiples, vector=VECTORS,
            ),
            leads=LabeledArray.of(
                [[lead for _, lead in row] for row in tried], added=added, multiple=multiples
            ),
            margins=LabeledArray.of(
                [[margin_for(1 - weight, n) for n in asked.keys] for weight in (0.9, 0.99, 0.999)],
                weight=(0.9, 0.99, 0.999), keys=asked.keys,
            ),
            sharp=sharpen(asked),
            **_matrices(asked),
        )  # fmt: skip
