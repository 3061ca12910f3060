"""A rate of wrong answers with its interval."""

from __future__ import annotations

from tsc_interp.output.display import Displayed
from tsc_interp.results.arrays import Record
from tsc_interp.results.intervals import share_interval, told_share


class Rate(Displayed, Record):
    """The share of wrong answers among random inputs, with Clopper and Pearson's 95 % interval.

    Example:
        >>> Rate(of="all inputs", wrong=3, tried=1000)
        <Rate: all inputs, 3 of 1,000 (0.30%, 95% CI 0.06% to 0.87%)>
    """

    of: str
    """Of which inputs."""
    wrong: int
    tried: int

    @property
    def share(self) -> float:
        """Wrong answers per input tried; NaN where none was."""
        return self.wrong / self.tried if self.tried else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The interval's ends."""
        low, high = share_interval(self.wrong, self.tried)
        return low, high

    def __float__(self) -> float:
        return self.share

    def _facts(self) -> list[str]:
        return [self.of, told_share(self.wrong, self.tried, digits=2)]
