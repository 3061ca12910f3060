"""What the patterns probe found, in sentences."""

from __future__ import annotations

from tsc_interp.probes.patterns.result import HABITS, PatternsResult
from tsc_interp.probes.wording import capital
from tsc_interp.results.base import Finding

MOST_HEADS = 8


def findings(result: PatternsResult) -> tuple[Finding, ...]:
    heads = [(i, h, name, result.habit(i, h)) for i, h, name in result.heads]
    clear = [(name, habit) for i, h, name, habit in heads if habit and not result.uniform(i, h)]
    clear.sort(key=lambda one: -(one[1][1] - one[1][2]))
    even = [name for i, h, name in result.heads if result.uniform(i, h)]
    rest = len(heads) - len(clear) - len(even)
    statements = [
        Finding(
            severity="note",
            text=f"{capital(name)} attends to {HABITS[habit]}: {share:.0%} of its weight on "
            f"average, where equal weights would give {chance:.0%}.",
            numbers={"weight": share, "equal weights": chance},
        )
        for name, (habit, share, chance) in clear[:MOST_HEADS]
    ]
    if even:
        text = (
            f"{capital(_listed(even))} {'attends' if len(even) == 1 else 'attend'} to everything "
            "alike: the weights are equal to within 2% on average."
        )
        statements.append(Finding(severity="note", text=text, numbers={"uniform heads": len(even)}))
    if rest or not statements:
        text = (
            f"{rest} of {len(heads)} heads {'follows' if rest == 1 else 'follow'} no positional "
            "rule that explains half of the weight; the view shows each string's attention."
        )
        if result.habits is None:
            strongest = max(heads, key=lambda one: result.focus.array[one[0], one[1]])
            i, h, name, _ = strongest
            text = (
                f"{capital(name)} is the most selective of {len(heads)}: its weights are "
                f"{result.focus.array[i, h]:.0%} away from equal ones."
            )
        statements.append(Finding(severity="note", text=text, numbers={"heads": len(heads)}))
    return tuple(statements)


def _listed(names: list[str]) -> str:
    if len(names) > MOST_HEADS:
        return f"{', '.join(names[:MOST_HEADS])} and {len(names) - MOST_HEADS} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
