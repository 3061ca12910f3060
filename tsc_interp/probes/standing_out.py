"""Which heads can be spoken of, and how many would stand out by chance, in words."""

from __future__ import annotations

import numpy as np

from tsc_interp.results.base import Cell, Finding, HeadsResult

MOST_HEADS = 8
"""Heads of a model without a task that get a sentence each."""


def heads_to_tell(result: HeadsResult, most: int = MOST_HEADS) -> list[tuple[int, int]]:
    """`(layer, head)` places that stand out, the largest lead first."""
    if result.lead is None:
        return []
    lead = result.lead.array
    places = [at for at in np.ndindex(lead.shape) if result.stands_out(*at)]
    return sorted(places, key=lambda at: -float(lead[at]))[:most]


def against_chance(result: HeadsResult) -> Finding:
    """How many heads are further ahead than shuffled ones, and of how many nothing is said."""
    assert result.lead is not None
    places = list(np.ndindex(result.lead.shape))
    ahead = [at for at in places if result.ahead(*at)]
    sure = [at for at in ahead if result.stands_out(*at)]
    chance = result.chance or ()
    expected = len(places) / (len(chance) + 1)
    text = (
        f"{_count(len(sure), len(places))} a token more clearly than chance: its highest score "
        f"leads the next by more than in any of {len(chance)} heads with shuffled weights "
        f"({max(chance, default=0.0):.2f}). By chance about {expected:.1f} would."
    )
    unsure = len(ahead) - len(sure)
    if unsure:
        them = "head is" if unsure == 1 else "heads are"
        text += (
            f" {unsure} more {them} as far ahead on average, but the score of one token varies "
            "by more than that from position to position."
        )
    if len(sure) < len(places):
        text += " The others are not described."
    numbers: dict[str, Cell] = {
        "heads": len(places),
        "standing out": len(sure),
        "varying too much": unsure,
        "shuffled heads": len(chance),
    }
    return Finding(severity="note", text=text, numbers=numbers)


def _count(count: int, of: int) -> str:
    if count == 0:
        return f"None of the {of} heads reads"
    return f"{count} of {of} heads {'reads' if count == 1 else 'read'}"
