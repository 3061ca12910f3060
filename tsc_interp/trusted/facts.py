"""What was shown of count vectors, set of letters by set of letters, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tsc_interp.trusted.errors import require
from tsc_interp.trusted.language import Rule, Support


@dataclass
class Facts:
    """Of one proof.

    up_to, float_up_to: the length up to which strings over a support are right, in float32 too
    beyond: the length from which they are
    always: the supports whose strings are right at every length
    failures: single inputs that are wrong (or answered apart), and whether in float32 too
    limits: what all attention on one letter gives
    """

    n_letters: int
    rule: Rule | None
    form: str | None
    up_to: dict[Support, int] = field(default_factory=dict)
    float_up_to: dict[Support, int] = field(default_factory=dict)
    beyond: dict[Support, int] = field(default_factory=dict)
    always: set[Support] = field(default_factory=set)
    failures: dict[tuple[int, ...], bool] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)

    def conclusion(self) -> dict[str, Any]:
        """What follows.

        verified_length: per support, the length up to which it holds; null is every length
        horizon: the largest length up to which all holds, if the next has a failure that was shown
        finite: some length has a failure, shown or by the argument of limits
        """
        supports = [
            support
            for size in range(1, self.n_letters + 1)
            for support in combinations(range(self.n_letters), size)
        ]
        through = {support: self._through(support) for support in supports}
        for counts in self.failures:
            support = tuple(i for i, n in enumerate(counts) if n)
            end = through[support]
            require(end is not None and end < sum(counts), f"{counts} is claimed to hold and fail")
        ends = [end for end in through.values() if end is not None]
        finite = bool(self.failures) or self._limited(supports)
        require(bool(ends) or not finite, "the parts contradict each other")
        first = min(map(sum, self.failures), default=None)
        horizon = min(ends) if ends and min(ends) + 1 == first else None
        stated: dict[str, Any] = {
            "verified_length": [[list(support), end] for support, end in through.items()],
            "failures": sorted([list(counts) for counts in self.failures], key=_order),
            "horizon": horizon,
            "infinite": not ends,
            "finite": finite,
        }
        if self.form is not None:
            sure = [max(self.float_up_to.get(s, 0), len(s) - 1) for s in supports]
            failing = [list(counts) for counts, float32 in self.failures.items() if float32]
            stated["float32"] = {
                "verified_length": min(sure),
                "failures": sorted(failing, key=_order),
            }
        return stated

    def _through(self, support: Support) -> int | None:
        """Shorter strings than letters there are none; a tail must begin where a proof ends."""
        start = self.beyond.get(support)
        known = max(self.up_to.get(support, 0), len(support) - 1)
        joined = start is not None and known >= start - 1
        return None if support in self.always or joined else known

    def _limited(self, supports: Sequence[Support]) -> bool:
        """Whether x^n and longer strings with ever more x, of another label, share a limit."""
        if self.rule is None:
            return False
        for letter in self.limits:
            own = self.rule.of_support((letter,))
            for support in supports:
                other = self.rule.of_support(support) if letter in support else None
                if None not in (own, other) and own != other:
                    return True
        return False


def _order(counts: Sequence[int]) -> tuple[int, list[int]]:
    """Shorter first, then in the order of the alphabet."""
    return sum(counts), [-n for n in counts]
