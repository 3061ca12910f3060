"""What the ablation probe found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.probes.ablation.result import Ablated, AblationResult, Answers, Exact
from tsc_interp.probes.wording import capital, joined, number, write_share
from tsc_interp.results.base import Cell, Finding

MOST_NAMED = 2
"""Of a kind: each is checked, which takes a second."""
MOST_LISTED = 6


def findings(result: AblationResult) -> tuple[Finding, ...]:
    if result.answers is not None:
        return of_answers(result.answers)
    statements: list[Finding] = []
    if result.exact is not None:
        statements.append(_standing(result, result.exact))
        statements += [_changed(result, result.exact, part) for part in named(result)]
        for whole in (True, False):
            statements += _removable(result, result.exact, whole)
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
        statements.append(Finding.of(text, {"changed": int(changed[most]), "idle parts": idle}))
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
        worse.sort(key=lambda part: (-_exact(part).errors, _exact(part).reach))
        better.sort(key=lambda part: (_exact(part).errors, -_exact(part).reach))
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


def _exact(ablation: Ablated) -> Exact:
    assert ablation.exact is not None
    return ablation.exact


def _improves(after: Exact, before: Exact) -> bool:
    """Fewer errors without an earlier one, or a later first error without more of them."""
    no_worse = after.errors <= before.errors and after.reach >= before.reach
    return no_worse and (after.errors, after.reach) != (before.errors, before.reach)


def _of_all(result: AblationResult, errors: int) -> str:
    share = errors / result.strings
    many = number(errors) + f" ({write_share(share)})" * (share > 0.01) if errors else "none"
    return f"{many} of the {number(result.strings)} strings up to {result.length} letters"


def _standing(result: AblationResult, exact: Exact) -> Finding:
    text = f"As it is, the model gets {_of_all(result, exact.errors)} wrong"
    if exact.first_error is not None:
        text += f"; its first error is `{exact.first_error}`{_how_known(exact)}"
    return Finding.of(f"{text}.", {"errors": _cell(exact.errors), "horizon": exact.horizon})


def _how_known(exact: Exact) -> str:
    return " (proved)" if exact.proved else ""


def _changed(result: AblationResult, before: Exact, part: Ablated) -> Finding:
    after = _exact(part)
    better = _improves(after, before)
    text = f"With {part.name} set to zero, the model gets {_of_all(result, after.errors)} wrong"
    text += ", as before" if after.errors == before.errors else _by_kind(before, after)
    text += _first_error(before, after)
    if better:
        text += f". The model does better without {'it' if part.whole else 'this value'}"
    numbers = {
        "errors": _cell(after.errors),
        "before": _cell(before.errors),
        "horizon": after.horizon,
        "horizon before": before.horizon,
    }
    return Finding.of(f"{text}.", numbers, "warning" if better else "note")


def _by_kind(before: Exact, after: Exact) -> str:
    """How many were wrong before; where both kinds of error are in play, each by itself."""
    text = f" instead of {number(before.errors) if before.errors else 'none'}"
    if number(after.errors) == number(before.errors):
        text = ", nearly as before"
    kinds = (
        ("false positives", before.false_positives, after.false_positives),
        ("false negatives", before.false_negatives, after.false_negatives),
    )
    if not all(was or now for _, was, now in kinds):
        return text
    moved = [f"{name} {number(was)} before, {number(now)} after" for name, was, now in kinds]
    return f"{text} ({'; '.join(moved)})"


def _first_error(before: Exact, after: Exact) -> str:
    was, now = before.first_error, after.first_error
    if now is None:
        return "" if was is None else ". No error was found"
    if was == now:
        return f". Its first error stays `{now}`"
    instead = "" if was is None else f" instead of `{was}`{_how_known(before)}"
    return f". Its first error is then `{now}`{_how_known(after)}{instead}"


def _removable(result: AblationResult, before: Exact, whole: bool) -> list[Finding]:
    """Parts without which every string up to the length is answered as before."""
    parts = [ablation for ablation in result.of("zero", exact=True) if ablation.whole == whole]
    free = [part for part in parts if part.same_answers]
    if not free:
        return []
    set_to_zero = "each alone be set to zero" if len(free) > 1 else "be set to zero"
    kind = "heads, neurons and MLPs" if whole else "letters' values that were tried"
    names = joined([part.name for part in free])
    if len(free) > MOST_LISTED:
        names = f"{len(free)} of {len(parts)} {kind} (such as {free[0].name})"
    text = (
        f"{capital(names)} can {set_to_zero} without changing the answer to any string of up to "
        f"{result.length} letters"
    )
    known = sorted({horizon for part in free if (horizon := _exact(part).horizon) is not None})
    if known and before.horizon is not None and known != [before.horizon]:
        span = f"{known[0]:,}" if len(known) == 1 else f"between {known[0]:,} and {known[-1]:,}"
        text += f". The horizon is then {span} instead of {before.horizon:,}"
    return [Finding.of(f"{text}.", {"parts": len(free), "of": len(parts)}, "good")]


def _mean_against_zero(result: AblationResult) -> list[Finding]:
    """Whether an average in the part's place gives another result than zero in its place."""
    means = {ablation.part: ablation for ablation in result.of("mean", exact=True)}
    zeros = result.of("zero", exact=True)
    pairs = [(zero, means[zero.part]) for zero in zeros if zero.part in means]
    if not pairs:
        return []
    other = [pair for pair in pairs if pair[0].same_answers != pair[1].same_answers]
    over = f"(over {result.mean_over})"
    if not other:
        text = f"Mean ablation {over} agrees with zero ablation on which parts can be removed."
        return [Finding.of(text, {"parts": len(pairs)})]
    apart = [
        f"{zero.name}: {_short(zero)} at zero, {_short(mean)} at its mean"
        for zero, mean in sorted(other, key=lambda pair: not pair[0].whole)[:3]
    ]
    more = f"; and {len(other) - 3} more" if len(other) > 3 else ""
    text = f"Mean ablation {over} differs from zero ablation for {'; '.join(apart)}{more}."
    return [Finding.of(text, {"parts": len(other)})]


def _short(part: Ablated) -> str:
    if part.same_answers:
        return "no answer changes"
    return f"{number(_exact(part).errors) if _exact(part).errors else 'no'} strings wrong"


def _resampled(result: AblationResult) -> list[Finding]:
    errors = {part.name: part.test.errors for part in result.of("resample") if part.test}
    if not errors or result.resampled_test is None:
        return []
    before = result.resampled_test.errors
    worst = sorted(errors, key=lambda name: -errors[name])[:3]
    text = (
        "Replacing a part by its value on another string (resampling) gives these errors on "
        f"{result.resampled_strings:,} test strings: "
        f"{', '.join(f'{name} {errors[name]:,}' for name in worst)}; the model itself makes "
        f"{before:,}"
    )
    if harmless := list(errors.values()).count(before):
        text += f". {harmless} of {len(errors)} parts can be resampled without a new error there"
    return [Finding.of(f"{text}.", {"before": before, "most": errors[worst[0]]})]


def _moves(result: AblationResult) -> Finding:
    """Without anything exact, what there is: effects on the given strings."""
    effects = result.effects
    size = np.abs(effects.array[0]).mean(axis=1)
    order = np.argsort(-size, kind="stable")[:3]
    listed = [f"`{effects.labels['part'][p]}` by {size[p]:.4f}" for p in order]
    text = f"Set to zero, these parts move the given strings' logits most: {', '.join(listed)}."
    return Finding.of(text, {"largest": float(size[order[0]])})


def _cell(count: int) -> Cell:
    """Exact as digits where a JSON reader would round it."""
    return count if count <= 2**53 else str(count)
