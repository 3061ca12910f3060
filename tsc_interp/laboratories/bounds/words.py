"""What is said of bounds: what they are worth where they hold, and where they say nothing."""

from __future__ import annotations

from tsc_interp.laboratories.base import Finding
from tsc_interp.laboratories.bounds.result import CLAIMS, DRAWS, BoundsResult, Derivation
from tsc_interp.results.intervals import told_share


def findings(result: BoundsResult) -> tuple[Finding, ...]:
    told = (_beyond(result), _covered(result), _loose(result), _choosing(result), _fits(result))
    return (*told, *((_derived(result, result.derivation),) if result.derivation else ()))


def _beyond(result: BoundsResult) -> Finding:
    lengths, best = result.by_length.labels["length"], result.best
    errors = int(result.risks.at(seed=best[0], quantity="errors"))
    risks = [float(result.risks.at(seed=seed, quantity="exact risk")) for seed in best]
    within = errors / result.strings + float(result.bounds.at(bound=CLAIMS[0]))
    far = [float(result.by_length.at(seed=seed, length=lengths[-1])) for seed in best]
    seeds = "Seed " + str(best[0]) if len(best) == 1 else f"Seeds {', '.join(map(str, best))}"
    told = "0" if not max(risks) else f"{max(risks):.2g} or less"
    each = ", ".join(f"{risk:.3f}" for risk in far)
    return Finding(
        severity="failure" if max(far) > within else "note",
        text=(
            f"{seeds} made {errors} errors on {result.strings} validation strings of up to "
            f"{result.options.max_length} letters, so that the risk is at most {within:.3f} (at "
            f"{1 - result.options.delta:.0%} confidence); exactly it is {told}. "
            f"At {int(lengths[-1]):,} letters, on strings made the same way, it is exactly {each}: "
            "no bound of this kind says anything about lengths that were not drawn."
        ),
        numbers={"errors": errors, "risk": max(risks), "bound": within, "beyond": max(far)},
    )


def _covered(result: BoundsResult) -> Finding:
    rate = result.coverage
    told = "; ".join(
        f"{claim}: " + ", ".join(f"{rate.at(draws=draws, claim=claim):.1%}" for draws in DRAWS)
        for claim in CLAIMS
    )
    promised, least = 1 - result.options.delta, float(rate.array.min())
    return Finding(
        severity="good" if least >= promised - 0.02 else "failure",
        text=(
            f"Promised is {promised:.0%}. Held, over {result.options.sets:,} independent, "
            f"{result.options.sets:,} stratified and {result.options.stream_sets:,} of the "
            f"stream's own sets: {told}."
        ),
        numbers={"promised": promised, "least": least},
    )


def _loose(result: BoundsResult) -> Finding:
    uniform, source = (float(result.bounds.at(bound=claim)) for claim in CLAIMS[:2])
    needed = float(result.farthest.at(draws=DRAWS[0], quantile="1 - delta"))
    stratified = float(result.farthest.at(draws=DRAWS[1], quantile="1 - delta"))
    exact = float(result.widths.at(draws=DRAWS[0], claim=CLAIMS[3]))
    return Finding(
        severity="note",
        text=(
            f"The uniform bound is {uniform:.4f}, {_ratio(uniform, needed)} what was needed "
            f"({needed:.4f} would have held for all {result.options.seeds} models at once); the "
            f"source's is {source:.4f}, {_ratio(source, needed)}. Stratified sets, which is what "
            f"the stream draws, need {stratified:.4f}. Clopper-Pearson for all models at once is "
            f"{exact:.4f} wide on average: small risks are known better than Hoeffding can tell."
        ),
        numbers={"uniform": uniform, "source": source, "needed": needed, "exact": exact},
    )


def _ratio(bound: float, needed: float) -> str:
    return f"{bound / needed:.1f} times" if needed else "infinitely many times"


def _choosing(result: BoundsResult) -> Finding:
    small = result.choosing.labels["strings"][0]
    seen, true, naive, honest = result.choosing.at(strings=small)
    return Finding(
        severity="note",
        text=(
            f"Choosing flatters: of the {result.imperfect} models that have a risk, the one with "
            f"the fewest errors on {small} strings shows {seen:.2g} on average and has {true:.2g}. "
            f"Clopper-Pearson's interval around it holds the risk in {naive:.1%} of the sets at "
            f"delta, which promises nothing of a model that was chosen, and in {honest:.1%} at "
            "delta / M, which does."
        ),
        numbers={"validation": seen, "risk": true, "naive": naive, "honest": honest},
    )


def _fits(result: BoundsResult) -> Finding:
    strings, statistic, freedom, p_value, distance, expected = result.fit.array
    return Finding(
        severity="good" if p_value > 1e-3 else "failure",
        text=(
            "The stream's distribution is derived, not estimated: on its own "
            f"{int(strings):,} strings chi-square is {statistic:.0f} for {int(freedom)} degrees of "
            f"freedom (p = {p_value:.2f}), and the total variation {distance:.4f}, where "
            f"{expected:.4f} would come from chance alone. Simulated sets agree with binomials to "
            f"{result.binomial_gap:.3f}."
        ),
        numbers={"p_value": float(p_value), "binomial_gap": result.binomial_gap},
    )


def _derived(result: BoundsResult, derivation: Derivation) -> Finding:
    far, union, worst, hoeffding = map(float, derivation.chances.array[0])
    held, sets = derivation.distances.flat[0], result.options.sets
    sizes, models = (derivation.epsilon.labels[name] for name in ("strings", "models"))
    delta = derivation.epsilon.labels["delta"][1]
    one, many = (
        float(derivation.epsilon.at(strings=sizes[2], models=m, delta=delta)) for m in models[::3]
    )
    return Finding(
        severity="note",
        text=(
            f"Where the derivation gives away: at ε = {held:.4f} some model is off in "
            f"{told_share(round(far * sets), sets, 1)} simulated sets. Summing the models' exact "
            f"chances (the union bound) makes that {union:.3g}, taking the worst model "
            f"{result.options.seeds} times {worst:.3g}, and Hoeffding's 2M exp(-2Nε²) "
            f"{hoeffding:.3g}. ε falls with 1/√N and hardly grows with M: at N = "
            f"{int(sizes[2]):,} and δ = {float(delta):g} it is {one:.4f} for one model "
            f"and {many:.4f} for a million."
        ),
        numbers={"simulated": far, "union": union, "worst": worst, "Hoeffding": hoeffding},
    )
