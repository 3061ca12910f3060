"""Can letters that should give a negative answer add up to a positive one? Chapter 3.

The false-positive cone check. For every set of letters with a negative label: the largest logit
over all mixtures of exactly these letters, with each head's actual attention weights,

    weight_t = n_t exp(s_t) / sum_i n_i exp(s_i),   n real, 1 to 10^9,

the mixture that reaches it, and the shortest real string that crosses zero. A crossing that needs
strings longer than `visible` letters is *latent*: a large score gap hides it from shorter tests.

The largest logit is searched for in float64 (`maximise` says how, and what it can miss); strings
are evaluated on the model itself (float32), all of them up to a stated length. For proofs instead
of searches, see `tsc-interp verify`. Only our classifier has labels to ask this about.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.base import Frozen, LabeledArray, ProbeResult, Table
from tsc_interp.probes.cone_words import findings
from tsc_interp.probes.families import logits_of
from tsc_interp.probes.maximise import Function, Maximum, maximise
from tsc_interp.probes.running import Floats, as_array, compact, need_classifier
from tsc_interp.strings import MAX_REPEAT

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig

ALL_SETS_UP_TO = 6
"""Letters; a larger alphabet is asked about its largest negative sets, which contain the others."""
BUDGET = 110_000
"""Count vectors evaluated one by one for the shortest strings, over all sets together."""
MOST_PER_SET = 22_000
VISIBLE = 200
"""The longest strings in the report's test set."""
RATIOS = np.round(np.linspace(-9, 9, 361), 6)
"""Where the curves of two letters are drawn: log10 of second per first."""


class LetterSet(Frozen):
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


class GivenString(Frozen):
    """A given negative string of two letters: a point on its curve."""

    string: str
    letters: str
    log_ratio: float
    logit: float


class ConeResult(ProbeResult):
    probe: ClassVar[str] = "cone"

    sets: tuple[LetterSet, ...]
    curves: LabeledArray | None = None
    """`[set ratio]`: logits of two-letter sets against log10(second / first)."""
    strings: tuple[GivenString, ...] = ()

    def tables(self) -> tuple[Table, ...]:
        if not self.sets:
            return ()
        rows = tuple(
            (s.letters, s.max_logit, write_ratio(s), s.crosses, s.latent, s.shortest, s.length,
             s.searched_to) for s in self.sets
        )  # fmt: skip
        columns = ("letters", "largest logit", "mixture", "crosses", "latent", "shortest string",
                   "length", "all strings to length")  # fmt: skip
        return (Table(title="Sets of letters with a negative label", columns=columns, rows=rows),)


def run(model: Any, strings: Sequence[str], *, visible: int = VISIBLE) -> ConeResult:
    """`visible` is the length up to which a test would see an error; beyond it is latent."""
    config = need_classifier(model, "cone")
    if config.has_positions:
        raise UnsupportedError(
            "this model has positions, so a mixture of letters does not determine its logit"
        )
    negative, undecided = negative_sets(config)
    budget = min(MOST_PER_SET, BUDGET // max(1, len(negative)))
    sets = tuple(_examine(model, config, letters, visible, budget) for letters in negative)
    pairs = [letters for letters in negative if len(letters) == 2]
    notes = []
    if undecided:
        notes.append(
            f"{undecided} sets of letters have no label of their own ({config.task.describe()} "
            "depends on how often letters occur), so they are not asked about"
        )
    if config.n_letters > ALL_SETS_UP_TO:
        notes.append("only the largest negative sets are asked about: their mixtures contain "
                     "those of all smaller ones")  # fmt: skip
    return ConeResult(
        findings=findings(config, sets),
        not_applicable=tuple(notes),
        sets=sets,
        curves=LabeledArray.of(
            np.stack([_curve(model, config, letters) for letters in pairs]),
            set=pairs,
            ratio=RATIOS.tolist(),
        )
        if pairs
        else None,
        strings=_given(model, config, strings, set(pairs)),
    )


def negative_sets(config: ClassifierConfig) -> tuple[list[str], int]:
    """Sets of letters all of whose strings are negative, and how many sets have no one label."""
    letters, task = config.alphabet.letters, config.task
    if config.n_letters <= ALL_SETS_UP_TO:
        sets = [
            "".join(some) for k in range(1, len(letters) + 1) for some in combinations(letters, k)
        ]
    else:
        # A rule looks at the letters it names; with all others present the sets are largest.
        named = [some for k in range(len(task.needs) + 1) for some in combinations(task.needs, k)]
        others = set(letters) - set(task.needs)
        sets = ["".join(sorted(others | set(some))) for some in named if others or some]
    labels = {some: task.label_of_support(frozenset(some)) for some in sets}
    negative = [some for some in sets if labels[some] is False]
    if config.n_letters > ALL_SETS_UP_TO:
        negative = [s for s in negative if not any(set(s) < set(other) for other in negative)]
    return negative, sum(label is None for label in labels.values())


# -- one set ---------------------------------------------------------------------------------


def _examine(
    model: Any, config: ClassifierConfig, letters: str, visible: int, budget: int
) -> LetterSet:
    ratios_only = not config.attend_cls and config.score_scale == "sqrt_d_head"
    found = maximise(_logits64(model, config, letters), len(letters), ratios_only=ratios_only)
    counts, searched_to = _all_counts(len(letters), ratios_only, budget)
    shortest = _first_positive(model, config, letters, counts)
    if shortest is None and found.value > 0:
        shortest = _shrink(model, config, letters, found)
    return LetterSet(
        letters=letters,
        max_logit=found.value,
        mixture=tuple(found.counts.tolist()),
        dense=found.dense,
        shortest=None if shortest is None else _write(config, letters, shortest),
        length=None if shortest is None else int(shortest.sum()),
        searched_to=searched_to,
        visible=visible,
    )


def _logits64(model: Any, config: ClassifierConfig, letters: str) -> Function:
    """The same forward pass in float64, for real counts of these letters."""
    import torch

    from tsc_interp.model.forward import forward

    weights = {name: weight.detach().double() for name, weight in model.named_parameters()}

    def logits(counts: Floats) -> Floats:
        with torch.no_grad():
            given = compact(config, _full(config, letters, counts))
            return as_array(forward(config, weights, given))

    return logits


def _full(config: ClassifierConfig, letters: str, counts: Floats) -> Floats:
    """Counts of these letters as counts of the whole alphabet, along the last axis."""
    full = np.zeros((*counts.shape[:-1], config.n_letters))
    full[..., [config.alphabet.index(letter) for letter in letters]] = counts
    return full


def _write(config: ClassifierConfig, letters: str, counts: Floats) -> str:
    return config.alphabet.write(_full(config, letters, counts).astype(np.int64))


def _all_counts(letters: int, ratios_only: bool, budget: int) -> tuple[Floats, int]:
    """Every count vector (each letter at least once) up to the longest length that fits the budget.

    Shortest first. One letter alone, where only ratios matter, is one string at every length.
    """
    if letters == 1:
        longest = budget if not ratios_only else 1
        return np.arange(1.0, longest + 1)[:, None], MAX_REPEAT if ratios_only else longest
    longest = letters
    while comb(longest + 1, letters) <= budget:
        longest += 1
    # Bars and stars: counts are the gaps between increasing partial sums.
    sums = np.array(list(combinations(range(1, longest + 1), letters)))
    counts = np.diff(sums, axis=1, prepend=0).astype(np.float64)
    return counts[np.argsort(counts.sum(axis=1), kind="stable")], longest


def _first_positive(
    model: Any, config: ClassifierConfig, letters: str, counts: Floats
) -> Floats | None:
    hits = np.flatnonzero(logits_of(model, _full(config, letters, counts)) > 0)
    return counts[hits[0]] if len(hits) else None


def _shrink(model: Any, config: ClassifierConfig, letters: str, found: Maximum) -> Floats | None:
    """A crossing string longer than all those evaluated: rounded mixtures, then made shorter."""
    mixtures = np.concatenate([found.counts[None] * k for k in range(1, 65)] + [found.seen])
    counts = np.unique(np.clip(mixtures.round(), 1, MAX_REPEAT), axis=0)
    counts = counts[np.argsort(counts.sum(axis=1), kind="stable")]
    best = _first_positive(model, config, letters, counts)
    if best is None:
        return None
    step = 2.0 ** int(np.log2(best.max()))
    while step >= 1:
        shorter = best - step * np.eye(len(letters))
        shorter = shorter[(shorter >= 1).all(axis=1)]
        better = _first_positive(model, config, letters, shorter) if len(shorter) else None
        if better is None:
            step /= 2
        else:
            best = better
    return best


# -- curves ----------------------------------------------------------------------------------


def _curve(model: Any, config: ClassifierConfig, letters: str) -> Floats:
    """Logits along a two-letter set, the rarer letter occurring once."""
    counts = np.stack([10 ** np.maximum(-RATIOS, 0), 10 ** np.maximum(RATIOS, 0)], axis=1)
    return _logits64(model, config, letters)(counts)


def _given(
    model: Any, config: ClassifierConfig, strings: Sequence[str], pairs: set[str]
) -> tuple[GivenString, ...]:
    points = {}
    for string in strings:
        counts = config.alphabet.counts(string)
        present = np.flatnonzero(counts)
        letters = "".join(config.alphabet.letters[i] for i in present)
        if letters in pairs:
            first, second = counts[present].tolist()
            points[config.alphabet.canonical(string)] = (letters, float(np.log10(second / first)))
    if not points:
        return ()
    logits = logits_of(model, config.alphabet.count_matrix(points).astype(np.float64))
    return tuple(
        GivenString(string=string, letters=letters, log_ratio=ratio, logit=float(logit))
        for (string, (letters, ratio)), logit in zip(points.items(), logits, strict=True)
    )


def write_ratio(letter_set: LetterSet) -> str:
    """`1 b : 80.3 c`."""
    counts = zip(letter_set.mixture, letter_set.letters, strict=True)
    return " : ".join(f"{count:,.4g} {letter}" if count < 1e6 else f"{count:.3g} {letter}"
                      for count, letter in counts)  # fmt: skip
