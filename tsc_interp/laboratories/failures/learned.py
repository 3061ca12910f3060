"""A logistic model and a small tree on features of the problem, by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsc_interp.errors import UsageError, needed
from tsc_interp.laboratories.every_string import Flags, Floats

Predictor = Callable[[Floats], Flags]
DEPTH = 3


def fit(table: Floats, wrong: Flags, seed: int, most: int = 20_000) -> Fitted:
    """Fit on equally many right and wrong strings, at most `most`; the same on every run.

    Wrong strings are rare, so the threshold is where F1 is largest over all strings.
    """
    needed("sklearn.tree", "the laboratory failures", "'tsc-interp[labs]'")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    rows = _balanced(np.random.default_rng(seed), wrong, most)
    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    logistic = scaled.fit(table[rows], wrong[rows])
    small = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(table[rows], wrong[rows])
    return Fitted(
        {
            name: _cut(model, table, wrong)
            for name, model in (("logistic", logistic), ("tree", small))
        },
        int(small.tree_.feature[0]),
        float(small.tree_.threshold[0]),
    )


@dataclass(frozen=True)
class Fitted:
    tell: dict[str, Predictor]
    feature: int
    """That the tree asks about first, and where it draws the line."""
    threshold: float


def _cut(model: Any, table: Floats, wrong: Flags) -> Predictor:
    chance = np.asarray(model.predict_proba(table)[:, 1])
    order = np.argsort(-chance, kind="stable")
    hits = np.cumsum(wrong[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + wrong.sum())
    ends = np.r_[np.diff(chance[order]) != 0, True]  # equal chances are told alike
    best = chance[order][np.flatnonzero(ends)[f1[ends].argmax()]]
    return lambda given: np.asarray(model.predict_proba(given)[:, 1] >= best)


def _balanced(rng: np.random.Generator, wrong: Flags, most: int) -> Any:
    """As many of each kind as the rarer one has, or as there is room for."""
    bad, good = np.flatnonzero(wrong), np.flatnonzero(~wrong)
    size = min(len(bad), len(good), most // 2)
    if not size:
        raise UsageError("nothing to learn from: the strings are all right, or all wrong")
    chosen = [rng.choice(kind, size, replace=False) for kind in (bad, good)]
    return np.sort(np.concatenate(chosen))
