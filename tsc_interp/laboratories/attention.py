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

**Look-up.** Items are x_i = [k_i ; v_i]. A query [R k_j ; 0] asks for v_j in a code of its own: R
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
from tsc_interp.results.views import Lines, Rows, shown

Floats = NDArray[np.float64]
Scale = Annotated[float, Field(gt=0, le=200)]

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
    QUICK: ClassVar = {"draws": 2_000, "learning_steps": 300}

    draws: int = option(40_000, "Draws of the keys per cell.", ge=100, le=2_000_000)
    seed: int = option(0, "Of the draws.", ge=0)
    spread: float = option(0.5, "The variance of a key's norm.", gt=0, le=10)
    scales: tuple[Scale, ...] = option(
        (0.5, 1, 2, 4, 8, 16, 32, 64), "C, the queries' scale.", min_length=1
    )
    alpha: float = option(0.0, "The variance of a key in every direction.", ge=0, le=10)
    learning_steps: int = option(1000, "To learn W_Q, W_K and W_V in.", ge=1, le=50_000)


class AttentionResult(LabResult):
    probe: ClassVar[str] = "attention"

    options: AttentionOptions
    moments: LabeledArray
    """`[case design scale statistic]`: of the share of v_a in the output; a half is wanted."""
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
        "alpha {result.options.alpha:g}): closed forms and draws. Wanted is 0; one head that "
        "gives all to v_a or to v_b has 0.5.",
        x="C", y="deviation of v_a's share", form=".3f", log_x=True, name="swing",
    ))  # fmt: skip
    def swing(self) -> LabeledArray:
        rows = {
            f"{design}{statistic.removeprefix('deviation').replace(' ', ', ')}":
            self.moments.at(case="both vary", design=design, statistic=statistic)
            for design in DESIGNS
            for statistic in MOMENTS[2:]
        }  # fmt: skip
        scales = self.moments.labels["scale"]
        return LabeledArray.of(list(rows.values()), design=list(rows), scale=scales)

    @shown(Rows("The construction at γ = 6"))
    def construction(self) -> LabeledArray:
        built = np.stack([outputs(sign, GAMMA) for sign in SIGNS.values()], axis=1)
        return LabeledArray.of(built, output=("c_1", "c_2"), sign=SIGNS, vector=VECTORS)

    @property
    def shown_scale(self) -> float:
        """The scale that findings speak of: 16, or the nearest of those asked for."""
        return min(self.options.scales, key=lambda scale: abs(scale - 16))

    @property
    def swings(self) -> bool:
        """Whether one head's shares have two peaks, at the scale that is shown."""
        norms = 2 * self.options.spread + 4 * self.options.alpha
        return self.shown_scale**2 * norms > 2

    @property
    def apart(self) -> float:
        """The most that a drawn mean or deviation differs from its closed form."""
        mean, mean_drawn, deviation, drawn = np.moveaxis(self.moments.array, -1, 0)
        return float(max(np.abs(mean - mean_drawn).max(), np.abs(deviation - drawn).max()))

    def deviation(self, case: str, design: str) -> float:
        at = {"case": case, "design": design, "scale": self.shown_scale}
        return float(self.moments.at(**at, statistic="deviation"))

    # -- findings ----------------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        yield self._swing()
        yield self._construction()
        yield self._plain()
        yield self._matrices()

    def _swing(self) -> Finding:
        spread = self.options.spread
        one, two, single, pair = (
            self.deviation(case, design) for case in CASES[:0:-1] for design in DESIGNS
        )
        swings = self.swings
        verb = "does not return their average but swings between" if swings else "mixes"
        lost = turned(spread)
        return Finding.of(
            f"When the norms of k_a and k_b vary (variance {spread:g}), one head whose query asks "
            f"for both with C = {self.shown_scale:g} {verb} v_a and v_b: the share of v_a has "
            f"standard deviation {one:.3f} (a coin flip between the two has 0.5). With two heads, "
            f"one for each key, it is {two:.3f}. If only k_a varies: {single:.3f} and {pair:.3f}. "
            "The density of one head's share has two peaks where the variance of its logit "
            f"exceeds 2, so from C = {math.sqrt(1 / spread):.3f} on if both vary, and from "
            f"{math.sqrt(2 / spread):.3f} if only k_a does. Two heads are not perfect either: a "
            f"norm drawn from N(1, {spread:g}) is below zero in {lost:.2%} of the draws, and then "
            "a head turns away from its key for every C. Closed forms and "
            f"{self.options.draws:,} draws differ by at most {self.apart:.4f} in every cell.",
            {"one head": one, "two heads": two, "below zero": lost, "apart": self.apart},
            "warning" if swings else "note",
        )

    def _construction(self) -> Finding:
        printed, mended = (outputs(sign, GAMMA) for sign in SIGNS.values())
        far, near = (np.linalg.norm(outputs - WANTED, axis=1) for outputs in (printed, mended))
        return Finding.of(
            "With the sign that the source prints, Q = (u_d u_aᵀ - u_c u_dᵀ)/γ², the first output "
            f"fails: at γ = {GAMMA:g} it is {_sum(printed[0])} instead of u_b - u_c "
            f"({far[0]:.3f} γ away), because q_1 = -u_c turns away from x_3. The second output is "
            f"right ({far[1]:.1e} γ away from u_b). A plus before u_c u_dᵀ corrects this: both "
            f"outputs are close to the wanted ones, {near[0]:.1e} γ and {near[1]:.1e} γ away.",
            {"c_1": float(far[0]), "c_2": float(far[1]), "c_1 mended": float(near[0])},
            "failure",
        )

    def _plain(self) -> Finding:
        tried = [without_matrices(u, s, GAMMA) for u in (U_C, U_D) for s in MULTIPLES]
        most, least = max(c_2[1] for c_2, _ in tried), min(lead for _, lead in tried)
        alone, _ = without_matrices(U_D, 0.0, GAMMA)
        return Finding.of(
            f"Without matrices, with x as query, key and value, c_2 is {_sum(alone)}: x_2 attends "
            "to itself. Adding any multiple s of u_d (or u_c) cannot make it u_b: x_2·x_2 = "
            "(1 + s²)γ² leads x_2·x_1 = sγ² by at least ¾ γ² (least among "
            f"{len(MULTIPLES)} multiples from -2 to 2: {least:.2f}), and u_b's coefficient stays "
            f"below {most:.1e}.",
            {"u_b at most": float(most), "least lead": least},
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
    moments = np.zeros((len(CASES), len(DESIGNS), len(asked.scales), len(MOMENTS)))
    for varying, case in enumerate(CASES):
        progress(f"drawing keys: {case}")
        rng = np.random.default_rng([asked.seed, varying, 0])
        keys = draw_keys(rng, asked.draws, asked.spread, asked.alpha, varying=varying)
        for j, closed in enumerate((one_head, two_heads)):
            for k, scale in enumerate(asked.scales):
                mean, variance = closed(scale, asked.spread, asked.alpha, varying=varying)
                shares = share_of_a(keys, scale, DESIGNS[j])
                moments[varying, j, k] = mean, shares.mean(), math.sqrt(variance), shares.std()
    return LabeledArray.of(
        moments, case=CASES, design=DESIGNS, scale=asked.scales, statistic=MOMENTS
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


def draw_tables(rng: np.random.Generator, tables: int) -> tuple[Floats, Floats]:
    """Return unit keys `[table key direction]`, and values."""
    keys = rng.standard_normal((tables, KEYS, CODE))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    return keys, rng.standard_normal((tables, KEYS, VALUE))


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

    from tsc_interp.laboratories.trained import descend

    rng = np.random.default_rng([asked.seed, 10])
    weights = [torch.eye(CODE + VALUE).requires_grad_() for _ in range(3)]

    def losses() -> Iterator[Any]:
        for _ in range(asked.learning_steps):
            items, queries = _asked(rng, turn, 64)
            found, _ = look_up(weights, items, queries)
            yield ((found - items[:, 0, CODE:]) ** 2).sum(-1).mean()

    descend(weights, losses(), 0.02)
    return [weight.detach() for weight in weights]


def _asked(rng: np.random.Generator, turn: Floats, tables: int) -> tuple[Any, Any]:
    """Items `[table key part]` and queries for the first of each, in the code R."""
    import torch

    keys, values = draw_tables(rng, tables)
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

    with one_thread():
        moments = _moments(asked, progress)
        progress("look-ups")
        return AttentionResult(options=asked, moments=moments, **_matrices(asked))
