"""What the ablation probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.probes.ablation.result import Ablated, AblationResult, Answers, Exact
from tsc_interp.probes.wording import capital, number, write_share
from tsc_interp.results.base import Cell, Finding, Severity

MOST_NAMED = 2
"""Of a kind: each is checked, which takes a second."""
MOST_LISTED = 6


def findings(result: AblationResult) -> tuple[Finding, ...]:
    if result.answers is not None:
        return of_answers(result.answers)
    statements = [_standing(result)] if result.exact is not None else []
    statements += [_changed(result, one) for one in named(result)]
    for whole in (True, False):
        statements += _removable(result, whole)
    statements += _mean_against_zero(result)
    statements += _resampled(result)
    return tuple(statements or [_moves(result)])


def of_answers(answers: Answers) -> tuple[Finding, ...]:
    """The parts that rows need, and the parts that they do not."""
    parts = answers.changed.labels["part"]
    statements = []
    for c, change in enumerate(answers.changed.labels["change"]):
        changed, effect = answers.changed.array[c], answers.mean_effect.array[c]
        most = answers.most_needed(change)
        idle = int((changed == 0).sum())
        instead = "zero" if change == "zero" else "its mean over the rows"
        text = (
            f"{capital(parts[most])} matters most: if it is replaced by {instead}, "
            f"{int(changed[most])} of {answers.rows} answers change, and the answer's lead changes "
            f"by {effect[most]:+.4f} on average. {idle} of {len(parts)} parts can be replaced in "
            "this way without changing an answer."
        )
        numbers: dict[str, Cell] = {"changed": int(changed[most]), "idle parts": idle}
        statements.append(Finding(severity="note", text=text, numbers=numbers))
    return tuple(reversed(statements))


def named(result: AblationResult) -> list[Ablated]:
    """What a sentence of its own is about: the parts most needed, and those that do most harm."""
    before = result.exact
    if before is None:
        return []
    chosen: list[Ablated] = []
    for whole in (True, False):
        parts = [ablation for ablation in result.of("zero", exact=True) if ablation.whole == whole]
        worse = [part for part in parts if _exact(part).errors > before.errors]
        better = [part for part in parts if _improves(_exact(part), before)]
        worse.sort(key=lambda one: (-_exact(one).errors, _exact(one).reach))
        better.sort(key=lambda one: (_exact(one).errors, -_exact(one).reach))
        cures = [part for part in parts if part not in better and _cured(before, _exact(part))]
        chosen += worse[: MOST_NAMED if whole else 1] + better[:1] + cures[:1]
    return chosen


def _cured(before: Exact, after: Exact) -> bool:
    """One kind of error is gone, and not at the price of twice as many of the other."""
    was = (before.false_positives, before.false_negatives)
    now = (after.false_positives, after.false_negatives)
    return any(
        was[kind] and not now[kind] and now[1 - kind] <= 2 * was[1 - kind] for kind in (0, 1)
    )


def _exact(one: Ablated) -> Exact:
    assert one.exact is not None
    return one.exact


def _improves(after: Exact, before: Exact) -> bool:
    """Fewer errors without an earlier one, or a later first error without more of them."""
    no_worse = after.errors <= before.errors and after.reach >= before.reach
    return no_worse and (after.errors, after.reach) != (before.errors, before.reach)


def _of_all(result: AblationResult, errors: int) -> str:
    share = errors / result.strings
    many = "none" if not errors else number(errors) + (f" ({write_share(share)})" * (share > 0.01))
    return f"{many} of the {number(result.strings)} strings up to {result.length} letters"


def _standing(result: AblationResult) -> Finding:
    exact = result.exact
    assert exact is not None
    text = f"As it is, the model gets {_of_all(result, exact.errors)} wrong"
    if exact.first_error is not None:
        text += f"; its first error is `{exact.first_error}`{_how_known(exact)}"
    numbers: dict[str, Cell] = {"errors": _cell(exact.errors), "horizon": exact.horizon}
    return Finding(severity="note", text=f"{text}.", numbers=numbers)


def _how_known(exact: Exact) -> str:
    return " (proved)" if exact.proved else ""


def _changed(result: AblationResult, one: Ablated) -> Finding:
    before, after = result.exact, _exact(one)
    assert before is not None
    better = _improves(after, before)
    severity: Severity = "warning" if better else "note"
    text = f"With {one.name} set to zero, the model gets {_of_all(result, after.errors)} wrong"
    if after.errors == before.errors:
        text += ", as before"
    elif number(after.errors) == number(before.errors):
        text += f", nearly as before{_by_kind(before, after)}"
    else:
        instead = number(before.errors) if before.errors else "none"
        text += f" instead of {instead}{_by_kind(before, after)}"
    text += _first_error(before, after)
    if better:
        text += f". The model does better without {'it' if one.whole else 'this value'}"
    numbers: dict[str, Cell] = {
        "errors": _cell(after.errors),
        "before": _cell(before.errors),
        "horizon": after.horizon,
        "horizon before": before.horizon,
    }
    return Finding(severity=severity, text=f"{text}.", numbers=numbers)


def _by_kind(before: Exact, after: Exact) -> str:
    """Where both kinds of error are in play, each by itself."""
    kinds = (
        ("false positives", before.false_positives, after.false_positives),
        ("false negatives", before.false_negatives, after.false_negatives),
    )
    if sum(bool(was or is_now) for _, was, is_now in kinds) < 2:
        return ""
    moved = [
        f"{name} {number(was)} before, {number(is_now)} after"
        if number(was) != number(is_now)
        else f"{name} {number(was)}{' as before' if was == is_now else ', nearly as before'}"
        for name, was, is_now in kinds
    ]
    return f" ({'; '.join(moved)})"


def _first_error(before: Exact, after: Exact) -> str:
    if before.first_error == after.first_error:
        return (
            "" if before.first_error is None else f". Its first error stays `{before.first_error}`"
        )
    if after.first_error is None:
        return ". No error was found"
    proved = " (both proved)" if before.proved and after.proved else _how_known(after)
    if before.first_error is None:
        return f". Its first error is then `{after.first_error}`{proved}"
    return f". Its first error moves from `{before.first_error}` to `{after.first_error}`{proved}"


def _removable(result: AblationResult, whole: bool) -> list[Finding]:
    """Parts without which every string up to the length is answered as before."""
    parts = [ablation for ablation in result.of("zero", exact=True) if ablation.whole == whole]
    free = [part for part in parts if part.same_answers]
    if not free or result.exact is None:
        return []
    each = "each alone be set to zero" if len(free) > 1 else "be set to zero"
    text = (
        f"{capital(_list(free, parts))} can {each} without changing the answer to any string of up "
        f"to {result.length} letters"
    )
    reaches = sorted({_exact(one).reach for one in free})
    known = [int(reach) for reach in reaches if np.isfinite(reach)]
    before = result.exact.horizon
    if known and before is not None and known != [before]:
        span = f"{known[0]:,}" if len(known) == 1 else f"between {known[0]:,} and {known[-1]:,}"
        text += f". The horizon is then {span} instead of {before:,}"
    numbers: dict[str, Cell] = {"parts": len(free), "of": len(parts)}
    return [Finding(severity="good", text=f"{text}.", numbers=numbers)]


def _list(some: Sequence[Ablated], parts: Sequence[Ablated]) -> str:
    if len(some) == len(parts) > MOST_LISTED:
        return f"every one of the {len(parts)} {_kind(parts)}"
    if len(some) > MOST_LISTED:
        return f"{len(some)} of {len(parts)} {_kind(parts)} (such as {some[0].name})"
    names = [one.name for one in some]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _kind(parts: Sequence[Ablated]) -> str:
    return "heads, neurons and MLPs" if parts[0].whole else "letters' values that were tried"


def _mean_against_zero(result: AblationResult) -> list[Finding]:
    """Whether an average in the part's place gives another result than zero in its place."""
    means = {ablation.part: ablation for ablation in result.of("mean", exact=True)}
    pairs = [
        (ablation, means[ablation.part])
        for ablation in result.of("zero", exact=True)
        if ablation.part in means
    ]
    if not pairs:
        return []
    other = [pair for pair in pairs if pair[0].same_answers != pair[1].same_answers]
    over = f"(over {result.mean_over})"
    if not other:
        text = (
            f"Mean ablation {over} agrees with zero ablation on which "
            f"{'part' if len(pairs) == 1 else 'parts'} can be removed"
        )
        return [Finding(severity="note", text=f"{text}.", numbers={"parts": len(pairs)})]
    told = [
        f"{zero.name}: {_short(result, zero)} at zero, {_short(result, mean)} at its mean"
        for zero, mean in sorted(other, key=lambda pair: not pair[0].whole)[:3]
    ]
    more = f"; and {len(other) - 3} more" if len(other) > 3 else ""
    text = f"Mean ablation {over} differs from zero ablation for {'; '.join(told)}{more}"
    return [Finding(severity="note", text=f"{text}.", numbers={"parts": len(other)})]


def _short(result: AblationResult, one: Ablated) -> str:
    errors = _exact(one).errors
    if one.same_answers:
        return "no answer changes"
    return f"{number(errors) if errors else 'no'} strings wrong"


def _resampled(result: AblationResult) -> list[Finding]:
    tried = [ablation for ablation in result.of("resample") if ablation.test is not None]
    if not tried or result.resampled_test is None:
        return []
    before = result.resampled_test.errors
    order = sorted(tried, key=lambda one: -one.test.errors if one.test else 0)
    told = [f"{one.name} {one.test.errors:,}" for one in order[:3] if one.test]
    text = (
        "Replacing a part by its value on another string (resampling) gives these errors on "
        f"{result.resampled_strings:,} test strings: {', '.join(told)}; the model itself makes "
        f"{before:,}"
    )
    harmless = [one for one in tried if one.test and one.test.errors == before]
    if harmless:
        text += (
            f". {len(harmless)} of {len(tried)} parts can be resampled without a new error there"
        )
    numbers: dict[str, Cell] = {
        "before": before,
        "most": order[0].test.errors if order[0].test else 0,
    }
    return [Finding(severity="note", text=f"{text}.", numbers=numbers)]


def _moves(result: AblationResult) -> Finding:
    """Without anything exact, what there is: effects on the given strings."""
    effects = result.effects
    size = np.abs(effects.array[0]).mean(axis=1)
    order = np.argsort(-size, kind="stable")[:3]
    told = [f"`{effects.labels['part'][p]}` by {size[p]:.4f}" for p in order]
    text = f"Set to zero, these parts move the given strings' logits most: {', '.join(told)}."
    return Finding(severity="note", text=text, numbers={"largest": float(size[order[0]])})


def _cell(count: int) -> Cell:
    """Exact as digits where a JSON reader would round it."""
    return count if count <= 2**53 else str(count)
