"""What is said of pre-training: where it helps, where it does not, and how sure models are."""

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
    PretrainResult,
    mean_and_error,
)

_SHOWN, _HELD_OUT, _STRANGERS = GROUPS


def findings(result: PretrainResult) -> tuple[Finding, ...]:
    return (
        _partners(result),
        _anyway(result),
        _contains(result),
        _horizons(result),
        _heads(result),
    )


def _mean(result: PretrainResult, arm: str, group: str) -> float:
    return float(result.partners.at(arm=arm, group=group).mean())


def _partners(result: PretrainResult) -> Finding:
    both, alone, longer, only = (
        _mean(result, arm, _HELD_OUT) for arm in (BOTH, ALONE, LONGER, ONLY)
    )
    constant = float(result.constant.array.mean())
    gain, error = mean_and_error(
        result.partners.at(arm=BOTH, group=_HELD_OUT)
        - result.partners.at(arm=LONGER, group=_HELD_OUT)
    )
    verdict = "helps" if gain > 2 * error else "has not helped"
    return Finding(
        severity="good" if gain > 2 * error else "note",
        text=(
            f"Where facts must be held in weights, pre-training {verdict}: of {result.questions} "
            f"questions about names that fine-tuning never asked for, {both:.1%} are answered "
            f"right after span corruption and fine-tuning, {alone:.1%} after fine-tuning alone "
            f"({longer:.1%} with as many steps), {constant:.1%} by a constant "
            f"answer. Pre-training adds {_points(gain, error)} over {result.options.seeds} seeds. "
            "Asked before fine-tuning, the pre-trained models, which have not seen a question, "
            f"tell {only:.1%}."
        ),
        numbers={"pretrained": both, "alone": alone, "constant": constant, "error": error},
    )


def _anyway(result: PretrainResult) -> Finding:
    strangers, told = (
        float(table.at(arm=BOTH, group=_STRANGERS).mean())
        for table in (result.partners, result.confidence)
    )
    alone, sure = (
        float(table.at(arm=LONGER, group=_HELD_OUT).mean())
        for table in (result.partners, result.confidence)
    )
    known = float(result.confidence.at(arm=BOTH, group=_HELD_OUT).mean())
    return Finding(
        severity="warning",
        text=(
            "A model asked what it never learned answers anyway: about names that were in no "
            f"corpus and no question, pre-trained models give a probability of {told:.0%} to their "
            f"answer and are right in {strangers:.1%} of cases (held-out names: {known:.0%} and "
            f"{_mean(result, BOTH, _HELD_OUT):.1%}). Fine-tuned alone, as long, they "
            f"are {sure:.0%} sure of answers of which {alone:.1%} are right."
        ),
        numbers={"confidence": told, "right": strangers, "alone_confidence": sure},
    )


def _contains(result: PretrainResult) -> Finding:
    told, gains = [], {}
    for labels in result.options.labels:
        both, alone = (
            float(result.contains.at(arm=arm, labels=labels).mean()) for arm in (BOTH, LONGER)
        )
        gain, error = result.paired(LONGER, labels)
        gains[labels] = (gain, error)
        told.append(f"{labels} labels {both:.1%} against {alone:.1%} ({_points(gain, error)})")
    better = [labels for labels, (gain, error) in gains.items() if gain > 2 * error]
    worse = [labels for labels, (gain, error) in gains.items() if gain < -2 * error]
    return Finding(
        severity="note",
        text=(
            f"For contains a and b, {_verdict(better, worse)} Accuracy with pre-training against "
            f"as many steps of fine-tuning alone, over every string of up to "
            f"{result.options.max_length} letters, half the weight on either label (a constant "
            f"answer has 50 %): {', '.join(told)}; differences seed by seed, with their standard "
            "errors."
        ),
        numbers={f"gain_{labels}": gain for labels, (gain, _) in gains.items()},
    )


def _verdict(better: list[int], worse: list[int]) -> str:
    """In words, for differences of more than two standard errors."""
    if not better and not worse:
        return "pre-training makes no difference that these seeds can tell."
    said = [
        f"{verb} with {' and '.join(map(str, which))} labels"
        for verb, which in (("helps", better), ("harms", worse))
        if which
    ]
    return f"pre-training {' and '.join(said)}, and makes no certain difference otherwise."


def _horizons(result: PretrainResult) -> Finding:
    labels = max(result.options.labels)
    both, alone = (result.horizons.at(arm=arm, labels=labels) for arm in (BOTH, LONGER))
    further, less = int((both > alone).sum()), int((both < alone).sum())
    chance = float(binomtest(further, further + less).pvalue) if further + less else 1.0
    verdict = "a difference" if chance < 0.05 else "no certain difference"
    return Finding(
        severity="note",
        text=(
            f"Horizons with {labels} labels: the median is {np.median(both):,.0f} letters with "
            f"pre-training and {np.median(alone):,.0f} with as many steps of fine-tuning alone; of "
            f"{len(both)} seeds {further} go further with it and {less} less far, {verdict} (sign "
            f"test, p = {chance:.2f})."
        ),
        numbers={"pretrained": float(np.median(both)), "alone": float(np.median(alone))},
    )


def _heads(result: PretrainResult) -> Finding:
    first, read, tuned = (float(result.heads.at(stage=stage).max(-1).mean()) for stage in STAGES)
    gap, blind = result.gaps.array.tolist()
    return Finding(
        severity="note",
        text=(
            "What heads read before fine-tuning: to restore a letter one needs the shares of all, "
            "(count + 1) / (length + 3) at best, and the pre-trained "
            f"models are {gap:.3f} from that (total variation; {blind:.3f} for who knows nothing). "
            "Of `abc` the largest weight in a head is "
            f"{read:.0%} on average before fine-tuning ({first:.0%} initially) and {tuned:.0%} "
            "after it."
        ),
        numbers={"initial": first, "pretrained": read, "finetuned": tuned, "gap": gap},
    )


def _points(gain: float, error: float) -> str:
    return f"{100 * gain:+.1f} ± {100 * error:.1f} points"
