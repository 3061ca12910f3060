"""What does a validation set say about a model, and what does it not?

You choose among M models with N validation strings. With probability 1 - delta, every validation
error is within sqrt(ln(2M / delta) / (2N)) of the model's risk; the source ends with the looser
sqrt(ln(M / delta) / N). The derivation, step by step:

    P(some model of M is off by more than ε)
        ≤  Σ_m P(model m is off by more than ε)          union bound
        ≤  M · max_m P(model m is off by more than ε)
        ≤  M · 2 exp(-2 N ε²)                            Hoeffding: N independent errors in [0, 1]

and the last line is delta at the bound's ε. Here the risk itself is known: the balanced stream's
distribution over count vectors is a product, and every vector is decided, so the risk is a sum, and
each step can be compared with the true chance. The laboratory draws thousands of validation sets in
two ways: independent strings, and stratified sets with fixed numbers of each kind, as the stream
makes them (strings are independent within each kind, so Hoeffding's bound holds too). It counts how
often each bound holds, and how much wider than necessary it is. These bounds say nothing about
longer strings, which the exact risk at another length shows.

**The distribution.** A string of the stream belongs to a subset S of the P positive letters, s of
them. Given S, its length n is uniform on max(s, 1) .. max_length; m, how many of its letters are
positive, is uniform on s .. n (0 if S is empty); each letter of S occurs once, and the m - s that
are left are drawn from shares that are themselves Dirichlet(alpha / s, ...); the n - m other
letters are uniform and independent. A vector determines S, n and m, so its probability is a product
of these. How often each S occurs is not drawn at all: every batch holds the same number of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    option,
)
from tsc_interp.results.intervals import told_share
from tsc_interp.results.views import Bars, Rows

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.data import BalancedStream

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
DRAWS = ("independent", "stratified")
BOUNDS = ("uniform", "the source's")
STEPS = (
    "some model is off by more than ε, simulated",
    "the models' chances, summed (union bound)",
    "M times the worst model's",
    "2M exp(-2Nε²) (Hoeffding for each)",
)
"""Each is at least the one before: what each step of the derivation gives away."""
RISKS = ("exact risk", "errors", "exact risk beyond")


class BoundsOptions(LabOptions):
    QUICK: ClassVar = {
        "seeds": 6, "epochs": 1, "max_length": 60, "sets": 500, "beyond": 200,
    }  # fmt: skip

    seeds: int = option(16, "M, the models to choose from.", ge=2, le=256)
    epochs: int = option(30, "Each is trained for, at most.", ge=1, le=30)
    batches: int = option(15, "Of 64 strings, in a validation set: N / 64.", ge=1, le=1000)
    max_length: int = option(200, "Of a validation string.", ge=2, le=200)
    alpha: float = option(0.1, "How even its counts are.", ge=0.01, le=1000)
    delta: float = option(0.05, "A bound may fail so often.", gt=0, lt=1)
    sets: int = option(4000, "Validation sets simulated.", ge=100, le=100_000)
    beyond: int = option(1000, "A length at which the risk is told, too.", ge=2, le=1000)
    seed: int = option(1, "Of the draws.", ge=0, lt=2**32)


class BoundsResult(LabResult):
    probe: ClassVar[str] = "bounds"

    options: BoundsOptions
    strings: int
    """N."""
    risks: Annotated[
        LabeledArray, Rows("Exact risks, one validation set, and {result.options.beyond} letters")
    ]
    """`[seed quantity]`: the exact risk, one stratified set's errors, the risk at one length."""
    coverage: Annotated[LabeledArray, Rows("How often each bound held, by how sets are drawn")]
    """`[draws bound]`."""
    needed: LabeledArray
    """`[draws]`: the ε that would have held in 1 - delta of the sets, for all models at once."""
    chances: Annotated[LabeledArray, Bars(
        "What each step of the derivation gives away",
        "The chance that some model of {result.options.seeds} is off by more than ε on "
        "{result.strings} strings, and what each step of the proof allows, at the ε that would "
        "have held.",
        x="chance, or a bound on it", form=".3g", name="steps",
    )]  # fmt: skip
    """`[step]`."""

    @property
    def best(self) -> list[int]:
        """The seeds with the fewest errors on one validation set."""
        errors = self.risks.at(quantity="errors")
        return [int(seed) for seed in np.flatnonzero(errors == errors.min())]

    def bound(self, name: str) -> float:
        """How far a validation error may be from the risk, by either bound."""
        form = uniform_bound if name == BOUNDS[0] else source_bound
        return form(self.options.seeds, self.strings, self.options.delta)

    # -- findings ----------------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        yield self._beyond()
        yield self._loose()
        yield self._derived()
        yield self._covered()

    def _beyond(self) -> Finding:
        best, length = self.best, self.options.beyond
        errors = int(self.risks.at(seed=best[0], quantity="errors"))
        risks, far = (
            [float(self.risks.at(seed=seed, quantity=quantity)) for seed in best]
            for quantity in (RISKS[0], RISKS[2])
        )
        within = errors / self.strings + self.bound("uniform")
        seeds = f"Seed{'s' * (len(best) > 1)} {', '.join(map(str, best))}"
        exact_risk = "0" if not max(risks) else f"{max(risks):.2g} or less"
        return Finding.of(
            f"{seeds} made {errors} errors on {self.strings} validation strings of up to "
            f"{self.options.max_length} letters. The bound says that the risk is at most "
            f"{within:.3f} (at {1 - self.options.delta:.0%} confidence); the exact risk is "
            f"{exact_risk}. On strings of {length:,} letters made the same way, the "
            f"exact risk is {', '.join(f'{risk:.3f}' for risk in far)}. A bound of this kind says "
            "nothing about lengths that were not drawn.",
            {"errors": errors, "risk": max(risks), "bound": within, "beyond": max(far)},
            "failure" if max(far) > within else "note",
        )

    def _loose(self) -> Finding:
        uniform, source = (self.bound(name) for name in BOUNDS)
        needed, stratified = (float(self.needed.at(draws=draws)) for draws in DRAWS)
        return Finding.of(
            f"The uniform bound is {uniform:.4f}, {_ratio(uniform, needed)} as large as needed: "
            f"{needed:.4f} would have held for all {self.options.seeds} models at once. The "
            f"source's form is {source:.4f}, {_ratio(source, needed)}. Stratified sets, as the "
            f"stream draws them, need {stratified:.4f}.",
            {"uniform": uniform, "source": source, "needed": needed, "stratified": stratified},
        )

    def _derived(self) -> Finding:
        far, union, worst, hoeffding = map(float, self.chances.array)
        held, sets = float(self.needed.at(draws=DRAWS[0])), self.options.sets
        return Finding.of(
            f"How much each step of the derivation loses: at ε = {held:.4f} some model's error is "
            f"off by more in {told_share(round(far * sets), sets, 1)} simulated sets. The sum of "
            f"the models' exact chances (the union bound) is {union:.3g}, {self.options.seeds} "
            f"times the worst chance is {worst:.3g}, and Hoeffding's 2M exp(-2Nε²) is "
            f"{hoeffding:.3g}.",
            {"simulated": far, "union": union, "worst": worst, "Hoeffding": hoeffding},
        )

    def _covered(self) -> Finding:
        told = "; ".join(
            f"{name}: " + ", ".join(f"{self.coverage.at(draws=d, bound=name):.1%}" for d in DRAWS)
            for name in BOUNDS
        )
        promised, least = 1 - self.options.delta, float(self.coverage.array.min())
        return Finding.of(
            f"Each bound promises to hold in {promised:.0%} of validation sets. It holds in these "
            f"shares of {self.options.sets:,} independent and as many stratified sets: {told}.",
            {"promised": promised, "least": least},
            "good" if least >= promised - 0.02 else "failure",
        )


def _ratio(bound: float, needed: float) -> str:
    return f"{bound / needed:.1f} times" if needed else "infinitely many times"


# -- the bounds ------------------------------------------------------------------------------------


def uniform_bound(models: int, strings: int, delta: float) -> float:
    """sqrt(ln(2M / delta) / (2N)): Hoeffding for each of M models, and the union bound."""
    return math.sqrt(math.log(2 * models / delta) / (2 * strings))


def source_bound(models: int, strings: int, delta: float) -> float:
    """sqrt(ln(M / delta) / N), as the lecture notes end: never below the other if M / delta > 2."""
    return math.sqrt(math.log(models / delta) / strings)


def chance_within(risk: float, strings: int, distance: float) -> float:
    """How often a binomial share is within `distance` of its mean, exactly."""
    from scipy.stats import binom

    low = math.ceil(strings * (risk - distance) - 1e-9)
    high = math.floor(strings * (risk + distance) + 1e-9)
    return float(binom.cdf(high, strings, risk) - binom.cdf(low - 1, strings, risk))


def chances_of_steps(seen: Floats, risks: Floats, strings: int, epsilon: float) -> list[float]:
    """Return the four chances at one ε, smallest first; `seen` are errors `[set model]`, shares."""
    far = (np.abs(seen - risks) > epsilon + 1e-9).any(axis=1).mean()
    chances = [max(0.0, 1 - chance_within(float(risk), strings, epsilon)) for risk in risks]
    hoeffding = 2 * len(risks) * math.exp(-2 * strings * epsilon**2)
    return [float(far), sum(chances), len(risks) * max(chances), hoeffding]


# -- the stream's distribution over count vectors, and draws from it -------------------------------


def subset_shares(stream: BalancedStream, config: ClassifierConfig) -> Floats:
    """The share of a batch that each subset owns, subsets as bit masks."""
    from tsc_interp.data.balanced import budgets

    sizes = budgets(stream.batch_size, len(config.task.needs))
    return np.array(sizes, dtype=np.float64) / sum(sizes)


def subsets_of(config: ClassifierConfig, counts: Integers) -> Integers:
    """The subset of positive letters in each vector, as a bit mask."""
    named = [config.alphabet.index(letter) for letter in config.task.needs]
    return np.asarray((counts[:, named] > 0) @ (1 << np.arange(len(named))))


def probabilities(
    stream: BalancedStream, config: ClassifierConfig, counts: Integers, *,
    given_length: bool = False,
) -> Floats:  # fmt: skip
    """Of each vector, zero beyond the stream's length; or given the vector's own length."""
    from scipy.special import gammaln

    def multinomial(counts: Integers) -> Floats:
        return np.asarray(gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1))

    named = [config.alphabet.index(letter) for letter in config.task.needs]
    others = [t for t in range(config.n_letters) if t not in named]
    positive, rest = counts[:, named], counts[:, others]
    n, m, s = counts.sum(axis=1), positive.sum(axis=1), (positive > 0).sum(axis=1)
    log = np.log(subset_shares(stream, config))[subsets_of(config, counts)]
    if not given_length:
        log = log - np.log(stream.max_length - np.maximum(s, 1) + 1)
        log = np.where(n > stream.max_length, -np.inf, log)
    log = log - np.where(s > 0, np.log(n - s + 1), 0.0)
    # Shares: alpha / s each, alpha in all; one letter alone takes them all.
    share, extra = stream.alpha / np.maximum(s, 1), np.maximum(positive - 1, 0)
    beta = gammaln(stream.alpha) - gammaln(m - s + stream.alpha)
    log = log + np.where(s > 0, multinomial(extra) + beta, 0.0)
    ratios = gammaln(extra + share[:, None]) - gammaln(share)[:, None]
    log = log + np.where(positive > 0, ratios, 0).sum(1)
    log = log + multinomial(rest) - rest.sum(axis=1) * np.log(max(len(others), 1))
    if given_length:
        # Too short for some subsets: the others share the length among them.
        shares = subset_shares(stream, config)
        least = np.array([max(subset.bit_count(), 1) for subset in range(len(shares))])
        owned = np.array([shares[least <= length].sum() for length in range(int(n.max()) + 1)])
        log = log - np.log(np.maximum(owned, 1e-300)[n])
    return np.asarray(np.exp(log))


def error_patterns(
    wrong: NDArray[np.bool_], chances: Floats, strata: Integers
) -> tuple[Floats, Floats]:
    """`[pattern model]` and `[stratum pattern]`: which models are wrong together, and how often.

    Strings on which the same models are wrong need not be told apart, so that a validation set is
    drawn as a few numbers.
    """
    patterns, inverse = np.unique(np.packbits(wrong, axis=0), axis=1, return_inverse=True)
    cells = strata * patterns.shape[1] + inverse.ravel()
    cells_in_all = (int(strata.max()) + 1) * patterns.shape[1]
    table = np.asarray(np.bincount(cells, chances, minlength=cells_in_all), dtype=np.float64)
    models = np.unpackbits(patterns, axis=0, count=len(wrong))
    return models.T.astype(np.float64), table.reshape(-1, patterns.shape[1])


def draw_errors(
    rng: np.random.Generator, patterns: Floats, table: Floats, sizes: Sequence[int] | int,
    times: int,
) -> Floats:  # fmt: skip
    """`[time model]`: wrong answers in validation sets.

    `sizes` is how many strings of each stratum a set has, or how many there are of the mixture.
    """
    if isinstance(sizes, int):
        sizes, table = [sizes], table.sum(axis=0)[None]
    strata = zip(sizes, table, strict=True)
    drawn = np.sum([rng.multinomial(n, row / row.sum(), size=times) for n, row in strata], axis=0)
    return np.asarray(drawn @ patterns)


def run(asked: BoundsOptions, progress: Progress) -> BoundsResult:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.data import BalancedStream
    from tsc_interp.data.balanced import budgets
    from tsc_interp.laboratories.every_string import judge, vectors_up_to
    from tsc_interp.laboratories.trained import trained
    from tsc_interp.training.config import TrainingConfig

    config, seeds = ClassifierConfig(), range(asked.seeds)
    stream = BalancedStream(
        max_length=asked.max_length, alpha=asked.alpha, batches=asked.batches, seed=asked.seed
    )
    n = stream.batch_size * asked.batches
    progress(f"training {asked.seeds} models")
    models = trained(config, seeds, TrainingConfig(max_epochs=asked.epochs))

    progress("deciding every string")
    vectors = vectors_up_to(config.n_letters, asked.max_length)
    wrong = np.stack([judge(model, vectors).wrong for model in models])
    chances = probabilities(stream, config, vectors)
    risks = wrong @ chances

    progress(f"simulating {asked.sets} validation sets")
    patterns, table = error_patterns(wrong, chances, subsets_of(config, vectors))
    rng = np.random.default_rng(asked.seed)
    sizes = [asked.batches * budget for budget in budgets(stream.batch_size, 2)]
    shares = [draw_errors(rng, patterns, table, of, asked.sets) / n for of in (n, sizes)]
    distances = [np.abs(share - risks).max(axis=1) for share in shares]
    forms = [form(asked.seeds, n, asked.delta) for form in (uniform_bound, source_bound)]
    needed = [float(np.quantile(distance, 1 - asked.delta)) for distance in distances]

    progress(f"the risk at {asked.beyond:,} letters")
    some = vectors_up_to(config.n_letters, asked.beyond, asked.beyond)
    given = probabilities(stream, config, some, given_length=True)
    beyond = [judge(model, some).wrong @ given for model in models]
    return BoundsResult(
        options=asked,
        strings=n,
        risks=LabeledArray.of(
            np.stack([risks, shares[1][0] * n, beyond], axis=1), seed=seeds, quantity=RISKS
        ),
        coverage=LabeledArray.of(
            [[(distance <= bound).mean() for bound in forms] for distance in distances],
            draws=DRAWS, bound=BOUNDS,
        ),
        needed=LabeledArray.of(needed, draws=DRAWS),
        chances=LabeledArray.of(chances_of_steps(shares[0], risks, n, needed[0]), step=STEPS),
    )  # fmt: skip
