"""Pictures of automata for the how-to on tasks."""

from typing import Any

import tsc_interp as tsc
from tsc_interp.report.automata import automaton_picture


def step(depth: Any, letter: str) -> Any:
    """Brackets a and b, at most two deep; c changes nothing."""
    if depth == "lost":
        return "lost"
    following = depth + {"a": 1, "b": -1, "c": 0}[letter]
    return following if 0 <= following <= 2 else "lost"


brackets = tsc.tasks.Automaton(
    start=0, letters="abc", step=step, label=lambda depth: depth == 0, name="balanced brackets"
)
classes = ("no", "yes")

# --8<-- [start:brackets]
print(automaton_picture(brackets, 3, classes=classes))
# --8<-- [end:brackets]

# --8<-- [start:before]
print(automaton_picture(tsc.tasks.Before(), 3, classes=classes))
# --8<-- [end:before]
