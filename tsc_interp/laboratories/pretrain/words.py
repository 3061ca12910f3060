"""Findings on pre-training: where it helps, where it does not, and how sure models are."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest

from tsc_interp.laboratories.base import Finding
from tsc_interp.laboratories.pretrain.result import (
    ALONE,
    BOTH,
    GROUPS,
    LONGER,
    ONLY,
    STAGES,
    TRAINED,
    Characters,
    PretrainResult,
)
from tsc_interp.results.intervals import Floats, mean_interval, told_mean, told_median

_SHOWN, _HELD_OUT, _STRANGERS = GROUPS


def findings(result: PretrainResult) -> tuple[Finding, ...]:
    return (
        _partners(result),
        _anyway(result),
        _contains(result),
        _horizons(result),
        _heads(result),
        *((_characters(result.characters),) if result.characters else ()),
    )


def _mean(result: PretrainResult, arm: str, group: str) -> float:
    return float(result.partners.at(arm=arm, group=group).mean())


def _partners(result: PretrainResult) -> Finding:
    held_out = {arm: result.partners.at(arm=arm, group=_HELD_OUT) for arm in (*TRAINED, ONLY)}
    both, alone, longer = (told_mean(held_out[arm], 1) for arm in (BOTH, ALONE, LONGER))
    constant = float(result.constant.array.mean())
    gains = held_out[BOTH] - held_out[LONGER]
    chance = sign_test(gains)
    helped = "helps" if np.median(gains) > 0 else "harms"
    if chance >= 0.05:
        helped = "makes no difference that these seeds can show"
    return Finding.of(
        f"If the weights must store facts, pre-training {helped} (sign test "
        f"over {len(gains)} seeds, p = {chance:.2g}). Of {result.questions} questions about "
        f"names that fine-tuning never asked for, models answer {both} right after span "
        f"corruption and fine-tuning, {alone} after fine-tuning alone, and {longer} after as "
        f"many steps of fine-tuning as both together; a constant answer is right for "
        f"{constant:.1%}. Pre-training adds {points(gains)}. Before fine-tuning, the "
        f"pre-trained models answer {np.median(held_out[ONLY]):.1%} right (median; the best seed "
        f"{held_out[ONLY].max():.1%}), because they have never seen a question.",
        {
            "pretrained": _mean(result, BOTH, _HELD_OUT),
            "alone": _mean(result, ALONE, _HELD_OUT),
            "longer": _mean(result, LONGER, _HELD_OUT),
            "constant": constant,
            "p": chance,
            "only_best": float(held_out[ONLY].max()),
        },
        "good" if chance < 0.05 and gains.mean() > 0 else "note",
    )


def sign_test(gains: Floats) -> float:
    """The p-value of the sign test: heavy tails cannot sway it, and four seeds cannot pass it."""
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0


def _anyway(result: PretrainResult) -> Finding:
    strangers, confidence = (
        float(table.at(arm=BOTH, group=_STRANGERS).mean())
        for table in (result.partners, result.confidence)
    )
    alone, sure = (
        float(table.at(arm=LONGER, group=_HELD_OUT).mean())
        for table in (result.partners, result.confidence)
    )
    known = float(result.confidence.at(arm=BOTH, group=_HELD_OUT).mean())
    return Finding.of(
        "Models are confident about names they never saw. For names in no corpus and no "
        f"question, pre-trained models give their answer a probability of {confidence:.0%} and are "
        f"right in {strangers:.1%} of cases (for held-out names: {known:.0%} and "
        f"{_mean(result, BOTH, _HELD_OUT):.1%}). Models with as many steps of fine-tuning "
        f"alone give held-out names {sure:.0%} and are right in {alone:.1%}.",
        {"confidence": confidence, "right": strangers, "alone_confidence": sure},
        "warning",
    )


def _contains(result: PretrainResult) -> Finding:
    every = result.options.labels
    by_labels, gains = [], {n: result.gains(LONGER, n) for n in every}
    for labels in every:
        both, alone = (
            float(result.contains.at(arm=arm, labels=labels).mean()) for arm in (BOTH, LONGER)
        )
        by_labels.append(
            f"{labels} labels {both:.1%} against {alone:.1%} ({points(gains[labels])})"
        )
    # One chance in twenty for all numbers of labels together (Bonferroni).
    told_apart = [n for n in every if sign_test(gains[n]) < 0.05 / len(every)]
    better = [n for n in told_apart if np.median(gains[n]) > 0]
    worse = [n for n in told_apart if n not in better]
    return Finding.of(
        f"For contains a and b, {_verdict(better, worse)} Accuracy with pre-training against "
        f"as many steps of fine-tuning alone: {', '.join(by_labels)}. It is measured on every "
        f"string of up to {result.options.max_length} letters with half the weight on each "
        f"label, so a constant answer has 50 %; differences are taken seed by seed over "
        f"{result.options.seeds} seeds.",
        {f"gain_{labels}": float(gain.mean()) for labels, gain in gains.items()},
    )


def _verdict(better: list[int], worse: list[int]) -> str:
    """In words, for differences that a sign test shows."""
    if not better and not worse:
        return "pre-training makes no difference that these seeds can show."
    clauses = [
        f"{verb} with {' and '.join(map(str, which))} labels"
        for verb, which in (("helps", better), ("harms", worse))
        if which
    ]
    return f"pre-training {' and '.join(clauses)}, and makes no certain difference otherwise."


def _horizons(result: PretrainResult) -> Finding:
    labels = max(result.options.labels)
    both, alone = (result.horizons.at(arm=arm, labels=labels) for arm in (BOTH, LONGER))
    further, less = int((both > alone).sum()), int((both < alone).sum())
    chance = sign_test(both - alone)
    verdict = "a difference" if chance < 0.05 else "no certain difference"
    return Finding.of(
        f"Horizons with {labels} labels: the median is {told_median(both)} letters with "
        f"pre-training and {told_median(alone)} with as many steps of fine-tuning alone; of "
        f"{len(both)} seeds {further} go further with it and {less} less far, {verdict} (sign "
        f"test, p = {chance:.2f}).",
        {"pretrained": float(np.median(both)), "alone": float(np.median(alone))},
    )


def _heads(result: PretrainResult) -> Finding:
    first, read, tuned = (float(result.heads.at(stage=stage).max(-1).mean()) for stage in STAGES)
    gap, blind = result.gaps.array.tolist()
    return Finding.of(
        "Pre-training makes heads read all letters: the best guess of a removed letter is "
        "(count + 1) / (length + 3), and the predictions of the pre-trained models are "
        f"{gap:.3f} away from it (total variation; a guess that ignores the string is "
        f"{blind:.3f} away). On `abc` a head's largest weight is {read:.0%} on average after "
        f"pre-training ({first:.0%} initially) and {tuned:.0%} after fine-tuning.",
        {"initial": first, "pretrained": read, "finetuned": tuned, "gap": gap},
    )


def points(gains: Floats) -> str:
    low, high = mean_interval(gains)
    return f"{100 * gains.mean():+.1f} points, 95% CI {100 * low:+.1f} to {100 * high:+.1f}"


def _characters(characters: Characters) -> Finding:
    """Similar names, similar answers: of strangers, and where it is wrong."""
    shares = {
        (arm, measure): float(characters.measured.at(arm=arm, measure=measure).mean())
        for arm in characters.measured.labels["arm"]
        for measure in characters.measured.labels["measure"]
    }
    pre = {measure: share for (arm, measure), share in shares.items() if arm == BOTH}
    alone = {measure: share for (arm, measure), share in shares.items() if arm == LONGER}
    seeds = len(characters.exceptions.flat)
    within, across = pre["same answer, one family"], pre["same answer, two families"]
    return Finding.of(
        f"Similar names get similar answers. After character corruption and fine-tuning, two "
        f"names that share their first letters get the same answer in {within:.0%} of the pairs, "
        f"other pairs in {across:.0%} (means of {seeds} seeds). Names in no corpus get the home "
        f"of their family in {pre['home, strangers']:.0%} of cases (chance: "
        f"{1 / characters.places:.1%}), and so do {pre['home, exceptions']:.0%} of the held-out "
        f"names that are from elsewhere. This raises the score: held-out names from the home "
        f"are answered right in {pre['right, like the family']:.0%}, the others in "
        f"{pre['right, exceptions']:.0%} (fine-tuned alone: "
        f"{alone['right, like the family']:.0%} and {alone['right, exceptions']:.0%}).",
        {f"pre-trained: {name}": share for name, share in pre.items()},
        "warning" if within > across else "note",
    )
