"""Can letters that should give a no add up to a yes, and which strings go wrong first? Chapter 3.

The false-positive cone check, answered by branch and bound. A string's logit depends on its letter
counts n alone: each head's weight for letter t is

    weight_t = n_t exp(s_t) / sum_i n_i exp(s_i)

For every set of letters, the search finds the shortest string of exactly these letters that is
wrong, or proves that there is none up to a length, or at any length (`tsc_interp.verification`;
claims about real numbers). A false positive longer than `visible` letters is *latent*: a large
score gap hides it from shorter tests. The largest logit of a negative set is evaluated in float64
on a logarithmic grid of mixtures with 1 to 10^9 of each letter, so a larger one may lie in between.

It uses no hooks: it reads the weights. Only our classifier has labels to ask this about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Floats, Inputs, need_classifier
from tsc_interp.probes.probe import probe
from tsc_interp.probes.wording import joined, n_letters, occurrences
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult, Record, Severity
from tsc_interp.results.views import Bars, Lines, Rows, shown
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.strings import MAX_REPEAT

if TYPE_CHECKING:
    from tsc_interp.verification.count_model import CountModel

MOST_LETTERS = 5
"""Of a larger alphabet only the largest negative sets are searched."""
MOST_PAIRS = 6
RATIOS = np.round(np.linspace(-7, 7, 281), 6)
"""Where the curves of two letters are drawn: log10 of second per first."""
_GRID = 5_000


class LetterSet(Record):
    """The strings over exactly these letters."""

    letters: str
    label: int | None
    """What all of them should be answered, if it is one answer."""
    first_error: str | None
    """The shortest that is wrong."""
    length: int | None
    logit: float | None
    verified_length: int
    """Proved right up to this length."""
    always_right: bool
    """Proved right at every length."""
    largest_logit: float | None = None
    """Of a negative set: on a grid of mixtures, or of its first error."""

    @property
    def kind(self) -> str | None:
        """What its first error is, if it has one."""
        if self.logit is None:
            return None
        return "false positive" if self.logit > 0 else "false negative"

    @property
    def named(self) -> str:
        """The letters in words."""
        return joined([f"`{letter}`" for letter in self.letters])


class ConeResult(ProbeResult):
    probe: ClassVar[str] = "cone"

    letters: str
    visible: int
    """The length up to which a test would see an error."""
    horizon: int | None
    verified_length: int
    infinite: bool
    sets: Annotated[tuple[LetterSet, ...], Rows("The first error of every set of letters")]
    curves: LabeledArray | None = None
    """`[pair ratio]`: logits of two-letter strings against log10(second / first)."""

    @shown(
        Bars(
            "How near each negative set of letters comes to a yes",
            "Strings of only these letters should all be answered no. The bar is the largest logit "
            "found among their mixtures; a hatched bar right of zero means false positives.",
            name="largest-logits", x="largest logit of any mixture", wrong=True, table=False,
            form=".4f",
        )
    )  # fmt: skip
    def near(self) -> LabeledArray:
        """`[set]`: the largest logit of each negative set, the largest first."""
        known = {one.letters: one.largest_logit for one in self.sets}
        found = {letters: logit for letters, logit in known.items() if logit is not None}
        order = sorted(found, key=lambda letters: -found[letters])
        names = [f"only {', '.join(letters)}" for letters in order]
        return LabeledArray.of([found[letters] for letters in order], set=names)

    @shown(
        Lines(
            "Every mixture of two letters",
            "From almost only the first letter (left) to almost only the second (right). Above 0 "
            "the answer is yes, so a curve of letters that should give a no must stay below.",
            x="log10 of second per first", y="logit", marks=False,
            form=".4g", table=False,
        )
    )  # fmt: skip
    def mixtures(self) -> LabeledArray | None:
        return self.curves

    def shortest_of(self, kind: str | None) -> LetterSet | None:
        """The set with the shortest error of a kind; of several as long, the alphabet's first."""

        def order(one: LetterSet) -> tuple[int, tuple[int, ...]]:
            counts = occurrences(one.first_error or "")
            return one.length or 0, tuple(-counts.get(letter, 0) for letter in self.letters)

        failing = [one for one in self.sets if one.first_error and kind in (None, one.kind)]
        return min(failing, key=order, default=None)

    # -- what was found ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        negative = [one for one in self.sets if one.label == 0]
        failing = [one for one in negative if one.first_error]
        if not negative:
            yield Finding.of("No set of letters is negative by itself.")
        for one in failing:
            if not self._explained(one, failing):
                yield self._false_positive(one)
        quiet = sorted(
            (one for one in negative if not one.first_error),
            key=lambda one: -(one.largest_logit or 0.0),
        )
        if quiet:
            yield self._quiet(quiet, everything=len(quiet) == len(negative))
        yield from self._false_negatives()

    def _explained(self, one: LetterSet, failing: Sequence[LetterSet]) -> bool:
        """Whether a smaller set fails with a string as short."""
        return any(
            set(other.letters) < set(one.letters) and (other.length or 0) <= (one.length or 0)
            for other in failing
        )

    def _severity(self, one: LetterSet) -> Severity:
        return "failure" if (one.length or 0) <= self.visible else "warning"

    def _false_positive(self, one: LetterSet) -> Finding:
        s, shorter = "s" * (one.length != 1), one.verified_length == (one.length or 0) - 1
        hidden = (
            f" Test strings of up to {self.visible} letters do not reveal it."
            if self._severity(one) == "warning"
            else ""
        )
        return Finding.of(
            f"Strings of {one.named} alone can be false positives: the shortest"
            f"{'' if shorter else ' found'} is `{one.first_error}` ({one.length:,} letter{s}, "
            f"logit {one.logit:+.4f}), and logits reach {one.largest_logit:+.4f}.{hidden}",
            {"length": one.length, "logit": one.logit, "largest logit": one.largest_logit},
            self._severity(one),
            string=one.first_error or "",
        )

    def _quiet(self, sets: Sequence[LetterSet], everything: bool) -> Finding:
        """The sets without a false positive, the closest to one first."""
        least = min(one.verified_length for one in sets)
        proved = all(one.always_right for one in sets)
        how_long = "at any length" if proved else f"of up to {least:,} letters"
        shown = ", ".join(f"{one.named} {one.largest_logit:+.4f}" for one in sets[:4])
        more = f" and {len(sets) - 4} more below" if len(sets) > 4 else ""
        which = "of letters that should give a no" if everything else "of the other negative sets"
        return Finding.of(
            f"No string {which} is a false positive {how_long}: proved. The largest logits found: "
            f"{shown}{more}.",
            {one.letters: one.largest_logit for one in sets[:4]},
            "good",
        )

    def _false_negatives(self) -> Iterator[Finding]:
        failing = [one for one in self.sets if one.kind == "false negative"]
        if not failing:
            return
        shortest = min(failing, key=lambda one: one.length or 0)
        listed = ", ".join(f"`{one.first_error}`" for one in failing[:4])
        more = f" and {len(failing) - 4} more sets" if len(failing) > 4 else ""
        yield Finding.of(
            f"The shortest false negatives, one for each set of letters: {listed}{more}.",
            {"sets": len(failing), "length": shortest.length},
            self._severity(shortest),
            string=tuple(one.first_error or "" for one in failing),
        )


# -- what is computed ------------------------------------------------------------------------------


@probe(
    ConeResult,
    title="Can a no turn into a yes?",
    question="Can letters that should give a no add up to a yes, and which strings go wrong first?",
    chapter="3",
    why_not="it asks whether letters that call for a no can add up to a yes, and no task is known; "
    "for a model that can be imported, tsc.from_transformer_lens(model, task=...) names one",
)
def cone(inputs: Inputs, *, visible: int = TEST_LENGTH, boxes: int | None = None) -> ConeResult:
    """`boxes` are examined at most for each set of letters."""
    from tsc_interp.probes.searched import BUDGET, searched
    from tsc_interp.verification.count_model import CountModel, checkpoint_of
    from tsc_interp.verification.summaries import DEFAULT_LIMIT

    config = need_classifier(inputs.model, "cone")
    if config.needs_order:
        raise UnsupportedError(
            "this model sees order, so a mixture of letters does not determine its logit"
        )
    checkpoint = checkpoint_of(inputs.model)
    counted, boxes = CountModel(checkpoint), BUDGET if boxes is None else boxes
    if config.n_letters > MOST_LETTERS:
        return ConeResult(
            not_applicable=(
                "of an alphabet this large only the largest negative sets are searched, and "
                "tsc-interp verify --horizon takes the time that the others need",
            ),
            letters=config.alphabet.letters, visible=visible, horizon=None, verified_length=0,
            infinite=False, sets=tuple(_large_sets(counted, boxes, DEFAULT_LIMIT)),
        )  # fmt: skip
    certificate = searched(checkpoint, boxes).certificate
    known = certificate.horizon
    always = {key for key, end in certificate.checked.verified_length.items() if end is None}
    sets = []
    for one in known.by_letters:
        string, logit = (one.shortest.string, one.shortest.logit) if one.shortest else (None, None)
        sets.append(
            LetterSet(
                letters=one.letters, label=one.label, first_error=string,
                length=n_letters(string) if string else None, logit=logit,
                verified_length=one.verified_length,
                always_right=one.letters in always and string is None,
                largest_logit=_largest(counted, one.letters, logit) if one.label == 0 else None,
            )
        )  # fmt: skip
    return ConeResult(
        letters=config.alphabet.letters,
        visible=visible,
        horizon=known.length,
        verified_length=known.verified_length,
        infinite=known.infinite,
        sets=tuple(sets),
        curves=_curves(config, counted),
    )


def _large_sets(model: CountModel, boxes: int, limit: int) -> Iterator[LetterSet]:
    """Of a large alphabet: the negative sets that are part of no other."""
    from tsc_interp.verification.search.search import search_support

    for letters in largest_negative_sets(model.config):
        alphabet = model.config.alphabet
        places = tuple(alphabet.index(letter) for letter in letters)
        found = search_support(model, places, limit, boxes // 10)
        counts = found.counterexample
        string, logit = None, None
        if counts is not None:
            full = np.zeros(alphabet.size, dtype=np.int64)
            full[list(places)] = counts
            string, logit = alphabet.write(full), float(model.guess.logits(places, _row(counts))[0])
        yield LetterSet(
            letters=letters, label=0, first_error=string, logit=logit, always_right=False,
            length=None if counts is None else sum(counts), verified_length=found.verified_length,
            largest_logit=_largest(model, letters, logit),
        )  # fmt: skip


def largest_negative_sets(config: ClassifierConfig) -> list[str]:
    """With all letters that the task does not name, and all of those it names that leave a no."""
    task, letters = config.task, config.alphabet.letters
    named = [own for k in range(len(task.needs) + 1) for own in combinations(task.needs, k)]
    others = set(letters) - set(task.needs)
    sets = ["".join(sorted(others | set(own))) for own in named if others or own]
    negative = [one for one in sets if task.label_of_support(frozenset(one)) is False]
    return [one for one in negative if not any(set(one) < set(other) for other in negative)]


def _largest(model: CountModel, letters: str, first_error: float | None) -> float:
    """The largest logit on a grid of counts of these letters."""
    places = tuple(model.config.alphabet.index(letter) for letter in letters)
    side = np.logspace(0, np.log10(MAX_REPEAT), max(3, round(_GRID ** (1 / len(places)))))
    if len(places) > 7:  # three values each would be too many
        grid = 10 ** np.random.default_rng(0).uniform(0, 9, (_GRID, len(places)))
    else:
        grid = np.array(list(product(side, repeat=len(places))))
    top = float(model.guess.logits(places, grid).max())
    return top if first_error is None else max(top, first_error)


def _curves(config: ClassifierConfig, model: CountModel) -> LabeledArray | None:
    """Logits of two-letter strings: where false positives live."""
    pairs = list(combinations(range(config.n_letters), 2))[:MOST_PAIRS]
    counts = 10 ** np.stack([np.maximum(-RATIOS, 0), np.maximum(RATIOS, 0)], axis=1)
    logits = [np.round(model.guess.logits(pair, counts), 5) for pair in pairs]
    names = [" and ".join(config.alphabet.letters[i] for i in pair) for pair in pairs]
    return LabeledArray.of(logits, pair=names, ratio=RATIOS.tolist()) if pairs else None


def _row(counts: Sequence[int]) -> Floats:
    return np.array([counts], dtype=np.float64)
