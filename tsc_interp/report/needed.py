"""Of any model: the heads that its answers need, and how often it is wrong, as rates.

Made from what the report holds: no model is run here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tsc_interp.probes.ablation import AblationResult
from tsc_interp.probes.patterns import HABITS, PatternsResult
from tsc_interp.report.asked import Tested
from tsc_interp.report.model_report import ModelReport

MOST_HEADS = 4


@dataclass(frozen=True)
class Rate:
    """How often something happens: answers that change without a head, or wrong ones of a kind."""

    name: str
    percent: float
    counted: str
    """The number, and of how many."""
    remark: str = ""


@dataclass(frozen=True)
class Needed:
    """The heads without which most answers change, and the test of the first."""

    heads: tuple[Rate, ...]
    rows: int
    confirmed: str


def needed(model: ModelReport) -> Needed | None:
    """Of a model that is asked in rows; None where no head was replaced."""
    ablation = model.result("ablation", AblationResult)
    if ablation is None or not ablation.in_rows:
        return None
    heads = _needed(ablation, model.result("patterns", PatternsResult))
    return Needed(heads, ablation.rows, _confirmed(ablation))


def wrong_rates(tested: Tested | None) -> tuple[Rate, ...]:
    """Wrong answers, by kind of input."""
    return () if tested is None else tuple(
        Rate(of, 100 * wrong / tried, f"{wrong:,} of {tried:,}")
        for of, wrong, tried in tested.rates
    )  # fmt: skip


def attention(model: ModelReport) -> Markup | None:
    """Where each head attends, the head that is needed most shown large."""
    patterns = model.result("patterns", PatternsResult)
    if patterns is None:
        return None
    ablation = model.result("ablation", AblationResult)
    return Markup(patterns.view(_first(patterns, ablation)).to_html())


def _first(patterns: PatternsResult, ablation: AblationResult | None) -> tuple[int, int] | None:
    """The head that is needed most is shown large."""
    if ablation is None or not ablation.in_rows:
        return None
    part = ablation.changed.labels["part"][ablation.most_needed(heads=True)]
    return next(((i, h) for i, h, name in patterns.heads if part == name), None)


def _needed(ablation: AblationResult, patterns: PatternsResult | None) -> tuple[Rate, ...]:
    """The heads without which most answers change, their mean put in their place."""
    parts = ablation.changed.labels["part"]
    every, effects = ablation.changed.at(change="mean"), ablation.mean_effect.at(change="mean")
    heads = [p for p, part in enumerate(parts) if "head" in part]
    heads.sort(key=lambda p: (-every[p], effects[p]))
    needed = []
    for p in heads[:MOST_HEADS]:
        changed, effect = int(every[p]), float(effects[p])
        attends = "" if patterns is None else _attends(patterns, parts[p])
        remark = f"The answer's lead changes by {effect:+.2f} on average."
        remark += f" It {attends}." if attends else ""
        percent, counted = 100 * changed / ablation.rows, f"{changed} of {ablation.rows}"
        needed.append(Rate(parts[p], percent, counted, remark))
    return tuple(needed)


def _attends(patterns: PatternsResult, head: str) -> str:
    """Its habit, or where it attends from the position that is read, on average."""
    for i, h, name in patterns.heads:
        if name != head:
            continue
        if patterns.uniform(i, h):
            return "attends to everything alike"
        habit = patterns.habit(i, h)
        if habit is not None:
            return f"attends to {HABITS[habit[0]]} ({habit[1]:.0%} of its weight)"
        string = patterns.strings[0]
        mean = patterns.by_position.array[i, h, string.reads] if patterns.by_position else None
        if mean is not None and mean.max() >= 0.3:
            place = int(mean.argmax())
            return f"attends to position {place} from where it is read ({mean.max():.0%})"
    return ""


def _confirmed(ablation: AblationResult) -> str:
    """What replacing the head that is needed most does, to the first row it turns and to all."""
    labels = ablation.after.labels
    c = labels["change"].index("mean")
    p = ablation.most_needed(heads=True)
    if "head" not in labels["part"][p]:
        return ""
    count = int(ablation.changed.array[c, p])
    name = labels["part"][p]
    text = f"With the output of {name} replaced by its mean over the rows, "
    turned = np.flatnonzero(ablation.after.array[c, p] != ablation.before.array)
    if not count or not len(turned):
        effect = float(ablation.mean_effect.array[c, p])
        changes = f"{count} of {ablation.rows} answers change" if count else "no answer changes"
        return f"{text}{changes}; the answer's lead changes by {effect:+.2f} on average."
    row = int(turned[0])
    lead = float(ablation.leads.array[row])
    after = lead + float(ablation.effects.array[c, p, row])
    pair = [ablation.names[str(int(x))] for x in
            (ablation.before.array[row], ablation.after.array[c, p, row])]  # fmt: skip
    return (
        f"{text}the answer to {labels['string'][row]} turns from {pair[0]} to {pair[1]} (its lead "
        f"from {lead:+.2f} to {after:+.2f}), and {count} of all {ablation.rows} answers change."
    )
