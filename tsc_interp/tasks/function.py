"""A task given as a plain function of token rows, which is how training data are labelled.

    tsc.from_transformer_lens(model, tokens=[0, 1], query=2, task=lambda rows: rows[:, 0] == 1)

The function knows nothing of letters: it gets whole rows of the model's own tokens, and returns a
class for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from tsc_interp.errors import UsageError, shorten
from tsc_interp.strings import Counts
from tsc_interp.tasks.audit import every_short_string
from tsc_interp.tasks.base import Classes, OwnTask, Task, given_task

Function = Callable[[Any], Any]
Rows = Callable[[Tensor], Tensor]
"""Letters `[string, position]` of one length as rows of the model's tokens."""
_TOKENS_AT_ONCE = 2**22


def as_task(given: object, rows: Rows, n_letters: int, *, n_classes: int, ordered: bool) -> Any:
    """The task somebody gave: one of `tsc.tasks`, its name, or a function of token rows.

    Args:
        given: The task or the function.
        rows: Turns letters into what the function gets.
        n_letters: The size of the alphabet.
        n_classes: The number of the model's answers.
        ordered: Whether the model sees the order of letters. A function for a model that does not
            must give all strings with equal letter counts one class.

    Raises:
        UsageError: It is no task, or depends on an order that the model cannot see.
    """
    if not is_function(given):
        return given_task(given)
    task: Any = _task_class(cast(Function, given), rows, n_classes, ordered)
    task = task()
    if not ordered:
        _require_no_order(task, rows, n_letters)
    return task


def is_function(given: object) -> bool:
    return callable(given) and not isinstance(given, Task | type)


def classes_of(function: Function, rows: Tensor) -> Any:
    """What the function says of the rows, given as a tensor, or as an array if it needs one."""
    try:
        return function(rows)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return function(rows.numpy())


def _task_class(
    function: Function, rows: Rows, most_classes: int, sees_order: bool
) -> type[OwnTask]:
    name = getattr(function, "__name__", type(function).__name__)
    name = "your function" if name == "<lambda>" else f"your function {name}"

    class OfFunction(OwnTask):
        ordered: ClassVar[bool] = sees_order

        kind: Literal[name] = name  # type: ignore[valid-type]

        def n_classes(self, n_letters: int) -> int:
            return most_classes

        def labels(self, counts: Counts) -> Classes:
            return _labels(self, counts)

        def of_letters(self, letters: Classes) -> Any:
            """The classes of strings of one length."""
            found = np.asarray(classes_of(function, rows(torch.from_numpy(letters))))
            if found.shape != (len(letters),) or found.dtype.kind not in "iub":
                raise UsageError(
                    f"{name} must return a whole number, or True and False, for each of "
                    f"{len(letters)} rows; got {found.dtype} shaped {list(found.shape)}"
                )
            return found

    return OfFunction


def _labels(task: Any, given: Counts) -> Classes:
    """Of letters that end with -1, or of counts, for which any order of the letters stands."""
    flat = given.reshape(-1, given.shape[-1])
    lengths = (flat >= 0).sum(1) if task.ordered else flat.sum(1)
    classes = np.zeros(len(flat), dtype=np.int64)
    for length in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == length)
        for some in np.array_split(which, 1 + len(which) * length // _TOKENS_AT_ONCE):
            letters = flat[some, :length] if task.ordered else _in_order(flat[some])
            classes[some] = task.of_letters(letters)
    return classes if task.ordered else classes.reshape(given.shape[:-1])


def _in_order(counts: Counts) -> Classes:
    """The strings with these counts that have their letters in alphabetical order."""
    letters = np.tile(np.arange(counts.shape[1]), len(counts))
    return np.repeat(letters, counts.reshape(-1)).reshape(len(counts), -1)


def _require_no_order(task: Any, rows: Rows, n_letters: int) -> None:
    strings = every_short_string(n_letters)
    for length in range(2, strings.shape[1] + 1):
        letters = strings[(strings >= 0).sum(1) == length, :length]
        if not len(letters):
            continue
        differ = task.of_letters(letters) != task.of_letters(np.sort(letters, axis=1))
        if differ.any():
            row = letters[differ][:1]
            one, other = (rows(torch.from_numpy(r))[0].tolist() for r in (row, np.sort(row)))
            raise UsageError(
                f"{task.kind} gives the rows {shorten(one)} and {shorten(other)} different "
                "classes, but this model does not see the order of letters: it answers both alike"
            )
