"""What a trace says: its findings and its tables, from the result alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsc_interp.probes.base import Cell, Finding, Table

if TYPE_CHECKING:
    from tsc_interp.probes.trace import TraceResult


def tables(result: TraceResult) -> tuple[Table, ...]:
    return (
        _string_table(result),
        *_weight_tables(result),
        *_value_tables(result),
        _sizes(result),
    )


def findings(result: TraceResult, question: str) -> tuple[Finding, ...]:
    wrong = [s for s, right in zip(result.strings, result.right, strict=True) if not right]
    total = len(result.strings)
    if wrong:
        each = [
            f"`{string}` (logit {float(result.logits.at(string=string)):.4f}, should be "
            f"{'below' if float(result.logits.at(string=string)) > 0 else 'above'} 0)"
            for string in wrong[:4]
        ]
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        first = Finding(
            severity="failure",
            text=f"{len(wrong)} of the {total} strings traced are answered wrongly ({question}?): "
            f"{', '.join(each)}{more}.",
            numbers={"wrong": len(wrong), "strings": total},
        )
    else:
        first = Finding(
            severity="good",
            text=f"All {total} strings traced are answered correctly ({question}?).",
            numbers={"wrong": 0, "strings": total},
        )
    return (first, *_value_findings(result))


def _value_findings(result: TraceResult) -> list[Finding]:
    """What each one-dimensional head of a small first layer says when it reads one letter."""
    if result.value is None or len(result.value.labels["component"]) != 1:
        return []
    found = []
    letters = result.value.labels["token"][1:]
    for head in result.value.labels["head"][:4]:
        values = {
            letter: float(result.value.at(layer=0, token=letter, head=head)[0, 0])
            for letter in letters
        }
        spoken = ", ".join(f"`{letter}` {value:.4f}" for letter, value in values.items())
        found.append(
            Finding(
                severity="note",
                text=f"Head {head} contributes these values when it reads: {spoken}.",
                numbers={f"value of {letter}": value for letter, value in values.items()},
            )
        )
    return found


def _string_table(result: TraceResult) -> Table:
    final = result.states.array[-1, -1, :, 0]
    shown = final.shape[1] if final.shape[1] <= 4 else 0
    rows: list[tuple[Cell, ...]] = [
        (string, label, float(logit), "right" if right else "wrong", *map(float, state[:shown]))
        for string, label, logit, right, state in zip(
            result.strings, result.labels, result.logits.array, result.right, final, strict=True
        )
    ]
    dims = [f"transformed CLS, dimension {dim}" for dim in range(shown)]
    return Table(
        title="Strings and logits",
        columns=("string", "label", "logit", "answer", *dims),
        rows=tuple(rows),
    )


def _weight_tables(result: TraceResult) -> list[Table]:
    if result.weights is None:
        return []
    labels = result.weights.labels
    tokens = [t for t in labels["token"] if t != "CLS" or result.weights.at(token=t).any()]
    rows: list[tuple[Cell, ...]] = [
        (
            string,
            int(layer),
            int(head),
            *(
                float(result.weights.at(layer=layer, string=string, head=head, token=token))
                for token in tokens
            ),
        )
        for string in labels["string"]
        for layer in labels["layer"]
        for head in labels["head"]
    ]
    return [
        Table(
            title="CLS attention weight by letter (all copies together)",
            columns=("string", "layer", "head", *tokens),
            rows=tuple(rows),
        )
    ]


def _value_tables(result: TraceResult) -> list[Table]:
    if result.value is None or result.key is None or result.query is None:
        return []
    labels = result.value.labels
    rows: list[tuple[Cell, ...]] = [
        (
            int(head),
            int(component),
            token,
            *(
                float(part.at(layer=0, token=token, head=head, component=component)[0])
                for part in (result.query, result.key, result.value)
            ),
        )
        for head in labels["head"]
        for component in labels["component"]
        for token in labels["token"]
    ]
    return [
        Table(
            title="Query, key and value of each token (first layer)",
            columns=("head", "component", "token", "query", "key", "value"),
            rows=tuple(rows),
        )
    ]


def _sizes(result: TraceResult) -> Table:
    rows = zip(result.magnitudes.labels["weight"], result.magnitudes.array.tolist(), strict=True)
    return Table(
        title="Sizes of the weights",
        columns=("weight", "root mean square", "largest"),
        rows=tuple((name, *sizes) for name, sizes in rows),
    )
