"""What the patching probe found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.probes.patching.result import Patched, PatchingResult
from tsc_interp.probes.wording import SCALE, capital, joined
from tsc_interp.results.base import Cell, Finding

APART = 0.2
"""Heads whose effects add up to more or less than what they do together by this much."""


def findings(result: PatchingResult) -> tuple[Finding, ...]:
    statements: list[Finding] = []
    for patched in result.pairs:
        statements.append(_parts(result, patched))
        statements += _together(result, patched)
        statements += _counting(result, patched)
    return (*statements, _nothing(result))


def _parts(result: PatchingResult, patched: Patched) -> Finding:
    """The heads, neurons and MLPs that restore most, each patched alone."""
    effects = _single_parts(result, patched)
    order = sorted(effects, key=lambda name: -abs(effects[name]))[:4]
    pair = patched.pair
    shares = ", ".join(f"{name} {_share(effects[name])}" for name in order)
    text = f"{pair.sentence()} These parts, patched alone, have the largest effects "
    text += f"({SCALE}): {shares}."
    answer = pair.corrupted_logit > 0
    flips = [name for name in order if (pair.patched_logit(effects[name]) > 0) != answer]
    if flips and (pair.clean_logit > 0) != answer:
        text += f" {capital(joined(flips, 'or'))} alone is enough to change the answer."
    numbers: dict[str, Cell] = {name: effects[name] for name in order}
    numbers |= {"clean logit": pair.clean_logit, "corrupted logit": pair.corrupted_logit}
    return Finding.of(text, numbers, pair.severity)


def _single_parts(result: PatchingResult, patched: Patched) -> dict[str, float]:
    effects: dict[str, float] = {}
    for site, word in (("z_all_pos", "head"), ("post", "neuron")):
        if not patched.has(site):
            continue
        array = patched.site(site).effect
        cells = array.array[:, result.query] if site == "post" else array.array
        for i, index in np.ndindex(cells.shape):
            where = f"layer {i} " if result.n_layers > 1 else ""
            effects[f"{where}{word} {index}"] = float(cells[i, index])
    return effects


def _together(result: PatchingResult, patched: Patched) -> list[Finding]:
    """Whether the heads of a layer do together what they do one by one."""
    statements = []
    if not patched.has("attn_out") or patched.site("z_all_pos").effect.shape[1] < 2:
        return []
    for i in range(result.n_layers):
        whole = float(patched.site("attn_out").effect.array[i, result.query])
        alone = float(patched.site("z").effect.array[i, result.query].sum())
        if abs(whole - alone) < APART:
            continue
        where = f"Layer {i}'s heads" if result.n_layers > 1 else "The heads"
        text = (
            f"{where} patched together at {patched.place(result.query)} restore {_share(whole)}; "
            f"one by one their effects add up to {_share(alone)}, so they interact through the MLP."
        )
        statements.append(Finding.of(text, {"together": whole, "added up": alone}))
    return statements


def _counting(result: PatchingResult, patched: Patched) -> list[Finding]:
    """By letter: whose count, in which head, makes the difference."""
    if result.by != "letter" or not patched.has("scores_by_src"):
        return []
    site = patched.site("scores_by_src").effect
    flat = np.argsort(-np.abs(site.array), axis=None, kind="stable")[:3]
    counts = []
    numbers: dict[str, Cell] = {}
    for cell in flat:
        i, h, s = np.unravel_index(int(cell), site.shape)
        effect = float(site.array[i, h, s])
        if abs(effect) < 0.005:
            continue
        where = f"layer {i} " if result.n_layers > 1 else ""
        letter = site.labels["src_pos"][s]
        counts.append(f"{where}head {h} counting {letter} {_share(effect)}")
        numbers[f"{where}head {h}, {letter}"] = effect
    if not counts:
        return []
    pair = patched.pair
    text = (
        f"If in `{pair.corrupted}` one head counts one letter as often as in `{pair.clean}`, the "
        f"largest effects are: {', '.join(counts)}."
    )
    return [Finding.of(text, numbers)]


def _nothing(result: PatchingResult) -> Finding:
    """What changed nothing, and why: never a silent zero."""
    same = different = total = 0
    for patched in result.pairs:
        for site in patched.sites:
            total += site.same.size
            same += int(site.same.sum())
            different += int((~site.changes & ~site.same).sum())
    text = (
        f"Of {total:,} patches, {same:,} move no activation because it is the same in both runs, "
        f"and {different:,} move one that the logit does not depend on (a position that is not "
        "read, a weight of zero)."
    )
    if result.by == "letter":
        text += (
            " Compared by letter, two strings differ only in how often each letter occurs: "
            "embeddings, and first-layer queries, keys and values are the same in both."
        )
    return Finding.of(text, {"patches": total, "same": same, "not read": different})


def _share(effect: float) -> str:
    text = f"{effect:.2f}"
    return "0.00" if text == "-0.00" else text
