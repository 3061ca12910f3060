"""Models that add two numbers: what their page shows of all pairs, counted exactly.

Each digit of the sum is a step. A pair is wrong at the first digit that the model gets wrong. The
map has a cell for the two digits a step adds and the carry that comes in; the sets of wrong pairs
that `verify` found are counted cell by cell, so its numbers are exact, too.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.regions import first_path
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.tasks.writing import Addition
from tsc_interp.verification.order.parts import Part
from tsc_interp.verification.order.verdict import OrderedVerdict

SECONDS = 60.0
"""To decide all pairs for a page: the adders that people published need 3 to 30."""
LARGEST_PROOF = 1_000_000
"""Bytes of a packed proof that a page still carries."""
_LOOKED_AT = 100
"""Sets of wrong pairs, the largest ones, in which the smallest pair of a cell is looked for."""

Cell = tuple[int, int, int]
"""The carry that comes in, and the digits of the first and the second number."""


def adds_numbers(config: ClassifierConfig) -> bool:
    """Whether the page about sums shows this model: two numbers in digits that can be typed."""
    return isinstance(config.task, Addition) and config.task.base <= 10


def decided(
    checkpoint: Checkpoint, seconds: float, progress: Callable[[float], None] | None = None
) -> OrderedVerdict:
    """Every pair, and a proof where the time suffices for one."""
    from tsc_interp.verification import verify

    verdict = verify(checkpoint, seconds=seconds, certify=True, progress=progress)
    assert isinstance(verdict, OrderedVerdict)  # an adder sees order
    return verdict


def sums_payload(config: ClassifierConfig, verdict: OrderedVerdict | None) -> dict[str, Any]:
    """Where digits stand in a row, and what is known of all pairs (None: nothing)."""
    task: Any = config.task
    fixed = dict(task.whole().fixed)
    width = task.digits + task.carry_digit
    last = task.prompt_length + width
    places = {
        name: [_place(task, name, digit) for digit in range(task.digits)] for name in "ab"
    } | {"s": [_place(task, "s", digit, last) for digit in range(width)]}
    return {
        "first": None if verdict is None else _first(task, verdict),
        "digits": task.digits,
        "base": task.base,
        "places": places,
        "fixed": [fixed.get(place) for place in range(task.prompt_length)],
        "writes": [
            fixed.get(place)
            for place in range(task.prompt_length, task.prompt_length + task.n_steps)
        ],
        "known": None if verdict is None else _known(task, verdict),
    }


def _known(task: Addition, verdict: OrderedVerdict) -> dict[str, Any]:
    """Counts, as text where JavaScript's numbers would round them."""
    certificate = verdict.certificate
    return {
        "pairs": str(verdict.inputs),
        "right": str(verdict.right),
        "wrong": str(verdict.wrong),
        "undecided": str(verdict.undecided),
        "examined": sum(part.examined for part in verdict.parts),
        "steps": [
            {
                "wrong": str(part.wrong),
                "undecided": str(part.undecided),
                "sizes": [str(cell_size(task, step, carry)) for carry in (0, 1)],
                "cells": list(_shown_cells(task, part)) if has_map(task, step) else None,
            }
            for step, part in enumerate(verdict.parts)
        ],
        "proof": None if certificate is None else _proof(certificate.document),
    }


def _proof(document: dict[str, Any]) -> dict[str, Any]:
    content = (json.dumps(document) + "\n").encode()
    packed = gzip.compress(content, mtime=0)
    counted = [
        {name: str(part[name]) for name in ("inputs", "right", "wrong")}
        for part in document["conclusion"]["tables"]
    ]
    carried = b64encode(packed).decode() if len(packed) <= LARGEST_PROOF else None
    return {"bytes": len(content), "packed": len(packed), "steps": counted, "content": carried}


# -- cells ---------------------------------------------------------------------------------------


def _shown_cells(task: Addition, part: Part) -> Iterator[list[Any]]:
    """Carry, digits, wrong and undecided pairs, and the smallest wrong one, where there are any."""
    wrong = cell_counts(task, part)
    undecided = cell_counts(task, part, undecided=True)
    for cell in sorted({*wrong, *undecided}):
        pair = smallest_pair(task, part, cell) if wrong.get(cell) else None
        yield [*cell, str(wrong.get(cell, 0)), str(undecided.get(cell, 0)), pair]


def has_map(task: Addition, step: int) -> bool:
    """Whether a step belongs to a digit, and what is read tells which carry came in."""
    width = task.digits + task.carry_digit
    # The carry written first tells neither; a token that ends the answer belongs to no digit.
    return step < width and not (task.total == "most" and task.carry_digit and step == 0)


def digit_of(task: Addition, step: int) -> int:
    """The digit of both numbers that the map of a step is about; the last carry has the last's."""
    width = task.digits + task.carry_digit
    return min(step if task.total == "least" else width - 1 - step, task.digits - 1)


def cell_counts(task: Addition, part: Part, *, undecided: bool = False) -> dict[Cell, int]:
    """The number of wrong (or undecided) pairs in each cell of a step's map."""
    counts: dict[Cell, int] = {}
    assert part.step is not None
    digit = digit_of(task, part.step)
    for regions in part.regions(undecided):
        if not len(regions):
            continue
        number, cells = _edges(task, regions.trellis, digit)
        through = regions.through(exact=True)[number].sum(0)
        for cell, count in zip(map(tuple, cells.tolist()), through.tolist(), strict=True):
            if count:
                counts[cell] = counts.get(cell, 0) + int(count)
    rows = part.undecided_inputs if undecided else part.wrong_inputs
    for row in rows.tolist():
        cell = _cell_of(task, row, digit)
        counts[cell] = counts.get(cell, 0) + 1
    return counts


def _first(task: Addition, verdict: OrderedVerdict) -> list[str] | None:
    """The first wrong pair of all."""
    rows = [row for row in (part.first() for part in verdict.parts) if row is not None]
    return _pair(task, min(rows)) if rows else None


def _pair(task: Addition, row: tuple[int, ...]) -> list[str]:
    """Both numbers, with their zeros."""
    return [
        "".join(str(row[_place(task, name, at)]) for at in reversed(range(task.digits)))
        for name in "ab"
    ]


def smallest_pair(task: Addition, part: Part, cell: Cell) -> list[str]:
    """The first wrong pair of a cell, of its largest sets where it has very many."""
    assert part.step is not None
    digit = digit_of(task, part.step)
    found = []
    for regions in part.regions():
        if not len(regions):
            continue
        number, cells = _edges(task, regions.trellis, digit)
        masks = list(regions.masks)
        masks[number] = masks[number] & (cells == cell).all(1)
        inside = regions.with_masks(masks).pruned()[0]
        if len(inside):
            largest = np.argsort(-inside.sizes())[:_LOOKED_AT]
            found.append(first_path([inside[largest]]))
    found += [
        tuple(row) for row in part.wrong_inputs.tolist() if _cell_of(task, row, digit) == cell
    ]
    return _pair(task, min(found))


def _place(task: Addition, name: str, digit: int, end: int | None = None) -> int:
    """Where a digit stands; those of the sum stand behind the prompt."""
    places = range(task.prompt_length if end is None else end)
    return next(at for at in places if task.place_name(at) == f"{name}{digit}")


def _edges(task: Addition, trellis: Trellis, digit: int) -> tuple[int, Index]:
    """The stage that places a digit of both numbers, and the cell `[edge 3]` of each edge."""
    number, column = trellis.place_of[_place(task, "a", digit)]
    stage = trellis.stages[number]
    a = stage.letters[:, column]
    b = stage.letters[:, trellis.place_of[_place(task, "b", digit)][1]]
    names = [task.place_name(place) for place in stage.places]
    # The sum's digit is placed here once it was written; before, it is the label.
    written = f"s{digit}" in names
    total = stage.letters[:, names.index(f"s{digit}")] if written else trellis.label
    return number, np.column_stack([(total - a - b) % task.base, a, b])


def _cell_of(task: Addition, row: list[int], digit: int) -> Cell:
    a, b = ([row[_place(task, name, at)] for at in range(digit + 1)] for name in "ab")
    low = sum((x + y) * task.base**at for at, (x, y) in enumerate(zip(a, b, strict=True)))
    return (low // task.base**digit - a[digit] - b[digit], a[digit], b[digit])


def cell_size(task: Addition, step: int, carry: int) -> int:
    """The number of pairs in one cell: higher digits are free, lower ones make the carry."""
    digit = digit_of(task, step)
    below, above = task.base**digit, task.base ** (task.digits - 1 - digit)
    carrying = below * (below - 1) // 2
    return int((carrying if carry else below**2 - carrying) * above**2)
