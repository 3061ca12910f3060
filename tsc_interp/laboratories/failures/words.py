"""What is said of failures: who foresees them, how wrong they are, what training data change."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.base import Finding
from tsc_interp.laboratories.failures.result import TESTS, FailuresResult


def findings(result: FailuresResult) -> tuple[Finding, ...]:
    return (
        _from_weights(result),
        _from_problem(result),
        _thresholds(result),
        _roughly(result),
        _halves(result),
        _training(result),
    )


def _of(result: FailuresResult, rule: str, test: str) -> tuple[float, float]:
    precision, recall = result.scores.at(rule=rule, test=test, weight="vectors").tolist()
    return precision, recall


def _from_weights(result: FailuresResult) -> Finding:
    longer, others = (_of(result, "cone rule", test) for test in TESTS[1:])
    return Finding(
        severity="good" if min(longer) > 0.9 else "note",
        text=(
            f"Failures of seed {result.options.fit_seed} can be foreseen from its weights and its "
            f"first errors: of the strings of {result.options.fitted_to + 1} to "
            f"{result.options.max_length} letters that the cone rule tells wrong, {longer[0]:.1%} "
            f"are, and it tells {longer[1]:.1%} of those that are (every vector of counts, none "
            f"sampled). Over {result.tested} other seeds, each with its own weights: "
            f"{others[0]:.0%} and {others[1]:.0%} on average."
        ),
        numbers={"precision": longer[0], "recall": longer[1], "seeds": result.tested},
    )


def _from_problem(result: FailuresResult) -> Finding:
    longer, others = (_of(result, "tree", test) for test in TESTS[1:])
    logistic = _of(result, "logistic", TESTS[2])
    return Finding(
        severity="warning",
        text=(
            f"From the problem alone they can be foreseen for the seed that was learned from "
            f"(a tree of depth 3 that first asks for {result.first_question}: precision "
            f"{longer[0]:.0%}, recall {longer[1]:.0%} on longer strings), and not for another: "
            f"{others[0]:.0%} and {others[1]:.0%}, a logistic model {logistic[0]:.0%} and "
            f"{logistic[1]:.0%}. Which strings fail is a property of the model."
        ),
        numbers={"own": longer[0], "other": others[0]},
    )


def _thresholds(result: FailuresResult) -> Finding:
    table = result.percentiles
    right, wrong = (table.at(quantity=f"ratio, {name}") for name in ("right 98 %", "wrong 2 %"))
    high, low = (table.at(quantity=f"share, {name}") for name in ("right 2 %", "wrong 98 %"))
    by_ratio, by_share = int((right < wrong).sum()), int((high > low).sum())
    return Finding(
        severity="note",
        text=(
            "In the source's style (98th percentile of right strings against the 2nd of wrong "
            f"ones) the largest ratio of counts separates {by_ratio} of {len(right)} seeds; "
            "the weight that the worst-read letter of the task keeps in its best head separates "
            f"{by_share}."
        ),
        numbers={"ratio": by_ratio, "share": by_share, "seeds": len(right)},
    )


def _roughly(result: FailuresResult) -> Finding:
    wrong = float(np.median(result.logits.at(quantity="wrong, median size")))
    right = float(np.median(result.logits.at(quantity="right, median size")))
    steps = result.steps.at(quantity="median")
    near = int((steps <= 2).sum())
    far = (
        f" In the others nothing near is right: {steps.max():.0f} letters."
        if 0 < near < len(steps)
        else ""
    )
    return Finding(
        severity="note",
        text=(
            f"Wrong answers are roughly right: their logits have a median size of {wrong:.2f} "
            f"where right ones have {right:.1f}, and in {near} of {len(steps)} seeds the nearest "
            "string that is answered right, with the same label, is one or two letters away "
            f"(median).{far}"
        ),
        numbers={"wrong": wrong, "right": right, "near": near},
    )


def _halves(result: FailuresResult) -> Finding:
    missed, invented = (
        result.halves.at(kind=kind) for kind in ("false negatives", "false positives")
    )
    only = int(((missed > 0) & (invented == 0)).sum())
    never = int(((missed == 0) & (invented > 0)).sum())
    return Finding(
        severity="note",
        text=(
            f"Mostly a letter that is there is overlooked: {only} of {len(missed)} seeds with "
            f"errors have false negatives only, {never} false positives only (those have not "
            "learned one of the letters), the others mostly the former."
        ),
        numbers={"false_negatives_only": only, "false_positives_only": never},
    )


def _training(result: FailuresResult) -> Finding:
    cells = result.horizons.labels["cell"]
    told = ", ".join(
        f"{cell} {int(np.median(result.horizons.at(cell=cell))):,} "
        f"({int((result.horizons.at(cell=cell) == 0).sum())} fail at once)"
        for cell in cells
    )
    medians = {cell: float(np.median(result.horizons.at(cell=cell))) for cell in cells}
    best = max(medians, key=lambda cell: medians[cell])
    return Finding(
        severity="note",
        text=(
            f"The training distribution decides how far models go. Median horizon of "
            f"{result.options.seeds} seeds: {told}. The best is {best}."
        ),
        numbers=dict(medians.items()),
    )
