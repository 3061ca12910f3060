"""Which strings does the model get wrong, over all lengths at once? The failure atlas.

A string's logit depends on its letter counts n alone, and without CLS in attention only on their
ratios: f(k n) = f(n). So one triangle with three letters as corners shows the answer to every
string: it is the failure map that every page opens with (`tsc_interp.playground.failure_map`). This
probe evaluates the strings of two letters along its edges in float64.

For any alphabet, the probe also finds the first error of every set of letters by branch and bound,
and says whether the set is proved right at every length (`tsc_interp.verification`; claims about
real numbers). It uses no hooks: it reads the weights. Chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.atlas.result import PAIR_POINTS, AtlasResult, LetterSet, Marked, pair_counts
from tsc_interp.probes.inputs import need_classifier
from tsc_interp.probes.searched import BUDGET, searched
from tsc_interp.results.base import LabeledArray
from tsc_interp.strings import Counts
from tsc_interp.verification.bounds.exact import checkpoint_of
from tsc_interp.verification.bounds.labels import labels_of
from tsc_interp.verification.bounds.supports import Supports
from tsc_interp.verification.certificates import Certificate, certify_searches
from tsc_interp.verification.horizon_result import SupportHorizon
from tsc_interp.verification.summaries import DEFAULT_LIMIT

MOST_LETTERS = 5


def run(model: Any, strings: Sequence[str], *, budget: int = BUDGET) -> AtlasResult:
    """Search every set of letters with at most `budget` boxes; evaluate `strings`, too."""
    config = need_classifier(model, "atlas")
    if config.n_letters > MOST_LETTERS:
        raise UnsupportedError(
            f"an atlas covers up to {MOST_LETTERS} letters, this model has {config.n_letters}; "
            f"tsc-interp verify --horizon takes the time it needs"
        )
    checkpoint = checkpoint_of(model)
    supports = Supports(checkpoint)
    certificate = certify_searches(*searched(checkpoint, budget), DEFAULT_LIMIT)
    known = certificate.horizon
    sets = tuple(_letter_set(support, certificate) for support in known.by_letters)
    marked = _marked(config, supports, known.by_letters, strings)
    # Far enough for every marked string of two letters, and at least a thousand to one.
    present = [[count for count in string.counts if count] for string in marked]
    ratios = [max(counts) / min(counts) for counts in present if len(counts) == 2]
    pair_reach = int(np.clip(np.ceil(np.log10(max([1, *ratios])) + 0.5), 3, 7))
    maps: dict[str, Any] = pair_curves(config, supports, pair_reach)
    return AtlasResult(
        task=config.question,
        letters=config.alphabet.letters,
        length_matters=length_matters(config),
        horizon=known.length,
        verified_length=known.verified_length,
        infinite=known.infinite,
        limit=known.limit,
        sets=sets,
        pair_reach=pair_reach,
        marked=marked,
        **maps,
    )


def _letter_set(support: SupportHorizon, certificate: Certificate) -> LetterSet:
    always = {
        claim["letters"]
        for claim in certificate.document["claims"]
        if claim["kind"] in ("right_at_all_lengths", "right_beyond")
    }
    first = support.shortest
    return LetterSet(
        letters=support.letters,
        label=support.label,
        first_error=first.string if first else None,
        length=first.length if first else None,
        logit=first.logit if first else None,
        verified_length=support.verified_length,
        always_right=support.letters in always and first is None,
    )


def _marked(
    config: ClassifierConfig,
    supports: Supports,
    known: Sequence[SupportHorizon],
    strings: Sequence[str],
) -> tuple[Marked, ...]:
    first = {support.shortest.string for support in known if support.shortest is not None}
    given = {config.alphabet.write(config.alphabet.counts(string)) for string in strings}
    marked = []
    for string in sorted(first | given):
        counts = config.alphabet.counts(string)[None]
        logits, wrong = evaluate(config, supports, counts)
        marked.append(
            Marked(
                string=string,
                counts=tuple(counts[0].tolist()),
                logit=float(logits[0]),
                wrong=bool(wrong[0]),
                given=string not in first,
            )
        )
    return tuple(marked)


# -- strings of two letters: real ones (`result` says which), evaluated in float64 -----------------


MOST_PAIRS = 6


def length_matters(config: ClassifierConfig) -> bool:
    return config.attend_cls or config.log_n


def evaluate(
    config: ClassifierConfig, supports: Supports, counts: Counts
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Logits of count vectors that all have the same letters, and which of them are wrong."""
    support = tuple(np.flatnonzero(counts[0]).tolist())
    own = counts[:, list(support)]
    logits, _ = supports[support].logits(own.astype(np.float64))
    return logits, np.asarray((logits > 0) != labels_of(config, support, own))


def pair_curves(
    config: ClassifierConfig, supports: Supports, reach: int
) -> dict[str, LabeledArray]:
    """Two-letter strings: the edges of the failure map, where false positives live."""
    pairs = list(combinations(range(config.n_letters), 2))[:MOST_PAIRS]
    if not pairs:
        return {}
    counts, logits, wrong = pair_counts(reach), [], []
    for pair in pairs:
        full = np.zeros((len(counts), config.n_letters), dtype=np.int64)
        full[:, list(pair)] = counts
        here, bad = evaluate(config, supports, full)
        logits.append(here)
        wrong.append(bad)
    names = ["".join(config.alphabet.letters[i] for i in pair) for pair in pairs]
    axes = {"pair": names, "ratio": range(PAIR_POINTS)}
    return {
        "pairs": LabeledArray.of(_short(np.stack(logits)), **axes),
        "pairs_wrong": LabeledArray.of(np.stack(wrong).astype(np.float64), **axes),
    }


def _short(values: NDArray[np.float64]) -> NDArray[Any]:
    """Six digits are plenty to draw, and keep the file small."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 10.0 ** (5 - np.floor(np.log10(np.abs(values))))
        return np.where(values == 0, 0.0, np.rint(values * digits) / digits)
