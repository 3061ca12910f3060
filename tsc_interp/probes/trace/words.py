"""What a trace says, in sentences."""

from __future__ import annotations

from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.results.base import Finding


def findings(result: TraceResult) -> tuple[Finding, ...]:
    logits = dict(zip(result.strings, result.logits.array.tolist(), strict=True))
    wrong = [s for s, right in zip(result.strings, result.right, strict=True) if not right]
    total = len(result.strings)
    text = f"All {total} strings traced are answered correctly ({result.task}?)."
    if wrong:
        examples = [
            f"`{string}` (logit {logits[string]:.4f}, should be "
            f"{'below' if logits[string] > 0 else 'above'} 0)"
            for string in wrong[:4]
        ]
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        are = "is" if len(wrong) == 1 else "are"
        text = (
            f"{len(wrong)} of the {total} strings traced {are} answered wrongly ({result.task}?): "
            f"{', '.join(examples)}{more}."
        )
    numbers = {"wrong": len(wrong), "strings": total}
    first = Finding.of(text, numbers, "failure" if wrong else "good")
    return (first, *_value_findings(result))


def _value_findings(result: TraceResult) -> list[Finding]:
    """What each one-dimensional head of a small first layer says when it reads one letter."""
    if result.value is None or len(result.value.labels["component"]) != 1:
        return []
    statements = []
    letters = result.value.labels["token"][1:]
    for head in result.value.labels["head"][:4]:
        values = {
            letter: float(result.value.at(layer=0, token=letter, head=head)[0, 0])
            for letter in letters
        }
        spoken = ", ".join(f"`{letter}` {value:.4f}" for letter, value in values.items())
        statements.append(
            Finding.of(
                f"The values of head {head}: {spoken}.",
                {f"value of {letter}": value for letter, value in values.items()},
            )
        )
    return statements
