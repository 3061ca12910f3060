"""Rates as bars: how often a model is wrong, and how many answers need each head.

Made from what the report holds: no model is run here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tsc_interp.falsification.result import Falsification
from tsc_interp.probes.ablation import AblationResult
from tsc_interp.probes.patterns import PatternsResult
from tsc_interp.report.model_report import ModelReport

MOST_HEADS = 4
MOST_RATES = 12


@dataclass(frozen=True)
class Rate:
    """How often something happens."""

    name: str
    percent: float
    counted: str
    """The number, and of how many."""
    remark: str = ""


@dataclass(frozen=True)
class Rates:
    """A question, what is counted, a bar for each case, and what a test confirms."""

    title: str
    words: str
    bars: tuple[Rate, ...]
    wrong: bool = False
    """Whether what happens is an error."""
    confirmed: str = ""


def wrong_rates(found: Falsification | None) -> Rates | None:
    """Of inputs that a search drew: wrong answers by place, or else by class or length."""
    groups = () if found is None else (found.by_place, found.by_class, found.by_length)
    rates = next((group for group in groups if any(rate.wrong for rate in group)), ())
    if found is None or not rates:
        return None
    worst = sorted((r for r in rates if r.tried), key=lambda r: -r.share)[:MOST_RATES]
    bars = tuple(Rate(r.of, 100 * r.share, f"{r.wrong:,} of {r.tried:,}")
                 for r in rates if r in worst)  # fmt: skip
    least = f" Of {len(rates)}, the {MOST_RATES} worst." if len(rates) > MOST_RATES else ""
    if rates == found.by_place:
        changed = "One letter changed so that the right answer changes: how often is the answer"
        return Rates("Which changes does it miss?", f"{changed} wrong?{least}", bars, wrong=True)
    drawn = f"Inputs drawn by chance that are answered wrongly.{least}"
    return Rates("How often is it wrong?", drawn, bars, wrong=True)


def needed(model: ModelReport) -> Rates | None:
    """The heads without which most answers change, their mean put in their place."""
    ablation = model.result("ablation", AblationResult)
    if ablation is None or not ablation.in_rows:
        return None
    parts, rows = ablation.changed.labels["part"], ablation.rows
    every, effects = ablation.changed.at(change="mean"), ablation.mean_effect.at(change="mean")
    heads = [p for p, part in enumerate(parts) if "head" in part]
    heads.sort(key=lambda p: (-every[p], effects[p]))
    bars = []
    for p in heads[:MOST_HEADS]:
        changed = int(every[p])
        remark = f"The answer's lead changes by {effects[p]:+.2f} on average."
        bars.append(Rate(parts[p], 100 * changed / rows, f"{changed} of {rows}", remark))
    words = (
        "How many answers change when a head's output is replaced by its mean over the "
        f"{rows} rows?"
    )
    return Rates("Which heads does it need?", words, tuple(bars), confirmed=_confirmed(ablation))


def attention(model: ModelReport) -> Markup | None:
    """Where each head attends, the head that is needed most shown large."""
    patterns = model.result("patterns", PatternsResult)
    if patterns is None:
        return None
    ablation = model.result("ablation", AblationResult)
    first = None
    if ablation is not None and ablation.in_rows:
        part = ablation.changed.labels["part"][ablation.most_needed(heads=True)]
        first = next(((i, h) for i, h, name in patterns.heads if part == name), None)
    return Markup(patterns.view(first).to_html())


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
