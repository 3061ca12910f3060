"""Findings of the bounds laboratory: how tight bounds are, and which lengths they do not cover."""

from __future__ import annotations

from tsc_interp.laboratories.base import Finding
from tsc_interp.laboratories.bounds.result import CLAIMS, DRAWS, BoundsResult, Derivation
from tsc_interp.results.intervals import told_share


def findings(result: BoundsResult) -> tuple[Finding, ...]:
    always = (_beyond(result), _covered(result), _loose(result), _choosing(result), _fits(result))
    return (*always, *((_derived(result, result.derivation),) if result.derivation else ()))


def _beyond(result: BoundsResult) -> Finding:
    lengths, best = result.by_length.labels["length"], result.best
    errors = int(result.risks.at(seed=best[0], quantity="errors"))
    risks = [float(result.risks.at(seed=seed, quantity="exact risk")) for seed in best]
    within = errors / result.strings + float(result.bounds.at(bound=CLAIMS[0]))
    far = [float(result.by_length.at(seed=seed, length=lengths[-1])) for seed in best]
    seeds = "Seed " + str(best[0]) if len(best) == 1 else f"Seeds {', '.join(map(str, best))}"
    exact_risk = "0" if not max(risks) else f"{max(risks):.2g} or less"
    beyond = ", ".join(f"{risk:.3f}" for risk in far)
    return Finding.of(
        f"{seeds} made {errors} errors on {result.strings} validation strings of up to "
        f"{result.options.max_length} letters. The bound says that the risk is at most "
        f"{within:.3f} (at {1 - result.options.delta:.0%} confidence); the exact risk is "
        f"{exact_risk}. On strings of {int(lengths[-1]):,} letters made the same way, the exact "
        f"risk is {beyond}. A bound of this kind says nothing about lengths that were not drawn.",
        {"errors": errors, "risk": max(risks), "bound": within, "beyond": max(far)},
        "failure" if max(far) > within else "note",
    )


def _covered(result: BoundsResult) -> Finding:
    rate = result.coverage
    shares = "; ".join(
        f"{claim}: " + ", ".join(f"{rate.at(draws=draws, claim=claim):.1%}" for draws in DRAWS)
        for claim in CLAIMS
    )
    promised, least = 1 - result.options.delta, float(rate.array.min())
    return Finding.of(
        f"Each bound promises to hold in {promised:.0%} of validation sets. It holds in these "
        f"shares of {result.options.sets:,} independent sets, {result.options.sets:,} "
        f"stratified sets and {result.options.stream_sets:,} sets of the stream itself: {shares}.",
        {"promised": promised, "least": least},
        "good" if least >= promised - 0.02 else "failure",
    )


def _loose(result: BoundsResult) -> Finding:
    uniform, source = (float(result.bounds.at(bound=claim)) for claim in CLAIMS[:2])
    needed = float(result.farthest.at(draws=DRAWS[0], quantile="1 - delta"))
    stratified = float(result.farthest.at(draws=DRAWS[1], quantile="1 - delta"))
    exact = float(result.widths.at(draws=DRAWS[0], claim=CLAIMS[3]))
    return Finding.of(
        f"The uniform bound is {uniform:.4f}, {_ratio(uniform, needed)} as large as needed: "
        f"{needed:.4f} would have held for all {result.options.seeds} models at once. The "
        f"source's form is {source:.4f}, {_ratio(source, needed)}. Stratified sets, as the "
        f"stream draws them, need {stratified:.4f}. Clopper-Pearson intervals for all models "
        f"at once are {exact:.4f} wide on average, because they use that the risks are small.",
        {"uniform": uniform, "source": source, "needed": needed, "exact": exact},
    )


def _ratio(bound: float, needed: float) -> str:
    return f"{bound / needed:.1f} times" if needed else "infinitely many times"


def _choosing(result: BoundsResult) -> Finding:
    small = result.choosing.labels["strings"][0]
    seen, true, naive, honest = result.choosing.at(strings=small)
    return Finding.of(
        f"Choosing the best model makes its validation error too small. Among the "
        f"{result.imperfect} models with a positive risk, the one with the fewest errors on "
        f"{small} strings has an average validation error of {seen:.2g} and an average risk of "
        f"{true:.2g}. The Clopper-Pearson interval at delta, which is not valid for a chosen "
        f"model, contains its risk in {naive:.1%} of the sets; the one at delta / M, which "
        f"is valid, in {honest:.1%}.",
        {"validation": seen, "risk": true, "naive": naive, "honest": honest},
    )


def _fits(result: BoundsResult) -> Finding:
    strings, statistic, freedom, p_value, distance, expected = result.fit.array
    return Finding.of(
        "The formula for the stream's distribution fits the stream: on "
        f"{int(strings):,} of its strings chi-square is {statistic:.0f} with {int(freedom)} "
        f"degrees of freedom (p = {p_value:.2f}), and the total variation is {distance:.4f}, "
        f"where chance alone gives {expected:.4f}. Simulated sets agree with binomials to "
        f"{result.binomial_gap:.3f}.",
        {"p_value": float(p_value), "binomial_gap": result.binomial_gap},
        "good" if p_value > 1e-3 else "failure",
    )


def _derived(result: BoundsResult, derivation: Derivation) -> Finding:
    far, union, worst, hoeffding = map(float, derivation.chances.array[0])
    held, sets = derivation.distances.flat[0], result.options.sets
    sizes, models = (derivation.epsilon.labels[name] for name in ("strings", "models"))
    delta = derivation.epsilon.labels["delta"][1]
    for_one, for_many = (
        float(derivation.epsilon.at(strings=sizes[2], models=m, delta=delta)) for m in models[::3]
    )
    return Finding.of(
        f"How much each step of the derivation loses: at ε = {held:.4f} some model's error is "
        f"off by more in {told_share(round(far * sets), sets, 1)} simulated sets. The sum of "
        f"the models' exact chances (the union bound) is {union:.3g}, "
        f"{result.options.seeds} times the worst chance is {worst:.3g}, and Hoeffding's "
        f"2M exp(-2Nε²) is {hoeffding:.3g}. ε falls like 1/√N and hardly grows with M: at "
        f"N = {int(sizes[2]):,} and δ = {float(delta):g} it is {for_one:.4f} for one model and "
        f"{for_many:.4f} for a million.",
        {"simulated": far, "union": union, "worst": worst, "Hoeffding": hoeffding},
    )
