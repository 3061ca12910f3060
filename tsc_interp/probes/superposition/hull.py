"""Distances from a point to what other points can be mixed into: convex hulls and cones."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from tsc_interp.probes.running import Floats


def nearest_in_hull(point: Floats, others: Floats) -> tuple[float, Floats]:
    """The distance from `point` to the convex hull of the rows of `others`, and the mixture.

    One non-negative least-squares problem, exactly: for w = s u with u in the simplex,
    |A w|^2 + (1 - sum w)^2 is least over s at |A u|^2 / (1 + |A u|^2), which grows with |A u|.
    """
    if not len(others):
        return float("inf"), np.zeros(0)
    # Scaled to order one, so that the appended row of ones is neither lost nor dominant.
    unit = float(np.abs(others - point).max()) or 1.0
    system = np.vstack([(others - point).T / unit, np.ones(len(others))])
    weights = nnls(system, np.append(np.zeros(len(point)), 1.0))[0]
    weights = weights / weights.sum()
    return float(np.linalg.norm(weights @ others - point)), weights


def nearest_in_cone(point: Floats, others: Floats) -> tuple[float, Floats]:
    """The distance from `point` to the cone the rows of `others` span, and the combination."""
    if not len(others):
        return float(np.linalg.norm(point)), np.zeros(0)
    weights, distance = nnls(others.T, point)
    return float(distance), weights
