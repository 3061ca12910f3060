"""What the patterns probe found, in sentences."""

from __future__ import annotations

from tsc_interp.probes.patterns.result import HABITS, PatternsResult
from tsc_interp.probes.wording import capital, joined
from tsc_interp.results.base import Finding

MOST_HEADS = 8


def findings(result: PatternsResult) -> tuple[Finding, ...]:
    heads = [(i, h, name, result.habit(i, h)) for i, h, name in result.heads]
    clear = [(name, habit) for i, h, name, habit in heads if habit and not result.uniform(i, h)]
    clear.sort(key=lambda head: -(head[1][1] - head[1][2]))
    even = [name for i, h, name in result.heads if result.uniform(i, h)]
    rest = len(heads) - len(clear) - len(even)
    statements = [
        Finding.of(
            f"{capital(name)} attends to {HABITS[habit]}: {share:.0%} of its weight on "
            f"average, where equal weights would give {chance:.0%}.",
            {"weight": share, "equal weights": chance},
        )
        for name, (habit, share, chance) in clear[:MOST_HEADS]
    ]
    if even:
        more = [f"{len(even) - MOST_HEADS} more"] if len(even) > MOST_HEADS else []
        named = [*even[:MOST_HEADS], *more]
        text = (
            f"{capital(joined(named))} {'attends' if len(even) == 1 else 'attend'} to everything "
            "alike: the weights are equal to within 2% on average."
        )
        statements.append(Finding.of(text, {"uniform heads": len(even)}))
    if rest or not statements:
        text = (
            f"{rest} of {len(heads)} heads {'follows' if rest == 1 else 'follow'} no positional "
            "rule that explains half of the weight; the view shows each string's attention."
        )
        if result.habits is None:
            i, h, name, _ = max(heads, key=lambda head: result.focus.array[head[0], head[1]])
            text = (
                f"{capital(name)} is the most selective of {len(heads)}: its weights are "
                f"{result.focus.array[i, h]:.0%} away from equal ones."
            )
        statements.append(Finding.of(text, {"heads": len(heads)}))
    return tuple(statements)
