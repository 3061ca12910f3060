"""Findings of the laboratory: small models, the bound they meet, and what cannot be built."""

from __future__ import annotations

import numpy as np

from tsc_interp.laboratories.base import Finding
from tsc_interp.laboratories.construct.result import Built, ConstructResult
from tsc_interp.results.intervals import told_median


def findings(result: ConstructResult) -> tuple[Finding, ...]:
    return (
        _plain(*result.built[:2]),
        _log_n(result.built[2]),
        _bound(result),
        _trained(result),
        _vanishing(result.built[3], result),
        _one_head(result),
        _parity(result),
    )


def _plain(built: Built, two_heads: Built) -> Finding:
    proved = "proved by the checker" if built.proved else "not proved"
    return Finding.of(
        f"{built.parameters} weights decide `contains a and b` for every string of up to "
        f"{built.length or built.verified_length:,} letters ({proved}; first error "
        f"`{built.first_error}`): one dimension, one head of size 1, one neuron. No model of "
        "this family has fewer (a proof on paper; PAD's embedding counts as a weight). Without "
        f"an MLP it takes {two_heads.heads} heads and {two_heads.parameters} weights, which "
        f"are smaller: none exceeds {two_heads.largest_weight:.2f}, against "
        f"{built.largest_weight:.1f}.",
        {"parameters": built.parameters, "horizon": built.length or built.verified_length},
        "good",
    )


def _log_n(built: Built) -> Finding:
    right = "right on every string of every length, proved" if built.infinite else "not proved"
    return Finding.of(
        f"A model of {built.parameters} weights, with two heads, no MLP and scores times log n, "
        f"is {right}. Unless a limit logit is exactly zero, such a model needs as many heads "
        "as the task has letters; one dimension is enough for at most two letters, and two "
        "dimensions are enough for any number.",
        {"infinite": built.infinite, "parameters": built.parameters},
        "good" if built.infinite else "warning",
    )


def _bound(result: ConstructResult) -> Finding:
    rows = {name: result.margins.at(quantity=name) for name in result.margins.labels["quantity"]}
    met = int((rows["allowed"] == rows["horizon"]).sum())
    above = float((rows["log M"] - rows["least log M"])[-1])
    longest = int(result.margins.labels["length"][-1])
    return Finding.of(
        "A longer horizon needs larger score margins: a horizon L needs "
        "log M > log((L - 2) / (rho - 1)), where M is the sum of e^margin of a and b over c, "
        f"and rho = {rows['leverage'][-1]:.3g} is the leverage. The bound is tight: at {met} "
        f"of {len(rows['horizon'])} lengths the built model lasts exactly as long as its "
        f"margins allow, and at {longest:,} letters its log M of {rows['log M'][-1]:.4f} is "
        f"{above:.1e} above the minimum.",
        {"met": met, "of": len(rows["horizon"]), "above": above},
        "good" if met == len(rows["horizon"]) else "note",
    )


def _trained(result: ConstructResult) -> Finding:
    reached, allowed = (result.trained.at(quantity=name) for name in ("horizon", "allowed"))
    used = np.median(reached[reached > 0] / allowed[reached > 0]) if (reached > 0).any() else 0.0
    beyond = int((reached > allowed).sum())
    return Finding.of(
        f"Trained models use their margins less well: {len(reached)} models of the same kind "
        f"have a median horizon of {told_median(reached)} letters (the best "
        f"{int(reached.max()):,}), {used:.0%} of what their margins allow; {beyond} exceed the "
        "bound.",
        {"median": float(np.median(reached)), "share": float(used), "beyond": beyond},
        "note" if not beyond else "failure",
    )


def _vanishing(built: Built, result: ConstructResult) -> Finding:
    logits = result.fading.at(model=built.name)
    n = [int(label) for label in result.fading.labels["n"]]
    return Finding.of(
        "A plain-softmax model with all scores zero can be right at every length, but only "
        "because its logit tends to zero. A proof on paper covers every length; the checker "
        f"confirms {built.verified_length:,} letters. The logit of `abc{{n}}` falls like 1 / n²: "
        f"{logits[0]:.2g} at n = {n[0]:,}, {logits[-1]:.2g} at n = {n[-1]:,}. In float32 it "
        f"is safe up to {built.float32_safe:,} letters.",
        {"checked": built.verified_length, "float32": built.float32_safe},
        "warning",
    )


def _one_head(result: ConstructResult) -> Finding:
    longest = int(result.one_head.at(quantity="horizon").max())
    ab = result.one_head.at(quantity="logit of ab")
    mean = result.one_head.at(quantity="weighted mean of aa and bb")
    off = float(np.abs(ab - mean).max())
    return Finding.of(
        "One head without an MLP cannot solve the task: its logit on `ab` is a weighted mean "
        f"of its logits on `aa` and `bb` (in {len(ab)} trained models to within {off:.0e}), so "
        f"one of the three is wrong. The longest horizon of these models is {longest}; 2 is "
        "impossible.",
        {"longest": longest, "off": off},
        "failure",
    )


def _parity(result: ConstructResult) -> Finding:
    ceiling, built, best = (
        result.parity.at(quantity=name) for name in ("ceiling", "built", "best trained")
    )
    heads = result.parity.labels["heads"][-1]
    return Finding.of(
        "No such model exists for parity: on a{n} the logit of H heads without an MLP changes "
        "its sign at most H times, so with other letters in the alphabet no horizon exceeds H. "
        f"Built models reach this maximum at {int((built == ceiling).sum())} of "
        f"{len(built)} numbers of heads ({int(built[-1])} letters with {heads} heads); trained "
        f"ones reach {int(best.max())}.",
        {"built": float(built[-1]), "trained": float(best.max())},
        "failure",
    )
