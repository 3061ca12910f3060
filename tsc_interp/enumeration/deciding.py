"""Whether a model is right on each of many inputs: float64 with a rounding bound, then balls."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from tsc_interp.enumeration.exact import Exact
from tsc_interp.enumeration.network import Network
from tsc_interp.enumeration.running import Runner

RIGHT, WRONG, OPEN, LATE = 1, -1, 0, -2
"""What an input is; open: no precision decides it; late: time did not suffice."""
Index = NDArray[np.int64]
States = NDArray[np.int8]
_ONE_AT_A_TIME = Lock()


class OutOfTime(Exception):
    """The seconds allowed are spent."""


class Deciding:
    """A network in both forms.

    Args:
        network: The model.
        check: Called now and then; raises `OutOfTime` to end it.
    """

    def __init__(self, network: Network, check: Callable[[], None]) -> None:
        self.check = check
        self.runner = Runner(network, torch.float64, bounded=True)
        self.exact = Exact(network, check)

    def __call__(
        self, rows: Index, reads: tuple[int, ...], wanted: Index, at_once: Callable[[int], int]
    ) -> tuple[States, int]:
        """Decide inputs of one length.

        Args:
            rows: Tokens `[input position]`; in the order of a dictionary, prefixes are shared.
            reads: The positions read.
            wanted: The output that should be largest `[input read]`; -1 for any.
            at_once: How many rows to run together, of at most so many.

        Returns:
            The state of each input, and for how many float64 did not suffice.

        Raises:
            OutOfTime: Before all were run in float64.
        """
        state = np.empty(len(rows), dtype=np.int8)
        tokens, label = torch.from_numpy(rows), torch.from_numpy(np.maximum(wanted, 0))[..., None]
        any_output = torch.from_numpy(wanted < 0)
        step = max(1, at_once(self.runner.rows_at_once(rows.shape[1])))
        for first in range(0, len(rows), step):
            batch = slice(first, first + step)
            self.check()
            outputs, bound = self.runner(tokens[batch], reads)
            assert bound is not None
            own = outputs.gather(-1, label[batch])[..., 0]
            gap = own - outputs.scatter(-1, label[batch], -torch.inf).amax(-1)
            gap = gap.masked_fill(any_output[batch], torch.inf)
            # Twice the bound, as two outputs are compared, and a little for the subtraction.
            room = 2.01 * bound + 1e-15 * outputs.abs().amax(dim=(-1, -2))
            wrong = torch.where((gap < -room[:, None]).any(-1), WRONG, OPEN)
            state[batch] = torch.where((gap > room[:, None]).all(-1), RIGHT, wrong).numpy()
        near = np.flatnonzero(state == OPEN)
        state[near] = LATE
        for i in near.tolist():
            try:
                right = self.in_balls(rows[i], reads, wanted[i])
            except OutOfTime:
                break
            state[i] = OPEN if right is None else RIGHT if right else WRONG
        return state, len(near)

    def in_balls(self, row: Index, reads: tuple[int, ...], wanted: Index) -> bool | None:
        """Whether one input is right, in ball arithmetic; None: undecided."""
        self.check()
        asked = np.flatnonzero(wanted >= 0).tolist()
        with _ONE_AT_A_TIME:  # flint has one precision for all threads
            return self.exact.right(
                row.tolist(), [reads[i] for i in asked], [int(wanted[i]) for i in asked]
            )
