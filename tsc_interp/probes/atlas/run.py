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
from typing import Any

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.atlas.maps import evaluate, length_matters, pair_curves
from tsc_interp.probes.atlas.result import AtlasResult, LetterSet, Marked
from tsc_interp.probes.atlas.words import findings
from tsc_interp.probes.running import need_classifier
from tsc_interp.probes.searched import BUDGET, searched
from tsc_interp.verification.bounds.exact import checkpoint_of
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
    pair_reach = _reach(marked)
    maps: dict[str, Any] = pair_curves(config, supports, pair_reach)
    result = AtlasResult(
        findings=(),
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
    return result.with_findings(findings(result))


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


def _reach(marked: Sequence[Marked]) -> int:
    """Far enough for every marked string of two letters, and at least a thousand to one."""
    present = [[count for count in one.counts if count] for one in marked]
    ratios = [max(counts) / min(counts) for counts in present if len(counts) == 2]
    return int(np.clip(np.ceil(np.log10(max([1, *ratios])) + 0.5), 3, 7))
