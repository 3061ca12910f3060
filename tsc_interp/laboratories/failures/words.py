"""Findings on failures: what predicts them, how wrong they are, and what training data change."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.base import Finding, LabeledArray
from tsc_interp.laboratories.failures.result import SCORES, TESTS, FailuresResult
from tsc_interp.results.intervals import told_mean, told_median, told_share


def findings(result: FailuresResult) -> tuple[Finding, ...]:
    return (
        _from_weights(result),
        _from_problem(result),
        _thresholds(result),
        _roughly(result),
        _halves(result),
        _training(result),
        *([] if result.speed is None else [_speed(result.speed)]),
        *([] if result.taken_back is None else [_monotone(result.taken_back)]),
    )


def _of(result: FailuresResult, rule: str, test: str) -> tuple[float, float]:
    precision, recall = result.scores.at(rule=rule, test=test, weight="vectors").tolist()
    return precision, recall


def _others(result: FailuresResult, rule: str) -> tuple[str, str]:
    """Precision and recall over the other seeds, as sentences say them."""
    if result.by_seed is None or not result.tested:
        precision, recall = (f"{mean:.0%}" for mean in _of(result, rule, TESTS[2]))
        return precision, recall
    precision, recall = (told_mean(result.by_seed.at(rule=rule, score=score)) for score in SCORES)
    return precision, recall


def _from_weights(result: FailuresResult) -> Finding:
    longer, others = (_of(result, "cone rule", test) for test in TESTS[1:])
    precision, recall = _others(result, "cone rule")
    return Finding.of(
        "The cone rule predicts failures from a model's weights and its first errors. Over "
        f"{result.tested} seeds, each with its own weights, {precision} of the strings it "
        f"calls wrong are wrong, and it finds {recall} of the wrong ones (every vector of "
        f"counts, none sampled). Seeds differ widely: on the strings of "
        f"{result.options.fitted_to + 1} to {result.options.max_length} letters of seed "
        f"{result.options.fit_seed} alone it reaches {longer[0]:.1%} and {longer[1]:.1%}.",
        {
            "precision": others[0], "recall": others[1], "seeds": result.tested,
            "one_seed_precision": longer[0], "one_seed_recall": longer[1],
        },
        "good" if min(others) > 0.9 else "note",
    )  # fmt: skip


def _from_problem(result: FailuresResult) -> Finding:
    longer, others = (_of(result, "tree", test) for test in TESTS[1:])
    tree, logistic = (_others(result, rule) for rule in ("tree", "logistic"))
    return Finding.of(
        f"From the string alone, failures can be predicted for the seed that the predictor was "
        f"fitted to (a tree of depth 3 that first asks for {result.first_question}: precision "
        f"{longer[0]:.0%}, recall {longer[1]:.0%} on longer strings), but not for other seeds: "
        f"there the tree has {tree[0]} and {tree[1]}, a logistic model {logistic[0]} and "
        f"{logistic[1]} over {result.tested} seeds. Which strings fail depends on the model.",
        {"own": longer[0], "other": others[0]},
        "warning",
    )


def _thresholds(result: FailuresResult) -> Finding:
    table = result.percentiles
    right, wrong = (table.at(quantity=f"ratio, {name}") for name in ("right 98 %", "wrong 2 %"))
    high, low = (table.at(quantity=f"share, {name}") for name in ("right 2 %", "wrong 98 %"))
    by_ratio, by_share = int((right < wrong).sum()), int((high > low).sum())
    return Finding.of(
        "Does one number separate right from wrong strings, as in the source (98th percentile "
        "of right strings against the 2nd of wrong ones)? The largest ratio of counts does in "
        f"{told_share(by_ratio, len(right))} seeds. The attention weight that the worst-read "
        f"letter of the task keeps in its best head does in "
        f"{told_share(by_share, len(right))}.",
        {"ratio": by_ratio, "share": by_share, "seeds": len(right)},
    )


def _roughly(result: FailuresResult) -> Finding:
    wrong = float(np.median(result.logits.at(quantity="wrong, median size")))
    right = float(np.median(result.logits.at(quantity="right, median size")))
    steps = result.steps.at(quantity="median")
    near = int((steps <= 2).sum())
    far = (
        f" In the other seeds it is farther away, up to {steps.max():.0f} letters."
        if 0 < near < len(steps)
        else ""
    )
    return Finding.of(
        f"Wrong answers are roughly right: the median size of their logits is {wrong:.2f}, "
        f"that of right answers {right:.1f}. In {told_share(near, len(steps))} seeds the "
        "nearest string with the same label that is answered right is one or two letters away "
        f"(median).{far}",
        {"wrong": wrong, "right": right, "near": near},
    )


def _halves(result: FailuresResult) -> Finding:
    missed, invented = (
        result.halves.at(kind=kind) for kind in ("false negatives", "false positives")
    )
    only = int(((missed > 0) & (invented == 0)).sum())
    never = int(((missed == 0) & (invented > 0)).sum())
    return Finding.of(
        "Most errors overlook a letter that is there: of the seeds with errors "
        f"{told_share(only, len(missed))} have false negatives only and {never} have false "
        "positives only (these have not learned one of the letters).",
        {"false_negatives_only": only, "false_positives_only": never},
    )


def _training(result: FailuresResult) -> Finding:
    cells = result.horizons.labels["cell"]
    by_cell = "; ".join(
        f"{cell} {told_median(result.horizons.at(cell=cell))}, "
        f"{int((result.horizons.at(cell=cell) == 0).sum())} fail at once"
        for cell in cells
    )
    medians = {cell: float(np.median(result.horizons.at(cell=cell))) for cell in cells}
    best = max(medians, key=lambda cell: medians[cell])
    return Finding.of(
        f"The training distribution changes the horizon. Median horizon of "
        f"{result.options.seeds} seeds: {by_cell}. The longest median is that of {best}.",
        dict(medians.items()),
    )


def _speed(speed: LabeledArray) -> Finding:
    by_cell, numbers = [], {}
    for cell in speed.labels["cell"]:
        steps = speed.at(cell=cell)
        reached = int(np.isfinite(steps).sum())
        by_cell.append(f"{cell} {told_median(steps)}, reached by {reached} of {len(steps)}")
        numbers[cell] = float(np.median(steps))
    return Finding.of(
        "How fast models learn from each training distribution: median number of steps (64 "
        "strings each) until 99 % of all strings up to 30 letters are right, counted at the ends "
        f"of epochs (∞ means never): {'; '.join(by_cell)}.",
        dict(numbers),
    )


def _monotone(taken_back: LabeledArray) -> Finding:
    shares = dict(
        zip(taken_back.labels["letter"], np.nanmean(taken_back.array, axis=0).tolist(), strict=True)
    )
    by_letter = ", ".join(f"one more `{letter}` {share:.2%}" for letter, share in shares.items())
    kept = int((np.nan_to_num(taken_back.array) == 0).all(axis=1).sum())
    seeds = len(taken_back.array)
    return Finding.of(
        "Are models monotone? In the task, one more letter never turns yes into no. These "
        f"shares of the models' yes answers become no: {by_letter} (means of {seeds} seeds over "
        f"every pair of count vectors). {told_share(kept, seeds)} models never do this.",
        dict(shares),
    )
