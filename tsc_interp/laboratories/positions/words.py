"""What the positions laboratory found, in sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tsc_interp.laboratories.base import Cell, Finding
from tsc_interp.laboratories.positions.result import (
    BEFORE,
    CONTAINS,
    LEARNED,
    NONE,
    SINUSOIDAL,
    PositionsResult,
    leads,
)
from tsc_interp.results.intervals import told_share


def findings(result: PositionsResult) -> tuple[Finding, ...]:
    statements = [_cost(result), _possible(result), _untrained(result), _reading(result)]
    statements += [_blind(result), _invariance(result), _without(result)]
    return (*statements, *_undecided(result))


def _cost(result: PositionsResult) -> Finding:
    """On a task that needs no order."""
    asked, most = result.options, result.options.max_length
    held = {
        kind: int((result.through.at(task=CONTAINS, kind=kind) == most).sum())
        for kind in (NONE, LEARNED, SINUSOIDAL)
    }
    first, last = (
        [result.share(CONTAINS, kind, length) for kind in (LEARNED, SINUSOIDAL)]
        for length in (asked.train_length + 1, most)
    )
    costs = [kind for kind in (LEARNED, SINUSOIDAL) if held[kind] < held[NONE]]
    opening = (
        f"{' and '.join(costs).capitalize()} positions cost"
        if costs
        else f"Up to {most} letters these positions do not cost"
    )
    return Finding.of(
        f"{opening} generalisation where order does not matter (“{CONTAINS}”). Trained on "
        f"strings of up to {asked.train_length} letters, {told_share(held[NONE], asked.seeds)} "
        f"seeds without positions get every string of up to {most} right, "
        f"{told_share(held[LEARNED], asked.seeds)} with learned positions and "
        f"{told_share(held[SINUSOIDAL], asked.seeds)} with sinusoidal ones. With learned positions "
        f"{first[0]:.2%} of all strings of {asked.train_length + 1} letters are wrong on average "
        f"over models, and {last[0]:.2%} of those of {most}; with sinusoidal ones {first[1]:.2%} "
        f"and {last[1]:.2%}.",
        {**{f"right with {kind}": held[kind] for kind in held}, "wrong, learned": last[0]},
        "warning" if costs else "note",
    )


def _possible(result: PositionsResult) -> Finding:
    asked = result.options
    numbers: dict[str, Cell] = {}
    by_kind = []
    for kind in (LEARNED, SINUSOIDAL):
        through = result.through.at(task=BEFORE, kind=kind)
        most = asked.max_length
        numbers |= {f"{kind}, best": int(through.max()), f"{kind}, worst": int(through.min())}
        by_kind.append(
            f"{_range(through)} letters with {kind} positions, where "
            f"{result.share(BEFORE, kind, most):.1%} of all strings of {most} letters are wrong"
        )
    return Finding.of(
        f"With positions a model can learn a task on order. Trained on “{BEFORE}” with up to "
        f"{asked.train_length} letters, models are right on every string up to "
        f"{'; '.join(by_kind)}.",
        numbers,
        "good",
    )


def _range(through: NDArray[np.float64]) -> str:
    low, high = int(through.min()), int(through.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _untrained(result: PositionsResult) -> Finding:
    """Why learned positions end where training ends."""
    moved, last = result.moved.array, result.options.train_length
    trained, never = moved[1 : last + 1], moved[last + 1 :]
    return Finding.of(
        f"Learned positions are trained only up to the longest training string: positions 1 "
        f"to {last} moved by {trained.mean():.3f} on average, later ones by {never.mean():.3f}, "
        "which is weight decay alone. So later positions still add their random initial values.",
        {"trained": float(trained.mean()), "never": float(never.mean())},
    )


def _reading(result: PositionsResult) -> Finding:
    """The head that gives most to the earlier letter, and what the trace shows of it."""
    last, h = result.options.train_length, result.order_head()
    scores = result.places.array[h, :2].mean(axis=0)
    strings = result.weights.labels["string"]
    ahead = int((leads(result.weights)[:, h] > 0).sum())
    weights = ", ".join(
        f"`{string}` {float(result.weights.at(string=string, head=h, letter=string[0])):.1%} "
        f"(logit {float(result.logits.at(string=string)):+.2f})"
        for string in strings[:2]
    )
    return Finding.of(
        f"How the model reads order ({result.traced}): head {h} scores `a` and `b` by their "
        f"position, {scores[0]:.2f} at the first, {scores[1]:.2f} at the second and "
        f"{scores[last - 1]:.2f} at position {last}. In {ahead} of {len(strings)} traced strings "
        f"it gives the earlier of the two more weight. Its weight on the first letter: {weights}.",
        {
            "first place": float(scores[0]),
            "last trained place": float(scores[last - 1]),
            "earlier ahead": ahead,
        },
    )


def _blind(result: PositionsResult) -> Finding:
    last = result.options.train_length
    bound = float(result.blind.at(length=last))
    best = {kind: result.share(BEFORE, kind, last) for kind in (LEARNED, SINUSOIDAL)}
    return Finding.of(
        "A model without positions cannot solve this task: it gives all orders of n_a a's and "
        f"n_b b's the same answer, so it is wrong on at least min(n_a, n_b) / (n_a + n_b) of them, "
        f"which is {bound:.1%} of all strings of {last} letters. With learned positions "
        f"{best[LEARNED]:.2%} are wrong, with sinusoidal ones {best[SINUSOIDAL]:.2%}.",
        {"blind": bound, **best},
    )


def _invariance(result: PositionsResult) -> Finding:
    without = float(result.swing.at(task=CONTAINS, kind=NONE).max())
    spread = {
        (task, kind): float(result.swing.at(task=task, kind=kind).mean())
        for task in (CONTAINS, BEFORE)
        for kind in (LEARNED, SINUSOIDAL)
    }
    return Finding.of(
        "Without positions all orders of `aabc` have the same logit (largest difference "
        f"{without:.0e}). With positions their logits differ by {spread[CONTAINS, LEARNED]:.2f} "
        f"(learned) and {spread[CONTAINS, SINUSOIDAL]:.2f} (sinusoidal) in a task that does not "
        f"depend on order, and by {spread[BEFORE, LEARNED]:.2f} and "
        f"{spread[BEFORE, SINUSOIDAL]:.2f} in one that does.",
        {"none": without, **{f"{k}, {t}": v for (t, k), v in spread.items()}},
    )


def _without(result: PositionsResult) -> Finding:
    horizons = result.horizons.array
    written = ", ".join("any length" if np.isinf(h) else f"{h:,.0f}" for h in horizons)
    return Finding.of(
        "A model without positions can be decided at all lengths at once. The exact horizons "
        f"of these models, trained on up to {result.options.train_length} letters: {written} "
        "letters.",
        {"longest": float(horizons.max()), "shortest": float(horizons.min())},
    )


def _undecided(result: PositionsResult) -> list[Finding]:
    most = float(np.nanmax(result.undecided.array))
    if not most:
        return []
    cells = int((np.nan_to_num(result.undecided.array) > 0).any(axis=-1).sum())
    return [
        Finding.of(
            f"In {cells} models the search's budget ({result.options.budget:g} estimated "
            f"seconds) left strings undecided, up to {most:.1%} of a length: their shares of wrong "
            "strings are lower bounds there. A larger `--budget` decides them.",
            {"models": cells, "largest share": most},
            "warning",
        )
    ]
