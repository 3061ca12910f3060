"""What the circuit probe found, in sentences."""

from __future__ import annotations

from math import isnan

from tsc_interp.probes.circuit.result import Choice, Circuit, CircuitResult, listed
from tsc_interp.results.base import Cell, Finding


def findings(result: CircuitResult) -> tuple[Finding, ...]:
    statements = [_circuit(result)]
    if smaller := next((choice for choice in result.front if choice.vectors), None):
        statements.append(_cost(result, smaller))
    if result.circuit is not None:
        statements += [] if result.rows else [_own(result.circuit)]
        statements += _ranking(result)
    return tuple(statements)


def _circuit(result: CircuitResult) -> Finding:
    many, kinds = len(result.parts), result.kinds
    if result.rows is not None:
        return _measured(result)
    numbers: dict[str, Cell] = {"parts": many, "max length": result.max_length}
    if result.circuit is None or len(result.circuit.kept) == many:
        text = (
            f"No smaller part of the model was found that answers every string of up to "
            f"{result.max_length} letters as it does ({many} {kinds}, {result.search})."
        )
        return Finding.of(text, numbers)
    circuit = result.circuit
    text = (
        f"{len(circuit.kept)} of {many} {kinds} "
        f"{'answers' if len(circuit.kept) == 1 else 'answer'} "
        f"every string of up to {result.max_length} letters as the whole model does "
        f"({result.search}; exact): {listed(circuit.kept)}."
    )
    if circuit.agree_through is None:
        text += " They agree on every string of every length, proved."
    elif circuit.first_difference is not None:
        text += (
            f" The first string they answer differently is `{circuit.first_difference}`; up to "
            f"{circuit.agree_through:,} letters they agree, proved."
        )
    else:
        text += f" They agree up to {circuit.agree_through:,} letters, proved."
    return Finding.of(text, numbers | {"kept": len(circuit.kept)})


def _measured(result: CircuitResult) -> Finding:
    assert result.circuit is not None
    kept, many, rows = len(result.circuit.kept), len(result.parts), result.rows or 0
    where = f"all {rows} rows" if rows > 1 else "the row"
    text = (
        f"{kept} of {many} edges give the model's answer on {where} "
        f"({result.search}; measured on these rows, not proved): {listed(result.circuit.kept)}. "
        f"The others carry {result.fill}."
    )
    return Finding.of(text, {"parts": many, "kept": kept, "rows": rows})


def _cost(result: CircuitResult, choice: Choice) -> Finding:
    best = "best circuit" if result.search.startswith("all") else "best circuit found"
    text = (
        f"The {best} with {choice.size} of the {result.kinds} answers {choice.vectors:,} of the "
        f"{result.vectors:,} {result.over} differently; the first is `{choice.first}`."
    )
    return Finding.of(text, {"size": choice.size, "vectors": choice.vectors})


def _own(circuit: Circuit) -> Finding:
    before, after = circuit.model_verified_length, circuit.verified_length
    if after > before:
        text = (
            f"The circuit is right for longer than the model: up to {after:,} letters instead of "
            f"{before:,}. The removed parts did harm."
        )
    elif after < before:
        text = f"The circuit is right up to {after:,} letters, the model up to {before:,}."
    else:
        text = f"Circuit and model are both right up to {before:,} letters."
    return Finding.of(text, {"model": before, "circuit": after})


def _ranking(result: CircuitResult) -> list[Finding]:
    scores = dict(zip(result.auc.labels["method"], result.auc.array.tolist(), strict=True))
    known: dict[str, Cell] = {n: value for n, value in scores.items() if not isnan(value)}
    if not known:
        return []
    ranked = ", ".join(f"{name} {value:.2f}" for name, value in known.items())
    text = (
        "Cheaper rankings separate the circuit's parts from the others with a ROC AUC (1 is "
        f"perfect, 0.5 is chance) of: {ranked}."
    )
    return [Finding.of(text, known)]
