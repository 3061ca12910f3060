"""What the cone probe measures: how near each negative set of letters comes to a yes."""

from __future__ import annotations

from typing import ClassVar

from tsc_interp.results.base import LabeledArray, ProbeResult, Record, Table


class NegativeSet(Record):
    """One set of letters whose strings are negative."""

    letters: str
    max_logit: float
    """Over all real mixtures."""
    mixture: tuple[float, ...]
    """Counts of these letters there, the rarest being 1 where only ratios matter."""
    dense: bool
    """Whether a grid covered all mixtures (else many starts did)."""
    shortest: str | None
    """The shortest string found that crosses."""
    length: int | None
    searched_to: int
    """All strings of these letters up to this length were evaluated."""
    visible: int

    @property
    def crosses(self) -> bool:
        return self.max_logit > 0

    @property
    def latent(self) -> bool:
        """A crossing that shorter strings do not show."""
        return self.crosses and (self.length is None or self.length > self.visible)

    @property
    def shares(self) -> tuple[float, ...]:
        total = sum(self.mixture)
        return tuple(count / total for count in self.mixture)

    def written_mixture(self) -> str:
        """`1 b : 80.3 c`. Where CLS is attended to, the counts matter and not only their ratio."""
        counts = [f"{count:.4g}" if count < 1e4 else f"{count:,.0f}" for count in self.mixture]
        return " : ".join(map(" ".join, zip(counts, self.letters, strict=True)))


class GivenString(Record):
    """A given negative string of two letters: a point on its curve."""

    string: str
    letters: str
    log_ratio: float
    logit: float


class ConeResult(ProbeResult):
    probe: ClassVar[str] = "cone"

    sets: tuple[NegativeSet, ...]
    curves: LabeledArray | None = None
    """`[set ratio]`: logits of two-letter sets against log10(second / first)."""
    strings: tuple[GivenString, ...] = ()

    def tables(self) -> tuple[Table, ...]:
        if not self.sets:
            return ()
        rows = tuple(
            (s.letters, s.max_logit, s.written_mixture(), s.crosses, s.latent, s.shortest, s.length,
             s.searched_to) for s in self.sets
        )  # fmt: skip
        columns = ("letters", "largest logit", "mixture", "crosses", "latent", "shortest string",
                   "length", "all strings to length")  # fmt: skip
        return (Table.from_rows("Sets of letters with a negative label", columns, rows),)
