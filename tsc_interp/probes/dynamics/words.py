"""What the dynamics probe found, in sentences."""

from __future__ import annotations

import numpy as np

from tsc_interp.probes.dynamics.result import DynamicsResult
from tsc_interp.results.base import Cell, Finding, LabeledArray


def findings(result: DynamicsResult) -> tuple[Finding, ...]:
    statements = [_course(result)]
    if result.errors is not None:
        statements.append(_best_epoch(result, result.errors))
    if result.horizons is not None:
        statements.append(_horizons(result, result.horizons))
    if result.scores is not None:
        statements += _margins(result.scores, end_of(result))
    return tuple(statements)


def end_of(result: DynamicsResult) -> int:
    """The place of the chosen epoch, or of the last one if none is chosen yet."""
    if result.chosen_epoch in result.epochs:
        return result.epochs.index(result.chosen_epoch)
    return len(result.epochs) - 1


def _course(result: DynamicsResult) -> Finding:
    chosen = result.chosen_epoch
    ended = f"epoch {chosen} was chosen" if chosen is not None else "it is not finished"
    text = f"The run has epochs {result.epochs[0]} to {result.epochs[-1]}; {ended}"
    numbers: dict[str, Cell] = {"last epoch": result.epochs[-1], "chosen epoch": chosen}
    if result.losses is not None and chosen in result.epochs:
        loss = float(result.losses.at(epoch=chosen, set="validation"))
        text += f", with validation loss {loss:.4f}"
        numbers["validation loss"] = loss
    return Finding.of(f"{text}.", numbers)


def _best_epoch(result: DynamicsResult, errors: LabeledArray) -> Finding:
    totals = errors.array.sum(axis=1)
    end, best = end_of(result), int(totals.argmin())
    at_end, at_best = int(totals[end]), int(totals[best])
    text = f"Test errors fall from {int(totals[0]):,} to {at_end:,} at epoch {result.epochs[end]}"
    if at_best < at_end:
        text += (
            f", but epoch {result.epochs[best]} makes only {at_best:,}: the validation loss, on "
            "shorter strings, did not reveal it"
        )
    return Finding.of(
        f"{text}.",
        {
            "errors at the start": int(totals[0]),
            f"errors at epoch {result.epochs[end]}": at_end,
            f"errors at epoch {result.epochs[best]}": at_best,
        },
        "warning" if at_best < at_end else "note",
    )


def _horizons(result: DynamicsResult, horizons: LabeledArray) -> Finding:
    lengths = horizons.array.astype(int)
    end, best = end_of(result), int(lengths.argmax())
    return Finding.of(
        f"At epoch {result.epochs[end]} every string of up to {lengths[end]:,} letters is "
        f"proved right; the largest such length in the run is {lengths[best]:,}, at epoch "
        f"{result.epochs[best]}.",
        {f"epoch {e}": int(n) for e, n in zip(result.epochs, lengths, strict=True)},
    )


def _margins(scores: LabeledArray, end: int, most: int = 4) -> list[Finding]:
    if len(scores.labels["letter"]) < 2:
        return []
    statements = []
    for index, head in enumerate(scores.labels["head"][:most]):
        first, last = scores.array[0, index], scores.array[end, index]
        target = int(last.argmax())
        others = np.delete(np.arange(len(last)), target)
        before, after = (row[target] - row[others].max() for row in (first, last))
        letter = scores.labels["letter"][target]
        statements.append(
            Finding.of(
                f"Head {head} learns to read `{letter}`: the lead of its score over the next "
                f"letter goes from {before:+.4f} at the start to {after:+.4f}.",
                {"margin at the start": float(before), "margin at the end": float(after)},
            )
        )
    return statements
